//! Ports (1.3 §7.2.1, §7.3.4.3, §7.4.3).
//!
//! Room: the 1.3 encoding.

use crate::model::{
    ErrorCode, Port, PortConfig, PortDesc, PortFeatures, PortMod, PortReason, PortState, PortStatus,
};
use crate::wire::{Kind, Reader, Text, Writer, layout, named, wrapped};

wrapped! {
    /// A port's number.
    Port32: Port as u32;
    /// OFPPC bits.
    Config: PortConfig as u32;
    /// OFPPS bits.
    State: PortState as u32;
    /// OFPPF bits.
    Features: PortFeatures as u32;
}

named! {
    /// OFPPR numbers.
    Reason: PortReason as u8 else BadLen { 0 = Add, 1 = Delete, 2 = Modify, }
}

layout! {
    /// ofp_port.
    Desc: PortDesc {
        no: Port32, pad 4;
        mac: [u8; 6], pad 2;
        name: Text<16>;
        config: Told;
        state: State;
        current: Features;
        advertised: Features;
        supported: Features;
        peer: Features;
        current_kbps: u32;
        max_kbps: u32;
    }
    /// ofp_port_status.
    Status: PortStatus {
        reason: Reason, pad 7;
        desc: Desc;
    }
    /// ofp_port_mod.
    Modification: PortMod {
        port: Port32, pad 4;
        mac: [u8; 6], pad 2;
        config: Config;
        mask: Config;
        advertise: Features, pad 4;
    }
}

/// What is told of a port's configuration: 1.0's own bits mean nothing here.
struct Told;

impl Kind for Told {
    type Value = PortConfig;
    fn read(r: &mut Reader<'_>) -> Result<PortConfig, ErrorCode> {
        Config::read(r).map(|c| PortConfig(c.0 & CONFIG))
    }
    fn write(config: &PortConfig, w: &mut Writer<'_>) {
        w.u32(config.0 & CONFIG);
    }
}

/// OFPPC bits of 1.3.
const CONFIG: u32 =
    PortConfig::DOWN.0 | PortConfig::NO_RECV.0 | PortConfig::NO_FWD.0 | PortConfig::NO_PACKET_IN.0;

/// §7.3.4.3, and §7.4.4.8 for its errors.
pub(super) fn read_mod(r: &mut Reader<'_>) -> Result<PortMod, ErrorCode> {
    let port_mod = Modification::read(r)?;
    if (port_mod.config.0 | port_mod.mask.0) & !CONFIG != 0 {
        return Err(ErrorCode::PortBadConfig);
    }
    if port_mod.advertise.0 & !PortFeatures::KNOWN.0 != 0 {
        return Err(ErrorCode::PortBadAdvertise);
    }
    Ok(port_mod)
}

pub(super) fn write_mod(port_mod: &PortMod, w: &mut Writer<'_>) {
    Modification::write(port_mod, w);
}
