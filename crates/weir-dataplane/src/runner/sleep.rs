//! The worker's sleep: until a port has frames, or somebody has something for it.
//!
//! Room: `runner`.

use super::waker::{Place, Waker};
use crate::plane::DataPlane;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use weir_packet::{Waiter, Woken};

/// Times that ports may say in a row that they have frames when they have none; then it is not
/// believed until they have some, or [`DISBELIEF`] rests have passed.
const BELIEF: u32 = 8;
const DISBELIEF: u32 = 1000;

/// Sleeps, where it can.
#[derive(Debug)]
pub(super) struct Sleep {
    waiter: Option<Box<dyn Waiter>>,
    /// True while it sleeps, and for the last look before.
    pub(super) asleep: Arc<AtomicBool>,
    /// Where it runs, or rests, whichever way.
    pub(super) place: Arc<Place>,
    /// Ports may have opened anew.
    pub(super) stale: bool,
    /// Places of ports when they were watched last: none is used twice.
    places: usize,
    told_for_nothing: u32,
}

impl Sleep {
    pub(super) fn new(waiter: Option<Box<dyn Waiter>>) -> Self {
        Self {
            waiter,
            asleep: Arc::default(),
            place: Arc::default(),
            stale: true,
            places: 0,
            told_for_nothing: 0,
        }
    }
    /// Wakes the calling thread.
    pub(super) fn waker(&self) -> Waker {
        let sleeps = self.waiter.as_ref().map(|w| (Arc::clone(&self.asleep), w.bell()));
        Waker::mine(&self.place, sleeps)
    }
    /// Whether whatever it waits for will end the sleep.
    pub(super) fn can(&mut self, plane: &DataPlane) -> bool {
        let Some(waiter) = &mut self.waiter else { return false };
        if self.told_for_nothing >= BELIEF {
            self.told_for_nothing += 1;
            if self.told_for_nothing < BELIEF + DISBELIEF {
                return false;
            }
            self.told_for_nothing = 0;
        }
        if !plane.is_told_of_all() {
            return false;
        }
        if self.stale || self.places != plane.ports.len() {
            // One that is not watched, for want of memory, is asked when the time has passed.
            let _ = waiter.watch(&mut plane.descriptors());
            (self.stale, self.places) = (false, plane.ports.len());
        }
        true
    }
    /// Sleeps, at most so long.
    pub(super) fn sleep(&mut self, at_most: Duration) {
        let woken = self.waiter.as_mut().map(|w| w.wait(at_most));
        self.told_for_nothing += u32::from(woken == Some(Woken::Readable));
    }
    /// Frames came.
    pub(super) fn found(&mut self) {
        if self.told_for_nothing < BELIEF {
            self.told_for_nothing = 0;
        }
    }
}
