//! `rfc2544` on devices in virtual time whose capacity, loss and buffer are known.

mod toy;

use toy::{Spoils, core, core_of};
use weir_measure::document::{Cell, Document, Outcome};
use weir_measure::dut::profile::Profile;
use weir_measure::engine::configured::Configured;
use weir_measure::engine::simulation::{World, simulate};
use weir_measure::engine::{Resets, Settings};
use weir_measure::truth::failing;
use weir_packet::Nanos;

fn on(profile: &str, set: &[(&str, &str)]) -> Document {
    let text = format!("name = \"t\"\nabout = \"a device\"\n{profile}");
    let mut dut = Configured::new(Profile::read("t", &text).unwrap());
    simulate(core("rfc2544", set), &mut dut, World::default()).unwrap()
}

fn outcome(d: &Document, id: &str) -> Outcome {
    d.verdicts.iter().find(|v| v.id == id).unwrap().outcome
}

fn cell<'d>(d: &'d Document, table: &str, column: &str) -> &'d Cell {
    let t = d.tables.iter().find(|t| t.id == table).unwrap();
    let at = t.columns.iter().position(|c| c.name == column).unwrap();
    &t.rows[0][at]
}

fn number(d: &Document, table: &str, column: &str) -> f64 {
    match cell(d, table, column) {
        Cell::Number(n) => *n,
        other => panic!("{column}: {other:?}"),
    }
}

/// 64-byte frames at 10 Mb/s are 14,881 a second (RFC 2544 appendix B).
const LINE: &[(&str, &str)] =
    &[("sizes", "64"), ("line", "10"), ("trial", "0.2"), ("wait", "0.25")];

#[test]
fn a_device_that_carries_the_line() {
    let d = on("", LINE);
    assert_eq!(outcome(&d, "carries-the-line"), Outcome::Holds, "{:?}", d.verdicts);
    assert_eq!(outcome(&d, "carries-some-rate-whole"), Outcome::Holds);
    for column in ["line", "throughput", "NDR", "PDR", "PDR forwarded"] {
        let got = number(&d, "throughput", column);
        assert!((got - 14_880.95).abs() < 0.1, "{column}: {got}");
    }
    assert_eq!(cell(&d, "throughput", "limit"), &Cell::from("line"));
    // Two wires of half a microsecond.
    assert_eq!(number(&d, "latency", "p99"), 1.0);
    // A hundredth of a second at 10 Mb/s.
    assert_eq!(number(&d, "back-to-back", "mean"), 149.0);
    assert_eq!(d.partial, None);
}

#[test]
fn a_device_of_known_capacity_and_buffer() {
    let slow = "[actions.cpu]\ndoes = [\"forward\"]\nper_second = 5000\nqueue = 64\n";
    let d = on(slow, LINE);
    assert_eq!(outcome(&d, "carries-the-line"), Outcome::Fails, "{:?}", d.verdicts);
    assert_eq!(cell(&d, "throughput", "limit"), &Cell::from("switch"));
    // What it does in 0.2 s and what may wait: 5000 a second, and 64 (or 65) at once.
    for column in ["throughput", "NDR", "PDR"] {
        let got = number(&d, "throughput", column);
        assert!((4_900.0..5_600.0).contains(&got), "{column}: {got}");
    }
    let burst = number(&d, "back-to-back", "mean");
    assert!((64.0..=66.0).contains(&burst), "{burst}");
    let loss = d.figures.iter().find(|f| f.id == "frame-loss").unwrap();
    let top = loss.series[0].points.last().unwrap();
    let want = (1.0 - 5_000.0 / 14_880.95) * 100.0;
    assert!((top.y.unwrap() - want).abs() < 3.0, "{top:?} for {want}");
}

#[test]
fn a_device_that_always_loses_has_no_throughput_and_may_have_a_pdr() {
    for (percent, pdr) in [("0.2", true), ("30", false)] {
        // Long enough to tell a fifth of a percent from none at the lowest rate: of 15 frames a second.
        let set = [LINE, &[("benchmark", "mlr"), ("trial", "1"), ("pdr", "1")]].concat();
        let d = on(&format!("[forwarding]\nlose_percent = {percent}\n"), &set);
        let found = matches!(cell(&d, "throughput", "PDR"), Cell::Number(_));
        assert_eq!(found, pdr, "{percent} %: {:?}", d.tables);
    }
    // Fifteen frames a trial at the lowest rate, of which two in five are lost.
    let set = [LINE, &[("benchmark", "throughput"), ("trial", "1")]].concat();
    let d = on("[forwarding]\nlose_percent = 40\n", &set);
    assert_eq!(outcome(&d, "carries-some-rate-whole"), Outcome::Fails, "{:?}", d.verdicts);
    assert_eq!(cell(&d, "throughput", "throughput"), &Cell::from("none"));
}

#[test]
fn a_reset_costs_what_the_switch_takes_to_come_up_and_to_be_told_its_rule() {
    let set = [LINE, &[("benchmark", "throughput")]].concat();
    let of = |boot| {
        let text = "name = \"t\"\nabout = \"t\"";
        let mut dut = Configured::new(Profile::read("t", text).unwrap()).booting_in(boot);
        let mut settings = Settings::new(vec!["a".to_owned(), "b".to_owned()]);
        settings.resets = Resets::ByCommand;
        simulate(core_of("rfc2544", &set, settings), &mut dut, World::default()).unwrap()
    };
    let d = of(Nanos::from_millis(1_700));
    let v = d.verdicts.iter().find(|v| v.id == "reset-recovers").unwrap();
    assert_eq!(v.outcome, Outcome::Holds, "{v:?}");
    let value = |name: &str| v.evidence.iter().find(|x| x.what == name).unwrap().value.unwrap();
    // A connection is tried again every half second: after 2 s the fourth time, and the rule with it.
    for name in ["by frames lost", "longest silence"] {
        assert!((2.0..2.02).contains(&value(name)), "{name}: {}", value(name));
    }
    assert!((value("frames lost") / 10_000.0 - value("longest silence")).abs() < 1e-3);
    // One that comes up too late.
    let d = of(Nanos::from_secs(100));
    assert_eq!(outcome(&d, "reset-recovers"), Outcome::Fails, "{:?}", d.verdicts);
    // Where it can't be reset, nothing is said.
    assert!(on("", &set).verdicts.iter().all(|v| v.id != "reset-recovers"));
}

#[test]
fn a_reset_that_nobody_makes_is_not_seen() {
    let d = on(
        "",
        &[LINE, &[("benchmark", "throughput"), ("reset", "1"), ("reset-by", "hand")]].concat(),
    );
    assert_eq!(outcome(&d, "reset-recovers"), Outcome::Unclear, "{:?}", d.verdicts);
}

/// What came so, of all benchmarks.
fn summed(d: &Document, column: &str) -> f64 {
    let t = d.tables.iter().find(|t| t.id == "came").unwrap();
    let at = t.columns.iter().position(|c| c.name == column).unwrap();
    let value = |row: &Vec<Cell>| match row[at] {
        Cell::Number(n) => n,
        _ => panic!("{column}"),
    };
    t.rows.iter().map(value).sum()
}

#[test]
fn frames_that_come_twice_out_of_order_or_changed_are_told() {
    let set = [LINE, &[("benchmark", "loss"), ("sizes", "128")]].concat();
    let honest = on("", &set);
    assert_eq!(failing(&honest), [""; 0], "{:?}", honest.verdicts);
    let d = on("[forwarding]\nduplicate_percent = 2\n", &set);
    assert_eq!(failing(&d), ["frames-once"], "{:?}", d.verdicts);
    assert!((summed(&d, "twice") / summed(&d, "sent") - 0.02).abs() < 0.002);
    let d = on("[forwarding]\nswap_percent = 2\n", &set);
    assert_eq!(failing(&d), ["frames-in-order"], "{:?}", d.verdicts);
    assert!((summed(&d, "out of order") / summed(&d, "sent") - 0.02).abs() < 0.002);
    let profile = Profile::read("t", "name = \"t\"\nabout = \"a device\"").unwrap();
    let mut dut = Spoils::one_in(50, Configured::new(profile));
    let d = simulate(core("rfc2544", &set), &mut dut, World::default()).unwrap();
    assert_eq!(failing(&d), ["frames-unchanged"], "{:?}", d.verdicts);
    let changed = summed(&d, "changed");
    assert!((changed / summed(&d, "sent") - 0.02).abs() < 0.002, "{changed}");
    // None of them was carried.
    assert_eq!(summed(&d, "received"), summed(&d, "sent") - changed);
    let sums = d.loads.iter().fold((0, 0), |(s, r), l| (s + l.sent, r + l.received));
    assert!((sums.0 - sums.1) as f64 >= changed);
}
