//! Formulas: how profiles say what an operation costs, and models what its parameters are.
//!
//! `30 + 5 * ceil(hdr / 64)`: numbers, names, `+ - * /`, brackets, and a few functions. The text that
//! is computed is the text that `--explain` shows. Room: text and numbers; called by the readers and by
//! the estimator.

use std::fmt;
use std::sync::Arc;

/// Longest text that is read, in bytes.
pub const MAX_BYTES: usize = 1024;
/// Deepest nesting.
const MAX_DEPTH: usize = 32;

/// A formula that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    text: Arc<str>,
    root: Node,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Number(f64),
    Name(Arc<str>),
    Negative(Box<Node>),
    Both(Operator, Box<Node>, Box<Node>),
    Call(Function, Vec<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Plus,
    Minus,
    Times,
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Ceil,
    Floor,
    Min,
    Max,
    Log2,
    Above,
}

/// Every function: its name, and how many arguments it takes.
const FUNCTIONS: &[(&str, Function, usize)] = &[
    ("ceil", Function::Ceil, 1),
    ("floor", Function::Floor, 1),
    ("min", Function::Min, 2),
    ("max", Function::Max, 2),
    ("log2", Function::Log2, 1),
    ("above", Function::Above, 2),
];

/// Sums of decimal fractions miss whole numbers by this much: `ceil` must not notice.
const SLACK: f64 = 1e-9;

impl Formula {
    /// A number.
    pub fn number(value: f64) -> Self {
        Self { text: value.to_string().into(), root: Node::Number(value) }
    }

    /// So many times another.
    pub fn times(factor: f64, other: &Formula) -> Self {
        let text = format!("{factor} * ({})", other.text).into();
        let (a, b) = (Box::new(Node::Number(factor)), Box::new(other.root.clone()));
        Self { text, root: Node::Both(Operator::Times, a, b) }
    }

    /// Reads one. `above(a, b)` is 1 where a > b, else 0; `log2` of less than 1 is 0,
    /// and of 0 and less it has no value.
    ///
    /// # Errors
    /// What is wrong, and at which character.
    pub fn read(text: &str) -> Result<Self, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("a formula of {} bytes: at most {MAX_BYTES}", text.len()));
        }
        let mut reader = Reader { text, at: 0 };
        let root = reader.sum(0)?;
        reader.blank();
        if reader.at < text.len() {
            return Err(reader.wrong("an operator or the end"));
        }
        Ok(Self { text: text.into(), root })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is a number, and which.
    pub fn constant(&self) -> Option<f64> {
        match self.root {
            Node::Number(n) => Some(n),
            _ => None,
        }
    }

    /// Its value, given what names mean.
    ///
    /// # Errors
    /// A name that means nothing; a value that is not finite.
    pub fn value(&self, names: &dyn Names) -> Result<f64, Wrong> {
        let endless = || Wrong::NotFinite(Arc::clone(&self.text));
        match self.root.value(names) {
            Ok(value) if value.is_finite() => Ok(value),
            Ok(_) | Err(Wrong::NotFinite(_)) => Err(endless()),
            Err(e) => Err(e),
        }
    }

    /// What it counts, given what names count; nothing for a number, which counts anything.
    ///
    /// # Errors
    /// Units that disagree, in words.
    pub fn unit(&self, names: &dyn Fn(&str) -> Option<Unit>) -> Result<Option<Unit>, String> {
        self.root.unit(names)
    }

    /// Calls `see` with each name in it.
    pub fn names<'a>(&'a self, see: &mut dyn FnMut(&'a str)) {
        self.root.names(see);
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Entries of a table, flows, rules.
    Entries,
    /// Words of a key, of 32 bits.
    Words,
    /// A probability or another pure number.
    Pure,
}

impl Unit {
    /// Every unit by its name in files.
    pub const NAMES: &[(&str, Unit)] = &[
        ("bytes", Unit::Bytes),
        ("entries", Unit::Entries),
        ("words", Unit::Words),
        ("pure", Unit::Pure),
    ];
    /// As it is written.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|n| n.1 == self).map_or("", |n| n.0)
    }
}

/// What names mean.
pub trait Names {
    /// A name's value.
    fn value(&self, name: &str) -> Option<f64>;
}

impl<F: Fn(&str) -> Option<f64>> Names for F {
    fn value(&self, name: &str) -> Option<f64> {
        self(name)
    }
}

/// Why a formula has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// A name that means nothing here.
    #[error("'{0}' means nothing here")]
    Unknown(Arc<str>),
    /// Divided by zero, a logarithm of it, or overflowed.
    #[error("'{0}' has no finite value: mind divisions by zero and log2 of it")]
    NotFinite(Arc<str>),
}

impl Node {
    fn value(&self, names: &dyn Names) -> Result<f64, Wrong> {
        Ok(match self {
            Node::Number(n) => *n,
            Node::Name(n) => names.value(n).ok_or_else(|| Wrong::Unknown(Arc::clone(n)))?,
            Node::Negative(a) => -a.value(names)?,
            Node::Both(operator, a, b) => {
                let (a, b) = (a.value(names)?, b.value(names)?);
                match operator {
                    Operator::Plus => a + b,
                    Operator::Minus => a - b,
                    Operator::Times => a * b,
                    Operator::Over => a / b,
                }
            }
            Node::Call(function, arguments) => {
                let mut values = [0.0; 2];
                for (value, argument) in values.iter_mut().zip(arguments) {
                    *value = argument.value(names)?;
                }
                let [a, b] = values;
                match function {
                    Function::Ceil => (a - SLACK).ceil(),
                    Function::Floor => (a + SLACK).floor(),
                    Function::Min => a.min(b),
                    Function::Max => a.max(b),
                    // Said at once: 'min' and 'max' would pass over it.
                    Function::Log2 if a <= 0.0 => return Err(Wrong::NotFinite("log2".into())),
                    Function::Log2 => a.max(1.0).log2(),
                    Function::Above => f64::from(u8::from(a > b)),
                }
            }
        })
    }

    fn unit(&self, names: &dyn Fn(&str) -> Option<Unit>) -> Result<Option<Unit>, String> {
        let same = |a: Option<Unit>, b: Option<Unit>| match (a, b) {
            (Some(a), Some(b)) if a != b => {
                Err(format!("units disagree: {} and {}", a.name(), b.name()))
            }
            _ => Ok(a.or(b)),
        };
        Ok(match self {
            Node::Number(_) => None,
            Node::Name(n) => names(n),
            Node::Negative(a) => a.unit(names)?,
            Node::Both(Operator::Plus | Operator::Minus, a, b) => {
                same(a.unit(names)?, b.unit(names)?)?
            }
            // A rate or a product of two units has none that is known here.
            Node::Both(_, a, b) => match (a.unit(names)?, b.unit(names)?) {
                (unit, None | Some(Unit::Pure)) => unit,
                (None | Some(Unit::Pure), unit) if !self.divides() => unit,
                _ => None,
            },
            Node::Call(Function::Log2 | Function::Above, _) => None,
            Node::Call(_, arguments) => {
                let mut unit = None;
                for a in arguments {
                    unit = same(unit, a.unit(names)?)?;
                }
                unit
            }
        })
    }

    fn divides(&self) -> bool {
        matches!(self, Node::Both(Operator::Over, ..))
    }

    fn names<'a>(&'a self, see: &mut dyn FnMut(&'a str)) {
        match self {
            Node::Number(_) => {}
            Node::Name(n) => see(n),
            Node::Negative(a) => a.names(see),
            Node::Both(_, a, b) => {
                a.names(see);
                b.names(see);
            }
            Node::Call(_, arguments) => arguments.iter().for_each(|a| a.names(see)),
        }
    }
}

/// By recursive descent: a function for each level of precedence.
struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn blank(&mut self) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn next(&mut self) -> Option<u8> {
        self.blank();
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, wanted: u8) -> bool {
        let is = self.next() == Some(wanted);
        self.at += usize::from(is);
        is
    }

    fn wrong(&self, expected: &str) -> String {
        let at = self.text.get(..self.at).unwrap_or_default().chars().count() + 1;
        let shown: String = self.text.chars().take(80).collect();
        format!("the formula '{shown}' at character {at}: expected {expected}")
    }

    fn sum(&mut self, depth: usize) -> Result<Node, String> {
        let mut node = self.product(depth)?;
        loop {
            let operator = match self.next() {
                Some(b'+') => Operator::Plus,
                Some(b'-') => Operator::Minus,
                _ => return Ok(node),
            };
            self.at += 1;
            node = Node::Both(operator, Box::new(node), Box::new(self.product(depth)?));
        }
    }

    fn product(&mut self, depth: usize) -> Result<Node, String> {
        let mut node = self.atom(depth)?;
        loop {
            let operator = match self.next() {
                Some(b'*') => Operator::Times,
                Some(b'/') => Operator::Over,
                _ => return Ok(node),
            };
            self.at += 1;
            node = Node::Both(operator, Box::new(node), Box::new(self.atom(depth)?));
        }
    }

    fn atom(&mut self, depth: usize) -> Result<Node, String> {
        if depth > MAX_DEPTH {
            return Err(format!("a formula that nests deeper than {MAX_DEPTH}"));
        }
        match self.next() {
            Some(b'-') => {
                self.at += 1;
                Ok(Node::Negative(Box::new(self.atom(depth + 1)?)))
            }
            Some(b'(') => {
                self.at += 1;
                let node = self.sum(depth + 1)?;
                if self.take(b')') { Ok(node) } else { Err(self.wrong("')'")) }
            }
            Some(b'0'..=b'9' | b'.') => self.number(),
            Some(b'a'..=b'z' | b'A'..=b'Z' | b'_') => self.word(depth),
            _ => Err(self.wrong("a number, a name or '('")),
        }
    }

    fn run(&mut self, part: impl Fn(u8) -> bool) -> &str {
        let begin = self.at;
        while self.text.as_bytes().get(self.at).is_some_and(|b| part(*b)) {
            self.at += 1;
        }
        self.text.get(begin..self.at).unwrap_or_default()
    }

    fn number(&mut self) -> Result<Node, String> {
        let digits = self.run(|b| b.is_ascii_digit() || matches!(b, b'.' | b'_')).replace('_', "");
        let value = digits.parse::<f64>().ok().filter(|v| v.is_finite());
        value.map(Node::Number).ok_or_else(|| self.wrong("a number before this"))
    }

    fn word(&mut self, depth: usize) -> Result<Node, String> {
        let word: Arc<str> =
            self.run(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.')).into();
        if self.next() != Some(b'(') {
            return Ok(Node::Name(word));
        }
        let Some((_, function, count)) = FUNCTIONS.iter().find(|f| *f.0 == *word) else {
            return Err(crate::fault::unknown("function", &word, FUNCTIONS.iter().map(|f| f.0)));
        };
        self.at += 1;
        let mut arguments = vec![self.sum(depth + 1)?];
        while self.take(b',') {
            arguments.push(self.sum(depth + 1)?);
        }
        if !self.take(b')') {
            return Err(self.wrong("',' or ')'"));
        }
        if arguments.len() != *count {
            let have = arguments.len();
            return Err(self.wrong(&format!("{count} arguments of {word}, not {have},")));
        }
        Ok(Node::Call(*function, arguments))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> f64 {
        let names = |n: &str| (n == "b").then_some(46.0);
        Formula::read(text).expect(text).value(&names).expect(text)
    }

    #[test]
    fn arithmetic_is_as_usual() {
        assert_eq!(value("1 + 2 * 3"), 7.0);
        assert_eq!(value("(1 + 2) * 3 - -1"), 10.0);
        assert_eq!(value("8 / 2 / 2"), 2.0);
        assert_eq!(value("7 * ceil(b / 2) + 8"), 169.0);
        assert_eq!(value("ceil(0.33 * b / 8)"), 2.0);
        assert_eq!(value("above(b, 3) + above(3, 3) + min(1, 2) + max(1, 2)"), 4.0);
        assert_eq!(value("ceil(0.1 + 0.2 - 0.3)"), 0.0);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let wrong = |t: &str| Formula::read(t).unwrap_err();
        assert!(wrong("1 +").contains("at character 4: expected a number"), "{}", wrong("1 +"));
        assert!(wrong("ciel(3)").contains("did you mean 'ceil'"));
        assert!(wrong("min(3)").contains("2 arguments"));
        assert!(wrong(&"(".repeat(99)).contains("deeper"));
        assert!(wrong(&"1".repeat(2000)).contains("at most"));
        assert!(wrong("1 1").contains("an operator"));
        let none = |_: &str| None;
        assert_eq!(Formula::read("x").unwrap().value(&none), Err(Wrong::Unknown("x".into())));
        for endless in ["1/0", "log2(0)", "log2(-1)", "max(1, log2(0) * 0)", "ceil(log2(0))"] {
            let value = Formula::read(endless).unwrap().value(&none);
            assert!(matches!(value, Err(Wrong::NotFinite(_))), "{endless}: {value:?}");
        }
        assert_eq!(Formula::read("log2(0.5) + log2(8)").unwrap().value(&none), Ok(3.0));
    }
}
