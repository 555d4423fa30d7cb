//! Flow_mods that most modules need.
//!
//! Pure: the model's messages from probes' headers.

use crate::probe::Headers;
use weir_openflow::model::{Action, Field, FlowCommand, FlowMod, Instruction, Match, Port};

/// Priority of the rule that drops what nothing else matches.
pub const DROP_PRIORITY: u16 = 0;

/// Adds a rule with these actions.
pub fn add(matcher: Match, priority: u16, actions: Vec<Action>) -> FlowMod {
    let instructions =
        if actions.is_empty() { Vec::new() } else { vec![Instruction::Apply(actions)] };
    FlowMod { priority, matcher, instructions, ..FlowMod::new(FlowCommand::Add) }
}

/// Drops what nothing else matches.
pub fn drop_rest() -> FlowMod {
    add(Match::default(), DROP_PRIORITY, Vec::new())
}

/// Sends by a port.
pub fn output(port: Port) -> Action {
    Action::Output { port, max_len: 0 }
}

/// Sends to the controller, the whole packet.
pub fn to_controller() -> Action {
    Action::Output { port: Port::CONTROLLER, max_len: weir_openflow::model::NO_MAX_LEN }
}

fn mac(a: [u8; 6]) -> u128 {
    a.iter().fold(0, |n, b| n << 8 | u128::from(*b))
}

/// Matches one flow's probes by its destination address alone: a wildcard rule.
pub fn by_destination(h: &Headers) -> Match {
    Match::default()
        .with(Field::EthType, 0x0800)
        .with(Field::Ipv4Dst, u128::from(h.dst.ip().to_bits()))
}

/// Matches one flow's probes in every field of 1.0's twelve: an exact-match rule. `port`: by which they
/// enter the switch.
pub fn exact(h: &Headers, port: Port) -> Match {
    let (vid, pcp) = match h.vlan {
        Some(tag) => (0x1000 | u128::from(tag.vid), Some(u128::from(tag.pcp))),
        None => (0, None),
    };
    let m = Match::default()
        .with(Field::InPort, u128::from(port.0))
        .with(Field::EthDst, mac(h.dst_mac.0))
        .with(Field::EthSrc, mac(h.src_mac.0))
        .with(Field::EthType, 0x0800)
        .with(Field::VlanVid, vid);
    let m = if let Some(pcp) = pcp { m.with(Field::VlanPcp, pcp) } else { m };
    m.with(Field::IpDscp, 0)
        .with(Field::IpProto, 17)
        .with(Field::Ipv4Src, u128::from(h.src.ip().to_bits()))
        .with(Field::Ipv4Dst, u128::from(h.dst.ip().to_bits()))
        .with(Field::UdpSrc, u128::from(h.src.port()))
        .with(Field::UdpDst, u128::from(h.dst.port()))
}
