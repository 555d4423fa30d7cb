//! Each VDP's share of the worker's cycles (DESIGN.md §3): output is not the only thing shared.
//!
//! While the worker keeps up, everybody gets what they ask for. When it was busy for a whole
//! interval, the next interval's capacity (what was processed in the last) is dealt out: first
//! what each VDP is guaranteed, as far as it asked for it, then the rest evenly (max-min). Frames
//! beyond a VDP's part are dropped right after mapping, before they cost more.
//!
//! Room: `account` is called by the worker for each frame after mapping, `Shares::tick` every
//! interval. Work is counted in the cost units of compiled actions (`ActionResult::cost`), so that
//! the arithmetic needs no clock and can be tested in virtual time.

use crate::action::Vid;
use weir_packet::Nanos;

/// Length of an interval.
pub const INTERVAL: Nanos = Nanos(1_000_000);

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
    /// Whether it must be put on the list of this interval; true once an interval.
    #[inline(always)]
    pub fn first_seen(&mut self) -> bool {
        !std::mem::replace(&mut self.listed, true)
    }
}

/// How busy the worker was in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Some rounds found nothing to do.
    Idle,
    /// Every round found work.
    Saturated,
}

/// Deals `capacity` units out among the VDPs in `of`: guarantees first, as far as asked for, then
/// the rest max-min. Writes limits for the next interval and starts it.
pub fn deal(capacity: u64, load: Load, of: &mut [(Vid, Usage)]) {
    let asked: u64 = of.iter().map(|(_, u)| u.asked).sum();
    if load == Load::Idle || asked <= capacity || of.len() < 2 {
        for (_, u) in of {
            (u.limit, u.asked, u.used, u.listed) = (None, 0, 0, false);
        }
        return;
    }
    let promised =
        |u: &Usage| (u128::from(capacity) * u128::from(u.guarantee_permille) / 1000) as u64;
    let mut left = capacity;
    for (_, u) in of.iter_mut() {
        let first = promised(u).min(u.asked).min(left);
        u.limit = Some(first);
        left -= first;
    }
    // Max-min: those who want least beyond their guarantee are satisfied first.
    of.sort_unstable_by_key(|(_, u)| u.asked - u.limit.unwrap_or(0));
    let n = of.len() as u64;
    for (i, (_, u)) in of.iter_mut().enumerate() {
        let even = left / (n - i as u64);
        let more = (u.asked - u.limit.unwrap_or(0)).min(even);
        u.limit = u.limit.map(|l| l + more);
        left -= more;
        (u.asked, u.used, u.listed) = (0, 0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dealt(capacity: u64, load: Load, of: &[(u16, u64)]) -> Vec<Option<u64>> {
        let mut of: Vec<(Vid, Usage)> = of
            .iter()
            .enumerate()
            .map(|(i, (guarantee_permille, asked))| {
                let guarantee_permille = *guarantee_permille;
                let u = Usage { guarantee_permille, asked: *asked, ..Usage::default() };
                (Vid(i as u16), u)
            })
            .collect();
        deal(capacity, load, &mut of);
        of.sort_by_key(|(v, _)| *v);
        of.iter().map(|(_, u)| u.limit).collect()
    }

    #[test]
    fn without_contention_nobody_has_a_limit() {
        assert_eq!(dealt(100, Load::Idle, &[(0, 900), (0, 900)]), [None, None]);
        assert_eq!(dealt(100, Load::Saturated, &[(0, 50), (0, 50)]), [None, None]);
        assert_eq!(dealt(100, Load::Saturated, &[(0, 500)]), [None]);
    }

    #[test]
    fn guarantees_come_first_then_max_min() {
        let got = dealt(100, Load::Saturated, &[(500, 500), (0, 10), (0, 500)]);
        // 50 promised; of the other 50: 10 asked for, the rest in two halves.
        assert_eq!(got, [Some(70), Some(10), Some(20)]);
        // A guarantee that is not asked for goes to the others.
        assert_eq!(dealt(100, Load::Saturated, &[(900, 5), (0, 500)]), [Some(5), Some(95)]);
    }

    #[test]
    fn nothing_is_dealt_twice() {
        for n in 1..40u64 {
            let of: Vec<(u16, u64)> = (0..n).map(|i| ((i * 37 % 30) as u16, i * i)).collect();
            let got = dealt(200, Load::Saturated, &of);
            assert!(got.iter().flatten().sum::<u64>() <= 200);
        }
    }
}
