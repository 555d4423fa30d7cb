//! The switch as a whole: features, configuration, roles, queues' settings, asynchronous
//! configuration (1.3 §7.3.1, §7.3.2, §7.3.6, §7.3.9, §7.3.10).
//!
//! Room: the 1.3 encoding.

use super::{Port32, too_long};
use crate::codec::EncodeError;
use crate::model::{
    AsyncConfig, Capabilities, ErrorCode, Features, Fragments, QueueDesc, QueueProperty, Role,
    RoleMsg, SwitchConfig,
};
use crate::wire::{Kind, Reader, Row, Writer, layout, named, wrapped};

wrapped! {
    /// OFPC bits.
    Bits: Capabilities as u32;
}

named! {
    /// OFPCR_ROLE numbers.
    RoleNumber: Role as u32 else RoleBadRole {
        0 = NoChange, 1 = Equal, 2 = Master, 3 = Slave,
    }
}

layout! {
    /// ofp_switch_features.
    Identity: Features {
        datapath_id: u64;
        buffers: u32;
        tables: u8;
        auxiliary_id: u8, pad 2;
        // Behind them `reserved`, where 1.0 has its bitmap of actions.
        capabilities: Bits, pad 4;
        + actions = 0;
        + ports = Vec::new();
    }
    /// ofp_role_request.
    RoleBody: RoleMsg {
        role: RoleNumber, pad 4;
        generation: u64;
    }
    /// ofp_async_config.
    Async: AsyncConfig {
        packet_in: Row<u32, 2>;
        port_status: Row<u32, 2>;
        flow_removed: Row<u32, 2>;
    }
}

/// What a controller wants to be; how long it is comes before what it says (§7.3.9).
pub(super) fn read_role_request(r: &mut Reader<'_>) -> Result<RoleMsg, ErrorCode> {
    let mut whole = r.within(16, ErrorCode::BadLen)?;
    RoleBody::read(&mut whole)
}

/// What a switch says, whatever it is.
pub(super) fn read_config(r: &mut Reader<'_>) -> Result<SwitchConfig, ErrorCode> {
    let fragments = match r.u16()? {
        0 => Fragments::Normal,
        1 => Fragments::Drop,
        2 => Fragments::Reassemble,
        other => Fragments::Unknown(other),
    };
    Ok(SwitchConfig { fragments, miss_send_len: r.u16()? })
}

/// What a switch is asked to be: flags that mean nothing are refused (§7.4.4.11).
pub(super) fn read_set_config(r: &mut Reader<'_>) -> Result<SwitchConfig, ErrorCode> {
    let config = read_config(r)?;
    match config.fragments {
        Fragments::Unknown(_) => Err(ErrorCode::ConfigBadFlags),
        _ => Ok(config),
    }
}

pub(super) fn write_config(config: &SwitchConfig, w: &mut Writer<'_>) {
    w.u16(match config.fragments {
        Fragments::Normal => 0,
        Fragments::Drop => 1,
        Fragments::Reassemble => 2,
        Fragments::Unknown(other) => other,
    });
    w.u16(config.miss_send_len);
}

/// OFPQT numbers.
mod property {
    pub(super) const MIN_RATE: u16 = 1;
    pub(super) const MAX_RATE: u16 = 2;
}
/// Bytes of a property with a rate.
const RATE: u16 = 16;
/// Bytes of a queue without properties.
const QUEUE: usize = 16;

/// One ofp_packet_queue (§7.2.2). Properties that are unknown are passed over.
pub(super) fn read_queue(r: &mut Reader<'_>) -> Result<QueueDesc, ErrorCode> {
    let (id, port) = (r.u32()?, Port32::read(r)?);
    let length = usize::from(r.u16()?);
    r.skip(6)?;
    let mut r = r.within(length.checked_sub(QUEUE).ok_or(ErrorCode::BadLen)?, ErrorCode::BadLen)?;
    let mut properties = Vec::new();
    while !r.is_empty() {
        let (kind, length) = (r.u16()?, usize::from(r.u16()?));
        let mut p = r.within(length.checked_sub(4).ok_or(ErrorCode::BadLen)?, ErrorCode::BadLen)?;
        p.skip(4)?;
        match kind {
            property::MIN_RATE => properties.push(QueueProperty::MinRate(p.u16()?)),
            property::MAX_RATE => properties.push(QueueProperty::MaxRate(p.u16()?)),
            _ => {}
        }
    }
    Ok(QueueDesc { id, port, properties })
}

pub(super) fn write_queue(queue: &QueueDesc, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    let start = w.at();
    w.u32(queue.id);
    w.u32(queue.port.0);
    w.u16(0);
    w.zeros(6);
    for p in &queue.properties {
        let (kind, rate) = match p {
            QueueProperty::MinRate(rate) => (property::MIN_RATE, rate),
            QueueProperty::MaxRate(rate) => (property::MAX_RATE, rate),
        };
        w.u16(kind);
        w.u16(RATE);
        w.zeros(4);
        w.u16(*rate);
        w.zeros(6);
    }
    w.patch_len(start + 8, start).map_err(too_long)
}
