//! What a module says of itself: its question, the paper's figure, its parameters.
//!
//! Plain data. Read by `weir measure list`, by [`super::Params`] and by the engine.

use super::load::Leaves;

/// A module's description.
#[derive(Clone, Debug, PartialEq)]
pub struct About {
    /// Its name on the command line.
    pub name: String,
    /// What it asks, a sentence without its full stop.
    pub asks: String,
    /// The figure or table that it answers, as `001 figure 3`.
    pub paper: Option<String>,
    /// What it is run on.
    pub on: On,
    /// Data channels that it needs.
    pub channels: usize,
    /// What it needs the switch's flow table to be.
    pub table: Table,
    /// What of its loads a user's description of traffic may change.
    pub leaves: Leaves,
    /// Its parameters.
    pub params: Vec<Param>,
}

/// What a module is run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// A switch.
    Switch,
    /// A wire, or two: channels 0 to 1, and 2 to 3. It measures the instrument itself.
    Wire,
}

/// What becomes of the switch's flow table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// It is not touched.
    Untouched,
    /// It is emptied, but for a rule that drops everything, and put back afterwards.
    Own,
}

/// How much is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// As much as papers and RFCs ask for.
    #[default]
    Full,
    /// Enough to see that it works.
    Quick,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Its name, as `--set` takes it.
    pub name: String,
    /// Its unit; empty for a plain number or a word.
    pub unit: String,
    /// What it is.
    pub about: String,
    /// What it may be.
    pub kind: Kind,
    /// Its value unless given, as text.
    pub default: String,
    /// The same for [`Depth::Quick`], where it differs.
    pub quick: Option<String>,
}

/// What a parameter may be.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A whole number within bounds.
    Count(u64, u64),
    /// A number within bounds.
    Number(f64, f64),
    /// Whole numbers within bounds, separated by commas: at least one.
    Counts(u64, u64),
    /// Numbers within bounds, separated by commas: at least one.
    Numbers(f64, f64),
    /// One of these words.
    Word(Vec<String>),
}

impl Kind {
    /// The range in words.
    pub fn range(&self) -> String {
        match self {
            Self::Count(lo, hi) => format!("{lo} to {hi}"),
            Self::Number(lo, hi) => format!("{lo} to {hi}"),
            Self::Counts(lo, hi) => format!("list of {lo} to {hi}"),
            Self::Numbers(lo, hi) => format!("list of {lo} to {hi}"),
            Self::Word(words) => words.join(", "),
        }
    }

    /// What to give, for who gave something else.
    pub fn wants(&self) -> String {
        let list = |what: &str, lo: &dyn std::fmt::Display, hi: &dyn std::fmt::Display| {
            format!("a list of {what} from {lo} to {hi}, with commas between")
        };
        match self {
            Self::Counts(lo, hi) => list("whole numbers", lo, hi),
            Self::Numbers(lo, hi) => list("numbers", lo, hi),
            other => other.range(),
        }
    }
}

impl About {
    /// A module that needs two data channels and the table for itself, without parameters yet.
    pub fn new(name: &str, asks: &str) -> Self {
        Self {
            name: name.to_owned(),
            asks: asks.to_owned(),
            paper: None,
            on: On::Switch,
            channels: 2,
            table: Table::Own,
            leaves: Leaves::default(),
            params: Vec::new(),
        }
    }

    /// Answers this figure or table.
    #[must_use]
    pub fn paper(mut self, figure: &str) -> Self {
        self.paper = Some(figure.to_owned());
        self
    }

    /// Needs the control channel alone, and leaves the flow table as it is.
    #[must_use]
    pub fn control_only(mut self) -> Self {
        (self.channels, self.table) = (0, Table::Untouched);
        self
    }

    /// Of its loads a user's description of traffic may change so much, where that is more than times.
    #[must_use]
    pub fn leaving(mut self, leaves: Leaves) -> Self {
        self.leaves = leaves;
        self
    }

    /// Needs no switch, but a wire from data channel 0 to 1.
    #[must_use]
    pub fn on_a_wire(mut self) -> Self {
        (self.on, self.table) = (On::Wire, Table::Untouched);
        self
    }

    /// With a whole number.
    #[must_use]
    pub fn count(
        self,
        name: &str,
        unit: &str,
        about: &str,
        default: u64,
        lo: u64,
        hi: u64,
    ) -> Self {
        self.param(name, unit, about, &default.to_string(), Kind::Count(lo, hi))
    }

    /// With a number.
    #[must_use]
    pub fn number(
        self,
        name: &str,
        unit: &str,
        about: &str,
        default: f64,
        lo: f64,
        hi: f64,
    ) -> Self {
        self.param(name, unit, about, &default.to_string(), Kind::Number(lo, hi))
    }

    /// With a list of whole numbers.
    #[must_use]
    pub fn counts(
        self,
        name: &str,
        unit: &str,
        about: &str,
        default: &str,
        lo: u64,
        hi: u64,
    ) -> Self {
        self.param(name, unit, about, default, Kind::Counts(lo, hi))
    }

    /// With a list of numbers.
    #[must_use]
    pub fn numbers(
        self,
        name: &str,
        unit: &str,
        about: &str,
        default: &str,
        lo: f64,
        hi: f64,
    ) -> Self {
        self.param(name, unit, about, default, Kind::Numbers(lo, hi))
    }

    /// With a choice of words; the first is the default.
    #[must_use]
    pub fn word(self, name: &str, about: &str, words: &[&str]) -> Self {
        let kind = Kind::Word(words.iter().map(|&w| w.to_owned()).collect());
        self.param(name, "", about, words.first().copied().unwrap_or_default(), kind)
    }

    /// The last parameter's value for [`Depth::Quick`].
    #[must_use]
    pub fn quick(mut self, value: &str) -> Self {
        if let Some(p) = self.params.last_mut() {
            p.quick = Some(value.to_owned());
        }
        self
    }

    fn param(mut self, name: &str, unit: &str, about: &str, default: &str, kind: Kind) -> Self {
        self.params.push(Param {
            name: name.to_owned(),
            unit: unit.to_owned(),
            about: about.to_owned(),
            kind,
            default: default.to_owned(),
            quick: None,
        });
        self
    }
}
