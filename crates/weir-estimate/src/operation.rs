//! Elementary operations (002 §2.1, table 1): what a network function is made of, without a word of
//! what it costs. The catalogue is data; costs stand in profiles.
//!
//! Room: names, parameters and their units. Read from `models/operations.toml`; asked by the readers of
//! models and profiles.

use crate::fault::{Fault, unknown};
use crate::formula::Unit;
use crate::read::{Bounds, Section, document};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One elementary operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// Its name.
    pub name: Arc<str>,
    /// What it does.
    pub about: String,
    /// Where it comes from.
    pub source: String,
    /// The operation that undoes it, or does the same the other way.
    pub dual: Option<String>,
    /// Whose memory it touches.
    pub touches: Touches,
    /// Where its data is, where a model does not say.
    pub at: Where,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
}

/// A parameter of an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name.
    pub name: Arc<str>,
    /// What it counts.
    pub unit: Unit,
    /// Its value where a model gives none.
    pub default: Option<f64>,
}

/// Whose memory an operation touches: what its accesses compete for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touches {
    /// Registers and what is in the nearest cache anyway.
    Nothing,
    /// The frame.
    Packet,
    /// A table.
    Table,
}

/// Where the data of an operation is when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// In the nearest cache: an earlier operation brought it.
    Cache,
    /// Farther away.
    Memory,
    /// Farther away, and asked for while other frames of the burst are at work, so that waits overlap.
    Ahead,
}

impl Where {
    /// As written in files.
    pub const NAMES: &[(&str, Where)] =
        &[("cache", Where::Cache), ("memory", Where::Memory), ("ahead", Where::Ahead)];
}

/// The catalogue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Operations {
    all: BTreeMap<Arc<str>, Operation>,
}

impl Operations {
    /// Reads a catalogue; `file` is what errors call it.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn read(file: &str, text: &str) -> Result<Self, Fault> {
        let mut operations = Self::default();
        operations.add(file, text)?;
        Ok(operations)
    }

    /// Adds the operations of another text, or replaces those of the same name.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), Fault> {
        let read = document(file, text, |top| {
            let expected = "a table for each operation";
            let all =
                top.section("operation")?.ok_or_else(|| top.missing("operation", expected))?;
            let mut read = Vec::new();
            for key in all.keys() {
                if let Some(s) = all.section(&key.value)? {
                    read.push(operation(&key.value, &s)?);
                    s.finish()?;
                }
            }
            Ok(read)
        })?;
        self.all.extend(read.into_iter().map(|o| (Arc::clone(&o.name), o)));
        // A dual that is a slip of the pen would mislead whoever reads on.
        for o in self.all.values() {
            if let Some(d) = o.dual.as_ref().filter(|d| !self.all.contains_key(d.as_str())) {
                let text = unknown("operation", d, self.names());
                return Err(Fault::new(file, format!("operation.{}.dual: {text}", o.name)));
            }
        }
        Ok(())
    }

    /// One by its name.
    pub fn get(&self, name: &str) -> Option<&Operation> {
        self.all.get(name)
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.all.keys().map(|k| &**k)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Operation> {
        self.all.values()
    }
}

fn operation(name: &str, s: &Section<'_>) -> Result<Operation, Fault> {
    let touches =
        [("nothing", Touches::Nothing), ("packet", Touches::Packet), ("table", Touches::Table)];
    let mut parameters = Vec::new();
    if let Some(p) = s.section("parameters")? {
        for key in p.keys() {
            let unit = p.word(&key.value, Unit::NAMES)?.unwrap_or(Unit::Pure);
            parameters
                .push((key.span.start, Parameter { name: key.value.into(), unit, default: None }));
        }
    }
    // In the order in which they are written, which is the paper's.
    parameters.sort_by_key(|p| p.0);
    let mut parameters: Vec<Parameter> = parameters.into_iter().map(|p| p.1).collect();
    if let Some(d) = s.section("defaults")? {
        for p in &mut parameters {
            p.default = d.number(&p.name, Bounds::NotNegative)?;
        }
        d.finish()?;
    }
    let touches = s.word("touches", &touches)?.unwrap_or(Touches::Nothing);
    Ok(Operation {
        name: name.into(),
        about: s.need_text("about", "what it does, in a line")?,
        source: s.need_text("source", "where it comes from")?,
        dual: s.text("dual")?.map(|d| d.value),
        touches,
        at: s.word("at", Where::NAMES)?.unwrap_or(Where::Memory),
        parameters,
    })
}
