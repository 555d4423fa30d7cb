//! Configuration: from TOML to a running data plane, and from one configuration to the next.
//!
//! Room: text → [`schema`] (what the file says) → [`plan`] (what it means) → [`diff`] (what must change)
//! → [`apply`] (the changes, between two bursts). Nothing here forwards a frame.

#[cfg(test)]
mod access_tests;
pub mod apply;
pub mod diff;
pub mod error;
pub mod failed;
mod gateway;
mod homes;
pub mod openflow;
#[cfg(test)]
mod openflow_tests;
pub mod plan;
pub mod program;
pub mod read;
pub mod rules;
mod schema;
pub mod slicer;
#[cfg(test)]
mod tests;
pub mod tunnels;
pub mod vdp_steps;
mod words;
