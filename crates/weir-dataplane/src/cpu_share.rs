//! Each VDP's share of the worker's cycles: output is not the only thing shared.
//!
//! A worker that is busy in every round of an interval may be losing frames in its ports' rings.
//! Where a VDP did less in that interval than it was promised, what guaranteed VDPs did not use of their
//! promise is kept free: the others are dealt the rest of what the worker did in that interval,
//! max-min, and their frames beyond that are dropped right after mapping, before they cost more.
//! That leaves the worker time to empty its rings. While it has time to spare, limits grow by an
//! eighth an interval, and go when nobody meets them any more. Without guarantees nobody has a limit.
//!
//! What is held back takes time and is no work done. So what a worker did while much was held back says
//! little of what it can do, and [`Pace`] remembers what it did while little was: else each interval's
//! limits would be parts of less than the last one's, as long as a flood lasts.
//!
//! Room: [`Usage::ask`] is called by the worker for each frame after mapping, [`deal`] once an
//! interval. Work is counted in the cost units of compiled actions (`ActionResult::cost`), so that
//! the arithmetic needs no clock and can be tested in virtual time. Where anything is promised, lookups that cost
//! more than what becomes of a frame ([`lookup_units`]) are asked for before they are done.

use crate::action::Vid;
use crate::matching::{Table, TableSet};
use weir_packet::Nanos;

/// Length of an interval: long beside a round of full bursts, and short enough that who spends its part at the
/// beginning has few rounds of full bursts in a row, for which the others wait.
pub const INTERVAL: Nanos = Nanos(500_000);

/// What a VDP asked for and got in this interval, and its limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Guaranteed part of the worker, in thousandths.
    pub guarantee_permille: u16,
    /// Units asked for in this interval, dropped ones included.
    pub asked: u64,
    /// Units that it may use in this interval; `None`: no limit.
    pub limit: Option<u64>,
    /// Units used in this interval.
    pub used: u64,
    /// Of what it was promised in intervals before, what it did not use and may yet: in sixteenths of what it is
    /// promised in one.
    saved: u8,
    /// Units that a lookup in its tables costs beyond a cheap one.
    pub lookup: u16,
    /// Whether it is on the list of those seen in this interval.
    listed: bool,
}

/// Whether a frame may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// It may.
    Granted,
    /// The VDP has used its part.
    Exceeded,
}

impl Usage {
    /// Asks for `units`.
    #[inline(always)]
    pub fn ask(&mut self, units: u64) -> Grant {
        self.asked += units;
        if self.limit.is_some_and(|l| self.used + units > l) {
            return Grant::Exceeded;
        }
        self.used += units;
        Grant::Granted
    }
    /// Asks for a lookup, before it is done.
    pub fn ask_lookup(&mut self) -> Grant {
        self.ask(self.lookup.into())
    }
    /// Whether it was seen in this interval.
    pub fn is_listed(&self) -> bool {
        self.listed
    }
    /// Whether it must be put on the list of this interval; true once an interval.
    #[inline(always)]
    pub fn first_seen(&mut self) -> bool {
        !std::mem::replace(&mut self.listed, true)
    }
}

/// Rules that a lookup scans at the price of a unit.
const SCANNED: usize = 50;
/// What asking a further hash table costs, in rules scanned.
const TUPLE: usize = 10;

/// Units that a lookup costs at most in tables of this shape, beyond what one in a single hash table or a short
/// scan does, which every frame's unit holds.
pub fn lookup_units(tables: &TableSet) -> u16 {
    let of = |t: &Table| {
        let c = &t.classifier;
        c.tuples().saturating_sub(1) * TUPLE + c.scanned()
    };
    let scanned: usize = tables.iter().map(of).sum();
    u16::try_from((scanned + SCANNED / 2) / SCANNED).unwrap_or(u16::MAX)
}

/// What was promised and not used is kept for so many intervals: sources send bursts, and a burst is long beside
/// an interval of a slow worker. In sixteenths.
const SAVED: u64 = 4 * 16;

/// How busy the worker was in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Some rounds found nothing to do.
    Idle,
    /// Every round found work.
    Saturated,
}

/// What a worker did in an interval.
#[derive(Clone, Copy, Debug)]
pub struct Did {
    /// Units.
    pub units: u64,
    /// How long the interval was.
    pub took: Nanos,
    /// How busy it was.
    pub load: Load,
}

/// Of what was done, what may have been held back beside it for the worker to have been at its own pace: a
/// sixteenth.
const LITTLE: u64 = 16;
/// After so many intervals in a row in which much was held back nothing is, for one interval, which is long
/// enough to see the pace and short enough for rings to take what comes.
const LOOK: u32 = 256;

/// How fast a worker works when it works all the time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// Units in 2^32 ns; 0 before it was seen to be busy.
    known: u64,
    /// How long the interval before was: one that was long by chance makes no large limits.
    before: Nanos,
    /// Intervals in a row in which much was held back.
    held: u32,
}

impl Pace {
    /// Sees an interval without an idle round. Says how many units one like it is good for.
    fn capacity(&mut self, did: &Did, refused: u64) -> u64 {
        let took = u128::from(did.took.0.max(1));
        let seen = u64::try_from((u128::from(did.units) << 32) / took).unwrap_or(u64::MAX);
        if refused > did.units / LITTLE {
            self.held += 1;
            self.known = self.known.max(seen);
        } else {
            self.held = 0;
            self.known = match self.known {
                0 => seen,
                known => known - known / 4 + seen / 4,
            };
        }
        let last = std::mem::replace(&mut self.before, did.took);
        let took = if last == Nanos(0) { took } else { took.min(last.0.into()) };
        u64::try_from((u128::from(self.known) * took + (1 << 31)) >> 32).unwrap_or(u64::MAX)
    }

    /// Whether the next interval shows the pace, since it was not seen for long.
    fn looks(&mut self) -> bool {
        let looks = self.held >= LOOK;
        if looks {
            self.held = 0;
        }
        looks
    }
}

/// Deals the units of the next interval out among the VDPs in `of`, after one in which the worker did so
/// much; see the head of this file. Starts the interval.
pub fn deal(pace: &mut Pace, did: &Did, of: &mut [(Vid, Usage)]) {
    match did.load {
        Load::Idle => of.iter_mut().for_each(|(_, u)| {
            u.saved = SAVED as u8;
            loosen(u);
        }),
        Load::Saturated => {
            let refused = of.iter().map(|(_, u)| u.asked.saturating_sub(u.used)).sum();
            let capacity = pace.capacity(did, refused);
            if pace.looks() {
                of.iter_mut().for_each(|(_, u)| u.limit = None);
            } else {
                tighten(capacity, of);
            }
        }
    }
    for (_, u) in of {
        (u.asked, u.used, u.listed) = (0, 0, false);
    }
}

fn loosen(u: &mut Usage) {
    u.limit = u.limit.map(|l| l + l / 8 + 1).filter(|l| *l < u.asked.saturating_mul(2));
}

fn tighten(capacity: u64, of: &mut [(Vid, Usage)]) {
    let promised =
        |u: &Usage| (u128::from(capacity) * u128::from(u.guarantee_permille) / 1000) as u64;
    for (_, u) in of.iter_mut() {
        let spent = u.used.saturating_mul(16).checked_div(promised(u)).unwrap_or(u64::MAX);
        u.saved = (u64::from(u.saved) + 16).saturating_sub(spent).min(SAVED) as u8;
    }
    // Whoever did less than it was promised may have lost frames before they could ask.
    if of.iter().all(|(_, u)| u.used >= promised(u)) {
        of.iter_mut().for_each(|(_, u)| u.limit = None);
        return;
    }
    // A promise is kept free whether it was asked for or not: what was lost in a ring did not ask.
    let mut left = capacity;
    for (_, u) in of.iter_mut() {
        let first = promised(u).min(left);
        u.limit = Some(first);
        left -= first;
    }
    // Max-min: those who want least beyond their guarantee are satisfied first.
    of.sort_unstable_by_key(|(_, u)| u.asked.saturating_sub(u.limit.unwrap_or(0)));
    let n = of.len() as u64;
    for (i, (_, u)) in of.iter_mut().enumerate() {
        let even = left / (n - i as u64);
        let more = u.asked.saturating_sub(u.limit.unwrap_or(0)).min(even);
        u.limit = u.limit.map(|l| l + more);
        left -= more;
    }
    // What nobody wanted is the guaranteed ones' to grow into, and what they have saved.
    for (_, u) in of.iter_mut().filter(|(_, u)| u.guarantee_permille > 0) {
        let saved = promised(u).saturating_mul(u.saved.into()) / 16;
        u.limit = u.limit.map(|l| l.saturating_add(left).saturating_add(saved));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dealt(capacity: u64, load: Load, of: &[(u16, u64, Option<u64>)]) -> Vec<Option<u64>> {
        let mut of: Vec<(Vid, Usage)> = of
            .iter()
            .enumerate()
            .map(|(i, &(guarantee_permille, asked, limit))| {
                (
                    Vid(i as u16),
                    Usage { guarantee_permille, asked, used: asked, limit, ..Usage::default() },
                )
            })
            .collect();
        let did = Did { units: capacity, took: INTERVAL, load };
        deal(&mut Pace::default(), &did, &mut of);
        of.sort_by_key(|(v, _)| *v);
        of.iter().map(|(_, u)| u.limit).collect()
    }

    #[test]
    fn without_guarantees_nobody_has_a_limit() {
        assert_eq!(dealt(100, Load::Saturated, &[(0, 90, None), (0, 900, None)]), [None, None]);
        assert_eq!(dealt(100, Load::Idle, &[(500, 50, None), (0, 50, None)]), [None, None]);
    }

    #[test]
    fn a_promise_is_kept_free_although_little_was_asked() {
        // 25 promised, 8 asked for: the flood gets 75, not the 92 it took; what it did not ask for is kept for a burst, to a
        // sixteenth.
        let got = dealt(100, Load::Saturated, &[(250, 8, None), (0, 92, None)]);
        assert_eq!(got, [Some(25 + 25 * 11 / 16), Some(75)]);
        // Those without a guarantee share max-min.
        let got = dealt(100, Load::Saturated, &[(500, 40, None), (0, 10, None), (0, 500, None)]);
        assert_eq!(got, [Some(50 + 50 * 4 / 16), Some(10), Some(40)]);
        // A promise that was kept, or that nobody else disturbs, needs no limits.
        assert_eq!(dealt(100, Load::Saturated, &[(500, 50, None), (0, 50, None)]), [None, None]);
    }

    /// A worker that does a unit in a microsecond and refuses one in `early` of it, beside a flood that never
    /// ends: what the promised VDP, which asks for so many units in an interval, and the flood get of what the
    /// worker can do, in thousandths; and how often the promised one was refused something.
    fn beside_a_flood(permille: u16, asks: u64, early: f64, pace: impl Fn(u64) -> f64) -> [u64; 3] {
        let mut of = [
            (Vid(0), Usage { guarantee_permille: permille, ..Usage::default() }),
            (Vid(1), Usage::default()),
        ];
        let (mut known, mut got, mut refused, mut able) = (Pace::default(), [0u64; 2], 0, 0.0);
        for n in 0..20_000u64 {
            of.sort_by_key(|(v, _)| *v);
            let (mut left, unit) = (500.0, pace(n));
            able += left / unit;
            // The promised VDP's come in equal times.
            let (every, mut due) = (500.0 / asks as f64, 500.0);
            while left > 0.0 {
                let who = usize::from(left > due);
                if who == 0 {
                    due -= every;
                }
                match of[who].1.ask(1) {
                    Grant::Granted => {
                        got[who] += 1;
                        left -= unit;
                    }
                    Grant::Exceeded => {
                        refused += u64::from(who == 0);
                        left -= unit * early;
                    }
                }
            }
            let units = of.iter().map(|(_, u)| u.used).sum();
            let did = Did { units, took: INTERVAL, load: Load::Saturated };
            deal(&mut known, &did, &mut of);
        }
        let part = |n: u64| (n as f64 * 1000.0 / able) as u64;
        [part(got[0]), part(got[1]), refused]
    }

    #[test]
    fn a_promise_does_not_sink_while_a_flood_lasts() {
        for early in [0.02, 0.1, 0.3] {
            let [promised, flood, refused] = beside_a_flood(300, 20, early, |_| 1.0);
            assert_eq!(refused, 0, "{early}: {promised} and {flood}");
            assert!(promised > 15, "{early}: {promised}");
            assert!((600..=750).contains(&flood), "{early}: {flood} of what is not promised");
        }
    }

    #[test]
    fn who_sends_bursts_has_what_was_promised_before_them() {
        // 30 in an interval are promised. It sends 90 in one of four intervals, or 300 in one of twelve, which
        // is more than is kept.
        for (burst, every, all) in [(90, 4, true), (300, 12, false)] {
            let promised = Usage { guarantee_permille: 300, ..Usage::default() };
            let mut of = [(Vid(0), promised), (Vid(1), Usage::default())];
            let (mut pace, mut refused) = (Pace::default(), 0);
            for n in 0..1000 {
                of.sort_by_key(|(v, _)| *v);
                let first = if n % every == 0 { burst } else { 0 };
                let got = (0..first).filter(|_| of[0].1.ask(1) == Grant::Granted).count() as u64;
                refused += if n > 100 { first - got } else { 0 };
                // The flood takes the rest of the time.
                let mut left = 100u64.saturating_sub(got);
                while left > 0 && of[1].1.ask(1) == Grant::Granted {
                    left -= 1;
                }
                of[1].1.asked += left * 10;
                let units = of.iter().map(|(_, u)| u.used).sum();
                let did = Did { units, took: INTERVAL, load: Load::Saturated };
                deal(&mut pace, &did, &mut of);
            }
            assert_eq!(refused == 0, all, "{burst}: {refused} refused");
        }
    }

    #[test]
    fn a_pace_that_changes_is_found_out() {
        // Three times as slow from the middle on, or three times as fast.
        for (before, after) in [(1.0, 3.0), (3.0, 1.0)] {
            let pace = |n| if n < 10_000 { before } else { after };
            let [promised, flood, refused] = beside_a_flood(300, 20, 0.1, pace);
            assert_eq!(refused, 0, "{promised} and {flood}");
            assert!((550..=800).contains(&flood), "{flood} of what is not promised");
        }
    }

    #[test]
    fn limits_grow_while_there_is_time_and_then_go() {
        let once = dealt(100, Load::Idle, &[(0, 900, Some(80))]);
        assert_eq!(once, [Some(91)]);
        assert_eq!(dealt(100, Load::Idle, &[(0, 50, Some(100))]), [None]);
    }

    #[test]
    fn nothing_is_dealt_twice() {
        for n in 1..40u64 {
            let of: Vec<_> = (0..n).map(|i| ((i * 37 % 20) as u16, i * i, None)).collect();
            let got = dealt(200, Load::Saturated, &of);
            assert!(got.iter().flatten().sum::<u64>() <= 200 * n);
            let promised: u64 = of.iter().map(|(g, _, _)| u64::from(*g) * 200 / 1000).sum();
            assert!(promised <= 200);
        }
    }
}
