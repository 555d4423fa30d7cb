//! Message headers, and replies in parts (1.0 §5.1 and §5.3.5; 1.3 §7.1.1 and §7.3.5).
//!
//! Room: `wire`. Called by the codec and the encodings.

use super::Writer;
use crate::codec::EncodeError;
use crate::model::Part;

/// Bytes of a message's header.
pub const HEADER_LEN: usize = 8;
/// Bytes of the longest message: its length has 16 bits.
pub const MAX_LEN: usize = 0xffff;

/// The header of every message of every version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The version's number.
    pub version: u8,
    /// The message's type.
    pub kind: u8,
    /// The message's length, this header included.
    pub length: u16,
    /// The transaction.
    pub xid: u32,
}

impl Header {
    /// Reads a header; `None` where there are fewer than eight bytes.
    pub const fn read(bytes: &[u8]) -> Option<Header> {
        let Some([version, kind, l0, l1, x0, x1, x2, x3]) = bytes.first_chunk::<HEADER_LEN>()
        else {
            return None;
        };
        Some(Header {
            version: *version,
            kind: *kind,
            length: u16::from_be_bytes([*l0, *l1]),
            xid: u32::from_be_bytes([*x0, *x1, *x2, *x3]),
        })
    }
}

/// Begins a message; [`finish`] fills in its length. Returns where it begins.
pub fn start(out: &mut Vec<u8>, version: u8, kind: u8, xid: u32) -> usize {
    let at = out.len();
    let mut w = Writer::new(out);
    w.u8(version);
    w.u8(kind);
    w.u16(0);
    w.u32(xid);
    at
}

/// Ends the message that began at `at`.
///
/// # Errors
/// Where it is longer than a message can be.
pub fn finish(out: &mut Vec<u8>, at: usize) -> Result<(), EncodeError> {
    Writer::new(out).patch_len(at + 2, at).map_err(|len| EncodeError::TooLong { len })
}

/// Writes a whole message, whose body `body` writes.
///
/// # Errors
/// Those of `body`; where the message is too long.
pub fn message(
    out: &mut Vec<u8>,
    version: u8,
    kind: u8,
    xid: u32,
    body: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let at = start(out, version, kind, xid);
    let mut w = Writer::new(out);
    body(&mut w)?;
    w.check()?;
    finish(out, at)
}

/// Where the flags of a statistics (multipart) message lie: behind header and type, in 1.0 and 1.3.
const FLAGS_AT: usize = HEADER_LEN + 2;
/// OFPSF_REPLY_MORE, OFPMPF_REPLY_MORE and OFPMPF_REQ_MORE.
const MORE: u16 = 1;

/// Writes a statistics message as one or several, none longer than [`MAX_LEN`], all of them but the
/// last with the flag MORE. No item is cut in two.
#[derive(Debug)]
pub struct Parts<'a> {
    out: &'a mut Vec<u8>,
    /// Header, type, flags and padding: what every part begins with.
    head: Vec<u8>,
    /// Where the part that is being written begins.
    at: usize,
}

impl<'a> Parts<'a> {
    /// Begins; `head` writes everything that each part begins with, its header first.
    pub fn new(out: &'a mut Vec<u8>, head: impl FnOnce(&mut Vec<u8>)) -> Self {
        let at = out.len();
        head(out);
        let head = out[at..].to_vec();
        Self { out, head, at }
    }

    /// Adds an item, in a new part where the present one has no room.
    ///
    /// # Errors
    /// Those of `write`; where the item alone is longer than a message can be.
    pub fn item(
        &mut self,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let before = self.out.len();
        let mut w = Writer::new(self.out);
        write(&mut w)?;
        w.check()?;
        if self.out.len() - self.at <= MAX_LEN {
            return Ok(());
        }
        let len = self.head.len() + (self.out.len() - before);
        if len > MAX_LEN {
            return Err(EncodeError::TooLong { len });
        }
        self.out.splice(before..before, self.head.iter().copied());
        let mut w = Writer::new(self.out);
        w.patch_u16(self.at + FLAGS_AT, MORE);
        w.patch_u16(self.at + 2, u16::try_from(before - self.at).unwrap_or(u16::MAX));
        self.at = before;
        Ok(())
    }

    /// Ends the last part; `more` says whether the caller has others to follow.
    ///
    /// # Errors
    /// None after [`item`](Self::item) alone; where `new` was given too long a head.
    pub fn finish(self, more: Part) -> Result<(), EncodeError> {
        if more == Part::More {
            Writer::new(self.out).patch_u16(self.at + FLAGS_AT, MORE);
        }
        finish(self.out, self.at)
    }
}
