//! A module's parameters as given: text in, validated values out.
//!
//! Pure. Made by the binary from defaults, a file and the command line; read by modules.

use super::{About, Depth, Kind, Param};
use crate::document::{Cell, Document};
use thiserror::Error;

/// Why a parameter can't be so.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParamError {
    /// None of that name.
    #[error("module '{module}' has no parameter '{name}'{near}: it has {known}")]
    Unknown {
        /// The module.
        module: String,
        /// What was given.
        name: String,
        /// The nearest known, in words; or nothing.
        near: String,
        /// All it has.
        known: String,
    },
    /// Not what the parameter may be.
    #[error("parameter '{name}' of module '{module}' can't be '{given}': give {range}{unit}")]
    Value {
        /// The module.
        module: String,
        /// Which.
        name: String,
        /// What was given.
        given: String,
        /// What it may be.
        range: String,
        /// Its unit, in words; or nothing.
        unit: String,
    },
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Numbers(Vec<f64>),
    Word(String),
}

/// The longest list.
const LONGEST: usize = 10_000;

/// Values of all parameters of a module.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    about: About,
    depth: Depth,
    texts: Vec<String>,
    values: Vec<Value>,
}

impl Params {
    /// The defaults of that depth.
    ///
    /// # Errors
    /// A default that is outside its own range: the module's mistake.
    pub fn defaults(about: &About, depth: Depth) -> Result<Self, ParamError> {
        let mut params = Self {
            about: about.clone(),
            depth,
            texts: Vec::with_capacity(about.params.len()),
            values: Vec::with_capacity(about.params.len()),
        };
        for p in &about.params {
            let text = p.quick.as_ref().filter(|_| depth == Depth::Quick).unwrap_or(&p.default);
            params.values.push(parse(about, p, text)?);
            params.texts.push(text.clone());
        }
        Ok(params)
    }

    /// Gives a parameter another value.
    ///
    /// # Errors
    /// [`ParamError`]; nothing has changed then.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), ParamError> {
        let Some(at) = self.about.params.iter().position(|p| p.name == name) else {
            let names = || self.about.params.iter().map(|p| p.name.as_str());
            let near = names().min_by_key(|n| distance(n, name)).filter(|n| distance(n, name) <= 3);
            let known: Vec<_> = names().collect();
            return Err(ParamError::Unknown {
                module: self.about.name.clone(),
                name: name.to_owned(),
                near: near.map_or_else(String::new, |n| format!(" (did you mean '{n}'?)")),
                known: if known.is_empty() { "none".to_owned() } else { known.join(", ") },
            });
        };
        let value = parse(&self.about, &self.about.params[at], text)?;
        self.values[at] = value;
        text.trim().clone_into(&mut self.texts[at]);
        Ok(())
    }

    /// The module's description.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// How much is to be measured.
    pub fn depth(&self) -> Depth {
        self.depth
    }

    /// Name, value as text, unit of every parameter.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let all = self.about.params.iter().zip(&self.texts);
        all.map(|(p, t)| (p.name.as_str(), t.as_str(), p.unit.as_str()))
    }

    /// Notes all of them in a document.
    pub fn note(&self, document: &mut Document) {
        for (name, text, unit) in self.texts() {
            let cell = text.parse::<f64>().map_or_else(|_| Cell::from(text), Cell::from);
            document.parameter(name, cell, unit);
        }
    }

    /// A whole number; 0 for a name that the module has not described.
    pub fn count(&self, name: &str) -> u64 {
        // The cast saturates.
        self.number(name) as u64
    }

    /// A number; 0 for a name that the module has not described.
    pub fn number(&self, name: &str) -> f64 {
        self.numbers(name).first().copied().unwrap_or(0.0)
    }

    /// A list of whole numbers.
    pub fn counts(&self, name: &str) -> Vec<u64> {
        self.numbers(name).iter().map(|&n| n as u64).collect()
    }

    /// A list of numbers.
    pub fn numbers(&self, name: &str) -> &[f64] {
        match self.value(name) {
            Some(Value::Numbers(n)) => n,
            _ => &[],
        }
    }

    /// A word; empty for a name that the module has not described.
    pub fn word(&self, name: &str) -> &str {
        match self.value(name) {
            Some(Value::Word(w)) => w,
            _ => "",
        }
    }

    fn value(&self, name: &str) -> Option<&Value> {
        let at = self.about.params.iter().position(|p| p.name == name)?;
        self.values.get(at)
    }
}

fn parse(about: &About, p: &Param, text: &str) -> Result<Value, ParamError> {
    let text = text.trim();
    let within = |text: &str, lo: f64, hi: f64| {
        text.trim().parse::<f64>().ok().filter(|n| n.is_finite() && (lo..=hi).contains(n))
    };
    let whole = |text: &str, lo: u64, hi: u64| {
        let n = text.trim().replace('_', "").parse::<u64>().ok();
        n.filter(|n| (lo..=hi).contains(n)).map(|n| n as f64)
    };
    let list = |each: &dyn Fn(&str) -> Option<f64>| {
        let parts: Vec<_> = text.split(',').take(LONGEST + 1).collect();
        (parts.len() <= LONGEST).then_some(())?;
        parts.into_iter().map(each).collect::<Option<Vec<_>>>()
    };
    let value = match &p.kind {
        Kind::Count(lo, hi) => whole(text, *lo, *hi).map(|n| Value::Numbers(vec![n])),
        Kind::Number(lo, hi) => within(text, *lo, *hi).map(|n| Value::Numbers(vec![n])),
        Kind::Counts(lo, hi) => list(&|t| whole(t, *lo, *hi)).map(Value::Numbers),
        Kind::Numbers(lo, hi) => list(&|t| within(t, *lo, *hi)).map(Value::Numbers),
        Kind::Word(words) => words.iter().any(|w| w == text).then(|| Value::Word(text.to_owned())),
    };
    value.ok_or_else(|| ParamError::Value {
        module: about.name.clone(),
        name: p.name.clone(),
        given: text.to_owned(),
        range: p.kind.wants(),
        unit: if p.unit.is_empty() { String::new() } else { format!(" ({})", p.unit) },
    })
}

/// How far what was given is from a known name (Levenshtein). Only its first 64 letters count.
pub(crate) fn distance(known: &str, given: &str) -> usize {
    let given: String = given.chars().take(64).collect();
    strsim::levenshtein(known, &given)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn about() -> About {
        About::new("m", "what")
            .count("reps", "", "repetitions", 100, 1, 1000)
            .quick("3")
            .number("rate", "Mb/s", "probe rate", 10.0, 0.001, 1e5)
            .counts("entries", "", "entries", "1,10,100", 1, 65_000)
            .word("watch", "which rules", &["all", "last"])
    }

    #[test]
    fn values_are_what_they_may_be() {
        let mut p = Params::defaults(&about(), Depth::Full).unwrap();
        assert_eq!((p.count("reps"), p.number("rate"), p.word("watch")), (100, 10.0, "all"));
        assert_eq!(p.counts("entries"), [1, 10, 100]);
        assert_eq!(Params::defaults(&about(), Depth::Quick).unwrap().count("reps"), 3);
        p.set("entries", "5, 6").unwrap();
        p.set("watch", "last").unwrap();
        assert_eq!((p.counts("entries"), p.word("watch")), (vec![5, 6], "last"));
        for (name, bad) in [
            ("reps", "0"),
            ("reps", "1001"),
            ("reps", "1.5"),
            ("rate", "NaN"),
            ("rate", "-1"),
            ("entries", ""),
            ("entries", "1,,2"),
            ("watch", "first"),
        ] {
            let before = p.clone();
            let e = p.set(name, bad).unwrap_err();
            assert!(matches!(e, ParamError::Value { .. }), "{e}");
            assert_eq!(p, before);
        }
        let e = p.set("rats", "1").unwrap_err().to_string();
        assert_eq!(
            e,
            "module 'm' has no parameter 'rats' (did you mean 'rate'?): it has reps, rate, entries, watch"
        );
        let e = p.set("rate", "x").unwrap_err().to_string();
        assert_eq!(e, "parameter 'rate' of module 'm' can't be 'x': give 0.001 to 100000 (Mb/s)");
        for bad in ["0", "10,,5"] {
            let e = p.set("entries", bad).unwrap_err().to_string();
            assert_eq!(
                e,
                format!(
                    "parameter 'entries' of module 'm' can't be '{bad}': give a list of whole numbers from 1 to 65000, with commas between"
                )
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived(name in ".{0,20}", text in ".{0,40}") {
            let mut p = Params::defaults(&about(), Depth::Full).unwrap();
            let _ = p.set(&name, &text);
            for n in ["reps", "rate", "entries", "watch"] {
                let _ = p.set(n, &text);
            }
            prop_assert!((1..=1000).contains(&p.count("reps")));
        }
    }
}
