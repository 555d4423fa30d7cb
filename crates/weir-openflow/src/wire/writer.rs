//! Writes big-endian numbers behind what a buffer holds already.
//!
//! Room: `wire`. Lengths that are known only at the end are filled in by [`Writer::patch_u16`].
//! A value without a form is noted by [`Writer::fail`] and found by [`Writer::check`], so that a
//! layout need not ask after each field.

use crate::codec::EncodeError;

/// Writes behind what the buffer holds.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    failure: Option<EncodeError>,
}

impl<'a> Writer<'a> {
    /// Appends to `out`.
    pub const fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, failure: None }
    }

    /// Notes that something can't be written; the first time counts.
    pub fn fail(&mut self, why: EncodeError) {
        self.failure.get_or_insert(why);
    }

    /// Whether all could be written.
    ///
    /// # Errors
    /// What [`fail`](Self::fail) noted.
    pub fn check(&mut self) -> Result<(), EncodeError> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Where the next byte goes.
    pub const fn at(&self) -> usize {
        self.out.len()
    }

    /// Bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// So many zero bytes.
    pub fn zeros(&mut self, n: usize) {
        self.out.resize(self.out.len() + n, 0);
    }

    /// An 8-bit number.
    pub fn u8(&mut self, n: u8) {
        self.out.push(n);
    }

    /// A 16-bit number.
    pub fn u16(&mut self, n: u16) {
        self.bytes(&n.to_be_bytes());
    }

    /// A 32-bit number.
    pub fn u32(&mut self, n: u32) {
        self.bytes(&n.to_be_bytes());
    }

    /// A 64-bit number.
    pub fn u64(&mut self, n: u64) {
        self.bytes(&n.to_be_bytes());
    }

    /// The lower `width` bytes of a number, 16 at most.
    pub fn number(&mut self, n: u128, width: usize) {
        let bytes = n.to_be_bytes();
        self.bytes(&bytes[bytes.len().saturating_sub(width)..]);
    }

    /// A text in a field of `n` bytes: cut between characters where it is too long, and always
    /// ended by a zero.
    pub fn text(&mut self, text: &str, n: usize) {
        let mut end = text.len().min(n.saturating_sub(1));
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.bytes(&text.as_bytes()[..end]);
        self.zeros(n - end);
    }

    /// Zeros until what was written since `start` is a multiple of 8.
    pub fn pad_to_8(&mut self, start: usize) {
        let written = self.at().saturating_sub(start);
        self.zeros(written.next_multiple_of(8) - written);
    }

    /// Writes a number over two bytes written before.
    pub fn patch_u16(&mut self, at: usize, n: u16) {
        if let Some(place) = self.out.get_mut(at..at + 2) {
            place.copy_from_slice(&n.to_be_bytes());
        }
    }

    /// Fills in at `place` how much was written since `start`.
    ///
    /// # Errors
    /// The length where it is too large for its field.
    pub fn patch_len(&mut self, place: usize, start: usize) -> Result<(), usize> {
        let len = self.at().saturating_sub(start);
        let short = u16::try_from(len).map_err(|_| len)?;
        self.patch_u16(place, short);
        Ok(())
    }
}
