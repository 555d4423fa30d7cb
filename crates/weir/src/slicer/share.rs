//! A slice's part of the slicer's time: who has used up its own waits, the others don't.
//!
//! Room: arithmetic over times that it is given. Used by `desk` around every message of a slice's.

use std::time::Duration;

/// What may be saved up: two messages of the dearest kind or so.
const SAVED: Duration = Duration::from_millis(20);

/// One slice's account.
#[derive(Debug)]
pub struct CpuShare {
    permille: u32,
    /// Nanoseconds that it may use; below zero, it waits.
    level: i64,
    at: Duration,
}

impl CpuShare {
    /// A thousandth part so often; 1000: as much as it likes.
    pub fn new(permille: u32, now: Duration) -> Self {
        Self { permille, level: nanos(SAVED), at: now }
    }
    /// From now on this part.
    pub fn set(&mut self, permille: u32) {
        self.permille = permille;
    }
    /// When it may go on; `None`: now.
    pub fn wait(&mut self, now: Duration) -> Option<Duration> {
        let passed = now.saturating_sub(self.at);
        self.at = self.at.max(now);
        let earned = nanos(passed) / 1000 * i64::from(self.permille);
        self.level = self.level.saturating_add(earned).min(nanos(SAVED));
        if self.permille >= 1000 || self.level >= 0 {
            return None;
        }
        let owed = self.level.unsigned_abs() * 1000 / u64::from(self.permille.max(1));
        Some(now + Duration::from_nanos(owed))
    }
    /// It has used this much.
    pub fn charge(&mut self, spent: Duration) {
        self.level = self.level.saturating_sub(nanos(spent));
    }
}

fn nanos(d: Duration) -> i64 {
    i64::try_from(d.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_tenth_is_a_tenth_and_a_pause_earns_no_more_than_can_be_saved() {
        let mut share = CpuShare::new(100, Duration::ZERO);
        let (mut now, mut used) = (Duration::ZERO, Duration::ZERO);
        while now < 1000 * MS {
            match share.wait(now) {
                Some(until) => {
                    assert!(until > now);
                    now = until;
                }
                None => {
                    share.charge(MS);
                    (now, used) = (now + MS, used + MS);
                }
            }
        }
        assert!((100 * MS..=125 * MS).contains(&used), "{used:?}");
        let later = now + Duration::from_secs(3600);
        let at_once = std::iter::from_fn(|| share.wait(later).is_none().then(|| share.charge(MS)));
        assert_eq!(at_once.count(), 21);
    }
}
