//! What is printed, for every command: the one writer of standard output, and of notes beside it.
//!
//! A reader that has gone (`weir show | head -1`) has had enough: that is success. What can't be
//! written for another reason, a full disk above all, is an error of one line. What runs on whoever
//! reads (`weir run`, `weir dut`) tells by a `log_writer`, and goes on.

use super::log_writer::{self, Stream};
use anyhow::{Context, Error, Result};
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

/// Who takes what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Somebody, as far as is known.
    There,
    /// Nobody any more.
    Gone,
}

impl Reader {
    /// Who is there, by what became of a write.
    ///
    /// # Errors
    /// A write that failed, though somebody reads.
    pub fn after(written: io::Result<()>) -> Result<Self> {
        match written {
            Ok(()) => Ok(Reader::There),
            Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(Reader::Gone),
            Err(e) => Err(Error::new(e)),
        }
    }
}

/// What is said of output that could not be written, before the system's reason.
pub const UNWRITTEN: &str = "standard output can't be written: send it where there is room";

/// Prints text as it is, and says whether anybody reads.
///
/// # Errors
/// What is printed can't be written.
pub fn offer(text: impl Display) -> Result<Reader> {
    let mut out = io::stdout().lock();
    Reader::after(write!(out, "{text}").and_then(|()| out.flush())).context(UNWRITTEN)
}

/// Prints text as it is.
///
/// # Errors
/// As [`offer`].
pub fn put(text: impl Display) -> Result<()> {
    offer(text).map(|_| ())
}

/// Prints a line.
///
/// # Errors
/// As [`offer`].
pub fn say(line: impl Display) -> Result<()> {
    put(format_args!("{line}\n"))
}

/// Prints a line of what runs on, whether it can be printed or not.
pub fn tell(line: impl Display) {
    match log_writer::ours() {
        Some(log) => log.put(Stream::Output, &line.to_string()),
        // See above.
        None => _ = say(line),
    }
}

/// Prints a line beside what is asked for, on standard error.
pub fn note(line: impl Display) {
    match log_writer::ours() {
        Some(log) => log.put(Stream::Error, &line.to_string()),
        // Where nobody takes notes, none are needed.
        None => _ = writeln!(io::stderr().lock(), "{line}"),
    }
}

/// Prints a line on standard error, where what goes wrong is told.
pub fn complain(line: impl Display) {
    note(format_args!("weir: {line}"));
}
