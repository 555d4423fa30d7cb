//! Reading TOML with places: a [`Section`] knows which of its keys were asked for, so that what is
//! left is an unknown key, named with the nearest known one.
//!
//! Room: TOML's syntax and the kinds of values. Called by `operation`, `model`, `profile` and
//! `place`'s request; none of them sees TOML's own types.

use crate::fault::{Fault, Source, misspelt, unknown};
use crate::formula::Formula;
use crate::quantity::Dimension;
use std::cell::RefCell;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Largest file that is read, in bytes.
pub const MAX_FILE_BYTES: usize = 1 << 20;

/// Reads a whole text: calls `read` with its topmost section, then asks that no key is left.
///
/// # Errors
/// TOML's own, those of `read`, and unknown keys.
pub fn document<T>(
    file: &str,
    text: &str,
    read: impl FnOnce(&Section<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    if text.len() > MAX_FILE_BYTES {
        return Err(Fault::new(file, format!("{} bytes: at most {MAX_FILE_BYTES}", text.len())));
    }
    let source = Source::new(file, text);
    let table = DeTable::parse(text).map_err(|e| {
        let span = e.span().unwrap_or(0..0);
        let key = text.get(span.clone()).filter(|_| e.message() == "duplicate key");
        match key.map(|k| k.trim_matches(['"', '\''])) {
            Some(key) => {
                source.fault(&span, format!("duplicate key '{key}': leave one of them out"))
            }
            None => source.fault(&span, e.message()),
        }
    })?;
    plain_table(&source, table.get_ref(), "")?;
    let section = Section::new(&source, table.get_ref(), 0..0, String::new());
    let value = read(&section)?;
    section.finish()?;
    Ok(value)
}

/// That no key and no text of a table would steer a terminal on which it is shown. Lines may end in a text.
fn plain_table(source: &Source<'_>, table: &DeTable<'_>, path: &str) -> Result<(), Fault> {
    for (key, value) in table.iter() {
        let (name, at) = (key.get_ref().as_ref(), key.span());
        let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        if name.contains(char::is_control) {
            let text = format!("key '{}': {STEERS}", path.escape_debug());
            return Err(source.fault(&at, text));
        }
        plain(source, value, &path)?;
    }
    Ok(())
}

const STEERS: &str = "a control character is in it: leave it out";

fn plain(source: &Source<'_>, value: &Spanned<DeValue<'_>>, path: &str) -> Result<(), Fault> {
    match value.get_ref() {
        DeValue::String(s) if s.contains(|c: char| c.is_control() && !"\r\n\t".contains(c)) => {
            Err(source.fault(&value.span(), format!("{path}: {STEERS}")))
        }
        DeValue::Array(all) => all.iter().try_for_each(|v| plain(source, v, path)),
        DeValue::Table(t) => plain_table(source, t, path),
        _ => Ok(()),
    }
}

/// A value with its place.
#[derive(Clone, Debug)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Its bytes in the text.
    pub span: Range<usize>,
}

/// A table of a text.
#[derive(Debug)]
pub struct Section<'s> {
    source: &'s Source<'s>,
    table: &'s DeTable<'s>,
    span: Range<usize>,
    path: String,
    asked: RefCell<Vec<String>>,
}

impl<'s> Section<'s> {
    fn new(
        source: &'s Source<'s>,
        table: &'s DeTable<'s>,
        span: Range<usize>,
        path: String,
    ) -> Self {
        Self { source, table, span, path, asked: RefCell::default() }
    }

    /// What errors call the text.
    pub fn file(&self) -> &str {
        self.source.file()
    }

    /// An error at one of its places.
    pub fn fault(&self, span: &Range<usize>, text: impl std::fmt::Display) -> Fault {
        self.source.fault(span, text)
    }

    /// An error about the section itself.
    pub fn wrong(&self, text: impl std::fmt::Display) -> Fault {
        self.source.fault(&self.span, text)
    }

    fn named(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn get(&self, key: &str) -> Option<(&'s DeValue<'s>, Range<usize>)> {
        self.asked.borrow_mut().push(key.to_owned());
        let value: &Spanned<DeValue<'_>> =
            self.table.iter().find(|(k, _)| k.get_ref().as_ref() == key)?.1;
        Some((value.get_ref(), value.span()))
    }

    /// Whether a key is there.
    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The key is missing: what was expected. A key that is like it, and that nobody has asked for, is taken for it misspelt.
    pub fn missing(&self, key: &str, expected: &str) -> Fault {
        let text = format!("'{}' is missing: expected {expected}", self.named(key));
        let asked = self.asked.borrow();
        let own = |k: &At<String>| !asked.contains(&k.value) && misspelt(&k.value, key);
        let misspelt = self.keys().into_iter().find(own);
        match misspelt {
            Some(k) => self.fault(&k.span, format!("{text}; is '{}' meant for it?", k.value)),
            None => self.wrong(text),
        }
    }

    fn kind<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&'s DeValue<'s>) -> Result<T, Option<String>>,
    ) -> Result<Option<At<T>>, Fault> {
        let Some((value, span)) = self.get(key) else { return Ok(None) };
        match read(value) {
            Ok(value) => Ok(Some(At { value, span })),
            Err(why) => {
                let why =
                    why.unwrap_or_else(|| format!("expected {expected}, not {}", kind_of(value)));
                Err(self.fault(&span, format!("{}: {why}", self.named(key))))
            }
        }
    }

    /// A text.
    pub fn text(&self, key: &str) -> Result<Option<At<String>>, Fault> {
        self.kind(key, "a text", |v| v.as_str().map(str::to_owned).ok_or(None))
    }

    /// A text that must be there.
    pub fn need_text(&self, key: &str, expected: &str) -> Result<String, Fault> {
        Ok(self.text(key)?.ok_or_else(|| self.missing(key, expected))?.value)
    }

    /// A name that must be there: some text, in one line.
    pub fn need_name(&self, key: &str, expected: &str) -> Result<String, Fault> {
        let given = self.text(key)?.ok_or_else(|| self.missing(key, expected))?;
        let wrong = |why: &str| {
            let text = format!("{}: {why}: expected {expected}", self.named(key));
            Err(self.fault(&given.span, text))
        };
        match given.value.trim().is_empty() {
            true => wrong("nothing is in it"),
            false if given.value.contains(char::is_control) => wrong("more than a line"),
            false => Ok(given.value),
        }
    }

    /// One of a few words.
    pub fn word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Result<Option<T>, Fault> {
        let Some(given) = self.text(key)? else { return Ok(None) };
        match words.iter().find(|w| w.0 == given.value) {
            Some(w) => Ok(Some(w.1)),
            None => {
                let what = self.named(key);
                let text = unknown(&what, &given.value, words.iter().map(|w| w.0));
                Err(self.fault(&given.span, text))
            }
        }
    }

    /// A list of texts.
    pub fn texts(&self, key: &str) -> Result<Vec<String>, Fault> {
        let all = self.kind(key, "a list of texts", |v| {
            let list = v.as_array().ok_or(None)?;
            list.iter().map(|v| v.get_ref().as_str().map(str::to_owned).ok_or(None)).collect()
        })?;
        Ok(all.map(|a| a.value).unwrap_or_default())
    }

    /// A number within bounds.
    pub fn number(&self, key: &str, bounds: Bounds) -> Result<Option<f64>, Fault> {
        let expected = bounds.to_string();
        let read = |v: &DeValue<'_>| bounds.check(number(v).ok_or(None)?).map_err(Some);
        Ok(self.kind(key, &expected, read)?.map(|a| a.value))
    }

    /// A number that must be there.
    pub fn need_number(&self, key: &str, bounds: Bounds) -> Result<f64, Fault> {
        self.number(key, bounds)?.ok_or_else(|| self.missing(key, &bounds.to_string()))
    }

    /// A quantity with its unit, in base units.
    pub fn quantity(&self, key: &str, dimension: Dimension) -> Result<Option<f64>, Fault> {
        let read = |v: &DeValue<'_>| dimension.read(v.as_str().ok_or(None)?).map_err(Some);
        let expected = format!("{dimension} with its unit, as text");
        Ok(self.kind(key, &expected, read)?.map(|a| a.value))
    }

    /// A quantity that must be there.
    pub fn need_quantity(&self, key: &str, dimension: Dimension) -> Result<f64, Fault> {
        let expected =
            || format!("{dimension} in {}", dimension.units().collect::<Vec<_>>().join(", "));
        self.quantity(key, dimension)?.ok_or_else(|| self.missing(key, &expected()))
    }

    /// A formula: a text or a number.
    pub fn formula(&self, key: &str) -> Result<Option<At<Formula>>, Fault> {
        self.kind(key, "a number or a formula", |v| match v.as_str() {
            Some(t) => Formula::read(t).map_err(Some),
            None => number(v).map(Formula::number).ok_or(None),
        })
    }

    /// A formula that must be there.
    pub fn need_formula(&self, key: &str) -> Result<Formula, Fault> {
        let found = self.formula(key)?;
        Ok(found.ok_or_else(|| self.missing(key, "a number or a formula"))?.value)
    }

    /// A section below.
    pub fn section(&self, key: &str) -> Result<Option<Section<'s>>, Fault> {
        let found = self.kind(key, "a table", |v| v.as_table().ok_or(None))?;
        Ok(found.map(|a| Section::new(self.source, a.value, a.span, self.named(key))))
    }

    /// A list of sections below.
    pub fn sections(&self, key: &str) -> Result<Vec<Section<'s>>, Fault> {
        let found = self.kind(key, "a list of tables", |v| {
            let list = v.as_array().ok_or(None)?;
            list.iter()
                .map(|v| Ok((v.get_ref().as_table().ok_or(None)?, v.span())))
                .collect::<Result<Vec<_>, _>>()
        })?;
        let list = found.map(|a| a.value).unwrap_or_default();
        let part = |(i, (table, span))| {
            Section::new(self.source, table, span, format!("{}[{i}]", self.named(key)))
        };
        Ok(list.into_iter().enumerate().map(part).collect())
    }

    /// Its keys, with their places.
    pub fn keys(&self) -> Vec<At<String>> {
        let key = |k: &Spanned<toml::de::DeString<'_>>| At {
            value: k.get_ref().as_ref().to_owned(),
            span: k.span(),
        };
        self.table.keys().map(key).collect()
    }

    /// That every key was asked for.
    ///
    /// # Errors
    /// The first unknown key.
    pub fn finish(&self) -> Result<(), Fault> {
        let asked = self.asked.borrow();
        for key in self.keys() {
            if !asked.contains(&key.value) {
                let mut known: Vec<&str> = asked.iter().map(String::as_str).collect();
                known.sort_unstable();
                known.dedup();
                let what = match self.path.as_str() {
                    "" => "key".to_owned(),
                    path => format!("key of {path}"),
                };
                return Err(self.fault(&key.span, unknown(&what, &key.value, known.into_iter())));
            }
        }
        Ok(())
    }
}

/// Which numbers are taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bounds {
    /// Above zero, and below 1e18.
    Positive,
    /// Zero or more, and below 1e18.
    NotNegative,
    /// Whole, from one number to another.
    Whole(u64, u64),
    /// From 0 to 1.
    Part,
}

impl std::fmt::Display for Bounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bounds::Positive => f.write_str("a number above zero and below 1e18"),
            Bounds::NotNegative => f.write_str("a number from zero to 1e18"),
            Bounds::Whole(from, to) => write!(f, "a whole number from {from} to {to}"),
            Bounds::Part => f.write_str("a number from 0 to 1"),
        }
    }
}

impl Bounds {
    /// The number, if it is within.
    ///
    /// # Errors
    /// What was expected.
    pub fn check(self, n: f64) -> Result<f64, String> {
        let within = match self {
            Bounds::Positive => n > 0.0 && n < 1e18,
            Bounds::NotNegative => (0.0..1e18).contains(&n),
            Bounds::Whole(from, to) => n.fract() == 0.0 && n >= from as f64 && n <= to as f64,
            Bounds::Part => (0.0..=1.0).contains(&n),
        };
        match within {
            true => Ok(n),
            // Hundreds of digits tell nobody anything.
            false if n.abs() >= 1e15 => Err(format!("{n:e}: expected {self}")),
            false => Err(format!("{n}: expected {self}")),
        }
    }
}

/// A value that is one.
pub(crate) fn number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Integer(i) => i64::from_str_radix(i.as_str(), i.radix()).ok().map(|n| n as f64),
        DeValue::Float(f) => f.as_str().parse().ok(),
        _ => None,
    }
}

fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
