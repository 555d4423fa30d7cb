//! Instructions (1.3 §5.9, §7.2.4).
//!
//! Room: the 1.3 encoding. They are kept in the order in which §5.9 carries them out.

use super::{action, action::Place, too_long};
use crate::codec::EncodeError;
use crate::model::{
    ErrorCode, Instruction, METER_CONTROLLER, METER_MAX, METER_SLOWPATH, TABLE_MAX,
};
use crate::wire::{Reader, Writer};

/// OFPIT numbers.
mod kind {
    pub(super) const GOTO_TABLE: u16 = 1;
    pub(super) const WRITE_METADATA: u16 = 2;
    pub(super) const WRITE_ACTIONS: u16 = 3;
    pub(super) const APPLY_ACTIONS: u16 = 4;
    pub(super) const CLEAR_ACTIONS: u16 = 5;
    pub(super) const METER: u16 = 6;
    pub(super) const EXPERIMENTER: u16 = 0xffff;
}

/// Bytes of type and length.
const HEAD: usize = 4;
/// The most that a flow usually has; `Vec` grows where it has more.
const USUAL: usize = 2;

/// Reads all instructions until the reader's end, and puts them into the order of §5.9.
///
/// # Errors
/// OFPET_BAD_INSTRUCTION and its codes, and those of the actions. §5.9 allows one of a type and
/// 1.3 has no code for two: UNSUP_INST.
pub(super) fn read_all(r: &mut Reader<'_>) -> Result<Vec<Instruction>, ErrorCode> {
    if r.is_empty() {
        return Ok(Vec::new());
    }
    let mut list = Vec::with_capacity(if one_alone(r.rest()) { 1 } else { USUAL });
    let mut seen = 0u8;
    while !r.is_empty() {
        let instruction = read(r)?;
        let order = order(&instruction);
        let experimenter = matches!(instruction, Instruction::Experimenter { .. });
        if seen >> order & 1 == 1 && !experimenter {
            return Err(ErrorCode::InstUnsupported);
        }
        seen |= 1 << order;
        list.push(instruction);
    }
    if !list.is_sorted_by_key(order) {
        list.sort_by_key(order);
    }
    Ok(list)
}

/// Whether the first instruction takes all the bytes.
fn one_alone(bytes: &[u8]) -> bool {
    bytes.get(2..4).is_some_and(|l| usize::from(u16::from_be_bytes([l[0], l[1]])) == bytes.len())
}

const fn order(instruction: &Instruction) -> u8 {
    match instruction {
        Instruction::Meter(_) => 0,
        Instruction::Apply(_) => 1,
        Instruction::Clear => 2,
        Instruction::Write(_) => 3,
        Instruction::WriteMetadata { .. } => 4,
        Instruction::Experimenter { .. } => 5,
        Instruction::GotoTable(_) => 6,
    }
}

fn read(r: &mut Reader<'_>) -> Result<Instruction, ErrorCode> {
    let mut head = Reader::new(r.rest(), ErrorCode::InstBadLen);
    let (number, length) = (head.u16()?, usize::from(head.u16()?));
    if length < 8 || length % 8 != 0 || length > r.len() {
        return Err(ErrorCode::InstBadLen);
    }
    r.skip(HEAD)?;
    let mut body = r.within(length - HEAD, ErrorCode::InstBadLen)?;
    let b = &mut body;
    let instruction = match number {
        kind::GOTO_TABLE => {
            let table = b.u8()?;
            b.skip(3)?;
            b.end()?;
            if table > TABLE_MAX {
                return Err(ErrorCode::InstBadTableId);
            }
            Instruction::GotoTable(table)
        }
        kind::WRITE_METADATA => {
            b.skip(4)?;
            Instruction::WriteMetadata { value: b.u64()?, mask: b.u64()? }
        }
        kind::WRITE_ACTIONS => Instruction::Write(actions(b)?),
        kind::APPLY_ACTIONS => Instruction::Apply(actions(b)?),
        kind::CLEAR_ACTIONS => {
            b.skip(4)?;
            Instruction::Clear
        }
        kind::METER => Instruction::Meter(meter(b.u32()?)?),
        kind::EXPERIMENTER => {
            Instruction::Experimenter { experimenter: b.u32()?, data: b.take_rest().to_vec() }
        }
        _ => return Err(ErrorCode::InstUnknown),
    };
    body.end()?;
    Ok(instruction)
}

fn actions(r: &mut Reader<'_>) -> Result<Vec<crate::model::Action>, ErrorCode> {
    r.skip(4)?;
    action::read_all(r, Place::Entry)
}

/// §7.3.4.4: numbers that a meter can have. The virtual ones are meters, if one is so configured.
fn meter(id: u32) -> Result<u32, ErrorCode> {
    match id {
        1..=METER_MAX | METER_CONTROLLER | METER_SLOWPATH => Ok(id),
        _ => Err(ErrorCode::MeterInvalid),
    }
}

/// Writes a list as it stands.
///
/// # Errors
/// Those of the actions; where an experimenter's is no multiple of 8 bytes.
pub(super) fn write_all(list: &[Instruction], w: &mut Writer<'_>) -> Result<(), EncodeError> {
    list.iter().try_for_each(|instruction| write(instruction, w))
}

fn write(instruction: &Instruction, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    let start = w.at();
    let mut head = |number: u16| {
        w.u16(number);
        w.u16(0);
    };
    match instruction {
        Instruction::GotoTable(table) => {
            head(kind::GOTO_TABLE);
            w.u8(*table);
        }
        Instruction::WriteMetadata { value, mask } => {
            head(kind::WRITE_METADATA);
            w.zeros(4);
            w.u64(*value);
            w.u64(*mask);
        }
        Instruction::Write(list) => {
            head(kind::WRITE_ACTIONS);
            w.zeros(4);
            action::write_all(list, w)?;
        }
        Instruction::Apply(list) => {
            head(kind::APPLY_ACTIONS);
            w.zeros(4);
            action::write_all(list, w)?;
        }
        Instruction::Clear => head(kind::CLEAR_ACTIONS),
        Instruction::Meter(meter) => {
            head(kind::METER);
            w.u32(*meter);
        }
        Instruction::Experimenter { experimenter, data } => {
            if data.len() % 8 != 0 {
                return Err(EncodeError::BadValue { what: "an experimenter's instruction" });
            }
            head(kind::EXPERIMENTER);
            w.u32(*experimenter);
            w.bytes(data);
        }
    }
    w.pad_to_8(start);
    w.patch_len(start + 2, start).map_err(too_long)
}
