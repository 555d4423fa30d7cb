//! Flow modifications and removals (1.3 §7.3.4.1, §7.4.2), flows in statistics (§7.3.5.2).
//!
//! Room: the 1.3 encoding.

use super::{consistency, instruction, oxm, too_long};
use crate::codec::EncodeError;
use crate::model::{
    ErrorCode, FlowCommand, FlowFlags, FlowMod, FlowRemoved, FlowStats, Instruction, Port,
    RemovedReason, TABLE_ALL, Version,
};
use crate::wire::{Kind, Reader, Writer, named};

named! {
    /// OFPFC numbers.
    Command: FlowCommand as u8 else FlowBadCommand {
        0 = Add, 1 = Modify, 2 = ModifyStrict, 3 = Delete, 4 = DeleteStrict,
    }
    /// OFPRR numbers.
    Reason: RemovedReason as u8 else BadLen {
        0 = IdleTimeout, 1 = HardTimeout, 2 = Delete, 3 = GroupDelete,
    }
}

/// OFPFF bits of 1.3.
const FLAGS: u32 = FlowFlags::KNOWN.0 & !FlowFlags::EMERG.0;

/// Flags that 1.3 knows, and no others.
pub(super) fn flags(bits: u16) -> Result<FlowFlags, ErrorCode> {
    let bits = u32::from(bits);
    if bits & !FLAGS == 0 { Ok(FlowFlags(bits)) } else { Err(ErrorCode::FlowBadFlags) }
}

fn write_flags(flags: FlowFlags, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    if flags.0 & !FLAGS != 0 {
        return Err(EncodeError::NotInVersion { version: Version::V13, what: "such flow flag" });
    }
    w.u16(flags.0 as u16);
    Ok(())
}

pub(super) fn read_mod(r: &mut Reader<'_>) -> Result<FlowMod, ErrorCode> {
    // What is fixed, and a match without fields: 40 and 8 bytes. Shorter ones lie about everything.
    if r.len() < 48 {
        return Err(ErrorCode::BadLen);
    }
    let (cookie, cookie_mask) = (r.u64()?, r.u64()?);
    let table = r.u8()?;
    let command = Command::read(r)?;
    let (idle_timeout, hard_timeout) = (r.u16()?, r.u16()?);
    let priority = r.u16()?;
    let buffer_id = r.u32()?;
    let (out_port, out_group) = (Port(r.u32()?), r.u32()?);
    let flags = flags(r.u16()?)?;
    r.skip(2)?;
    let matcher = oxm::read_match(r)?;
    let instructions = instruction::read_all(r)?;
    if !matches!(command, FlowCommand::Delete | FlowCommand::DeleteStrict) {
        // §7.3.4.1: all tables are for deletes.
        if table == TABLE_ALL {
            return Err(ErrorCode::FlowBadTableId);
        }
        goes_on(table, &instructions)?;
        consistency::check(&matcher, &instructions)?;
    }
    Ok(FlowMod {
        cookie,
        cookie_mask,
        table,
        command,
        idle_timeout,
        hard_timeout,
        priority,
        buffer_id,
        out_port,
        out_group,
        flags,
        matcher,
        instructions,
    })
}

/// §5.9: a flow goes on to later tables alone.
fn goes_on(table: u8, instructions: &[Instruction]) -> Result<(), ErrorCode> {
    let back = |i: &Instruction| matches!(i, Instruction::GotoTable(next) if *next <= table);
    if instructions.iter().any(back) { Err(ErrorCode::InstBadTableId) } else { Ok(()) }
}

pub(super) fn write_mod(m: &FlowMod, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    w.u64(m.cookie);
    w.u64(m.cookie_mask);
    w.u8(m.table);
    Command::write(&m.command, w);
    w.u16(m.idle_timeout);
    w.u16(m.hard_timeout);
    w.u16(m.priority);
    w.u32(m.buffer_id);
    w.u32(m.out_port.0);
    w.u32(m.out_group);
    write_flags(m.flags, w)?;
    w.zeros(2);
    oxm::write_match(&m.matcher, w)?;
    instruction::write_all(&m.instructions, w)
}

pub(super) fn read_removed(r: &mut Reader<'_>) -> Result<FlowRemoved, ErrorCode> {
    Ok(FlowRemoved {
        cookie: r.u64()?,
        priority: r.u16()?,
        reason: Reason::read(r)?,
        table: r.u8()?,
        duration_sec: r.u32()?,
        duration_nsec: r.u32()?,
        idle_timeout: r.u16()?,
        hard_timeout: r.u16()?,
        packets: r.u64()?,
        bytes: r.u64()?,
        matcher: oxm::read_match(r)?,
    })
}

pub(super) fn write_removed(m: &FlowRemoved, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    w.u64(m.cookie);
    w.u16(m.priority);
    Reason::write(&m.reason, w);
    w.u8(m.table);
    w.u32(m.duration_sec);
    w.u32(m.duration_nsec);
    w.u16(m.idle_timeout);
    w.u16(m.hard_timeout);
    w.u64(m.packets);
    w.u64(m.bytes);
    oxm::write_match(&m.matcher, w)
}

/// Bytes of a reply's flow before its match.
pub(super) const STATS_HEAD: usize = 48;

/// One flow of a reply, which begins with its length.
pub(super) fn read_stats(r: &mut Reader<'_>) -> Result<FlowStats, ErrorCode> {
    let length = usize::from(r.u16()?);
    let mut r = r.within(length.checked_sub(2).ok_or(ErrorCode::BadLen)?, ErrorCode::BadLen)?;
    let table = r.u8()?;
    r.skip(1)?;
    let (duration_sec, duration_nsec) = (r.u32()?, r.u32()?);
    let (priority, idle_timeout, hard_timeout) = (r.u16()?, r.u16()?, r.u16()?);
    let flags = flags(r.u16()?)?;
    r.skip(4)?;
    Ok(FlowStats {
        table,
        duration_sec,
        duration_nsec,
        priority,
        idle_timeout,
        hard_timeout,
        flags,
        cookie: r.u64()?,
        packets: r.u64()?,
        bytes: r.u64()?,
        matcher: oxm::read_match(&mut r)?,
        instructions: instruction::read_all(&mut r)?,
    })
}

pub(super) fn write_stats(m: &FlowStats, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    let start = w.at();
    w.u16(0);
    w.u8(m.table);
    w.zeros(1);
    w.u32(m.duration_sec);
    w.u32(m.duration_nsec);
    w.u16(m.priority);
    w.u16(m.idle_timeout);
    w.u16(m.hard_timeout);
    write_flags(m.flags, w)?;
    w.zeros(4);
    w.u64(m.cookie);
    w.u64(m.packets);
    w.u64(m.bytes);
    oxm::write_match(&m.matcher, w)?;
    instruction::write_all(&m.instructions, w)?;
    w.patch_len(start, start).map_err(too_long)
}
