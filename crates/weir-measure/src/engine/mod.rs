//! The engine: everything of a measurement but its question. 001 §2.
//!
//! Room: above ports and the control channel, below the binary.
//!
//! - [`Core`] is sans-I/O: what happened goes in with its time ([`Input`]), what is to be done comes out
//!   ([`Command`]), and at the end a [`crate::document::Document`]. Its phases are in files of their own:
//!   [`setup`] (ask, clear, find the wires), [`keeping`] (its flows, where they outlive the program; `by_hand`: as
//!   text), measuring in `core`, [`restore`] (leave the switch as it was).
//! - [`forecast`]: how long it takes.
//! - [`sampling`]: the switch's own readings.
//! - [`run`](mod@run) drives a core on a real switch: generator, captures, control channel, sampler and
//!   time each on a thread, joined to the core's by bounded lock-free rings ([`ring`]), the generator on a
//!   core of its own (`cores`).
//! - [`simulation`] drives a core on a simulated switch in virtual time: every run is the same.
//!   [`configured`] puts the device with configured faults there.
//! - [`wire`], [`ported`]: data channels by AF_PACKET with the kernel's stamps, or by any port of weir-io;
//!   [`mod@recorded`]: with all that passes saved.
//! - [`floor`]: delay, jitter and drift of a wire without the device, before all that.

mod by_hand;
mod conclusion;
pub mod configured;
mod core;
mod cores;
pub mod floor;
pub mod forecast;
mod generator;
pub mod keeping;
mod misread;
mod observed;
pub(crate) mod pairing;
pub mod ported;
pub mod recorded;
pub mod restore;
pub mod ring;
pub mod run;
pub mod sampling;
pub mod setup;
pub mod simulation;
mod tally;
mod terms;
mod thinning;
mod twice;
pub mod wire;

pub use self::core::Core;
pub use self::cores::beside_generator;
pub use self::terms::{Command, Departures, Input, Keeps, Phase, Resets, Settings, Status};
