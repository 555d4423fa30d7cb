//! ARP's opcode and addresses (RFC 826, Ethernet and IPv4). Touches the field; ARP has no checksum.

use super::bytes::{be16, be32, get_mut, merge, merge_mac};
use crate::packet::{Net, Packet, Stale};

/// Which field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Opcode, 16 bits.
    Op,
    /// Sender hardware address, 48 bits.
    Sha,
    /// Sender protocol address, 32 bits.
    Spa,
    /// Target hardware address, 48 bits.
    Tha,
    /// Target protocol address, 32 bits.
    Tpa,
}

/// Bits for one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetArp {
    /// Which field.
    pub which: Which,
    /// Value, right-aligned.
    pub value: u64,
    /// Which bits of it count.
    pub mask: u64,
}

impl SetArp {
    /// Writes them into an ARP packet; another frame is not changed.
    pub fn apply(&self, p: &mut Packet<'_>) {
        if p.layers.net != Net::Arp {
            return;
        }
        if self.write(p.frame.bytes_mut(), p.layers.l3.into()).is_some() {
            p.stale = Stale::Yes;
        }
    }
    fn write(&self, b: &mut [u8], l3: usize) -> Option<()> {
        let word = |b: &mut [u8], at| {
            let new = merge(be32(b, at)?.into(), self.value, self.mask);
            *get_mut(b, at)? = (new as u32).to_be_bytes();
            Some(())
        };
        match self.which {
            Which::Op => {
                let new = merge(be16(b, l3 + 6)?.into(), self.value, self.mask);
                *get_mut(b, l3 + 6)? = (new as u16).to_be_bytes();
                Some(())
            }
            Which::Sha => merge_mac(b, l3 + 8, self.value, self.mask).map(drop),
            Which::Spa => word(b, l3 + 14),
            Which::Tha => merge_mac(b, l3 + 18, self.value, self.mask).map(drop),
            Which::Tpa => word(b, l3 + 24),
        }
    }
}
