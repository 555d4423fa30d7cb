//! Colour and progress: both only where a person looks at a terminal.

use super::say::note;
use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::time::{Duration, Instant};

/// How text is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// As it is.
    Plain,
    /// With the terminal's colours.
    Colour,
}

impl Style {
    /// Colour on a terminal, unless `NO_COLOR` is set (no-color.org).
    pub fn of_stdout() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        if wanted && stdout().is_terminal() { Style::Colour } else { Style::Plain }
    }
    fn mark(self, code: &str, text: impl Display) -> String {
        match self {
            Style::Plain => text.to_string(),
            Style::Colour => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }
    /// A heading.
    pub fn head(self, text: impl Display) -> String {
        self.mark("1;36", text)
    }
    /// Something to be seen first.
    pub fn strong(self, text: impl Display) -> String {
        self.mark("1", text)
    }
    /// Something that can be passed over.
    pub fn faint(self, text: impl Display) -> String {
        self.mark("2", text)
    }
    /// A verdict.
    pub fn verdict(self, v: Verdict, text: impl Display) -> String {
        match v {
            Verdict::Holds => self.mark("32", format_args!("✓ {text}")),
            Verdict::Fails => self.mark("1;31", format_args!("✗ {text}")),
        }
    }
}

/// Whether what was to be shown holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Holds,
    /// It does not.
    Fails,
}

impl Verdict {
    /// Of a condition.
    pub fn of(holds: bool) -> Self {
        if holds { Verdict::Holds } else { Verdict::Fails }
    }
}

/// One line that says what is going on, rewritten in place.
#[derive(Debug)]
pub struct Progress {
    shown: bool,
    said: Option<Instant>,
}

impl Progress {
    /// On a terminal; in a pipe it stays quiet.
    pub fn on_stderr() -> Self {
        Self { shown: stderr().is_terminal(), said: None }
    }
    /// Says `text` now.
    pub fn say(&mut self, text: impl Display) {
        if self.shown {
            self.said = Some(Instant::now());
            let mut e = stderr().lock();
            // A terminal that has gone needs no progress.
            let _ = write!(e, "\r\x1b[K  \x1b[2m… {text}\x1b[0m");
            let _ = e.flush();
        }
    }
    /// Says `text` if nothing was said lately.
    pub fn tick(&mut self, text: impl Display) {
        if self.said.is_none_or(|t| t.elapsed() > Duration::from_millis(100)) {
            self.say(text);
        }
    }
    /// Prints a line on standard error in place of one that is shown there, whoever shows it.
    pub fn past(line: impl Display) {
        let mut progress = Self::on_stderr();
        progress.said = Some(Instant::now());
        progress.clear();
        note(line);
    }
    /// Takes the line away.
    pub fn clear(&mut self) {
        if self.shown && self.said.take().is_some() {
            let mut e = stderr().lock();
            let _ = write!(e, "\r\x1b[K");
            let _ = e.flush();
        }
    }
}
