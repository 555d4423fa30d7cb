//! What can be wrong with a model, a profile or a request: one line that says file, place, key, what
//! was expected, and the nearest known name.
//!
//! Room: text and places in text. Called by everything that reads.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Fault {
    /// The file, or what stands in its place.
    pub file: Arc<str>,
    /// Line and column in characters, from 1, where there is a place.
    pub place: Option<(usize, usize)>,
    /// What, and how to mend it.
    pub text: String,
}

impl Fault {
    /// One without a place in a text.
    pub fn new(file: &str, text: impl fmt::Display) -> Self {
        Self { file: file.into(), place: None, text: text.to_string() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some((line, column)) => write!(f, "{}:{line}:{column}: {}", self.file, self.text),
            None => write!(f, "{}: {}", self.file, self.text),
        }
    }
}

/// Turns byte offsets of a text into places.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    file: Arc<str>,
    text: &'a str,
    /// Where each line begins.
    lines: Vec<usize>,
}

impl<'a> Source<'a> {
    /// A text, and what errors call it.
    pub fn new(file: &str, text: &'a str) -> Self {
        let next = text.bytes().zip(1..).filter(|(b, _)| *b == b'\n').map(|(_, i)| i);
        Self { file: file.into(), text, lines: std::iter::once(0).chain(next).collect() }
    }
    /// What errors call it.
    pub fn file(&self) -> &str {
        &self.file
    }
    /// An error at a place.
    pub fn fault(&self, span: &Range<usize>, text: impl fmt::Display) -> Fault {
        let line = self.lines.partition_point(|begin| *begin <= span.start).max(1);
        let begin = self.lines.get(line - 1).copied().unwrap_or(0);
        let column = self.text.get(begin..span.start).unwrap_or_default().chars().count() + 1;
        let text = text.to_string().replace('\n', " ");
        Fault { file: Arc::clone(&self.file), place: Some((line, column)), text }
    }
}

/// "did you mean …?" and the list, for a name that is not known.
pub fn unknown<'k>(what: &str, name: &str, known: impl Iterator<Item = &'k str> + Clone) -> String {
    const LISTED: usize = 24;
    // It may come from a file or another program, and goes to a terminal.
    let plain =
        |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    let shown: String = name.chars().take(64).map(plain).collect();
    let near =
        nearest(name, known.clone()).map(|n| format!("did you mean '{n}'? ")).unwrap_or_default();
    let mut list: Vec<&str> = known.clone().take(LISTED).collect();
    if known.clone().nth(LISTED).is_some() {
        list.push("…");
    }
    if list.is_empty() {
        return format!("unknown {what} '{shown}': there are none");
    }
    format!("unknown {what} '{shown}': {near}There are: {}", list.join(", "))
}

/// The word most like `word`, where one is like it at all.
pub fn nearest<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let limit = (word.chars().count() / 2).max(2);
    // The beginning of a word means the word.
    let word: String = word.chars().take(64).collect();
    let begins = |k: &str| word.len() >= 3 && k.starts_with(&word);
    known
        .map(|k| (if begins(k) { 1 } else { strsim::levenshtein(&word, k) }, k))
        .min_by_key(|(d, k)| (*d, k.len()))
        .filter(|(d, _)| *d <= limit)
        .map(|(_, k)| k)
}

/// Whether a word is so much like another that nothing else can be meant, where others may be meant as well: `size` is not `line`.
pub fn misspelt(word: &str, meant: &str) -> bool {
    let word: String = word.chars().take(64).collect();
    meant.len() > 2 && strsim::osa_distance(&word, meant) <= 1 + meant.len() / 6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_misspelt() {
        let pairs =
            [("stepz", "steps"), ("clok", "clock"), ("szie", "size"), ("latancy", "latency")];
        assert!(pairs.iter().all(|(word, meant)| misspelt(word, meant)));
        assert!(!misspelt("line", "size") && !misspelt("b", "a"));
    }

    #[test]
    fn places_count_from_one() {
        let s = Source::new("f", "a\nbß = 3\n");
        assert_eq!(s.fault(&(0..1), "x").place, Some((1, 1)));
        assert_eq!(s.fault(&(6..7), "x").to_string(), "f:2:4: x");
    }

    #[test]
    fn the_nearest_name_is_named() {
        let known = ["ht_lookup", "lpm_lookup", "parse"];
        assert_eq!(nearest("ht_lokup", known.into_iter()), Some("ht_lookup"));
        assert_eq!(nearest("zzzzzzzz", known.into_iter()), None);
        let text = unknown("operation", "pars", known.into_iter());
        assert!(text.contains("did you mean 'parse'?"), "{text}");
        let text = unknown("operation", "a\u{1b}[31m", known.into_iter());
        assert!(text.starts_with("unknown operation 'a\\u{1b}[31m'"), "{text}");
    }
}
