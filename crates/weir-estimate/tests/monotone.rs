//! Neither a faster clock nor a larger cache is ever slower, and neither longer frames nor more flows are ever quicker:
//! for every function and every machine that come along.

mod support;

use proptest::prelude::*;
use std::sync::LazyLock;
use support::{ask, library, profile};
use weir_estimate::locality::ERROR;
use weir_estimate::profile::{Hardware, Shared};
use weir_estimate::traffic::{Spread, Traffic};
use weir_estimate::{Library, Profile, Question};

static LIBRARY: LazyLock<Library> = LazyLock::new(library);
static MACHINES: LazyLock<Vec<Profile>> = LazyLock::new(|| {
    ["virtual-epyc", "virtual-xeon", "xeon-e5-2690v2"].map(|n| profile(&LIBRARY, n)).into()
});

/// What windows and the search for a time in a cache may be off.
const SLACK: f64 = 3e-3;

fn mpps(name: &str, machine: &Profile, ghz: Option<f64>, frame: u32, traffic: &Traffic) -> f64 {
    let mut machine = machine.clone();
    if let (Hardware::Processor(p), Some(ghz)) = (&mut machine.hardware, ghz) {
        p.clock_hz = ghz * 1e9;
    }
    let question = Question { frame, traffic: Some(traffic.clone()), ..Question::default() };
    ask(&LIBRARY, name, &machine, &question).rates.core_mpps
}

/// The same with another size of the last cache that is a core's own.
fn with_cache(name: &str, machine: &Profile, bytes: f64, traffic: &Traffic) -> f64 {
    let mut machine = machine.clone();
    if let Hardware::Processor(p) = &mut machine.hardware
        && let Some(own) = p.caches.iter_mut().rfind(|c| c.shared == Shared::Core)
    {
        own.bytes = bytes;
    }
    mpps(name, &machine, None, 64, traffic)
}

/// Where all just fits into a core's own caches, sets that are fuller than others let go of lines, and these were as
/// far away as those of a cache that never lets go, or as near as anything.
#[test]
fn no_steps_where_all_just_fits() {
    let epyc = &MACHINES[0];
    let traffic = |n: f64| Traffic::uniform(n.round());
    let slower = |a: f64, b: f64| assert!(b <= a * (1.0 + SLACK), "{a} {b}");
    let cache = |kib: u32| with_cache("l2-basic", epyc, f64::from(kib) * 1024.0, &traffic(20e3));
    (70..150).for_each(|n| slower(cache(16 * n + 16), cache(16 * n)));
    for name in ["l2-basic", "firewall", "nat44", "load-balancer"] {
        let flows = |n: i32| mpps(name, epyc, None, 64, &traffic(8e3 * 1.03f64.powi(n)));
        (0..60).for_each(|n| slower(flows(n), flows(n + 1)));
    }
}

fn anything() -> impl Strategy<Value = (String, usize, Spread)> {
    let names: Vec<String> = LIBRARY.names().map(str::to_owned).collect();
    let spread = prop_oneof![Just(Spread::Uniform), (0.3..1.6f64).prop_map(Spread::Zipf)];
    (proptest::sample::select(names), 0..MACHINES.len(), spread)
}

/// Where others take lines of the last cache, the curve of loads was measured at few sizes, and steps were between them.
#[test]
fn no_steps_where_they_were() {
    let epyc = &MACHINES[0];
    let at = |name, ghz, frame, traffic: &str| {
        mpps(name, epyc, ghz, frame, &Traffic::read(traffic).expect(traffic))
    };
    let all = "uniform,flows=2097152";
    assert!(at("mpls-switch", Some(2.1), 64, all) >= at("mpls-switch", Some(2.0), 64, all));
    let slower = |a: f64, b: f64| assert!(b <= a * (1.0 + SLACK), "{a} {b}");
    slower(at("mpls-switch", None, 960, all), at("mpls-switch", None, 961, all));
    let flows = |n| at("mpls-switch", None, 64, &format!("uniform,flows={n}"));
    (10..20).for_each(|n| slower(flows(n * 100_000), flows((n + 1) * 100_000)));
    let flows = |n| at("l2-basic", None, 64, &format!("zipf:1,flows={n}"));
    (10..20).for_each(|n| slower(flows(n * 5_000), flows((n + 1) * 5_000)));
    let frames = |frame| at("l2-basic", None, frame, "zipf:1,flows=100k");
    (190..196).for_each(|f| slower(frames(f), frames(f + 1)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_direction_is_kept(
        (name, machine, spread) in anything(),
        flows in 3.0..7.0f64,
        more in 1.0..2.0f64,
        frame in 64u32..1600,
        longer in 0u32..200,
        ghz in 1.0..4.0f64,
        faster in 1.0..1.3f64,
        cache in 0.3..2.0f64,
        larger in 1.0..1.3f64,
    ) {
        let machine = &MACHINES[machine];
        let of = |flows: f64| Traffic { spread: spread.clone(), flows: flows.round() };
        let flows = 10f64.powf(flows);
        let here = mpps(&name, machine, None, frame, &of(flows));
        let many = mpps(&name, machine, None, frame, &of(flows * more));
        // Other flows are other classes: what locality may be off.
        prop_assert!(many <= here * (1.0 + ERROR), "flows: {here}, {many}");
        let long = mpps(&name, machine, None, frame + longer, &of(flows));
        prop_assert!(long <= here * (1.0 + SLACK), "frame: {here}, {long}");
        let slow = mpps(&name, machine, Some(ghz), frame, &of(flows));
        let quick = mpps(&name, machine, Some(ghz * faster), frame, &of(flows));
        prop_assert!(quick >= slow * (1.0 - SLACK), "clock: {slow}, {quick}");
        let bytes = cache * f64::from(1 << 20);
        let small = with_cache(&name, machine, bytes, &of(flows));
        let large = with_cache(&name, machine, bytes * larger, &of(flows));
        prop_assert!(large >= small * (1.0 - SLACK), "cache: {small}, {large}");
    }
}
