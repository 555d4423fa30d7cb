//! Which exit status an error deserves: 2 when the input was bad, 1 when the work failed.

use anyhow::Error;
use std::fmt;
use std::process::ExitCode;
use weir_io::file::trouble;

/// An error in a file, an argument or a setting of the user's.
#[derive(Debug)]
struct Marked(String);

impl fmt::Display for Marked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Marked {}

/// An error in what the user gave: exit status 2. Another error is said with its causes.
pub fn bad_input(text: impl fmt::Display) -> Error {
    Error::new(Marked(format!("{text:#}")))
}

/// A file that can't be used: exit status 2.
pub fn file(which: impl fmt::Display, e: &std::io::Error) -> Error {
    bad_input(format_args!("{which}: {}", trouble(e)))
}

/// The exit status for `e`.
pub fn exit_code(e: &Error) -> ExitCode {
    if is_bad_input(e) { ExitCode::from(2) } else { ExitCode::from(1) }
}

/// Whether the input was bad, and not the work.
pub fn is_bad_input(e: &Error) -> bool {
    e.chain().any(|c| c.is::<Marked>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_gave_is_said_with_its_cause() {
        let e = bad_input(Error::msg("another kind of file").context("remember: kept"));
        assert_eq!(e.to_string(), "remember: kept: another kind of file");
        assert!(is_bad_input(&e));
    }
}
