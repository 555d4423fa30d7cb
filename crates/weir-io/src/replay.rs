//! A source that plays frames from memory, and two sinks.
//!
//! Room: ports. Touches frames and plain memory; [`Arena::load`] reads a capture once, nothing else
//! makes a system call. [`Replay`] is the source of every benchmark: its cost per frame is meant to
//! be little more than the copy, so the frames lie one behind the other in one arena, in the order
//! in which they are played, and a filter is worked out once, into an index.

use crate::capture_file::{CaptureError, LINKTYPE_ETHERNET, Reader};
use crate::sys;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use weir_packet::{
    Burst, COPIED, Caps, Device, DeviceCounters, DeviceError, Feed, LinkState, Nanos, Pool,
};

/// Where frames begin in the arena: a multiple of this, in bytes.
const ALIGN: usize = COPIED;
/// The longest frame that is played, in bytes.
const MAX_FRAME: usize = 65_535;

/// Arenas of more bytes are read from afar: they are asked for so many bytes before they are played, which goes on where pages
/// end, as a processor by itself does not.
const FAR: usize = 8 << 20;
const AHEAD: usize = 8 << 10;

/// Where one frame lies: its start in units of [`ALIGN`] bytes, its length in bytes.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: u32,
    len: u32,
}

/// Frames in memory, ready to be played by any number of [`Replay`]s.
#[derive(Clone, Debug, Default)]
pub struct Arena {
    bytes: Vec<u8>,
    places: Vec<Place>,
    stamps: Vec<Option<Nanos>>,
    ports: Vec<u16>,
    /// Frames that were longer on the wire than what was captured of them.
    cut: usize,
}

/// A frame of an [`Arena`], as a filter sees it.
#[derive(Clone, Copy, Debug)]
pub struct ArenaFrame<'a> {
    /// Its number, first is 0.
    pub index: usize,
    /// The frame, Ethernet header first, no FCS.
    pub bytes: &'a [u8],
    /// The stamp of the capture.
    pub stamp: Option<Nanos>,
    /// The port it was filed under; for a capture, the number of the interface in the file.
    pub port: u16,
}

impl Arena {
    /// An empty arena.
    pub fn new() -> Self {
        Self::default()
    }

    /// The frames of a pcap or pcapng file, filed under the file's interface numbers.
    ///
    /// # Errors
    /// [`DeviceError::File`]: no capture, cut short (see [`Arena::read`] to keep what is whole), or
    /// not Ethernet.
    pub fn load(path: &Path) -> Result<Self, DeviceError> {
        let mut arena = Self::new();
        let mut reader = Reader::open(path)?;
        arena.read(&mut reader).map_err(|e| e.in_file(path))?;
        Ok(arena)
    }

    /// Appends the frames of a capture.
    ///
    /// # Errors
    /// [`CaptureError`]; the frames in front of the error have been appended.
    pub fn read<R: std::io::Read>(&mut self, from: &mut Reader<R>) -> Result<(), CaptureError> {
        while let Some(r) = from.next_record()? {
            if r.link_type != LINKTYPE_ETHERNET {
                return Err(CaptureError::NotEthernet { link_type: r.link_type });
            }
            let port = u16::try_from(r.interface).unwrap_or(u16::MAX);
            self.cut += usize::from(r.is_cut());
            if !self.push(r.bytes, r.stamp, port) {
                return Err(CaptureError::Malformed {
                    at: from.offset(),
                    problem: "frame too long to be played",
                });
            }
        }
        Ok(())
    }

    /// Appends one frame, filed under `port`; `false` when it is longer than 65,535 bytes or the
    /// arena is full (256 GiB), and nothing was appended.
    pub fn push(&mut self, frame: &[u8], stamp: Option<Nanos>, port: u16) -> bool {
        let Ok(start) = u32::try_from(self.bytes.len() / ALIGN) else { return false };
        if frame.len() > MAX_FRAME {
            return false;
        }
        self.bytes.extend_from_slice(frame);
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
        self.places.push(Place { start, len: frame.len() as u32 });
        self.stamps.push(stamp);
        self.ports.push(port);
        true
    }

    /// What is to be said of a capture's frames that were not captured whole.
    pub fn caveat(&self) -> Option<String> {
        let (cut, of) = (self.cut, self.len());
        (cut > 0).then(|| {
            format!(
                "{cut} of {of} frames were not captured whole, and are played as far as they were"
            )
        })
    }

    /// Frames in it.
    pub fn len(&self) -> usize {
        self.places.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
    #[inline]
    fn at(&self, p: Place) -> &[u8] {
        let start = p.start as usize * ALIGN;
        self.bytes.get(start..start + p.len as usize).unwrap_or_default()
    }
    /// The frame there, with what lies behind it up to the next frame.
    #[inline(always)]
    fn padded(&self, p: Place) -> &[u8] {
        self.bytes.get(p.start as usize * ALIGN..).unwrap_or_default()
    }
    /// Asks for as much as the frame there takes, further on.
    #[inline(always)]
    fn ask_behind(&self, p: Place) {
        let start = p.start as usize * ALIGN + AHEAD;
        let there = self.bytes.get(start..start + p.len as usize).unwrap_or_default();
        there.chunks(ALIGN).for_each(sys::ahead::ask_for);
    }
    /// The frame of that number.
    pub fn get(&self, index: usize) -> Option<ArenaFrame<'_>> {
        Some(ArenaFrame {
            index,
            bytes: self.at(*self.places.get(index)?),
            stamp: *self.stamps.get(index)?,
            port: *self.ports.get(index)?,
        })
    }
    /// All frames, in order.
    pub fn iter(&self) -> impl Iterator<Item = ArenaFrame<'_>> {
        (0..self.len()).filter_map(|i| self.get(i))
    }
}

/// How often the frames are played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passes {
    /// Until the port is closed.
    Forever,
    /// So many times.
    Times(u64),
}

/// Plays the frames of an arena. Each is copied into a fresh frame of the pool on every pass.
///
/// Frames that it is given for sending are freed.
#[derive(Debug)]
pub struct Replay {
    name: String,
    arena: Arc<Arena>,
    /// The frames to play; in arena order, so that memory is read forwards.
    index: Vec<Place>,
    stamps: Vec<Option<Nanos>>,
    /// Whether frames get them: writing one touches a cache line more.
    stamped: bool,
    at: usize,
    left: Option<u64>,
    counters: DeviceCounters,
}

impl Replay {
    /// Plays all frames.
    pub fn new(name: &str, arena: Arc<Arena>, passes: Passes) -> Self {
        Self::filtered(name, arena, passes, |_| true)
    }

    /// Plays the frames that were filed under `port`.
    pub fn of_port(name: &str, arena: Arc<Arena>, passes: Passes, port: u16) -> Self {
        Self::filtered(name, arena, passes, |f| f.port == port)
    }

    /// Plays the frames that `keep` wants. It is asked once per frame, now.
    pub fn filtered(
        name: &str,
        arena: Arc<Arena>,
        passes: Passes,
        mut keep: impl FnMut(ArenaFrame<'_>) -> bool,
    ) -> Self {
        let wanted: Vec<usize> = arena.iter().filter(|f| keep(*f)).map(|f| f.index).collect();
        let index = wanted.iter().filter_map(|&i| arena.places.get(i).copied()).collect();
        let stamps = wanted.iter().map(|&i| arena.stamps.get(i).copied().flatten()).collect();
        let left = match passes {
            Passes::Forever => None,
            Passes::Times(n) => Some(n),
        };
        let counters = DeviceCounters::default();
        Self { name: name.to_owned(), arena, index, stamps, stamped: false, at: 0, left, counters }
    }

    /// Gives each frame the stamp of its capture.
    #[must_use]
    pub fn stamped(mut self) -> Self {
        self.stamped = true;
        self
    }

    /// Frames of one pass.
    pub fn frames_per_pass(&self) -> usize {
        self.index.len()
    }
}

impl Device for Replay {
    fn name(&self) -> &str {
        &self.name
    }
    fn caps(&self) -> Caps {
        Caps::new(MAX_FRAME, Feed::Waits)
    }
    fn link(&mut self, _pool: &mut Pool) -> LinkState {
        LinkState::Up
    }
    #[inline]
    fn rx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let before = burst.len();
        // Bounded by the room, not by what was delivered: frames that never fit must not hold the
        // worker here.
        let mut room = burst.room();
        if self.arena.bytes.len() > FAR && self.left != Some(0) {
            let next = self.index.get(self.at..).unwrap_or_default().iter().take(room);
            next.for_each(|&place| self.arena.ask_behind(place));
        }
        while room > 0 && self.left != Some(0) {
            let run = self.index.get(self.at..).unwrap_or_default();
            let mut taken = 0;
            for &place in run.iter().take(room) {
                let Some(mut frame) = pool.alloc() else { break };
                if frame.copy_front(self.arena.padded(place), place.len as usize).is_err() {
                    self.counters.rx_errors += 1;
                    pool.free(frame);
                } else {
                    if self.stamped
                        && let Some(t) = self.stamps.get(self.at + taken).copied().flatten()
                    {
                        frame.set_stamp(t);
                    }
                    if let Err(frame) = burst.push(frame) {
                        pool.free(frame);
                        break;
                    }
                }
                taken += 1;
            }
            if taken == 0 {
                break;
            }
            room -= taken;
            self.at += taken;
            if self.at == self.index.len() {
                self.at = 0;
                self.left = self.left.map(|n| n - 1);
            }
        }
        burst.len() - before
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        free_all(pool, burst)
    }
    fn flush(&mut self, _pool: &mut Pool) {}
    fn held(&self) -> usize {
        0
    }
    fn caveat(&self) -> Option<String> {
        self.arena.caveat()
    }
    fn exhausted(&self) -> bool {
        self.index.is_empty() || self.left == Some(0)
    }
    fn counters(&self) -> DeviceCounters {
        self.counters
    }
    fn close(&mut self, _pool: &mut Pool) {}
}

fn free_all(pool: &mut Pool, burst: &mut Burst) -> usize {
    let n = burst.len();
    pool.free_all(burst);
    n
}

/// A sink: frees what it is given, receives nothing.
#[derive(Debug)]
pub struct Null {
    name: String,
}

impl Null {
    /// A sink of that name.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned() }
    }
}

impl Device for Null {
    fn name(&self) -> &str {
        &self.name
    }
    fn caps(&self) -> Caps {
        Caps::new(MAX_FRAME, Feed::Waits)
    }
    fn link(&mut self, _pool: &mut Pool) -> LinkState {
        LinkState::Up
    }
    fn rx(&mut self, _pool: &mut Pool, _burst: &mut Burst) -> usize {
        0
    }
    #[inline]
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        free_all(pool, burst)
    }
    fn flush(&mut self, _pool: &mut Pool) {}
    fn held(&self) -> usize {
        0
    }
    fn exhausted(&self) -> bool {
        true
    }
    fn counters(&self) -> DeviceCounters {
        DeviceCounters::default()
    }
    fn close(&mut self, _pool: &mut Pool) {}
}

/// One frame that a [`Collect`] kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The frame, no FCS.
    pub bytes: Vec<u8>,
    /// Its stamp, if it had one.
    pub stamp: Option<Nanos>,
}

/// What a [`Collect`] has kept so far; may be looked at from any thread.
#[derive(Clone, Debug, Default)]
pub struct Collected(Arc<Mutex<Vec<Kept>>>);

impl Collected {
    /// Takes everything that was kept, in order.
    pub fn take(&self) -> Vec<Kept> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
    /// Frames kept now.
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A sink that keeps frames as bytes, for tests and for one pass of a benchmark.
#[derive(Debug)]
pub struct Collect {
    name: String,
    kept: Collected,
    limit: usize,
    counters: DeviceCounters,
}

impl Collect {
    /// Keeps up to `limit` frames at a time; more are freed and counted as `tx_errors`.
    pub fn new(name: &str, limit: usize) -> (Self, Collected) {
        let kept = Collected::default();
        let counters = DeviceCounters::default();
        (Self { name: name.to_owned(), kept: kept.clone(), limit, counters }, kept)
    }
}

impl Device for Collect {
    fn name(&self) -> &str {
        &self.name
    }
    fn caps(&self) -> Caps {
        Caps::new(MAX_FRAME, Feed::Waits)
    }
    fn link(&mut self, _pool: &mut Pool) -> LinkState {
        LinkState::Up
    }
    fn rx(&mut self, _pool: &mut Pool, _burst: &mut Burst) -> usize {
        0
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let mut kept = self.kept.0.lock().unwrap_or_else(PoisonError::into_inner);
        for f in burst.as_slice() {
            if kept.len() < self.limit {
                kept.push(Kept { bytes: f.bytes().to_vec(), stamp: f.stamp() });
            } else {
                self.counters.tx_errors += 1;
            }
        }
        drop(kept);
        free_all(pool, burst)
    }
    fn flush(&mut self, _pool: &mut Pool) {}
    fn held(&self) -> usize {
        0
    }
    fn exhausted(&self) -> bool {
        true
    }
    fn counters(&self) -> DeviceCounters {
        self.counters
    }
    fn close(&mut self, _pool: &mut Pool) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arena(n: u8) -> Arc<Arena> {
        let mut a = Arena::new();
        for i in 0..n {
            assert!(a.push(&vec![i; 60 + usize::from(i)], Some(Nanos(i.into())), u16::from(i % 2)));
        }
        Arc::new(a)
    }

    fn drain(replay: &mut Replay, pool: &mut Pool, rounds: usize) -> Vec<u8> {
        let (mut burst, mut seen) = (Burst::new(), Vec::new());
        for _ in 0..rounds {
            replay.rx(pool, &mut burst);
            for f in burst.drain() {
                assert_eq!(f.len(), 60 + usize::from(f.bytes()[0]));
                seen.push(f.bytes()[0]);
                pool.free(f);
            }
        }
        assert_eq!(pool.available(), pool.count());
        seen
    }

    #[test]
    fn passes_and_filters_play_what_they_say() {
        let mut pool = Pool::new(16, 2048).unwrap();
        let mut r = Replay::new("r", arena(5), Passes::Times(2));
        assert_eq!(drain(&mut r, &mut pool, 9), [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
        assert!(r.exhausted());
        let mut r = Replay::of_port("r", arena(5), Passes::Times(1), 1);
        assert_eq!(drain(&mut r, &mut pool, 9), [1, 3]);
        let mut r = Replay::new("r", arena(5), Passes::Times(0));
        assert!(drain(&mut r, &mut pool, 2).is_empty());
        let mut r = Replay::new("r", arena(0), Passes::Forever);
        assert!(r.exhausted() && drain(&mut r, &mut pool, 2).is_empty());
        let mut r = Replay::new("r", arena(3), Passes::Forever);
        assert_eq!(drain(&mut r, &mut pool, 4).len(), 4 * 16, "the pool is the bound");
        assert!(!r.exhausted());
    }

    #[test]
    fn a_stamp_travels_when_asked_for() {
        let mut pool = Pool::new(4, 2048).unwrap();
        let mut burst = Burst::new();
        let mut r = Replay::of_port("r", arena(4), Passes::Times(1), 1).stamped();
        r.rx(&mut pool, &mut burst);
        let stamps: Vec<_> = burst.as_slice().iter().map(|f| f.stamp()).collect();
        assert_eq!(stamps, [Some(Nanos(1)), Some(Nanos(3))]);
        let (mut sink, kept) = Collect::new("c", 1);
        assert_eq!(sink.tx(&mut pool, &mut burst), 2);
        assert_eq!(kept.take(), [Kept { bytes: vec![1; 61], stamp: Some(Nanos(1)) }]);
        assert_eq!(sink.counters().tx_errors, 1);
        assert_eq!(pool.available(), 4);
    }

    #[test]
    fn frames_longer_than_a_chunk_are_counted_and_do_not_hold_the_worker() {
        let mut a = Arena::new();
        assert!(a.push(&[0; 4000], None, 0));
        assert!(!a.push(&[0; 70_000], None, 0));
        let mut pool = Pool::new(4, 2048).unwrap();
        let mut r = Replay::new("r", Arc::new(a), Passes::Forever);
        let mut burst = Burst::new();
        assert_eq!(r.rx(&mut pool, &mut burst), 0);
        assert!(r.counters().rx_errors > 0);
        assert_eq!(pool.available(), 4);
    }
}
