//! TCP headers (RFC 9293 §3.1). Touches bytes. Options are in [`crate::tcp_option`]. A segment's
//! length is not in its header: the buffer must end where the segment does.

use core::ops::BitOr;

use crate::checksum::PseudoHeader;
use crate::error::{Result, at_least, at_most, equals, holds, room};
use crate::ip::Protocol;
use crate::tcp_option::Options;
use crate::view::{part, part_mut, rest, store, view};

const LAYER: &str = "tcp";

mod field {
    use crate::view::Field;
    pub const SOURCE: Field = 0..2;
    pub const DESTINATION: Field = 2..4;
    pub const SEQ: Field = 4..8;
    pub const ACK: Field = 8..12;
    pub const OFFSET_FLAGS: Field = 12..14;
    pub const WINDOW: Field = 14..16;
    pub const CHECKSUM: Field = 16..18;
    pub const URGENT: Field = 18..20;
}

/// Bytes of a header without options.
pub const HEADER_LEN: usize = field::URGENT.end;

/// The most bytes of options a header holds.
pub const MAX_OPTIONS_LEN: usize = 40;

/// The twelve bits behind the data offset, reserved ones included, as OXM_OF_TCP_FLAGS has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u16);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Flags = Flags(1 << 0);
    /// Sequence numbers begin.
    pub const SYN: Flags = Flags(1 << 1);
    /// The connection is refused or gone.
    pub const RST: Flags = Flags(1 << 2);
    /// Hand this to the user.
    pub const PSH: Flags = Flags(1 << 3);
    /// The acknowledgment number counts.
    pub const ACK: Flags = Flags(1 << 4);
    /// The urgent pointer counts.
    pub const URG: Flags = Flags(1 << 5);
    /// Congestion was noticed (RFC 3168).
    pub const ECE: Flags = Flags(1 << 6);
    /// The congestion window was reduced (RFC 3168).
    pub const CWR: Flags = Flags(1 << 7);
    /// Accurate ECN (RFC 9768), once the nonce sum.
    pub const AE: Flags = Flags(1 << 8);

    /// Whether all bits of `other` are set here.
    #[inline]
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

view! {
    /// A segment; the buffer ends where it does.
    Packet
    /// Source port.
    src_port, set_src_port: u16 = field::SOURCE;
    /// Destination port.
    dst_port, set_dst_port: u16 = field::DESTINATION;
    /// Sequence number.
    seq, set_seq: u32 = field::SEQ;
    /// Acknowledgment number.
    ack, set_ack: u32 = field::ACK;
    /// Data offset and flags in one word.
    offset_flags, set_offset_flags: u16 = field::OFFSET_FLAGS;
    /// Window, not scaled.
    window, set_window: u16 = field::WINDOW;
    /// Checksum.
    checksum, set_checksum: u16 = field::CHECKSUM;
    /// Urgent pointer.
    urgent, set_urgent: u16 = field::URGENT;
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Says whether the header with its options is in the buffer.
    ///
    /// # Errors
    /// `Truncated` if it is not; `Below` if the data offset leaves no room for the fixed fields.
    #[inline]
    pub fn check(&self) -> Result<()> {
        let have = self.as_bytes().len();
        holds(LAYER, "header", HEADER_LEN, have)?;
        at_least(LAYER, "header length", HEADER_LEN, self.header_len())?;
        holds(LAYER, "options", self.header_len(), have)
    }

    /// Bytes of the header with its options.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.offset_flags() >> 12) * 4
    }

    /// The flags.
    #[inline]
    pub fn flags(&self) -> Flags {
        Flags(self.offset_flags() & 0xfff)
    }

    /// The option bytes, padding included.
    pub fn option_bytes(&self) -> &[u8] {
        part(self.as_bytes(), HEADER_LEN..self.header_len())
    }

    /// The options.
    pub fn options(&self) -> Options<'_> {
        Options::new(self.option_bytes())
    }

    /// What follows the header.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        rest(self.as_bytes(), self.header_len())
    }

    /// Whether the checksum is right.
    pub fn has_good_checksum(&self, pseudo: &PseudoHeader) -> bool {
        let bytes = self.as_bytes();
        pseudo.sum(Protocol::Tcp, bytes.len()).bytes(bytes).is_intact()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Writes the flags and leaves the data offset.
    #[inline]
    pub fn set_flags(&mut self, flags: Flags) {
        self.set_offset_flags(self.offset_flags() & 0xf000 | flags.0 & 0xfff);
    }

    /// Computes and writes the checksum over header and payload.
    pub fn fill_checksum(&mut self, pseudo: &PseudoHeader) {
        self.set_checksum(0);
        let bytes = self.as_bytes();
        let check = pseudo.sum(Protocol::Tcp, bytes.len()).bytes(bytes).checksum();
        self.set_checksum(check);
    }

    /// What [`Self::payload`] reads, to be written.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let at = self.header_len();
        self.bytes_mut().get_mut(at..).unwrap_or(&mut [])
    }
}

/// A header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr<'a> {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Flags, 12 bits.
    pub flags: Flags,
    /// Window, not scaled.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Option bytes, padded to a multiple of 4; see [`crate::tcp_option::emit_all`].
    pub options: &'a [u8],
}

impl<'a> Repr<'a> {
    /// A header without options: numbers zero, the widest window.
    pub const fn new(src_port: u16, dst_port: u16, flags: Flags) -> Repr<'a> {
        let window = u16::MAX;
        Repr { src_port, dst_port, seq: 0, ack: 0, flags, window, urgent: 0, options: &[] }
    }

    /// Takes the header out of a segment.
    ///
    /// # Errors
    /// Those of [`Packet::check`].
    pub fn parse<T: AsRef<[u8]> + ?Sized>(packet: &Packet<&'a T>) -> Result<Repr<'a>> {
        packet.check()?;
        Ok(Repr {
            src_port: packet.src_port(),
            dst_port: packet.dst_port(),
            seq: packet.seq(),
            ack: packet.ack(),
            flags: packet.flags(),
            window: packet.window(),
            urgent: packet.urgent(),
            options: part(packet.long_bytes(), HEADER_LEN..packet.header_len()),
        })
    }

    /// Bytes of the header with its options.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Writes the header with a checksum of zero; see [`Packet::fill_checksum`].
    ///
    /// # Errors
    /// `NoRoom`; `Above` if a value does not fit its field; `Differs` if the options are not
    /// padded to a multiple of 4.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) -> Result<()> {
        let header_len = self.buffer_len();
        at_most(LAYER, "options length", MAX_OPTIONS_LEN, self.options.len())?;
        equals(LAYER, "options length modulo 4", 0, self.options.len() % 4)?;
        at_most(LAYER, "flags", 0xfff, usize::from(self.flags.0))?;
        room(LAYER, "header", header_len, packet.as_bytes().len())?;
        packet.set_src_port(self.src_port);
        packet.set_dst_port(self.dst_port);
        packet.set_seq(self.seq);
        packet.set_ack(self.ack);
        packet.set_offset_flags(((header_len / 4) as u16) << 12 | self.flags.0);
        packet.set_window(self.window);
        packet.set_checksum(0);
        packet.set_urgent(self.urgent);
        store(part_mut(packet.bytes_mut(), HEADER_LEN..header_len), self.options);
        Ok(())
    }
}
