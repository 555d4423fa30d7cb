//! Sets transport ports, ICMP type and code, and the fields of neighbour discovery.

use super::{changed, edit};
use crate::packet::{Net, Packet};
use weir_wire::checksum::crc32c::crc32c;

/// The port at `offset` of a TCP, UDP or SCTP header.
#[inline]
pub fn port(p: &mut Packet<'_>, offset: usize, value: u16, mask: u16) {
    let at = usize::from(p.layers.l4);
    if at == 0 {
        return;
    }
    match p.layers.proto {
        6 | 17 => {
            if let Some(d) = edit::masked16(p, at + offset, value, mask) {
                edit::fix_l4(p, d);
            }
        }
        132 => sctp(p, at, offset, value, mask),
        _ => {}
    }
}

/// SCTP's CRC32c covers the whole packet, so it can only be made anew, and only where the whole
/// packet is here: a fragment passes unchanged. One that was wrong stays wrong.
fn sctp(p: &mut Packet<'_>, at: usize, offset: usize, value: u16, mask: u16) {
    let Some(end) = ip_end(p) else { return };
    if edit::is_fragment(p) || end < at + 12 {
        return;
    }
    let good = sctp_sum(p, at, end).zip(edit::get32(p.frame.bytes(), at + 8));
    let intact = good.is_some_and(|(sum, there)| sum.swap_bytes() == there);
    edit::masked16(p, at + offset, value, mask);
    if intact && let Some(sum) = sctp_sum(p, at, end) {
        edit::put(p.frame.bytes_mut(), at + 8, sum.to_le_bytes());
    }
}

/// The CRC with its own field taken as zero (RFC 9260, appendix A); on the wire it stands with its
/// lowest byte first.
fn sctp_sum(p: &mut Packet<'_>, at: usize, end: usize) -> Option<u32> {
    let b = p.frame.bytes_mut().get_mut(at..end)?;
    let field: [u8; 4] = *b.get(8..)?.first_chunk()?;
    edit::put(b, 8, [0; 4]);
    let sum = crc32c(b);
    edit::put(b, 8, field);
    Some(sum)
}

/// Where the IP datagram ends, as an offset in the frame; padding lies behind.
pub fn ip_end(p: &Packet<'_>) -> Option<usize> {
    let (b, l3) = (p.frame.bytes(), usize::from(p.layers.l3));
    let end = match p.layers.net {
        Net::Ipv4 => l3 + usize::from(edit::get16(b, l3 + 2)?),
        Net::Ipv6 => l3 + 40 + usize::from(edit::get16(b, l3 + 4)?),
        Net::Other | Net::Arp | Net::Mpls => return None,
    };
    (end <= b.len()).then_some(end)
}

/// ICMP or ICMPv6 type and code, as one 16-bit word.
pub fn icmp(p: &mut Packet<'_>, value: u16, mask: u16) {
    let at = usize::from(p.layers.l4);
    if at != 0
        && matches!((p.layers.net, p.layers.proto), (Net::Ipv4, 1) | (Net::Ipv6, 58))
        && let Some(d) = edit::masked16(p, at, value, mask)
    {
        edit::fix_l4(p, d);
    }
}

/// Whether the frame is ICMPv6 of one of these types, whole as far as the target goes.
fn discovery(p: &Packet<'_>, kinds: &[u8]) -> Option<usize> {
    let at = usize::from(p.layers.l4);
    let ours = at != 0 && p.layers.net == Net::Ipv6 && p.layers.proto == 58;
    let kind = p.frame.bytes().get(at)?;
    (ours && kinds.contains(kind) && ip_end(p)? >= at + 24).then_some(at)
}

/// The target of a neighbour solicitation or advertisement.
pub fn nd_target(p: &mut Packet<'_>, value: u128, mask: u128) {
    if let Some(at) = discovery(p, &[135, 136])
        && let Some(d) = edit::masked128(p, at + 8, value, mask)
    {
        edit::fix_l4(p, d);
    }
}

/// The link-layer address in the option `option` of messages of type `kind`. A message without
/// that option passes unchanged.
pub fn nd_option(p: &mut Packet<'_>, kind: u8, option: u8, value: u64, mask: u64) {
    let (Some(at), Some(end)) = (discovery(p, &[kind]), ip_end(p)) else { return };
    let mut o = at + 24;
    while o + 8 <= end {
        let b = p.frame.bytes();
        let (Some(&t), Some(&n)) = (b.get(o), b.get(o + 1)) else { return };
        if n == 0 {
            return;
        }
        if t == option && n == 1 {
            if let Some(d) = edit::masked48(p, o + 2, value, mask) {
                edit::fix_l4(p, d);
                changed(p);
            }
            return;
        }
        o += usize::from(n) * 8;
    }
}
