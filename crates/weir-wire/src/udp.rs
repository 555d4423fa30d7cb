//! UDP (RFC 768). Touches bytes.

use crate::checksum::{PseudoHeader, Verdict};
use crate::error::{Result, at_least, at_most, holds, room};
use crate::ip::Protocol;
use crate::view::{part, part_mut, view};

const LAYER: &str = "udp";

mod field {
    use crate::view::Field;
    pub const SOURCE: Field = 0..2;
    pub const DESTINATION: Field = 2..4;
    pub const LENGTH: Field = 4..6;
    pub const CHECKSUM: Field = 6..8;
}

/// Bytes of the header.
pub const HEADER_LEN: usize = field::CHECKSUM.end;

/// The port of VXLAN (RFC 7348 §5).
pub const VXLAN_PORT: u16 = 4789;

view! {
    /// A datagram; the buffer may be longer than it.
    Packet
    /// Source port.
    src_port, set_src_port: u16 = field::SOURCE;
    /// Destination port.
    dst_port, set_dst_port: u16 = field::DESTINATION;
    /// Bytes of header and payload, as stated.
    length, set_length: u16 = field::LENGTH;
    /// Checksum; zero if the sender made none.
    checksum, set_checksum: u16 = field::CHECKSUM;
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Says whether header and payload, as long as they state to be, are in the buffer.
    ///
    /// # Errors
    /// Those of [`Self::check_header`]; `Below` if the length is shorter than the header,
    /// `Truncated` if the buffer is shorter than the length.
    #[inline]
    pub fn check(&self) -> Result<()> {
        self.check_header()?;
        let length = usize::from(self.length());
        at_least(LAYER, "length", HEADER_LEN, length)?;
        holds(LAYER, "datagram", length, self.as_bytes().len())
    }

    /// Says whether the header is in the buffer, for first fragments and quoted packets.
    ///
    /// # Errors
    /// `Truncated` below 8 bytes.
    #[inline]
    pub fn check_header(&self) -> Result<()> {
        holds(LAYER, "header", HEADER_LEN, self.as_bytes().len())
    }

    /// What follows the header, up to the length; or up to the end of a shorter buffer.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        let bytes = self.as_bytes();
        part(bytes, HEADER_LEN..usize::from(self.length()).min(bytes.len()))
    }

    /// Looks at the checksum. Over IPv6 an absent one is only allowed to tunnels (RFC 6935).
    pub fn verify_checksum(&self, pseudo: &PseudoHeader) -> Verdict {
        if self.checksum() == 0 {
            return Verdict::Absent;
        }
        let length = usize::from(self.length());
        let bytes = part(self.as_bytes(), 0..length);
        match pseudo.sum(Protocol::Udp, length).bytes(bytes).is_intact() {
            true => Verdict::Good,
            false => Verdict::Bad,
        }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Computes and writes the checksum over header and payload; never zero.
    pub fn fill_checksum(&mut self, pseudo: &PseudoHeader) {
        self.set_checksum(0);
        let length = usize::from(self.length());
        let bytes = part(self.as_bytes(), 0..length);
        let check = pseudo.sum(Protocol::Udp, length).bytes(bytes).checksum();
        self.set_checksum(if check == 0 { 0xffff } else { check });
    }

    /// What [`Self::payload`] reads, to be written.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let end = usize::from(self.length()).min(self.as_bytes().len());
        part_mut(self.bytes_mut(), HEADER_LEN..end)
    }
}

/// A header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Bytes that follow the header.
    pub payload_len: usize,
}

impl Repr {
    /// Takes the header out of a datagram.
    ///
    /// # Errors
    /// Those of [`Packet::check`].
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr> {
        packet.check()?;
        Ok(Repr {
            src_port: packet.src_port(),
            dst_port: packet.dst_port(),
            payload_len: usize::from(packet.length()) - HEADER_LEN,
        })
    }

    /// Bytes of the header.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header without checksum; see [`Packet::fill_checksum`].
    ///
    /// # Errors
    /// `NoRoom`; `Above` if the length does not fit.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) -> Result<()> {
        let length = HEADER_LEN.saturating_add(self.payload_len);
        room(LAYER, "header", HEADER_LEN, packet.as_bytes().len())?;
        at_most(LAYER, "length", u16::MAX.into(), length)?;
        packet.set_src_port(self.src_port);
        packet.set_dst_port(self.dst_port);
        packet.set_length(length as u16);
        packet.set_checksum(0);
        Ok(())
    }
}
