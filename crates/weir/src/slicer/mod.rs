//! `weir slicer` with its sockets: foreign switches on one side, the slices' controllers on the other, and
//! `weir_supervisor`'s sliced switch between them.
//!
//! Room: one thread, on which nothing blocks. Called by `commands::slicer`.
//!
//! - `service`: the thread, switches that come and go; `desk`: one switch with its controllers, where messages
//!   meet; `controllers`: how a slice's controllers are reached;
//! - `peer`: one connection as its desk sees it; `pump`: its bytes; `share`: a slice's part of the thread's time;
//!   `places`: who may have how many connections;
//! - `journal`: what slices have, kept for a slicer that comes back; `fvctl`: FlowVisor's JSON-RPC names.

mod controllers;
mod desk;
pub mod fvctl;
pub mod journal;
mod peer;
mod places;
mod pump;
pub mod service;
mod share;
