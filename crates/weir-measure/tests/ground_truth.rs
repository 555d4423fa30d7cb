//! The engine's verdicts on devices whose faults are configured: each is named, none on an honest one, and figures
//! are those configured. In virtual time. The cases are `weir_measure::truth`'s; each is run once, or fifty times with
//! `WEIR_SOAK=1`: runs differ by the device's seed and by where in the probes' round things happen.

mod toy;

use serde_json::Value;
use toy::{Spoils, core, core_with, number, outcome};
use weir_measure::document::{Cell, Document, Outcome};
use weir_measure::dut::profile::{BUILTIN, Profile};
use weir_measure::engine::configured::Configured;
use weir_measure::engine::simulation::{World, simulate};
use weir_measure::module::traffic::Traffic;
use weir_measure::truth::{Case, cases, control_ns, failing, sentences, simulated};
use weir_packet::Nanos;

fn on(profile: &str, module: &str, set: &[(&str, &str)]) -> Document {
    let profile = Profile::builtin(profile).unwrap();
    simulate(core(module, set), &mut Configured::new(profile), World::default()).unwrap()
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

/// What becomes of frames beside the rules.
#[test]
fn frames_and_packet_outs_with_another_byte_are_told() {
    let on = |module: &str, set: &[(&str, &str)], one_in| {
        let honest = Configured::new(Profile::builtin("honest").unwrap());
        let mut dut = Spoils::one_in(one_in, honest);
        simulate(core(module, set), &mut dut, World::default()).unwrap()
    };
    let set = [("rates", "500"), ("duration", "1")];
    let d = on("packet-out", &set, 5);
    assert_eq!(failing(&d), ["packet-outs-complete", "packet-outs-unchanged"], "{:?}", d.verdicts);
    // A few frames have shown what is wired where before.
    assert_eq!((number(&d, 0, "changed"), number(&d, 0, "packets")), (100.0, 500.0));
    assert_eq!(number(&d, 0, "loss"), 20.0);
    let set = [("flows", "1"), ("repetitions", "30"), ("rate", "4")];
    let d = on("consistency", &set, 100);
    assert_eq!(failing(&d), ["frames-unchanged"], "{:?}", d.verdicts);
    let share = number(&d, 0, "changed") / number(&d, 0, "probes");
    assert!((0.008..0.012).contains(&share), "{share}");
    assert_eq!(number(&d, 0, "changed"), number(&d, 0, "lost otherwise"));
}

/// On a device with just these faults.
fn on_text(faults: &str, module: &str, set: &[(&str, &str)]) -> Document {
    let text = format!("name = \"t\"\nabout = \"t\"\n{faults}");
    let profile = Profile::read("t", &text).unwrap();
    simulate(core(module, set), &mut Configured::new(profile), World::default()).unwrap()
}

#[test]
fn a_users_sizes_and_headers_change_no_verdict() {
    let on = |profile: &str, module: &str, set: &[(&str, &str)], traffic: &str| {
        let core = core_with(module, set, Some(Traffic::read(traffic).unwrap()));
        let mut device = Configured::new(Profile::builtin(profile).unwrap());
        simulate(core, &mut device, World::default()).unwrap()
    };
    let set = [("duration", "0.02")];
    let d = on("honest", "actions", &set, "sizes = \"imix\"");
    assert_eq!(failing(&d), [""; 0], "{:#?}", d.verdicts);
    let d = on("wrong-rewrites", "actions", &set, "sizes = [64, 1518]");
    assert!(failing(&d).contains(&"modifications-right"), "{:#?}", d.verdicts);
    let vary = "sizes = \"imix\"\nflows = 50\n[[vary]]\nfield = \"ipv4_src\"\nseed = 3\n\
                [[vary]]\nfield = \"vlan_vid\"\nfrom = 7";
    let d = on("honest", "packet-in", &[("rates", "500"), ("duration", "0.5")], vary);
    assert_eq!(failing(&d), [""; 0], "{:#?}", d.verdicts);
    assert_eq!(number(&d, 0, "frames"), 250.0);
}

#[test]
fn entries_whose_probes_are_lost_in_step_are_not_dead() {
    // One of each hundred frames is lost, and a hundred entries take turns: always of the same one.
    let set = [("most", "300"), ("wait", "0.5")];
    let d = on("lossy-forwarding", "table-capacity", &set);
    assert_eq!(failing(&d), [""; 0], "{:#?}", d.verdicts);
    assert_eq!(number(&d, 0, "accepted and dead"), 0.0);
    // And those that are lost are.
    let few = "[table]\nentries = 50\npast = \"lost\"\n";
    let d = on_text(few, "table-capacity", &[("most", "120"), ("wait", "0.5")]);
    assert_eq!(failing(&d), ["accepted-entries-work"], "{:#?}", d.verdicts);
    // Of the last hundred of 120, those from 50 on; one place is taken by the rule that drops the rest.
    assert_eq!(number(&d, 0, "accepted and dead"), 71.0);
}

#[test]
fn packet_ins_that_come_twice_are_not_taken_for_others() {
    let set = [("rates", "1000"), ("duration", "1")];
    let d = on_text("[packet_in]\nduplicate_percent = 5\n", "packet-in", &set);
    assert_eq!(failing(&d), ["packet-ins-once"], "{:#?}", d.verdicts);
    assert_eq!((number(&d, 0, "come twice"), number(&d, 0, "loss")), (50.0, 0.0));
    // What is lost is not made good by what comes twice.
    let slow = "[packet_in]\nduplicate_percent = 50\nper_second = 500\nqueue = 1\n";
    let d = on_text(slow, "packet-in", &set);
    assert_eq!(failing(&d), ["packet-ins-complete", "packet-ins-once"], "{:#?}", d.verdicts);
    assert!((number(&d, 0, "loss") - 50.0).abs() < 1.0, "{}", number(&d, 0, "loss"));
}

#[test]
fn the_last_entry_alone_is_watched_once_all_others_are_gone() {
    let set = [("entries", "1,100"), ("repetitions", "3"), ("watch", "last")];
    let d = on("early-barrier", "flow-insert", &set);
    // 0.8 ms and 1 ms each.
    for (row, want) in [(0, 1.8), (1, 100.8)] {
        let ms = number(&d, row, "first packet");
        assert!((ms - want).abs() < 0.2, "{ms} ms for {want}");
    }
    assert_eq!(failing(&d), ["barrier-truthful"], "{:#?}", d.verdicts);
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

/// A busy machine hands frames on late, with the moments at which they came. What showed the rules of before is
/// not taken for what shows the new ones.
#[test]
fn frames_that_are_heard_of_late_change_no_figure() {
    let world = World { heard_late: Nanos::from_millis(15), ..World::default() };
    for (module, set) in [
        ("flow-insert", &[("entries", "1,10"), ("repetitions", "5")][..]),
        ("flow-modify", &[("entries", "10"), ("repetitions", "3")]),
        (
            "interaction",
            &[("flows", "40"), ("changed", "10"), ("rates", "5"), ("repetitions", "4")],
        ),
    ] {
        let mut device = Configured::new(Profile::builtin("honest").unwrap());
        let d = simulate(core(module, set), &mut device, world).unwrap();
        assert_eq!(failing(&d), [""; 0], "{module}: {:#?}", d.verdicts);
        let (first, tenth, late) = match module {
            "flow-insert" => ("first packet", "first packet p10", 0.9),
            "flow-modify" => ("data plane", "p10", 0.9),
            _ => ("data plane", "p10", 3.3),
        };
        // A round of ten flows takes 0.8 ms, one of forty 3.2 ms.
        for row in 0..d.tables[0].rows.len() {
            for column in [first, tenth] {
                let ms = number(&d, row, column);
                assert!((0.0..late).contains(&ms), "{module}, row {row}, {column}: {ms} ms");
            }
        }
    }
}

/// Frames that are overtaken by the next are of another flow where probes go round-robin: what was looked at is said,
/// and how to look closer.
#[test]
fn order_is_claimed_of_what_was_looked_at() {
    let mut profile = Profile::builtin("honest").unwrap();
    profile.forwarding.swap_percent = 1.0.try_into().unwrap();
    for (flows, says) in [
        ("32", "No frame came behind one of its flow that had left 2.56 ms later, or more."),
        ("1", "came behind a later one of their flow"),
    ] {
        let mut device = Configured::new(profile.clone());
        let set = [("flows", flows), ("repetitions", "6")];
        let d = simulate(core("consistency", &set), &mut device, World::default()).unwrap();
        let v = d.verdicts.iter().find(|v| v.id == "frames-in-order").unwrap();
        let s = &v.sentence;
        assert!(s.contains(says), "{s}");
        assert_eq!(s.contains("overtaken by frames of other flows"), flows == "32", "{s}");
    }
}

/// More entries than there are can't change; what is recorded is what was done.
#[test]
fn a_parameter_that_is_cut_is_recorded_as_it_was_used() {
    let set = [("flows", "10"), ("changed", "100"), ("rates", "5"), ("repetitions", "1")];
    let d = on("honest", "interaction", &set);
    let changed = d.parameters.iter().find(|p| p.name == "changed").unwrap();
    assert_eq!(changed.value, Cell::Number(10.0));
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

/// How often, and whether in full: under WEIR_SOAK.
fn count(what: &str) -> u64 {
    let n = if std::env::var_os("WEIR_SOAK").is_some() { 50 } else { 1 };
    println!("soak: {n} runs of {what}");
    n
}

fn named(all: &[Case], n: u64) {
    for case in all {
        for run in 0..n {
            let d = simulated(case.device().unwrap(), case.offers, (case.module, case.set), run);
            if let Err(why) = case.judge(&d) {
                panic!("{}, {}, run {run}: {why}", case.fault, case.module);
            }
        }
    }
    println!("soak: {} pairs of a fault and a module: {n} of {n} as they must be", all.len());
}

/// Of the many kinds of actions a test of every day takes some.
#[test]
fn soak_every_fault_is_named() {
    let n = count("each fault");
    let all = cases::all();
    let skip = if n > 1 { 1 } else { 16 };
    let some = all
        .iter()
        .filter(|c| c.module != "actions")
        .chain(all.iter().filter(|c| c.module == "actions").step_by(skip));
    named(&some.cloned().collect::<Vec<_>>(), n);
}

#[test]
fn soak_every_profile_is_named_and_every_other_module_is_silent() {
    let n = count("each profile");
    let all = cases::profiles();
    if n == 1 {
        let quick = |c: &&Case| !matches!(c.module, "actions" | "interaction" | "table-capacity");
        return named(&all.iter().filter(quick).cloned().collect::<Vec<_>>(), n);
    }
    named(&all, n);
    // Profiles whose fault is of the connection, or of every frame: each module has its own to say of them.
    let of_everything =
        ["silent", "other-version", "talks-garbage", "hangs-up", "lossy-forwarding"];
    let mut pairs = 0;
    for (profile, _) in BUILTIN.iter().filter(|b| !of_everything.contains(&b.0)) {
        for (module, set) in cases::HONEST.iter().filter(|h| h.0 != "timestamps") {
            if all.iter().any(|c| (c.fault.as_str(), c.module) == (*profile, *module)) {
                continue;
            }
            pairs += 1;
            for run in 0..n {
                let device = Profile::builtin(profile).unwrap();
                let d = simulated(device, None, (module, set), run).unwrap();
                assert_eq!(
                    failing(&d),
                    [""; 0],
                    "{profile}, {module}, run {run}: {}",
                    sentences(&d)
                );
            }
        }
    }
    println!(
        "soak: {pairs} pairs of a profile and a module that can't see its fault: {n} of {n} name none"
    );
}

#[test]
fn soak_an_honest_device_is_blamed_for_nothing() {
    let n = count("each module on the honest device");
    // Wires, which `timestamps` measures, are in `wire_modules.rs`.
    for (module, set) in cases::HONEST.iter().filter(|h| h.0 != "timestamps") {
        for run in 0..n {
            let d =
                simulated(Profile::builtin("honest").unwrap(), None, (module, set), run).unwrap();
            let all = d.verdicts.iter().all(|v| v.outcome == Outcome::Holds);
            assert!(all && d.partial.is_none(), "{module}, run {run}: {}", sentences(&d));
        }
    }
    let (all, honest) = (weir_measure::modules::all(), cases::HONEST);
    let missing = all.iter().find(|e| !honest.iter().any(|h| h.0 == e.about.name));
    assert!(missing.is_none(), "no case for {:?}", missing.map(|e| &e.about.name));
    println!("soak: {} modules: {n} of {n} without blame", honest.len() - 1);
}

#[test]
fn soak_insertion_takes_what_was_configured() {
    let n = count("each insertion delay");
    for us in [100.0, 1_000.0, 10_000.0] {
        let mut worst = 0.0_f64;
        for run in 0..n {
            let mut device = Profile::builtin("honest").unwrap();
            device.update.insert_us = us.try_into().unwrap();
            let d = simulated(device, None, ("flow-insert", cases::INSERT_EXACT), run).unwrap();
            let table = &d.tables[0];
            let at = table.columns.iter().position(|c| c.name == "first packet").unwrap();
            for (row, entries) in [(0, 1.0), (1, 20.0)] {
                let Cell::Number(ms) = table.rows[row][at] else { panic!("{:?}", table.rows) };
                // From the first message written: the way to the switch is not the switch's.
                let (want, got) = (us * entries, ms * 1e3 - control_ns(run) as f64 / 1e3);
                let off = (got - want).abs();
                worst = worst.max(off / want);
                assert!(off <= (want * 0.05).max(20.0), "run {run}: {got} µs for {want}");
            }
            assert_eq!(failing(&d), [""; 0], "{}", sentences(&d));
        }
        println!(
            "soak: {us} µs: {n} of {n} within 5 % or 20 µs, {:.2} % off at most",
            worst * 100.0
        );
    }
}

/// Values by their keys, as `update.insert_us`.
fn leaves(at: &str, v: &Value, all: &mut Vec<(String, Value)>) {
    match v {
        Value::Object(map) => {
            for (key, v) in map {
                let dot = if at.is_empty() { "" } else { "." };
                leaves(&format!("{at}{dot}{key}"), v, all);
            }
        }
        _ => all.push((at.to_owned(), v.clone())),
    }
}

#[test]
fn no_key_of_a_profile_is_without_a_case() {
    let keys = |p: &Profile| {
        let mut all = Vec::new();
        leaves("", &serde_json::to_value(p).unwrap(), &mut all);
        all
    };
    let honest = keys(&Profile::builtin("honest").unwrap());
    let cases = cases::all();
    let devices: Vec<_> = cases.iter().map(|c| (c, c.device().unwrap())).collect();
    // What is absent may be a table whose keys come with it.
    let mut wanted: Vec<String> = honest.iter().map(|k| k.0.clone()).collect();
    let all = devices.iter().flat_map(|(_, d)| keys(d)).map(|k| k.0);
    wanted.extend(all);
    wanted.sort();
    wanted.dedup();
    for key in wanted.iter().filter(|k| !cases::SHAPES.contains(&k.as_str())) {
        let of_key = |c: &Case| c.fault == *key || c.fault.starts_with(&format!("{key}."));
        // A table whose key is a whole: `update.insert_past`.
        let of_part = |c: &Case| key.starts_with(&format!("{}.", c.fault));
        let inner = wanted.iter().any(|w| w.starts_with(&format!("{key}.")));
        assert!(inner || cases.iter().any(|c| of_key(c) || of_part(c)), "no case for {key}");
    }
    // Each case has the fault that it is called after, and no two are the same.
    for (case, device) in &devices {
        let faults = device.faults();
        assert!(faults.iter().any(|f| f.id == case.fault), "{}: {faults:?}", case.fault);
        assert_eq!(cases.iter().filter(|c| c.fault == case.fault).count(), 1, "{}", case.fault);
    }
    for (name, _) in BUILTIN.iter().filter(|b| b.0 != "honest") {
        assert!(cases::profiles().iter().any(|c| c.fault == *name), "no case for profile {name}");
    }
}
