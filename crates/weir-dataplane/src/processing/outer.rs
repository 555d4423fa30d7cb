//! The Ethernet and IP headers that an encapsulation writes, and the way back. Touches the front of
//! the frame. Called by `gre.rs` and `vxlan.rs`.
//!
//! Outer IPv4 has DF set and identification zero, as RFC 6864 §4.1 allows for a datagram that is
//! never fragmented; outer IPv6 has flow label zero.

use super::bytes::get_mut;
use super::locate::{Fragment, Payload, ip_payload};
use crate::action::{Outer, TunnelAddrs};
use crate::packet::{Net, Packet};
use weir_packet::DropReason;
use weir_wire::PseudoHeader;
use weir_wire::checksum::internet;

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;

/// Bytes of the Ethernet and IP headers.
pub(super) fn len(outer: &Outer) -> usize {
    match outer.ip {
        TunnelAddrs::V4(..) => ETHERNET + IPV4,
        TunnelAddrs::V6(..) => ETHERNET + IPV6,
    }
}

/// The pseudo-header of the outer addresses.
pub(super) fn pseudo(outer: &Outer) -> PseudoHeader {
    match outer.ip {
        TunnelAddrs::V4(src, dst) => PseudoHeader::V4(src, dst),
        TunnelAddrs::V6(src, dst) => PseudoHeader::V6(src, dst),
    }
}

/// Puts the outer headers and `inside` bytes for the tunnel's own header in front of the frame.
///
/// # Errors
/// [`DropReason::NoRoom`]; the frame is as it was.
pub(super) fn push(
    outer: &Outer,
    proto: u8,
    inside: usize,
    p: &mut Packet<'_>,
) -> Result<(), DropReason> {
    let head = len(outer) + inside;
    let total = u16::try_from(p.frame.len() + head - ETHERNET).map_err(|_| DropReason::NoRoom)?;
    p.frame.push_front(head).map_err(|_| DropReason::NoRoom)?;
    let b = p.frame.bytes_mut();
    let Some(eth) = get_mut::<ETHERNET>(b, 0) else { return Err(DropReason::Runt) };
    let [d @ .., s0, s1, s2, s3, s4, s5, t0, t1] = eth;
    *d = outer.eth_dst;
    [*s0, *s1, *s2, *s3, *s4, *s5] = outer.eth_src;
    match outer.ip {
        TunnelAddrs::V4(src, dst) => {
            [*t0, *t1] = [0x08, 0x00];
            let Some(ip) = get_mut::<IPV4>(b, ETHERNET) else { return Err(DropReason::Runt) };
            let [l0, l1] = total.to_be_bytes();
            let ([s0, s1, s2, s3], [d0, d1, d2, d3]) = (src.octets(), dst.octets());
            *ip = [
                0x45, outer.tos, l0, l1, 0, 0, 0x40, 0, outer.ttl, proto, 0, 0, //
                s0, s1, s2, s3, d0, d1, d2, d3,
            ];
            [ip[10], ip[11]] = internet(ip).to_be_bytes();
        }
        TunnelAddrs::V6(src, dst) => {
            [*t0, *t1] = [0x86, 0xdd];
            let Some(ip) = get_mut::<IPV6>(b, ETHERNET) else { return Err(DropReason::Runt) };
            let [l0, l1] = (total - IPV6 as u16).to_be_bytes();
            let [v @ .., n, h] = &mut ip[..8] else { return Err(DropReason::Runt) };
            v.copy_from_slice(&[0x60 | outer.tos >> 4, outer.tos << 4, 0, 0, l0, l1]);
            (*n, *h) = (proto, outer.ttl);
            ip[8..24].copy_from_slice(&src.octets());
            ip[24..].copy_from_slice(&dst.octets());
        }
    }
    Ok(())
}

/// The payload of the outer IP header, to be unwrapped.
///
/// # Errors
/// [`DropReason::NoSuchHeader`] when it is no IP packet of `proto`, [`DropReason::Fragment`] when
/// it is a part of one, which must be reassembled first, [`DropReason::Malformed`] when the frame
/// is shorter than its IP header says.
pub(super) fn payload(p: &Packet<'_>, proto: u8) -> Result<Payload, DropReason> {
    let ip = ip_payload(p.frame.bytes(), p.layers).ok_or(DropReason::NoSuchHeader)?;
    match ip {
        _ if ip.proto != proto || !matches!(p.layers.net, Net::Ipv4 | Net::Ipv6) => {
            Err(DropReason::NoSuchHeader)
        }
        Payload { fragment: Fragment::First | Fragment::Later, .. } => Err(DropReason::Fragment),
        Payload { missing: 1.., .. } => Err(DropReason::Malformed),
        _ => Ok(ip),
    }
}
