//! What can be wrong with a flow, and where in the text.
//!
//! Room: data only. Made by every parser of `flowtext`, shown by whoever reads rules from people.

use std::fmt;
use thiserror::Error;
use weir_classify::{Field, Prereq};

/// A flow that can't be read: the place, the word there, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: '{token}': {kind}")]
pub struct FlowError {
    /// Line of the text, from 1.
    pub line: usize,
    /// Byte of the line, from 1, at which `token` stands.
    pub column: usize,
    /// The offending word, shortened where it is very long.
    pub token: String,
    /// What is wrong.
    pub kind: FlowErrorKind,
}

/// What is wrong with a flow. The text of each says how to mend it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FlowErrorKind {
    /// Neither a field, nor a keyword, nor an attribute of a flow.
    #[error("no such field or keyword{}", Nearest(.nearest))]
    UnknownField {
        /// The nearest known name.
        nearest: Option<&'static str>,
    },
    /// No such action.
    #[error("no such action{}", Nearest(.nearest))]
    UnknownAction {
        /// The nearest known name.
        nearest: Option<&'static str>,
    },
    /// A name without its value.
    #[error("a value is missing: {expected}")]
    MissingValue {
        /// What was expected.
        expected: &'static str,
    },
    /// A value where there can be none.
    #[error("takes no value")]
    UnexpectedValue,
    /// A value that can't be read.
    #[error("not {expected}")]
    BadValue {
        /// What was expected.
        expected: &'static str,
    },
    /// A number that the field can't hold.
    #[error("too large; the largest value is {max} ({max:#x})")]
    TooLarge {
        /// The largest value.
        max: u64,
    },
    /// A mask that the field can't have.
    #[error("impossible mask: {why}")]
    BadMask {
        /// Why, and what to write instead.
        why: &'static str,
    },
    /// A field that was given before.
    #[error("given twice; keep one of the two")]
    Twice,
    /// A value that an earlier part of the same match excludes.
    #[error("contradicts what the match demands before; keep one of the two")]
    Contradicts,
    /// No frame can have this value.
    #[error("matches no frame: {why}")]
    Impossible {
        /// Why, and what to write instead.
        why: &'static str,
    },
    /// A field is looked at without what it presupposes.
    #[error("also needs a match on {}", .needs.text())]
    Prereq {
        /// The field.
        field: Field,
        /// What is missing.
        needs: Prereq,
    },
    /// An action changes what a matching frame need not have.
    #[error("frames that match need not have what this changes; match on {}", .needs.text())]
    ActionPrereq {
        /// What is missing.
        needs: Prereq,
    },
    /// The flow doesn't say what to do.
    #[error("the flow does not say what to do; end it with actions=..., for instance actions=drop")]
    NoActions,
    /// No such port.
    #[error("no such port; give a port's number or name, or LOCAL")]
    UnknownPort,
    /// A number that is no port's.
    #[error("no port has this number; ports are numbered from 1, reserved ones have names")]
    BadPort,
    /// Something that weir does not do.
    #[error("{what}; {instead}")]
    Refused {
        /// What is not done.
        what: &'static str,
        /// What to write instead.
        instead: &'static str,
    },
    /// Actions that can't follow each other so.
    #[error("out of order: {rule}")]
    Order {
        /// The rule of order.
        rule: &'static str,
    },
    /// A parenthesis or a quotation mark without its partner.
    #[error("not closed, or closed without being opened")]
    Unclosed,
    /// Parentheses in parentheses in parentheses.
    #[error("nested too deeply")]
    TooDeep,
    /// A line longer than any flow.
    #[error("a line of {bytes} bytes; a flow has at most {max}")]
    LineTooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
}

impl FlowErrorKind {
    /// Where it is, for an action `key` with `value`: the value, if there is one, but a name that
    /// nobody knows is wrong whatever follows it.
    pub(super) fn place<'a>(self, key: &'a str, value: Option<&'a str>) -> Fault<'a> {
        let token = match (&self, value) {
            (FlowErrorKind::UnknownAction { .. }, _) => key,
            (_, Some(v)) if !v.is_empty() => v,
            _ => key,
        };
        Fault::new(token, self)
    }
}

struct Nearest<'a>(&'a Option<&'static str>);

impl fmt::Display for Nearest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, "; did you mean '{name}'?"),
            None => f.write_str("; see ovs-fields(7) and ovs-actions(7)"),
        }
    }
}

/// An error before its place in the text is worked out: the token is a part of the line itself.
#[derive(Debug)]
pub(super) struct Fault<'a> {
    pub token: &'a str,
    pub kind: FlowErrorKind,
}

/// Result of a parser.
pub(super) type Parse<'a, T> = Result<T, Fault<'a>>;

/// Attaches the offending word to an error.
pub(super) trait At<'a, T> {
    fn at(self, token: &'a str) -> Parse<'a, T>;
}

impl<'a, T> At<'a, T> for Result<T, FlowErrorKind> {
    #[inline]
    fn at(self, token: &'a str) -> Parse<'a, T> {
        self.map_err(|kind| Fault { token, kind })
    }
}

/// Longest token that an error repeats, in characters.
const SHOWN: usize = 60;

impl Fault<'_> {
    pub fn new(token: &str, kind: FlowErrorKind) -> Fault<'_> {
        Fault { token, kind }
    }
    /// Works out the column: `token` is a part of `text`, or else stands at its beginning.
    #[cold]
    pub fn locate(self, text: &str, line: usize) -> FlowError {
        let begin = text.as_ptr() as usize;
        let at = (self.token.as_ptr() as usize).wrapping_sub(begin);
        let column = if at <= text.len() { at + 1 } else { 1 };
        let mut token: String = self.token.chars().take(SHOWN).collect();
        if token.len() < self.token.len() {
            token.push_str("...");
        }
        FlowError { line, column, token, kind: self.kind }
    }
}

/// The known name nearest to `word`, when it is near enough to be a slip: an edit distance of at
/// most a third of its length.
#[cold]
pub(super) fn nearest<'n>(
    word: &str,
    names: impl Iterator<Item = &'n &'static str>,
) -> Option<&'static str> {
    if word.len() > 24 {
        return None;
    }
    let limit = (word.len() / 3).max(1);
    names
        .map(|n| (strsim::levenshtein(word, n), *n))
        .filter(|(d, _)| *d <= limit)
        .min_by_key(|(d, _)| *d)
        .map(|(_, n)| n)
}
