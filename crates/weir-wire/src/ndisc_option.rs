//! Options of neighbour discovery (RFC 4861 §4.6). Touches bytes. Their lengths count in units of
//! eight bytes.

use core::net::Ipv6Addr;

use crate::error::{Error, Kind, Result, at_least, at_most, equals, holds};
use crate::mac::MacAddr;
use crate::view::{Writer, get, rest};

const LAYER: &str = "ndisc";

mod kind {
    pub const SOURCE: u8 = 1;
    pub const TARGET: u8 = 2;
    pub const PREFIX: u8 = 3;
    pub const REDIRECTED: u8 = 4;
    pub const MTU: u8 = 5;
}

/// A prefix that a router advertises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// Bits of the prefix, 0 to 128; larger values are kept.
    pub prefix_len: u8,
    /// On-link 0x80, autonomous 0x40, as they lie.
    pub flags: u8,
    /// Seconds for which it is valid; all ones is for ever.
    pub valid_s: u32,
    /// Seconds for which it is preferred; all ones is for ever.
    pub preferred_s: u32,
    /// The prefix.
    pub prefix: Ipv6Addr,
}

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NdiscOption<'a> {
    /// Ethernet address of the sender.
    SourceLinkAddr(MacAddr),
    /// Ethernet address of the target.
    TargetLinkAddr(MacAddr),
    /// A prefix of the link.
    Prefix(Prefix),
    /// The packet that made a router redirect, padded to a multiple of 8.
    Redirected(&'a [u8]),
    /// MTU of the link, in bytes.
    Mtu(u32),
    /// Any other, or one whose length its kind does not allow: kind, and the data after the
    /// length.
    Unknown(u8, &'a [u8]),
}

impl NdiscOption<'_> {
    /// Bytes on the wire; for data of the wrong length not a multiple of 8, which is refused.
    pub const fn buffer_len(&self) -> usize {
        match self {
            NdiscOption::SourceLinkAddr(_)
            | NdiscOption::TargetLinkAddr(_)
            | NdiscOption::Mtu(_) => 8,
            NdiscOption::Prefix(_) => 32,
            NdiscOption::Redirected(data) => 8 + data.len(),
            NdiscOption::Unknown(_, data) => 2 + data.len(),
        }
    }

    fn write(&self, out: &mut Writer<'_>) -> Result<()> {
        let len = self.buffer_len();
        equals(LAYER, "option length modulo 8", 0, len % 8)?;
        at_least(LAYER, "option length", 8, len)?;
        at_most(LAYER, "option length", 255 * 8, len)?;
        let units = (len / 8) as u8;
        let mut put = |bytes: &[u8]| out.bytes("option", bytes);
        match *self {
            NdiscOption::SourceLinkAddr(mac) => {
                put(&[kind::SOURCE, units])?;
                put(&mac.octets())
            }
            NdiscOption::TargetLinkAddr(mac) => {
                put(&[kind::TARGET, units])?;
                put(&mac.octets())
            }
            NdiscOption::Prefix(prefix) => {
                put(&[kind::PREFIX, units, prefix.prefix_len, prefix.flags])?;
                put(&prefix.valid_s.to_be_bytes())?;
                put(&prefix.preferred_s.to_be_bytes())?;
                put(&[0; 4])?;
                put(&prefix.prefix.octets())
            }
            NdiscOption::Redirected(data) => {
                put(&[kind::REDIRECTED, units, 0, 0, 0, 0, 0, 0])?;
                put(data)
            }
            NdiscOption::Mtu(mtu) => {
                put(&[kind::MTU, units, 0, 0])?;
                put(&mtu.to_be_bytes())
            }
            NdiscOption::Unknown(option, data) => {
                put(&[option, units])?;
                put(data)
            }
        }
    }
}

/// Writes options one after another; returns the bytes written.
///
/// # Errors
/// `NoRoom`; `Differs` for data that do not fill a multiple of 8; `Above` past 2040 bytes.
pub fn emit_all(options: &[NdiscOption<'_>], out: &mut [u8]) -> Result<usize> {
    let mut out = Writer::new(LAYER, out);
    for option in options {
        option.write(&mut out)?;
    }
    Ok(out.len())
}

/// Iterator over option bytes; ends after an error or the bytes. An option of length zero is an
/// error: the whole packet must be discarded (RFC 4861 §4.6).
#[derive(Debug, Clone)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// Over the bytes behind the fixed part of a message.
    pub const fn new(bytes: &'a [u8]) -> Options<'a> {
        Options { rest: bytes }
    }

    fn step(&mut self) -> Result<NdiscOption<'a>> {
        let have = self.rest.len();
        holds(LAYER, "option", 8, have)?;
        let option: u8 = get(self.rest, 0..1);
        let len = 8 * usize::from(get::<u8>(self.rest, 1..2));
        at_least(LAYER, "option length", 8, len)?;
        let truncated = Error::new(LAYER, "option", Kind::Truncated, len, have);
        let (this, tail) = self.rest.split_at_checked(len).ok_or(truncated)?;
        self.rest = tail;
        Ok(match (option, len) {
            (kind::SOURCE, 8) => NdiscOption::SourceLinkAddr(get(this, 2..8)),
            (kind::TARGET, 8) => NdiscOption::TargetLinkAddr(get(this, 2..8)),
            (kind::PREFIX, 32) => NdiscOption::Prefix(Prefix {
                prefix_len: get(this, 2..3),
                flags: get(this, 3..4),
                valid_s: get(this, 4..8),
                preferred_s: get(this, 8..12),
                prefix: get(this, 16..32),
            }),
            (kind::REDIRECTED, _) => NdiscOption::Redirected(rest(this, 8)),
            (kind::MTU, 8) => NdiscOption::Mtu(get(this, 4..8)),
            _ => NdiscOption::Unknown(option, rest(this, 2)),
        })
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<NdiscOption<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let result = self.step();
        if result.is_err() {
            self.rest = &[];
        }
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_lists_end_with_one_error() {
        let zero_length = [1, 0, 0, 0, 0, 0, 0, 0];
        let too_long = [1, 2, 0, 0, 0, 0, 0, 0];
        for bytes in [&zero_length[..], &too_long, &zero_length[..7]] {
            let options: std::vec::Vec<_> = Options::new(bytes).collect();
            assert_eq!(options.len(), 1);
            assert!(options[0].is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn emit_refuses_ragged_data() {
        let error = emit_all(&[NdiscOption::Unknown(14, &[0; 7])], &mut [0; 64]).unwrap_err();
        assert_eq!((error.kind, error.have), (Kind::Differs, 1));
    }
}
