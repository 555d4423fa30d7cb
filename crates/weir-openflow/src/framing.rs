//! Cuts a byte stream into messages.
//!
//! Room: between a connection's bytes and the [`codec`](crate::codec). No I/O, no meaning but the
//! header's length. Called by the channel with whatever the transport gave.
//!
//! Messages that lie whole in what was given are handed out from there, uncopied; only the one at
//! its end, whose rest has not come yet, is kept: 64 KiB at most.

use crate::codec::DecodeError;
use crate::model::ErrorCode;
use crate::wire::{HEADER_LEN, Header};

/// Room kept between messages; what a longer message took is given back.
const KEEP: usize = 4096;

/// A header whose length is smaller than the header: nothing behind it can be told apart, so the
/// stream is at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message says that it has {} bytes, fewer than its header", .header.length)]
pub struct FramingError {
    /// The header that lies.
    pub header: Header,
}

impl FramingError {
    /// The error to send before hanging up: BAD_LEN, with the header as its data.
    pub fn as_decode_error(&self) -> DecodeError {
        let h = self.header;
        let (l, x) = (h.length.to_be_bytes(), h.xid.to_be_bytes());
        let frame = [h.version, h.kind, l[0], l[1], x[0], x[1], x[2], x[3]];
        DecodeError::new(&frame, ErrorCode::BadLen)
    }
}

/// Cuts one direction of one connection.
#[derive(Debug, Default)]
pub struct Framer {
    /// The beginning of a message, or, until the next call, the one just handed out.
    partial: Vec<u8>,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    /// `partial` is what came of a message so far.
    #[default]
    Gathering,
    /// `partial` was handed out.
    HandedOut,
    /// The stream is at its end.
    Lost(FramingError),
}

impl Framer {
    /// A framer at a stream's beginning.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of a message whose rest has not come.
    pub fn pending(&self) -> usize {
        match self.state {
            State::Gathering => self.partial.len(),
            State::HandedOut | State::Lost(_) => 0,
        }
    }

    /// Takes the next message off the front of `input`. `None`: all of `input` is used up, and more
    /// is needed.
    ///
    /// # Errors
    /// Where a header lies, now and for ever after.
    pub fn next<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<&'a [u8]>, FramingError> {
        match self.state {
            State::Gathering => {}
            State::HandedOut => {
                self.partial.clear();
                self.partial.shrink_to(KEEP);
                self.state = State::Gathering;
            }
            State::Lost(e) => return Err(e),
        }
        if self.partial.is_empty() {
            return self.first_of(input);
        }
        if !self.fill(HEADER_LEN, input) {
            return Ok(None);
        }
        let Some(length) = self.length_of_partial()? else { return Ok(None) };
        if !self.fill(length, input) {
            return Ok(None);
        }
        self.state = State::HandedOut;
        Ok(Some(&self.partial))
    }

    fn first_of<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<&'i [u8]>, FramingError> {
        if let Some(header) = Header::read(input) {
            let length = self.checked(header)?;
            if let Some((message, rest)) = input.split_at_checked(length) {
                *input = rest;
                return Ok(Some(message));
            }
        }
        self.partial.extend_from_slice(input);
        *input = &[];
        Ok(None)
    }

    /// Grows `partial` to `n` bytes if `input` has them; takes all it has else.
    fn fill(&mut self, n: usize, input: &mut &[u8]) -> bool {
        let wanted = n.saturating_sub(self.partial.len());
        let (now, rest) = input.split_at(wanted.min(input.len()));
        self.partial.extend_from_slice(now);
        *input = rest;
        self.partial.len() >= n
    }

    fn length_of_partial(&mut self) -> Result<Option<usize>, FramingError> {
        Header::read(&self.partial).map(|h| self.checked(h)).transpose()
    }

    fn checked(&mut self, header: Header) -> Result<usize, FramingError> {
        let length = usize::from(header.length);
        if length < HEADER_LEN {
            let error = FramingError { header };
            self.state = State::Lost(error);
            self.partial = Vec::new();
            return Err(error);
        }
        Ok(length)
    }
}
