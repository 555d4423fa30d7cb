//! What paper 004's evaluation runs on (§5): four ports, four VDPs by port, frames of seven sizes
//! that leave by the adjacent port.
//!
//! The same streams and the same VDPs are used from memory and over veth.

use anyhow::Result;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use weir_classify::{Field, Match};
use weir_dataplane::programs::forward::Forward;
use weir_dataplane::{
    Action, DataPlane, MappingRule, Out, Path, Placement, PortNo, RuleSpec, VdpSpec, Vid,
};
use weir_io::replay::{Arena, Passes, Replay};
use weir_measure::probe::{Headers, Run, Stamper, Stream};
use weir_packet::{Nanos, PortId};
use weir_wire::{MacAddr, ethernet};

/// Ports, and VDPs.
pub const PORTS: u16 = 4;
/// Frame sizes in bytes, FCS included (RFC 2544 §9.1).
pub const SIZES: [usize; 7] = weir_measure::probe::RFC2544_FRAME_BYTES_ON_WIRE;
/// Flows that enter by each port.
const FLOWS: u16 = 16;

/// The port next to `port`, both counted from 0: 0 and 1 are neighbours, 2 and 3.
pub const fn adjacent(port: u16) -> u16 {
    port ^ 1
}

/// The MAC address of the device under test at `port`.
pub fn dut_mac(port: u16) -> MacAddr {
    MacAddr([2, 0, 0, 2, 0, port as u8 + 1])
}

/// The MAC address of the tester at `port`.
pub fn tester_mac(port: u16) -> MacAddr {
    MacAddr([2, 0, 0, 1, 0, port as u8 + 1])
}

/// The MAC address of the host behind the tester's `port`, to which frames go. The tester itself
/// has another, so that its kernel drops them at the first look.
pub fn host_mac(port: u16) -> MacAddr {
    MacAddr([2, 0, 0, 3, 0, port as u8 + 1])
}

/// Whom frames are addressed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// The host behind the adjacent port: for a bridge and a wire.
    Host,
    /// The device under test: for a router and for weir, which rewrite the addresses.
    Device,
}

/// The streams of these ports: [`FLOWS`] each, which must leave by the adjacent port.
pub fn streams(ports: &[u16], frame_bytes: usize, to: To) -> Vec<Stream> {
    let mut all = Vec::new();
    for &port in ports {
        for flow in 0..FLOWS {
            let exit = adjacent(port);
            let address = |net: u8, port: u16, host: u8| Ipv4Addr::new(198, net, port as u8, host);
            let headers = Headers {
                src_mac: tester_mac(port),
                dst_mac: match to {
                    To::Host => host_mac(exit),
                    To::Device => dut_mac(port),
                },
                vlan: None,
                src: SocketAddrV4::new(address(18, port, 2), 49_152 + flow),
                dst: SocketAddrV4::new(address(19, exit, 2), 7),
                ttl: 64,
            };
            let id = port * FLOWS + flow;
            let exit = Some(exit);
            all.push(Stream { id, headers, frame_bytes_on_wire: frame_bytes, entry: port, exit });
        }
    }
    all
}

/// Frames of all streams, filed under the port by which they enter.
pub fn arena(frame_bytes: usize) -> Result<Arc<Arena>> {
    let mut arena = Arena::new();
    let mut bytes = vec![0; frame_bytes];
    for s in streams(&[0, 1, 2, 3], frame_bytes, To::Device) {
        let len = Stamper::new(&s, Run(0))?.write(0, Nanos(0), &mut bytes).unwrap_or(0);
        arena.push(bytes.get(..len).unwrap_or_default(), None, s.entry);
    }
    Ok(Arc::new(arena))
}

/// A port that plays the frames of `port` for ever and swallows what it is given.
pub fn player(arena: &Arc<Arena>, port: u16) -> Replay {
    let name = format!("p{}", port + 1);
    Replay::of_port(&name, Arc::clone(arena), Passes::Forever, port)
}

/// Which frames a VDP's rule takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// IPv4.
    Ipv4,
    /// All that come in by its port.
    All,
}

/// The four VDPs: each is one port's, and has one rule, which sends these frames by the adjacent port with
/// new MAC addresses. On the slow path the rule is carried out by the software stage; three VDPs
/// have a channel of their own there, the fourth has the shared one (004 §4.2).
pub fn vdps(plane: &mut DataPlane, ports: &[PortId], path: Path, kinds: Kinds) -> Result<()> {
    let all: Vec<(PortNo, PortId)> =
        ports.iter().enumerate().map(|(i, id)| (PortNo(i as u32 + 1), *id)).collect();
    for port in 0..PORTS {
        let vid = Vid(port + 1);
        let Some((in_port, id)) = all.get(usize::from(port)).copied() else { break };
        let mut spec = VdpSpec::new(vid, &format!("vdp{vid}"));
        let matcher = Match::any().with(Field::InPort, id.0.into());
        spec.mapping = vec![MappingRule { matcher, priority: 1 }];
        spec.ports = all.clone();
        spec.path = path;
        spec.channel = u8::try_from(port).ok().filter(|_| port + 1 < PORTS);
        spec.program = Some(Box::new(Forward::neighbours()));
        plane.create_vdp(spec)?;
        let exit = adjacent(port);
        let mut matcher = Match::any().with(Field::InPort, in_port.0.into());
        if kinds == Kinds::Ipv4 {
            let ipv4 = u16::from(ethernet::EtherType::Ipv4);
            matcher = matcher.with(Field::EthType, ipv4.into());
        }
        let mac = |field, MacAddr(m): MacAddr| {
            let value = m.iter().fold(0, |v, b| v << 8 | u128::from(*b));
            Action::SetField { field, value, mask: (1 << 48) - 1 }
        };
        let actions = [
            mac(Field::EthSrc, dut_mac(exit)),
            mac(Field::EthDst, host_mac(exit)),
            Action::Output(Out::Port(PortNo(u32::from(exit) + 1))),
        ];
        let rule = RuleSpec { matcher, priority: 1, cookie: 0, actions: actions.into() };
        plane.add_rule(vid, 0, &rule, Placement::Fast)?;
    }
    Ok(())
}
