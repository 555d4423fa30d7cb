//! A bucket of flows on its way from one worker to another.
//!
//! Room: crew. The order of each flow is kept by draining: frames of the bucket that come meanwhile are held at home, until
//! those before them have left by the ports. Numbers say so, and nobody waits for anybody inside a round: whoever moves a
//! bucket asks between rounds, and may give up.

use super::{HELD, Spread};
use crate::plane::DataPlane;
use std::sync::atomic::Ordering::Relaxed;
use thiserror::Error;

/// Why a bucket can't be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MoveError {
    /// There is no such worker.
    #[error("there is no worker {worker}: the port has {workers}, counted from 0")]
    NoWorker {
        /// Which.
        worker: usize,
        /// How many there are.
        workers: usize,
    },
    /// It is on its way already.
    #[error("bucket {0} is on its way already: move it when it has arrived")]
    Moving(u8),
    /// Whoever fills the port's queues deals its flows out.
    #[error("the port has a queue for each worker: what fills them deals flows out")]
    Queues,
    /// The port is one worker's whole.
    #[error("worker {0} has the port whole, for a VDP that is pinned to it: no flow of it moves")]
    Whole(usize),
}

/// A bucket on its way. Its frames are held until [`Spread::arrive`]: whoever began must end it.
#[derive(Debug)]
#[must_use = "frames of the bucket are held until it arrives"]
pub struct Moving {
    bucket: u8,
    from: usize,
    to: usize,
    /// Frames that had been dealt to `from` when it began.
    dealt: u64,
    /// Frames that `from` had given each port when none of the bucket was left inside it.
    given: Option<Vec<u64>>,
}

impl Moving {
    /// Where it was.
    pub fn from(&self) -> usize {
        self.from
    }
    /// Where it shall be.
    pub fn to(&self) -> usize {
        self.to
    }
    /// Whether frames of the bucket that came before it began have left by the ports: to be asked between two rounds of
    /// the worker where it was, of whose data plane and all of whose spread ports it looks at the state.
    pub fn is_past(&mut self, port: &Spread, from: &DataPlane, all: &[Spread]) -> bool {
        let worker = self.from;
        if self.given.is_none() {
            let home = port.home() == self.from;
            let taken =
                home || port.0.between.get(worker).is_some_and(|b| b.taken.read() >= self.dealt);
            if !taken || from.has_more_to_do() {
                return false;
            }
            // Between two rounds and with nothing that waits, all of it is in the ports' hands.
            let given = |s: &Spread| s.0.between.get(worker).map_or(0, |b| b.given.read());
            self.given = Some(all.iter().map(given).collect());
        }
        let done =
            |(s, n): (&Spread, &u64)| s.0.between.get(worker).is_none_or(|b| b.done.read() >= *n);
        self.given.as_ref().is_some_and(|given| all.iter().zip(given).all(done))
    }
}

impl Spread {
    /// Begins to move a bucket: its frames are held from now on. To be called between two rounds of home's.
    ///
    /// # Errors
    /// [`MoveError`]; nothing has changed then.
    pub fn begin(&self, bucket: u8, to: usize) -> Result<Moving, MoveError> {
        let workers = self.workers();
        if to >= workers {
            return Err(MoveError::NoWorker { worker: to, workers });
        }
        if self.has_queues() {
            return Err(MoveError::Queues);
        }
        if let Some(worker) = self.whole() {
            return Err(MoveError::Whole(worker));
        }
        let from = self.owner(bucket).ok_or(MoveError::Moving(bucket))?;
        let dealt = self.0.between.get(from).map_or(0, |b| b.dealt.read());
        self.0.owner[usize::from(bucket)].store(HELD, Relaxed);
        Ok(Moving { bucket, from, to, dealt, given: None })
    }
    /// Ends a move: the bucket is `worker`'s, where it was or where it shall be, and what was held goes there first. To be
    /// called between two rounds of home's; with where it shall be only after [`Moving::is_past`].
    pub fn arrive(&self, moving: Moving, worker: usize) {
        let worker = if worker == moving.to { moving.to } else { moving.from };
        self.0.owner[usize::from(moving.bucket)].store(worker as u8, Relaxed);
    }
}
