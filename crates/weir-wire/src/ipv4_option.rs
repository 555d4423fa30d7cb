//! IPv4 options (RFC 791 §3.1, RFC 2113 for router alert). Touches bytes.

use crate::error::{Error, Kind, Result, at_least, at_most, holds};
use crate::ipv4::MAX_OPTIONS_LEN;
use crate::view::Writer;

const LAYER: &str = "ipv4";

/// Option kinds (IANA, ip-parameters).
pub mod kind {
    /// End of the list.
    pub const END: u8 = 0;
    /// Padding between options.
    pub const NOP: u8 = 1;
    /// Routers write their addresses.
    pub const RECORD_ROUTE: u8 = 7;
    /// Routers write the time.
    pub const TIMESTAMP: u8 = 68;
    /// Loose source route.
    pub const LOOSE_SOURCE_ROUTE: u8 = 131;
    /// Strict source route.
    pub const STRICT_SOURCE_ROUTE: u8 = 137;
    /// Routers look closer.
    pub const ROUTER_ALERT: u8 = 148;
}

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ipv4Option<'a> {
    /// End of the list.
    End,
    /// Padding between options.
    Nop,
    /// Routers write their addresses: pointer (from 4) and route data.
    RecordRoute(u8, &'a [u8]),
    /// Loose source route: pointer and route data.
    LooseSourceRoute(u8, &'a [u8]),
    /// Strict source route: pointer and route data.
    StrictSourceRoute(u8, &'a [u8]),
    /// Timestamps: pointer (from 5), overflow count and flags in one byte, data.
    Timestamp(u8, u8, &'a [u8]),
    /// Routers look closer; the value is 0 in RFC 2113.
    RouterAlert(u16),
    /// Any other, or one whose length its kind does not allow: kind and data.
    Unknown(u8, &'a [u8]),
}

impl Ipv4Option<'_> {
    fn kind(&self) -> u8 {
        match self {
            Ipv4Option::End => kind::END,
            Ipv4Option::Nop => kind::NOP,
            Ipv4Option::RecordRoute(..) => kind::RECORD_ROUTE,
            Ipv4Option::LooseSourceRoute(..) => kind::LOOSE_SOURCE_ROUTE,
            Ipv4Option::StrictSourceRoute(..) => kind::STRICT_SOURCE_ROUTE,
            Ipv4Option::Timestamp(..) => kind::TIMESTAMP,
            Ipv4Option::RouterAlert(_) => kind::ROUTER_ALERT,
            Ipv4Option::Unknown(kind, _) => *kind,
        }
    }

    /// Bytes on the wire.
    pub const fn buffer_len(&self) -> usize {
        match self {
            Ipv4Option::End | Ipv4Option::Nop => 1,
            Ipv4Option::RecordRoute(_, data)
            | Ipv4Option::LooseSourceRoute(_, data)
            | Ipv4Option::StrictSourceRoute(_, data) => 3 + data.len(),
            Ipv4Option::Timestamp(_, _, data) => 4 + data.len(),
            Ipv4Option::RouterAlert(_) => 4,
            Ipv4Option::Unknown(_, data) => 2 + data.len(),
        }
    }

    fn write(&self, out: &mut Writer<'_>) -> Result<()> {
        let len = self.buffer_len();
        at_most(LAYER, "option length", MAX_OPTIONS_LEN, len)?;
        let head = [self.kind(), len as u8];
        match *self {
            Ipv4Option::End | Ipv4Option::Nop => return out.bytes("option", &head[..1]),
            _ => out.bytes("option", &head)?,
        }
        match *self {
            Ipv4Option::RecordRoute(pointer, data)
            | Ipv4Option::LooseSourceRoute(pointer, data)
            | Ipv4Option::StrictSourceRoute(pointer, data) => {
                out.bytes("option", &[pointer])?;
                out.bytes("option", data)
            }
            Ipv4Option::Timestamp(pointer, flags, data) => {
                out.bytes("option", &[pointer, flags])?;
                out.bytes("option", data)
            }
            Ipv4Option::RouterAlert(value) => out.bytes("option", &value.to_be_bytes()),
            Ipv4Option::Unknown(_, data) => out.bytes("option", data),
            Ipv4Option::End | Ipv4Option::Nop => Ok(()),
        }
    }
}

/// Writes options and pads them with zeros to a multiple of 4; returns the bytes written.
///
/// # Errors
/// `NoRoom`; `Above` past 40 bytes.
pub fn emit_all(options: &[Ipv4Option<'_>], out: &mut [u8]) -> Result<usize> {
    let mut out = Writer::new(LAYER, out);
    for option in options {
        option.write(&mut out)?;
    }
    while !out.len().is_multiple_of(4) {
        out.bytes("option padding", &[kind::END])?;
    }
    at_most(LAYER, "options length", MAX_OPTIONS_LEN, out.len())?;
    Ok(out.len())
}

/// Iterator over option bytes; ends after an end-of-list, an error, or the bytes.
#[derive(Debug, Clone)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// Over the bytes between the fixed header and the payload.
    pub const fn new(bytes: &'a [u8]) -> Options<'a> {
        Options { rest: bytes }
    }

    fn step(&mut self, option: u8, tail: &'a [u8]) -> Result<Ipv4Option<'a>> {
        if option == kind::END {
            self.rest = &[];
            return Ok(Ipv4Option::End);
        }
        if option == kind::NOP {
            self.rest = tail;
            return Ok(Ipv4Option::Nop);
        }
        let have = self.rest.len();
        let truncated = |need| Error::new(LAYER, "option", Kind::Truncated, need, have);
        let len = usize::from(*tail.first().ok_or(truncated(2))?);
        at_least(LAYER, "option length", 2, len)?;
        holds(LAYER, "option", len, have)?;
        let (this, rest) = self.rest.split_at_checked(len).ok_or(truncated(len))?;
        self.rest = rest;
        let data = this.get(2..).unwrap_or(&[]);
        Ok(match (option, data) {
            (kind::RECORD_ROUTE, [pointer, data @ ..]) => Ipv4Option::RecordRoute(*pointer, data),
            (kind::LOOSE_SOURCE_ROUTE, [pointer, data @ ..]) => {
                Ipv4Option::LooseSourceRoute(*pointer, data)
            }
            (kind::STRICT_SOURCE_ROUTE, [pointer, data @ ..]) => {
                Ipv4Option::StrictSourceRoute(*pointer, data)
            }
            (kind::TIMESTAMP, [pointer, flags, data @ ..]) => {
                Ipv4Option::Timestamp(*pointer, *flags, data)
            }
            (kind::ROUTER_ALERT, &[high, low]) => {
                Ipv4Option::RouterAlert(u16::from_be_bytes([high, low]))
            }
            _ => Ipv4Option::Unknown(option, data),
        })
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Ipv4Option<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let (option, tail) = self.rest.split_first()?;
        let result = self.step(*option, tail);
        if result.is_err() {
            self.rest = &[];
        }
        Some(result)
    }
}

/// An option of more than a byte, by where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// Its kind.
    pub kind: u8,
    /// Where it begins, in the bytes given.
    pub at: usize,
    /// How long it is with kind and length, at least 2.
    pub len: usize,
}

/// The option of more than a byte that begins at `from` or behind padding there; `None` at the
/// list's end. For who writes into options: the next is looked for from its end on.
///
/// # Errors
/// The place of the byte at fault: a length below 2 or past the end, or a kind without one.
pub fn place(bytes: &[u8], from: usize) -> core::result::Result<Option<Place>, usize> {
    let mut at = from;
    loop {
        match bytes.get(at) {
            None | Some(&kind::END) => return Ok(None),
            Some(&kind::NOP) => at += 1,
            Some(&kind) => {
                let len = usize::from(*bytes.get(at + 1).ok_or(at)?);
                let fits = len >= 2 && at + len <= bytes.len();
                return if fits { Ok(Some(Place { kind, at, len })) } else { Err(at + 1) };
            }
        }
    }
}

/// The options of these kinds among others, one behind the other and padded to a multiple of 4. A broken option ends the list, as its end does;
/// what is padding goes.
pub fn select<'a>(
    options: &[u8],
    wanted: impl Fn(u8) -> bool,
    out: &'a mut [u8; MAX_OPTIONS_LEN],
) -> &'a mut [u8] {
    out.fill(kind::END);
    let (mut from, mut len) = (0, 0);
    while let Ok(Some(p)) = place(options, from) {
        from = p.at + p.len;
        if wanted(p.kind)
            && let Some(option) = options.get(p.at..from)
            && let Some(to) = out.get_mut(len..len + p.len)
        {
            to.copy_from_slice(option);
            len += p.len;
        }
    }
    out.get_mut(..len.next_multiple_of(4)).unwrap_or(&mut [])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_lists_end_with_one_error() {
        for bytes in [&[7u8][..], &[7, 0], &[7, 1, 4], &[7, 9, 4, 0], &[1, 1, 148, 4, 0]] {
            let options: std::vec::Vec<_> = Options::new(bytes).collect();
            assert!(options.last().unwrap().is_err(), "{bytes:?}");
            assert_eq!(options.iter().filter(|o| o.is_err()).count(), 1);
        }
    }

    #[test]
    fn places_of_options() {
        let bytes = [1, 7, 3, 4, 1, 1, 68, 4, 5, 0, 0, 7, 0];
        let (first, second) = (Place { kind: 7, at: 1, len: 3 }, Place { kind: 68, at: 6, len: 4 });
        assert_eq!(place(&bytes, 0), Ok(Some(first)));
        assert_eq!(place(&bytes, 4), Ok(Some(second)));
        assert_eq!((place(&bytes, 10), place(&bytes, 13)), (Ok(None), Ok(None)));
        for (bytes, at) in [(&[7u8][..], 0), (&[1, 7, 0], 2), (&[7, 1, 4], 1), (&[7, 4, 4], 1)] {
            assert_eq!(place(bytes, 0), Err(at), "{bytes:?}");
        }
    }

    #[test]
    fn some_of_many() {
        let copied = |kind: u8| kind & 0x80 != 0;
        let mut out = [0xee; MAX_OPTIONS_LEN];
        // Record route is not copied, router alert is; NOP separates, END ends.
        let options = [1, 7, 7, 4, 0, 0, 0, 0, 148, 4, 0, 0, 0, 148, 4, 0];
        assert_eq!(select(&options, copied, &mut out), [148, 4, 0, 0]);
        assert_eq!(select(&options, |kind| kind == 7, &mut out), [7, 7, 4, 0, 0, 0, 0, 0]);
        for broken in [&[148u8][..], &[148, 0], &[148, 1, 148, 4], &[148, 40, 1], &[131; 40]] {
            assert!(select(broken, copied, &mut out).is_empty(), "{broken:?}");
        }
        // More than a header holds.
        assert_eq!(select(&[131, 3, 4].repeat(20), copied, &mut out).len(), MAX_OPTIONS_LEN);
    }

    #[test]
    fn nothing_is_read_behind_the_end() {
        let options: std::vec::Vec<_> = Options::new(&[1, 0, 7, 0]).collect();
        assert_eq!(options, [Ok(Ipv4Option::Nop), Ok(Ipv4Option::End)]);
    }
}
