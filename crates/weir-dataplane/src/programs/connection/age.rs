//! Time in few bits, so that a connection fits beside its key: when it was last seen, in steps of
//! 2^27 ns (134 ms). Touches numbers only. Called by programs with connections.

use weir_packet::Nanos;

const STEP: u32 = 27;

/// When something was last seen. Goes round after 18 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::programs) struct Stamp(u32);

impl Stamp {
    /// The step that a time is in.
    #[inline(always)]
    pub const fn of(now: Nanos) -> Self {
        Self((now.0 >> STEP) as u32)
    }
    /// Whether more than `limit` has passed since. Never too early, by two steps too late at most.
    #[inline(always)]
    pub const fn is_older(self, limit: Limit, now: Stamp) -> bool {
        now.0.wrapping_sub(self.0) > limit.0
    }
}

/// How long something is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::programs) struct Limit(u32);

impl Limit {
    /// At least so long.
    pub const fn of(time: Nanos) -> Self {
        // Half the circle is the most that can be told from the other direction.
        let steps = time.0.div_ceil(1 << STEP);
        Self(if steps > (u32::MAX / 2) as u64 { u32::MAX / 2 } else { steps as u32 })
    }
}

/// How often tables are swept for what is too old, and in how many sweeps a table is gone through.
pub(in crate::programs) const SWEEP: Nanos = Nanos::from_millis(20);
pub(in crate::programs) const SWEEPS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_is_too_old_too_early(at in 0u64..1 << 60, kept in 0u64..1 << 56, after in 0u64..1 << 57) {
            let (seen, now) = (Stamp::of(Nanos(at)), Stamp::of(Nanos(at + after)));
            let old = seen.is_older(Limit::of(Nanos(kept)), now);
            if after <= kept {
                prop_assert!(!old);
            }
            if after > kept + (2 << STEP) {
                prop_assert!(old);
            }
        }
    }

    #[test]
    fn the_circle_is_passed() {
        let late = Stamp(u32::MAX);
        assert!(!late.is_older(Limit(2), Stamp(0)));
        assert!(late.is_older(Limit(2), Stamp(2)));
    }
}
