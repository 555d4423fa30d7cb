//! SCTP's common header and its CRC32c (RFC 9260 §3.1, appendix A). Touches bytes. Chunks are
//! opaque. A packet's length is not in its header: the buffer must end where the packet does.

use crate::checksum::crc32c::Crc;
use crate::error::{Result, holds, room};
use crate::view::{part, rest, view};

const LAYER: &str = "sctp";

mod field {
    use crate::view::Field;
    pub const SOURCE: Field = 0..2;
    pub const DESTINATION: Field = 2..4;
    pub const TAG: Field = 4..8;
    pub const CHECKSUM: Field = 8..12;
}

/// Bytes of the common header.
pub const HEADER_LEN: usize = field::CHECKSUM.end;

view! {
    /// A packet; the buffer ends where it does.
    Packet
    /// Source port.
    src_port, set_src_port: u16 = field::SOURCE;
    /// Destination port.
    dst_port, set_dst_port: u16 = field::DESTINATION;
    /// Verification tag.
    tag, set_tag: u32 = field::TAG;
    /// The checksum's four bytes as a big-endian word. The CRC itself is sent the other way
    /// round, so this is `crc.swap_bytes()`.
    checksum, set_checksum: u32 = field::CHECKSUM;
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Says whether the common header is in the buffer.
    ///
    /// # Errors
    /// `Truncated` below 12 bytes.
    #[inline]
    pub fn check(&self) -> Result<()> {
        holds(LAYER, "header", HEADER_LEN, self.as_bytes().len())
    }

    /// The chunks.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        rest(self.as_bytes(), HEADER_LEN)
    }

    fn computed(&self) -> u32 {
        let head = part(self.as_bytes(), 0..field::CHECKSUM.start);
        Crc::new().bytes(head).bytes(&[0; 4]).bytes(self.payload()).finish().swap_bytes()
    }

    /// Whether the checksum is right.
    pub fn has_good_checksum(&self) -> bool {
        self.checksum() == self.computed()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Computes and writes the checksum over header and chunks.
    pub fn fill_checksum(&mut self) {
        let check = self.computed();
        self.set_checksum(check);
    }

    /// What [`Self::payload`] reads, to be written.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        self.bytes_mut().get_mut(HEADER_LEN..).unwrap_or(&mut [])
    }
}

/// A common header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Verification tag.
    pub tag: u32,
}

impl Repr {
    /// Takes the header out of a packet.
    ///
    /// # Errors
    /// Those of [`Packet::check`].
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr> {
        packet.check()?;
        Ok(Repr { src_port: packet.src_port(), dst_port: packet.dst_port(), tag: packet.tag() })
    }

    /// Bytes of the header.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header with a checksum of zero; see [`Packet::fill_checksum`].
    ///
    /// # Errors
    /// `NoRoom` if the buffer is shorter than the header.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) -> Result<()> {
        room(LAYER, "header", HEADER_LEN, packet.as_bytes().len())?;
        packet.set_src_port(self.src_port);
        packet.set_dst_port(self.dst_port);
        packet.set_tag(self.tag);
        packet.set_checksum(0);
        Ok(())
    }
}
