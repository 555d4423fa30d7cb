//! Frames that carry an action set to later tables, in bursts: who wrote it, and how it is carried out where no table follows.
//!
//! Room: `onward`'s. What one rule has written is kept as that rule's place. What several have together, and a set that is neither changes
//! and an output nor a group alone (`grouped`), is for [`DataPlane::process`], which begins with what the first one wrote.

use super::alike::{Leaving, complete};
use super::onward::apply_all;
use super::*;
use crate::compile::{ActionResult, Op, SetOp, bits};
use crate::execute::Writer;
use crate::packet::{Packet, Stale};

/// Of a burst's frames, who carries an action set, and whose.
#[derive(Debug)]
pub(super) struct Carrying {
    /// A bit each.
    frames: u64,
    writers: [Writer; BURST],
}

impl Default for Carrying {
    fn default() -> Self {
        Self { frames: 0, writers: [Writer::default(); BURST] }
    }
}

impl Carrying {
    /// Nobody does so far.
    pub(super) fn none(&mut self) {
        self.frames = 0;
    }
    /// Who does, a bit each.
    #[inline(always)]
    pub(super) fn frames(&self) -> u64 {
        self.frames
    }
    /// Who wrote the action set that the `i`-th frame carries.
    #[inline(always)]
    pub(super) fn writer(&self, i: usize) -> Option<Writer> {
        self.writers.get(i).filter(|_| self.frames >> i & 1 == 1).copied()
    }
    /// The rule in this slot sends the `i`-th frame on.
    #[inline(always)]
    pub(super) fn goes_on(&mut self, i: usize, r: &ActionResult, table: u8, slot: u32) {
        if let Some(w) = r.writes() {
            self.frames &= !(1 << i);
            if w.puts() && i < BURST {
                self.frames |= 1 << i;
                self.writers[i] = Writer { table, slot };
            }
        }
    }
}

/// What comes next for frames that carry an action set and do not leave by it, a bit each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settled {
    /// They go on to a later table.
    pub(super) on: u64,
    /// They come to a meter first.
    pub(super) metered: u64,
    /// They leave by a group.
    pub(super) grouped: u64,
}

impl DataPlane {
    /// Of these frames, a bit each, which carry action sets and are counted at the rules that took them: those for which no table follows leave
    /// as their set says, where that is a common way.
    #[inline(never)]
    pub(super) fn carry_sets(
        &mut self,
        in_port: PortId,
        frames: u64,
        left: &mut u64,
        leaving: &mut Leaving,
    ) -> Settled {
        let w = &mut self.work;
        let mut settled = Settled::default();
        for (i, f) in (0..BURST).zip(w.burst.as_mut_slice()) {
            let (1, Some((n, slot))) = (frames >> i & 1, w.slots[i].rule()) else { continue };
            let Some(v) = vdp_mut(&mut self.vdps, w.vids[i]) else { continue };
            let rule =
                |table: u8, slot| Some(&v.fast.tables.get(table.into())?.entry(slot)?.result);
            let Some(r) = rule(n, slot) else { continue };
            // Its VDP does not want to hear of invalid TTLs, or it would not carry one. What is put into a set that is there would have to be merged.
            let merges = r.writes().is_some_and(|w| !w.clears());
            if r.is_onward() && !merges {
                let to = if r.meter().is_some() { &mut settled.metered } else { &mut settled.on };
                *to |= 1 << i;
                continue;
            }
            let writer = w.carrying.writer(i).and_then(|w| rule(w.table, w.slot));
            if r.ends().is_some_and(<[Op]>::is_empty)
                && writer.is_some_and(|w| w.group_by_set().is_some())
            {
                settled.grouped |= 1 << i;
                continue;
            }
            let out = r
                .ends()
                .zip(writer.and_then(ActionResult::leaves_by_set))
                .filter(|(_, (port, _))| *port != in_port);
            let changed = out.is_none_or(|(ops, (_, set))| !ops.is_empty() || !set.is_empty());
            if w.depths[i] != Depth::Whole && changed && r.bits & bits::DROP == 0 {
                w.layers[i] = complete(&v.fields, f, v.edge.at(in_port).no, &mut w.keys[i]);
                w.depths[i] = Depth::Whole;
            }
            if let Some((ops, (port, set))) = out {
                let (key, layers) = (&mut w.keys[i], w.layers[i]);
                let mut p = Packet { frame: f, key, layers, stale: Stale::No };
                let done = apply_all(all(ops, set), &mut p);
                w.slots[i] = leaving.by(port, done, f.len());
            } else {
                *left |= u64::from(r.bits & bits::DROP == 0) << i;
                leaving.otherwise();
            }
        }
        settled
    }
}

/// A rule's changes, then its action set's.
fn all<'a>(ops: &'a [Op], set: &'a [SetOp]) -> impl Iterator<Item = &'a Op> {
    ops.iter().chain(set.iter().map(|s| &s.op))
}
