//! A byte source that knows where it is, for errors that say so.
//!
//! Room: `capture_file`. Memory grows with what was really read, never with what a length field
//! claims.

use super::CaptureError;
use std::io::{self, Read};

#[derive(Debug)]
pub(super) struct Input<R> {
    from: R,
    offset: u64,
    buffer: Vec<u8>,
}

impl<R: Read> Input<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, offset: 0, buffer: Vec::new() }
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Fills `into` as far as there is something; says how far.
    pub(super) fn read_up_to(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut n = 0;
        while let Some(rest) = into.get_mut(n..).filter(|r| !r.is_empty()) {
            match self.from.read(rest) {
                Ok(0) => break,
                Ok(k) => n += k,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.offset += n as u64;
        Ok(n)
    }

    /// Fills `into`; `at` and `what` are for the error when the file ends before.
    pub(super) fn read(
        &mut self,
        into: &mut [u8],
        at: u64,
        what: &'static str,
    ) -> Result<(), CaptureError> {
        if self.read_up_to(into)? < into.len() {
            return Err(self.cut(at, what));
        }
        Ok(())
    }

    /// The next `n` bytes.
    pub(super) fn take(
        &mut self,
        n: u32,
        at: u64,
        what: &'static str,
    ) -> Result<&[u8], CaptureError> {
        self.buffer.clear();
        let got = self.from.by_ref().take(n.into()).read_to_end(&mut self.buffer)?;
        self.offset += got as u64;
        if got as u64 != u64::from(n) {
            return Err(self.cut(at, what));
        }
        Ok(&self.buffer)
    }

    /// Reads over the next `n` bytes.
    pub(super) fn skip(&mut self, n: u32, at: u64, what: &'static str) -> Result<(), CaptureError> {
        let got = io::copy(&mut self.from.by_ref().take(n.into()), &mut io::sink())?;
        self.offset += got;
        if got != u64::from(n) {
            return Err(self.cut(at, what));
        }
        Ok(())
    }

    /// What the last [`Input::take`] read.
    pub(super) fn taken(&self) -> &[u8] {
        &self.buffer
    }

    fn cut(&self, at: u64, what: &'static str) -> CaptureError {
        CaptureError::CutShort { at, end: self.offset, what, frames: 0 }
    }
}
