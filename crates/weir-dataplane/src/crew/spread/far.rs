//! The device as a worker has it that is not at home there: its part of what comes, and the way out by home.
//!
//! Room: crew.

use super::Shared;
use crate::crew::lane::{Borrower, Lender};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use weir_packet::{Arrival, Burst, Caps, Device, DeviceCounters, LinkState, Pool};

pub(super) struct Far {
    shared: Arc<Shared>,
    worker: usize,
    inn: Borrower,
    out: Lender,
    counters: DeviceCounters,
}

impl Far {
    pub(super) fn new(shared: Arc<Shared>, worker: usize, inn: Borrower, out: Lender) -> Self {
        Self { shared, worker, inn, out, counters: DeviceCounters::default() }
    }
    fn give_up(&mut self, pool: &mut Pool) {
        self.counters.rx_missed += self.inn.refuse_all() as u64;
        self.out.reclaim(pool);
    }
}

impl Device for Far {
    fn name(&self) -> &str {
        &self.shared.name
    }
    fn caps(&self) -> Caps {
        self.shared.caps()
    }
    fn link(&mut self, _pool: &mut Pool) -> LinkState {
        if self.inn.is_abandoned() {
            LinkState::Gone
        } else if self.shared.up.load(Relaxed) {
            LinkState::Up
        } else {
            LinkState::Down
        }
    }
    fn rx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        if self.shared.is_closing() {
            self.give_up(pool);
            return 0;
        }
        self.out.reclaim(pool);
        let taken = self.inn.copy(pool, burst);
        self.inn.give_back();
        self.counters.rx_errors += taken.unfit as u64;
        let all = taken.frames + taken.unfit;
        if all > 0
            && let Some(b) = self.shared.between.get(self.worker)
        {
            b.taken.add(all);
        }
        all
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        if self.out.is_abandoned() || self.shared.is_closing() {
            return 0;
        }
        if self.out.room() < burst.len() {
            self.out.reclaim(pool);
        }
        let n = self.out.send_burst(pool, burst);
        if n > 0 {
            if let Some(b) = self.shared.between.get(self.worker) {
                b.given.add(n);
            }
            self.shared.wake(self.shared.home);
        }
        n
    }
    fn flush(&mut self, pool: &mut Pool) {
        match self.shared.is_closing() {
            true => self.give_up(pool),
            false => self.out.reclaim(pool),
        }
    }
    fn held(&self) -> usize {
        self.out.lent()
    }
    /// Who deals a frame to it wakes the worker.
    fn arrival(&self) -> Arrival<'_> {
        if self.inn.is_empty() { Arrival::Never } else { Arrival::Polled }
    }
    fn exhausted(&self) -> bool {
        // In this order: what home dealt before it went, or said so, is seen by the second question.
        let gone = self.inn.is_abandoned();
        let last = (gone || self.shared.ended.load(Acquire)) && self.inn.is_empty();
        // What it gave home to send is under way until the device has it.
        last && (gone || self.shared.unsent(self.worker) == 0)
    }
    fn counters(&self) -> DeviceCounters {
        self.counters
    }
    fn close(&mut self, pool: &mut Pool) {
        self.give_up(pool);
    }
}
