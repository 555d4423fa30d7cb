//! What is printed for whoever reads along. A reader that has gone (`weir show | head -1`) is no error,
//! and `weir run` runs on without one.

use std::fmt::Display;
use std::io::Write;

/// Prints a line on standard output.
pub fn say(line: impl Display) {
    let mut out = std::io::stdout().lock();
    // See above.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Prints text as it is.
pub fn put(text: impl Display) {
    let mut out = std::io::stdout().lock();
    // See above.
    let _ = write!(out, "{text}").and_then(|()| out.flush());
}

/// Prints a line on standard error, where what goes wrong while something runs on is told.
pub fn complain(line: impl Display) {
    // See above.
    let _ = writeln!(std::io::stderr().lock(), "weir: {line}");
}
