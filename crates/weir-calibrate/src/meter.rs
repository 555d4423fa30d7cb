//! Measuring: samples of one thing until its figure is narrow, or its time is over.
//!
//! Room: the loop alone. What takes a sample is a [`Stopwatch`]: the machine's ([`Here`]), or a test's
//! with time of its own. Each sample stands between two chains of known cycles, so that it counts
//! cycles of the clock that it ran at; where the two disagree, or the kernel says that others ran on
//! this core, the sample is disturbed.

use crate::clock;
use crate::stats::{Figure, Sample, figure};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Something to measure: does so many operations, and says something that depends on them.
pub type Run = Box<dyn FnMut(u64) -> u64>;

/// Cycles of the chain before and after a sample.
const CHAIN: u64 = 40_000;
/// How far two chains around a sample may be apart, as a part.
const STEADY: f64 = 0.02;
/// How long the first sample may be, when nothing is known of what is measured: operations.
const FIRST: u64 = 64;
/// How often that is tried again where something disturbed it.
const TRIES: u32 = 16;
/// What does so many operations in a sample's time does nothing.
const MOST: u64 = 1 << 40;
/// Warm-up, as a part of a sample's operations.
const WARM_UP: u64 = 4;

/// How much time a figure may take, and how narrow it shall be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Time for a figure.
    pub time: Duration,
    /// Time of a sample.
    pub sample: Duration,
    /// Half the interval, as a part of the figure, that is narrow enough.
    pub narrow: f64,
}

/// What one sample says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Taken {
    /// Nanoseconds.
    pub ns: f64,
    /// Nanoseconds of a cycle, around it.
    pub cycle_ns: f64,
    /// Whether something disturbed it.
    pub disturbed: bool,
}

/// What takes samples.
pub trait Stopwatch {
    /// Runs so many operations and says how long they took.
    fn take(&mut self, run: &mut Run, operations: u64) -> Taken;
    /// Time since it was made.
    fn elapsed(&self) -> Duration;
}

/// What was measured: cycles and nanoseconds of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// Cycles.
    pub cycles: Figure,
    /// Nanoseconds.
    pub ns: Figure,
}

/// Measures one thing. Nothing where every sample was disturbed.
pub fn measure(watch: &mut dyn Stopwatch, run: &mut Run, effort: Effort) -> Option<Measured> {
    // As many operations as a sample has room for, by one that nothing is known to have disturbed, if there is any.
    let wanted = effort.sample.as_nanos() as f64;
    let more = |operations: u64, taken: &Taken| {
        (operations as f64 * (wanted / taken.ns.max(1.0)).clamp(2.0, 16.0)) as u64
    };
    let (mut operations, mut left) = (FIRST, TRIES);
    loop {
        let taken = watch.take(run, operations);
        if taken.disturbed && left > 0 {
            left -= 1;
        } else if taken.ns >= wanted / 2.0 || operations >= MOST {
            operations = ((operations as f64 * wanted / taken.ns.max(1.0)) as u64).clamp(1, MOST);
            break;
        } else {
            operations = more(operations, &taken);
        }
    }
    let begin = watch.elapsed();
    let over = |watch: &dyn Stopwatch| watch.elapsed().saturating_sub(begin) >= effort.time;
    let (mut cycles, mut ns) = (Vec::new(), Vec::new());
    loop {
        let taken = watch.take(run, operations);
        // Who was kept waiting, and did not know, found too few; and what does its operations by the burst may do none in a sample
        // that is too short.
        if !taken.disturbed && taken.ns < wanted / 2.0 && operations < MOST {
            operations = more(operations, &taken);
            cycles.clear();
            ns.clear();
            continue;
        }
        let (each, disturbed) = (taken.ns / operations as f64, taken.disturbed);
        cycles.push(Sample { value: each / taken.cycle_ns, disturbed });
        ns.push(Sample { value: each, disturbed });
        let narrow = || figure(&cycles).is_some_and(|f| f.is_narrow(effort.narrow));
        // Sorting costs: it is done now and then.
        if over(watch) || (cycles.len().is_multiple_of(4) && narrow()) {
            return Some(Measured { cycles: figure(&cycles)?, ns: figure(&ns)? });
        }
    }
}

/// This machine's time, on the thread that made it.
#[derive(Debug)]
pub struct Here {
    begin: Instant,
    /// Time this thread ran, time it waited for a core, how often it was given one.
    schedule: Option<File>,
}

impl Here {
    /// For the calling thread.
    pub fn new() -> Self {
        let schedule = File::open("/proc/thread-self/schedstat").ok();
        Self { begin: Instant::now(), schedule }
    }

    /// Nanoseconds that the thread waited while others ran on its core; 0 where the kernel does not
    /// count.
    fn waited(&self) -> u64 {
        let mut bytes = [0; 96];
        let read = self.schedule.as_ref().and_then(|f| f.read_at(&mut bytes, 0).ok()).unwrap_or(0);
        let text = String::from_utf8_lossy(bytes.get(..read).unwrap_or_default()).into_owned();
        text.split_whitespace().nth(1).and_then(|w| w.parse().ok()).unwrap_or(0)
    }
}

impl Default for Here {
    fn default() -> Self {
        Self::new()
    }
}

impl Stopwatch for Here {
    fn take(&mut self, run: &mut Run, operations: u64) -> Taken {
        run(operations.div_ceil(WARM_UP));
        let waited = self.waited();
        let before = clock::cycle_ns(CHAIN);
        // The chain has cooled nothing but the pipeline.
        let begin = Instant::now();
        std::hint::black_box(run(operations));
        let ns = begin.elapsed().as_nanos() as f64;
        let after = clock::cycle_ns(CHAIN);
        let disturbed = self.waited() != waited || (before / after - 1.0).abs() > STEADY;
        Taken { ns, cycle_ns: f64::midpoint(before, after), disturbed }
    }

    fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time that passes by the samples alone: an operation takes 10 ns, 4 cycles a nanosecond first and
    /// 2 later; every third sample is disturbed and takes twice as long.
    struct Virtual {
        now: Duration,
        taken: usize,
        every: usize,
    }

    impl Stopwatch for Virtual {
        fn take(&mut self, run: &mut Run, operations: u64) -> Taken {
            run(operations);
            self.taken += 1;
            let disturbed = self.taken.is_multiple_of(self.every);
            let cycle_ns = if self.taken.is_multiple_of(2) { 0.25 } else { 0.5 };
            let each = 40.0 * cycle_ns * if disturbed { 2.0 } else { 1.0 };
            let ns = each * operations as f64;
            self.now += Duration::from_nanos(ns as u64);
            Taken { ns, cycle_ns, disturbed }
        }
        fn elapsed(&self) -> Duration {
            self.now
        }
    }

    const EFFORT: Effort = Effort {
        time: Duration::from_millis(50),
        sample: Duration::from_micros(200),
        narrow: 0.01,
    };

    #[test]
    fn cycles_do_not_see_the_clock_change() {
        let mut watch = Virtual { now: Duration::ZERO, taken: 0, every: 3 };
        let mut run: Run = Box::new(|n| n);
        let m = measure(&mut watch, &mut run, EFFORT).expect("a figure");
        assert!((m.cycles.value - 40.0).abs() < 1e-9, "{m:?}");
        assert!(m.cycles.is_narrow(0.01) && m.cycles.rejected > 0);
        // It was narrow long before its time was over.
        assert!(watch.elapsed() < EFFORT.time / 2, "{:?}", watch.elapsed());
    }

    #[test]
    fn time_ends_what_never_gets_narrow() {
        let mut watch = Virtual { now: Duration::ZERO, taken: 0, every: 1 };
        let mut run: Run = Box::new(|n| n);
        assert_eq!(measure(&mut watch, &mut run, EFFORT), None);
        assert!(watch.elapsed() >= EFFORT.time && watch.elapsed() < 2 * EFFORT.time);
    }

    /// What does bursts of 64 operations in 640 ns each, and the first of all comes late, of which nothing is known; all are disturbed
    /// but one of so many.
    struct Late {
        now: Duration,
        taken: usize,
        sound: usize,
        /// Operations that were done beyond those that were asked for.
        ahead: u64,
    }

    impl Stopwatch for Late {
        fn take(&mut self, _: &mut Run, operations: u64) -> Taken {
            let bursts = operations.saturating_sub(self.ahead).div_ceil(64);
            self.ahead = self.ahead + 64 * bursts - operations;
            let waited = if self.taken == 0 { 20_000_000 } else { 0 };
            self.now += Duration::from_nanos(640 * bursts + waited);
            self.taken += 1;
            let ns = (640 * bursts + waited) as f64;
            Taken { ns, cycle_ns: 0.25, disturbed: !self.taken.is_multiple_of(self.sound) }
        }
        fn elapsed(&self) -> Duration {
            self.now
        }
    }

    #[test]
    fn a_sample_is_as_long_as_it_should_be_however_late_the_first_is() {
        for sound in [1, 2, 7] {
            let mut watch = Late { now: Duration::ZERO, taken: 0, sound, ahead: 0 };
            let effort = Effort { time: Duration::from_millis(5), ..EFFORT };
            let m = measure(&mut watch, &mut (Box::new(|n| n) as Run), effort);
            let value = m.expect("a figure").cycles.value;
            assert!((value - 40.0).abs() < 1.0, "one of {sound}: {value}");
        }
    }

    #[test]
    fn what_does_nothing_ends() {
        if let Some(m) = measure(&mut Here::new(), &mut (Box::new(|n| n) as Run), EFFORT) {
            assert!(m.cycles.value < 1e-3, "{m:?}");
        }
    }

    #[test]
    fn the_machine_gives_figures() {
        let mut run: Run = Box::new(|n| clock::chain(n * 1000));
        let effort = Effort { time: Duration::from_millis(300), ..EFFORT };
        // On a machine so busy that every sample is disturbed there is none, which is an answer, too.
        if let Some(m) = measure(&mut Here::new(), &mut run, effort) {
            assert!(m.cycles.value > 0.0 && m.ns.value > 0.0, "{m:?}");
        }
    }
}
