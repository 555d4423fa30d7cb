//! CPU time of the whole machine, of a process, of a thread: what a packet's whole path costs,
//! softirq included.
//!
//! Touches `/proc` (Linux; proc(5)). The parsers are pure. Called by studies around a trial.
//!
//! A path through a kernel is paid by nobody in particular: softirqs run on top of whichever thread
//! is there, or in `ksoftirqd`. So the cost of a path is taken from the machine: all that was not
//! idle ([`CpuTimes::busy`]) over an interval in which nothing else ran, less what the generator
//! costs alone against a receiver that drops. Two limits of what Linux says:
//! - `/proc/stat` counts in ticks of 10 ms, and most kernels sort time into its columns by what a
//!   timer finds running. Sums over seconds are good, columns are estimates, short intervals are
//!   neither.
//! - A thread's own time ([`task`], `CLOCK_THREAD_CPUTIME_ID`) is exact to the nanosecond, and
//!   includes softirqs that ran on top of it, unless the kernel keeps them apart
//!   (`CONFIG_IRQ_TIME_ACCOUNTING`).

use std::time::Duration;
use thiserror::Error;

/// Length of a tick in `/proc` (`USER_HZ`): 10 ms on every architecture that weir runs on.
const TICK: Duration = Duration::from_millis(10);

/// Why there is no figure.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CpuError {
    /// Not to be read.
    #[error("{path}: {source}")]
    Read {
        /// Which file.
        path: String,
        /// The system's word.
        source: std::io::Error,
    },
    /// Not what proc(5) says.
    #[error("{path}: no {what} in it, as Linux would have: CPU time is read on Linux only")]
    Form {
        /// Which file.
        path: String,
        /// What is missing.
        what: &'static str,
    },
}

/// Time of one CPU, or of all together, since the machine started; or over an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// In user space, guests of a hypervisor included.
    pub user: Duration,
    /// In user space at a lowered priority.
    pub nice: Duration,
    /// In the kernel, for a thread.
    pub system: Duration,
    /// With nothing to do.
    pub idle: Duration,
    /// With nothing to do but wait for a disk.
    pub iowait: Duration,
    /// In interrupt handlers.
    pub irq: Duration,
    /// In softirqs: where the kernel receives and forwards frames.
    pub softirq: Duration,
    /// Taken by the hypervisor for other guests.
    pub steal: Duration,
}

impl CpuTimes {
    /// Time at work: user, nice, system, interrupts and softirqs.
    pub fn busy(&self) -> Duration {
        self.user + self.nice + self.system + self.irq + self.softirq
    }

    /// From `earlier` to this, in each part; zero where a counter went back, as `iowait` may.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let f = |get: fn(&Self) -> Duration| get(self).saturating_sub(get(earlier));
        Self {
            user: f(|t| t.user),
            nice: f(|t| t.nice),
            system: f(|t| t.system),
            idle: f(|t| t.idle),
            iowait: f(|t| t.iowait),
            irq: f(|t| t.irq),
            softirq: f(|t| t.softirq),
            steal: f(|t| t.steal),
        }
    }
}

/// Times of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineTimes {
    /// All CPUs together.
    pub all: CpuTimes,
    /// Each CPU that is online, by its number.
    pub cpus: Vec<(u32, CpuTimes)>,
}

impl MachineTimes {
    /// From `earlier` to this; CPUs that were not there then are left out.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let then = |n| earlier.cpus.iter().find(|c| c.0 == n);
        let cpus = self.cpus.iter().filter_map(|(n, t)| then(*n).map(|e| (*n, t.since(&e.1))));
        Self { all: self.all.since(&earlier.all), cpus: cpus.collect() }
    }
}

/// Times of a process, its threads included, also those that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessTimes {
    /// In user space.
    pub user: Duration,
    /// In the kernel.
    pub system: Duration,
}

fn ticks(text: &str) -> Option<Duration> {
    let n: u64 = text.parse().ok()?;
    // Ten milliseconds each: beyond 5 × 10^18 s nothing is counted.
    Some(Duration::from_millis(n.saturating_mul(TICK.as_millis() as u64)))
}

/// Reads the text of `/proc/stat`. `None` without the line of all CPUs.
///
/// Columns that an old kernel lacks are zero; lines that are not a CPU's are passed over.
pub fn parse_stat(text: &str) -> Option<MachineTimes> {
    let mut all = None;
    let mut cpus = Vec::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(name) = words.next().and_then(|w| w.strip_prefix("cpu")) else { continue };
        let mut next = || words.next().map_or(Some(Duration::ZERO), ticks);
        let Some(times) = (|| {
            Some(CpuTimes {
                user: next()?,
                nice: next()?,
                system: next()?,
                idle: next()?,
                iowait: next()?,
                irq: next()?,
                softirq: next()?,
                steal: next()?,
            })
        })() else {
            continue;
        };
        if name.is_empty() {
            all = Some(times);
        } else if let Ok(number) = name.parse() {
            cpus.push((number, times));
        }
    }
    Some(MachineTimes { all: all?, cpus })
}

/// Reads the text of `/proc/PID/stat`. `None` if it is none.
pub fn parse_process(text: &str) -> Option<ProcessTimes> {
    // The second field is the program's name in brackets, which may itself hold brackets and spaces.
    let (_, rest) = text.rsplit_once(')')?;
    // Fields 14 and 15; the first behind the bracket is the third.
    let mut words = rest.split_ascii_whitespace().skip(14 - 3);
    Some(ProcessTimes { user: ticks(words.next()?)?, system: ticks(words.next()?)? })
}

/// Reads the text of `/proc/PID/task/TID/schedstat`: the time on a CPU. `None` if it is none.
pub fn parse_schedstat(text: &str) -> Option<Duration> {
    text.split_ascii_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

fn read<T>(
    path: String,
    what: &'static str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T, CpuError> {
    match std::fs::read_to_string(&path) {
        Ok(text) => parse(&text).ok_or(CpuError::Form { path, what }),
        Err(source) => Err(CpuError::Read { path, source }),
    }
}

/// Times of this machine until now.
///
/// # Errors
/// [`CpuError`].
pub fn machine() -> Result<MachineTimes, CpuError> {
    read("/proc/stat".into(), "line 'cpu'", parse_stat)
}

/// Times of a process until now.
///
/// # Errors
/// [`CpuError`], also when it has ended.
pub fn process(pid: u32) -> Result<ProcessTimes, CpuError> {
    read(format!("/proc/{pid}/stat"), "CPU time", parse_process)
}

/// Time of a thread on a CPU until now, to the nanosecond.
///
/// # Errors
/// [`CpuError`], also when it has ended, or the kernel has no `CONFIG_SCHED_INFO`.
pub fn task(pid: u32, tid: u32) -> Result<Duration, CpuError> {
    read(format!("/proc/{pid}/task/{tid}/schedstat"), "CPU time", parse_schedstat)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As Linux 6.1 writes it, cut to what matters.
    const STAT: &str = "cpu  445005 54571 83188 508395 2392 7 6156 484 11 0\n\
        cpu0 218106 25408 39463 263346 538 3 2975 233 5 0\n\
        cpu1 226898 29163 43724 245048 1853 4 3180 250 6 0\n\
        intr 3822583 0 0 0\nctxt 12345\nbtime 1700000000\nprocesses 99\n\
        softirq 4127 0 1 2 3 4 5 6 7 8 9\n";

    #[test]
    fn the_columns_of_proc_stat() {
        let t = parse_stat(STAT).unwrap();
        let ticks = |n: u64| Duration::from_millis(10 * n);
        assert_eq!(t.all.softirq, ticks(6156));
        assert_eq!(t.all.steal, ticks(484));
        assert_eq!(t.all.busy(), ticks(445_005 + 54_571 + 83_188 + 7 + 6_156));
        assert_eq!(t.cpus.iter().map(|c| c.0).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(t.cpus[1].1.idle, ticks(245_048));
        // Kernel 2.4 had four columns.
        assert_eq!(parse_stat("cpu 1 2 3 4\n").unwrap().all.busy(), ticks(6));
        for bad in ["", "cpu0 1 2 3 4", "cpu x", "cpu 1 -2", "cpu 99999999999999999999"] {
            assert_eq!(parse_stat(bad), None, "{bad}");
        }
    }

    #[test]
    fn intervals() {
        let (a, mut b) = (parse_stat(STAT).unwrap(), parse_stat(STAT).unwrap());
        b.all.user += TICK * 3;
        b.all.softirq += TICK * 2;
        b.all.iowait -= TICK;
        b.all.idle += TICK * 50;
        b.cpus.push((2, CpuTimes::default()));
        let d = b.since(&a);
        assert_eq!((d.all.busy(), d.all.iowait), (TICK * 5, Duration::ZERO));
        assert_eq!(d.cpus.len(), 2, "a CPU that came online meanwhile is left out");
    }

    #[test]
    fn a_process_by_any_name() {
        let line = |name: &str| {
            format!("17 ({name}) S 1 17 17 0 -1 4194560 1 0 0 0 250 40 9 9 20 0 4 0 551468 31 38")
        };
        for name in ["weir", "a) S 1 1", "", "((("] {
            let t = parse_process(&line(name)).unwrap();
            assert_eq!((t.user, t.system), (TICK * 250, TICK * 40), "{name}");
        }
        assert_eq!(parse_process("17 (weir) S 1"), None);
        assert_eq!(parse_schedstat("75101 69503 2\n"), Some(Duration::from_nanos(75_101)));
        assert_eq!(parse_schedstat(""), None);
    }

    #[test]
    fn this_machine() {
        if !cfg!(target_os = "linux") {
            eprintln!("SKIPPED: /proc is read on Linux only");
            return;
        }
        let before = machine().unwrap();
        assert!(!before.cpus.is_empty());
        let after = machine().unwrap();
        assert!(after.all.user >= before.all.user);
        let me = std::process::id();
        process(me).unwrap();
        let gone = process(u32::MAX).unwrap_err();
        assert!(gone.to_string().starts_with("/proc/4294967295/stat: "), "{gone}");
        match task(me, me) {
            Ok(t) => assert!(t > Duration::ZERO),
            Err(e) => eprintln!("SKIPPED: {e}"),
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "(cpu[0-9]{0,3}|[0-9]{1,22}|[ \n()x-]){0,40}") {
            let _ = (parse_stat(&text), parse_process(&text), parse_schedstat(&text));
        }
    }
}
