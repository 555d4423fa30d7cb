//! The outer Ethernet and IP headers of a tunnel.
//!
//! Called by `gre` and `vxlan`, which say what comes behind.

use super::edit;
use crate::action::{Outer, TunnelAddrs};
use weir_wire::checksum::{PseudoHeader, internet};

impl Outer {
    /// Bytes of the Ethernet and IP headers.
    pub(crate) fn len(&self) -> usize {
        match self.ip {
            TunnelAddrs::V4(..) => 34,
            TunnelAddrs::V6(..) => 54,
        }
    }
    /// What the transport checksum covers besides its own bytes.
    pub(crate) fn pseudo_header(&self) -> PseudoHeader {
        match self.ip {
            TunnelAddrs::V4(s, d) => PseudoHeader::V4(s, d),
            TunnelAddrs::V6(s, d) => PseudoHeader::V6(s, d),
        }
    }
    /// Writes the headers to the front of `b`, whose bytes behind them are the payload. Never
    /// fragmented: DF is set on IPv4 (RFC 7348 §4.3 wants no fragments), identification zero
    /// (RFC 6864 allows it then).
    pub(crate) fn emit(&self, b: &mut [u8], protocol: u8) {
        edit::put(b, 0, self.eth_dst);
        edit::put(b, 6, self.eth_src);
        let payload = b.len().saturating_sub(self.len());
        match self.ip {
            TunnelAddrs::V4(src, dst) => {
                edit::put(b, 12, [8, 0, 0x45, self.tos]);
                // A frame is shorter than 64 KiB, so is what it holds.
                edit::put(b, 16, ((payload + 20) as u16).to_be_bytes());
                edit::put(b, 18, [0, 0, 0x40, 0, self.ttl, protocol, 0, 0]);
                edit::put(b, 26, src.octets());
                edit::put(b, 30, dst.octets());
                let sum = b.get(14..34).map_or(0, internet);
                edit::put(b, 24, sum.to_be_bytes());
            }
            TunnelAddrs::V6(src, dst) => {
                edit::put(b, 12, [0x86, 0xdd]);
                edit::put(b, 14, (6u32 << 28 | u32::from(self.tos) << 20).to_be_bytes());
                edit::put(b, 18, (payload as u16).to_be_bytes());
                edit::put(b, 20, [protocol, self.ttl]);
                edit::put(b, 22, src.octets());
                edit::put(b, 38, dst.octets());
            }
        }
    }
}
