//! Virtual networks, kept on physical nodes: the supervisor's hands.
//!
//! Room: files, the store, node APIs. What is decided is decided in `weir-supervisor`, which touches
//! nothing; here [`lab`] reads what is wanted (`programs` and `rules` with it), [`nodes`] asks the physical nodes and changes them,
//! `reach` has one name for each, [`moving`] takes nodes from one of them to another, [`store`] remembers, [`apart`] says what proofs come to, and [`change`] leads one change through all of it. Called by `weir apply` and
//! `weir net`.

pub mod apart;
pub mod change;
pub mod diff;
pub mod flows;
pub mod lab;
pub mod moving;
pub mod nodes;
mod programs;
mod reach;
mod rules;
pub mod store;
