//! Why something that was asked for can't be: what, where, and how to mend it.
//!
//! Room: data. Made by [`crate::model::check`] and [`crate::admission`]; whoever has the text that was
//! read turns the way to a key into a line and a column.

use std::fmt;

/// A step on the way to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seg {
    /// A key of a table.
    Key(&'static str),
    /// An element of a list, from 0.
    At(usize),
}

/// The way to a key in a lab, from its root: `network[2].node[0].host`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Way(pub Vec<Seg>);

impl Way {
    /// To element `i` of the list `key`.
    pub fn item(key: &'static str, i: usize) -> Self {
        Self::default().at(key, i)
    }
    /// On to element `i` of the list `key`.
    #[must_use]
    pub fn at(&self, key: &'static str, i: usize) -> Self {
        let mut way = self.key(key);
        way.0.push(Seg::At(i));
        way
    }
    /// On to `key`.
    #[must_use]
    pub fn key(&self, key: &'static str) -> Self {
        let mut way = self.clone();
        way.0.push(Seg::Key(key));
        way
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, seg) in self.0.iter().enumerate() {
            match seg {
                Seg::Key(k) if i == 0 => write!(f, "{k}")?,
                Seg::Key(k) => write!(f, ".{k}")?,
                Seg::At(n) => write!(f, "[{n}]")?,
            }
        }
        Ok(())
    }
}

/// Most characters of a refusal's text.
const LONGEST: usize = 1000;

/// What can't be, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// Where in the lab.
    pub at: Way,
    /// What, and how to mend it, in one line.
    pub text: String,
}

impl Refusal {
    /// At a place. What was given is shown as it is, but for characters that would break the line.
    pub fn new(at: Way, text: impl fmt::Display) -> Self {
        let shown = |c: char| if c.is_control() { ' ' } else { c };
        Self { at, text: text.to_string().chars().take(LONGEST).map(shown).collect() }
    }
}

/// `" did you mean 'x'?"`, or nothing, and what there is.
pub(crate) fn instead<'k>(word: &str, known: impl Iterator<Item = &'k str> + Clone) -> String {
    let list: Vec<&str> = known.clone().take(16).collect();
    let word: String = word.chars().take(64).collect();
    let near = known
        .map(|k| (strsim::levenshtein(&word, k), k))
        .min()
        .filter(|(d, _)| *d <= (word.chars().count() / 2).max(2))
        .map(|(_, k)| format!("did you mean '{k}'? "))
        .unwrap_or_default();
    match list[..] {
        [] => "there are none".to_owned(),
        _ => format!("{near}There are: {}", list.join(", ")),
    }
}
