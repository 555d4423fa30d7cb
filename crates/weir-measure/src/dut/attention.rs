//! When the device must not wait for a core: from a message of a controller to the change that it asks for and the
//! first frames after it.
//!
//! Pure: time is an argument. On a machine where the device shares a core with whoever measures it, each wake-up
//! there would else be measured as the device's. It lasts moments, and no more than half of any longer time, so that
//! nobody starves; what is far away is waited for like everything else.

use weir_io::precedence::Precedence;
use weir_packet::Nanos;

/// A change that is due within this is waited for with precedence.
const SOON: Nanos = Nanos(250_000);
/// After a message and after a change, for the frames that meet it.
const AFTER: Nanos = Nanos(100_000);
/// With precedence at once at most, after a pause as long.
const MOST: Nanos = Nanos::from_millis(20);

/// Whether it has precedence, and how long it may.
#[derive(Debug)]
pub(super) struct Attention {
    is: Precedence,
    until: Nanos,
    /// What is left, at the last look.
    left: Nanos,
    looked: Nanos,
}

impl Default for Attention {
    fn default() -> Self {
        Self { is: Precedence::Usual, until: Nanos(0), left: MOST, looked: Nanos(0) }
    }
}

impl Attention {
    /// A message came.
    pub(super) fn heard(&mut self, now: Nanos) {
        self.until = self.until.max(now + AFTER);
    }

    /// What precedence to take now, if it is another; `due`: when the table changes next.
    pub(super) fn look(&mut self, now: Nanos, due: Option<Nanos>) -> Option<Precedence> {
        let passed = now.since(self.looked);
        self.looked = self.looked.max(now);
        self.left = match self.is {
            Precedence::Usual => MOST.min(self.left + passed),
            Precedence::First => self.left.since(passed),
        };
        if let Some(at) = due.filter(|at| at.since(now) <= SOON) {
            self.until = self.until.max(at + AFTER);
        }
        let may = match self.is {
            // Not on and off with every look: it is taken for a while or not at all.
            Precedence::Usual => self.left >= SOON + AFTER,
            Precedence::First => self.left.0 > 0,
        };
        let to = if now < self.until && may { Precedence::First } else { Precedence::Usual };
        (to != std::mem::replace(&mut self.is, to)).then_some(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    #[test]
    fn from_the_message_to_the_frames_after_its_change() {
        let mut a = Attention::default();
        assert_eq!(a.look(Nanos(0), None), None);
        // One that is far away is waited for as usual.
        assert_eq!(a.look(Nanos(10 * US), Some(Nanos(1_000 * US))), None);
        a.heard(Nanos(20 * US));
        assert_eq!(a.look(Nanos(20 * US), Some(Nanos(120 * US))), Some(Precedence::First));
        assert_eq!(a.look(Nanos(119 * US), Some(Nanos(120 * US))), None);
        assert_eq!(a.look(Nanos(121 * US), None), None);
        assert_eq!(a.look(Nanos(221 * US), None), Some(Precedence::Usual));
        assert_eq!(a.look(Nanos(760 * US), Some(Nanos(1_000 * US))), Some(Precedence::First));
    }

    #[test]
    fn half_of_the_time_is_everybody_elses() {
        // A change is always due.
        let (mut a, mut first) = (Attention::default(), 0);
        let mut now = Nanos(0);
        while now < Nanos::from_secs(1) {
            a.look(now, Some(now + Nanos(US)));
            now = now + Nanos(5 * US);
            first += u64::from(a.is == Precedence::First) * 5 * US;
        }
        assert!((490_000..=520_000).contains(&(first / US)), "{first}");
    }
}
