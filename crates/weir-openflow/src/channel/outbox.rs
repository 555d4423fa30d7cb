//! Bytes that wait to be written, in one piece, so that a driver can write any part of them.
//!
//! Room: one channel's. The limit is its owner's to keep: it looks at `len` before it appends.

/// The buffer.
#[derive(Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    start: usize,
}

/// Written bytes are cut off once they are so many, and more than what still waits: each byte is
/// then moved less than once on average.
const CUT: usize = 64 * 1024;

impl Outbox {
    /// Bytes that wait.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// All of them.
    pub(super) fn waiting(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Where to append.
    pub(super) fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// The first `n` were written.
    pub(super) fn advance(&mut self, n: usize) {
        self.start = (self.start + n).min(self.bytes.len());
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        } else if self.start >= CUT && self.start > self.len() {
            self.bytes.drain(..self.start);
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
