//! What an action does to a frame's bytes, right or wrong as the profile has it.
//!
//! Room: bytes. Called by `forward`, one action after the other. Checksums are made anew over the
//! whole, by RFC 1071 as it reads: slow, and the same for every action.

use super::header::{ICMP, ICMPV6, Layers, Network, SCTP, TCP, UDP, word};
use super::profile::{ActionKind, Actions};
use std::net::{Ipv4Addr, Ipv6Addr};
use weir_openflow::model::{Action, Field};
use weir_wire::checksum::{PseudoHeader, Sum, crc32c::crc32c};
use weir_wire::ip::Protocol;

/// The longest frame that pushing tags and labels makes: what a port takes.
const LONGEST: usize = 2000;

/// What kind of action it is, for profiles.
pub(super) fn kind(action: &Action) -> ActionKind {
    use Action::*;
    match action {
        Output { .. } | Enqueue { .. } => ActionKind::Forward,
        SetField(field, _) => kind_of_field(*field),
        SetVlanVid(_) => ActionKind::VlanId,
        SetVlanPcp(_) => ActionKind::VlanPcp,
        SetNwTos(_) => ActionKind::Tos,
        SetTpSrc(_) | SetTpDst(_) => ActionKind::L4Port,
        PushVlan(_) => ActionKind::VlanPush,
        PopVlan => ActionKind::VlanStrip,
        PushMpls(_) | PopMpls(_) => ActionKind::Mpls,
        SetNwTtl(_) | DecNwTtl | SetMplsTtl(_) | DecMplsTtl | CopyTtlOut | CopyTtlIn => {
            ActionKind::Ttl
        }
        _ => ActionKind::Other,
    }
}

fn kind_of_field(field: Field) -> ActionKind {
    use Field::*;
    match field {
        EthDst | EthSrc => ActionKind::Mac,
        Ipv4Src | Ipv4Dst | Ipv6Src | Ipv6Dst => ActionKind::Ip,
        IpDscp | IpEcn => ActionKind::Tos,
        TcpSrc | TcpDst | UdpSrc | UdpDst | SctpSrc | SctpDst => ActionKind::L4Port,
        VlanPcp => ActionKind::VlanPcp,
        VlanVid => ActionKind::VlanId,
        MplsLabel | MplsTc | MplsBos => ActionKind::Mpls,
        _ => ActionKind::Other,
    }
}

/// A TTL that is used up: the frame goes no further (1.3 §5.12).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expired;

/// Carries out an action that changes the frame; others change nothing.
///
/// # Errors
/// The TTL is used up.
pub(super) fn apply(faults: &Actions, action: &Action, frame: &mut Vec<u8>) -> Result<(), Expired> {
    let kind = kind(action);
    if faults.ignores.contains(&kind) {
        return Ok(());
    }
    let checksums = Checksums::of(frame);
    change(action, frame)?;
    if faults.writes_wrong.contains(&kind) {
        spoil(action, frame);
    }
    if !faults.wrong_checksum.contains(&kind) {
        checksums.mend(frame);
    }
    Ok(())
}

fn change(action: &Action, frame: &mut Vec<u8>) -> Result<(), Expired> {
    let Some(layers) = Layers::of(frame) else { return Ok(()) };
    match action {
        Action::SetField(field, value) => layers.write(frame, *field, *value),
        Action::SetVlanVid(vid) => {
            tag_where_none_is(frame, layers);
            set(frame, Field::VlanVid, u128::from(*vid));
        }
        Action::SetVlanPcp(pcp) => {
            tag_where_none_is(frame, layers);
            set(frame, Field::VlanPcp, u128::from(*pcp));
        }
        Action::SetNwTos(tos) => layers.write(frame, Field::IpDscp, u128::from(*tos >> 2)),
        Action::SetTpSrc(port) => {
            for field in [Field::TcpSrc, Field::UdpSrc, Field::SctpSrc] {
                layers.write(frame, field, (*port).into());
            }
        }
        Action::SetTpDst(port) => {
            for field in [Field::TcpDst, Field::UdpDst, Field::SctpDst] {
                layers.write(frame, field, (*port).into());
            }
        }
        // A new tag begins with the values of the one below (1.3 §5.12.1).
        Action::PushVlan(tpid) => {
            let tci = if layers.tags > 0 { word(frame, 14).unwrap_or(0) } else { 0 };
            push_tag(frame, *tpid, tci);
        }
        Action::PopVlan => pop_tag(frame),
        Action::PushMpls(ether_type) => push_label(frame, layers, *ether_type),
        Action::PopMpls(ether_type) => pop_label(frame, layers, *ether_type),
        Action::SetNwTtl(ttl) => {
            if let Some(at) = ip_ttl(layers) {
                frame[at] = *ttl;
            }
        }
        Action::DecNwTtl => decrement(frame, ip_ttl(layers))?,
        Action::SetMplsTtl(ttl) => {
            if let Some(at) = label_ttl(layers) {
                frame[at] = *ttl;
            }
        }
        Action::DecMplsTtl => decrement(frame, label_ttl(layers))?,
        Action::CopyTtlOut => copy_ttl(frame, layers, Way::Out),
        Action::CopyTtlIn => copy_ttl(frame, layers, Way::In),
        _ => {}
    }
    Ok(())
}

/// Makes what was done wrong: the last bit of a value, or one tag, label or hop too many.
fn spoil(action: &Action, frame: &mut Vec<u8>) {
    let wrong = match action {
        // The other kind of tag: whoever pushes one writes its id next.
        Action::PushVlan(tpid) => {
            let other: u16 = if *tpid == 0x8100 { 0x88a8 } else { 0x8100 };
            if let Some(to) = frame.get_mut(12..14) {
                to.copy_from_slice(&other.to_be_bytes());
            }
            return;
        }
        Action::SetField(field, value) => Action::SetField(*field, value ^ 1),
        Action::SetVlanVid(v) => Action::SetVlanVid(v ^ 1),
        Action::SetVlanPcp(v) => Action::SetVlanPcp(v ^ 1),
        Action::SetNwTos(v) => Action::SetNwTos(v ^ 4),
        Action::SetTpSrc(v) => Action::SetTpSrc(v ^ 1),
        Action::SetTpDst(v) => Action::SetTpDst(v ^ 1),
        Action::SetNwTtl(v) => Action::SetNwTtl(v ^ 1),
        Action::SetMplsTtl(v) => Action::SetMplsTtl(v ^ 1),
        // A label that is pushed comes with the wrong value; a tag that is popped is replaced by another.
        Action::PushMpls(_) => Action::SetField(Field::MplsLabel, 0xf_fffe),
        Action::PopVlan => Action::PushVlan(0x8100),
        Action::PopMpls(_) => Action::SetField(Field::EthDst, 0),
        other => other.clone(),
    };
    // A TTL that runs out here was not the first to do so.
    let _ = change(&wrong, frame);
}

fn set(frame: &mut [u8], field: Field, value: u128) {
    if let Some(layers) = Layers::of(frame) {
        layers.write(frame, field, value);
    }
}

fn push_tag(frame: &mut Vec<u8>, tpid: u16, tci: u16) {
    if frame.len() + 4 <= LONGEST {
        let (t, c) = (tpid.to_be_bytes(), tci.to_be_bytes());
        frame.splice(12..12, [t[0], t[1], c[0], c[1]]);
    }
}

fn tag_where_none_is(frame: &mut Vec<u8>, layers: Layers) {
    if layers.tags == 0 {
        push_tag(frame, 0x8100, 0);
    }
}

fn pop_tag(frame: &mut Vec<u8>) {
    if Layers::of(frame).is_some_and(|l| l.tags > 0) {
        frame.drain(12..16);
    }
}

/// A new label begins with the values of the one below, else with IP's TTL (1.3 §5.12.1).
fn push_label(frame: &mut Vec<u8>, layers: Layers, ether_type: u16) {
    if frame.len() + 4 > LONGEST {
        return;
    }
    let at = layers.net_at;
    let label = match layers.net {
        Network::Mpls => [frame[at], frame[at + 1], frame[at + 2] & !1, frame[at + 3]],
        _ => [0, 0, 1, ip_ttl(layers).map_or(0, |at| frame[at])],
    };
    frame.splice(at..at, label);
    frame[layers.type_at..layers.type_at + 2].copy_from_slice(&ether_type.to_be_bytes());
}

fn pop_label(frame: &mut Vec<u8>, layers: Layers, ether_type: u16) {
    if layers.net == Network::Mpls {
        frame.drain(layers.net_at..layers.net_at + 4);
        frame[layers.type_at..layers.type_at + 2].copy_from_slice(&ether_type.to_be_bytes());
    }
}

fn ip_ttl(layers: Layers) -> Option<usize> {
    match layers.net {
        Network::Ipv4(..) => Some(layers.net_at + 8),
        Network::Ipv6(..) => Some(layers.net_at + 7),
        _ => None,
    }
}

fn label_ttl(layers: Layers) -> Option<usize> {
    (layers.net == Network::Mpls).then_some(layers.net_at + 3)
}

fn decrement(frame: &mut [u8], at: Option<usize>) -> Result<(), Expired> {
    let Some(at) = at else { return Ok(()) };
    frame[at] = frame[at].saturating_sub(1);
    if frame[at] == 0 { Err(Expired) } else { Ok(()) }
}

#[derive(Clone, Copy)]
enum Way {
    Out,
    In,
}

/// Between the outermost label and what is below it: another label, or IP.
fn copy_ttl(frame: &mut [u8], layers: Layers, way: Way) {
    let Some(outer) = label_ttl(layers) else { return };
    let bottom = frame[layers.net_at + 2] & 1 == 1;
    let below = layers.net_at + 4;
    let inner = match (bottom, frame.get(below).map(|b| b >> 4)) {
        (false, _) => below + 3,
        (true, Some(4)) => below + 8,
        (true, Some(6)) => below + 7,
        _ => return,
    };
    if frame.len() < below + 20 && bottom || inner >= frame.len() {
        return;
    }
    match way {
        Way::Out => frame[outer] = frame[inner],
        Way::In => frame[inner] = frame[outer],
    }
    if let (Way::In, true, Some(4)) = (way, bottom, frame.get(below).map(|b| b >> 4)) {
        ipv4_checksum(frame, below);
    }
}

/// Which checksums were right before: only those are made right again, so that a frame that came
/// damaged leaves damaged.
struct Checksums {
    ip: bool,
    transport: bool,
}

impl Checksums {
    fn of(frame: &[u8]) -> Self {
        let Some(layers) = Layers::of(frame) else { return Self { ip: false, transport: false } };
        let ip = match layers.net {
            Network::Ipv4(..) => header_of_ipv4(frame, layers.net_at)
                .is_some_and(|h| Sum::new().bytes(h).is_intact()),
            _ => false,
        };
        let transport = stored(frame, layers)
            .zip(transport_checksum(frame, layers))
            .is_some_and(|(stored, right)| stored == right);
        Self { ip, transport }
    }

    fn mend(&self, frame: &mut [u8]) {
        let Some(layers) = Layers::of(frame) else { return };
        if let (true, Network::Ipv4(..)) = (self.ip, layers.net) {
            ipv4_checksum(frame, layers.net_at);
        }
        if !self.transport {
            return;
        }
        if let Some((at, right)) = place(layers).zip(transport_checksum(frame, layers)) {
            let bytes = right.to_be_bytes();
            // SCTP's has four bytes, the others' two.
            let width = if is_sctp(layers) { 4 } else { 2 };
            if let Some(to) = frame.get_mut(at..at + width) {
                to.copy_from_slice(&bytes[4 - width..]);
            }
        }
    }
}

fn header_of_ipv4(frame: &[u8], at: usize) -> Option<&[u8]> {
    let length = usize::from(frame.get(at)? & 0xf) * 4;
    frame.get(at..at + length)
}

fn ipv4_checksum(frame: &mut [u8], at: usize) {
    if header_of_ipv4(frame, at).is_none_or(|h| h.len() < 20) {
        return;
    }
    frame[at + 10..at + 12].fill(0);
    let Some(header) = header_of_ipv4(frame, at) else { return };
    let sum = Sum::new().bytes(header).checksum();
    frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
}

fn is_sctp(layers: Layers) -> bool {
    matches!(layers.transport(), Some((SCTP, _)))
}

/// Where the transport's checksum stands.
fn place(layers: Layers) -> Option<usize> {
    let (protocol, at) = layers.transport()?;
    Some(match protocol {
        TCP => at + 16,
        UDP => at + 6,
        SCTP => at + 8,
        ICMP | ICMPV6 => at + 2,
        _ => return None,
    })
}

fn stored(frame: &[u8], layers: Layers) -> Option<u32> {
    let at = place(layers)?;
    if is_sctp(layers) {
        return frame.get(at..at + 4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
    }
    word(frame, at).map(u32::from)
}

/// What the transport's checksum should be. `None`: there is none, or the packet is not whole.
fn transport_checksum(frame: &[u8], layers: Layers) -> Option<u32> {
    let (protocol, at) = layers.transport()?;
    let n = layers.net_at;
    let (pseudo, end) = match layers.net {
        Network::Ipv4(..) => {
            // A first fragment's checksum covers what is not here.
            if word(frame, n + 6)? & 0x2000 != 0 {
                return None;
            }
            let ip =
                |at: usize| frame.get(at..at + 4).map(|b| Ipv4Addr::new(b[0], b[1], b[2], b[3]));
            let total = usize::from(word(frame, n + 2)?);
            (PseudoHeader::V4(ip(n + 12)?, ip(n + 16)?), n + total)
        }
        _ => {
            let ip = |at: usize| {
                let bytes: [u8; 16] = frame.get(at..at + 16)?.try_into().ok()?;
                Some(Ipv6Addr::from(bytes))
            };
            let length = usize::from(word(frame, n + 4)?);
            (PseudoHeader::V6(ip(n + 8)?, ip(n + 24)?), n + 40 + length)
        }
    };
    let segment = frame.get(at..end)?;
    let check = place(layers)? - at;
    let width = if protocol == SCTP { 4 } else { 2 };
    let (before, rest) = segment.split_at_checked(check)?;
    let (old, after) = rest.split_at_checked(width)?;
    if protocol == SCTP {
        let mut zeroed = segment.to_vec();
        zeroed[check..check + 4].fill(0);
        // RFC 9260 §6.8 and appendix A: the CRC's bytes go out lowest first.
        return Some(crc32c(&zeroed).swap_bytes());
    }
    if protocol == UDP && old == [0, 0] {
        return None;
    }
    let start = match protocol {
        ICMP => Sum::new(),
        _ => pseudo.sum(Protocol::from(protocol), segment.len()),
    };
    let sum = start.bytes(before).bytes(&[0, 0]).bytes(after).checksum();
    // RFC 768: a sum of zero is sent as all ones.
    Some(if protocol == UDP && sum == 0 { 0xffff } else { sum.into() })
}
