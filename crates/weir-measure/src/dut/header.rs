//! Where each match field stands in a frame: one table for reading and for writing.
//!
//! Room: bytes and numbers. Called by `table` (what a frame is looked up by) and by `rewrite`. Slow
//! and plain: a frame is walked through anew after each change of its shape.

use weir_openflow::model::{Field, VLAN_PRESENT};

const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const IPV6: u16 = 0x86dd;
/// EtherTypes of tags (IEEE 802.1Q).
const TAGS: [u16; 2] = [0x8100, 0x88a8];
/// EtherTypes of MPLS (RFC 5332).
const MPLS: [u16; 2] = [0x8847, 0x8848];
/// Tags that are passed over; a frame with more has no further headers.
const TAGS_MAX: usize = 8;

/// IP protocols with ports.
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const SCTP: u8 = 132;
pub(super) const ICMP: u8 = 1;
pub(super) const ICMPV6: u8 = 58;

/// What lies behind Ethernet and its tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    /// Nothing known, or cut off.
    Other,
    /// A label stack.
    Mpls,
    Arp,
    /// Protocol, and where its header is; none for later fragments.
    Ipv4(u8, Option<usize>),
    Ipv6(u8, Option<usize>),
}

/// Where a frame's headers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layers {
    /// Tags of VLANs.
    pub(super) tags: usize,
    /// Where the EtherType behind them stands.
    pub(super) type_at: usize,
    /// Where what it names begins.
    pub(super) net_at: usize,
    pub(super) net: Network,
}

/// Bits in a frame: of `len` bytes at `at`, those of `mask` after a shift to the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bits {
    at: usize,
    len: usize,
    shift: u32,
    mask: u128,
}

/// Whether frames are read for a field; one that they are not read for can't be matched.
pub(super) fn is_read(field: Field) -> bool {
    use Field::*;
    !matches!(field, Ipv6NdTarget | Ipv6NdSll | Ipv6NdTll | Ipv6Exthdr | PbbIsid)
}

pub(super) fn word(frame: &[u8], at: usize) -> Option<u16> {
    frame.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]))
}

impl Layers {
    /// Walks through a frame. `None`: it has not even an Ethernet header.
    pub(super) fn of(frame: &[u8]) -> Option<Self> {
        let (mut at, mut tags) = (12, 0);
        let mut ether_type = word(frame, at)?;
        while TAGS.contains(&ether_type) && tags < TAGS_MAX && frame.len() >= at + 6 {
            (at, tags) = (at + 4, tags + 1);
            ether_type = word(frame, at)?;
        }
        let net_at = at + 2;
        let rest = frame.get(net_at..).unwrap_or_default();
        let net = match ether_type {
            t if MPLS.contains(&t) && rest.len() >= 4 => Network::Mpls,
            ARP if rest.len() >= 28 => Network::Arp,
            IPV4 => ipv4(rest, net_at),
            IPV6 => ipv6(rest, net_at),
            _ => Network::Other,
        };
        Some(Self { tags, type_at: at, net_at, net })
    }

    /// Where a field stands; `None` where the frame has none.
    fn bits(&self, frame: &[u8], field: Field) -> Option<Bits> {
        use Field::*;
        let n = self.net_at;
        let all = |at, len| Some(Bits { at, len, shift: 0, mask: field.full() });
        let some = |at, len, shift| Some(Bits { at, len, shift, mask: field.full() });
        let found = match (field, self.net) {
            (EthDst, _) => all(0, 6),
            (EthSrc, _) => all(6, 6),
            (EthType, _) => all(self.type_at, 2),
            (VlanVid, _) if self.tags > 0 => Some(Bits { at: 14, len: 2, shift: 0, mask: 0xfff }),
            (VlanPcp, _) if self.tags > 0 => some(14, 2, 13),
            (MplsLabel, Network::Mpls) => some(n, 4, 12),
            (MplsTc, Network::Mpls) => some(n, 4, 9),
            (MplsBos, Network::Mpls) => some(n, 4, 8),
            (ArpOp, Network::Arp) => all(n + 6, 2),
            (ArpSha, Network::Arp) => all(n + 8, 6),
            (ArpSpa, Network::Arp) => all(n + 14, 4),
            (ArpTha, Network::Arp) => all(n + 18, 6),
            (ArpTpa, Network::Arp) => all(n + 24, 4),
            (IpDscp, Network::Ipv4(..)) => some(n + 1, 1, 2),
            (IpEcn, Network::Ipv4(..)) => all(n + 1, 1),
            (IpProto, Network::Ipv4(..)) => all(n + 9, 1),
            (Ipv4Src, Network::Ipv4(..)) => all(n + 12, 4),
            (Ipv4Dst, Network::Ipv4(..)) => all(n + 16, 4),
            (IpDscp, Network::Ipv6(..)) => some(n, 2, 6),
            (IpEcn, Network::Ipv6(..)) => some(n, 2, 4),
            (IpProto, Network::Ipv6(..)) => all(n + 6, 1),
            (Ipv6Flabel, Network::Ipv6(..)) => all(n, 4),
            (Ipv6Src, Network::Ipv6(..)) => all(n + 8, 16),
            (Ipv6Dst, Network::Ipv6(..)) => all(n + 24, 16),
            (TcpSrc | TcpDst | UdpSrc | UdpDst | SctpSrc | SctpDst, _) => {
                let (at, second) = match (field, self.transport()?) {
                    (TcpSrc, (TCP, at)) | (UdpSrc, (UDP, at)) | (SctpSrc, (SCTP, at)) => (at, 0),
                    (TcpDst, (TCP, at)) | (UdpDst, (UDP, at)) | (SctpDst, (SCTP, at)) => (at, 2),
                    _ => return None,
                };
                all(at + second, 2)
            }
            (Icmpv4Type | Icmpv4Code, Network::Ipv4(ICMP, Some(at))) => {
                all(at + usize::from(field == Icmpv4Code), 1)
            }
            (Icmpv6Type | Icmpv6Code, Network::Ipv6(ICMPV6, Some(at))) => {
                all(at + usize::from(field == Icmpv6Code), 1)
            }
            _ => None,
        };
        found.filter(|b| frame.len() >= b.at + b.len)
    }

    /// The protocol above IP, and where its header is.
    pub(super) fn transport(&self) -> Option<(u8, usize)> {
        match self.net {
            Network::Ipv4(p, Some(at)) | Network::Ipv6(p, Some(at)) => Some((p, at)),
            _ => None,
        }
    }

    /// A field's value, as a match compares it (`VlanVid` with 1.3's bit, 0 without a tag).
    pub(super) fn read(&self, frame: &[u8], in_port: u32, field: Field) -> Option<u128> {
        match field {
            Field::InPort | Field::InPhyPort => return Some(in_port.into()),
            Field::Metadata | Field::TunnelId => return Some(0),
            Field::VlanVid if self.tags == 0 => return Some(0),
            _ => {}
        }
        let bits = self.bits(frame, field)?;
        let bytes = frame.get(bits.at..bits.at + bits.len)?;
        let value = bytes.iter().fold(0, |n, b| n << 8 | u128::from(*b));
        let value = value >> bits.shift & bits.mask;
        Some(if field == Field::VlanVid { value | u128::from(VLAN_PRESENT) } else { value })
    }

    /// Writes a field; nothing happens where the frame has none. Checksums are the caller's.
    pub(super) fn write(&self, frame: &mut [u8], field: Field, value: u128) {
        let Some(bits) = self.bits(frame, field) else { return };
        let Some(bytes) = frame.get_mut(bits.at..bits.at + bits.len) else { return };
        let before = bytes.iter().fold(0, |n, b| n << 8 | u128::from(*b));
        let place = bits.mask << bits.shift;
        let after = before & !place | (value & bits.mask) << bits.shift;
        for (i, byte) in bytes.iter_mut().rev().enumerate() {
            *byte = (after >> (8 * i)) as u8;
        }
    }
}

fn ipv4(packet: &[u8], at: usize) -> Network {
    let header = usize::from(packet.first().copied().unwrap_or(0) & 0xf) * 4;
    if packet.len() < 20 || packet[0] >> 4 != 4 || header < 20 {
        return Network::Other;
    }
    let later_fragment = word(packet, 6).unwrap_or(0) & 0x1fff != 0;
    Network::Ipv4(packet[9], (!later_fragment).then_some(at + header))
}

/// Extension headers are not walked through: what the fixed header names counts.
fn ipv6(packet: &[u8], at: usize) -> Network {
    if packet.len() < 40 || packet[0] >> 4 != 6 {
        return Network::Other;
    }
    Network::Ipv6(packet[6], Some(at + 40))
}
