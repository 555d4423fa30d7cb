//! What a network function will sustain on a given machine, before it is deployed (paper 002).
//!
//! Room: arithmetic over data files, which come in as text. No clocks, no frames, no files, no machine
//! is touched. Depends on nothing of ours.
//!
//! A *model* is a list of elementary operations ([`Operations`]); a *profile* says what they cost on a
//! machine; [`estimate()`] puts both together.
#![forbid(unsafe_code)]

pub mod chain;
pub mod estimate;
pub mod fault;
pub mod formula;
pub mod locality;
pub mod model;
pub mod operation;
pub mod place;
pub mod profile;
pub mod quantity;
mod read;
pub mod refine;
pub mod series;
pub mod traffic;

pub use estimate::{Estimate, Mode, Question, estimate};
pub use fault::Fault;
pub use model::{Library, Model};
pub use operation::Operations;
pub use profile::Profile;
