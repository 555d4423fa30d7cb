//! 1.0's actions (1.0.1 §5.2.4).
//!
//! Room: kinds for `layouts`. Arguments that no switch could carry out are refused here; whether a
//! port or a queue exists is the switch's to say.

use super::lacks;
use super::numbers::Port16;
use crate::codec::EncodeError;
use crate::model::{Action, ErrorCode, Field, Instruction};
use crate::wire::{Kind, Reader, Writer, number};

/// OFPAT_*.
mod kind {
    pub(super) const OUTPUT: u16 = 0;
    pub(super) const SET_VLAN_VID: u16 = 1;
    pub(super) const SET_VLAN_PCP: u16 = 2;
    pub(super) const STRIP_VLAN: u16 = 3;
    pub(super) const SET_DL_SRC: u16 = 4;
    pub(super) const SET_DL_DST: u16 = 5;
    pub(super) const SET_NW_SRC: u16 = 6;
    pub(super) const SET_NW_DST: u16 = 7;
    pub(super) const SET_NW_TOS: u16 = 8;
    pub(super) const SET_TP_SRC: u16 = 9;
    pub(super) const SET_TP_DST: u16 = 10;
    pub(super) const ENQUEUE: u16 = 11;
    pub(super) const VENDOR: u16 = 0xffff;
}

/// Type and length.
const HEADER: usize = 4;

/// A list of actions until the end.
pub(super) struct Actions;

impl Kind for Actions {
    type Value = Vec<Action>;
    fn read(r: &mut Reader<'_>) -> Result<Vec<Action>, ErrorCode> {
        // The structure around may be too short by another error than its actions.
        read_actions(&mut Reader::new(r.take_rest(), ErrorCode::ActionBadLen))
    }
    fn write(actions: &Vec<Action>, w: &mut Writer<'_>) {
        for action in actions {
            write_action(action, w);
        }
    }
}

/// A flow's actions until the end, as the model's instructions.
pub(super) struct Instructions;

impl Kind for Instructions {
    type Value = Vec<Instruction>;
    fn read(r: &mut Reader<'_>) -> Result<Vec<Instruction>, ErrorCode> {
        let actions = Actions::read(r)?;
        Ok(if actions.is_empty() { Vec::new() } else { vec![Instruction::Apply(actions)] })
    }
    fn write(instructions: &Vec<Instruction>, w: &mut Writer<'_>) {
        match &instructions[..] {
            [] => {}
            [Instruction::Apply(actions)] => Actions::write(actions, w),
            _ => w.fail(lacks("instructions but one apply-actions")),
        }
    }
}

/// Reads actions to the reader's end; it is to be one that is too short by BAD_LEN of actions.
pub(super) fn read_actions(r: &mut Reader<'_>) -> Result<Vec<Action>, ErrorCode> {
    let mut actions = Vec::new();
    while !r.is_empty() {
        actions.push(read_action(r)?);
    }
    Ok(actions)
}

fn read_action(r: &mut Reader<'_>) -> Result<Action, ErrorCode> {
    let (kind, length) = (r.u16()?, usize::from(r.u16()?));
    if length < 8 || length % 8 != 0 {
        return Err(ErrorCode::ActionBadLen);
    }
    let b = &mut r.within(length - HEADER, ErrorCode::ActionBadLen)?;
    let (action, pad) = match kind {
        kind::OUTPUT => (Action::Output { port: Port16::read(b)?, max_len: b.u16()? }, 0),
        kind::SET_VLAN_VID => (Action::SetVlanVid(at_most(b.u16()?, 0xfff)?), 2),
        kind::SET_VLAN_PCP => (Action::SetVlanPcp(at_most(b.u8()?, 7)?), 3),
        kind::STRIP_VLAN => (Action::PopVlan, 4),
        kind::SET_DL_SRC => (Action::SetField(Field::EthSrc, number(b.take(6)?)), 6),
        kind::SET_DL_DST => (Action::SetField(Field::EthDst, number(b.take(6)?)), 6),
        kind::SET_NW_SRC => (Action::SetField(Field::Ipv4Src, b.u32()?.into()), 0),
        kind::SET_NW_DST => (Action::SetField(Field::Ipv4Dst, b.u32()?.into()), 0),
        kind::SET_NW_TOS => {
            let tos = b.u8()?;
            // The two bits of ECN are not the action's.
            if tos & 3 != 0 {
                return Err(ErrorCode::ActionBadArgument);
            }
            (Action::SetNwTos(tos), 3)
        }
        kind::SET_TP_SRC => (Action::SetTpSrc(b.u16()?), 2),
        kind::SET_TP_DST => (Action::SetTpDst(b.u16()?), 2),
        kind::ENQUEUE => {
            let port = Port16::read(b)?;
            b.skip(6)?;
            (Action::Enqueue { port, queue: b.u32()? }, 0)
        }
        kind::VENDOR => {
            let experimenter = b.u32()?;
            (Action::Experimenter { experimenter, data: b.take_rest().to_vec() }, 0)
        }
        _ => return Err(ErrorCode::ActionBadType),
    };
    b.skip(pad)?;
    b.end()?;
    Ok(action)
}

fn at_most<T: PartialOrd>(value: T, highest: T) -> Result<T, ErrorCode> {
    if value <= highest { Ok(value) } else { Err(ErrorCode::ActionBadArgument) }
}

fn write_action(action: &Action, w: &mut Writer<'_>) {
    let start = w.at();
    let mut put = |kind: u16, body: &mut dyn FnMut(&mut Writer<'_>)| {
        w.u16(kind);
        w.u16(0);
        body(w);
        w.pad_to_8(start);
        if let Err(len) = w.patch_len(start + 2, start) {
            w.fail(EncodeError::TooLong { len });
        }
    };
    match action {
        Action::Output { port, max_len } => put(kind::OUTPUT, &mut |w| {
            Port16::write(port, w);
            w.u16(*max_len);
        }),
        Action::SetVlanVid(vid) => put(kind::SET_VLAN_VID, &mut |w| w.u16(*vid)),
        Action::SetVlanPcp(pcp) => put(kind::SET_VLAN_PCP, &mut |w| w.u8(*pcp)),
        Action::PopVlan => put(kind::STRIP_VLAN, &mut |w| w.zeros(4)),
        Action::SetField(Field::EthSrc, mac) => put(kind::SET_DL_SRC, &mut |w| w.number(*mac, 6)),
        Action::SetField(Field::EthDst, mac) => put(kind::SET_DL_DST, &mut |w| w.number(*mac, 6)),
        Action::SetField(Field::Ipv4Src, ip) => put(kind::SET_NW_SRC, &mut |w| w.number(*ip, 4)),
        Action::SetField(Field::Ipv4Dst, ip) => put(kind::SET_NW_DST, &mut |w| w.number(*ip, 4)),
        Action::SetNwTos(tos) => put(kind::SET_NW_TOS, &mut |w| w.u8(*tos)),
        Action::SetTpSrc(port) => put(kind::SET_TP_SRC, &mut |w| w.u16(*port)),
        Action::SetTpDst(port) => put(kind::SET_TP_DST, &mut |w| w.u16(*port)),
        Action::Enqueue { port, queue } => put(kind::ENQUEUE, &mut |w| {
            Port16::write(port, w);
            w.zeros(6);
            w.u32(*queue);
        }),
        Action::Experimenter { experimenter, data } => put(kind::VENDOR, &mut |w| {
            w.u32(*experimenter);
            w.bytes(data);
        }),
        _ => w.fail(lacks("such action")),
    }
}
