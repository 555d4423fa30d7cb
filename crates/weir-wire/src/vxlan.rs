//! VXLAN (RFC 7348 §5). Touches bytes. A whole Ethernet frame follows the header.

use crate::error::{Result, at_most, equals, holds, room};
use crate::view::{rest, view};

const LAYER: &str = "vxlan";

mod field {
    use crate::view::Field;
    pub const FLAGS: Field = 0..1;
    pub const FLAGS_AND_RESERVED: Field = 0..4;
    pub const VNI_AND_RESERVED: Field = 4..8;
}

/// Bytes of the header.
pub const HEADER_LEN: usize = field::VNI_AND_RESERVED.end;

/// The largest network identifier.
pub const MAX_VNI: u32 = 0xff_ffff;

/// The flag that says the identifier is valid; all others are reserved.
const VALID: u8 = 0x08;

view! {
    /// A VXLAN header and the frame behind it.
    Packet
    /// Flags.
    flags, set_flags: u8 = field::FLAGS;
    /// Identifier and a reserved byte in one word.
    vni_word, set_vni_word: u32 = field::VNI_AND_RESERVED;
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Says whether the buffer holds a header with a valid identifier.
    ///
    /// # Errors
    /// `Truncated` below 8 bytes; `Differs` if the I flag is not set. Other flags and reserved
    /// bits are to be ignored on receipt.
    #[inline]
    pub fn check(&self) -> Result<()> {
        holds(LAYER, "header", HEADER_LEN, self.as_bytes().len())?;
        equals(LAYER, "I flag", VALID.into(), usize::from(self.flags() & VALID))
    }

    /// The network identifier, 24 bits.
    #[inline]
    pub fn vni(&self) -> u32 {
        self.vni_word() >> 8
    }

    /// The frame inside.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        rest(self.as_bytes(), HEADER_LEN)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Writes the identifier; bits above the 24th are lost.
    #[inline]
    pub fn set_vni(&mut self, vni: u32) {
        self.set_vni_word(vni << 8);
    }

    /// What [`Self::payload`] reads, to be written.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        self.bytes_mut().get_mut(HEADER_LEN..).unwrap_or(&mut [])
    }
}

/// A header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// The network identifier, 24 bits.
    pub vni: u32,
}

impl Repr {
    /// Takes the header out of a packet.
    ///
    /// # Errors
    /// Those of [`Packet::check`].
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr> {
        packet.check()?;
        Ok(Repr { vni: packet.vni() })
    }

    /// Bytes of the header.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header.
    ///
    /// # Errors
    /// `NoRoom`; `Above` if the identifier does not fit.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) -> Result<()> {
        room(LAYER, "header", HEADER_LEN, packet.as_bytes().len())?;
        at_most(LAYER, "vni", MAX_VNI as usize, self.vni as usize)?;
        crate::view::put(packet.bytes_mut(), field::FLAGS_AND_RESERVED, u32::from(VALID) << 24);
        packet.set_vni(self.vni);
        Ok(())
    }
}
