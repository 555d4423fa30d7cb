//! The end at which the switch is: a controller's bytes, out of the frames that they come in.
//!
//! Room: a face of [`Stream`], polled by `session` alone.

use super::super::stream::Stream;
use super::State;
use super::wire::{Kind, put, take};
use std::io::{self, ErrorKind};
use std::task::{Context, Poll};

/// Bytes that may wait to be sent before more are taken.
const WAITING: usize = 256 * 1024;
/// Bytes that are read at once.
const READ: usize = 64 * 1024;

/// A connection that is relayed.
#[derive(Debug)]
pub struct Relayed {
    to: Stream,
    /// Frames that came, the last perhaps in part.
    came: Vec<u8>,
    /// Bytes out of them that nobody has read yet.
    bytes: Vec<u8>,
    out: Vec<u8>,
    input: Input,
    buffer: Box<[u8]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Open,
    /// The controller sends no more.
    Ended,
    /// It sends, and is not read.
    Stopped,
}

impl Relayed {
    /// Over a connection, of which some bytes were read already.
    pub fn new(to: Stream, came: Vec<u8>) -> Self {
        let buffer = vec![0; READ].into();
        Self { to, came, bytes: Vec::new(), out: Vec::new(), input: Input::Open, buffer }
    }

    /// Says that the connection was taken up.
    pub fn taken(&mut self) {
        put(Kind::Taken, &[], &mut self.out);
    }

    /// Asks for what the controller says to be left unread.
    pub fn ask_to_return(&mut self) {
        put(Kind::Return, &[], &mut self.out);
    }

    /// Reads what is still under way; ready with all of it that nobody has read when nothing more comes.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Vec<u8>>> {
        loop {
            self.cut()?;
            match self.input {
                Input::Stopped => return Poll::Ready(Ok(std::mem::take(&mut self.bytes))),
                Input::Ended => return Poll::Ready(Err(ErrorKind::ConnectionAborted.into())),
                Input::Open => {}
            }
            if self.bytes.len() > super::wire::LONGEST {
                return Poll::Ready(Err(ErrorKind::OutOfMemory.into()));
            }
            let n = match self.to.poll_read(cx, &mut self.buffer) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(r) => r?,
            };
            if n == 0 {
                return Poll::Ready(Err(ErrorKind::UnexpectedEof.into()));
            }
            self.came.extend_from_slice(self.buffer.get(..n).unwrap_or_default());
        }
    }

    /// Sends the connection home.
    pub fn send_home(&mut self, state: &State) {
        put(Kind::State, &state.to_bytes(), &mut self.out);
    }

    /// Ends it, and says why.
    pub fn end(&mut self, why: &str) {
        put(Kind::End, why.as_bytes(), &mut self.out);
    }

    /// Makes bytes of the frames that have come.
    fn cut(&mut self) -> io::Result<()> {
        while let Some((kind, bytes)) = take(&mut self.came).map_err(io::Error::other)? {
            match kind {
                Kind::Data => self.bytes.extend(bytes),
                Kind::End => self.input = Input::Ended,
                Kind::Stopped => self.input = Input::Stopped,
                _ => return Err(io::Error::other("a frame that has no place here")),
            }
        }
        Ok(())
    }

    /// As [`Stream::poll_read`].
    pub fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            self.cut()?;
            if !self.bytes.is_empty() {
                let n = into.len().min(self.bytes.len());
                let rest = self.bytes.split_off(n);
                let now = std::mem::replace(&mut self.bytes, rest);
                into.iter_mut().zip(now).for_each(|(to, b)| *to = b);
                return Poll::Ready(Ok(n));
            }
            if self.input == Input::Ended {
                return Poll::Ready(Ok(0));
            }
            match self.to.poll_read(cx, &mut self.buffer) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(ErrorKind::UnexpectedEof.into())),
                Poll::Ready(Ok(n)) => {
                    self.came.extend_from_slice(self.buffer.get(..n).unwrap_or_default());
                }
                Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
            }
        }
    }

    /// As [`Stream::poll_write`].
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.out.len() >= WAITING {
            match self.poll_flush(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                Poll::Pending => return Poll::Pending,
            }
        }
        let now = bytes.get(..bytes.len().min(READ)).unwrap_or_default();
        put(Kind::Data, now, &mut self.out);
        Poll::Ready(Ok(now.len()))
    }

    /// As [`Stream::poll_flush`].
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.out.is_empty() {
            match self.to.poll_write(cx, &self.out) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(n)) => drop(self.out.drain(..n)),
                Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                Poll::Pending => return Poll::Pending,
            }
        }
        self.to.poll_flush(cx)
    }

    /// As [`Stream::poll_shutdown`].
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.poll_flush(cx) {
            Poll::Ready(Ok(())) => self.to.poll_shutdown(cx),
            other => other,
        }
    }
}
