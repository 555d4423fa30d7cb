//! The modules that put entries into the table, on a device that holds eight, the engine's own among them, and says
//! when it is full: none says of entries that were refused what only accepted ones can be held to.

use crate::document::{Cell, Document};
use crate::dut::profile::Profile;
use crate::truth::{Set, failing, sentences, simulated};

fn on_tiny(module: &str, set: Set) -> Document {
    let text = "name = \"tiny\"\nabout = \"holds 8 entries and says when it is full\"\n[table]\nentries = 8";
    let device = Profile::read("tiny", text).unwrap();
    simulated(device, None, (module, set), 0).unwrap()
}

fn sentence<'a>(d: &'a Document, id: &str) -> &'a str {
    d.verdicts.iter().find(|v| v.id == id).map_or("", |v| &v.sentence)
}

#[test]
fn who_can_do_nothing_says_how_to_take_fewer() {
    for (module, set, hint) in [
        ("flow-insert", &[("entries", "10,100")][..], "one of 10 entries"),
        ("flow-modify", &[("entries", "10,100")], "one of 10 entries"),
        ("flow-stats", &[("flows", "100")], "one of 100 exact entries"),
        ("interaction", &[("flows", "100")], "one of 100 exact entries"),
        ("consistency", &[("flows", "64")], "one of 64 entries"),
        ("counters", &[("flows", "10")], "one of 10 flows"),
    ] {
        let d = on_tiny(module, set);
        let partial = d.partial.clone().unwrap_or_default();
        assert!(partial.contains(hint) && partial.contains("TableFull"), "{module}: {partial:?}");
        assert!(partial.contains("--set "), "{module}: {partial:?}");
        let fails: Vec<_> = failing(&d).into_iter().filter(|id| *id != "entries-work").collect();
        assert!(fails.is_empty(), "{module}: {}", sentences(&d));
    }
}

#[test]
fn sizes_that_fit_are_measured_and_the_others_cost_no_time() {
    for module in ["flow-insert", "flow-modify"] {
        let d = on_tiny(module, &[("entries", "5,100"), ("repetitions", "3")]);
        assert_eq!(d.partial, None, "{module}");
        let fails: Vec<_> = failing(&d).into_iter().filter(|id| *id != "entries-work").collect();
        assert!(fails.is_empty(), "{module}: {}", sentences(&d));
        let rows = &d.tables[0].rows;
        let refused = |n: f64| {
            let is_full = |c: &Cell| matches!(c, Cell::Text(t) if t.contains("TableFull"));
            rows.iter().filter(|r| r.contains(&Cell::Number(n)) && r.iter().any(is_full)).count()
        };
        assert_eq!((refused(5.0), refused(100.0)), (0, rows.len() / 2), "{module}: {rows:?}");
        // Less than the time that one entry is given to come to work.
        let took = d.duration_s;
        assert!(took < 20.0, "{module}: {took}");
    }
}

/// Two steps need twice the entries.
#[test]
fn an_update_that_is_refused_is_none() {
    let d = on_tiny("consistency", &[("flows", "5"), ("repetitions", "3"), ("wait", "10")]);
    assert_eq!(d.partial, None);
    assert!(failing(&d).is_empty(), "{}", sentences(&d));
    let updates: Vec<_> = d.tables[0].rows.iter().map(|r| r[1].clone()).collect();
    assert_eq!(updates, [3.0, 3.0, 0.0].map(Cell::Number));
    assert!(d.duration_s < 5.0, "{}", d.duration_s);
}

#[test]
fn time_outs_are_those_of_the_flows_that_are_there() {
    let d = on_tiny("expiry", &[("flows", "10"), ("timeouts", "1,2"), ("rate", "0.1")]);
    assert!(failing(&d).is_empty(), "{}", sentences(&d));
    assert_eq!(d.partial, None);
    // Seven beside the rule that drops the rest, all of them with hard time-outs.
    let told = sentence(&d, "removals-told");
    assert!(told.contains("refused 26 more of 40 flows"), "{told}");
}
