//! Lines over a link, bounded in length and in time.
//!
//! Room: bytes. Whatever comes, at most `max` bytes are kept, and nobody is waited for longer than
//! said.

use super::link::Link;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// Why no line came.
#[derive(Debug)]
pub enum NoLine {
    /// The other side has ended.
    End,
    /// It took too long.
    Late,
    /// The line is too long.
    TooLong,
    /// The system's word.
    System(io::Error),
}

/// Reads and writes lines.
#[derive(Debug)]
pub struct Lines {
    link: Link,
    pending: Vec<u8>,
    /// What was to be sent and has not been: it goes before everything else.
    unsent: Vec<u8>,
    max: usize,
}

impl Lines {
    /// Over a connection, with lines of at most `max` bytes, newline included.
    pub fn new(link: Link, max: usize) -> Self {
        Self { link, pending: Vec::new(), unsent: Vec::new(), max }
    }

    /// The connection.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// The next line without its newline, if it is whole within `limit`.
    pub fn next(&mut self, limit: Duration) -> Result<Vec<u8>, NoLine> {
        let deadline = Instant::now() + limit;
        let mut searched = 0;
        loop {
            let found = self.pending.iter().skip(searched).position(|b| *b == b'\n');
            if let Some(at) = found.map(|i| i + searched) {
                let rest = self.pending.split_off(at + 1);
                let mut line = std::mem::replace(&mut self.pending, rest);
                line.pop();
                return Ok(line);
            }
            searched = self.pending.len();
            if searched >= self.max {
                return Err(NoLine::TooLong);
            }
            let mut chunk = [0; 16384];
            let room = chunk.len().min(self.max - searched);
            let Some(space) = chunk.get_mut(..room) else { return Err(NoLine::TooLong) };
            match self.link.read(space, deadline) {
                Ok(0) => return Err(NoLine::End),
                Ok(n) => self.pending.extend_from_slice(space.get(..n).unwrap_or_default()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(NoLine::Late);
                }
                Err(e) => return Err(NoLine::System(e)),
            }
        }
    }

    /// Whether the other side has said that it wants no more; waits for no longer than a moment.
    pub fn hung_up(&mut self) -> bool {
        let mut byte = [0];
        match self.link.read(&mut byte, Instant::now() + Duration::from_millis(1)) {
            Ok(0) => true,
            // Nothing is expected here: more than a few bytes of it is a reason to stop, too.
            Ok(_) => {
                self.pending.extend_from_slice(&byte);
                self.pending.len() > 4096
            }
            Err(e) => !matches!(
                e.kind(),
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
            ),
        }
    }

    /// Sends bytes; a side that does not read for `limit` is given up. Whoever tries once more goes on where that ended.
    pub fn send(&mut self, bytes: &[u8], limit: Duration) -> io::Result<()> {
        let until = Instant::now() + limit;
        let kept = std::mem::take(&mut self.unsent);
        for mut part in [&kept[..], bytes] {
            let sent = self.link.write_all(&mut part, until);
            self.unsent.extend_from_slice(part);
            sent?;
        }
        Ok(())
    }
}
