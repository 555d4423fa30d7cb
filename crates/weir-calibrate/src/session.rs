//! One calibration while it runs: how thorough, how far, what was noisy.
//!
//! Room: between what is measured (`levels`, `bench`) and who watches. Called by `calibrate`.

use crate::machine::Machine;
use crate::meter::{Effort, Measured, Run, Stopwatch, measure};
use std::time::Duration;

/// How thorough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// In some ten seconds: to see where one stands.
    Quick,
    /// Within three minutes.
    Full,
}

/// How far it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// What is measured.
    pub what: String,
    /// Figures that are done.
    pub done: usize,
    /// Figures there will be.
    pub of: usize,
    /// Time that is left, by the time that was taken.
    pub left: Duration,
}

/// What keeps a machine from being calibrated.
#[derive(Debug)]
pub enum Failed {
    /// Memory that is not given.
    Memory(std::io::Error),
    /// Every sample was disturbed.
    Disturbed {
        /// Of what.
        what: String,
    },
    /// A benchmark that did nothing: there is no data plane to it, or no frame came through.
    Idle {
        /// Of what.
        what: String,
    },
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failed::Memory(e) => write!(f, "memory to measure in: {e}: free some, or use --quick"),
            Failed::Disturbed { what } => write!(
                f,
                "{what}: every sample was disturbed by other work on this core: calibrate when the \
                 machine is quieter"
            ),
            Failed::Idle { what } => write!(
                f,
                "{what}: the benchmark did nothing, so that there is nothing to measure: this is a fault of weir, \
                 please report it with what `weir --version` says"
            ),
        }
    }
}

impl std::error::Error for Failed {}

impl From<std::io::Error> for Failed {
    fn from(e: std::io::Error) -> Self {
        Failed::Memory(e)
    }
}

/// A sample of what does its operations by the burst.
const BURSTS: Duration = Duration::from_micros(400);
/// What comes by the burst takes so many cycles each at least.
const LEAST: f64 = 1.0;
/// How often a figure that is not narrow is measured.
const ROUNDS: u32 = 3;
/// How long a calibration goes on asking, over all its figures, where every sample was disturbed.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most that a field is large.
const LARGEST: f64 = 2.0 * 1024.0 * 1024.0 * 1024.0;

/// A calibration that runs.
pub struct Session<'w> {
    depth: Depth,
    cpus: Vec<usize>,
    clock: &'w mut dyn Stopwatch,
    watch: &'w mut dyn FnMut(&Progress),
    done: usize,
    of: usize,
    /// What is left of [`PATIENCE`].
    patience: Duration,
    /// Figures whose interval did not get narrow: their name, and half the interval as a part of them.
    pub wide: Vec<(String, f64)>,
    /// Operations that could not be measured, and at what that was found.
    pub left_out: Vec<(&'static str, String)>,
    /// Samples that counted, and that did not.
    pub samples: (usize, usize),
}

impl<'w> Session<'w> {
    /// One that begins, on these CPUs.
    pub fn new(
        depth: Depth,
        cpus: Vec<usize>,
        clock: &'w mut dyn Stopwatch,
        watch: &'w mut dyn FnMut(&Progress),
    ) -> Self {
        Self {
            depth,
            cpus,
            clock,
            watch,
            done: 0,
            of: 1,
            patience: PATIENCE,
            wide: Vec::new(),
            left_out: Vec::new(),
            samples: (0, 0),
        }
    }

    /// That so many figures will come.
    pub fn expect(&mut self, figures: usize) {
        self.of = figures.max(1);
    }

    fn effort(&self) -> Effort {
        let (time, sample) = match self.depth {
            Depth::Quick => (15, 60),
            Depth::Full => (120, 100),
        };
        // What is left is for all that come: nobody waits longer than was said.
        let left = self.budget().saturating_sub(self.clock.elapsed());
        let share = left / u32::try_from(self.of.saturating_sub(self.done).max(1)).unwrap_or(1);
        let least = Duration::from_micros(40 * sample);
        Effort {
            time: Duration::from_millis(time).min(share.max(least)),
            sample: Duration::from_micros(sample),
            narrow: if self.depth == Depth::Quick { 0.02 } else { 0.005 },
        }
    }

    /// Time for all figures; what comes beside them takes some seconds more.
    fn budget(&self) -> Duration {
        Duration::from_secs(if self.depth == Depth::Quick { 6 } else { 140 })
    }

    /// How thorough.
    pub fn depth(&self) -> Depth {
        self.depth
    }

    /// The largest field, in bytes.
    pub fn largest(&self, machine: &Machine) -> f64 {
        let last = machine.caches.last().map_or(32e6, |c| c.bytes);
        let wanted = match self.depth {
            Depth::Quick => 256.0 * 1024.0 * 1024.0,
            Depth::Full => (4.0 * last).max(256.0 * 1024.0 * 1024.0),
        };
        // Never more than a quarter of what is free.
        wanted.min(LARGEST).min(machine.available_bytes / 4.0).max(1024.0 * 1024.0)
    }

    /// How much larger each size of the curve is than the one before.
    pub fn step(&self) -> f64 {
        match self.depth {
            Depth::Quick => 4.0,
            Depth::Full => 2.0,
        }
    }

    /// What all cores read together from memory, in bytes per second.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn together(&mut self, machine: &Machine) -> Result<f64, Failed> {
        self.tell("bandwidth of memory, all cores");
        let threads = self.cpus.len();
        // Each beyond its part of the last cache.
        let bytes = (self.largest(machine) / threads.max(1) as f64).min(256e6) as usize;
        let time = self.effort().time;
        Ok(crate::bandwidth::together(&self.cpus, bytes, time, 3)?)
    }

    fn tell(&mut self, what: &str) {
        let left = match self.done {
            0 => Duration::ZERO,
            done => self
                .clock
                .elapsed()
                .div_f64(done as f64)
                .mul_f64(self.of.saturating_sub(done) as f64),
        };
        let (done, of) = (self.done, self.of.max(self.done));
        (self.watch)(&Progress { what: what.to_owned(), done, of, left });
        self.done += 1;
    }

    /// Measures one thing. A second time, and longer, where it is not narrow; and on, where every
    /// sample was disturbed, for as long as the calibration has patience.
    ///
    /// # Errors
    /// Every sample was disturbed, again and again.
    pub fn measure(&mut self, what: &str, run: &mut Run) -> Result<Measured, Failed> {
        let effort = self.effort();
        self.measured(what, run, effort)
    }

    /// As [`Session::measure`], for what does its operations by the burst: a sample is many of them.
    ///
    /// # Errors
    /// Every sample was disturbed, again and again.
    pub fn measure_bursts(&mut self, what: &str, run: &mut Run) -> Result<Measured, Failed> {
        let effort = self.effort();
        let sample = BURSTS;
        let effort = Effort { sample, time: effort.time.max(12 * sample), ..effort };
        let m = self.measured(what, run, effort)?;
        if m.cycles.value < LEAST {
            return Err(Failed::Idle { what: what.to_owned() });
        }
        Ok(m)
    }

    fn measured(&mut self, what: &str, run: &mut Run, effort: Effort) -> Result<Measured, Failed> {
        self.tell(what);
        let mut found: Option<Measured> = None;
        for round in 1u32.. {
            let is_beyond = round > ROUNDS;
            if is_beyond && (found.is_some() || self.patience.is_zero()) {
                break;
            }
            let longer = Effort { time: effort.time.saturating_mul(round), ..effort };
            let begin = self.clock.elapsed();
            let taken = measure(self.clock, run, longer);
            if is_beyond {
                let spent = self.clock.elapsed().saturating_sub(begin);
                self.patience = self.patience.saturating_sub(spent);
            }
            if let Some(m) = taken {
                self.samples.0 += m.cycles.kept;
                self.samples.1 += m.cycles.rejected;
                let better = found.is_none_or(|f| m.cycles.half_width() < f.cycles.half_width());
                if better {
                    found = Some(m);
                }
            }
            if found.is_some_and(|f| f.cycles.half_width() <= 4.0 * effort.narrow) {
                break;
            }
        }
        let m = found.ok_or_else(|| Failed::Disturbed { what: what.to_owned() })?;
        if m.cycles.half_width() > 4.0 * effort.narrow {
            self.noted(what, m.cycles.half_width());
        }
        Ok(m)
    }

    /// What was found of an operation; one whose every sample was disturbed is left out, and costs no other its figures.
    ///
    /// # Errors
    /// All others.
    pub fn or_left_out<T>(
        &mut self,
        eo: &'static str,
        found: Result<T, Failed>,
    ) -> Result<Option<T>, Failed> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(Failed::Disturbed { what }) => {
                if self.left_out.iter().all(|(name, _)| *name != eo) {
                    self.left_out.push((eo, what));
                }
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// That a figure did not get narrow: once, with the widest, where several samples series are of one name.
    fn noted(&mut self, what: &str, half_width: f64) {
        match self.wide.iter_mut().find(|(name, _)| name == what) {
            Some((_, widest)) => *widest = widest.max(half_width),
            None => self.wide.push((what.to_owned(), half_width)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::Taken;

    /// Time that passes by the samples alone, an operation 10 ns, all disturbed until some time.
    struct Busy {
        now: Duration,
        until: Duration,
    }

    /// Where an operation takes so long.
    struct Each {
        now: Duration,
        ns: f64,
    }

    impl Stopwatch for Each {
        fn take(&mut self, _: &mut Run, operations: u64) -> Taken {
            let ns = self.ns * operations as f64;
            self.now += Duration::from_nanos(ns as u64 + 1);
            Taken { ns, cycle_ns: 0.25, disturbed: false }
        }
        fn elapsed(&self) -> Duration {
            self.now
        }
    }

    impl Stopwatch for Busy {
        fn take(&mut self, _: &mut Run, operations: u64) -> Taken {
            let disturbed = self.now < self.until;
            let ns = 10.0 * operations as f64;
            self.now += Duration::from_nanos(ns as u64);
            Taken { ns, cycle_ns: 0.25, disturbed }
        }
        fn elapsed(&self) -> Duration {
            self.now
        }
    }

    /// Measures while others run until then: what comes of it, and when.
    fn while_busy(until: Duration) -> (Result<Measured, Failed>, Duration) {
        let mut clock = Busy { now: Duration::ZERO, until };
        let measured = Session::new(Depth::Quick, vec![0], &mut clock, &mut |_| ())
            .measure("a thing", &mut (Box::new(|n| n) as Run));
        (measured, clock.now)
    }

    #[test]
    fn it_waits_until_others_are_done() {
        for seconds in [0, 1, 5, 9] {
            let (measured, end) = while_busy(Duration::from_secs(seconds));
            let m = measured.expect("a figure");
            assert!((m.cycles.value - 40.0).abs() < 1e-9, "{m:?}");
            assert!(end < Duration::from_secs(seconds + 1), "{seconds}: {end:?}");
        }
    }

    #[test]
    fn what_did_nothing_is_no_figure() {
        for (ns, is_figure) in [(10.0, true), (0.01, false)] {
            let mut clock = Each { now: Duration::ZERO, ns };
            let measured = Session::new(Depth::Quick, vec![0], &mut clock, &mut |_| ())
                .measure_bursts("a thing", &mut (Box::new(|n| n) as Run));
            assert_eq!(measured.is_ok(), is_figure, "{measured:?}");
            assert!(is_figure || matches!(measured, Err(Failed::Idle { .. })), "{measured:?}");
        }
    }

    /// Where no sample is like the one before, and there is time for few.
    struct Noisy(Duration);

    impl Stopwatch for Noisy {
        fn take(&mut self, _: &mut Run, operations: u64) -> Taken {
            self.0 += Duration::from_millis(3);
            let parts = (self.0.as_millis() / 3 * 7 % 5) as f64;
            let ns = (10.0 + 5.0 * parts) * operations as f64;
            Taken { ns, cycle_ns: 0.25, disturbed: false }
        }
        fn elapsed(&self) -> Duration {
            self.0
        }
    }

    #[test]
    fn what_is_not_narrow_counts_once_by_its_name() {
        let mut clock = Noisy(Duration::ZERO);
        let mut watch = |_: &Progress| ();
        let mut session = Session::new(Depth::Quick, vec![0], &mut clock, &mut watch);
        for what in ["a thing", "a thing", "another"] {
            session.measure(what, &mut (Box::new(|n| n) as Run)).expect("a figure");
        }
        let names: Vec<_> = session.wide.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a thing", "another"]);
    }

    #[test]
    fn an_operation_that_is_disturbed_is_left_out() {
        let mut clock = Busy { now: Duration::ZERO, until: Duration::from_hours(1) };
        let mut watch = |_: &Progress| ();
        let mut session = Session::new(Depth::Quick, vec![0], &mut clock, &mut watch);
        for what in ["thing (b = 1)", "thing (b = 2)"] {
            let found = session.measure(what, &mut (Box::new(|n| n) as Run));
            assert!(matches!(session.or_left_out("thing", found), Ok(None)));
        }
        assert_eq!(session.left_out, [("thing", "thing (b = 1)".to_owned())]);
        let idle = Err::<(), _>(Failed::Idle { what: "thing".into() });
        assert!(session.or_left_out("thing", idle).is_err());
    }

    #[test]
    fn it_does_not_wait_without_end() {
        let (measured, end) = while_busy(Duration::from_hours(1));
        assert!(matches!(measured, Err(Failed::Disturbed { .. })), "{measured:?}");
        assert!(end >= PATIENCE && end < PATIENCE + PATIENCE / 4, "{end:?}");
    }
}
