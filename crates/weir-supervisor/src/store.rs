//! What a supervisor remembers: what is wanted, where every virtual node lives, and which change is
//! under way.
//!
//! Room: the [`Store`] trait and a store of memory for tests. The embedded one is the binary's; a
//! store of several machines would be another implementation.
//!
//! A change is *begun* with the whole state that it leads to, carried out, and *finished*. Whoever finds
//! a change begun and not finished was killed in between: the way to that state is walked again from
//! what is observed, or back to the state before, which is still there.

use crate::model::Lab;
use crate::wires::Links;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where virtual nodes live, by `NETWORK/NODE`.
pub type Places = BTreeMap<String, Place>;

/// Where a virtual node lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// On this host.
    pub host: String,
    /// As this VDP.
    pub vid: u16,
}

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Counts changes, from 0 for the empty state.
    pub revision: u64,
    /// The lab.
    pub lab: Lab,
    /// Where its nodes live.
    pub places: Places,
    /// Where its links go.
    #[serde(default, skip_serializing_if = "Links::is_empty")]
    pub links: Links,
}

/// All that a store holds now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// The store's own number, drawn when it was made: whose VDPs are whose.
    pub id: u64,
    /// What holds.
    pub state: State,
    /// Where a change that is under way leads.
    pub under_way: Option<State>,
}

/// Why a store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Somebody else has it open.
    #[error("{0}: in use by another weir: wait until it has ended")]
    InUse(String),
    /// What is in it is not what was put there.
    #[error("{0}")]
    Broken(String),
    /// The system refused.
    #[error("{0}")]
    System(String),
}

/// Keeps [`Saved`] through everything. Each call is whole or nothing, also when the process or the
/// machine stops in its midst.
pub trait Store {
    /// All that it holds.
    ///
    /// # Errors
    /// [`StoreError`].
    fn load(&self) -> Result<Saved, StoreError>;
    /// Notes that a change is under way to `target`.
    ///
    /// # Errors
    /// [`StoreError`].
    fn begin(&mut self, target: &State) -> Result<(), StoreError>;
    /// The change under way is done: its target holds.
    ///
    /// # Errors
    /// [`StoreError`].
    fn finish(&mut self) -> Result<(), StoreError>;
    /// The change under way was undone: what held holds.
    ///
    /// # Errors
    /// [`StoreError`].
    fn abandon(&mut self) -> Result<(), StoreError>;
    /// What held at a revision, as far back as is kept.
    ///
    /// # Errors
    /// [`StoreError`].
    fn revision(&self, number: u64) -> Result<Option<State>, StoreError>;
}

/// A store that is forgotten with its process.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    saved: Saved,
    past: BTreeMap<u64, State>,
}

impl Memory {
    /// An empty one with this number.
    pub fn new(id: u64) -> Self {
        Self { saved: Saved { id, ..Saved::default() }, past: BTreeMap::new() }
    }
}

impl Store for Memory {
    fn load(&self) -> Result<Saved, StoreError> {
        Ok(self.saved.clone())
    }
    fn begin(&mut self, target: &State) -> Result<(), StoreError> {
        self.saved.under_way = Some(target.clone());
        Ok(())
    }
    fn finish(&mut self) -> Result<(), StoreError> {
        if let Some(s) = self.saved.under_way.take() {
            self.past.insert(s.revision, s.clone());
            self.saved.state = s;
        }
        Ok(())
    }
    fn abandon(&mut self) -> Result<(), StoreError> {
        self.saved.under_way = None;
        Ok(())
    }
    fn revision(&self, number: u64) -> Result<Option<State>, StoreError> {
        Ok(self.past.get(&number).cloned())
    }
}
