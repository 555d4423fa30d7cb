//! The data plane while its worker rests: whoever asks something then carries it out itself, since
//! waking a thread on a processor that idles takes longer than most of what is asked.
//!
//! Room: `runner`. One thread has the data plane at any time; it passes by this slot, which is
//! locked for as long as that takes and never while frames are forwarded. The worker comes first:
//! while it waits nobody else is lent anything.

use super::{ASKED, Request, carry_out, since};
use crate::plane::DataPlane;
use std::fmt;
use std::sync::mpsc::Receiver;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_packet::Nanos;

/// What passes from thread to thread.
pub(super) struct Seat {
    pub(super) plane: DataPlane,
    pub(super) from: Receiver<Request>,
    pub(super) epoch: Instant,
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").finish_non_exhaustive()
    }
}

/// How long a worker rests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    pub(super) until: Nanos,
    /// However impatient programs are, it would have rested so long.
    pub(super) doze: Nanos,
    /// What ends it before.
    pub(super) ends: Ends,
}

/// What ends a worker's rest before its time, beside who has something for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// Nothing: it is short.
    ByItself,
    /// A port that can tell.
    Told,
}

/// Who has the data plane.
#[derive(Debug)]
enum Slot {
    Worker,
    /// Nobody: the worker rests.
    Here(Box<Seat>, Rest),
    /// Who asked something.
    Asker,
    /// It was lost when a request panicked on the thread of who asked.
    Lost,
}

#[derive(Debug)]
struct State {
    slot: Slot,
    /// The worker waits for it.
    wanted: bool,
    /// How many want everything carried out by the worker's own thread.
    closed: usize,
}

/// Where the data plane is passed on.
#[derive(Debug)]
pub(super) struct Lending {
    state: Mutex<State>,
    back: Condvar,
}

/// What is left for the worker after somebody else carried out requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Nothing that its rest must end for.
    Nothing,
    /// Work, or the data plane was not to be had.
    Work,
}

impl Default for Lending {
    fn default() -> Self {
        let state = State { slot: Slot::Worker, wanted: false, closed: 0 };
        Self { state: Mutex::new(state), back: Condvar::new() }
    }
}

impl Lending {
    fn state(&self) -> MutexGuard<'_, State> {
        // No request runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The worker rests.
    pub(super) fn put(&self, seat: Box<Seat>, rest: Rest) {
        self.state().slot = Slot::Here(seat, rest);
    }

    /// The worker goes on: waits until the data plane is back. None when it is lost.
    pub(super) fn take(&self) -> Option<Box<Seat>> {
        let mut state = self.state();
        loop {
            match std::mem::replace(&mut state.slot, Slot::Worker) {
                Slot::Here(seat, _) => {
                    state.wanted = false;
                    return Some(seat);
                }
                Slot::Lost | Slot::Worker => {
                    state.slot = Slot::Lost;
                    return None;
                }
                Slot::Asker => {
                    (state.slot, state.wanted) = (Slot::Asker, true);
                    state = self.back.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Carries out what was asked until now if the worker rests, as one of its rounds would.
    pub(super) fn carry_out(&self) -> Left {
        let Some(mut lent) = self.borrow() else { return Left::Work };
        let Some(mut seat) = lent.seat.take() else { return Left::Work };
        let rest = lent.rest;
        // As on the worker's thread: what panics there ends the worker, not who asked.
        let round = std::panic::AssertUnwindSafe(|| {
            let left = as_a_round(&mut seat, rest);
            (seat, left)
        });
        let Ok((seat, left)) = std::panic::catch_unwind(round) else { return Left::Work };
        lent.seat = Some(seat);
        left
    }

    fn borrow(&self) -> Option<Lent<'_>> {
        let mut state = self.state();
        if state.wanted || state.closed > 0 {
            return None;
        }
        match std::mem::replace(&mut state.slot, Slot::Asker) {
            Slot::Here(seat, rest) => Some(Lent { lending: self, seat: Some(seat), rest }),
            other => {
                state.slot = other;
                None
            }
        }
    }

    /// Until [`Lending::open`], nothing is carried out but by the worker's own thread.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closed += 1;
        while matches!(state.slot, Slot::Asker) {
            // Whoever brings it back tells one thread: the worker, if it waits, or this one.
            let waited = self.back.wait_timeout(state, Duration::from_millis(1));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(super) fn open(&self) {
        self.state().closed -= 1;
    }
}

fn as_a_round(seat: &mut Seat, rest: Rest) -> Left {
    let Seat { plane, from, epoch } = seat;
    let (ports, now) = (plane.ports.len(), since(*epoch));
    plane.now = now;
    carry_out(plane, from, ASKED);
    // What came of it goes out.
    let began = Instant::now();
    while plane.has_more_to_do() && began.elapsed() < ASKED {
        plane.poll(since(*epoch));
    }
    let patient = now + plane.patience().max(rest.doze) >= rest.until;
    // A wire inside that a frame was sent into can't tell: the worker asks it.
    let untold = rest.ends == Ends::Told && !plane.is_told_of_all();
    // A port that came has to be watched, or asked.
    if plane.has_more_to_do() || untold || plane.ports.len() != ports || !patient {
        Left::Work
    } else {
        Left::Nothing
    }
}

/// Comes back when it is dropped, but for what was lost.
struct Lent<'a> {
    lending: &'a Lending,
    seat: Option<Box<Seat>>,
    rest: Rest,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let back = self.seat.take().map_or(Slot::Lost, |s| Slot::Here(s, self.rest));
        self.lending.state().slot = back;
        self.lending.back.notify_all();
    }
}
