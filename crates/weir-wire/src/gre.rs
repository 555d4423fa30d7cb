//! GRE (RFC 2784) with key and sequence number (RFC 2890). Touches bytes. The routing field of
//! RFC 1701 and version 1 (PPTP) are refused.

use crate::checksum::{self, Sum, Verdict};
use crate::error::{Result, equals, holds, room};
use crate::ethernet::EtherType;
use crate::view::{Field, get, put, rest, view};

const LAYER: &str = "gre";

mod field {
    use crate::view::Field;
    pub const FLAGS: Field = 0..2;
    pub const PROTOCOL: Field = 2..4;
    pub const CHECKSUM: Field = 4..6;
}

const CHECKSUM: u16 = 0x8000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;
/// Bits that a receiver must refuse: routing and the rest of bits 1 to 5 that RFC 2890 did not
/// give a meaning (RFC 2784 §2.3).
const REFUSED: u16 = 0x4c00;
const VERSION: u16 = 0x0007;

/// Bytes of a header without options.
pub const HEADER_LEN: usize = field::PROTOCOL.end;

view! {
    /// A GRE packet; the buffer ends where it does.
    Packet
    /// Flags and version in one word.
    flags, set_flags: u16 = field::FLAGS;
    /// What the payload is.
    protocol, set_protocol: EtherType = field::PROTOCOL;
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Says whether the header with the options its flags announce is in the buffer.
    ///
    /// # Errors
    /// `Truncated` if it is not; `Differs` for version 1 and for flags of RFC 1701.
    #[inline]
    pub fn check(&self) -> Result<()> {
        let have = self.as_bytes().len();
        holds(LAYER, "header", HEADER_LEN, have)?;
        equals(LAYER, "version", 0, usize::from(self.flags() & VERSION))?;
        equals(LAYER, "reserved flags", 0, usize::from(self.flags() & REFUSED))?;
        holds(LAYER, "options", self.header_len(), have)
    }

    fn has(&self, flag: u16) -> bool {
        self.flags() & flag != 0
    }

    /// Bytes of the header with its options.
    #[inline]
    pub fn header_len(&self) -> usize {
        let words = [CHECKSUM, KEY, SEQUENCE].into_iter().filter(|flag| self.has(*flag)).count();
        HEADER_LEN + 4 * words
    }

    fn key_at(&self) -> Field {
        let at = HEADER_LEN + 4 * usize::from(self.has(CHECKSUM));
        at..at + 4
    }

    fn sequence_at(&self) -> Field {
        let at = self.key_at().start + 4 * usize::from(self.has(KEY));
        at..at + 4
    }

    /// The key, if there is one.
    #[inline]
    pub fn key(&self) -> Option<u32> {
        self.has(KEY).then(|| get(self.as_bytes(), self.key_at()))
    }

    /// The sequence number, if there is one.
    #[inline]
    pub fn sequence(&self) -> Option<u32> {
        self.has(SEQUENCE).then(|| get(self.as_bytes(), self.sequence_at()))
    }

    /// The checksum, if there is one.
    pub fn checksum(&self) -> Option<u16> {
        self.has(CHECKSUM).then(|| get(self.as_bytes(), field::CHECKSUM))
    }

    /// Looks at the checksum, which covers header and payload.
    pub fn verify_checksum(&self) -> Verdict {
        if !self.has(CHECKSUM) {
            return Verdict::Absent;
        }
        match Sum::new().bytes(self.as_bytes()).is_intact() {
            true => Verdict::Good,
            false => Verdict::Bad,
        }
    }

    /// What follows the header.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        rest(self.as_bytes(), self.header_len())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Computes and writes the checksum over header and payload, if the header has one.
    pub fn fill_checksum(&mut self) {
        if self.has(CHECKSUM) {
            put(self.bytes_mut(), field::CHECKSUM, 0u16);
            let check = checksum::internet(self.as_bytes());
            put(self.bytes_mut(), field::CHECKSUM, check);
        }
    }

    /// What [`Self::payload`] reads, to be written.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let at = self.header_len();
        self.bytes_mut().get_mut(at..).unwrap_or(&mut [])
    }
}

/// A header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// What the payload is.
    pub protocol: EtherType,
    /// The header has a checksum; its value depends on the payload.
    pub checksum: bool,
    /// The key: RFC 2890 leaves its use to the tunnel's ends.
    pub key: Option<u32>,
    /// The sequence number.
    pub sequence: Option<u32>,
}

impl Repr {
    /// A header without options.
    pub const fn new(protocol: EtherType) -> Repr {
        Repr { protocol, checksum: false, key: None, sequence: None }
    }

    /// Takes the header out of a packet.
    ///
    /// # Errors
    /// Those of [`Packet::check`].
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr> {
        packet.check()?;
        Ok(Repr {
            protocol: packet.protocol(),
            checksum: packet.has(CHECKSUM),
            key: packet.key(),
            sequence: packet.sequence(),
        })
    }

    /// Bytes of the header with its options.
    pub const fn buffer_len(&self) -> usize {
        let words =
            self.checksum as usize + self.key.is_some() as usize + self.sequence.is_some() as usize;
        HEADER_LEN + 4 * words
    }

    /// Writes the header with a checksum of zero; see [`Packet::fill_checksum`].
    ///
    /// # Errors
    /// `NoRoom` if the buffer is shorter than [`Self::buffer_len`].
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) -> Result<()> {
        room(LAYER, "header", self.buffer_len(), packet.as_bytes().len())?;
        let flag = |present: bool, flag: u16| if present { flag } else { 0 };
        packet.set_flags(
            flag(self.checksum, CHECKSUM)
                | flag(self.key.is_some(), KEY)
                | flag(self.sequence.is_some(), SEQUENCE),
        );
        packet.set_protocol(self.protocol);
        if self.checksum {
            put(packet.bytes_mut(), HEADER_LEN..HEADER_LEN + 4, 0u32);
        }
        if let Some(key) = self.key {
            let at = packet.key_at();
            put(packet.bytes_mut(), at, key);
        }
        if let Some(sequence) = self.sequence {
            let at = packet.sequence_at();
            put(packet.bytes_mut(), at, sequence);
        }
        Ok(())
    }
}
