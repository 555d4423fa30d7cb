//! Nicira's role messages (vendor 0x2320, subtypes 10 and 11), the way of 1.0 to what 1.2 made standard.
//!
//! Room: all that is known of vendor messages (1.0.1 §5.5.4). No generation: it came with 1.2.

use super::lacks;
use crate::model::{ErrorCode, Message, Role, RoleMsg};
use crate::wire::{Reader, Writer};

/// Nicira's vendor id.
const VENDOR: u32 = 0x0000_2320;
/// NXT_ROLE_REQUEST.
const ROLE_REQUEST: u32 = 10;
/// NXT_ROLE_REPLY.
const ROLE_REPLY: u32 = 11;

/// NX_ROLE_*.
const ROLES: &[(u32, Role)] = &[(0, Role::Equal), (1, Role::Master), (2, Role::Slave)];

/// Reads a vendor message.
pub(super) fn read(r: &mut Reader<'_>) -> Result<Message, ErrorCode> {
    if r.u32()? != VENDOR {
        return Err(ErrorCode::BadExperimenter);
    }
    match r.u32()? {
        ROLE_REQUEST => read_role(r).map(Message::RoleRequest),
        ROLE_REPLY => read_role(r).map(Message::RoleReply),
        _ => Err(ErrorCode::BadExperimenterType),
    }
}

fn read_role(r: &mut Reader<'_>) -> Result<RoleMsg, ErrorCode> {
    let number = r.u32()?;
    r.end()?;
    let role = ROLES.iter().find(|(n, _)| *n == number).ok_or(ErrorCode::RoleBadRole)?.1;
    Ok(RoleMsg { role, generation: 0 })
}

/// Writes a request's body.
pub(super) fn write_request(role: &RoleMsg, w: &mut Writer<'_>) {
    write_role(ROLE_REQUEST, role, w);
}

/// Writes a reply's body.
pub(super) fn write_reply(role: &RoleMsg, w: &mut Writer<'_>) {
    write_role(ROLE_REPLY, role, w);
}

fn write_role(subtype: u32, role: &RoleMsg, w: &mut Writer<'_>) {
    w.u32(VENDOR);
    w.u32(subtype);
    match ROLES.iter().find(|(_, r)| *r == role.role) {
        Some((number, _)) => w.u32(*number),
        None => w.fail(lacks("a role that changes nothing")),
    }
}
