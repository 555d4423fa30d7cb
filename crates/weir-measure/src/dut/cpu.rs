//! How busy the device's own processor is: time spent on changes of the table and on statistics, kept
//! by the second.
//!
//! Room: times. Filled by `hardware` and `statistics` through `Dut`, told by `snmp`.

use std::collections::BTreeMap;
use weir_packet::Nanos;

const SECOND: u64 = 1_000_000_000;
/// Seconds ahead that work is spread over; what lasts longer is cut.
const AHEAD: u64 = 3600;

/// Busy nanoseconds of each second that is not over.
#[derive(Debug, Default)]
pub(super) struct Cpu {
    seconds: BTreeMap<u64, u64>,
}

impl Cpu {
    /// Work from `from` on, for so long.
    pub(super) fn works(&mut self, from: Nanos, time: Nanos) {
        let old = (from.0 / SECOND).saturating_sub(2);
        if self.seconds.first_key_value().is_some_and(|(s, _)| *s < old) {
            self.seconds = self.seconds.split_off(&old);
        }
        let (mut at, end) = (from.0, from.0.saturating_add(time.0.min(AHEAD * SECOND)));
        while at < end {
            let next = (at / SECOND + 1).saturating_mul(SECOND).min(end);
            *self.seconds.entry(at / SECOND).or_default() += next - at;
            at = next;
        }
    }

    /// The last whole second, in percent, at least `idle`.
    pub(super) fn percent(&self, now: Nanos, idle: f64) -> u64 {
        let last = (now.0 / SECOND).saturating_sub(1);
        let busy = self.seconds.get(&last).map_or(0.0, |ns| *ns as f64 / SECOND as f64);
        (idle + (100.0 - idle) * busy.min(1.0)).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_told_of_the_second_that_it_was_done_in() {
        let mut cpu = Cpu::default();
        let ms = Nanos::from_millis;
        cpu.works(ms(900), ms(200));
        cpu.works(ms(2000), ms(2500));
        let told: Vec<u64> = (0..7).map(|s| cpu.percent(ms(1000 * s + 10), 0.0)).collect();
        assert_eq!(told, [10, 10, 10, 100, 100, 50, 0]);
        assert_eq!(cpu.percent(ms(1010), 50.0), 55);
        cpu.works(Nanos(u64::MAX - 5), ms(10));
    }
}
