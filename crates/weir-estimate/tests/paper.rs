//! 002's published figures, to the digit, and the golden sequences behind them.

mod support;

use serde_json::Value;
use support::{ask, library, profile};
use weir_estimate::estimate::{Mode, Numa, Target};
use weir_estimate::{Estimate, Question};

const MACHINE: &str = "xeon-e5-2690v2";

fn paper() -> Question {
    Question { mode: Mode::Paper, ..Question::default() }
}

/// Model, its name in the golden file, and what §3 prints: cycles, accesses, Mpps, Gbps, and memory's.
const PUBLISHED: &[(&str, &str, [f64; 6])] = &[
    ("l2-basic", "l2_basic", [213.0, 1.0, 17.31, 11.36, 111.08, f64::NAN]),
    ("l2-learning", "l2_learning_as_published", [352.0, 2.0, 10.47, 6.87, 55.54, f64::NAN]),
    ("mpls-switch", "mpls", [224.0, 1.0, 16.45, 10.8, 111.08, f64::NAN]),
    ("bng-access", "bng_access_to_core", [717.0, 6.0, 5.14, 3.37, 12.11, 7.95]),
    ("bng-core", "bng_core_to_access", [274.0, 1.0, 13.45, 8.83, 24.68, 16.2]),
];

#[test]
fn every_published_figure_comes_out() {
    let library = library();
    let profile = profile(&library, MACHINE);
    for (name, _, [cycles, accesses, mpps, gbps, memory_mpps, memory_gbps]) in PUBLISHED {
        let e = ask(&library, name, &profile, &paper());
        let r = e.rates;
        assert_eq!((e.cycles, e.dram_accesses), (*cycles, *accesses), "{name}");
        assert_eq!((r.core_mpps, r.core_gbps), (*mpps, *gbps), "{name}");
        assert_eq!((r.mpps, r.gbps, e.bottleneck.as_str()), (*mpps, *gbps, "core"), "{name}");
        assert_eq!(r.memory_mpps, Some(*memory_mpps), "{name}");
        if !memory_gbps.is_nan() {
            assert_eq!(r.memory_gbps, Some(*memory_gbps), "{name}");
        }
        assert!(e.interval_mpps.0 < r.mpps && r.mpps < e.interval_mpps.1);
        let fitted = e.limits.iter().find(|l| l.name == "memory").expect("memory");
        assert!(fitted.about.starts_with("fitted"), "{}", fitted.about);
    }
}

#[test]
fn operations_are_those_of_the_golden_file() {
    let library = library();
    let profile = profile(&library, MACHINE);
    let golden: Value = serde_json::from_str(include_str!("golden/nf-model.json")).expect("JSON");
    for (name, key, _) in PUBLISHED {
        let e = ask(&library, name, &profile, &paper());
        let eos = golden["nfs"][key]["eos"].as_array().expect(key);
        assert_eq!(eos.len(), e.operations.len(), "{name}");
        for (ours, theirs) in e.operations.iter().zip(eos) {
            assert_eq!(*ours.eo, *theirs["eo"].as_str().expect("a name"), "{name}");
            assert_eq!(Some(ours.cycles), theirs["cycles"].as_f64(), "{name} {}", ours.eo);
            assert_eq!(Some(ours.dram_accesses), theirs["dram"].as_f64(), "{name} {}", ours.eo);
            let numbers = theirs["args"].as_array().expect("arguments").iter();
            let theirs: Vec<f64> = numbers.filter_map(Value::as_f64).collect();
            // 002 does not say which lookups are under way beside others.
            let said = ours.arguments.iter().filter(|a| &*a.0 != "beside");
            let ours: Vec<f64> = said.map(|a| a.1).collect();
            assert_eq!(ours, theirs, "{name}");
        }
    }
}

#[test]
fn six_cores_at_78_bytes() {
    let library = library();
    let profile = profile(&library, MACHINE);
    let at = |cores| Question { frame: 78, cores, ..paper() };
    let e = ask(&library, "bng", &profile, &at(6));
    assert_eq!(e.rates.core_mpps, 42.5);
    assert_eq!(e.cycles, 520.0);
    assert_eq!(ask(&library, "bng-access", &profile, &at(1)).cycles, 766.0);
    assert_eq!(ask(&library, "bng-core", &profile, &at(1)).cycles, 274.0);
    // Told as the paper's, not computed, and no bound.
    assert_eq!(e.rates.memory_mpps, None);
    let quoted: Vec<_> = e.quoted.iter().map(|q| (q.figure.as_str(), q.value)).collect();
    assert_eq!(quoted, [("memory_mpps", 23.74)]);
    assert!(ask(&library, "bng", &profile, &at(5)).quoted.is_empty());
}

/// §4.2's printed formula for a frame of the other socket: 30 + 5⌈n/64⌉ cycles, ⌈n/64⌉ accesses.
#[test]
fn frames_of_the_other_socket_cost_what_is_printed() {
    let library = library();
    let profile = profile(&library, MACHINE);
    for frame in [78, 128, 204, 512, 1518] {
        let near = Question { frame, ..paper() };
        let spread = Question { numa: Numa::Spread, ..near.clone() };
        let (a, b) = (
            ask(&library, "bng-core", &profile, &near),
            ask(&library, "bng-core", &profile, &spread),
        );
        let lines = (f64::from(70 + frame - 18) / 64.0).ceil();
        let more = 0.5 * (30.0 + 5.0 * lines) - 0.5 * (30.0 + 5.0 * 2.0);
        assert!((b.cycles - a.cycles - more).abs() < 1e-9, "{frame}");
        assert!((b.dram_accesses - a.dram_accesses - 0.5 * lines).abs() < 1e-9, "{frame}");
    }
}

/// The formulas as printed: 31 cycles for L3, one word for a label, an insertion for what is learned.
#[test]
fn corrected_is_as_printed() {
    let library = library();
    let profile = profile(&library, MACHINE);
    let of = |name| -> Estimate {
        let q = Question { mode: Mode::Corrected, ..Question::default() };
        ask(&library, name, &profile, &q)
    };
    let printed = [
        ("l2-basic", 215.0, 1.0),
        ("l2-learning", 381.0, 3.0),
        ("mpls-switch", 222.0, 1.0),
        ("bng-access", 719.0, 6.0),
        ("bng-core", 276.0, 1.0),
    ];
    for (name, cycles, accesses) in printed {
        let e = of(name);
        assert_eq!((e.cycles, e.dram_accesses), (cycles, accesses), "{name}");
        assert!((e.rates.core_mpps - 3600.0 / cycles).abs() < 1e-9, "{name}");
        assert!((e.rates.core_gbps - e.rates.core_mpps * 0.672).abs() < 1e-9, "{name}");
        let memory = 1333.0 / (21.0 * accesses);
        assert!((e.rates.memory_mpps.expect("memory") - memory).abs() < 1e-9, "{name}");
    }
}

/// What main memory gives is no more with more cores, whichever number was asked about.
#[test]
fn memory_hinders_a_target_whatever_cores_were_asked_about() {
    let library = library();
    let profile = profile(&library, MACHINE);
    let needed = |mpps, cores| {
        let q = Question { target: Some(Target::Mpps(mpps)), cores, ..paper() };
        ask(&library, "mpls-switch", &profile, &q).needed.expect("an answer")
    };
    for cores in [1, 8] {
        assert_eq!(needed(200.0, cores).hindered_by.as_deref(), Some("memory"));
        assert_eq!(needed(200.0, cores).cores, None);
        assert_eq!(needed(100.0, cores).cores, Some(7));
    }
}
