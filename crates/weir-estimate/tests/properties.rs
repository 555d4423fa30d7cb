//! What must hold of every estimate: more cores, a faster clock or a longer frame never lowers the
//! bits, a longer frame never raises the frames; units and bounds.

mod support;

use proptest::prelude::*;
use std::sync::LazyLock;
use support::{ask, library, profile};
use weir_estimate::estimate::{Mode, Numa, Target, gbps};
use weir_estimate::profile::Hardware;
use weir_estimate::traffic::{Spread, Traffic};
use weir_estimate::{Estimate, Library, Profile, Question};

static LIBRARY: LazyLock<Library> = LazyLock::new(library);
static PROFILE: LazyLock<Profile> = LazyLock::new(|| profile(&LIBRARY, "xeon-e5-2690v2"));

static MACHINES: LazyLock<Vec<Profile>> = LazyLock::new(|| {
    ["xeon-e5-2690v2", "virtual-epyc", "virtual-xeon"].map(|n| profile(&LIBRARY, n)).into()
});

/// Steps of a model that has a table `t`.
const WORK: [&str; 5] = [
    "eo = \"ht_lookup\"\ntable = \"t\"\nN = 2",
    "eo = \"array_access\"\ntable = \"t\"",
    "eo = \"parse\"\nb = 6",
    "eo = \"io_mem\"\nhdr = 30\ndata = \"ps\"",
    "eo = \"checksum\"\nb = \"ps\"",
];

fn name() -> impl Strategy<Value = String> {
    let names: Vec<String> = LIBRARY.names().map(str::to_owned).collect();
    proptest::sample::select(names)
}

fn traffic() -> impl Strategy<Value = Option<Traffic>> {
    let some = (0.0..2.0f64, 1u64..2_000_000)
        .prop_map(|(s, flows)| Some(Traffic { spread: Spread::Zipf(s), flows: flows as f64 }));
    prop_oneof![Just(None), some]
}

fn question() -> impl Strategy<Value = Question> {
    let mode = proptest::sample::select(vec![Mode::Paper, Mode::Corrected, Mode::Full]);
    let numa = proptest::sample::select(vec![Numa::Local, Numa::Spread]);
    (mode, 64u32..2000, 1u32..24, traffic(), numa, 1u32..65).prop_map(
        |(mode, frame, cores, traffic, numa, burst)| Question {
            mode,
            frame,
            cores,
            traffic,
            numa,
            burst,
            ..Question::default()
        },
    )
}

/// Published figures are rounded: they may differ in the last place.
fn slack(e: &Estimate) -> f64 {
    if e.mode == Mode::Paper { 0.11 } else { 1e-6 * e.rates.mpps }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn sound(name in name(), q in question()) {
        let e = ask(&LIBRARY, &name, &PROFILE, &q);
        prop_assert!(e.cycles > 0.0 && e.wait_cycles >= 0.0 && e.wait_cycles < e.cycles);
        prop_assert!(e.rates.mpps > 0.0 && e.rates.mpps <= e.rates.core_mpps + slack(&e));
        let (low, high) = e.interval_mpps;
        prop_assert!(low <= e.rates.mpps + 1e-9 && e.rates.mpps <= high + 1e-9 && low > 0.0);
        let least = e.limits.iter().map(|l| l.mpps).fold(f64::MAX, f64::min);
        prop_assert!((least - e.rates.mpps).abs() <= slack(&e));
        prop_assert!(e.limits.iter().any(|l| l.name == e.bottleneck));
        // Cycles and accesses are those of the operations.
        let sum: f64 = e.operations.iter().map(|o| o.times * (o.cycles + o.wait_cycles)).sum();
        prop_assert!((sum / e.cycles - 1.0).abs() < 1e-9);
        let dram: f64 = e.operations.iter().map(|o| o.times * o.dram_accesses).sum();
        prop_assert!((dram - e.dram_accesses).abs() < 1e-6);
        for h in &e.hits {
            let sum: f64 = h.levels.iter().map(|l| l.1).sum();
            prop_assert!((sum - 1.0).abs() < 1e-6, "{h:?}");
            prop_assert!(h.levels.iter().all(|l| (-1e-9..=1.0 + 1e-9).contains(&l.1)), "{h:?}");
        }
        if e.mode != Mode::Paper {
            prop_assert!((gbps(e.rates.mpps, q.frame, 1000.0) - e.rates.gbps).abs() < 1e-9);
        }
    }

    #[test]
    fn a_longer_frame_is_never_cheaper(name in name(), q in question(), more in 0u32..2000) {
        let longer = Question { frame: q.frame + more, ..q.clone() };
        let (a, b) = (ask(&LIBRARY, &name, &PROFILE, &q), ask(&LIBRARY, &name, &PROFILE, &longer));
        prop_assert!(b.cycles >= a.cycles * (1.0 - 1e-4), "{} {}", a.cycles, b.cycles);
        prop_assert!(b.rates.core_mpps <= a.rates.core_mpps * (1.0 + 1e-4) + slack(&a));
    }

    #[test]
    fn more_cores_never_carry_less(name in name(), q in question(), more in 0u32..24) {
        let wider = Question { cores: q.cores + more, ..q.clone() };
        let (a, b) = (ask(&LIBRARY, &name, &PROFILE, &q), ask(&LIBRARY, &name, &PROFILE, &wider));
        // More cores share what caches hold, which may cost more than it gives only past all reason.
        prop_assert!(b.rates.mpps >= a.rates.mpps * 0.999 - slack(&a), "{:?} {:?}", a.limits, b.limits);
    }

    #[test]
    fn a_faster_clock_never_carries_less(name in name(), q in question(), faster in 1.0..3.0f64) {
        let q = Question { mode: Mode::Full, ..q };
        let mut fast = PROFILE.clone();
        if let Hardware::Processor(p) = &mut fast.hardware {
            p.clock_hz *= faster;
        }
        let (a, b) = (ask(&LIBRARY, &name, &PROFILE, &q), ask(&LIBRARY, &name, &fast, &q));
        prop_assert!(b.rates.mpps >= a.rates.mpps * (1.0 - 1e-9));
    }

    #[test]
    fn a_burst_never_waits_longer(name in name(), q in question(), more in 0u32..64) {
        let q = Question { mode: Mode::Full, ..q };
        let longer = Question { burst: q.burst + more, ..q.clone() };
        let (a, b) = (ask(&LIBRARY, &name, &PROFILE, &q), ask(&LIBRARY, &name, &PROFILE, &longer));
        prop_assert!(b.wait_cycles <= a.wait_cycles * (1.0 + 1e-9));
    }

    /// Strictly more work is never better in the best case, nor in the worst.
    #[test]
    fn more_work_never_raises_an_end(
        q in question(),
        entries in 1u32..24,
        steps in proptest::collection::vec((0usize..WORK.len(), 1u32..12), 1..8),
        machine in proptest::sample::select(vec!["xeon-e5-2690v2", "virtual-epyc", "virtual-xeon"]),
    ) {
        let q = Question { mode: Mode::Full, frame: q.frame, cores: q.cores, burst: q.burst, traffic: q.traffic, ..Question::default() };
        let profile = &MACHINES.iter().find(|p| *p.name == *machine).expect(machine);
        let mut best = f64::MAX;
        let mut worst = f64::MAX;
        for n in 1..=steps.len() {
            let mut library = LIBRARY.clone();
            let entries = 1u64 << entries;
            let mut text = format!(
                "name = \"more\"\nabout = \"a\"\nsource = [\"s\"]\n[[table]]\nname = \"t\"\nentries = {entries}\nentry_bytes = 64\n"
            );
            for (kind, times) in steps.iter().take(n) {
                text += &format!("[[steps]]\n{}\ntimes = {times}\n", WORK[*kind]);
            }
            library.add("more.toml", &text).expect("a model");
            let e = ask(&library, "more", profile, &q);
            let (low, high) = e.interval_mpps;
            prop_assert!(high <= best * (1.0 + 1e-3), "{n}: {high} after {best}: {steps:?}");
            prop_assert!(low <= worst * (1.0 + 1e-3), "{n}: {low} after {worst}: {steps:?}");
            (best, worst) = (high, low);
        }
    }

    /// The same of lookups that find all near, after a frame's copy.
    #[test]
    fn more_lookups_never_raise_an_end(
        kind in proptest::sample::select(vec!["ht_lookup\"\nN = 1", "ht_lookup\"\nN = 2", "array_access\""]),
        times in proptest::collection::btree_set(1u32..40, 2..6),
        entries in 1u32..18,
        burst in 1u32..65,
        machine in proptest::sample::select(vec!["xeon-e5-2690v2", "virtual-epyc", "virtual-xeon"]),
    ) {
        let q = Question { burst, ..Question::default() };
        let profile = &MACHINES.iter().find(|p| *p.name == *machine).expect(machine);
        let (mut best, mut worst) = (f64::MAX, f64::MAX);
        for n in times {
            let mut library = LIBRARY.clone();
            let entries = 1u64 << entries;
            let text = format!(
                "name = \"more\"\nabout = \"a\"\nsource = [\"s\"]\n[[table]]\nname = \"t\"\nentries = {entries}\nentry_bytes = 16\n\
                 [[steps]]\neo = \"io_mem\"\nhdr = 30\ndata = \"ps\"\n[[steps]]\neo = \"{kind}\ntable = \"t\"\ntimes = {n}\n"
            );
            library.add("more.toml", &text).expect("a model");
            let e = ask(&library, "more", profile, &q);
            let (low, high) = e.interval_mpps;
            prop_assert!(high <= best * (1.0 + 1e-3), "{n}: {high} after {best}");
            prop_assert!(low <= worst * (1.0 + 1e-3), "{n}: {low} after {worst}");
            (best, worst) = (high, low);
        }
    }

    /// The cores that a target takes reach it, and one less does not, whatever number of them was asked about.
    #[test]
    fn a_target_takes_no_core_too_many(name in name(), q in question(), mpps in 0.5..60.0f64) {
        let q = Question { target: Some(Target::Mpps(mpps)), ..q };
        let needed = ask(&LIBRARY, &name, &PROFILE, &q).needed.expect("an answer");
        let at = |cores| {
            let e = ask(&LIBRARY, &name, &PROFILE, &Question { cores, target: None, ..q.clone() });
            e.limits.iter().map(|l| l.mpps).fold(f64::MAX, f64::min)
        };
        if let Some(cores) = needed.cores {
            prop_assert!(at(cores) >= mpps);
            prop_assert!(cores == 1 || at(cores - 1) < mpps);
        } else {
            prop_assert!(at(q.cores) < mpps);
        }
    }
}
