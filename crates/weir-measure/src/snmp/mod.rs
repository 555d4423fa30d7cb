//! CPU and interface counters of a device while it is measured: by SNMP v2c or v3, or from `/proc` where the
//! device is a process here. Both give the same [`Sample`].
//!
//! Room: touches a UDP socket and `/proc`, on the thread that calls it; no threads, no clocks of its own
//! but for time-outs. Called by the engine's sampler, once an interval.
//!
//! - [`target`]: where and as whom. [`client`]: requests, time-outs, retries. [`vendors`]: which
//!   objects, as data. [`poll`]: a device's samples. [`process`]: a process's.
//!
//! BER, USM and ciphers are the crate `snmp2`'s (RFC 3412, 3414, 3416, 3826).

pub mod client;
pub mod poll;
pub mod process;
pub mod target;
pub mod vendors;

pub use client::{Client, SnmpError, Value};
pub use poll::Poller;
pub use process::ProcessSampler;
pub use target::{Access, BadTarget, Target};
pub use vendors::Vendors;

use std::time::Duration;

/// What a device was doing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// CPU time at work since the sample before, in percent; `None` in the first one of a device that
    /// counts ticks, and where the device does not say.
    pub cpu_percent: Option<f64>,
    /// How long it took to learn: the middle of it is the sample's time.
    pub took: Duration,
    /// Counters of the interfaces that were asked for.
    pub interfaces: Vec<InterfaceCounters>,
}

/// Counters of an interface, since the device started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    /// Its name.
    pub name: String,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Frames received: unicast, multicast, broadcast.
    pub rx_frames: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Discards and errors of both directions.
    pub dropped: u64,
}

/// A source of samples.
pub trait Sampler: Send {
    /// What the percent are of: `all cores`, `one core`.
    fn percent_of(&self) -> &'static str;

    /// Takes one.
    ///
    /// # Errors
    /// In one line; the next one may succeed.
    fn sample(&mut self) -> Result<Sample, SnmpError>;
}
