//! An interface that the user gives, as a measurement needs it: without offloads that would falsify, with the
//! best stamps that it has. Both are put back when this is dropped: at the end, and after an interruption.
//!
//! Room: one interface. Labs make theirs and need none of it.

use crate::fault::bad_input;
use anyhow::Result;
use weir_io::features;
use weir_io::stamped::Stamping;
use weir_measure::document::Document;
use weir_measure::engine::ported;
use weir_measure::engine::wire::{self, Channel};

/// One that is held.
pub struct Held {
    name: String,
    features: features::Held,
    /// `None`: the program's.
    stamping: Option<Stamping>,
    notes: Vec<String>,
}

impl Held {
    /// Sets it, and opens it. `option`: the argument that names it.
    ///
    /// # Errors
    /// No such interface, down, no rights.
    pub fn new(name: &str, option: &str) -> Result<(Self, Channel)> {
        let bad = |e| bad_input(format!("{option}: {e}"));
        if let Some((_, interface)) = name.split_once(':') {
            let features = features::Held::new(interface).map_err(bad)?;
            let (channel, notes) = ported::port(name).map_err(bad)?;
            return Ok((Self { name: name.to_owned(), features, stamping: None, notes }, channel));
        }
        let features = features::Held::new(name).map_err(bad)?;
        let stamping = Stamping::new(name).map_err(bad)?;
        let channel = wire::interface_with(name, stamping.stamps()).map_err(bad)?;
        let notes = stamping.note().map(str::to_owned).into_iter().collect();
        Ok((Self { name: name.to_owned(), features, stamping: Some(stamping), notes }, channel))
    }

    /// Where its stamps are taken.
    pub fn stamps(&self) -> &'static str {
        self.stamping.as_ref().map_or("user space", |s| s.stamps().words())
    }

    /// What a reader of results must know of it.
    pub fn note(&self, document: &mut Document) {
        let name = &self.name;
        if let Some(off) = self.features.switched_off() {
            document.note(format!("Off on {name} for the measurement: {off}."));
        }
        if let Some(on) = self.features.still_on() {
            document.note(format!(
                "Still on on {name}, whose driver does not let it be switched off: {on}. Frames may be cut or joined."
            ));
        }
        document.note(format!("Stamps of {name}: {}.", self.stamps()));
        for note in &self.notes {
            document.note(format!("{note}."));
        }
    }
}
