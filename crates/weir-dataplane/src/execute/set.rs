//! A frame's action set on its way through the tables (OpenFlow 1.3, §5.10).
//!
//! Holds places, not actions: of each kind the rule that wrote it last and where it stands there.
//! Rules do not change while a frame passes. No allocation, and no cost for frames without a set.

use super::Writer;
use crate::compile::set::{GROUP, KINDS, OUTPUT};
use crate::compile::{Op, SetOp, written};
use crate::matching::TableSet;

/// Where an action of the set stands.
#[derive(Clone, Copy, Default)]
struct Place {
    slot: u32,
    table: u8,
    /// In the rule's [`Op::Write`], which has at most [`MAX_ACTIONS`](crate::compile::MAX_ACTIONS).
    nth: u8,
}

/// A frame's action set.
pub(super) struct ActionSet {
    /// A bit for each kind that is there.
    there: u128,
    places: [Place; KINDS],
}

impl ActionSet {
    pub fn new() -> Self {
        Self { there: 0, places: [Place::default(); KINDS] }
    }
    /// As one rule wrote it.
    pub fn by(writer: Writer, tables: &TableSet) -> Self {
        let Writer { table, slot } = writer;
        let mut set = Self::new();
        set.write(written_at(tables, table, slot).unwrap_or_default(), table, slot);
        set
    }
    /// Merges what the rule in `slot` of `table` writes.
    pub fn write(&mut self, ops: &[SetOp], table: u8, slot: u32) {
        for (i, o) in ops.iter().enumerate() {
            if let Some(p) = self.places.get_mut(usize::from(o.kind)) {
                *p = Place { slot, table, nth: i as u8 };
                self.there |= 1 << o.kind;
            }
        }
    }
    /// Its operations in the order in which they are carried out; of group and output the group.
    pub fn ops<'t>(&self, tables: &'t TableSet) -> impl Iterator<Item = &'t Op> {
        let mut left = self.there;
        if left >> GROUP & 1 == 1 {
            left &= !(1 << OUTPUT);
        }
        std::iter::from_fn(move || {
            while left != 0 {
                let kind = left.trailing_zeros();
                left &= left - 1;
                let p = self.places.get(kind as usize)?;
                if let Some(op) = op_at(tables, *p) {
                    return Some(op);
                }
            }
            None
        })
    }
}

fn op_at(tables: &TableSet, p: Place) -> Option<&Op> {
    written_at(tables, p.table, p.slot)?.get(usize::from(p.nth)).map(|s| &s.op)
}

fn written_at(tables: &TableSet, table: u8, slot: u32) -> Option<&[SetOp]> {
    written(tables.get(usize::from(table))?.entry(slot)?.result.program.as_ref()?)
}
