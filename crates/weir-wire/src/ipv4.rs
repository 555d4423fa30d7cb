//! IPv4 headers (RFC 791; RFC 2474 and 3168 for DSCP and ECN). Touches bytes. Options are in
//! [`crate::ipv4_option`].

use core::net::Ipv4Addr;

use crate::checksum::{self, Delta, PseudoHeader, Sum, fold_five};
use crate::error::{Result, at_least, at_most, equals, holds, room};
use crate::ip::Protocol;
use crate::ipv4_option::Options;
use crate::view::{part, part_mut, store, view};

const LAYER: &str = "ipv4";

mod field {
    use crate::view::Field;
    pub const VERSION_IHL: Field = 0..1;
    pub const DSCP_ECN: Field = 1..2;
    pub const TOTAL_LEN: Field = 2..4;
    pub const IDENT: Field = 4..6;
    pub const FLAGS_OFFSET: Field = 6..8;
    pub const TTL: Field = 8..9;
    pub const PROTOCOL: Field = 9..10;
    pub const CHECKSUM: Field = 10..12;
    pub const SOURCE: Field = 12..16;
    pub const DESTINATION: Field = 16..20;
}

/// Bytes of a header without options.
pub const HEADER_LEN: usize = field::DESTINATION.end;

/// The most bytes of options a header holds.
pub const MAX_OPTIONS_LEN: usize = 40;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

view! {
    /// An IPv4 packet; the buffer may be longer than it.
    Packet
    /// Version and header length in one byte.
    version_ihl, set_version_ihl: u8 = field::VERSION_IHL;
    /// The whole type-of-service byte: DSCP and ECN.
    tos, set_tos: u8 = field::DSCP_ECN;
    /// Bytes of header and payload, as stated.
    total_len, set_total_len: u16 = field::TOTAL_LEN;
    /// Identification, for reassembly.
    ident, set_ident: u16 = field::IDENT;
    /// Flags and fragment offset in one word.
    flags_offset, set_flags_offset: u16 = field::FLAGS_OFFSET;
    /// Time to live.
    ttl, set_ttl: u8 = field::TTL;
    /// What the payload is.
    protocol, set_protocol: Protocol = field::PROTOCOL;
    /// Header checksum.
    checksum, set_checksum: u16 = field::CHECKSUM;
    /// Source address.
    src, set_src: Ipv4Addr = field::SOURCE;
    /// Destination address.
    dst, set_dst: Ipv4Addr = field::DESTINATION;
}

/// Whether the checksum of a header without options is right; what else it says is not looked at.
#[inline(always)]
pub fn is_intact(header: &[u8; HEADER_LEN]) -> bool {
    fold_five(header) == 0xffff
}

/// The checksum of a header without options, whose own field must be zero.
#[inline(always)]
pub fn header_checksum(header: &[u8; HEADER_LEN]) -> u16 {
    !u16::from_be(fold_five(header))
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Says whether header and payload, as long as they state to be, are in the buffer.
    ///
    /// # Errors
    /// Those of [`Self::check_header`]; `Below` if the total length is shorter than the header,
    /// `Truncated` if the buffer is shorter than the total length.
    #[inline]
    pub fn check(&self) -> Result<()> {
        self.check_header()?;
        let total = usize::from(self.total_len());
        at_least(LAYER, "total length", self.header_len(), total)?;
        holds(LAYER, "packet", total, self.as_bytes().len())
    }

    /// Says whether the header with its options is in the buffer, for packets cut short: those
    /// that ICMP errors quote, and captures.
    ///
    /// # Errors
    /// `Truncated` if it is not; `Differs` for another version; `Below` if the header length
    /// leaves no room for the fixed fields.
    #[inline]
    pub fn check_header(&self) -> Result<()> {
        let have = self.as_bytes().len();
        holds(LAYER, "header", HEADER_LEN, have)?;
        equals(LAYER, "version", 4, usize::from(self.version()))?;
        at_least(LAYER, "header length", HEADER_LEN, self.header_len())?;
        holds(LAYER, "options", self.header_len(), have)
    }

    /// Version: 4.
    #[inline]
    pub fn version(&self) -> u8 {
        self.version_ihl() >> 4
    }

    /// Bytes of the header with its options.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.version_ihl() & 0xf) * 4
    }

    /// Differentiated services code point, 0 to 63.
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.tos() >> 2
    }

    /// Explicit congestion notification, 0 to 3.
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.tos() & 3
    }

    /// Routers must not fragment this.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        self.flags_offset() & DONT_FRAGMENT != 0
    }

    /// This is a fragment and not the last.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.flags_offset() & MORE_FRAGMENTS != 0
    }

    /// Where the payload belongs in the whole, in units of 8 bytes.
    #[inline]
    pub fn fragment_offset(&self) -> u16 {
        self.flags_offset() & OFFSET
    }

    /// Part of a larger packet. Only the first fragment, at offset zero, begins with the header
    /// of [`Self::protocol`].
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.flags_offset() & (MORE_FRAGMENTS | OFFSET) != 0
    }

    /// The option bytes, padding included.
    #[inline]
    pub fn option_bytes(&self) -> &[u8] {
        part(self.as_bytes(), HEADER_LEN..self.header_len())
    }

    /// The options.
    pub fn options(&self) -> Options<'_> {
        Options::new(self.option_bytes())
    }

    /// What follows the header, up to the total length; or up to the end of a buffer that is
    /// shorter than that.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        let bytes = self.as_bytes();
        part(bytes, self.header_len()..usize::from(self.total_len()).min(bytes.len()))
    }

    /// Whether the header checksum is right.
    #[inline]
    pub fn has_good_checksum(&self) -> bool {
        let bytes = self.as_bytes();
        match bytes.first_chunk() {
            Some(header) if self.header_len() == HEADER_LEN => is_intact(header),
            _ => Sum::new().bytes(part(bytes, 0..self.header_len())).is_intact(),
        }
    }

    /// The addresses, for the checksum of the payload.
    #[inline]
    pub fn pseudo_header(&self) -> PseudoHeader {
        PseudoHeader::V4(self.src(), self.dst())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Writes the code point and leaves ECN; bits above the sixth are lost.
    #[inline]
    pub fn set_dscp(&mut self, dscp: u8) {
        self.set_tos(self.tos() & 3 | dscp << 2);
    }

    /// Writes ECN and leaves the code point; bits above the second are lost.
    #[inline]
    pub fn set_ecn(&mut self, ecn: u8) {
        self.set_tos(self.tos() & !3 | ecn & 3);
    }

    /// Computes and writes the header checksum.
    #[inline]
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let header_len = self.header_len();
        let check = checksum::internet(part(self.as_bytes(), 0..header_len));
        self.set_checksum(check);
    }

    /// Takes one from the TTL and mends the checksum. A TTL of 0 stays, with what covers it.
    #[inline(always)]
    pub fn decrement_ttl(&mut self) {
        if let Some(less) = self.ttl().checked_sub(1) {
            let mended = Delta::new().upper_byte_less().apply(self.checksum());
            self.set_ttl(less);
            self.set_checksum(mended);
        }
    }

    /// What [`Self::payload`] reads, to be written.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let end = usize::from(self.total_len()).min(self.as_bytes().len());
        let at = self.header_len()..end;
        part_mut(self.bytes_mut(), at)
    }
}

/// An IPv4 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr<'a> {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// What the payload is.
    pub protocol: Protocol,
    /// Time to live.
    pub ttl: u8,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// Explicit congestion notification, 0 to 3.
    pub ecn: u8,
    /// Identification, for reassembly.
    pub ident: u16,
    /// Routers must not fragment this.
    pub dont_fragment: bool,
    /// A fragment and not the last.
    pub more_fragments: bool,
    /// Where the payload belongs in the whole, in units of 8 bytes.
    pub fragment_offset: u16,
    /// Option bytes, padded to a multiple of 4; see [`crate::ipv4_option::emit_all`].
    pub options: &'a [u8],
    /// Bytes that follow the header.
    pub payload_len: usize,
}

impl<'a> Repr<'a> {
    /// A plain header: TTL 64, don't fragment, everything else zero.
    pub const fn new(
        src: Ipv4Addr,
        dst: Ipv4Addr,
        protocol: Protocol,
        payload_len: usize,
    ) -> Repr<'a> {
        Repr {
            src,
            dst,
            protocol,
            ttl: 64,
            dscp: 0,
            ecn: 0,
            ident: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            options: &[],
            payload_len,
        }
    }

    /// Takes the header out of a packet.
    ///
    /// # Errors
    /// Those of [`Packet::check`].
    pub fn parse<T: AsRef<[u8]> + ?Sized>(packet: &Packet<&'a T>) -> Result<Repr<'a>> {
        packet.check()?;
        Ok(Repr {
            src: packet.src(),
            dst: packet.dst(),
            protocol: packet.protocol(),
            ttl: packet.ttl(),
            dscp: packet.dscp(),
            ecn: packet.ecn(),
            ident: packet.ident(),
            dont_fragment: packet.dont_fragment(),
            more_fragments: packet.more_fragments(),
            fragment_offset: packet.fragment_offset(),
            options: part(packet.long_bytes(), HEADER_LEN..packet.header_len()),
            payload_len: usize::from(packet.total_len()) - packet.header_len(),
        })
    }

    /// Bytes of the header with its options.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Writes the header with its checksum; the payload may come before or after.
    ///
    /// # Errors
    /// `NoRoom`; `Above` if a value does not fit its field; `Differs` if the options are not
    /// padded to a multiple of 4.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) -> Result<()> {
        let header_len = self.buffer_len();
        let total_len = header_len.saturating_add(self.payload_len);
        at_most(LAYER, "options length", MAX_OPTIONS_LEN, self.options.len())?;
        equals(LAYER, "options length modulo 4", 0, self.options.len() % 4)?;
        at_most(LAYER, "dscp", 63, usize::from(self.dscp))?;
        at_most(LAYER, "ecn", 3, usize::from(self.ecn))?;
        at_most(LAYER, "fragment offset", OFFSET.into(), self.fragment_offset.into())?;
        at_most(LAYER, "total length", u16::MAX.into(), total_len)?;
        room(LAYER, "header", header_len, packet.as_bytes().len())?;
        packet.set_version_ihl(0x40 | (header_len / 4) as u8);
        packet.set_tos(self.dscp << 2 | self.ecn);
        packet.set_total_len(total_len as u16);
        packet.set_ident(self.ident);
        packet.set_flags_offset(
            u16::from(self.dont_fragment) << 14
                | u16::from(self.more_fragments) << 13
                | self.fragment_offset,
        );
        packet.set_ttl(self.ttl);
        packet.set_protocol(self.protocol);
        packet.set_src(self.src);
        packet.set_dst(self.dst);
        store(part_mut(packet.bytes_mut(), HEADER_LEN..header_len), self.options);
        packet.fill_checksum();
        Ok(())
    }

    /// The addresses, for the checksum of the payload.
    pub const fn pseudo_header(&self) -> PseudoHeader {
        PseudoHeader::V4(self.src, self.dst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_ttl_goes_down_with_its_checksum(mut header: [u8; HEADER_LEN], ttl: u8) {
            header[0] = 0x45;
            let mut p = Packet::new_unchecked(&mut header[..]);
            p.set_ttl(ttl);
            p.fill_checksum();
            prop_assert!(p.has_good_checksum());
            let mut bare: [u8; HEADER_LEN] = p.as_bytes().try_into().unwrap();
            bare[10..12].fill(0);
            prop_assert_eq!(header_checksum(&bare), p.checksum());
            p.decrement_ttl();
            prop_assert_eq!(p.ttl(), ttl.saturating_sub(1));
            prop_assert!(p.has_good_checksum() && is_intact(&header));
        }
    }
}
