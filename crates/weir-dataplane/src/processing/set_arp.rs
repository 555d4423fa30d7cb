//! Sets fields of ARP for IPv4 over Ethernet (RFC 826): opcode and addresses.

use super::edit;
use crate::packet::{Net, Packet};

/// The `len` bytes at `offset` of the ARP header, under a mask.
pub fn set(p: &mut Packet<'_>, offset: usize, len: usize, value: u64, mask: u64) {
    if p.layers.net != Net::Arp {
        return;
    }
    let at = usize::from(p.layers.l3) + offset;
    match len {
        2 => drop(edit::masked16(p, at, value as u16, mask as u16)),
        4 => drop(edit::masked32(p, at, value as u32, mask as u32)),
        _ => drop(edit::masked48(p, at, value, mask)),
    }
}
