//! The search against devices whose capacity is known.

use super::super::simulated::Simulated;
use super::*;
use proptest::prelude::*;

fn settings(min: f64, max: f64) -> ThroughputSettings {
    let rate = |fps| Rate::new(fps).unwrap();
    ThroughputSettings {
        duration: Duration::from_secs(10),
        ..ThroughputSettings::over(rate(min), rate(max))
    }
}

fn search(device: &mut Simulated, s: &ThroughputSettings) -> Throughput {
    throughput(device, s).unwrap()
}

proptest! {
    #[test]
    fn a_device_of_known_capacity(capacity in 2_000.0..2e7f64, resolution in 0.0005..0.1f64) {
        let mut device = Simulated::of_capacity(capacity);
        let s = ThroughputSettings { resolution: Resolution::Relative(resolution), ..settings(1_000.0, 1e7) };
        let got = search(&mut device, &s);
        let rate = got.rate.unwrap().fps();
        // A tenth of a frame per second: what ten seconds can tell.
        prop_assert!(rate <= capacity + 0.1);
        if capacity >= 1e7 {
            prop_assert_eq!((rate, got.limited_by), (1e7, LimitedBy::Range));
            prop_assert_eq!(got.trials.len(), 1);
        } else {
            let LimitedBy::Device { lost_at } = got.limited_by else { panic!("{got:?}") };
            prop_assert!(lost_at.fps() > capacity - 0.1);
            prop_assert!(lost_at.fps() - rate <= resolution * lost_at.fps());
        }
        // The result is a rate that was tried and lost nothing.
        prop_assert!(got.trials.iter().any(|t| t.offered.fps() == rate && t.sent == t.received));
        prop_assert_eq!(device.best, rate);
        prop_assert!(got.trials.len() <= 26);
    }

    #[test]
    fn an_absolute_resolution(capacity in 2_000.0..9e5f64) {
        let resolution = Resolution::Absolute(Rate::new(50.0).unwrap());
        let s = ThroughputSettings { resolution, ..settings(1_000.0, 1e6) };
        let rate = search(&mut Simulated::of_capacity(capacity), &s).rate.unwrap().fps();
        prop_assert!(rate <= capacity + 0.1 && capacity - rate <= 50.1);
    }

    /// The capacity of each trial is within ± 5 %: so is the result.
    #[test]
    fn a_noisy_device(capacity in 2_000.0..9e5f64, seed in any::<u64>()) {
        let mut device = Simulated::of_capacity(capacity).noisy(0.05, seed);
        let got = search(&mut device, &settings(1_000.0, 1e6));
        let rate = got.rate.unwrap().fps();
        prop_assert!(rate <= capacity * 1.05 + 0.1);
        prop_assert!(rate >= capacity * 0.95 * (1.0 - 0.011) - 0.1, "{rate} of {capacity}");
        prop_assert!(got.trials.iter().any(|t| t.offered.fps() == rate && t.sent == t.received));
    }

    /// A source below the device's capacity: what it offered is the result, and the source is named.
    #[test]
    fn a_slow_source_is_not_the_devices_fault(source in 2_000.0..8e5f64, over in 1.01..4.0f64) {
        let mut device = Simulated::of_capacity(source * over).fed_at_most(source);
        let got = search(&mut device, &settings(1_000.0, 1e6));
        prop_assert_eq!(got.limited_by, LimitedBy::Source);
        prop_assert_eq!(got.rate.unwrap().fps(), source);
    }

    /// A device below the source's limit: found as if the source had none.
    #[test]
    fn a_source_that_is_fast_enough(capacity in 2_000.0..8e5f64, over in 1.05..4.0f64) {
        let mut device = Simulated::of_capacity(capacity).fed_at_most(capacity * over);
        let s = settings(1_000.0, 1e6);
        let got = search(&mut device, &s);
        let rate = got.rate.unwrap().fps();
        prop_assert!(matches!(got.limited_by, LimitedBy::Device { .. }), "{:?}", got.limited_by);
        // What was lost at was the source's limit, so the search goes on below that.
        let limit = Rate::new(capacity * over).unwrap().min(s.max);
        prop_assert_eq!(got.trials[1].offered, s.min.midway(limit));
        prop_assert!(rate <= capacity + 0.1 && rate >= capacity * 0.995 - 0.1, "{rate} of {capacity}");
    }

    /// The source stalls now and then: tried again where it has offered as much before.
    #[test]
    fn stalls_of_the_source_do_not_end_the_search(capacity in 2_000.0..8e5f64, every in 2u32..5) {
        let mut device = Simulated::of_capacity(capacity).stalling_every(every);
        let rate = search(&mut device, &settings(1_000.0, 1e6)).rate.unwrap().fps();
        prop_assert!(rate <= capacity + 0.1 && rate >= capacity * 0.995 - 0.1, "{rate} of {capacity}");
    }
}

#[test]
fn loss_by_chance_leaves_no_throughput() {
    let mut device = Simulated::of_capacity(1e9).losing(0.01, 3);
    let got = search(&mut device, &settings(1_000.0, 1e6));
    assert_eq!(got.rate, None);
    let LimitedBy::Device { lost_at } = got.limited_by else { panic!("{got:?}") };
    assert_eq!(lost_at.fps(), 1_000.0, "the lowest rate was tried too");
}

#[test]
fn how_many_trials_must_pass() {
    // The third trial of each three is a stall of the source; two of three is enough, three is not.
    let accept = |must_pass| ThroughputSettings {
        acceptance: Acceptance { trials: 3, must_pass },
        ..settings(1_000.0, 1e5)
    };
    let mut device = Simulated::of_capacity(1e9).stalling_every(3);
    let got = search(&mut device, &accept(2));
    assert_eq!((got.rate.unwrap().fps(), got.trials.len()), (1e5, 2), "no more than needed");
    let mut device = Simulated::of_capacity(1e9).stalling_every(3);
    assert_eq!(search(&mut device, &accept(3)).limited_by, LimitedBy::Source);
}

#[test]
fn a_source_that_sends_nothing_proves_nothing() {
    let mut device = Simulated::of_capacity(1e9).fed_at_most(0.0);
    let got = search(&mut device, &settings(1_000.0, 1e6));
    assert_eq!((got.rate, got.limited_by), (None, LimitedBy::Source));
}

#[test]
fn a_range_of_one_rate() {
    let mut device = Simulated::of_capacity(999.0);
    let got = search(&mut device, &settings(1_000.0, 1_000.0));
    assert_eq!((got.rate, got.trials.len()), (None, 1));
    let mut device = Simulated::of_capacity(1_001.0);
    assert!(search(&mut device, &settings(1_000.0, 1_000.0)).rate.is_some());
}

#[test]
fn settings_that_make_no_sense() {
    let good = settings(1_000.0, 2_000.0);
    let none = Acceptance { trials: 1, must_pass: 0 };
    for bad in [
        settings(2_000.0, 1_000.0),
        ThroughputSettings { resolution: Resolution::Relative(0.0), ..good },
        ThroughputSettings { resolution: Resolution::Relative(f64::NAN), ..good },
        ThroughputSettings { reach: 1.5, ..good },
        ThroughputSettings { acceptance: none, ..good },
        ThroughputSettings { acceptance: Acceptance { must_pass: 2, ..none }, ..good },
    ] {
        let mut device = Simulated::of_capacity(1.0);
        assert!(matches!(throughput(&mut device, &bad), Err(Error::Settings(_))), "{bad:?}");
        assert_eq!(device.trials, 0);
    }
}
