//! Steps that are to be carried out. An interface that is just being given back, or that another has, makes all of them wait,
//! while the data plane goes on as it is.
//!
//! Room: data. Made by who changes a data plane, carried on by `apply`.

use crate::config::diff::Step;
use weir_io::patience::Patience;

/// See the head of this file.
#[must_use]
pub struct Work {
    pub(super) steps: Vec<Step>,
    /// The port that waits: others are opened when that is, as none is kept open meanwhile.
    pub(super) waits: Option<String>,
    pub(super) patience: Patience,
}

impl Work {
    /// All is still to be done.
    pub fn new(steps: Vec<Step>) -> Self {
        Self { steps, waits: None, patience: Patience::new() }
    }
    /// Waits before the next attempt, not on the data plane's thread.
    pub fn wait(&self) {
        self.patience.wait();
    }
}
