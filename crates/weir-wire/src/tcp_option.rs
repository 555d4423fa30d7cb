//! TCP options (RFC 9293 §3.2, RFC 7323, RFC 2018). Touches bytes.

use crate::error::{Error, Kind, Result, at_least, at_most, holds};
use crate::tcp::MAX_OPTIONS_LEN;
use crate::view::{Writer, get};

const LAYER: &str = "tcp";

mod kind {
    pub const END: u8 = 0;
    pub const NOP: u8 = 1;
    pub const MAX_SEGMENT_SIZE: u8 = 2;
    pub const WINDOW_SCALE: u8 = 3;
    pub const SACK_PERMITTED: u8 = 4;
    pub const SACK: u8 = 5;
    pub const TIMESTAMPS: u8 = 8;
}

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TcpOption<'a> {
    /// End of the list.
    End,
    /// Padding between options.
    Nop,
    /// The largest segment the sender can take, in bytes.
    MaxSegmentSize(u16),
    /// Binary places the window is shifted by.
    WindowScale(u8),
    /// The sender can use selective acknowledgments.
    SackPermitted,
    /// Selective acknowledgment: blocks of 8 bytes, read by [`sack_blocks`].
    Sack(&'a [u8]),
    /// Timestamp value and echo reply.
    Timestamps(u32, u32),
    /// Any other, or one whose length its kind does not allow: kind and data.
    Unknown(u8, &'a [u8]),
}

impl TcpOption<'_> {
    fn kind(&self) -> u8 {
        match self {
            TcpOption::End => kind::END,
            TcpOption::Nop => kind::NOP,
            TcpOption::MaxSegmentSize(_) => kind::MAX_SEGMENT_SIZE,
            TcpOption::WindowScale(_) => kind::WINDOW_SCALE,
            TcpOption::SackPermitted => kind::SACK_PERMITTED,
            TcpOption::Sack(_) => kind::SACK,
            TcpOption::Timestamps(..) => kind::TIMESTAMPS,
            TcpOption::Unknown(kind, _) => *kind,
        }
    }

    /// Bytes on the wire.
    pub const fn buffer_len(&self) -> usize {
        match self {
            TcpOption::End | TcpOption::Nop => 1,
            TcpOption::MaxSegmentSize(_) => 4,
            TcpOption::WindowScale(_) => 3,
            TcpOption::SackPermitted => 2,
            TcpOption::Timestamps(..) => 10,
            TcpOption::Sack(data) | TcpOption::Unknown(_, data) => 2 + data.len(),
        }
    }

    fn write(&self, out: &mut Writer<'_>) -> Result<()> {
        let len = self.buffer_len();
        at_most(LAYER, "option length", MAX_OPTIONS_LEN, len)?;
        let head = [self.kind(), len as u8];
        if let TcpOption::End | TcpOption::Nop = self {
            return out.bytes("option", &head[..1]);
        }
        out.bytes("option", &head)?;
        match *self {
            TcpOption::MaxSegmentSize(size) => out.bytes("option", &size.to_be_bytes()),
            TcpOption::WindowScale(shift) => out.bytes("option", &[shift]),
            TcpOption::Timestamps(value, echo) => {
                out.bytes("option", &value.to_be_bytes())?;
                out.bytes("option", &echo.to_be_bytes())
            }
            TcpOption::Sack(data) | TcpOption::Unknown(_, data) => out.bytes("option", data),
            TcpOption::End | TcpOption::Nop | TcpOption::SackPermitted => Ok(()),
        }
    }
}

/// The left and right edges of the blocks of a [`TcpOption::Sack`].
pub fn sack_blocks(data: &[u8]) -> impl Iterator<Item = (u32, u32)> {
    data.chunks_exact(8).map(|block| (get(block, 0..4), get(block, 4..8)))
}

/// Writes options and pads them with zeros to a multiple of 4; returns the bytes written.
///
/// # Errors
/// `NoRoom`; `Above` past 40 bytes.
pub fn emit_all(options: &[TcpOption<'_>], out: &mut [u8]) -> Result<usize> {
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

    fn step(&mut self, option: u8, tail: &'a [u8]) -> Result<TcpOption<'a>> {
        if option == kind::END {
            self.rest = &[];
            return Ok(TcpOption::End);
        }
        if option == kind::NOP {
            self.rest = tail;
            return Ok(TcpOption::Nop);
        }
        let have = self.rest.len();
        let truncated = |need| Error::new(LAYER, "option", Kind::Truncated, need, have);
        let len = usize::from(*tail.first().ok_or(truncated(2))?);
        at_least(LAYER, "option length", 2, len)?;
        holds(LAYER, "option", len, have)?;
        let (this, rest) = self.rest.split_at_checked(len).ok_or(truncated(len))?;
        self.rest = rest;
        let data = this.get(2..).unwrap_or(&[]);
        Ok(match (option, data.len()) {
            (kind::MAX_SEGMENT_SIZE, 2) => TcpOption::MaxSegmentSize(get(data, 0..2)),
            (kind::WINDOW_SCALE, 1) => TcpOption::WindowScale(get(data, 0..1)),
            (kind::SACK_PERMITTED, 0) => TcpOption::SackPermitted,
            (kind::SACK, len) if len % 8 == 0 => TcpOption::Sack(data),
            (kind::TIMESTAMPS, 8) => TcpOption::Timestamps(get(data, 0..4), get(data, 4..8)),
            _ => TcpOption::Unknown(option, data),
        })
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<TcpOption<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let (option, tail) = self.rest.split_first()?;
        let result = self.step(*option, tail);
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
        for bytes in [&[2u8][..], &[2, 0], &[2, 1], &[2, 5, 4, 0], &[1, 3, 4, 0]] {
            let options: std::vec::Vec<_> = Options::new(bytes).collect();
            assert!(options.last().unwrap().is_err(), "{bytes:?}");
            assert_eq!(options.iter().filter(|o| o.is_err()).count(), 1);
        }
    }

    #[test]
    fn wrong_lengths_are_kept_as_unknown() {
        let mut options = Options::new(&[2, 3, 5, 5, 3, 1]);
        assert_eq!(options.next(), Some(Ok(TcpOption::Unknown(2, &[5]))));
        assert_eq!(options.next(), Some(Ok(TcpOption::Unknown(5, &[1]))));
    }

    #[test]
    fn emit_pads() {
        let mut out = [0xff; 40];
        let options = [TcpOption::MaxSegmentSize(1460), TcpOption::WindowScale(7)];
        assert_eq!(emit_all(&options, &mut out), Ok(8));
        assert_eq!(out[..8], [2, 4, 5, 0xb4, 3, 3, 7, 0]);
        assert_eq!(emit_all(&options, &mut out[..7]).unwrap_err().kind, Kind::NoRoom);
    }
}
