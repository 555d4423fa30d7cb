//! What is wrong with the arguments: one line that says what, where, and how to mend it.
//!
//! Room: clap's answers → text. Called by `main`, for every command.

use crate::commands::say::{Reader, UNWRITTEN};
use crate::fault::bad_input;
use anyhow::{Context, Result};
use clap::error::ErrorKind;
use clap::{Command, Error};
use std::ffi::OsString;

/// Prints what was asked for (help, the version), or says what is wrong.
///
/// # Errors
/// The arguments are wrong; or help can't be printed.
pub fn answer(e: &Error, whole: &Command, arguments: &[OsString]) -> Result<()> {
    if !e.use_stderr() {
        return Reader::after(e.print()).context(UNWRITTEN).map(|_| ());
    }
    let (path, command) = meant(whole, arguments);
    let what = match e.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
            format!("which command? One of {}", names.join(", "))
        }
        _ => one_line(&e.render().to_string()),
    };
    Err(bad_input(format!("{what}; see '{path} --help'")))
}

/// The command that the arguments name, as far as they name one, and how it is called.
fn meant<'c>(whole: &'c Command, arguments: &[OsString]) -> (String, &'c Command) {
    let (mut path, mut at) = (whole.get_name().to_owned(), whole);
    for a in arguments.iter().skip(1) {
        if let Some(c) = at.find_subcommand(a) {
            path = format!("{path} {}", c.get_name());
            at = c;
        }
    }
    (path, at)
}

/// clap's paragraphs as one line: what is wrong, and its hints. How it is used, --help says.
fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
    let mut out = String::new();
    for l in lines.take_while(|l| !l.starts_with("Usage:") && !l.starts_with("For more inf")) {
        let (between, l) = match l.strip_prefix("tip: ") {
            Some(tip) => ("; ", tip),
            None => (" ", l.strip_prefix("error: ").unwrap_or(l)),
        };
        if !out.is_empty() {
            out.push_str(between);
        }
        out.push_str(l);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_become_a_line() {
        let told = "error: invalid value 'x' for '<ID>'\n  [possible values: a, b]\n\n  \
                    tip: a similar value exists: 'a'\n\nUsage: weir …\n\nFor more information, …\n";
        let line =
            "invalid value 'x' for '<ID>' [possible values: a, b]; a similar value exists: 'a'";
        assert_eq!(one_line(told), line);
    }
}
