//! The switch's own state, read now and then: CPU and interface counters, by SNMP or from `/proc`. 001 §2.
//!
//! Room: between [`crate::snmp`] and the engine: a thread of its own, since an agent may take its time.
//! What can't be read is told once and tried again.

use super::ring::Give;
use super::terms::Input;
use super::wire::unix_now;
use crate::module::Sample;
use crate::snmp::{self, InterfaceCounters};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_packet::Nanos;

/// Reads the switch's state now and then.
pub trait Sampler: Send {
    /// What is read, a sentence for whoever reads the result.
    fn about(&self) -> String;

    /// What is read at once.
    ///
    /// # Errors
    /// In one line; the next reading may succeed.
    fn read(&mut self) -> Result<Vec<Sample>, String>;

    /// How long between two readings.
    fn interval(&self) -> Duration;

    /// Why the switch does not tell this itself, where it was to and another source stands in.
    fn untold(&self) -> Option<String> {
        None
    }
}

/// A source of [`crate::snmp`] as the engine's.
pub struct Periodic<S> {
    source: S,
    of: String,
    interval: Duration,
}

impl<S: snmp::Sampler> Periodic<S> {
    /// `of`: whose state it is, and by which way it is known, as in `switch 192.0.2.7 by SNMP`.
    pub fn new(source: S, of: impl Into<String>, interval: Duration) -> Self {
        Self { source, of: of.into(), interval }
    }
}

impl<S: snmp::Sampler> Sampler for Periodic<S> {
    fn about(&self) -> String {
        format!(
            "CPU load is that of {}, read every {} s, in percent of {}.",
            self.of,
            self.interval.as_secs_f64(),
            self.source.percent_of()
        )
    }

    fn read(&mut self) -> Result<Vec<Sample>, String> {
        let begin = unix_now();
        let read = self.source.sample().map_err(|e| e.to_string())?;
        let half = u64::try_from(read.took.as_nanos() / 2).unwrap_or(0);
        let at = begin + Nanos(half);
        let of = |what: String, value: f64, unit: &str| Sample {
            at,
            what,
            value,
            unit: unit.to_owned(),
        };
        let mut all = Vec::new();
        all.extend(read.cpu_percent.map(|p| of(Sample::CPU.to_owned(), p, "%")));
        for i in &read.interfaces {
            let counters = counters(i).map(|(counter, n, unit)| {
                // Exact up to 2^53: some 9 petabytes.
                of(format!("{counter} {}", i.name), n as f64, unit)
            });
            all.extend(counters);
        }
        Ok(all)
    }

    fn interval(&self) -> Duration {
        self.interval
    }
}

/// An interface's counters by name, with their units.
fn counters(i: &InterfaceCounters) -> [(&'static str, u64, &'static str); 5] {
    [
        ("rx_frames", i.rx_frames, "frames"),
        ("tx_frames", i.tx_frames, "frames"),
        ("rx_bytes", i.rx_bytes, "B"),
        ("tx_bytes", i.tx_bytes, "B"),
        ("dropped", i.dropped, "frames"),
    ]
}

/// The longest wait, so that a stop is heard.
const TURN: Duration = Duration::from_millis(50);

/// The sampler's thread.
pub(super) fn sample(
    mut sampler: Box<dyn Sampler>,
    mut give: Give<(Nanos, Input)>,
    over: &AtomicBool,
) {
    give.give((unix_now(), Input::Note(sampler.about())));
    let mut next = Instant::now();
    while !over.load(Ordering::Acquire) {
        if Instant::now() < next {
            std::thread::sleep(TURN.min(next.saturating_duration_since(Instant::now())));
            continue;
        }
        next = Instant::now() + sampler.interval();
        match sampler.read() {
            Ok(all) => all.into_iter().for_each(|s| give.give((s.at, Input::Sample(s)))),
            // The core keeps each sentence once.
            Err(why) => give.give((unix_now(), Input::Untold(why))),
        }
        if let Some(why) = sampler.untold() {
            give.give((unix_now(), Input::Untold(why)));
        }
        give.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl snmp::Sampler for Fixed {
        fn percent_of(&self) -> &'static str {
            "all cores"
        }
        fn sample(&mut self) -> Result<snmp::Sample, snmp::SnmpError> {
            let port = InterfaceCounters {
                name: "p1".into(),
                rx_frames: 7,
                dropped: 2,
                ..InterfaceCounters::default()
            };
            Ok(snmp::Sample {
                cpu_percent: Some(12.5),
                took: Duration::from_millis(10),
                interfaces: vec![port],
            })
        }
    }

    #[test]
    fn readings_are_events_of_one_moment() {
        let mut s = Periodic::new(Fixed, "x by SNMP", Duration::from_secs(1));
        let before = unix_now();
        let all = s.read().unwrap();
        let value = |what: &str| all.iter().find(|s| s.what == what).map(|s| s.value);
        assert_eq!((value("cpu"), value("rx_frames p1")), (Some(12.5), Some(7.0)));
        assert_eq!((value("dropped p1"), all.len()), (Some(2.0), 6));
        assert!(all.iter().all(|s| s.at >= before + Nanos(5_000_000) && s.at == all[0].at));
        assert_eq!(
            s.about(),
            "CPU load is that of x by SNMP, read every 1 s, in percent of all cores."
        );
    }
}
