//! What says what follows: the EtherType and the IP protocol. OpenFlow lets them be set as any
//! field (1.3, §5.12); what follows keeps its bytes, and is taken for something else from then on.
//! Touches the field, the IPv4 header checksum, and the transport checksum, which covers the
//! protocol.

use super::bytes::{be16, get_mut};
use super::transport::{Under, mend};
use crate::packet::{Net, Packet};
use weir_packet::DropReason;
use weir_wire::checksum::Delta;

/// Bits for the EtherType behind all VLAN tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetEtherType {
    /// Value.
    pub value: u16,
    /// Which bits of it count.
    pub mask: u16,
}

impl SetEtherType {
    /// Writes them; an 802.3 frame, which has a length there, is not changed.
    ///
    /// # Errors
    /// [`DropReason::Runt`].
    pub fn apply(&self, p: &mut Packet<'_>) -> Result<(), DropReason> {
        let at = 12 + usize::from(p.layers.vlans) * 4;
        let Some(old) = be16(p.frame.bytes(), at).filter(|t| *t >= 0x600) else { return Ok(()) };
        if let Some(t) = get_mut(p.frame.bytes_mut(), at) {
            *t = (old & !self.mask | self.value & self.mask).to_be_bytes();
        }
        p.relayout()
    }
}

/// Bits for the protocol of an IPv4 header, or of an IPv6 header without extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetProto {
    /// Value.
    pub value: u8,
    /// Which bits of it count.
    pub mask: u8,
}

impl SetProto {
    /// Writes them; another frame is not changed.
    ///
    /// # Errors
    /// [`DropReason::Runt`].
    pub fn apply(&self, p: &mut Packet<'_>) -> Result<(), DropReason> {
        let l3 = usize::from(p.layers.l3);
        let at = match p.layers.net {
            Net::Ipv4 => l3 + 9,
            Net::Ipv6 => l3 + 6,
            _ => return Ok(()),
        };
        let (layers, b) = (p.layers, p.frame.bytes_mut());
        let Some([proto]) = get_mut::<1>(b, at) else { return Ok(()) };
        let old = *proto;
        if layers.net == Net::Ipv6 && old != layers.proto {
            return Ok(());
        }
        *proto = old & !self.mask | self.value & self.mask;
        let delta = Delta::new().u16(old.into(), (*proto).into());
        if layers.net == Net::Ipv4
            && let Some(check) = get_mut::<2>(b, l3 + 10)
        {
            *check = delta.apply(u16::from_be_bytes(*check)).to_be_bytes();
        }
        mend(b, layers, Under::Pseudo, delta);
        p.relayout()
    }
}
