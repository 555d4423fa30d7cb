//! Whether what a packet to the router carries is what was sent. Touches bytes only. Called by `ipv4.rs` and `ipv6.rs`
//! before an error is sent: damaged segments are dropped in silence (RFC 1122 §4.1.3.4, §4.2.2.7).

use weir_wire::checksum::Verdict;
use weir_wire::{IpProtocol, PseudoHeader, TcpPacket, UdpPacket};

/// Whether a segment of UDP or TCP is whole and its checksum right; any other is taken as it is.
pub(super) fn is_intact(protocol: IpProtocol, segment: &[u8], pseudo: &PseudoHeader) -> bool {
    match protocol {
        IpProtocol::Udp => {
            UdpPacket::new_checked(segment).is_ok_and(|u| match u.verify_checksum(pseudo) {
                Verdict::Good => true,
                Verdict::Bad => false,
                // IPv6 must have one (RFC 8200 §8.1).
                Verdict::Absent => matches!(pseudo, PseudoHeader::V4(..)),
            })
        }
        IpProtocol::Tcp => {
            TcpPacket::new_checked(segment).is_ok_and(|t| t.has_good_checksum(pseudo))
        }
        _ => true,
    }
}
