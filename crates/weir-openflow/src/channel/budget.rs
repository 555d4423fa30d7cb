//! Rates that several connections share: what none of the others wants is there for one, and what
//! several want is dealt out to them in equal parts, so that a flood keeps nobody else waiting for ever.
//!
//! Room: arithmetic over times that it is given. Its owner (a switch with its connections) asks it
//! through [`Gate`], on a connection's behalf.

use super::Rate;
use core::time::Duration;
use std::collections::BTreeMap;

/// One token, in a bucket's unit: a billionth, so that a nanosecond at one a second is 1.
const TOKEN: u128 = 1_000_000_000;

/// What a message has to pay for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toll {
    /// Being a message.
    Message,
    /// Being a flow_mod, too.
    FlowMod,
}

/// Whether a connection's next message may be taken. Asked beside the connection's own limits.
pub trait Gate {
    /// Lets a message in, which has paid then.
    ///
    /// # Errors
    /// Not yet; when to ask again.
    fn admit(&mut self, toll: Toll, now: Duration) -> Result<(), Duration>;
    /// The connection has no message that waits for this.
    fn rest(&mut self);
}

/// A gate that is open.
#[derive(Clone, Copy, Debug)]
pub struct Open;

impl Gate for Open {
    fn admit(&mut self, _: Toll, _: Duration) -> Result<(), Duration> {
        Ok(())
    }
    fn rest(&mut self) {}
}

/// Messages a second, and flow_mods among them, for all members together.
#[derive(Debug, Default)]
pub struct Budget {
    rates: (Option<Rate>, Option<Rate>),
    messages: Option<FairBucket>,
    flow_mods: Option<FairBucket>,
}

impl Budget {
    /// Sets the rates; what was saved up is forgotten where they are others than before.
    pub fn set(&mut self, messages: Option<Rate>, flow_mods: Option<Rate>, now: Duration) {
        if self.rates != (messages, flow_mods) {
            self.rates = (messages, flow_mods);
            self.messages = messages.map(|r| FairBucket::new(r, now));
            self.flow_mods = flow_mods.map(|r| FairBucket::new(r, now));
        }
    }
    /// The gate of a member, by a number of its own.
    pub fn of(&mut self, member: u64) -> Share<'_> {
        Share { budget: self, member }
    }
}

/// A member's way into a [`Budget`].
#[derive(Debug)]
pub struct Share<'a> {
    budget: &'a mut Budget,
    member: u64,
}

impl Gate for Share<'_> {
    fn admit(&mut self, toll: Toll, now: Duration) -> Result<(), Duration> {
        let Budget { messages, flow_mods, .. } = &mut *self.budget;
        let flow_mods = flow_mods.as_mut().filter(|_| toll == Toll::FlowMod);
        let mut buckets = [messages.as_mut(), flow_mods];
        let until = buckets.iter_mut().flatten().filter_map(|b| b.wait(self.member, now)).max();
        if let Some(until) = until {
            return Err(until);
        }
        buckets.into_iter().flatten().for_each(|b| b.take(self.member));
        Ok(())
    }
    fn rest(&mut self) {
        let Budget { messages, flow_mods, .. } = &mut *self.budget;
        [messages, flow_mods].into_iter().flatten().for_each(|b| b.rest(self.member));
    }
}

/// A token bucket for several.
#[derive(Debug)]
struct FairBucket {
    per_second: u64,
    full: u128,
    /// What is there for whoever comes.
    level: u128,
    filled_at: Duration,
    /// Who waits, and what it has been dealt.
    waiting: BTreeMap<u64, u128>,
}

impl FairBucket {
    fn new(rate: Rate, now: Duration) -> Self {
        let full = u128::from(rate.burst.max(1)) * TOKEN;
        // A rate of 0 means none at all, from the start.
        let level = if rate.per_second == 0 { 0 } else { full };
        let waiting = BTreeMap::new();
        Self { per_second: rate.per_second.into(), full, level, filled_at: now, waiting }
    }

    fn fill(&mut self, now: Duration) {
        let Some(passed) = now.checked_sub(self.filled_at) else { return };
        self.filled_at = now;
        let more = passed.as_nanos().saturating_mul(self.per_second.into());
        let n = self.waiting.len() as u128;
        if n == 0 {
            self.level = self.level.saturating_add(more).min(self.full);
            return;
        }
        // No more is kept for all than for one alone, but a token for each.
        let most = (self.full / n).max(TOKEN);
        let part = more / n;
        let mut left = more - part * n;
        for has in self.waiting.values_mut() {
            let got = part.min(most.saturating_sub(*has));
            *has += got;
            left += part - got;
        }
        let kept: u128 = self.waiting.values().sum();
        self.level = self.level.saturating_add(left).min(self.full.saturating_sub(kept));
    }

    /// When there is a token for a member: `None`, now; else it waits until then at the earliest.
    fn wait(&mut self, member: u64, now: Duration) -> Option<Duration> {
        self.fill(now);
        let has = self.waiting.get(&member).copied().unwrap_or(0);
        let missing = TOKEN.saturating_sub(has.saturating_add(self.level));
        if missing == 0 {
            return None;
        }
        if self.per_second == 0 {
            return Some(Duration::MAX);
        }
        self.waiting.insert(member, has);
        let parts = self.waiting.len() as u128;
        let nanos = (missing * parts).div_ceil(self.per_second.into());
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        Some(self.filled_at.saturating_add(Duration::from_nanos(nanos)))
    }

    /// Takes a token that [`FairBucket::wait`] has found: what it was dealt goes first.
    fn take(&mut self, member: u64) {
        let dealt = self.waiting.get_mut(&member);
        let own = dealt.map_or(0, |has| {
            let own = TOKEN.min(*has);
            *has -= own;
            own
        });
        self.level = self.level.saturating_sub(TOKEN - own);
    }

    /// A member waits no longer; what it was dealt is for the others.
    fn rest(&mut self, member: u64) {
        if let Some(has) = self.waiting.remove(&member) {
            let kept: u128 = self.waiting.values().sum();
            self.level = self.level.saturating_add(has).min(self.full.saturating_sub(kept));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(nanos: u64) -> Duration {
        Duration::from_nanos(nanos)
    }

    fn budget(per_second: u32, burst: u32) -> Budget {
        let mut b = Budget::default();
        b.set(Some(Rate { per_second, burst }), None, at(0));
        b
    }

    /// As many messages as a member gets in now.
    fn flood(b: &mut Budget, member: u64, now: u64) -> u32 {
        (0..).take_while(|_| b.of(member).admit(Toll::Message, at(now)).is_ok()).count() as u32
    }

    #[test]
    fn all_together_get_no_more_than_one_alone_and_each_its_part() {
        for members in [1, 2, 5, 40] {
            let mut b = budget(1000, 10);
            let mut got = vec![0; members];
            for ms in 0..1000 {
                for (m, got) in got.iter_mut().enumerate() {
                    *got += flood(&mut b, m as u64, ms * MS);
                }
            }
            let all: u32 = got.iter().sum();
            assert!((960..=1010).contains(&all), "{members}: {all}");
            let fair = 1000 / members as u32;
            assert!(got.iter().all(|g| (fair - 2..=fair + 11).contains(g)), "{members}: {got:?}");
        }
    }

    #[test]
    fn who_comes_late_does_not_wait_for_a_flood_and_leaves_nothing_unused() {
        let mut b = budget(100, 10);
        assert_eq!(flood(&mut b, 1, 0), 10);
        // The flood waits; so does another, and each gets every other token.
        let until = b.of(2).admit(Toll::Message, at(0)).unwrap_err();
        assert_eq!(until, at(20 * MS));
        assert_eq!(flood(&mut b, 1, 20 * MS), 1);
        assert_eq!(b.of(2).admit(Toll::Message, at(20 * MS)), Ok(()));
        // It has nothing more to say: all is the flood's again.
        b.of(2).rest();
        assert_eq!(flood(&mut b, 1, 120 * MS), 10);
        // Whoever goes without a word takes no more than its part along.
        b.of(3).admit(Toll::Message, at(120 * MS)).unwrap_err();
        let n: u32 = (13..113).map(|i| flood(&mut b, 1, i * 10 * MS)).sum();
        assert!(n >= 94, "{n}");
    }

    #[test]
    fn flow_mods_pay_twice_and_a_refusal_costs_nothing() {
        let mut b = Budget::default();
        let rate = |per_second, burst| Some(Rate { per_second, burst });
        b.set(rate(10, 3), rate(10, 1), at(0));
        assert_eq!(b.of(1).admit(Toll::FlowMod, at(0)), Ok(()));
        assert!(b.of(1).admit(Toll::FlowMod, at(0)).is_err());
        assert_eq!(flood(&mut b, 1, 0), 2);
        // The same again changes nothing; another does.
        b.set(rate(10, 3), rate(10, 1), at(0));
        assert_eq!(flood(&mut b, 1, 0), 0);
        b.set(None, None, at(0));
        assert_eq!(b.of(1).admit(Toll::FlowMod, at(0)), Ok(()));
        b.set(rate(0, 1), None, at(0));
        assert_eq!(b.of(1).admit(Toll::Message, at(5)), Err(Duration::MAX));
    }
}
