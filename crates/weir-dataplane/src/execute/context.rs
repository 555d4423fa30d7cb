//! What the executor carries along with one frame: how it goes on, which rule it met, what it may
//! still use.
//!
//! Room: plain data of `execute`, alive for one call.

use super::set::ActionSet;
use super::{Egress, InvalidTtl, Subject};
use crate::compile::{ActionResult, PuntMeta, PuntReason, bits};
use crate::matching::{Counting, Entry, Groups, Meters, Table, TableSet};
use crate::packet::Stale;
use crate::program::Origin;
use weir_classify::Field;
use weir_packet::{DropReason, Frame};

/// What holds for the whole way of one frame.
pub(super) struct Cx {
    pub(super) queue: u32,
    pub(super) depth: u8,
    pub(super) origin: Origin,
    pub(super) stale: Stale,
    /// The rule that is carried out.
    pub(super) rule: Mark,
    /// What is carried out where no table follows; buckets have none.
    pub(super) set: Option<ActionSet>,
}

/// What the controllers are told of a rule that sends to them.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    pub(super) table: u8,
    /// [`NO_SLOT`] for what is no rule.
    pub(super) slot: u32,
    pub(super) cookie: u64,
    pub(super) reason: PuntReason,
}

/// No table has this slot.
const NO_SLOT: u32 = u32::MAX;

impl Mark {
    /// The VDP's default, where table `table` had no rule.
    pub(super) fn default_of(table: u8) -> Self {
        Self { table, slot: NO_SLOT, cookie: u64::MAX, reason: PuntReason::NoMatch }
    }
    #[inline]
    pub(super) fn of(t: &Table, table: u8, slot: u32, e: &Entry) -> Self {
        let miss = bits::PROGRAM | bits::TABLE_MISS;
        let reason = match e.result.bits & miss == miss {
            true => PuntReason::NoMatch,
            false => PuntReason::Action,
        };
        Self { table, slot, cookie: t.cookie(slot), reason }
    }
    /// The same of what no one rule sends: of a bucket, or the action set (1.3.5 §7.4.1).
    pub(super) fn of_none(self) -> Self {
        Self { cookie: u64::MAX, reason: PuntReason::Action, ..self }
    }
}

impl Cx {
    pub(super) fn punt(&self, s: &Subject<'_>, max_len: u16) -> PuntMeta {
        let Mark { table, cookie, reason, .. } = self.rule;
        // Neither is wider than 64 bits.
        let metadata = s.key.get(Field::Metadata) as u64;
        let tunnel_id = s.key.get(Field::TunnelId) as u64;
        PuntMeta { reason, table, cookie, max_len, metadata, tunnel_id }
    }
}

/// How a program ended.
pub(super) enum Next {
    /// The frame is gone.
    Done,
    /// It goes on with this table.
    Table(Frame, u8),
    /// No table follows, and there is an action set to carry out.
    Set(Frame),
}

/// Groups and meters, which change while tables are read.
pub(super) struct Shared<'a> {
    pub(super) groups: &'a mut Groups,
    pub(super) meters: &'a mut Meters,
    /// Copies that this frame may still have.
    pub(super) copies: u32,
    /// Where frames go whose TTL can't be decremented.
    pub(super) invalid_ttl: InvalidTtl,
    /// For outputs to the tables: only a packet-out has them.
    pub(super) tables: Option<Reachable<'a>>,
}

/// The tables, for who may send to them.
pub(super) struct Reachable<'a> {
    pub(super) tables: &'a mut TableSet,
    pub(super) counting: &'a Counting,
    pub(super) default: &'a ActionResult,
}

impl Shared<'_> {
    /// A copy, while the frame's budget lasts.
    pub(super) fn copy<E: Egress>(&mut self, of: &Frame, e: &mut E) -> Option<Frame> {
        let Some(left) = self.copies.checked_sub(1) else {
            e.lost_copy(DropReason::TooDeep);
            return None;
        };
        self.copies = left;
        e.copy(of)
    }
}
