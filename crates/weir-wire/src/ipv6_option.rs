//! Options of IPv6's hop-by-hop and destination options headers (RFC 8200 §4.2, RFC 2711 for router
//! alert). Touches bytes. The headers themselves are in [`crate::ipv6_ext`].

use crate::error::{Result, at_most, holds};
use crate::view::{Writer, part};

const LAYER: &str = "ipv6 option";

mod kind {
    pub const PAD1: u8 = 0;
    pub const PADN: u8 = 1;
    pub const ROUTER_ALERT: u8 = 5;
}

/// Where options begin in their header: behind the next header and the length.
pub const OPTIONS_AT: usize = 2;

/// What becomes of a packet with an option that its reader does not know: the two highest bits of
/// the option's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unrecognised {
    /// The option is skipped.
    Skip,
    /// The packet is dropped.
    Drop,
    /// Dropped, and its sender told.
    Tell,
    /// Dropped, and its sender told if the packet was to no group.
    TellUnlessGroup,
}

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ipv6Option<'a> {
    /// A byte of padding.
    Pad1,
    /// Two bytes of padding and more; what lies behind the first two should be zeros.
    PadN(&'a [u8]),
    /// Routers look closer; the value says why, 0 for multicast listener messages.
    RouterAlert(u16),
    /// Any other, or one whose length its kind does not allow: kind and data.
    Unknown(u8, &'a [u8]),
}

impl Ipv6Option<'_> {
    fn kind(&self) -> u8 {
        match self {
            Ipv6Option::Pad1 => kind::PAD1,
            Ipv6Option::PadN(_) => kind::PADN,
            Ipv6Option::RouterAlert(_) => kind::ROUTER_ALERT,
            Ipv6Option::Unknown(kind, _) => *kind,
        }
    }

    /// What is to be done by who does not know it.
    pub fn unrecognised(&self) -> Unrecognised {
        match self.kind() >> 6 {
            0 => Unrecognised::Skip,
            1 => Unrecognised::Drop,
            2 => Unrecognised::Tell,
            _ => Unrecognised::TellUnlessGroup,
        }
    }

    /// Bytes on the wire.
    pub const fn buffer_len(&self) -> usize {
        match self {
            Ipv6Option::Pad1 => 1,
            Ipv6Option::RouterAlert(_) => 4,
            Ipv6Option::PadN(data) | Ipv6Option::Unknown(_, data) => 2 + data.len(),
        }
    }

    fn write(&self, out: &mut Writer<'_>) -> Result<()> {
        let len = self.buffer_len() - 2.min(self.buffer_len());
        at_most(LAYER, "length", usize::from(u8::MAX), len)?;
        match *self {
            Ipv6Option::Pad1 => out.bytes("option", &[kind::PAD1]),
            Ipv6Option::RouterAlert(value) => {
                let [high, low] = value.to_be_bytes();
                out.bytes("option", &[kind::ROUTER_ALERT, 2, high, low])
            }
            Ipv6Option::PadN(data) | Ipv6Option::Unknown(_, data) => {
                out.bytes("option", &[self.kind(), len as u8])?;
                out.bytes("option", data)
            }
        }
    }
}

/// Writes options one after the other, and pads so that a header with them is a multiple of 8
/// bytes long; returns the bytes written.
///
/// # Errors
/// `NoRoom`; `Above` for an option of more than 257 bytes.
pub fn emit_all(options: &[Ipv6Option<'_>], out: &mut [u8]) -> Result<usize> {
    let mut out = Writer::new(LAYER, out);
    for option in options {
        option.write(&mut out)?;
    }
    let end = OPTIONS_AT + out.len();
    let gap = end.next_multiple_of(8) - end;
    match gap.checked_sub(2) {
        Some(zeros) => Ipv6Option::PadN(part(&[0; 6], 0..zeros)).write(&mut out)?,
        None if gap == 1 => Ipv6Option::Pad1.write(&mut out)?,
        None => {}
    }
    Ok(out.len())
}

/// Iterator over option bytes, each with its place among them; ends after an error or the bytes.
#[derive(Debug, Clone)]
pub struct Options<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Options<'a> {
    /// Over the bytes behind a header's first two.
    pub const fn new(bytes: &'a [u8]) -> Options<'a> {
        Options { bytes, at: 0 }
    }

    /// Where the next option begins.
    pub const fn at(&self) -> usize {
        self.at
    }

    fn step(&mut self, option: u8) -> Result<Ipv6Option<'a>> {
        if option == kind::PAD1 {
            self.at += 1;
            return Ok(Ipv6Option::Pad1);
        }
        let have = self.bytes.len();
        holds(LAYER, "length", self.at + 2, have)?;
        let len = usize::from(*self.bytes.get(self.at + 1).unwrap_or(&0));
        let end = self.at + 2 + len;
        holds(LAYER, "option", end, have)?;
        let data = part(self.bytes, self.at + 2..end);
        self.at = end;
        Ok(match (option, data) {
            (kind::PADN, _) => Ipv6Option::PadN(data),
            (kind::ROUTER_ALERT, &[high, low]) => {
                Ipv6Option::RouterAlert(u16::from_be_bytes([high, low]))
            }
            _ => Ipv6Option::Unknown(option, data),
        })
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Ipv6Option<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let option = *self.bytes.get(self.at)?;
        let result = self.step(option);
        if result.is_err() {
            self.at = self.bytes.len();
        }
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn options_are_padded_to_whole_units() {
        let mut out = [0xee; 16];
        // RFC 2711: what every multicast listener message has.
        let len = emit_all(&[Ipv6Option::RouterAlert(0)], &mut out).unwrap();
        assert_eq!(out[..len], [5, 2, 0, 0, 1, 0]);
        let len = emit_all(&[Ipv6Option::Unknown(0x1e, &[7; 3])], &mut out).unwrap();
        assert_eq!(out[..len], [0x1e, 3, 7, 7, 7, 0]);
        let len = emit_all(&[], &mut out).unwrap();
        assert_eq!(out[..len], [1, 4, 0, 0, 0, 0]);
    }

    #[test]
    fn places_and_broken_lists() {
        let mut options = Options::new(&[0, 0xc2, 1, 9, 5, 2, 0, 1]);
        assert_eq!(options.next(), Some(Ok(Ipv6Option::Pad1)));
        assert_eq!(options.at(), 1);
        let unknown = options.next().unwrap().unwrap();
        assert_eq!(unknown, Ipv6Option::Unknown(0xc2, &[9]));
        assert_eq!((unknown.unrecognised(), options.at()), (Unrecognised::TellUnlessGroup, 4));
        assert_eq!(options.next(), Some(Ok(Ipv6Option::RouterAlert(1))));
        assert_eq!(options.next(), None);
        for bytes in [&[1u8][..], &[1, 1], &[0, 0x3e, 4, 0, 0, 0]] {
            let options: Vec<_> = Options::new(bytes).collect();
            assert!(options.last().unwrap().is_err(), "{bytes:?}");
            assert_eq!(options.iter().filter(|o| o.is_err()).count(), 1);
        }
        let does = |kind| Ipv6Option::Unknown(kind, &[]).unrecognised();
        assert_eq!(does(0x3f), Unrecognised::Skip);
        assert_eq!(does(0x40), Unrecognised::Drop);
        assert_eq!(does(0x80), Unrecognised::Tell);
    }
}
