//! Each VDP's share of the worker's cycles: output is not the only thing shared.
//!
//! A worker that is busy in every round of an interval, and has not emptied a port's ring in all, may be losing frames in its
//! ports' rings.
//! Where a VDP did less in that interval than it was promised, what guaranteed VDPs did not use of their
//! promise is kept free: the others are dealt the rest of what the worker did in that interval,
//! max-min, and their frames beyond that are dropped right after mapping, before they cost more.
//! That leaves the worker time to empty its rings. While it has time to spare, limits grow by an
//! eighth an interval, and go when nobody meets them any more. Without guarantees nobody has a limit.
//!
//! Room: [`Spent::ask`] is called by the worker for each frame after mapping, but where a burst's frames are all granted
//! ([`Spent::leaves`]); [`deal`] once an interval. Work is counted in the cost units of compiled actions (`ActionResult::cost`), so that
//! the arithmetic needs no clock and can be tested in virtual time. Where anything is promised, lookups that cost
//! more than what becomes of a frame ([`lookup_units`]) are asked for before they are done.

use crate::action::Vid;
use crate::matching::{Table, TableSet};
use weir_packet::Nanos;

/// Length of an interval: long beside a round of full bursts, and short enough that who spends its part at the
/// beginning has few rounds of full bursts in a row, for which the others wait.
pub const INTERVAL: Nanos = Nanos(500_000);

/// After so long a worker did not run, but was kept from it: what came meanwhile comes now, and is no measure of who asks too much. Who polls may know
/// it sooner ([`was_kept_from_work`](crate::DataPlane::was_kept_from_work)).
pub const PAUSE: Nanos = Nanos(8 * INTERVAL.0);

/// What a VDP asked for and got in an interval, and its limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Guaranteed part of the worker, in thousandths.
    pub guarantee_permille: u16,
    /// Units asked for in this interval, dropped ones included; while it lasts, those alone.
    pub asked: u64,
    /// Units that it may use in this interval; `None`: no limit.
    pub limit: Option<u64>,
    /// Units used in this interval; while it lasts, [`Spent`] counts them.
    pub used: u64,
}

/// What of a VDP's usage every frame touches.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Spent {
    /// Units used in this interval, which ends before they are too many ([`MOST_UNITS`]).
    used: u32,
    /// Units that a lookup in its tables costs beyond a cheap one.
    pub lookup: u16,
    /// Whether it is on the list of those seen in this interval.
    listed: bool,
    /// Whether it has a limit.
    limited: bool,
}

/// An interval in which a worker has done so many units ends, whatever the clock says: it may be one of a capture's.
pub const MOST_UNITS: u64 = 1 << 31;

/// Whether a frame may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// It may.
    Granted,
    /// The VDP has used its part.
    Exceeded,
}

impl Spent {
    /// Of the interval that begins.
    pub fn new(usage: &Usage, lookup: u16) -> Self {
        Self { lookup, limited: usage.limit.is_some(), ..Self::default() }
    }
    /// Units used in this interval.
    pub fn used(&self) -> u64 {
        self.used.into()
    }
    /// `usage` as the interval that ends has left it.
    pub fn end(&self, usage: &Usage) -> Usage {
        Usage { asked: usage.asked + self.used(), used: self.used(), ..*usage }
    }
    /// There is no limit any more.
    pub fn set_free(&mut self, usage: &mut Usage) {
        (self.limited, usage.limit) = (false, None);
    }
    /// Whether whatever is asked for is granted.
    #[inline(always)]
    pub fn is_unlimited(&self) -> bool {
        !self.limited
    }
    /// [`Spent::ask`] where [`Spent::is_unlimited`] says that it is granted.
    #[inline(always)]
    pub fn grant(&mut self, units: u64) {
        self.used = self.used.wrapping_add(units as u32);
    }
    /// Asks for `units`.
    #[inline(always)]
    pub fn ask(&mut self, usage: &mut Usage, units: u64) -> Grant {
        if self.limited && usage.limit.is_some_and(|l| self.used() + units > l) {
            usage.asked += units;
            return Grant::Exceeded;
        }
        self.grant(units);
        Grant::Granted
    }
    /// Whether so many units are left.
    pub fn leaves(&self, usage: &Usage, units: u64) -> bool {
        !self.limited || usage.limit.is_none_or(|l| self.used() + units <= l)
    }
    /// Asks for a lookup, before it is done.
    pub fn ask_lookup(&mut self, usage: &mut Usage) -> Grant {
        self.ask(usage, self.lookup.into())
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

/// What asking an index of several leaves costs, without what is beside it.
const INDEX: usize = 5 * TUPLE;

/// Units that a lookup costs at most in tables of this shape, beyond what one in a single hash table or a short
/// scan does, which every frame's unit holds.
pub fn lookup_units(tables: &TableSet) -> u16 {
    let of = |t: &Table| {
        let c = &t.classifier;
        // The first tuple is a single hash table, as a leaf costs no more than; or beside these one more.
        let (index, tuples) = match c.leaves() {
            0 => (0, c.tuples().saturating_sub(1)),
            1 => (0, c.tuples()),
            2.. => (INDEX, c.tuples()),
        };
        index + tuples * TUPLE + c.scanned()
    };
    let scanned: usize = tables.iter().map(of).sum();
    u16::try_from((scanned + SCANNED / 2) / SCANNED).unwrap_or(u16::MAX)
}

/// How busy the worker was in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Some rounds found nothing to do, or each emptied what it found.
    Idle,
    /// Every round found work, and some of them left work in a port's ring.
    Saturated,
    /// It did not run.
    Paused,
}

/// Deals the units of the next interval out among the VDPs in `of`, after one in which the worker
/// did `capacity` units; see the head of this file. Starts the interval.
pub fn deal(capacity: u64, load: Load, of: &mut [(Vid, Usage)]) {
    match load {
        Load::Idle => of.iter_mut().for_each(|(_, u)| loosen(u)),
        Load::Saturated => tighten(capacity, of),
        Load::Paused => of.iter_mut().for_each(|(_, u)| u.limit = None),
    }
    for (_, u) in of {
        (u.asked, u.used) = (0, 0);
    }
}

fn loosen(u: &mut Usage) {
    u.limit = u.limit.map(|l| l + l / 8 + 1).filter(|l| *l < u.asked.saturating_mul(2));
}

fn tighten(capacity: u64, of: &mut [(Vid, Usage)]) {
    let promised =
        |u: &Usage| (u128::from(capacity) * u128::from(u.guarantee_permille) / 1000) as u64;
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
    // What nobody wanted is the guaranteed ones' to grow into.
    for (_, u) in of.iter_mut().filter(|(_, u)| u.guarantee_permille > 0) {
        u.limit = u.limit.map(|l| l + left);
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
                (Vid(i as u16), Usage { guarantee_permille, asked, used: asked, limit })
            })
            .collect();
        deal(capacity, load, &mut of);
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
        // 25 promised, 8 asked for: the flood gets 75, not the 92 it took.
        let got = dealt(100, Load::Saturated, &[(250, 8, None), (0, 92, None)]);
        assert_eq!(got, [Some(25), Some(75)]);
        // Those without a guarantee share max-min.
        let got = dealt(100, Load::Saturated, &[(500, 40, None), (0, 10, None), (0, 500, None)]);
        assert_eq!(got, [Some(50), Some(10), Some(40)]);
        // A promise that was kept, or that nobody else disturbs, needs no limits.
        assert_eq!(dealt(100, Load::Saturated, &[(500, 50, None), (0, 50, None)]), [None, None]);
    }

    #[test]
    fn limits_grow_while_there_is_time_and_then_go() {
        let once = dealt(100, Load::Idle, &[(0, 900, Some(80))]);
        assert_eq!(once, [Some(91)]);
        assert_eq!(dealt(100, Load::Idle, &[(0, 50, Some(100))]), [None]);
    }

    #[test]
    fn what_came_while_nobody_worked_is_nobodys_too_much() {
        let got = dealt(100, Load::Paused, &[(250, 8, Some(25)), (0, 92, Some(75))]);
        assert_eq!(got, [None, None]);
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
