//! Ground truth over and over: every configured fault that a module can see is named in its verdicts, nothing is
//! named that is not there, figures are those configured. Virtual time: runs differ by the device's seed and by
//! where in the probes' round things happen. `WEIR_SOAK=1` runs each fifty times.

mod toy;

use toy::core;
use weir_measure::document::{Cell, Document, Outcome};
use weir_measure::dut::profile::{BUILTIN, Profile};
use weir_measure::engine::configured::Configured;
use weir_measure::engine::simulation::{World, simulate};
use weir_packet::Nanos;

type Set = &'static [(&'static str, &'static str)];

const INSERT: Set = &[("entries", "1,10"), ("repetitions", "5")];
const MODIFY: Set = &[("entries", "10,40"), ("repetitions", "2")];
const STATS: Set = &[("flows", "50"), ("rates", "2,20"), ("duration", "2"), ("rate", "2")];
const ACTIONS: Set = &[("duration", "0.05"), ("rate", "4")];
/// A slow processor's delay wanders over tens of milliseconds: medians need hundreds of them.
const ACTIONS_LONG: Set = &[("duration", "4"), ("rate", "1")];
const INTERACTION: Set = &[
    ("flows", "300"),
    ("changed", "50"),
    ("rates", "1,50"),
    ("repetitions", "4"),
    ("interval", "0.2"),
];
const CONSISTENCY: Set = &[("repetitions", "6")];
const EXPIRY: Set = &[("flows", "4"), ("rate", "0.1")];
const COUNTERS: Set = &[("duration", "2"), ("rate", "1"), ("wait", "1.5")];
const CAPACITY: Set = &[("most", "600")];
const PACKET_IN: Set = &[("rates", "100,2000"), ("duration", "0.5"), ("wait", "0.3")];
const PACKET_OUT: Set = PACKET_IN;

/// Every module by itself, for an honest device.
const HONEST: &[(&str, Set)] = &[
    ("echo", &[("requests", "20")]),
    ("flow-insert", INSERT),
    ("flow-modify", MODIFY),
    ("flow-stats", STATS),
    ("interaction", INTERACTION),
    ("consistency", CONSISTENCY),
    ("counters", COUNTERS),
    ("expiry", EXPIRY),
    ("packet-in", PACKET_IN),
    ("packet-out", PACKET_OUT),
    ("actions", ACTIONS),
    ("table-capacity", CAPACITY),
    ("connection", &[("repetitions", "2"), ("away", "0.2")]),
];

/// Profile, module, and exactly the verdicts that fail on it.
const FAULTS: &[(&str, &str, Set, &[&str])] = &[
    ("early-barrier", "flow-insert", INSERT, &["barrier-truthful"]),
    ("early-barrier", "flow-modify", MODIFY, &["barrier-truthful"]),
    ("early-barrier", "interaction", INTERACTION, &["barrier-truthful"]),
    ("early-barrier", "consistency", CONSISTENCY, &["barrier-truthful"]),
    ("gap-in-modify", "flow-modify", MODIFY, &["modification-as-cheap"]),
    ("gap-in-modify", "consistency", CONSISTENCY, &["one-rule-or-the-other"]),
    ("reorders", "consistency", CONSISTENCY, &["changes-in-order"]),
    ("wrong-rewrites", "actions", ACTIONS, &["modifications-right"]),
    ("discards-actions", "actions", ACTIONS, &["modifications-complete"]),
    ("cpu-modify", "actions", ACTIONS_LONG, &["modifications-complete", "modifications-as-fast"]),
    ("stats-slow-updates", "interaction", INTERACTION, &["updates-undisturbed"]),
    ("stale-counters", "flow-stats", STATS, &["statistics-fresh"]),
    ("stale-counters", "counters", COUNTERS, &["counters-right", "counters-fresh"]),
    ("stale-counters", "expiry", EXPIRY, &["removal-counts-right"]),
    (
        "wrong-counters",
        "counters",
        COUNTERS,
        &["counters-right", "counters-fresh", "counters-not-ahead"],
    ),
    ("slow-controller-path", "packet-in", PACKET_IN, &["packet-ins-complete"]),
    ("loses-entries", "table-capacity", &[("most", "2000")], &["accepted-entries-work"]),
    ("late-timeouts", "expiry", EXPIRY, &["time-outs-exact"]),
    ("idle-from-insertion", "expiry", EXPIRY, &["time-outs-not-early"]),
    ("modify-dear", "flow-modify", MODIFY, &["modification-as-cheap"]),
    ("priorities-dear", "flow-modify", MODIFY, &["priorities-cost-nothing"]),
];

/// How often: in full under WEIR_SOAK.
fn count(what: &str) -> u64 {
    let n = if std::env::var_os("WEIR_SOAK").is_some() { 50 } else { 1 };
    println!("soak: {n} runs of {what}");
    n
}

fn on(mut profile: Profile, run: u64, module: &str, set: Set) -> Document {
    profile.seed = profile.seed.wrapping_add(run.wrapping_mul(0x9e37_79b9));
    // Where in the probes' round a message arrives: 80 µs at their usual rate.
    let control = Nanos(20_000 + run * 7_919 % 80_000);
    let world = World { control, ..World::default() };
    simulate(core(module, set), &mut Configured::new(profile), world).unwrap()
}

fn failing(d: &Document) -> Vec<&str> {
    let fails = d.verdicts.iter().filter(|v| v.outcome == Outcome::Fails);
    fails.map(|v| v.id.as_str()).collect()
}

#[test]
fn soak_an_honest_device_is_blamed_for_nothing() {
    let n = count("each module on the honest device");
    for (module, set) in HONEST {
        for run in 0..n {
            let d = on(Profile::builtin("honest").unwrap(), run, module, set);
            assert_eq!(failing(&d), [""; 0], "{module}, run {run}: {:#?}", d.verdicts);
            assert_eq!(d.partial, None, "{module}, run {run}");
        }
        println!("soak: {module}: {n} of {n} without blame");
    }
}

#[test]
fn soak_every_configured_fault_is_named() {
    let n = count("each fault profile");
    for (profile, module, set, want) in FAULTS {
        for run in 0..n {
            let d = on(Profile::builtin(profile).unwrap(), run, module, set);
            assert_eq!(failing(&d), *want, "{profile}, {module}, run {run}: {:#?}", d.verdicts);
        }
        println!("soak: {profile}, {module}: {n} of {n} named {}", want.join(", "));
    }
    let named = |p: &str| FAULTS.iter().any(|f| f.0 == p);
    let others: Vec<_> = BUILTIN.iter().map(|b| b.0).filter(|p| !named(p)).collect();
    println!("soak: not in this table: {}", others.join(", "));
}

#[test]
fn soak_insertion_takes_what_was_configured() {
    let n = count("each insertion delay");
    for us in [100.0, 1_000.0, 10_000.0] {
        let mut worst = 0.0_f64;
        for run in 0..n {
            let mut profile = Profile::builtin("honest").unwrap();
            profile.update.insert_us = us.try_into().unwrap();
            // 100 Mb/s of 100-byte frames: a probe each 8 µs, less than the 20 µs that are asked for.
            let set: Set =
                &[("entries", "1,20"), ("repetitions", "3"), ("rate", "100"), ("watch", "last")];
            let d = on(profile, run, "flow-insert", set);
            let table = &d.tables[0];
            let at = table.columns.iter().position(|c| c.name == "first packet").unwrap();
            for (row, entries) in [(0, 1.0), (1, 20.0)] {
                let Cell::Number(ms) = table.rows[row][at] else { panic!("{:?}", table.rows) };
                // From the first message written: the way to the switch is not the switch's.
                let way = 20.0 + (run * 7_919 % 80_000) as f64 / 1e3;
                let (want, got) = (us * entries, ms * 1e3 - way);
                let off = (got - want).abs();
                worst = worst.max(off / want);
                assert!(off <= (want * 0.05).max(20.0), "run {run}: {got} µs for {want}");
            }
            assert_eq!(failing(&d), [""; 0], "{:#?}", d.verdicts);
        }
        println!(
            "soak: {us} µs: {n} of {n} within 5 % or 20 µs, {:.2} % off at most",
            worst * 100.0
        );
    }
}

/// Profiles whose fault is of the connection or of every frame: each module has its own to say of them.
const OF_EVERYTHING: [&str; 5] =
    ["silent", "other-version", "talks-garbage", "hangs-up", "lossy-forwarding"];

/// Every module on every profile: those that can't see a fault name none.
#[test]
fn soak_no_fault_is_named_where_none_is_seen() {
    if std::env::var_os("WEIR_SOAK").is_none() {
        return println!("soak: every module on every profile: in full only");
    }
    let n = count("every module on every profile");
    let mut pairs = 0;
    for (profile, _) in BUILTIN.iter().filter(|b| !OF_EVERYTHING.contains(&b.0)) {
        for (module, set) in HONEST {
            if FAULTS.iter().any(|f| (f.0, f.1) == (*profile, *module)) {
                continue;
            }
            pairs += 1;
            for run in 0..n {
                let d = on(Profile::builtin(profile).unwrap(), run, module, set);
                assert_eq!(
                    failing(&d),
                    [""; 0],
                    "{profile}, {module}, run {run}: {:#?}",
                    d.verdicts
                );
            }
        }
    }
    println!(
        "soak: {pairs} pairs of a profile and a module that can't see its fault: {n} of {n} name none"
    );
}
