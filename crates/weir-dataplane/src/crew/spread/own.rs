//! The device as a worker has it where the port has a queue for each: its own, which receives and sends for nobody else.
//!
//! Room: crew. Who deals flows out is whoever fills the queues: a network card, or the kernel.

use super::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use weir_packet::{
    Arrival, Burst, Caps, Device, DeviceCounters, LinkState, Nanos, Pool, WayQuality,
};

pub(super) struct Own {
    inner: Box<dyn Device>,
    shared: Arc<Shared>,
    worker: usize,
}

impl Own {
    pub(super) fn new(inner: Box<dyn Device>, shared: Arc<Shared>, worker: usize) -> Self {
        Self { inner, shared, worker }
    }
}

impl Device for Own {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn caps(&self) -> Caps {
        self.inner.caps()
    }
    fn link(&mut self, pool: &mut Pool) -> LinkState {
        let link = self.inner.link(pool);
        // All are of one interface.
        if self.worker == self.shared.home {
            self.shared.note(self.inner.caps(), link);
            self.shared.ended.store(self.inner.exhausted(), Release);
        }
        link
    }
    fn rx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        if self.shared.is_closing() || self.shared.pauses() {
            return 0;
        }
        let n = self.inner.rx(pool, burst);
        if let Some(seen) = self.shared.seen.get(self.worker) {
            seen.store(seen.load(Relaxed) + n as u64, Relaxed);
        }
        n
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        self.inner.tx(pool, burst)
    }
    fn flush(&mut self, pool: &mut Pool) {
        self.inner.flush(pool);
    }
    fn held(&self) -> usize {
        self.inner.held()
    }
    fn in_transit(&self) -> usize {
        self.inner.in_transit()
    }
    fn arrival(&self) -> Arrival<'_> {
        self.inner.arrival()
    }
    fn patience(&self) -> Nanos {
        self.inner.patience()
    }
    fn exhausted(&self) -> bool {
        self.inner.exhausted()
    }
    fn fault(&self) -> Option<String> {
        self.inner.fault()
    }
    fn caveat(&self) -> Option<String> {
        self.inner.caveat()
    }
    fn ways(&self) -> Vec<WayQuality> {
        self.inner.ways()
    }
    fn counters(&self) -> DeviceCounters {
        self.inner.counters()
    }
    fn close(&mut self, pool: &mut Pool) {
        self.inner.close(pool);
    }
}
