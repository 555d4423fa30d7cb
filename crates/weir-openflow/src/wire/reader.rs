//! Reads big-endian numbers from a slice, never beyond its end.
//!
//! Room: `wire`. The reader knows which error a structure that is too short deserves, so that a
//! decoder is a list of fields with `?` behind each.

use crate::model::ErrorCode;

/// What is left to read of a structure.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    short: ErrorCode,
}

impl<'a> Reader<'a> {
    /// Reads `bytes`; reading beyond them is the error `short`.
    pub const fn new(bytes: &'a [u8], short: ErrorCode) -> Self {
        Self { rest: bytes, short }
    }

    /// How many bytes are left.
    pub const fn len(&self) -> usize {
        self.rest.len()
    }

    /// Whether nothing is left.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What is left, without taking it.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes `n` bytes.
    ///
    /// # Errors
    /// The error given to [`new`](Self::new), as from all methods here, where fewer are left.
    pub const fn take(&mut self, n: usize) -> Result<&'a [u8], ErrorCode> {
        match self.rest.split_at_checked(n) {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(self.short),
        }
    }

    /// Takes all that is left.
    pub const fn take_rest(&mut self) -> &'a [u8] {
        let all = self.rest;
        self.rest = &[];
        all
    }

    /// Takes `n` bytes as a structure of its own, which is too short by the error `short`.
    ///
    /// # Errors
    /// This reader's where fewer are left.
    pub fn within(&mut self, n: usize, short: ErrorCode) -> Result<Reader<'a>, ErrorCode> {
        self.take(n).map(|bytes| Reader::new(bytes, short))
    }

    /// Takes `N` bytes as they are.
    ///
    /// # Errors
    /// Where fewer are left.
    pub const fn array<const N: usize>(&mut self) -> Result<[u8; N], ErrorCode> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(*head)
            }
            None => Err(self.short),
        }
    }

    /// Passes over padding, whatever it holds (1.3 §7: it is not checked).
    ///
    /// # Errors
    /// Where fewer than `n` bytes are left.
    pub const fn skip(&mut self, n: usize) -> Result<(), ErrorCode> {
        match self.take(n) {
            Ok(_) => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// An 8-bit number.
    ///
    /// # Errors
    /// Where nothing is left.
    pub fn u8(&mut self) -> Result<u8, ErrorCode> {
        self.array::<1>().map(|[b]| b)
    }

    /// A 16-bit number.
    ///
    /// # Errors
    /// Where less is left.
    pub fn u16(&mut self) -> Result<u16, ErrorCode> {
        self.array().map(u16::from_be_bytes)
    }

    /// A 32-bit number.
    ///
    /// # Errors
    /// Where less is left.
    pub fn u32(&mut self) -> Result<u32, ErrorCode> {
        self.array().map(u32::from_be_bytes)
    }

    /// A 64-bit number.
    ///
    /// # Errors
    /// Where less is left.
    pub fn u64(&mut self) -> Result<u64, ErrorCode> {
        self.array().map(u64::from_be_bytes)
    }

    /// A text in a field of `n` bytes, which ends at the first zero, and before the last byte. What is
    /// not UTF-8 is read as ASCII with question marks, so that it does not grow.
    ///
    /// # Errors
    /// Where fewer are left.
    pub fn text(&mut self, n: usize) -> Result<String, ErrorCode> {
        let field = self.take(n)?;
        let end = field.iter().position(|b| *b == 0).unwrap_or(n.saturating_sub(1));
        let text = &field[..end];
        Ok(match std::str::from_utf8(text) {
            Ok(text) => text.to_owned(),
            Err(_) => {
                text.iter().map(|b| if b.is_ascii() { char::from(*b) } else { '?' }).collect()
            }
        })
    }

    /// Nothing may be left.
    ///
    /// # Errors
    /// Where something is.
    pub const fn end(&self) -> Result<(), ErrorCode> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.short) }
    }
}

/// A right-aligned number of up to 16 bytes.
pub fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |n, b| n << 8 | u128::from(*b))
}
