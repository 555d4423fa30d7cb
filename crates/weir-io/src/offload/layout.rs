//! Where the network and transport headers of a frame are, as far as the offload work needs it.
//!
//! Room: `offload`. Reads only; a frame that is not understood is `None`, never an error.

/// IP protocol number of TCP.
pub const TCP: u8 = 6;
/// IP protocol number of UDP.
pub const UDP: u8 = 17;

/// Which IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ip {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Offsets into a frame, in bytes from its start. `l4 <= end <= frame length` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Which IP header.
    pub ip: Ip,
    /// Where the IP header begins.
    pub l3: usize,
    /// Where the transport header begins: behind IPv4 options or IPv6 extension headers.
    pub l4: usize,
    /// Where the IP packet ends; what follows is Ethernet padding.
    pub end: usize,
    /// The transport protocol.
    pub protocol: u8,
}

/// UDP ports whose payload is VXLAN: the registered one and Linux' own.
const VXLAN: [u16; 2] = [4789, 8472];
/// Bytes of the headers of UDP and VXLAN.
const UDP_AND_VXLAN: usize = 16;

/// Extension headers that are walked before giving up.
const MAX_EXTENSIONS: usize = 8;

fn be16(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(b.get(at..at + 2)?.try_into().ok()?))
}

/// Where the network header begins and its EtherType, behind up to two VLAN tags; `at` is where
/// the Ethernet header begins.
fn network(b: &[u8], at: usize) -> Option<(usize, u16)> {
    let mut at = at + 12;
    for _ in 0..3 {
        match be16(b, at)? {
            0x8100 | 0x88a8 => at += 4,
            kind => return Some((at + 2, kind)),
        }
    }
    None
}

/// Finds the headers of an unfragmented IP packet whose Ethernet header begins at byte `at`.
#[inline]
pub fn of_frame(b: &[u8], at: usize) -> Option<Layout> {
    let (l3, kind) = network(b, at)?;
    match kind {
        0x0800 => v4(b, l3),
        0x86dd => v6(b, l3),
        _ => None,
    }
}

fn v4(b: &[u8], l3: usize) -> Option<Layout> {
    let h: &[u8; 20] = b.get(l3..)?.first_chunk()?;
    let header = usize::from(h[0] & 15) * 4;
    let total = usize::from(u16::from_be_bytes([h[2], h[3]]));
    let fragment = u16::from_be_bytes([h[6], h[7]]) & 0x3fff;
    let (l4, end) = (l3 + header, l3 + total);
    let sound = h[0] >> 4 == 4 && header >= 20 && l4 <= end && end <= b.len() && fragment == 0;
    sound.then_some(Layout { ip: Ip::V4, l3, l4, end, protocol: h[9] })
}

fn v6(b: &[u8], l3: usize) -> Option<Layout> {
    let h: &[u8; 40] = b.get(l3..)?.first_chunk()?;
    let end = l3 + 40 + usize::from(u16::from_be_bytes([h[4], h[5]]));
    if h[0] >> 4 != 6 || end > b.len() {
        return None;
    }
    let (mut protocol, mut l4) = (h[6], l3 + 40);
    for _ in 0..MAX_EXTENSIONS {
        match protocol {
            // Hop-by-hop, routing, destination options: a length in units of eight bytes.
            0 | 43 | 60 => {
                let [next, units] = *b.get(l4..end)?.first_chunk()?;
                protocol = next;
                l4 += (usize::from(units) + 1) * 8;
            }
            _ => {
                return (l4 <= end).then_some(Layout { ip: Ip::V6, l3, l4, end, protocol });
            }
        }
    }
    None
}

/// The headers of the packet that another one carries by VXLAN (RFC 7348), `outer` being that one's.
#[inline]
pub fn inside_vxlan(b: &[u8], outer: Layout) -> Option<Layout> {
    let to = if outer.protocol == UDP { be16(b, outer.l4 + 2)? } else { return None };
    let inner = of_frame(b, outer.l4 + UDP_AND_VXLAN).filter(|_| VXLAN.contains(&to))?;
    (inner.end <= outer.end).then_some(inner)
}

/// Source and destination address, as they stand in the pseudo-header.
pub(super) fn addresses(b: &[u8], l: Layout) -> &[u8] {
    match l.ip {
        Ip::V4 => b.get(l.l3 + 12..l.l3 + 20),
        Ip::V6 => b.get(l.l3 + 8..l.l3 + 40),
    }
    .unwrap_or_default()
}
