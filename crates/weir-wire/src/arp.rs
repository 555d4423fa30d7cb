//! ARP (RFC 826). Touches bytes. The view reads any ARP for Ethernet and IPv4, which is what the
//! representation holds; other hardware and protocols have addresses of other lengths and are
//! refused by `check`.

use core::net::Ipv4Addr;

use crate::error::{Result, equals, holds, room};
use crate::ethernet::EtherType;
use crate::mac::MacAddr;
use crate::view::{open_enum, view};

const LAYER: &str = "arp";

mod field {
    use crate::view::Field;
    pub const HARDWARE_TYPE: Field = 0..2;
    pub const PROTOCOL_TYPE: Field = 2..4;
    pub const HARDWARE_LEN: Field = 4..5;
    pub const PROTOCOL_LEN: Field = 5..6;
    pub const OPERATION: Field = 6..8;
    pub const SENDER_MAC: Field = 8..14;
    pub const SENDER_IP: Field = 14..18;
    pub const TARGET_MAC: Field = 18..24;
    pub const TARGET_IP: Field = 24..28;
}

/// Bytes of an ARP packet for Ethernet and IPv4.
pub const PACKET_LEN: usize = field::TARGET_IP.end;

/// The hardware type of Ethernet.
pub const HARDWARE_ETHERNET: u16 = 1;

open_enum! {
    /// What an ARP packet is for (IANA, arp-parameters).
    Operation: u16 {
        /// Who has this address?
        Request = 1,
        /// This station has.
        Reply = 2,
        /// RARP request (RFC 903).
        ReverseRequest = 3,
        /// RARP reply (RFC 903).
        ReverseReply = 4,
    }
}

view! {
    /// An ARP packet for Ethernet and IPv4.
    Packet
    /// Hardware type; 1 is Ethernet.
    hardware_type, set_hardware_type: u16 = field::HARDWARE_TYPE;
    /// Protocol type, as an EtherType.
    protocol_type, set_protocol_type: EtherType = field::PROTOCOL_TYPE;
    /// Bytes of a hardware address.
    hardware_len, set_hardware_len: u8 = field::HARDWARE_LEN;
    /// Bytes of a protocol address.
    protocol_len, set_protocol_len: u8 = field::PROTOCOL_LEN;
    /// Operation.
    operation, set_operation: Operation = field::OPERATION;
    /// Sender's hardware address.
    sender_mac, set_sender_mac: MacAddr = field::SENDER_MAC;
    /// Sender's protocol address.
    sender_ip, set_sender_ip: Ipv4Addr = field::SENDER_IP;
    /// Target's hardware address.
    target_mac, set_target_mac: MacAddr = field::TARGET_MAC;
    /// Target's protocol address.
    target_ip, set_target_ip: Ipv4Addr = field::TARGET_IP;
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Says whether the buffer holds an ARP packet for Ethernet and IPv4.
    ///
    /// # Errors
    /// `Truncated` below 28 bytes; `Differs` for other hardware, protocols or address lengths.
    pub fn check(&self) -> Result<()> {
        holds(LAYER, "packet", PACKET_LEN, self.as_bytes().len())?;
        let number = |ether_type| usize::from(u16::from(ether_type));
        let hardware = usize::from(self.hardware_type());
        equals(LAYER, "hardware type", usize::from(HARDWARE_ETHERNET), hardware)?;
        let (ipv4, protocol) = (number(EtherType::Ipv4), number(self.protocol_type()));
        equals(LAYER, "protocol type", ipv4, protocol)?;
        equals(LAYER, "hardware length", 6, usize::from(self.hardware_len()))?;
        equals(LAYER, "protocol length", 4, usize::from(self.protocol_len()))
    }
}

/// An ARP packet for Ethernet and IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Operation.
    pub operation: Operation,
    /// Sender's hardware address.
    pub sender_mac: MacAddr,
    /// Sender's protocol address.
    pub sender_ip: Ipv4Addr,
    /// Target's hardware address; zeros in a request.
    pub target_mac: MacAddr,
    /// Target's protocol address.
    pub target_ip: Ipv4Addr,
}

impl Repr {
    /// Asks who has `target_ip`.
    pub const fn request(sender_mac: MacAddr, sender_ip: Ipv4Addr, target_ip: Ipv4Addr) -> Repr {
        let target_mac = MacAddr::ZERO;
        Repr { operation: Operation::Request, sender_mac, sender_ip, target_mac, target_ip }
    }

    /// The answer of the station `mac` to this request.
    pub const fn reply(&self, mac: MacAddr) -> Repr {
        Repr {
            operation: Operation::Reply,
            sender_mac: mac,
            sender_ip: self.target_ip,
            target_mac: self.sender_mac,
            target_ip: self.sender_ip,
        }
    }

    /// Takes the values out of a view.
    ///
    /// # Errors
    /// Those of [`Packet::check`].
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr> {
        packet.check()?;
        Ok(Repr {
            operation: packet.operation(),
            sender_mac: packet.sender_mac(),
            sender_ip: packet.sender_ip(),
            target_mac: packet.target_mac(),
            target_ip: packet.target_ip(),
        })
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        PACKET_LEN
    }

    /// Writes the packet.
    ///
    /// # Errors
    /// `NoRoom` if the buffer is shorter than [`Self::buffer_len`].
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) -> Result<()> {
        room(LAYER, "packet", self.buffer_len(), packet.as_bytes().len())?;
        packet.set_hardware_type(HARDWARE_ETHERNET);
        packet.set_protocol_type(EtherType::Ipv4);
        packet.set_hardware_len(6);
        packet.set_protocol_len(4);
        packet.set_operation(self.operation);
        packet.set_sender_mac(self.sender_mac);
        packet.set_sender_ip(self.sender_ip);
        packet.set_target_mac(self.target_mac);
        packet.set_target_ip(self.target_ip);
        Ok(())
    }
}
