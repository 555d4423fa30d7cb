//! A token bucket for ICMP errors, in virtual time. Touches numbers only.

use weir_packet::Nanos;

/// How many ICMP errors are sent: a token bucket (RFC 1812 §4.3.2.8, RFC 4443 §2.4(f)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpLimit {
    /// Errors per second in the long run; 0 sends none.
    pub per_second: u32,
    /// Errors at once.
    pub burst: u32,
}

impl Default for IcmpLimit {
    fn default() -> Self {
        Self { per_second: 1000, burst: 50 }
    }
}

#[derive(Debug)]
pub(in crate::programs) struct TokenBucket {
    limit: IcmpLimit,
    /// Billionths of a token.
    level: u64,
    filled: Nanos,
}

const TOKEN: u64 = 1_000_000_000;

impl TokenBucket {
    /// A full one.
    pub fn new(limit: IcmpLimit) -> Self {
        Self { limit, level: u64::from(limit.burst) * TOKEN, filled: Nanos(0) }
    }

    /// Takes a token; `false` when there is none.
    pub fn take(&mut self, now: Nanos) -> bool {
        if self.limit.per_second == 0 {
            return false;
        }
        let earned = now.since(self.filled).0.saturating_mul(self.limit.per_second.into());
        self.filled = now;
        self.level = self.level.saturating_add(earned).min(u64::from(self.limit.burst) * TOKEN);
        match self.level.checked_sub(TOKEN) {
            Some(left) => {
                self.level = left;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_then_rate() {
        let mut b = TokenBucket::new(IcmpLimit { per_second: 10, burst: 3 });
        let at = |ms| Nanos::from_secs(5) + Nanos::from_millis(ms);
        let took = |b: &mut TokenBucket, ms| (0..100).filter(|_| b.take(at(ms))).count();
        assert_eq!(took(&mut b, 0), 3);
        assert_eq!(took(&mut b, 99), 0);
        assert_eq!(took(&mut b, 100), 1);
        assert_eq!(took(&mut b, 350), 2);
        // Half a token was left over.
        assert_eq!(took(&mut b, 400), 1);
        assert_eq!(took(&mut b, 3_600_000), 3);
    }

    #[test]
    fn none_at_all() {
        assert!(!TokenBucket::new(IcmpLimit { per_second: 0, burst: 3 }).take(Nanos(9)));
    }
}
