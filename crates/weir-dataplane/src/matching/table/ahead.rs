//! What of a table is asked for before it is needed: rules, what they do, what that leads to.
//!
//! Room: called by the worker, for a burst whose rules are known: first every slot, then, where it is far, its rule's program, then what
//! that leads to, each for the whole burst before the next. Hints: they change nothing that frames meet.

use super::Table;
use crate::compile::{ActionResult, Op, bits};
use crate::processing::Change;
use weir_classify::simd::{prefetch_read, prefetch_slice};

/// Slots from which on their rules' programs are asked for; and of a program so many operations, which nearly all are.
const FAR: u32 = 2048;
const AHEAD: usize = 8;
/// Programs that near caches keep by themselves, however far their slots are: a table of stations has a few rules for other frames.
const KEPT: u32 = 64;
/// Whoever has these is carried out without its program.
const WITHOUT: u8 = bits::ONWARD | bits::UNCHANGED;

impl Table {
    /// A rule that does this comes to a slot.
    pub(super) fn note_far(&mut self, slot: u32, result: &ActionResult) {
        let without = match result.meter() {
            Some(_) => result.behind_meter().is_empty(),
            None => result.bits & WITHOUT == WITHOUT || result.group().is_some(),
        };
        let read = result.program.is_some() && !without || result.changes_by_set();
        if slot >= FAR && read {
            let few = self.few_mut();
            few.far = few.far.saturating_add(1);
        }
    }
    fn has_far(&self) -> bool {
        self.few.as_ref().is_some_and(|f| f.far > KEPT)
    }
    /// Whether what the rule in this slot does may lie far away.
    #[inline(always)]
    pub fn is_far(&self, slot: u32) -> bool {
        slot >= FAR && self.has_far()
    }
    /// The first operations of the program of the rule in this slot, as far as it must be read.
    #[inline(always)]
    pub fn first_ops(&self, slot: u32) -> &[Op] {
        let Some(r) = self.entry(slot).map(|e| &e.result) else { return &[] };
        let ops = match (r.meter(), r.group()) {
            (Some(_), _) if !r.changes_by_set() => r.behind_meter(),
            (None, Some(_)) => &[],
            _ => r.program.as_deref().unwrap_or_default(),
        };
        ops.get(..AHEAD).unwrap_or(ops)
    }
    /// The first meter among those, of a rule that is not one of [`ActionResult::meter`].
    #[inline]
    pub fn first_meter(&self, slot: u32) -> Option<u32> {
        self.first_ops(slot).iter().find_map(|op| match op {
            Op::Meter(id) => Some(*id),
            _ => None,
        })
    }
    /// Asks for the memory of a slot.
    #[inline(always)]
    pub fn prefetch(&self, slot: u32) {
        if let Some(e) = self.entries.get(slot as usize) {
            prefetch_read(e);
        }
    }
    /// Asks for the program of the rule in a slot that is far.
    #[inline(always)]
    pub fn prefetch_program(&self, slot: u32) {
        if self.is_far(slot) {
            let ops = self.first_ops(slot);
            prefetch_slice(ops, size_of_val(ops));
        }
    }
    /// Asks for what such a program writes to the action set, and for the first headers that it puts in front.
    #[inline(always)]
    pub fn prefetch_headers(&self, slot: u32) {
        fn whole<T>(headers: &T) {
            prefetch_slice(std::slice::from_ref(headers), size_of::<T>());
        }
        if !self.is_far(slot) {
            return;
        }
        for op in self.first_ops(slot) {
            match op {
                Op::Change(Change::EncapVxlan(headers)) => return whole(&**headers),
                Op::Change(Change::EncapGre(headers)) => return whole(&**headers),
                Op::Write(set) => prefetch_slice(set, size_of_val(&**set)),
                _ => {}
            }
        }
    }
    /// Asks for programs and headers of all of these, if there are any that are far.
    #[inline(always)]
    pub fn prefetch_programs(&self, slots: &[u32]) {
        if self.has_far() {
            slots.iter().for_each(|slot| self.prefetch_program(*slot));
            slots.iter().for_each(|slot| self.prefetch_headers(*slot));
        }
    }
}
