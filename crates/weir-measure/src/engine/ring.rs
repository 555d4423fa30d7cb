//! Bounded hand-over between two threads: lock-free, losses counted, the taker woken.
//!
//! Room: between the engine's threads. A ring of [`rtrb`] and a flag; the taker sleeps by
//! `park_timeout` and is unparked by whoever gives.

use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;
use std::time::Duration;

/// The end that gives.
#[derive(Debug)]
pub struct Give<T> {
    ring: Producer<T>,
    lost: Arc<AtomicU64>,
    taker: Thread,
}

/// The end that takes.
#[derive(Debug)]
pub struct Take<T> {
    ring: Consumer<T>,
    lost: Arc<AtomicU64>,
    told: u64,
}

/// A ring of that many places, whose taker lives on `taker`.
pub fn ring<T>(places: usize, taker: Thread) -> (Give<T>, Take<T>) {
    let (producer, consumer) = RingBuffer::new(places);
    let lost = Arc::new(AtomicU64::new(0));
    (Give { ring: producer, lost: lost.clone(), taker }, Take { ring: consumer, lost, told: 0 })
}

impl<T> Give<T> {
    /// Gives one; if the ring is full it is lost, and counted.
    pub fn give(&mut self, item: T) {
        if self.ring.push(item).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Gives one, or gives it back if the ring is full. Nobody takes any more: it is gone.
    ///
    /// # Errors
    /// The item.
    pub fn try_give(&mut self, item: T) -> Result<(), T> {
        match self.ring.push(item) {
            Err(rtrb::PushError::Full(back)) if !self.ring.is_abandoned() => Err(back),
            _ => Ok(()),
        }
    }

    /// Gives one without loss: waits while the ring is full. `false`: the taker is gone.
    pub fn give_surely(&mut self, item: T) -> bool {
        let mut item = item;
        loop {
            match self.ring.push(item) {
                Ok(()) => return true,
                Err(rtrb::PushError::Full(back)) => item = back,
            }
            if self.ring.is_abandoned() {
                return false;
            }
            self.wake();
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Wakes the taker: called once after a batch.
    pub fn wake(&self) {
        self.taker.unpark();
    }
}

impl<T> Take<T> {
    /// The oldest, if there is one.
    pub fn take(&mut self) -> Option<T> {
        self.ring.pop().ok()
    }

    /// How many were lost since the last call.
    pub fn take_lost(&mut self) -> u64 {
        let all = self.lost.load(Ordering::Relaxed);
        let new = all - self.told;
        self.told = all;
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_counted() {
        let (mut give, mut take) = ring(2, std::thread::current());
        for n in 0..5 {
            give.give(n);
        }
        assert_eq!((take.take(), take.take(), take.take()), (Some(0), Some(1), None));
        assert_eq!((take.take_lost(), take.take_lost()), (3, 0));
        drop(take);
        give.give(1);
        give.give(2);
        assert!(!give.give_surely(3), "nobody takes any more");
    }
}
