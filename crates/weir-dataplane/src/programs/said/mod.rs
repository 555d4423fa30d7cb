//! What the router, the NAT and the gateway say of themselves in IPv4: how often (`limit.rs`), how much of a packet at fault they quote, and how a
//! message is written. Touches the bytes and numbers given. Called by all of them; who may be told, and from which address, is theirs.

mod limit;

pub use limit::IcmpLimit;
pub(super) use limit::TokenBucket;

use weir_wire::icmpv4::{HEADER_LEN as ICMP, Message};
use weir_wire::{Icmpv4Packet, Icmpv4Repr, IpProtocol, Ipv4Packet, Ipv4Repr};

/// The longest error, which every host takes (RFC 1812 §4.3.2.3).
const LONGEST: usize = 576;

/// What an error quotes of a packet.
pub(super) fn quoted(packet: &[u8]) -> &[u8] {
    const MOST: usize = LONGEST - weir_wire::ipv4::HEADER_LEN - ICMP;
    packet.get(..MOST).unwrap_or(packet)
}

/// Whether a packet is an ICMP error or redirect, or may be one: nothing is said of those (RFC 1812 §4.3.2.7).
pub(super) fn is_error(p: &Ipv4Packet<&[u8]>) -> bool {
    p.protocol() == IpProtocol::Icmp
        && p.payload().first().is_none_or(|t| {
            let kinds = [
                Message::DestinationUnreachable,
                Message::Redirect,
                Message::TimeExceeded,
                Message::ParameterProblem,
            ];
            // 4 is source quench, which nobody sends any more (RFC 6633).
            *t == 4 || kinds.contains(&Message::from(*t))
        })
}

/// The MTU of the next link, as an error has it.
pub(super) fn next_hop_mtu(mtu: usize) -> u16 {
    u16::try_from(mtu).unwrap_or(u16::MAX)
}

/// Writes a packet with a message into `packet`, which has its length.
pub(super) fn write(
    packet: &mut [u8],
    ip: &Ipv4Repr<'_>,
    message: &Icmpv4Repr<'_>,
) -> weir_wire::Result<()> {
    let mut packet = Ipv4Packet::new_unchecked(packet);
    ip.emit(&mut packet)?;
    let mut icmp = Icmpv4Packet::new_unchecked(packet.payload_mut());
    message.emit(&mut icmp)?;
    icmp.fill_checksum();
    Ok(())
}
