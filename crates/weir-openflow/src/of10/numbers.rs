//! Ports, bits and small numbers of 1.0 in the model's numbering, as tables.
//!
//! Room: kinds for `layouts`. Sources: 1.0.1 §5.2.1 (ports), §5.3.1 (features), §5.3.3 (flags).

use super::lacks;
use crate::model::{
    Capabilities, ErrorCode, FlowCommand, FlowFlags, Fragments, PacketInReason, Port, PortConfig,
    PortFeatures, PortReason, PortState, RemovedReason,
};
use crate::wire::{Kind, Reader, Writer, named};

/// A port of 16 bits. Up to OFPP_MAX (0xff00) the numbers agree; above, 1.0's stand for 1.3's with
/// the same low 16 bits, so that reserved ports keep their meaning and the numbers below IN_PORT,
/// which have none, get none.
pub(super) struct Port16;

/// OFPP_MAX.
const MAX: u32 = 0xff00;

impl Kind for Port16 {
    type Value = Port;
    fn read(r: &mut Reader<'_>) -> Result<Port, ErrorCode> {
        r.u16().map(widen)
    }
    fn write(port: &Port, w: &mut Writer<'_>) {
        match narrow(*port) {
            Some(n) => w.u16(n),
            None => w.fail(lacks("port numbers above 0xff00")),
        }
    }
}

/// 1.0's number in the model.
pub(super) fn widen(port: u16) -> Port {
    let n = u32::from(port);
    Port(if n <= MAX { n } else { 0xffff_0000 | n })
}

/// The model's number in 1.0, where it has one.
pub(super) fn narrow(port: Port) -> Option<u16> {
    let n = port.0 as u16;
    (widen(n) == port).then_some(n)
}

/// A port of a queue request, where 1.0 says ALL for what is ANY in 1.3 (§5.3.5).
pub(super) struct QueuePort;

impl Kind for QueuePort {
    type Value = Port;
    fn read(r: &mut Reader<'_>) -> Result<Port, ErrorCode> {
        Port16::read(r).map(|p| if p == Port::ALL { Port::ANY } else { p })
    }
    fn write(port: &Port, w: &mut Writer<'_>) {
        Port16::write(if *port == Port::ANY { &Port::ALL } else { port }, w);
    }
}

/// Declares kinds of bits: `Name: Model as number { bit here => bit of the model, }`. Bits without a
/// row are left out, both ways.
macro_rules! translated {
    ($($(#[$m:meta])* $name:ident: $model:ident as $number:ident
        { $($here:expr => $there:expr,)* })*) => {$(
        $(#[$m])*
        pub(super) struct $name;
        impl Kind for $name {
            type Value = $model;
            fn read(r: &mut Reader<'_>) -> Result<$model, ErrorCode> {
                let bits = r.$number()?;
                let mut value = 0;
                $(if bits & (1 << $here) != 0 { value |= $there; })*
                Ok($model(value))
            }
            fn write(value: &$model, w: &mut Writer<'_>) {
                let mut bits = 0;
                $(if value.0 & $there != 0 { bits |= 1 << $here; })*
                w.$number(bits);
            }
        }
    )*};
}

translated! {
    /// OFPPC_*.
    ConfigBits: PortConfig as u32 {
        0 => PortConfig::DOWN.0,
        1 => PortConfig::NO_STP.0,
        2 => PortConfig::NO_RECV.0,
        3 => PortConfig::NO_RECV_STP.0,
        4 => PortConfig::NO_FLOOD.0,
        5 => PortConfig::NO_FWD.0,
        6 => PortConfig::NO_PACKET_IN.0,
    }
    /// OFPPS_*; the STP state is a number in bits 8 and 9.
    StateBits: PortState as u32 {
        0 => PortState::LINK_DOWN.0,
        8 => 1 << 8,
        9 => 1 << 9,
    }
    /// OFPPF_*.
    FeatureBits: PortFeatures as u32 {
        0 => PortFeatures::HD_10M.0,
        1 => PortFeatures::FD_10M.0,
        2 => PortFeatures::HD_100M.0,
        3 => PortFeatures::FD_100M.0,
        4 => PortFeatures::HD_1G.0,
        5 => PortFeatures::FD_1G.0,
        6 => PortFeatures::FD_10G.0,
        7 => PortFeatures::COPPER.0,
        8 => PortFeatures::FIBER.0,
        9 => PortFeatures::AUTONEG.0,
        10 => PortFeatures::PAUSE.0,
        11 => PortFeatures::PAUSE_ASYM.0,
    }
    /// OFPC_* of a features reply.
    CapabilityBits: Capabilities as u32 {
        0 => Capabilities::FLOW_STATS.0,
        1 => Capabilities::TABLE_STATS.0,
        2 => Capabilities::PORT_STATS.0,
        3 => Capabilities::STP.0,
        5 => Capabilities::IP_REASM.0,
        6 => Capabilities::QUEUE_STATS.0,
        7 => Capabilities::ARP_MATCH_IP.0,
    }
}

/// OFPFF_*, where an unknown bit may change the meaning, so it is refused.
pub(super) struct FlowFlagBits;

/// Flags, by their bit.
const FLOW_FLAGS: &[(u16, FlowFlags)] = &[
    (1 << 0, FlowFlags::SEND_FLOW_REM),
    (1 << 1, FlowFlags::CHECK_OVERLAP),
    (1 << 2, FlowFlags::EMERG),
];

impl Kind for FlowFlagBits {
    type Value = FlowFlags;
    fn read(r: &mut Reader<'_>) -> Result<FlowFlags, ErrorCode> {
        let mut bits = r.u16()?;
        let mut flags = FlowFlags::default();
        for (here, there) in FLOW_FLAGS {
            if bits & here != 0 {
                flags = flags | *there;
                bits &= !here;
            }
        }
        if bits == 0 { Ok(flags) } else { Err(ErrorCode::FlowBadFlags) }
    }
    fn write(flags: &FlowFlags, w: &mut Writer<'_>) {
        let known = FLOW_FLAGS.iter().filter(|(_, f)| flags.has(*f));
        let (bits, said) = known.fold((0, 0), |(b, s), (here, there)| (b | here, s | there.0));
        if said != flags.0 {
            w.fail(lacks("such flags of a flow"));
        }
        w.u16(bits);
    }
}

named! {
    /// OFPFC_*.
    Command: FlowCommand as u16 else FlowBadCommand {
        0 = Add,
        1 = Modify,
        2 = ModifyStrict,
        3 = Delete,
        4 = DeleteStrict,
    }
    /// OFPPR_*.
    PortReasonNumber: PortReason as u8 else BadType {
        0 = Add,
        1 = Delete,
        2 = Modify,
    }
}

/// OFPRR_*.
pub(super) struct RemovedReasonNumber;

impl Kind for RemovedReasonNumber {
    type Value = RemovedReason;
    fn read(r: &mut Reader<'_>) -> Result<RemovedReason, ErrorCode> {
        match r.u8()? {
            0 => Ok(RemovedReason::IdleTimeout),
            1 => Ok(RemovedReason::HardTimeout),
            2 => Ok(RemovedReason::Delete),
            _ => Err(ErrorCode::BadType),
        }
    }
    fn write(reason: &RemovedReason, w: &mut Writer<'_>) {
        w.u8(match reason {
            RemovedReason::IdleTimeout => 0,
            RemovedReason::HardTimeout => 1,
            // A flow that went with its group was deleted; 1.0 has no closer word.
            RemovedReason::Delete | RemovedReason::GroupDelete => 2,
        });
    }
}

/// OFPR_*.
pub(super) struct PacketInReasonNumber;

impl Kind for PacketInReasonNumber {
    type Value = PacketInReason;
    fn read(r: &mut Reader<'_>) -> Result<PacketInReason, ErrorCode> {
        match r.u8()? {
            0 => Ok(PacketInReason::NoMatch),
            1 => Ok(PacketInReason::Action),
            _ => Err(ErrorCode::BadType),
        }
    }
    fn write(reason: &PacketInReason, w: &mut Writer<'_>) {
        match reason {
            PacketInReason::NoMatch => w.u8(0),
            PacketInReason::Action => w.u8(1),
            PacketInReason::InvalidTtl => w.fail(lacks("packet-ins for an invalid TTL")),
        }
    }
}

/// OFPC_FRAG_*, the whole of the configuration's flags.
pub(super) struct FragmentsNumber;

impl Kind for FragmentsNumber {
    type Value = Fragments;
    fn read(r: &mut Reader<'_>) -> Result<Fragments, ErrorCode> {
        r.u16().map(|n| match n {
            0 => Fragments::Normal,
            1 => Fragments::Drop,
            2 => Fragments::Reassemble,
            n => Fragments::Unknown(n),
        })
    }
    fn write(fragments: &Fragments, w: &mut Writer<'_>) {
        w.u16(match fragments {
            Fragments::Normal => 0,
            Fragments::Drop => 1,
            Fragments::Reassemble => 2,
            Fragments::Unknown(n) => *n,
        });
    }
}
