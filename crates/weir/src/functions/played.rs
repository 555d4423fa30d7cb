//! A function in a data plane, with frames about to be played at its ports.
//!
//! Room: frames of a [`Function`] into arenas, arenas into ports. Called by benches and studies.

use super::{At, Function, Way, plane};
use anyhow::Result;
use std::sync::Arc;
use weir_dataplane::DataPlane;
use weir_io::replay::{Arena, Passes, Replay};
use weir_packet::{Burst, Caps, Device, DeviceCounters, LinkState, Pool};

/// A port that plays what comes first once, then the rest for ever; it swallows what it is given.
struct Player {
    first: Replay,
    rest: Replay,
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
    Ok(Playing { plane: plane(job, |no| frames.player(no))?, way, first })
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

    /// A port that plays those that belong to it, and swallows what it is given.
    pub fn player(&self, no: u32) -> Box<dyn Device> {
        let of = |arena: &Arc<Arena>, passes| {
            let port = u16::try_from(no).unwrap_or(u16::MAX);
            Replay::of_port(&format!("p{no}"), Arc::clone(arena), passes, port)
        };
        let first = of(&self.first, Passes::Times(1));
        Box::new(Player { first, rest: of(&self.rest, Passes::Forever) })
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
        if self.first.exhausted() { self.rest.rx(pool, burst) } else { self.first.rx(pool, burst) }
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
        self.first.exhausted() && self.rest.exhausted()
    }
    fn counters(&self) -> DeviceCounters {
        self.rest.counters()
    }
    fn close(&mut self, pool: &mut Pool) {
        self.rest.close(pool);
    }
}
