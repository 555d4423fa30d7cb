//! Studies: one module on several devices, a paper's published values beside them.
//!
//! Room: data and pure functions; documents in, documents out. Who measures is the binary (or a test, in
//! virtual time). The devices are real switches, and devices with configured faults that do what the
//! paper saw its switches do: for these it is known beforehand which verdicts must fail.
//!
//! - [`oflops`]: the studies of "OFLOPS: An Open Framework for OpenFlow Switch Evaluation" (001).
//! - `published`: the values that its text and tables state.

pub mod oflops;
mod published;

use crate::document::{Cell, Column, Document, Dut, Outcome, Table, Verdict};
use crate::environment::Environment;
use crate::module::{Depth, Entry, ParamError, Params};

/// A study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Study {
    /// Its name.
    pub id: &'static str,
    /// The figure or table.
    pub figure: &'static str,
    /// What it asks, a sentence without its full stop.
    pub asks: &'static str,
    /// The module that answers it.
    pub module: &'static str,
    /// Parameters that are not the module's own for [`Depth::Full`].
    pub full: &'static [(&'static str, &'static str)],
    /// The same for [`Depth::Quick`].
    pub quick: &'static [(&'static str, &'static str)],
    /// Devices with configured faults.
    pub mimics: &'static [Mimic],
    /// How what is done here differs from what the paper did.
    pub differs: &'static [&'static str],
}

/// A device with configured faults, and whom it is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mimic {
    /// The profile of `weir dut`.
    pub profile: &'static str,
    /// Which of the paper's switches were seen to behave so.
    pub like: &'static str,
    /// Verdicts that must fail on it.
    pub fails: &'static [&'static str],
    /// Verdicts that must be unclear on it. All others must hold.
    pub unclear: &'static [&'static str],
}

impl Study {
    /// The module's parameters for it.
    ///
    /// # Errors
    /// A value that the module does not take: this crate's mistake, and a test's affair.
    pub fn params(&self, entry: &Entry, depth: Depth) -> Result<Params, ParamError> {
        let mut params = Params::defaults(&entry.about, depth)?;
        let set = match depth {
            Depth::Full => self.full,
            Depth::Quick => self.quick,
        };
        set.iter().try_for_each(|(name, value)| params.set(name, value))?;
        Ok(params)
    }

    /// What of `measured` is not as was configured, a sentence each: a verdict that should have failed, or
    /// one that should not. Devices that are no mimics are passed over.
    pub fn misjudged(&self, measured: &[Document]) -> Vec<String> {
        let mut all = Vec::new();
        for (mimic, d) in self.judged(measured) {
            for (id, wanted, found) in mimic.expected(d) {
                if found != Some(wanted) {
                    let found = found.map_or("missing", Outcome::word);
                    let (name, wanted) = (mimic.profile, wanted.word());
                    all.push(format!("{id} on {name} is {found}; it must be '{wanted}'"));
                }
            }
        }
        all
    }

    fn judged<'d>(&self, measured: &'d [Document]) -> Vec<(&'static Mimic, &'d Document)> {
        let of = |d: &'d Document| Some((self.mimics.iter().find(|m| m.profile == d.dut.name)?, d));
        measured.iter().filter_map(of).collect()
    }

    /// The whole of it: an overview, what was measured, what was published.
    pub fn assemble(&self, measured: Vec<Document>, environment: Environment) -> Vec<Document> {
        let published = published::documents(self, &measured);
        let mut all = vec![self.overview(&measured, environment)];
        all.extend(measured);
        all.extend(published);
        all
    }

    fn overview(&self, measured: &[Document], environment: Environment) -> Document {
        // Of no device of its own.
        let mut d = Document::new(self.id, self.asks, Dut::default(), environment);
        d.paper = Some(self.figure.to_owned());
        d.quick = measured.iter().any(|m| m.quick);
        d.duration_s = measured.iter().map(|m| m.duration_s).sum();
        d.tables.extend(published::stated(self));
        let judged = self.judged(measured);
        if !judged.is_empty() {
            d.tables.push(known(&judged));
            d.verdicts.push(self.trusted(measured));
        }
        for m in self.mimics {
            d.note(format!("{}: configured to behave as {}.", m.profile, m.like));
        }
        self.differs.iter().for_each(|s| d.note(*s));
        d
    }

    fn trusted(&self, measured: &[Document]) -> Verdict {
        let id = "configured-faults-named";
        let wrong = self.misjudged(measured);
        if wrong.is_empty() {
            let s = "On devices whose faults are configured each was named, and nothing else.";
            Verdict::new(id, Outcome::Holds, s)
        } else {
            Verdict::new(id, Outcome::Fails, wrong.join("; ") + ".")
        }
    }
}

impl Mimic {
    /// Each verdict with what it must be and what it is.
    fn expected<'d>(&self, d: &'d Document) -> Vec<(&'d str, Outcome, Option<Outcome>)>
    where
        Self: 'static,
    {
        let must = |id: &str| match (self.fails.contains(&id), self.unclear.contains(&id)) {
            (true, _) => Outcome::Fails,
            (_, true) => Outcome::Unclear,
            _ => Outcome::Holds,
        };
        let mut all: Vec<(&str, Outcome, Option<Outcome>)> =
            d.verdicts.iter().map(|v| (v.id.as_str(), must(&v.id), Some(v.outcome))).collect();
        for id in self.fails.iter().chain(self.unclear) {
            if !all.iter().any(|a| a.0 == *id) {
                all.push((*id, must(id), None));
            }
        }
        all
    }
}

/// What was configured, and what was found.
fn known(judged: &[(&'static Mimic, &Document)]) -> Table {
    let columns = ["device", "verdict", "must be", "is"].map(Column::text).to_vec();
    let mut table =
        Table::new("known", "Devices whose faults are known, and what was found", columns);
    for (mimic, d) in judged {
        for (id, wanted, found) in mimic.expected(d) {
            table.row([
                Cell::from(mimic.profile),
                Cell::from(id),
                Cell::from(wanted.word()),
                Cell::from(found.map_or("missing", Outcome::word)),
            ]);
        }
    }
    table
}
