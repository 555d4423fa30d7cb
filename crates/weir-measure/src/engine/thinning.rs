//! Loads of which one frame in so many is told of: which those are, and the count of the others.
//!
//! Room: between the core's thread, which says what loads there are, and the captures, which ask for every
//! frame. Lock-free. [`Counter`] belongs to one capture.

use super::wire::Found;
use crate::module::{Count, LoadId};
use crate::probe::{Contents, Place, Track};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers remembered of each load, in words of 64: a fifteenth of a second at a million frames a second.
const WINDOW: usize = 1024;

/// One in how many, for each load. The upper half of a word counts how often its number was given anew.
#[derive(Debug)]
pub(super) struct Thinning([AtomicU64; 256]);

impl Default for Thinning {
    fn default() -> Self {
        Self([const { AtomicU64::new(1) }; 256])
    }
}

impl Thinning {
    /// A load begins.
    pub(super) fn begin(&self, load: LoadId, one_in: u64) {
        let one_in = one_in.clamp(1, u32::MAX.into());
        let slot = &self.0[usize::from(load.0)];
        let turn = (slot.load(Ordering::Relaxed) >> 32).wrapping_add(1);
        slot.store(turn << 32 | one_in, Ordering::Release);
    }

    /// Its turn, and one in how many.
    fn of(&self, load: LoadId) -> (u32, u32) {
        let word = self.0[usize::from(load.0)].load(Ordering::Acquire);
        ((word >> 32) as u32, word as u32)
    }
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is handed over.
    Told,
    /// It is counted, no more.
    Counted,
}

struct Counted {
    turn: u32,
    track: Track,
    /// The highest number of each flow.
    highest: Vec<Option<u32>>,
    /// Frames behind one of their flow with a higher number.
    late: u64,
    changed: u64,
    /// What of all that was handed over.
    given: Count,
}

impl Counted {
    fn new(turn: u32) -> Self {
        let (track, given) = (Track::new(WINDOW), Count::default());
        Self { turn, track, highest: Vec::new(), late: 0, changed: 0, given }
    }

    /// A frame that came for the first time: of other flows' frames it may be behind, of its own not.
    fn order(&mut self, flow: u16, number: u32) {
        let at = usize::from(flow);
        if self.highest.len() <= at {
            self.highest.resize(at + 1, None);
        }
        let Some(highest) = self.highest.get_mut(at) else { return };
        match highest {
            // Numbers go on past 32 bits.
            Some(h) if number.wrapping_sub(*h) as i32 <= 0 => self.late += 1,
            _ => *highest = Some(number),
        }
    }
}

/// Counts the frames of one capture.
#[derive(Default)]
pub(super) struct Counter {
    loads: BTreeMap<u8, Counted>,
    fresh: bool,
}

impl Counter {
    /// Counts a probe, if its load is one that is counted.
    pub(super) fn see(&mut self, thinning: &Thinning, found: &Found) -> Fate {
        let probe = found.id;
        let (turn, one_in) = thinning.of(probe.load);
        if one_in <= 1 {
            return Fate::Told;
        }
        let of = self.loads.entry(probe.load.0).or_insert_with(|| Counted::new(turn));
        if of.turn != turn {
            *of = Counted::new(turn);
        }
        self.fresh = true;
        if found.contents == Contents::Changed {
            // Its number may be the damage, and would make those that follow look late.
            of.changed += 1;
            return Fate::Counted;
        }
        let first = matches!(of.track.arrive(probe.number), Place::InOrder | Place::Reordered);
        if first {
            of.order(probe.flow, probe.number);
        }
        if first && probe.number.is_multiple_of(one_in) { Fate::Told } else { Fate::Counted }
    }

    /// Hands over what was counted since the last call.
    pub(super) fn take(&mut self, mut each: impl FnMut(LoadId, Count)) {
        if !std::mem::take(&mut self.fresh) {
            return;
        }
        for (load, of) in &mut self.loads {
            let t = &of.track;
            let now = Count {
                frames: t.in_order + t.reordered,
                reordered: of.late,
                duplicated: t.duplicated + t.too_old,
                changed: of.changed,
            };
            let new = now.less(&of.given);
            of.given = now;
            if new != Count::default() {
                each(LoadId(*load), new);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::ProbeId;
    use weir_packet::Nanos;

    fn probe(load: u8, number: u32) -> Found {
        let id = ProbeId { load: LoadId(load), flow: 0, number };
        Found { id, made: Nanos(0), contents: Contents::AsSent }
    }

    #[test]
    fn one_in_so_many_is_told_and_all_are_counted() {
        let t = Thinning::default();
        let mut c = Counter::default();
        t.begin(LoadId(3), 10);
        t.begin(LoadId(4), 1);
        let numbers = (0..100u32).filter(|n| *n != 7).chain([50, 7]);
        let told: Vec<_> = numbers.filter(|n| c.see(&t, &probe(3, *n)) == Fate::Told).collect();
        assert_eq!(told, (0..10).map(|n| n * 10).collect::<Vec<_>>(), "the copy of 50 is not");
        assert_eq!(c.see(&t, &probe(4, 1)), Fate::Told);
        let mut got = Vec::new();
        c.take(|l, n| got.push((l, n)));
        let want = Count { frames: 100, reordered: 1, duplicated: 1, changed: 0 };
        assert_eq!(got, [(LoadId(3), want)]);
        c.take(|_, n| panic!("{n:?} was given"));
        // The number is given anew: nothing is remembered.
        t.begin(LoadId(3), 2);
        c.see(&t, &probe(3, 0));
        c.take(|l, n| got.push((l, n)));
        assert_eq!(got[1], (LoadId(3), Count { frames: 1, ..Count::default() }));
    }

    #[test]
    fn order_is_judged_within_a_flow_and_of_what_came_as_it_was_sent() {
        let t = Thinning::default();
        let mut c = Counter::default();
        t.begin(LoadId(3), 10);
        let of = |flow, number| {
            let found = probe(3, number);
            Found { id: ProbeId { flow, ..found.id }, ..found }
        };
        // 0 and 1 are behind 2 of another flow; 4 is behind 8 of its own, and 20 never was.
        for (flow, number) in [(2, 2), (0, 0), (1, 1), (2, 8), (2, 4)] {
            c.see(&t, &of(flow, number));
        }
        let changed = Found { contents: Contents::Changed, ..of(2, 20) };
        assert_eq!(c.see(&t, &changed), Fate::Counted);
        c.see(&t, &of(2, 11));
        let mut got = Vec::new();
        c.take(|_, n| got.push(n));
        assert_eq!(got, [Count { frames: 6, reordered: 1, duplicated: 0, changed: 1 }]);
    }
}
