//! The engine's verdicts on devices whose faults are configured: each is named, none on an honest one.

mod toy;

use toy::{core, number, outcome};
use weir_measure::document::{Document, Outcome};
use weir_measure::dut::profile::Profile;
use weir_measure::engine::configured::Configured;
use weir_measure::engine::simulation::{World, simulate};
use weir_packet::Nanos;

fn on(profile: &str, module: &str, set: &[(&str, &str)]) -> Document {
    run(profile, module, set, 0)
}

/// The same with another seed and other distances: nothing meets at the same moments.
fn run(profile: &str, module: &str, set: &[(&str, &str)], number: u64) -> Document {
    let mut profile = Profile::builtin(profile).unwrap();
    profile.seed = profile.seed.wrapping_add(number);
    let mut world = World::default();
    world.control = Nanos(world.control.0 + number * 7_919);
    world.wire = Nanos(world.wire.0 + number * 127);
    simulate(core(module, set), &mut Configured::new(profile), world).unwrap()
}

/// Where polls slow updates down, one takes 6.5 ms of the 20 ms between two, and an update 50 ms.
const INTERACTION: &[(&str, &str)] = &[
    ("flows", "300"),
    ("changed", "50"),
    ("rates", "1,50"),
    ("repetitions", "4"),
    ("interval", "0.2"),
];
const CONSISTENCY: &[(&str, &str)] = &[("repetitions", "6")];
const EXPIRY: &[(&str, &str)] = &[("flows", "4"), ("rate", "0.1")];
const COUNTERS: &[(&str, &str)] = &[("duration", "2"), ("rate", "1"), ("wait", "1.5")];
const INSERT: &[(&str, &str)] = &[("entries", "1,10"), ("repetitions", "5")];

#[test]
fn an_honest_device_is_blamed_for_nothing() {
    for (module, set) in [
        ("echo", &[("requests", "20")][..]),
        ("flow-insert", INSERT),
        ("actions", &[("duration", "0.02")]),
        ("packet-in", &[("rates", "100"), ("duration", "0.2")]),
        ("packet-out", &[("rates", "100"), ("duration", "0.2")]),
        ("interaction", INTERACTION),
        ("consistency", CONSISTENCY),
        ("expiry", EXPIRY),
        ("counters", COUNTERS),
    ] {
        let d = on("honest", module, set);
        for v in &d.verdicts {
            assert_eq!(v.outcome, Outcome::Holds, "{module}: {v:?}");
        }
    }
}

#[test]
fn an_early_barrier_is_named() {
    let d = on("early-barrier", "flow-insert", INSERT);
    assert_eq!(outcome(&d, "barrier-truthful"), Outcome::Fails, "{:?}", d.verdicts);
}

#[test]
fn wrong_rewrites_are_named() {
    let d = on("wrong-rewrites", "actions", &[("duration", "0.02")]);
    assert_eq!(outcome(&d, "modifications-right"), Outcome::Fails, "{:?}", d.verdicts);
}

#[test]
fn modifications_by_a_slow_processor_are_named_with_their_loss_and_delay() {
    let d = on("cpu-modify", "actions", &[("duration", "0.5"), ("rate", "2")]);
    assert_eq!(
        failing(&d),
        ["modifications-complete", "modifications-as-fast"],
        "{:#?}",
        d.verdicts
    );
    // 001, table 2: MAC addresses.
    assert!((number(&d, 1, "loss") - 88.0).abs() < 1.0);
    let median = number(&d, 1, "median");
    assert!((150.0..600.0).contains(&median), "{median}");
}

#[test]
fn discarded_actions_are_named() {
    let d = on("discards-actions", "actions", &[("duration", "0.02")]);
    assert_eq!(outcome(&d, "modifications-complete"), Outcome::Fails, "{:?}", d.verdicts);
}

#[test]
fn polling_that_slows_updates_is_named_with_the_factor() {
    let d = on("stats-slow-updates", "interaction", INTERACTION);
    assert_eq!(outcome(&d, "updates-undisturbed"), Outcome::Fails, "{:?}", d.verdicts);
    assert_eq!(outcome(&d, "updates-work"), Outcome::Holds);
    assert_eq!(outcome(&d, "barrier-truthful"), Outcome::Holds);
    // 1 ms each, and to the next probe of the last entry.
    let alone = number(&d, 0, "data plane");
    assert!((50.0..55.0).contains(&alone), "{alone}");
    // Of each 20 ms, 0.5 ms and 20 µs for each of 301 flows go to statistics.
    let slowed = number(&d, 2, "data plane") / alone;
    let want = 20.0 / (20.0 - 6.52);
    assert!((slowed - want).abs() < 0.15, "{slowed} for {want}");
    // Polls a second are those that were asked for.
    assert_eq!(number(&d, 2, "polls answered"), 100.0);
}

/// Ids of the verdicts that fail.
fn failing(d: &Document) -> Vec<&str> {
    let fails = d.verdicts.iter().filter(|v| v.outcome == Outcome::Fails);
    fails.map(|v| v.id.as_str()).collect()
}

#[test]
fn what_frames_meet_while_rules_change_is_named_and_nothing_else() {
    for (profile, want) in [
        ("early-barrier", &["barrier-truthful"][..]),
        ("reorders", &["changes-in-order"]),
        ("gap-in-modify", &["one-rule-or-the-other"]),
        ("no-barrier", &[]),
        ("modify-dear", &[]),
    ] {
        let d = on(profile, "consistency", CONSISTENCY);
        assert_eq!(failing(&d), want, "{profile}: {:#?} {:?}", d.verdicts, d.tables[0].rows);
    }
    // 2 ms without a rule, seen by probes 2.56 ms apart and so sometimes not.
    let d = on("gap-in-modify", "consistency", &[("flows", "8"), ("repetitions", "10")]);
    assert_eq!(number(&d, 0, "neither rule"), 10.0);
    let longest = number(&d, 0, "longest");
    assert!((1.2..=2.0).contains(&longest), "{longest}");
    // Frames that are lost, come twice or are overtaken by chance make no gap. Probes of one flow, so that who
    // overtakes is of the same.
    let set = [("flows", "1"), ("repetitions", "30"), ("rate", "4")];
    let d = on("lossy-forwarding", "consistency", &set);
    assert_eq!(failing(&d), ["frames-in-order", "frames-once"], "{:#?}", d.verdicts);
    let all = number(&d, 0, "probes");
    for what in ["lost otherwise", "twice", "reordered"] {
        let part = number(&d, 0, what) / all;
        assert!((0.008..0.012).contains(&part), "{what}: {part}");
    }
}

#[test]
fn time_outs_that_are_late_or_early_are_named_with_how_much() {
    let d = on("late-timeouts", "expiry", EXPIRY);
    assert_eq!(failing(&d), ["time-outs-exact"], "{:#?}", d.verdicts);
    for row in 0..2 {
        let late = number(&d, row, "late");
        assert!((700.0..701.0).contains(&late), "{late}");
    }
    // By the last frame, 9.6 ms before or less.
    let late = number(&d, 0, "late by frames");
    assert!((630.0..=700.1).contains(&late), "{late}");
    let d = on("idle-from-insertion", "expiry", EXPIRY);
    assert_eq!(failing(&d), ["time-outs-not-early"], "{:#?}", d.verdicts);
    // Probes were sent for 1.5 s longer than the time-out.
    let late = number(&d, 1, "late");
    assert!((-2550.0..-2400.0).contains(&late), "{late}");
    let d = on("stale-counters", "expiry", EXPIRY);
    assert_eq!(failing(&d), ["removal-counts-right"], "{:#?}", d.verdicts);
}

#[test]
fn counters_that_are_old_or_wrong_are_named_by_kind() {
    let sentence =
        |d: &Document, id: &str| d.verdicts.iter().find(|v| v.id == id).unwrap().sentence.clone();
    let d = on("stale-counters", "counters", COUNTERS);
    assert_eq!(failing(&d), ["counters-right", "counters-fresh"], "{:#?}", d.verdicts);
    for id in ["counters-right", "counters-fresh"] {
        let s = sentence(&d, id);
        assert!(s.contains("flows") && !s.contains("port") && !s.contains("table"), "{s}");
    }
    // Read once a second: half a second old on the average.
    let age = number(&d, 0, "age");
    assert!((300.0..700.0).contains(&age), "{age}");
    let d = on("wrong-counters", "counters", COUNTERS);
    assert_eq!(
        failing(&d),
        ["counters-right", "counters-fresh", "counters-not-ahead"],
        "{:#?}",
        d.verdicts
    );
    let s = sentence(&d, "counters-not-ahead");
    assert!(s.contains("port, received; port, sent") && !s.contains("flows"), "{s}");
    let s = sentence(&d, "counters-right");
    assert!(s.contains("table") && !s.contains("flows"), "{s}");
    // Half of the table's frames are missing: of 2 s.
    assert!(sentence(&d, "counters-fresh").contains("table"), "{:?}", d.verdicts);
}

/// Module, its set, profile, and the verdicts that fail.
type Case =
    (&'static str, &'static [(&'static str, &'static str)], &'static str, &'static [&'static str]);

/// The first few are cheap.
const CASES: &[Case] = &[
    ("expiry", EXPIRY, "honest", &[]),
    ("expiry", EXPIRY, "late-timeouts", &["time-outs-exact"]),
    ("expiry", EXPIRY, "idle-from-insertion", &["time-outs-not-early"]),
    ("counters", COUNTERS, "honest", &[]),
    ("counters", COUNTERS, "stale-counters", &["counters-right", "counters-fresh"]),
    ("flow-insert", INSERT, "honest", &[]),
    ("flow-insert", INSERT, "early-barrier", &["barrier-truthful"]),
    ("consistency", CONSISTENCY, "honest", &[]),
    ("consistency", CONSISTENCY, "early-barrier", &["barrier-truthful"]),
    ("consistency", CONSISTENCY, "reorders", &["changes-in-order"]),
    ("consistency", CONSISTENCY, "gap-in-modify", &["one-rule-or-the-other"]),
    ("interaction", INTERACTION, "honest", &[]),
    ("interaction", INTERACTION, "stats-slow-updates", &["updates-undisturbed"]),
    ("actions", &[("duration", "0.02")], "honest", &[]),
    ("actions", &[("duration", "0.02")], "wrong-rewrites", &["modifications-right"]),
];

#[test]
fn soak_every_fault_is_named_and_no_other_whatever_meets() {
    let soak = std::env::var_os("WEIR_SOAK").is_some();
    let (runs, cases) = if soak { (50, CASES) } else { (2, &CASES[..7]) };
    for (module, set, profile, want) in cases {
        for number in 1..=runs {
            let d = run(profile, module, set, number);
            assert_eq!(failing(&d), *want, "{module} on {profile}, {number}: {:#?}", d.verdicts);
        }
    }
    println!("soak: {} pairs of module and profile, {runs} runs each", cases.len());
}

/// What these say beforehand is what they take on an honest device.
#[test]
fn how_long_it_takes_is_known_beforehand() {
    for (module, set) in [
        (
            "interaction",
            &[("flows", "40"), ("changed", "10"), ("rates", "5"), ("repetitions", "4")][..],
        ),
        ("consistency", &[("flows", "8"), ("repetitions", "6")]),
        ("expiry", &[("timeouts", "1,3"), ("flows", "3"), ("repetitions", "2")]),
        ("counters", &[("flows", "10"), ("duration", "3")]),
        ("actions", &[("duration", "0.2"), ("rate", "1")]),
    ] {
        let planned = core(module, set).status().takes.unwrap().as_secs_f64();
        let took = on("honest", module, set).duration_s;
        // Draining takes 300 ms.
        let off = (took - 0.3 - planned) / planned;
        assert!(off.abs() < 0.15, "{module} {set:?}: {planned} s planned, {took} s taken");
    }
}
