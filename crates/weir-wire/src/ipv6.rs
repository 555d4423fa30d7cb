//! IPv6 headers (RFC 8200 §3). Touches bytes. Extension headers are in [`crate::ipv6_ext`].
//! Jumbograms (RFC 2675) are not supported: their payload length of zero is taken as it stands.

use core::net::Ipv6Addr;

use crate::checksum::PseudoHeader;
use crate::error::{Result, at_most, equals, holds, room};
use crate::ip::Protocol;
use crate::view::{part, part_mut, view};

const LAYER: &str = "ipv6";

mod field {
    use crate::view::Field;
    pub const VERSION_CLASS_LABEL: Field = 0..4;
    pub const PAYLOAD_LEN: Field = 4..6;
    pub const NEXT_HEADER: Field = 6..7;
    pub const HOP_LIMIT: Field = 7..8;
    pub const SOURCE: Field = 8..24;
    pub const DESTINATION: Field = 24..40;
}

/// Bytes of the fixed header.
pub const HEADER_LEN: usize = field::DESTINATION.end;

/// The largest flow label.
pub const MAX_FLOW_LABEL: u32 = 0xf_ffff;

view! {
    /// An IPv6 packet; the buffer may be longer than it.
    Packet
    /// Version, traffic class and flow label in one word.
    version_class_label, set_version_class_label: u32 = field::VERSION_CLASS_LABEL;
    /// Bytes after the fixed header, as stated.
    payload_len, set_payload_len: u16 = field::PAYLOAD_LEN;
    /// What follows the fixed header: an extension header or the payload.
    next_header, set_next_header: Protocol = field::NEXT_HEADER;
    /// Hop limit.
    hop_limit, set_hop_limit: u8 = field::HOP_LIMIT;
    /// Source address.
    src, set_src: Ipv6Addr = field::SOURCE;
    /// Destination address; with segments left in a routing header not the final one.
    dst, set_dst: Ipv6Addr = field::DESTINATION;
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Says whether header and payload, as long as it states to be, are in the buffer.
    ///
    /// # Errors
    /// Those of [`Self::check_header`]; `Truncated` if the buffer is shorter than the payload
    /// length says.
    #[inline]
    pub fn check(&self) -> Result<()> {
        self.check_header()?;
        holds(LAYER, "packet", self.total_len(), self.as_bytes().len())
    }

    /// Says whether the fixed header is in the buffer, for packets cut short.
    ///
    /// # Errors
    /// `Truncated` below 40 bytes; `Differs` for another version.
    #[inline]
    pub fn check_header(&self) -> Result<()> {
        holds(LAYER, "header", HEADER_LEN, self.as_bytes().len())?;
        equals(LAYER, "version", 6, usize::from(self.version()))
    }

    /// Version: 6.
    #[inline]
    pub fn version(&self) -> u8 {
        (self.version_class_label() >> 28) as u8
    }

    /// The whole traffic class: DSCP and ECN.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (self.version_class_label() >> 20) as u8
    }

    /// Differentiated services code point, 0 to 63.
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// Explicit congestion notification, 0 to 3.
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.traffic_class() & 3
    }

    /// Flow label, 20 bits.
    #[inline]
    pub fn flow_label(&self) -> u32 {
        self.version_class_label() & MAX_FLOW_LABEL
    }

    /// Bytes of fixed header and payload, as stated.
    #[inline]
    pub fn total_len(&self) -> usize {
        HEADER_LEN + usize::from(self.payload_len())
    }

    /// What follows the fixed header, extension headers included, up to the stated length; or up
    /// to the end of a buffer that is shorter than that.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        let bytes = self.as_bytes();
        part(bytes, HEADER_LEN..self.total_len().min(bytes.len()))
    }

    /// The addresses, for the checksum of the payload; with segments left in a routing header the
    /// final destination stands for the second ([`crate::ipv6_ext::Walk::final_destination`]).
    #[inline]
    pub fn pseudo_header(&self) -> PseudoHeader {
        PseudoHeader::V6(self.src(), self.dst())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Writes the traffic class and leaves version and label.
    #[inline]
    pub fn set_traffic_class(&mut self, class: u8) {
        let word = self.version_class_label() & 0xf00f_ffff;
        self.set_version_class_label(word | u32::from(class) << 20);
    }

    /// Writes the code point and leaves ECN; bits above the sixth are lost.
    #[inline]
    pub fn set_dscp(&mut self, dscp: u8) {
        self.set_traffic_class(self.traffic_class() & 3 | dscp << 2);
    }

    /// Writes ECN and leaves the code point; bits above the second are lost.
    #[inline]
    pub fn set_ecn(&mut self, ecn: u8) {
        self.set_traffic_class(self.traffic_class() & !3 | ecn & 3);
    }

    /// Writes the flow label; bits above the twentieth are lost.
    #[inline]
    pub fn set_flow_label(&mut self, label: u32) {
        let word = self.version_class_label() & !MAX_FLOW_LABEL;
        self.set_version_class_label(word | label & MAX_FLOW_LABEL);
    }

    /// What [`Self::payload`] reads, to be written.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let end = self.total_len().min(self.as_bytes().len());
        part_mut(self.bytes_mut(), HEADER_LEN..end)
    }
}

/// A fixed IPv6 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// What follows the fixed header.
    pub next_header: Protocol,
    /// Hop limit.
    pub hop_limit: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Bytes that follow the fixed header, extension headers included.
    pub payload_len: usize,
}

impl Repr {
    /// A plain header: hop limit 64, everything else zero.
    pub const fn new(
        src: Ipv6Addr,
        dst: Ipv6Addr,
        next_header: Protocol,
        payload_len: usize,
    ) -> Repr {
        Repr { src, dst, next_header, hop_limit: 64, traffic_class: 0, flow_label: 0, payload_len }
    }

    /// Takes the header out of a packet.
    ///
    /// # Errors
    /// Those of [`Packet::check`].
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr> {
        packet.check()?;
        Ok(Repr {
            src: packet.src(),
            dst: packet.dst(),
            next_header: packet.next_header(),
            hop_limit: packet.hop_limit(),
            traffic_class: packet.traffic_class(),
            flow_label: packet.flow_label(),
            payload_len: usize::from(packet.payload_len()),
        })
    }

    /// Bytes of the fixed header.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the fixed header.
    ///
    /// # Errors
    /// `NoRoom`; `Above` if the label or the payload length does not fit.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) -> Result<()> {
        room(LAYER, "header", HEADER_LEN, packet.as_bytes().len())?;
        at_most(LAYER, "flow label", MAX_FLOW_LABEL as usize, self.flow_label as usize)?;
        at_most(LAYER, "payload length", u16::MAX.into(), self.payload_len)?;
        packet.set_version_class_label(
            6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label,
        );
        packet.set_payload_len(self.payload_len as u16);
        packet.set_next_header(self.next_header);
        packet.set_hop_limit(self.hop_limit);
        packet.set_src(self.src);
        packet.set_dst(self.dst);
        Ok(())
    }

    /// The addresses, for the checksum of the payload; with segments left in a routing header the
    /// final destination stands for the second ([`crate::ipv6_ext::Walk::final_destination`]).
    pub const fn pseudo_header(&self) -> PseudoHeader {
        PseudoHeader::V6(self.src, self.dst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setters_leave_neighbours_alone() {
        let mut bytes = [0xff; 40];
        let mut packet = Packet::new_unchecked(&mut bytes[..]);
        packet.set_dscp(1);
        packet.set_ecn(2);
        packet.set_flow_label(0x12345);
        assert_eq!((packet.version(), packet.traffic_class()), (15, 0b110));
        assert_eq!(packet.flow_label(), 0x12345);
    }
}
