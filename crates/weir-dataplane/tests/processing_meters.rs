//! Meters against an oracle that lets time pass a millisecond at a time, and known answers.

use proptest::prelude::*;
use weir_dataplane::{Band, BandKind, MAX_BANDS, Meter, MeterError, Unit, Verdict};
use weir_packet::Nanos;

/// Buckets in micro-units (millionths of a packet or of a bit), filled once per millisecond.
struct Oracle {
    unit: Unit,
    bands: Vec<Band>,
    level: Vec<u64>,
}

impl Oracle {
    fn new(unit: Unit, bands: &[Band]) -> Self {
        let mut o = Self { unit, bands: bands.to_vec(), level: Vec::new() };
        o.level = bands.iter().map(|b| o.full(b)).collect();
        o
    }
    fn full(&self, b: &Band) -> u64 {
        let units = match (self.unit, b.burst) {
            (Unit::Packets, 0) => u64::from(b.rate),
            (Unit::Packets, n) => u64::from(n),
            (Unit::Kilobits, 0) => (u64::from(b.rate) * 1000).max(1514 * 8),
            (Unit::Kilobits, n) => u64::from(n) * 1000,
        };
        units * 1_000_000
    }
    fn millisecond(&mut self) {
        for (i, b) in self.bands.iter().enumerate() {
            // A packet per second is a thousandth per millisecond; a kilobit per second is a bit.
            let gain = if self.unit == Unit::Packets { 1000 } else { 1_000_000 };
            self.level[i] = (self.level[i] + u64::from(b.rate) * gain).min(self.full(b));
        }
    }
    fn frame(&mut self, len: usize) -> Option<usize> {
        let cost = if self.unit == Unit::Packets { 1 } else { 8 * len as u64 } * 1_000_000;
        let mut exceeded: Vec<usize> = Vec::new();
        for i in 0..self.bands.len() {
            if self.level[i] < cost {
                exceeded.push(i);
            } else {
                self.level[i] -= cost;
            }
        }
        let highest = exceeded.iter().map(|&i| self.bands[i].rate).max()?;
        exceeded.into_iter().find(|&i| self.bands[i].rate == highest)
    }
}

fn band() -> impl Strategy<Value = Band> {
    let kind = prop_oneof![Just(BandKind::Drop), (1u8..).prop_map(BandKind::DscpRemark)];
    let rate = prop_oneof![1u32..50, 1u32..100_000];
    (kind, rate, prop_oneof![Just(0), 1u32..200]).prop_map(|(kind, rate, burst)| Band {
        kind,
        rate,
        burst,
    })
}

proptest! {
    #[test]
    fn equals_the_oracle(
        kilobits in any::<bool>(),
        bands in prop::collection::vec(band(), 0..5),
        frames in prop::collection::vec((0u64..200, 14usize..9000), 1..300),
        start in 0u64..1 << 40,
    ) {
        let unit = if kilobits { Unit::Kilobits } else { Unit::Packets };
        let mut meter = Meter::new(unit, &bands).unwrap();
        let mut oracle = Oracle::new(unit, &bands);
        let mut decided = vec![(0, 0); bands.len()];
        let (mut now, mut bytes) = (start, 0);
        for (i, &(gap, len)) in frames.iter().enumerate() {
            now += gap * 1_000_000;
            for _ in 0..if i == 0 { 0 } else { gap } {
                oracle.millisecond();
            }
            let want = oracle.frame(len);
            bytes += len as u64;
            let verdict = match want.map(|i| bands[i].kind) {
                None => Verdict::Pass,
                Some(BandKind::Drop) => Verdict::Drop,
                Some(BandKind::DscpRemark(n)) => Verdict::Remark(n),
            };
            prop_assert_eq!(meter.pass(Nanos(now), len), verdict, "frame {}", i);
            if let Some(i) = want {
                decided[i].0 += 1;
                decided[i].1 += len as u64;
            }
        }
        prop_assert_eq!((meter.counted().frames, meter.counted().bytes), (frames.len() as u64, bytes));
        let got: Vec<_> = meter.bands().map(|(_, t)| (t.frames, t.bytes)).collect();
        prop_assert_eq!(got, decided);
    }

    /// Any times, any rates: no overflow.
    #[test]
    fn extremes(
        times in prop::collection::vec(prop_oneof![any::<u64>(), Just(0), Just(u64::MAX)], 1..20),
        rate in prop_oneof![1u32.., Just(u32::MAX)],
        burst in prop_oneof![any::<u32>(), Just(u32::MAX), Just(0)],
        len in 0usize..=65_535,
    ) {
        for unit in [Unit::Kilobits, Unit::Packets] {
            let mut m = Meter::new(unit, &[Band { kind: BandKind::Drop, rate, burst }]).unwrap();
            for t in &times {
                m.pass(Nanos(*t), len);
            }
        }
    }

    /// However time is cut into pieces, what passes between two moments is at most the burst and
    /// what the rate gave; nothing is lost to rounding when the source always has a frame waiting.
    #[test]
    fn long_run_rate(rate in 1u32..2000, burst in 1u32..50, step in 1u64..50_000_000) {
        let mut m = Meter::new(Unit::Packets, &[Band { kind: BandKind::Drop, rate, burst }]).unwrap();
        let (mut passed, mut now) = (0u64, 0u64);
        for _ in 0..2000 {
            while m.pass(Nanos(now), 60) == Verdict::Pass {
                passed += 1;
            }
            now += step;
        }
        let last = now - step;
        let ceiling = u128::from(burst) + u128::from(rate) * u128::from(last) / 1_000_000_000;
        prop_assert!(u128::from(passed) <= ceiling, "{passed} of {ceiling}");
        if u128::from(rate) * u128::from(step) <= u128::from(burst - 1) * 1_000_000_000 {
            // Less than one token is left each time, so the bucket never runs over.
            prop_assert!(u128::from(passed) + 1 >= ceiling, "{passed} of {ceiling}");
        }
    }
}

fn drop_band(rate: u32, burst: u32) -> Band {
    Band { kind: BandKind::Drop, rate, burst }
}

#[test]
fn bits_are_counted_exactly() {
    // 1 kbit/s, and a frame of 125 bytes is a kilobit.
    let mut m = Meter::new(Unit::Kilobits, &[drop_band(1, 1)]).unwrap();
    assert_eq!(m.pass(Nanos(0), 125), Verdict::Pass);
    assert_eq!(m.pass(Nanos(999_999_999), 125), Verdict::Drop);
    assert_eq!(m.pass(Nanos(1_000_000_000), 125), Verdict::Pass);
}

#[test]
fn the_default_burst_is_a_second_and_at_least_a_frame() {
    let mut m = Meter::new(Unit::Packets, &[drop_band(3, 0)]).unwrap();
    let got: Vec<_> = (0..4).map(|_| m.pass(Nanos(7), 60)).collect();
    assert_eq!(got, [Verdict::Pass, Verdict::Pass, Verdict::Pass, Verdict::Drop]);
    let mut m = Meter::new(Unit::Kilobits, &[drop_band(1, 0)]).unwrap();
    assert_eq!((m.pass(Nanos(0), 1514), m.pass(Nanos(0), 14)), (Verdict::Pass, Verdict::Drop));
}

#[test]
fn of_exceeded_bands_the_highest_rate_decides() {
    let remark = Band { kind: BandKind::DscpRemark(1), rate: 10, burst: 1 };
    let mut m = Meter::new(Unit::Packets, &[remark, drop_band(20, 2)]).unwrap();
    let got: Vec<_> = (0..3).map(|_| m.pass(Nanos(0), 60)).collect();
    assert_eq!(got, [Verdict::Pass, Verdict::Remark(1), Verdict::Drop]);
}

#[test]
fn a_clock_that_goes_back_gives_nothing() {
    let mut m = Meter::new(Unit::Packets, &[drop_band(1, 1)]).unwrap();
    assert_eq!(m.pass(Nanos(5_000_000_000), 60), Verdict::Pass);
    assert_eq!(m.pass(Nanos(0), 60), Verdict::Drop);
    // What lies between was already paid for.
    assert_eq!(m.pass(Nanos(5_500_000_000), 60), Verdict::Drop);
    assert_eq!(m.pass(Nanos(6_000_000_000), 60), Verdict::Pass);
}

#[test]
fn impossible_meters_are_refused() {
    let refused = |bands: &[Band]| Meter::new(Unit::Packets, bands).unwrap_err();
    assert_eq!(refused(&[drop_band(1, 1), drop_band(0, 1)]), MeterError::NoRate(1));
    let none = Band { kind: BandKind::DscpRemark(0), rate: 1, burst: 1 };
    assert_eq!(refused(&[none]), MeterError::NoLevels(0));
    assert_eq!(refused(&vec![drop_band(1, 1); MAX_BANDS + 1]), MeterError::TooMany(17));
    assert!(Meter::new(Unit::Packets, &[drop_band(1, 1); MAX_BANDS]).is_ok());
}
