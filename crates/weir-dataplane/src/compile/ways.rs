//! Common ways of programs: what [`bits`] say of one, and what stands in place of addresses, so that it need not be read.
//!
//! Room: part of `compile`. Said once, when a rule is compiled ([`program`]); asked for every frame, by `plane` and `execute`.

use super::{ActionResult, Op, SetOp, Target, bits};
use crate::numbered::Named;
use crate::processing::Change;
use weir_packet::PortId;

const METERED: u8 = bits::PROGRAM | bits::METERED;
const WRITES: u8 = bits::ONWARD | bits::WRITES;
const ENDS: u8 = bits::PROGRAM | bits::ENDS;
const GROUPED: u8 = bits::PROGRAM | bits::GROUPED;
/// With any of these a program goes another way than [`bits::ENDS`], or than [`bits::GROUPED`].
const NOT_GROUPED: u8 = bits::FORWARD | bits::DROP | bits::STRAIGHT;
const NOT_ENDS: u8 = NOT_GROUPED | bits::GROUPED & !bits::ENDS;

/// Of what stands in place of addresses: the number of the meter or the group, and where it stands; with [`bits::WRITES`] what is
/// written, and the port by which frames leave by that.
const NUMBER: usize = 0;
const PLACE: usize = 4;
const WRITTEN: usize = 8;
const PORT: usize = 10;

/// What a rule does to the action set of frames that go on to a later table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writes(u8);

impl Writes {
    /// Empties it.
    const CLEARS: u8 = 1;
    /// Puts actions into it.
    const PUTS: u8 = 2;
    /// These are changes, and the output by one port.
    const LEAVES: u8 = 4;
    /// They are that output alone.
    const ONLY: u8 = 8;
    /// They are a group alone, and the rule asks no meter.
    const GROUP: u8 = 16;

    fn of(self, what: u8) -> bool {
        self.0 & what != 0
    }
    /// What the operations do that stand in front of others, and the port by which frames leave by that.
    fn in_front(ops: &[Op]) -> (Self, PortId) {
        let (mut what, mut port) = (0, PortId(0));
        if ops.iter().any(|op| matches!(op, Op::Clear)) {
            what |= Self::CLEARS;
        }
        if let Some((last, before)) = written(ops).and_then(<[SetOp]>::split_last) {
            what |= Self::PUTS;
            let nothing = |s: &SetOp| matches!(s.op, Op::Nothing);
            if let Op::Output(Target::Port(by)) = last.op
                && before.iter().all(|s| nothing(s) || matches!(s.op, Op::Change(_)))
            {
                what |= if before.iter().all(nothing) {
                    Self::LEAVES | Self::ONLY
                } else {
                    Self::LEAVES
                };
                port = by;
            }
        }
        (Self(what), port)
    }
    /// Whether it is empty before anything is put into it.
    pub fn clears(self) -> bool {
        self.of(Self::CLEARS)
    }
    /// Whether anything is put into it.
    pub fn puts(self) -> bool {
        self.of(Self::PUTS)
    }
}

impl ActionResult {
    /// The later table that frames go on to, and the changes before that, where nothing else becomes of them, but that a meter
    /// may come first ([`ActionResult::meter`]), and the action set before that ([`ActionResult::writes`]). The program is not read where there
    /// are no changes.
    #[inline(always)]
    pub fn onward(&self) -> Option<(u8, &[Op])> {
        if !self.is_onward() {
            return None;
        }
        let changes = match &self.program {
            Some(ops) if self.bits & bits::UNCHANGED == 0 => self.behind(ops).split_last()?.1,
            _ => &[],
        };
        Some((self.port.0 as u8, changes))
    }
    /// Whether frames go on to a later table, and nothing else becomes of them ([`ActionResult::onward`]).
    #[inline(always)]
    pub fn is_onward(&self) -> bool {
        self.bits & bits::ONWARD == bits::ONWARD
    }
    /// The meter that frames come to first, where [`bits`] say all else that becomes of them. The program is not read.
    #[inline(always)]
    pub fn meter(&self) -> Option<Named> {
        (self.bits & METERED == METERED && !self.is_grouped()).then(|| self.named())
    }
    /// The group by which frames leave of which nothing else becomes. The program is not read.
    #[inline(always)]
    pub fn group(&self) -> Option<Named> {
        self.is_grouped().then(|| self.named())
    }
    #[inline(always)]
    fn is_grouped(&self) -> bool {
        self.bits & (GROUPED | NOT_GROUPED) == GROUPED
    }
    #[inline(always)]
    fn named(&self) -> Named {
        let word = |at: usize| {
            self.macs[at..].first_chunk().map_or(0, |bytes: &[u8; 4]| u32::from_ne_bytes(*bytes))
        };
        Named { id: word(NUMBER), place: word(PLACE) }
    }
    /// Its meter, or its group, stands in this place: to be said of results that have one.
    pub(crate) fn named_is_at(&mut self, place: u32) {
        self.macs[PLACE..WRITTEN].copy_from_slice(&place.to_ne_bytes());
    }
    /// What is done, the last operation included, to frames that its meter has let pass; nothing, where they are not changed: then the program
    /// is not read.
    #[inline(always)]
    pub fn behind_meter(&self) -> &[Op] {
        let onward = bits::ONWARD | bits::UNCHANGED;
        match &self.program {
            Some(_) if self.bits & onward == onward => &[],
            // The meter, and the last, which `bits` say.
            Some(ops) if ops.len() > 2 => self.behind(ops),
            _ => &[],
        }
    }
    /// The program without the meter in front, and what it does to the action set before that.
    #[inline(always)]
    fn behind<'a>(&self, ops: &'a [Op]) -> &'a [Op] {
        let sets = match self.writes() {
            Some(w) => usize::from(w.clears()) + usize::from(w.puts()),
            None => 0,
        };
        let meters = usize::from(self.bits & bits::METERED != 0);
        ops.get(sets + meters..).unwrap_or_default()
    }
    /// What it does to the action set of frames that go on. The program is not read.
    #[inline(always)]
    pub fn writes(&self) -> Option<Writes> {
        (self.bits & WRITES == WRITES).then_some(Writes(self.macs[WRITTEN]))
    }
    /// Whether frames are changed by what it puts into the action set, so that the program is read for that.
    pub fn changes_by_set(&self) -> bool {
        self.writes().is_some_and(|w| w.of(Writes::LEAVES) && !w.of(Writes::ONLY))
    }
    /// What becomes of frames by the action set as this rule wrote it, where that is only changes, and the output by one port: that, and the operations,
    /// the last included; none, where frames are not changed: then the program is not read.
    pub fn leaves_by_set(&self) -> Option<(PortId, &[SetOp])> {
        let w = self.writes().filter(|w| w.of(Writes::LEAVES))?;
        let port = PortId(u16::from_ne_bytes([self.macs[PORT], self.macs[PORT + 1]]));
        match &self.program {
            Some(ops) if !w.of(Writes::ONLY) => Some((port, written(ops)?)),
            _ => Some((port, &[])),
        }
    }
    /// The group by which frames leave by the action set as this rule wrote it, where that is nothing else. The program is not read.
    pub fn group_by_set(&self) -> Option<Named> {
        self.writes().filter(|w| w.of(Writes::GROUP)).map(|_| self.named())
    }
    /// The changes of frames of which nothing else becomes than that their action set, if they have one, is carried out; none, where only
    /// metadata is written, which nobody sees any more.
    #[inline(always)]
    pub fn ends(&self) -> Option<&[Op]> {
        if self.bits & (ENDS | NOT_ENDS) != ENDS {
            return None;
        }
        match &self.program {
            Some(ops) if self.bits & bits::UNCHANGED == 0 => Some(ops),
            _ => Some(&[]),
        }
    }
}

/// What a program puts into the action set. It stands in front, behind a clear at most.
pub(crate) fn written(ops: &[Op]) -> Option<&[SetOp]> {
    ops.iter().take(2).find_map(|op| match op {
        Op::Write(w) => Some(&**w),
        _ => None,
    })
}

/// A program with what is said of it.
pub(super) fn program(ops: Vec<Op>) -> ActionResult {
    // The software stage takes as much again.
    let software = ops.iter().filter(|o| matches!(o, Op::Channel(_))).count();
    let cost = (1 + ops.len() / 2 + software).min(255) as u8;
    let sets = ops.iter().take_while(|o| matches!(o, Op::Clear | Op::Write(_))).count();
    let (set, behind) = ops.split_at(sets);
    let (meter, then) = match behind.split_first() {
        Some((Op::Meter(id), then)) => (Some(*id), then),
        _ => (None, behind),
    };
    let unchanged = if then.len() == 1 { bits::UNCHANGED } else { 0 };
    let (way, port) = match (onward(then), straight(then), set, meter) {
        (Some(table), ..) => (bits::ONWARD | unchanged, PortId(table.into())),
        (_, Some(port), [], _) if then.iter().all(by_headers) => {
            (bits::STRAIGHT | bits::BY_HEADERS, port)
        }
        (_, Some(port), [], _) => (bits::STRAIGHT, port),
        (_, _, [], None) if matches!(then, [Op::Group(_)]) => (bits::GROUPED, PortId(0)),
        (_, _, [], None) if then.iter().all(changes) => (bits::ENDS | unseen(then), PortId(0)),
        _ => (0, PortId(0)),
    };
    let goes_on = way & bits::ONWARD == bits::ONWARD;
    let mut macs = [0; 12];
    let (mut said, mut named) = (bits::PROGRAM | way, None);
    if let (Some(id), 1..) = (meter, way) {
        said = said & !bits::STRAIGHT | bits::METERED;
        named = Some(id);
    } else if let (bits::GROUPED, [Op::Group(id)]) = (way, then) {
        named = Some(*id);
    }
    if goes_on && !set.is_empty() {
        let (mut writes, port) = Writes::in_front(set);
        if let (None, Some(id)) = (meter, written(set).and_then(only_group)) {
            (writes.0, named) = (writes.0 | Writes::GROUP, Some(id));
        }
        said |= bits::WRITES;
        macs[WRITTEN] = writes.0;
        macs[PORT..].copy_from_slice(&port.0.to_ne_bytes());
    }
    macs[NUMBER..PLACE].copy_from_slice(&named.unwrap_or(0).to_ne_bytes());
    ActionResult { bits: said, cost, port, macs, program: Some(ops.into()) }
}

/// Metadata that is written last nobody sees, but whoever is told of it, who gets it the long way.
fn unseen(changes: &[Op]) -> u8 {
    let frame = changes.iter().any(|op| matches!(op, Op::Change(_)));
    if frame { 0 } else { bits::UNCHANGED }
}

/// The group of a set that is nothing else. An output beside it is not carried out (OpenFlow 1.3, §5.10).
fn only_group(set: &[SetOp]) -> Option<u32> {
    let mut ops = set.iter().map(|s| &s.op).filter(|op| !matches!(op, Op::Nothing));
    match (ops.next(), ops.next(), ops.next()) {
        (Some(Op::Group(id)), None | Some(Op::Output(_)), None) => Some(*id),
        _ => None,
    }
}

/// The port by which frames leave of which nothing else becomes than that they are changed.
fn straight(ops: &[Op]) -> Option<PortId> {
    let (last, changes) = ops.split_last()?;
    let Op::Output(Target::Port(port)) = last else { return None };
    changes.iter().all(|op| matches!(op, Op::Change(_))).then_some(*port)
}

/// The table with which frames go on of which nothing else becomes than that they are changed.
fn onward(ops: &[Op]) -> Option<u8> {
    let (Op::Goto(table), changes) = ops.split_last()? else { return None };
    changes.iter().all(self::changes).then_some(*table)
}

/// Whether an operation changes a frame or what travels with it, and nothing else becomes of it.
fn changes(op: &Op) -> bool {
    matches!(op, Op::Change(_) | Op::Metadata(..))
}

/// Whether an operation of those leaves headers where they are and does not ask for the key.
fn by_headers(op: &Op) -> bool {
    let Op::Change(c) = op else { return true };
    matches!(
        c,
        Change::Macs(_)
            | Change::Mac(_)
            | Change::DecTtl
            | Change::Tci(_)
            | Change::MplsEntry(_)
            | Change::DecMplsTtl
            | Change::Ipv4(_)
            | Change::Port(_)
    )
}
