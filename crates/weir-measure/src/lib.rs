//! Measurement: load that carries proof, what came of it, and figures with their origin.
//!
//! Room: above the ports, below the binary. Touches frames, devices, clocks and `/proc`; never
//! rules or VDPs.
//!
//! - [`probe`]: frames with stream, number and time stamp, and the [`probe::Checker`] that says what
//!   was lost, duplicated, reordered or damaged.
//! - [`port`]: a device with its pool.
//! - [`schedule`]: load at times that are not even.
//! - [`pace`], [`generator`], [`receiver`]: load at a stated rate, and its counterpart; each runs on
//!   the thread that calls it and reports that thread's CPU time.
//! - [`trial`]: both together on ports, as a [`rfc2544::Trial`].
//! - [`rfc2544`]: throughput, latency, frame loss rate, back-to-back. Pure: time and ports are the
//!   trial's.
//! - [`latency`], [`stats`], [`cpu`]: distributions, summaries, CPU time of the whole machine.
//! - [`snmp`]: CPU and counters of a device, by SNMP or from `/proc`.
//! - [`script`]: modules at run time.
//! - [`dut`]: an OpenFlow switch with faults that are known, to measure the measurement by.
//! - [`environment`], [`document`]: where a figure comes from, and the shape it is kept in, as JSON.
//! - [`studies`]: modules on several devices, published values beside them.
//! - [`truth`]: a device for each fault that can be configured, and what must be said of it.
//! - [`report`]: documents as a page of HTML, CSV, JSON lines, a screen of text.
#![forbid(unsafe_code)]

pub mod clock;
pub mod control;
pub mod cpu;
pub mod document;
pub mod dut;
pub mod engine;
pub mod environment;
pub mod generator;
pub mod latency;
pub mod module;
pub mod modules;
pub mod pace;
pub mod pktgen;
pub mod port;
pub mod probe;
mod rate;
pub mod receiver;
pub mod report;
pub mod rfc2544;
pub mod schedule;
pub mod script;
pub mod snmp;
pub mod stats;
pub mod studies;
pub mod trial;
pub mod truth;

pub use rate::{BadRate, Rate};
