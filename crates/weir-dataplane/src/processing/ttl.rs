//! TTL and hop limit: decrement, set, copy between headers (OpenFlow 1.3, §5.12).

use super::{changed, edit};
use crate::packet::{Net, Packet};
use weir_packet::DropReason;
use weir_wire::checksum::Delta;

/// Where the TTL byte is, relative to the network header.
fn offset(net: Net) -> Option<usize> {
    match net {
        Net::Ipv4 => Some(8),
        Net::Ipv6 => Some(7),
        Net::Other | Net::Arp | Net::Mpls => None,
    }
}

/// Decrements TTL or hop limit. Frames that are not IP pass.
///
/// # Errors
/// [`DropReason::TtlExpired`] when it would reach zero (RFC 1812, §5.3.1).
#[inline(always)]
pub fn decrement(p: &mut Packet<'_>) -> Result<(), DropReason> {
    let Some(o) = offset(p.layers.net) else { return Ok(()) };
    let at = usize::from(p.layers.l3) + o;
    let Some(ttl) = p.frame.bytes_mut().get_mut(at) else { return Ok(()) };
    if *ttl <= 1 {
        return Err(DropReason::TtlExpired);
    }
    *ttl -= 1;
    if p.layers.net == Net::Ipv4 {
        // The TTL is the upper byte of its word.
        edit::fix_ip(p, Delta::new().u16(0x0100, 0));
    }
    changed(p);
    Ok(())
}

/// Sets TTL or hop limit.
pub fn set(p: &mut Packet<'_>, ttl: u8) {
    let at = usize::from(p.layers.l3);
    match p.layers.net {
        Net::Ipv4 => {
            if let Some(d) = edit::masked16(p, at + 8, u16::from(ttl) << 8, 0xff00) {
                edit::fix_ip(p, d);
            }
        }
        Net::Ipv6 => {
            edit::masked16(p, at + 6, ttl.into(), 0x00ff);
        }
        Net::Other | Net::Arp | Net::Mpls => {}
    }
}

/// The TTL under the top label: of the next label, or of the IP header behind the bottom one.
fn under_label(p: &Packet<'_>) -> Option<(usize, Net, u8)> {
    let (b, l3) = (p.frame.bytes(), usize::from(p.layers.l3));
    let top = edit::get32(b, l3)?;
    if top & 0x100 == 0 {
        return Some((l3 + 7, Net::Mpls, *b.get(l3 + 7)?));
    }
    let ip = l3 + 4;
    match b.get(ip)? >> 4 {
        4 if b.len() >= ip + 20 => Some((ip + 8, Net::Ipv4, *b.get(ip + 8)?)),
        6 if b.len() >= ip + 40 => Some((ip + 7, Net::Ipv6, *b.get(ip + 7)?)),
        _ => None,
    }
}

/// Copies the TTL of the header under the top label into the label. Without a label: nothing.
pub fn copy_out(p: &mut Packet<'_>) {
    if p.layers.net != Net::Mpls {
        return;
    }
    if let Some((_, _, ttl)) = under_label(p) {
        let at = usize::from(p.layers.l3);
        edit::masked32(p, at, ttl.into(), 0xff);
    }
}

/// Copies the top label's TTL into the header under it. Without a label: nothing.
pub fn copy_in(p: &mut Packet<'_>) {
    if p.layers.net != Net::Mpls {
        return;
    }
    let Some((at, net, old)) = under_label(p) else { return };
    let Some(&ttl) = p.frame.bytes().get(usize::from(p.layers.l3) + 3) else { return };
    let b = p.frame.bytes_mut();
    if let Some(t) = b.get_mut(at) {
        *t = ttl;
    }
    if net == Net::Ipv4
        && let Some(sum) = edit::get16(b, at + 2)
    {
        let d = Delta::new().u16(u16::from(old) << 8, u16::from(ttl) << 8);
        edit::put(b, at + 2, d.apply(sum).to_be_bytes());
    }
    changed(p);
}
