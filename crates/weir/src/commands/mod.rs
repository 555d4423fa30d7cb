//! The subcommands, one file or folder each.

pub mod apply;
pub mod calibrate;
pub mod capture;
pub mod columns;
pub mod demo;
pub mod dut;
pub mod estimate;
mod exposition;
pub mod log_writer;
pub mod measure;
pub mod net;
pub mod place;
pub mod port;
pub mod report;
pub mod run;
pub mod say;
pub mod serve;
pub mod show;
pub mod slicer;
pub mod stats;
pub mod study;
pub mod style;
pub mod token;
pub mod top;
pub mod trace;
pub mod vdp;
pub mod workers;
