//! Packets to and from controllers (1.3 §7.4.1, §7.3.7).
//!
//! Room: the 1.3 encoding.

use super::{Port32, action, action::Place, oxm, too_long};
use crate::codec::EncodeError;
use crate::model::{ErrorCode, PacketIn, PacketInReason, PacketOut, Port};
use crate::wire::{Kind, Reader, Writer, named};

named! {
    /// OFPR numbers.
    Reason: PacketInReason as u8 else BadLen { 0 = NoMatch, 1 = Action, 2 = InvalidTtl, }
}

pub(super) fn read_in(r: &mut Reader<'_>) -> Result<PacketIn, ErrorCode> {
    let (buffer_id, total_len) = (r.u32()?, r.u16()?);
    let (reason, table, cookie) = (Reason::read(r)?, r.u8()?, r.u64()?);
    let matcher = oxm::read_match(r)?;
    r.skip(2)?;
    let data = r.take_rest().to_vec();
    Ok(PacketIn { buffer_id, total_len, reason, table, cookie, matcher, data })
}

pub(super) fn write_in(m: &PacketIn, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    w.u32(m.buffer_id);
    w.u16(m.total_len);
    Reason::write(&m.reason, w);
    w.u8(m.table);
    w.u64(m.cookie);
    oxm::write_match(&m.matcher, w)?;
    w.zeros(2);
    w.bytes(&m.data);
    Ok(())
}

pub(super) fn read_out(r: &mut Reader<'_>) -> Result<PacketOut, ErrorCode> {
    let buffer_id = r.u32()?;
    let in_port = Port32::read(r)?;
    let actions_len = usize::from(r.u16()?);
    r.skip(6)?;
    let mut list = r.within(actions_len, ErrorCode::ActionBadLen)?;
    if !is_ingress(in_port) {
        return Err(ErrorCode::BadPort);
    }
    let actions = action::read_all(&mut list, Place::PacketOut)?;
    Ok(PacketOut { buffer_id, in_port, actions, data: r.take_rest().to_vec() })
}

/// §7.3.7: a port that a packet can come by, or the controller. Some controllers say ANY.
fn is_ingress(port: Port) -> bool {
    port.is_physical() || matches!(port, Port::CONTROLLER | Port::LOCAL | Port::ANY)
}

pub(super) fn write_out(m: &PacketOut, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    w.u32(m.buffer_id);
    w.u32(m.in_port.0);
    let place = w.at();
    w.u16(0);
    w.zeros(6);
    let start = w.at();
    action::write_all(&m.actions, w)?;
    w.patch_len(place, start).map_err(too_long)?;
    w.bytes(&m.data);
    Ok(())
}
