//! Pushes, pops and rewrites MPLS labels (RFC 3032, RFC 5462; OpenFlow 1.3 §5.12).

use super::edit;
use crate::packet::{Net, Packet};
use weir_packet::DropReason;

/// Bits of the top label stack entry: label 20, TC 3, bottom of stack 1, TTL 8.
#[inline]
pub fn set(p: &mut Packet<'_>, value: u32, mask: u32) {
    if p.layers.net == Net::Mpls {
        let at = usize::from(p.layers.l3);
        edit::masked32(p, at, value, mask);
    }
}

/// Decrements the top label's TTL; frames without a label pass.
///
/// # Errors
/// [`DropReason::TtlExpired`] when it would reach zero (RFC 3443).
#[inline]
pub fn decrement(p: &mut Packet<'_>) -> Result<(), DropReason> {
    if p.layers.net != Net::Mpls {
        return Ok(());
    }
    let at = usize::from(p.layers.l3);
    let ttl = p.frame.bytes().get(at + 3).copied().unwrap_or(0);
    if ttl <= 1 {
        return Err(DropReason::TtlExpired);
    }
    edit::masked32(p, at, u32::from(ttl - 1), 0xff);
    Ok(())
}

/// Pushes a label in front of the network header, behind the VLAN tags. The new entry is a copy of
/// the top one with the bottom bit clear; without one: label 0, the TTL and, as traffic class, the
/// precedence of an IP header (else TTL 64), bottom bit set. As Open vSwitch does where the
/// specification leaves it open.
///
/// # Errors
/// [`DropReason::NoRoom`] without headroom.
pub fn push(p: &mut Packet<'_>, ethertype: u16) -> Result<(), DropReason> {
    let l3 = usize::from(p.layers.l3);
    let b = p.frame.bytes();
    let entry = match p.layers.net {
        Net::Mpls => edit::get32(b, l3).unwrap_or(0) & !0x100,
        Net::Ipv4 => {
            let (tos, ttl) = (b.get(l3 + 1).copied(), b.get(l3 + 8).copied());
            u32::from(tos.unwrap_or(0) >> 5) << 9 | 0x100 | u32::from(ttl.unwrap_or(64))
        }
        Net::Ipv6 => {
            let (class, ttl) = (edit::get16(b, l3), b.get(l3 + 7).copied());
            let precedence = (class.unwrap_or(0) >> 4 & 0xff) >> 5;
            u32::from(precedence) << 9 | 0x100 | u32::from(ttl.unwrap_or(64))
        }
        Net::Other | Net::Arp => 0x100 | 64,
    };
    p.frame.push_front(4).map_err(|_| DropReason::NoRoom)?;
    let b = p.frame.bytes_mut();
    if b.len() < l3 + 4 {
        return Err(DropReason::Runt);
    }
    b.copy_within(4..l3 + 4, 0);
    edit::put(b, l3 - 2, ethertype.to_be_bytes());
    edit::put(b, l3, entry.to_be_bytes());
    p.relayout()
}

/// Pops the top label and sets the EtherType; frames without a label pass.
///
/// # Errors
/// [`DropReason::Runt`] when nothing of the frame is left.
pub fn pop(p: &mut Packet<'_>, ethertype: u16) -> Result<(), DropReason> {
    if p.layers.net != Net::Mpls {
        return Ok(());
    }
    let l3 = usize::from(p.layers.l3);
    let b = p.frame.bytes_mut();
    edit::put(b, l3 - 2, ethertype.to_be_bytes());
    b.copy_within(0..l3, 4);
    p.frame.pull_front(4).map_err(|_| DropReason::Runt)?;
    p.relayout()
}
