//! Cuts a flow into `key`, `key=value`, `key:value` and `key(value)`.
//!
//! Room: text only; knows no field and no action. The same cuts as Open vSwitch makes: commas and
//! blanks separate, parentheses and quotation marks keep together. Every byte is looked at once.

use super::error::{Fault, FlowErrorKind, Parse};

/// Parentheses within parentheses that a value may have.
const MAX_DEPTH: u32 = 8;

/// The rest of a text still to be cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pairs<'a> {
    rest: &'a str,
}

const fn is_separator(b: u8) -> bool {
    matches!(b, b',' | b' ' | b'\t' | b'\r' | b'\n')
}

impl<'a> Pairs<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    /// The next key, or `None` at the end. [`Pairs::value`] or [`Pairs::remainder`] must follow.
    #[inline]
    pub fn key(&mut self) -> Parse<'a, Option<&'a str>> {
        let start = self.rest.bytes().position(|b| !is_separator(b));
        let Some(start) = start else {
            self.rest = "";
            return Ok(None);
        };
        self.advance(start);
        let end = if self.rest.starts_with('"') {
            match self.rest.bytes().skip(1).position(|b| b == b'"') {
                Some(i) => i + 2,
                None => return Err(Fault::new(self.rest, FlowErrorKind::Unclosed)),
            }
        } else {
            self.rest
                .bytes()
                .position(|b| matches!(b, b':' | b'=' | b'(') || is_separator(b))
                .unwrap_or(self.rest.len())
        };
        let key = self.rest.get(..end).unwrap_or_default();
        if key.is_empty() {
            let kind = FlowErrorKind::BadValue { expected: "a name; one must stand before it" };
            return Err(Fault::new(self.rest, kind));
        }
        self.advance(end);
        Ok(Some(key))
    }

    /// The value of the key just read, if it has one.
    #[inline]
    pub fn value(&mut self) -> Parse<'a, Option<&'a str>> {
        match self.rest.bytes().next() {
            Some(b':' | b'=') => {
                self.advance(1);
                let end = self.scan(Until::Separator)?;
                let value = self.rest.get(..end).unwrap_or_default();
                self.advance(end);
                Ok(Some(value))
            }
            Some(b'(') => {
                let end = self.scan(Until::Closed)?;
                let value = self.rest.get(1..end.saturating_sub(1)).unwrap_or_default();
                self.advance(end);
                Ok(Some(value))
            }
            _ => Ok(None),
        }
    }

    /// Everything behind the key just read and its `=`, or `None` when there is no `=`.
    pub fn remainder(&self) -> Option<&'a str> {
        self.rest.strip_prefix('=')
    }

    fn advance(&mut self, n: usize) {
        self.rest = self.rest.get(n..).unwrap_or_default();
    }

    /// Length of what comes up to a separator outside parentheses, or up to and with the
    /// parenthesis that closes the first.
    #[inline]
    fn scan(&self, until: Until) -> Parse<'a, usize> {
        let mut depth = 0u32;
        let mut quoted = false;
        for (i, b) in self.rest.bytes().enumerate() {
            match b {
                b'"' => quoted = !quoted,
                _ if quoted => {}
                b'(' if depth == MAX_DEPTH => {
                    return Err(Fault::new(self.rest, FlowErrorKind::TooDeep));
                }
                b'(' => depth += 1,
                b')' if depth == 0 => return Err(Fault::new(self.rest, FlowErrorKind::Unclosed)),
                b')' => {
                    depth -= 1;
                    if depth == 0 && until == Until::Closed {
                        return Ok(i + 1);
                    }
                }
                _ if depth == 0 && is_separator(b) => return Ok(i),
                _ => {}
            }
        }
        if depth > 0 || quoted {
            return Err(Fault::new(self.rest, FlowErrorKind::Unclosed));
        }
        Ok(self.rest.len())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    Separator,
    Closed,
}
