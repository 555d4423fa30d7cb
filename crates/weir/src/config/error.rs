//! What can be wrong with a configuration: one line that says file, line, column, what, and how to
//! mend it.
//!
//! Room: text and places in text. Called by everything in `config`.

use super::program::own_keys;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use toml::de::{DeTable, DeValue};

/// A place in a file, by line and column from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Where; nowhere for a file that can't be read.
    pub place: Option<Place>,
    /// What, and how to mend it.
    pub text: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(p) => write!(f, "{p}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

impl std::error::Error for ConfigError {}

/// A file's text with its name: turns byte offsets into places.
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
    /// The place of a byte.
    pub fn place(&self, byte: usize) -> Place {
        let line = self.lines.partition_point(|begin| *begin <= byte).max(1);
        let begin = self.lines.get(line - 1).copied().unwrap_or(0);
        let column = self.text.get(begin..byte).unwrap_or_default().chars().count() + 1;
        Place { file: Arc::clone(&self.file), line, column }
    }
    /// An error at a place.
    pub fn error(&self, span: &Range<usize>, text: impl fmt::Display) -> ConfigError {
        ConfigError { place: Some(self.place(span.start)), text: text.to_string() }
    }
    /// The error of TOML's reader, with the nearest known key where a key is unknown.
    pub fn toml(&self, e: &toml::de::Error) -> ConfigError {
        let message = toml_says(self.text, e);
        let named = || name_beside(self.text, e.span()?.start);
        let text = unknown_key(&message, named).unwrap_or_else(|| in_numbers(message));
        ConfigError { place: e.span().map(|s| self.place(s.start)), text }
    }
}

/// What TOML's reader says in a line, with a key's name where it is there twice.
pub fn toml_says(text: &str, e: &toml::de::Error) -> String {
    let key = e.span().and_then(|s| text.get(s)).filter(|_| e.message() == "duplicate key");
    match key.map(|k| k.trim_matches(['"', '\''])) {
        Some(key) => format!("duplicate key '{key}': leave one of them out"),
        None => e.message().replace('\n', " "),
    }
}

/// What `name` says in the table that has a key at this place.
fn name_beside(text: &str, key: usize) -> Option<String> {
    fn find<'t>(v: &'t DeValue<'_>, key: usize) -> Option<&'t str> {
        match v {
            DeValue::Array(all) => all.iter().find_map(|v| find(v.get_ref(), key)),
            DeValue::Table(t) if t.keys().any(|k| k.span().start == key) => {
                t.get("name")?.get_ref().as_str()
            }
            DeValue::Table(t) => t.values().find_map(|v| find(v.get_ref(), key)),
            _ => None,
        }
    }
    let root = DeTable::parse(text).ok()?;
    find(&DeValue::Table(root.into_inner()), key).map(str::to_owned)
}

/// serde's word for an unknown key, said so that it can be mended. Programs have their options in one section: of
/// the one that is `named` its own are meant.
fn unknown_key(message: &str, named: impl Fn() -> Option<String>) -> Option<String> {
    let rest = message.strip_prefix("unknown field `")?;
    let (key, rest) = rest.split_once('`')?;
    let mut known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
    if let Some(own) = named().and_then(|name| own_keys(&name, &known)) {
        known = own;
    }
    let key: String = key.chars().take(64).collect();
    let list = known.join(", ");
    Some(match by_likeness(&key, known.iter().copied()) {
        Some((_, near)) => format!("unknown key '{key}': did you mean '{near}'? Keys here: {list}"),
        None => format!("unknown key '{key}': there can be none here"),
    })
}

/// serde's words for a number that is too small or too large, with what is allowed.
fn in_numbers(message: String) -> String {
    let Some((what, kind)) = message.rsplit_once(", expected ") else { return message };
    let most = match kind {
        "u8" => u64::from(u8::MAX),
        "u16" => u64::from(u16::MAX),
        "u32" => u64::from(u32::MAX),
        "u64" | "usize" => i64::MAX as u64,
        _ => return message,
    };
    format!("{what}: a whole number from 0 to {most}")
}

/// The word most like `word`, where one is like it at all.
pub fn nearest<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let limit = (word.chars().count() / 2).max(2);
    by_likeness(word, known).filter(|(d, _)| *d <= limit).map(|(_, k)| k)
}

/// The word most like `word`, and how far it is from it.
fn by_likeness<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<(usize, &'k str)> {
    // The beginning of a word means the word.
    let word: String = word.chars().take(64).collect();
    let begins = |k: &str| word.len() >= 3 && k.starts_with(&word);
    known
        .map(|k| (if begins(k) { 1 } else { strsim::levenshtein(&word, k) }, k))
        .min_by_key(|(d, k)| (*d, k.len()))
}

/// One of a few words, or an error that lists them.
pub fn one_of<T: Copy>(
    source: &Source<'_>,
    word: &toml::Spanned<String>,
    what: &str,
    known: &[(&str, T)],
) -> Result<T, ConfigError> {
    let given = word.get_ref().as_str();
    if let Some((_, v)) = known.iter().find(|(k, _)| *k == given) {
        return Ok(*v);
    }
    let list: Vec<&str> = known.iter().map(|(k, _)| *k).collect();
    let near = nearest(given, list.iter().copied())
        .map(|n| format!("did you mean '{n}'? "))
        .unwrap_or_default();
    let text = format!("{what} '{given}': {near}It is one of {}", list.join(", "));
    Err(source.error(&word.span(), text))
}
