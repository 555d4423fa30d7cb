//! Actions (1.3 §7.2.5).
//!
//! Room: the 1.3 encoding. An action list is read in the place where it stands: some ports can be
//! named in packet-outs alone.

use super::{Port32, oxm, too_long};
use crate::codec::EncodeError;
use crate::model::{Action, ErrorCode, GROUP_MAX, Port, Version};
use crate::wire::{Kind, Reader, Writer};

/// OFPAT numbers.
mod kind {
    pub(super) const OUTPUT: u16 = 0;
    pub(super) const COPY_TTL_OUT: u16 = 11;
    pub(super) const COPY_TTL_IN: u16 = 12;
    pub(super) const SET_MPLS_TTL: u16 = 15;
    pub(super) const DEC_MPLS_TTL: u16 = 16;
    pub(super) const PUSH_VLAN: u16 = 17;
    pub(super) const POP_VLAN: u16 = 18;
    pub(super) const PUSH_MPLS: u16 = 19;
    pub(super) const POP_MPLS: u16 = 20;
    pub(super) const SET_QUEUE: u16 = 21;
    pub(super) const GROUP: u16 = 22;
    pub(super) const SET_NW_TTL: u16 = 23;
    pub(super) const DEC_NW_TTL: u16 = 24;
    pub(super) const SET_FIELD: u16 = 25;
    pub(super) const PUSH_PBB: u16 = 26;
    pub(super) const POP_PBB: u16 = 27;
    pub(super) const EXPERIMENTER: u16 = 0xffff;
}

/// EtherTypes that a push can give its tag; others are BAD_ARGUMENT.
const VLAN_TAGS: [u16; 2] = [0x8100, 0x88a8];
const MPLS_TAGS: [u16; 2] = [0x8847, 0x8848];
const PBB_TAGS: [u16; 1] = [0x88e7];

/// Bytes of type and length.
const HEAD: usize = 4;

/// Where an action list stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In a flow or in a group's bucket.
    Entry,
    /// In a packet-out.
    PacketOut,
}

/// Reads all actions until the reader's end.
///
/// # Errors
/// OFPET_BAD_ACTION and its codes.
pub(super) fn read_all(r: &mut Reader<'_>, place: Place) -> Result<Vec<Action>, ErrorCode> {
    let mut list = Vec::with_capacity(count(r.rest()));
    while !r.is_empty() {
        list.push(read(r, place)?);
    }
    Ok(list)
}

/// How many actions there are, so that a list is allocated once and fits.
fn count(bytes: &[u8]) -> usize {
    let (mut at, mut n) = (0, 0);
    while let Some([h, l]) = bytes.get(at + 2..at + 4) {
        at += usize::from(u16::from_be_bytes([*h, *l])).max(8);
        n += 1;
    }
    n
}

fn read(r: &mut Reader<'_>, place: Place) -> Result<Action, ErrorCode> {
    let mut head = Reader::new(r.rest(), ErrorCode::ActionBadLen);
    let (number, length) = (head.u16()?, usize::from(head.u16()?));
    if length < 8 || length % 8 != 0 || length > r.len() {
        return Err(ErrorCode::ActionBadLen);
    }
    r.skip(HEAD)?;
    let mut body = r.within(length - HEAD, ErrorCode::ActionBadLen)?;
    let b = &mut body;
    let action = match number {
        kind::OUTPUT => {
            let port = output_port(Port32::read(b)?, place)?;
            let max_len = b.u16()?;
            b.skip(6)?;
            Action::Output { port, max_len }
        }
        kind::COPY_TTL_OUT => padded(Action::CopyTtlOut, 4, b)?,
        kind::COPY_TTL_IN => padded(Action::CopyTtlIn, 4, b)?,
        kind::SET_MPLS_TTL => padded(Action::SetMplsTtl(b.u8()?), 3, b)?,
        kind::DEC_MPLS_TTL => padded(Action::DecMplsTtl, 4, b)?,
        kind::PUSH_VLAN => padded(Action::PushVlan(tag(b, &VLAN_TAGS)?), 2, b)?,
        kind::POP_VLAN => padded(Action::PopVlan, 4, b)?,
        kind::PUSH_MPLS => padded(Action::PushMpls(tag(b, &MPLS_TAGS)?), 2, b)?,
        kind::POP_MPLS => padded(Action::PopMpls(b.u16()?), 2, b)?,
        kind::SET_QUEUE => Action::SetQueue(b.u32()?),
        kind::GROUP => Action::Group(group(b.u32()?)?),
        kind::SET_NW_TTL => padded(Action::SetNwTtl(b.u8()?), 3, b)?,
        kind::DEC_NW_TTL => padded(Action::DecNwTtl, 4, b)?,
        kind::SET_FIELD => {
            let (field, value) = oxm::read_set(b)?;
            // The TLV is padded to a multiple of 8 and no further.
            if b.len() >= 8 {
                return Err(ErrorCode::ActionBadSetLen);
            }
            b.take_rest();
            Action::SetField(field, value)
        }
        kind::PUSH_PBB => padded(Action::PushPbb(tag(b, &PBB_TAGS)?), 2, b)?,
        kind::POP_PBB => padded(Action::PopPbb, 4, b)?,
        kind::EXPERIMENTER => {
            Action::Experimenter { experimenter: b.u32()?, data: b.take_rest().to_vec() }
        }
        _ => return Err(ErrorCode::ActionBadType),
    };
    body.end()?;
    Ok(action)
}

fn padded(action: Action, pad: usize, r: &mut Reader<'_>) -> Result<Action, ErrorCode> {
    r.skip(pad)?;
    Ok(action)
}

fn tag(r: &mut Reader<'_>, tags: &[u16]) -> Result<u16, ErrorCode> {
    let tag = r.u16()?;
    if tags.contains(&tag) { Ok(tag) } else { Err(ErrorCode::ActionBadArgument) }
}

fn group(id: u32) -> Result<u32, ErrorCode> {
    if id <= GROUP_MAX { Ok(id) } else { Err(ErrorCode::ActionBadOutGroup) }
}

/// §4.5, §7.2.1: what no switch can output to.
fn output_port(port: Port, place: Place) -> Result<Port, ErrorCode> {
    let fine = match port {
        Port::TABLE => place == Place::PacketOut,
        Port::IN_PORT | Port::NORMAL | Port::FLOOD | Port::ALL | Port::CONTROLLER | Port::LOCAL => {
            true
        }
        other => other.is_physical(),
    };
    if fine { Ok(port) } else { Err(ErrorCode::ActionBadOutPort) }
}

/// Writes a list.
///
/// # Errors
/// Where an action is 1.0's alone, or an experimenter's is no multiple of 8 bytes.
pub(super) fn write_all(list: &[Action], w: &mut Writer<'_>) -> Result<(), EncodeError> {
    list.iter().try_for_each(|action| write(action, w))
}

fn write(action: &Action, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    let start = w.at();
    let mut head = |number: u16| {
        w.u16(number);
        w.u16(8);
    };
    match action {
        Action::Output { port, max_len } => {
            head(kind::OUTPUT);
            w.u32(port.0);
            w.u16(*max_len);
            w.zeros(6);
        }
        Action::CopyTtlOut => head(kind::COPY_TTL_OUT),
        Action::CopyTtlIn => head(kind::COPY_TTL_IN),
        Action::SetMplsTtl(ttl) => {
            head(kind::SET_MPLS_TTL);
            w.u8(*ttl);
        }
        Action::DecMplsTtl => head(kind::DEC_MPLS_TTL),
        Action::PushVlan(tag) => {
            head(kind::PUSH_VLAN);
            w.u16(*tag);
        }
        Action::PopVlan => head(kind::POP_VLAN),
        Action::PushMpls(tag) => {
            head(kind::PUSH_MPLS);
            w.u16(*tag);
        }
        Action::PopMpls(next) => {
            head(kind::POP_MPLS);
            w.u16(*next);
        }
        Action::SetQueue(queue) => {
            head(kind::SET_QUEUE);
            w.u32(*queue);
        }
        Action::Group(group) => {
            head(kind::GROUP);
            w.u32(*group);
        }
        Action::SetNwTtl(ttl) => {
            head(kind::SET_NW_TTL);
            w.u8(*ttl);
        }
        Action::DecNwTtl => head(kind::DEC_NW_TTL),
        Action::SetField(field, value) => {
            head(kind::SET_FIELD);
            oxm::write_set(*field, *value, w)?;
        }
        Action::PushPbb(tag) => {
            head(kind::PUSH_PBB);
            w.u16(*tag);
        }
        Action::PopPbb => head(kind::POP_PBB),
        Action::Experimenter { experimenter, data } => {
            if data.len() % 8 != 0 {
                return Err(EncodeError::BadValue { what: "an experimenter's action" });
            }
            head(kind::EXPERIMENTER);
            w.u32(*experimenter);
            w.bytes(data);
        }
        Action::Enqueue { .. }
        | Action::SetVlanVid(_)
        | Action::SetVlanPcp(_)
        | Action::SetNwTos(_)
        | Action::SetTpSrc(_)
        | Action::SetTpDst(_) => {
            return Err(EncodeError::NotInVersion { version: Version::V13, what: "such action" });
        }
    }
    w.pad_to_8(start);
    if w.at() - start > 8 {
        w.patch_len(start + 2, start).map_err(too_long)?;
    }
    Ok(())
}
