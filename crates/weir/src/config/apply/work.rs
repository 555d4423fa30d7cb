//! Steps that are to be carried out. An interface that is just being given back, or that another has, makes all of them wait,
//! while the data plane goes on as it is.
//!
//! Room: data. Made by who changes a data plane, carried on by `apply`.

use crate::config::diff::Step;
use std::collections::VecDeque;
use weir_io::patience::Patience;

/// See the head of this file.
#[must_use]
pub struct Work {
    pub(super) steps: VecDeque<Step>,
    /// The port that waits: others are opened when that is, as none is kept open meanwhile.
    pub(super) waits: Option<String>,
    /// Steps that were carried out.
    pub(super) done: usize,
    pub(super) patience: Patience,
}

impl Work {
    /// All is still to be done.
    pub fn new(steps: Vec<Step>) -> Self {
        Self { steps: steps.into(), waits: None, done: 0, patience: Patience::new() }
    }
    /// Waits before the next attempt, not on the data plane's thread.
    pub fn wait(&self) {
        self.patience.wait();
    }
}
