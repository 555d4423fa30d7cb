//! The subcommands, one file or folder each.

pub mod capture;
mod columns;
pub mod demo;
mod style;
pub mod trace;
pub mod port;
pub mod run;
pub mod show;
pub mod stats;
pub mod top;
pub mod vdp;
