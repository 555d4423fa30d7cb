//! Bytes that arrived and are not yet messages: bounded, cut into frames by the header's length.
//!
//! Room: one channel's. The only thing that can break framing is a length below a header's (1.0 §5.1, 1.3 §7.1).

use super::Limits;

/// Length of a header.
pub(super) const HEADER: usize = 8;

/// What is at the front.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Front {
    /// Nothing whole yet.
    Partial,
    /// A message of so many bytes.
    Whole(usize),
    /// A header whose length can't be; nothing after it can be told apart.
    Broken,
}

/// The buffer.
#[derive(Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    start: usize,
}

impl Inbox {
    /// Bytes that wait.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// How many more it takes.
    pub(super) fn room(&self) -> usize {
        Limits::INPUT.saturating_sub(self.len())
    }

    /// Takes as many as it has room for, and says how many.
    pub(super) fn push(&mut self, bytes: &[u8]) -> usize {
        let taken = &bytes[..bytes.len().min(self.room())];
        if self.start > 0 && self.bytes.len() + taken.len() > self.bytes.capacity() {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(taken);
        taken.len()
    }

    /// Takes all that waits out.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let Self { mut bytes, start } = std::mem::take(self);
        bytes.drain(..start);
        bytes
    }

    /// Begins with what waited in another, which may have been more than there is room for: then
    /// nothing more is taken until it is less.
    pub(super) fn restore(&mut self, bytes: &[u8]) {
        *self = Self { bytes: bytes.to_vec(), start: 0 };
    }

    /// What is at the front.
    pub(super) fn front(&self) -> Front {
        let bytes = &self.bytes[self.start..];
        let Some(header) = bytes.first_chunk::<HEADER>() else { return Front::Partial };
        match usize::from(u16::from_be_bytes([header[2], header[3]])) {
            ..HEADER => Front::Broken,
            length if length <= bytes.len() => Front::Whole(length),
            _ => Front::Partial,
        }
    }

    /// The first `n` bytes, or as many as there are.
    pub(super) fn peek(&self, n: usize) -> &[u8] {
        let bytes = &self.bytes[self.start..];
        &bytes[..n.min(bytes.len())]
    }

    /// Forgets the first `n` bytes.
    pub(super) fn consume(&mut self, n: usize) {
        self.start = (self.start + n).min(self.bytes.len());
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
    }

    /// Gives memory back where nothing waits.
    pub(super) fn relax(&mut self) {
        if self.len() == 0 {
            *self = Self::default();
        }
    }
}
