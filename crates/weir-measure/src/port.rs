//! A device and the pool that its frames come from: what generators and receivers work on.
//!
//! Called by the loops of this crate. Counts what a device itself lost, since a moment.

use weir_packet::{Device, DeviceCounters, Pool, PoolError};

/// A device, and the pool that its frames come from.
pub struct Port {
    /// The device.
    pub device: Box<dyn Device>,
    /// Its frames; for AF_XDP, of its umem.
    pub pool: Pool,
}

impl Port {
    /// A port on `device` with a pool of `frames` chunks of 2048 bytes. Not for AF_XDP, whose
    /// device is opened on a pool.
    ///
    /// # Errors
    /// [`PoolError`].
    pub fn new(device: Box<dyn Device>, frames: usize) -> Result<Self, PoolError> {
        Ok(Self { device, pool: Pool::new(frames, 2048)? })
    }
}

/// What the devices of some ports counted when it was made.
#[derive(Debug)]
pub(crate) struct Before(Vec<DeviceCounters>);

impl Before {
    pub(crate) fn of(ports: &[Port]) -> Self {
        Self(ports.iter().map(|p| p.device.counters()).collect())
    }
    /// How much the sum of `counter` over all ports has grown.
    pub(crate) fn growth(&self, ports: &[Port], counter: impl Fn(&DeviceCounters) -> u64) -> u64 {
        let now = ports.iter().map(|p| p.device.counters());
        self.0.iter().zip(now).map(|(b, n)| counter(&n).saturating_sub(counter(b))).sum()
    }
}

/// What is wrong with the devices, one line each.
pub(crate) fn faults(ports: &[Port]) -> Vec<String> {
    let line = |p: &Port| p.device.fault().map(|f| format!("{}: {f}", p.device.name()));
    ports.iter().filter_map(line).collect()
}
