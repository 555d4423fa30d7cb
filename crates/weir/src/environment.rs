//! Which program this is, and results in JSON with where they come from.
//!
//! Called by every command that publishes a figure. What is noted of the machine: `weir-measure`.

use serde::Serialize;
use weir_measure::environment::{Environment, Program};

/// Version and commit.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("WEIR_COMMIT"), ")");

/// This binary, for whatever measures with it.
pub const PROGRAM: Program =
    Program { version: env!("CARGO_PKG_VERSION"), commit: Some(env!("WEIR_COMMIT")) };

/// Version of the JSON that results are written in.
pub const SCHEMA: u32 = 1;

/// A result and where it comes from.
#[derive(Debug, Serialize)]
pub struct Envelope<T> {
    /// Version of the JSON.
    pub schema: u32,
    /// What kind of result.
    pub kind: &'static str,
    /// Where it comes from.
    pub environment: Environment,
    /// The result.
    pub result: T,
}

impl<T> Envelope<T> {
    /// Wraps a result.
    pub fn new(kind: &'static str, result: T) -> Self {
        Self { schema: SCHEMA, kind, environment: Environment::here(PROGRAM), result }
    }
}
