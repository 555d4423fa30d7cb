//! A function in a data plane, with frames about to be played at its ports.
//!
//! Room: frames of a [`Function`] into arenas, arenas into ports. Called by benches and studies.

use super::{At, Function, Way, plane};
use anyhow::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use weir_dataplane::DataPlane;
use weir_io::replay::{Arena, Passes, Replay};
use weir_packet::{Burst, Caps, Device, DeviceCounters, LinkState, Pool};

/// A port that plays what comes first once, then the rest for ever; it swallows what it is given.
struct Player {
    first: First,
    rest: Replay,
}

/// What comes first, in its order: each port plays its own of them when it is their turn. Where an answer
/// overtakes what it answers, a connection is none.
#[derive(Clone)]
struct First {
    arena: Arc<Arena>,
    /// How many frames have been played, by all ports.
    played: Arc<AtomicUsize>,
    port: u16,
}

impl First {
    fn is_over(&self) -> bool {
        self.played.load(Relaxed) >= self.arena.len()
    }
    /// Those that are next, as long as they are this port's.
    fn rx(&self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let begun = self.played.load(Relaxed);
        let mut next = begun;
        while burst.room() > 0
            && let Some(f) = self.arena.get(next).filter(|f| f.port == self.port)
            && let Some(mut frame) = pool.alloc()
        {
            let copied = frame.copy_from(f.bytes).is_ok();
            if let Err(back) = burst.push(frame) {
                pool.free(back);
            }
            if !copied {
                break;
            }
            next += 1;
        }
        self.played.store(next, Relaxed);
        next - begun
    }
}

/// A function with frames about to be played.
pub struct Playing {
    /// The data plane.
    pub plane: DataPlane,
    /// What the function asks of it.
    pub way: Way,
    /// Frames that it must see first, which are played once.
    pub first: u64,
}

/// The function with frames for these entries, in this order, over and over; of `len` bytes without
/// FCS.
///
/// # Errors
/// The function can't be made with so many entries.
pub fn playing(f: &dyn Function, entries: u32, order: &[u32], len: usize) -> Result<Playing> {
    let frames = Frames::of(f, entries, order, len)?;
    let job = f.job(entries)?;
    let way = Way::of_function(&job, f, entries, len);
    let first = frames.first.len() as u64;
    let players = frames.players();
    Ok(Playing { plane: plane(job, |no| players(no))?, way, first })
}

/// Frames of a function, filed under their ports.
pub struct Frames {
    /// What must come first, once.
    pub first: Arc<Arena>,
    /// What is played over and over.
    pub rest: Arc<Arena>,
}

impl Frames {
    /// Those of a function for these entries, in this order, `len` bytes without FCS.
    ///
    /// # Errors
    /// A port's number is none.
    pub fn of(f: &dyn Function, entries: u32, order: &[u32], len: usize) -> Result<Self> {
        let each = |(i, e): (usize, &u32)| f.frame(entries, i as u32, *e, len);
        Ok(Self {
            first: arena((0..).map_while(|i| f.warm(entries, i)))?,
            rest: arena(order.iter().enumerate().map(each))?,
        })
    }

    /// Ports that play those that belong to each, and swallow what they are given.
    pub fn players(&self) -> impl Fn(u32) -> Box<dyn Device> {
        let (first, rest) = (Arc::clone(&self.first), Arc::clone(&self.rest));
        let played = Arc::new(AtomicUsize::new(0));
        move |no| {
            let port = u16::try_from(no).unwrap_or(u16::MAX);
            let rest = Replay::of_port(&format!("p{no}"), Arc::clone(&rest), Passes::Forever, port);
            let first = First { arena: Arc::clone(&first), played: Arc::clone(&played), port };
            Box::new(Player { first, rest })
        }
    }
}

/// Frames in memory.
///
/// # Errors
/// A port's number is none.
pub fn arena(frames: impl Iterator<Item = At>) -> Result<Arc<Arena>> {
    let mut arena = Arena::new();
    for at in frames {
        arena.push(&at.bytes, None, u16::try_from(at.port)?);
    }
    Ok(Arc::new(arena))
}

impl Device for Player {
    fn name(&self) -> &str {
        self.rest.name()
    }
    fn caps(&self) -> Caps {
        self.rest.caps()
    }
    fn link(&mut self, pool: &mut Pool) -> LinkState {
        self.rest.link(pool)
    }
    #[inline]
    fn rx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        if self.first.is_over() { self.rest.rx(pool, burst) } else { self.first.rx(pool, burst) }
    }
    #[inline]
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        self.rest.tx(pool, burst)
    }
    fn flush(&mut self, pool: &mut Pool) {
        self.rest.flush(pool);
    }
    fn held(&self) -> usize {
        self.rest.held()
    }
    fn exhausted(&self) -> bool {
        self.first.is_over() && self.rest.exhausted()
    }
    fn counters(&self) -> DeviceCounters {
        self.rest.counters()
    }
    fn close(&mut self, pool: &mut Pool) {
        self.rest.close(pool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::ALL;
    use weir_packet::Nanos;

    /// What is measured is what a function does with frames that it takes: each that comes leaves.
    #[test]
    fn frames_that_are_played_pass() {
        const ENTRIES: u32 = 512;
        for f in ALL {
            let order: Vec<u32> = (0..4096).map(|i| i * 7 % ENTRIES).collect();
            let mut p = playing(*f, ENTRIES, &order, f.least_frame()).expect("a data plane");
            let mut now = 0;
            let mut until = |p: &mut Playing, frames: u64| loop {
                now += 3000;
                p.plane.poll(Nanos(now));
                let s = p.plane.snapshot();
                let of = |n: fn(&weir_dataplane::PortView) -> u64| s.ports.iter().map(n).sum();
                let came: u64 = of(|p| p.counters.rx.frames);
                let left: u64 = of(|p| p.counters.tx.frames);
                if came >= frames {
                    return (came, left);
                }
            };
            let first = p.first;
            let before = until(&mut p, first + 1000);
            let after = until(&mut p, first + 21_000);
            let (came, left) = (after.0 - before.0, after.1 - before.1);
            assert!(left * 100 >= came * 99, "{}: {left} of {came} left", f.name());
        }
    }
}
