//! The subcommands, one file or folder each.

pub mod demo;
mod style;
pub mod trace;
