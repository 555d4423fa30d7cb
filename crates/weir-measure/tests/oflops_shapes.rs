//! 001's table 2 and figures 3 to 6 on devices that are configured to behave as its switches did: the
//! shapes come out, and each verdict is found without being told. In virtual time, by OpenFlow 1.0.

use weir_measure::document::{Cell, Document, Dut, Outcome, Table};
use weir_measure::dut::profile::Profile;
use weir_measure::engine::configured::Configured;
use weir_measure::engine::simulation::{EPOCH, World, simulate};
use weir_measure::engine::{Core, Settings};
use weir_measure::environment::Environment;
use weir_measure::module::Depth;
use weir_measure::modules;
use weir_measure::studies::{Study, oflops};

fn on(profile: &str, study: &Study, set: &[(&str, &str)]) -> Document {
    let entry = modules::find(study.module).unwrap();
    let mut params = study.params(&entry, Depth::Quick).unwrap();
    set.iter().for_each(|(name, value)| params.set(name, value).unwrap());
    let dut = Dut { name: profile.to_owned(), ..Dut::default() };
    let document = Document::new(study.module, "", dut, Environment::nowhere());
    let settings = Settings::new(["a", "b"].map(str::to_owned).to_vec());
    let core = Core::new(settings, (entry.make)(&params), params, document, EPOCH);
    let profile = Profile::builtin(profile).unwrap();
    let mut dut = Configured::new(profile).speaking(oflops::VERSION);
    simulate(core, &mut dut, World::default()).unwrap()
}

fn table<'d>(d: &'d Document, id: &str) -> &'d Table {
    d.tables.iter().find(|t| t.id == id).unwrap()
}

/// The number in the row that begins so.
fn cell(t: &Table, row: &Cell, column: &str) -> f64 {
    let at = t.columns.iter().position(|c| c.name == column).unwrap();
    let row = t.rows.iter().find(|r| r[0] == *row).unwrap_or_else(|| panic!("no row {row:?}"));
    match row[at] {
        Cell::Number(n) => n,
        ref other => panic!("{column}: {other:?}"),
    }
}

fn find(id: &str) -> &'static Study {
    oflops::find(id).unwrap()
}

#[test]
fn every_fault_is_named_and_an_honest_device_is_not() {
    for study in oflops::ALL.iter().filter(|s| !s.mimics.is_empty()) {
        let set: &[_] = match study.module {
            "actions" => &[("duration", "0.05"), ("rate", "10")],
            "flow-stats" => &[("rates", "2,10"), ("rate", "0.4")],
            "flow-modify" => &[],
            "interaction" => {
                &[("flows", "400"), ("rates", "60"), ("rate", "4"), ("repetitions", "3")]
            }
            _ => &[("rate", "2"), ("repetitions", "4")],
        };
        let measured: Vec<_> = study.mimics.iter().map(|m| on(m.profile, study, set)).collect();
        let wrong = study.misjudged(&measured);
        assert!(wrong.is_empty(), "{}: {wrong:#?}", study.id);
        // The overview says so, and what was published stands beside.
        let all = study.assemble(measured, Environment::nowhere());
        assert_eq!(all[0].verdicts[0].outcome, Outcome::Holds);
        assert_eq!(all[0].tables[0].id, "stated");
        all.iter().for_each(|d| d.check().unwrap());
    }
}

#[test]
fn a_fault_that_is_not_named_is_noticed() {
    let study = find("oflops-insert");
    // The fault was not configured, so its verdict holds where it must fail.
    let mut d = on("honest", study, &[]);
    d.dut.name = "early-barrier".to_owned();
    let wrong = study.misjudged(&[d]);
    assert_eq!(wrong, ["barrier-truthful on early-barrier is holds; it must be 'fails'"]);
}

#[test]
fn table_2() {
    let study = find("oflops-actions");
    // The delay wanders over tens of milliseconds: seconds make a median.
    let set = [("duration", "5"), ("rate", "0.8")];
    let slow = on("cpu-modify", study, &set);
    let t = table(&slow, "actions");
    let forward = cell(t, &Cell::from("Forward"), "median");
    for name in ["MAC addr.", "IP addr.", "L4 port", "VLAN id", "VLAN rem."] {
        let row = Cell::from(name);
        let (median, loss) = (cell(t, &row, "median"), cell(t, &row, "loss"));
        assert!((200.0..450.0).contains(&median), "{name}: {median} µs");
        assert!((86.0..90.0).contains(&loss), "{name}: {loss} %");
        assert!(cell(t, &row, "standard deviation") > 100.0);
    }
    for name in ["IP ToS", "VLAN pcp"] {
        let row = Cell::from(name);
        assert!((cell(t, &row, "median") - forward).abs() < 1.0, "{name}");
        assert_eq!(cell(t, &row, "loss"), 0.0);
    }
    let discards = on("discards-actions", study, &set);
    let t = table(&discards, "actions");
    for (name, loss) in [
        ("Forward", 0.0),
        ("MAC addr.", 100.0),
        ("IP addr.", 100.0),
        ("IP ToS", 100.0),
        ("L4 port", 100.0),
        ("VLAN pcp", 0.0),
        ("VLAN id", 0.0),
        ("VLAN rem.", 0.0),
    ] {
        assert_eq!(cell(t, &Cell::from(name), "loss"), loss, "{name}");
    }
}

#[test]
fn figure_3() {
    let sizes = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0];
    // At this rate a round of probes over 200 entries takes 4 ms.
    let set = [("entries", "1,2,5,10,20,50,100,200"), ("repetitions", "2"), ("rate", "40")];
    let d = on("early-barrier", find("oflops-insert"), &set);
    let t = table(&d, "insertion");
    let at = |n: f64, column| cell(t, &Cell::from(n), column);
    // 1.8 ms for one, towards 1 ms for each of many.
    assert!((at(1.0, "first packet") - 1.8).abs() < 0.1, "{}", at(1.0, "first packet"));
    let per: Vec<f64> = sizes.iter().map(|&n| at(n, "per entry")).collect();
    assert!(per.is_sorted_by(|a, b| *a >= b - 20.0), "{per:?}");
    assert!((1000.0..1025.0).contains(per.last().unwrap()), "{per:?}");
    for n in sizes {
        assert!(at(n, "barrier") < 1.0, "the reply does not wait: {n}");
        assert!(at(n, "barrier") < at(n, "first packet"));
        assert!(at(n, "transmission") <= at(n, "barrier"));
    }
}

#[test]
fn figure_4() {
    let set = [("entries", "1,5,20,100"), ("repetitions", "3"), ("watch", "last")];
    let d = on("modify-dear", find("oflops-modify"), &set);
    let figure = d.figures.iter().find(|f| f.id == "flow-modification").unwrap();
    let curve = |name: &str| -> Vec<f64> {
        let s = figure.series.iter().find(|s| s.name == name).unwrap();
        s.points.iter().map(|p| p.y.unwrap()).collect()
    };
    for kind in ["exact", "wildcard"] {
        let (insert, modify) =
            (curve(&format!("insert, {kind}")), curve(&format!("modify, {kind}")));
        let ratios: Vec<f64> = modify.iter().zip(&insert).map(|(m, i)| m / i).collect();
        // As dear up to ten entries, three times as dear past them.
        assert!(ratios[..2].iter().all(|r| (0.8..1.3).contains(r)), "{kind}: {ratios:?}");
        assert!(ratios[2..].iter().all(|r| (2.0..3.2).contains(r)), "{kind}: {ratios:?}");
    }
}

#[test]
fn figure_5() {
    let set = [("rates", "1,2,10,20"), ("flows", "50"), ("duration", "3"), ("rate", "1")];
    let study = find("oflops-stats");
    let paced = on("paced-stats", study, &set);
    let t = table(&paced, "flow-stats");
    // A part for each flow (and one for the rule that drops the rest) at low rates, one at higher.
    assert!(cell(t, &Cell::from(1.0), "parts") >= 50.0);
    assert!(cell(t, &Cell::from(20.0), "parts") <= 2.0);
    let slow = on("slow-stats", study, &set);
    let t = table(&slow, "flow-stats");
    // 5 ms and 20 µs for each of 51 flows, whatever the rate.
    for rate in [1.0, 2.0, 10.0, 20.0] {
        let delay = cell(t, &Cell::from(rate), "delay");
        assert!((delay - 6.02).abs() < 0.3, "{rate}: {delay} ms");
    }
    let honest = on("honest", study, &set);
    assert!(cell(table(&honest, "flow-stats"), &Cell::from(1.0), "delay") < 0.2);
}

#[test]
fn figure_6() {
    let set = [("flows", "400"), ("rates", "2,10,40"), ("repetitions", "3"), ("rate", "4")];
    let study = find("oflops-interaction");
    let delays = |profile: &str| -> Vec<f64> {
        let d = on(profile, study, &set);
        let t = &d.tables[0];
        let at = t.columns.iter().position(|c| c.name == "data plane").unwrap();
        let number = |c: &Cell| if let Cell::Number(n) = c { *n } else { f64::NAN };
        t.rows.iter().map(|r| number(&r[at])).collect()
    };
    // Without polling, then at each rate.
    let slowed = delays("stats-slow-updates");
    assert!(slowed[1] < 1.4 * slowed[0] && slowed[3] > 1.4 * slowed[0], "{slowed:?}");
    let honest = delays("honest");
    // A round of probes over the changed entries, give or take.
    assert!(honest.iter().all(|d| (d - honest[0]).abs() < 12.0), "{honest:?}");
}

#[test]
fn what_is_published_stands_beside() {
    let study = find("oflops-actions");
    let measured = on("honest", study, &[("duration", "0.01"), ("rate", "10")]);
    let all = study.assemble(vec![measured], Environment::nowhere());
    let names: Vec<_> = all.iter().map(|d| d.dut.name.as_str()).collect();
    assert_eq!(
        names[2..],
        ["Switch1", "OpenVSwitch", "Switch2", "Switch3", "NetFPGA"].map(|n| format!("{n} (001)"))
    );
    let switch2 = table(&all[4], "actions");
    assert_eq!(cell(switch2, &Cell::from("MAC addr."), "standard deviation"), 727.0);
    assert_eq!(cell(switch2, &Cell::from("VLAN rem."), "median"), 335.0);
    // Nothing is said of what the paper does not state.
    let right = switch2.columns.iter().position(|c| c.name == "right").unwrap();
    assert!(switch2.rows.iter().all(|r| r[right] == Cell::NotStated));
    let page = weir_measure::report::html(&all);
    assert!(page.contains("Switch2 (001): delay") && page.contains("Published, not measured here"));
}
