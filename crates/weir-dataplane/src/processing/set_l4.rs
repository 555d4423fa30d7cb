//! Ports of TCP, UDP and SCTP, type and code of ICMP and ICMPv6. Touches the field and the
//! transport checksum.
//!
//! SCTP's CRC32c covers the whole packet. It is linear: the CRC of a changed packet differs from
//! the old one by what the changed bytes alone account for, so a checksum that was wrong stays
//! wrong, and the receiver still notices. It takes all bytes, so an SCTP packet that is not whole
//! (a first fragment, a frame cut short) is left as it is: its ports can't be changed rightly.

use super::bytes::{get, get_mut};
use super::locate::{Fragment, ip_payload};
use super::transport::{Under, mend};
use crate::packet::{Net, Packet, Stale};
use weir_wire::checksum::{Delta, crc32c::crc32c};

/// Which port, or which byte of ICMP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Source port; ICMP's type.
    First,
    /// Destination port; ICMP's code.
    Second,
}

/// Bits for a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetPort {
    /// Which port.
    pub which: Which,
    /// Value.
    pub value: u16,
    /// Which bits of it count.
    pub mask: u16,
}

impl SetPort {
    /// Writes them into the header of TCP, UDP or SCTP; another frame is not changed.
    #[inline]
    pub fn apply(&self, p: &mut Packet<'_>) {
        if p.layers.l4 == 0 || !matches!(p.layers.proto, 6 | 17 | 132) {
            return;
        }
        let at = usize::from(p.layers.l4) + if self.which == Which::First { 0 } else { 2 };
        if p.layers.proto == 132 {
            self.sctp(p, at);
            return;
        }
        let b = p.frame.bytes_mut();
        let Some((old, new)) = self.write(b, at) else { return };
        mend(b, p.layers, Under::Transport, Delta::new().u16(old, new));
        p.stale = Stale::Yes;
    }

    fn write(&self, b: &mut [u8], at: usize) -> Option<(u16, u16)> {
        let field: &mut [u8; 2] = get_mut(b, at)?;
        let old = u16::from_be_bytes(*field);
        let new = old & !self.mask | self.value & self.mask;
        *field = new.to_be_bytes();
        Some((old, new))
    }

    #[cold]
    fn sctp(&self, p: &mut Packet<'_>, at: usize) -> Option<()> {
        let ip = ip_payload(p.frame.bytes(), p.layers)?;
        if ip.fragment != Fragment::Whole || ip.missing > 0 {
            return None;
        }
        let packet = p.frame.bytes_mut().get_mut(ip.at..ip.end)?;
        let at = at.checked_sub(ip.at)?;
        let check = u32::from_le_bytes(get(packet, 8)?);
        let before = crc32c(packet);
        self.write(packet, at)?;
        // Both sums take the old checksum field along; equal parts cancel.
        let check = check ^ before ^ crc32c(packet);
        *get_mut(packet, 8)? = check.to_le_bytes();
        p.stale = Stale::Yes;
        Some(())
    }
}

/// Bits for ICMP's or ICMPv6's type or code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetIcmp {
    /// Type or code.
    pub which: Which,
    /// Value.
    pub value: u8,
    /// Which bits of it count.
    pub mask: u8,
}

impl SetIcmp {
    /// Writes them into an ICMP header over IPv4 or an ICMPv6 header over IPv6; another frame is
    /// not changed.
    pub fn apply(&self, p: &mut Packet<'_>) {
        let icmp = matches!((p.layers.net, p.layers.proto), (Net::Ipv4, 1) | (Net::Ipv6, 58));
        if p.layers.l4 == 0 || !icmp {
            return;
        }
        let b = p.frame.bytes_mut();
        let Some(h) = get_mut::<2>(b, p.layers.l4.into()) else { return };
        let old = u16::from_be_bytes(*h);
        let [kind, code] = h;
        let byte = if self.which == Which::First { kind } else { code };
        *byte = *byte & !self.mask | self.value & self.mask;
        let delta = Delta::new().u16(old, u16::from_be_bytes(*h));
        mend(b, p.layers, Under::Transport, delta);
        p.stale = Stale::Yes;
    }
}
