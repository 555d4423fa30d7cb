//! The device as the desk has it: its name, its sizes and its link, and no frame.
//!
//! Room: crew.

use super::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use weir_packet::{Arrival, Burst, Caps, Device, DeviceCounters, LinkState, Pool};

pub(super) struct Watch(pub(super) Arc<Shared>);

impl Device for Watch {
    fn name(&self) -> &str {
        &self.0.name
    }
    fn caps(&self) -> Caps {
        self.0.caps()
    }
    fn link(&mut self, _pool: &mut Pool) -> LinkState {
        self.0.up.load(Relaxed).into()
    }
    fn rx(&mut self, _pool: &mut Pool, _burst: &mut Burst) -> usize {
        0
    }
    /// Nothing is sent by a desk.
    fn tx(&mut self, _pool: &mut Pool, _burst: &mut Burst) -> usize {
        0
    }
    fn flush(&mut self, _pool: &mut Pool) {}
    fn held(&self) -> usize {
        0
    }
    fn arrival(&self) -> Arrival<'_> {
        Arrival::Never
    }
    fn counters(&self) -> DeviceCounters {
        DeviceCounters::default()
    }
    fn close(&mut self, _pool: &mut Pool) {}
}
