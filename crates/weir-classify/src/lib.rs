//! Ternary classification: which rule wins for a frame.
//!
//! Room: data-path core. Knows keys, masks, rules and slices; never packets, sockets, clocks or
//! logs. Depends on nothing of ours. Called by the mapping and matching stages of
//! `weir-dataplane`.
//!
//! - `key`, `field`: the flow key and where each field lies in it;
//! - `rule`: rules and the [`Classifier`] contract;
//! - `linear`: the oracle;
//! - `fast`: the classifier of the data path, made of `scan` and `tuple` (its `slots`), shaped by `shape`,
//!   with a `sieve` before its tuples, or all its rules once more, `ranked` or in an `index`, by the bits that tell them apart
//!   (`windows`, `telling`);
//! - `flow_cache`: flows whose winner is known, before a table whose lookups are dear;
//! - `tcam`: entries as a budget, in slices and blocks;
//! - `simd`: vector code and prefetches, the only module with `unsafe`.
#![deny(unsafe_code)]

mod aside;
#[cfg(test)]
mod dice;
mod fast;
mod field;
mod flow_cache;
mod index;
mod key;
mod linear;
mod near;
mod packed;
mod parts;
mod ranked;
mod rule;
mod scan;
mod shape;
mod sieve;
pub mod simd;
mod slots;
mod sorted;
mod tcam;
mod tcam_error;
mod telling;
mod tuple;
mod windows;

pub use fast::{Adoption, Copying, FastTable, Probe, Words};
pub use field::{
    FRAG_ANY, FRAG_LATER, Field, FieldInfo, Form, MissingPrereq, Prereq, VLAN_PRESENT,
    check_prereqs,
};
pub use flow_cache::{FlowCache, FlowCaching};
pub use index::{Draft, Drafted};
pub use key::{FlowKey, FlowMask, WORDS, ones};
pub use linear::Linear;
pub use rule::{Classifier, Duplicate, Match, Rule, RuleId};
pub use tcam::{Activation, Geometry, Owner, Part, Tcam, Usage};
pub use tcam_error::TcamError;
