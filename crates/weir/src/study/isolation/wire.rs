//! Ports in virtual time: a network's own line, which brings frames at rates of its own whether or not
//! anybody takes them, and the uplink that all share, which sends at a rate and no faster.
//!
//! Room: devices of a data plane; the time is an atomic that [`super::world`] moves. No clock, no I/O.

use super::frames::{self, FCS, Pattern};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_measure::latency::Latency;
use weir_packet::{Burst, Caps, Device, DeviceCounters, Feed, LinkState, Pool};

/// Frames that a line's ring holds before it overflows.
const RING: usize = 512;
/// Frames that the uplink's ring holds: a burst.
const UPLINK_RING: usize = weir_packet::BURST;
/// Picoseconds of a second: rates are kept in them, so that they do not drift.
const PS: u64 = 1_000_000_000_000;

/// Virtual nanoseconds since the beginning.
#[derive(Clone, Debug, Default)]
pub struct Time {
    now: Arc<AtomicU64>,
    /// How long the last round took.
    round: Arc<AtomicU64>,
}

impl Time {
    /// Now: while a round lasts, its beginning.
    pub fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }
    /// Moves on.
    pub fn pass(&self, ns: u64) {
        self.now.fetch_add(ns, Ordering::Relaxed);
    }
    /// Moves on by a round.
    pub fn pass_round(&self, ns: u64) {
        self.round.store(ns, Ordering::Relaxed);
        self.pass(ns);
    }
    fn last_round(&self) -> u64 {
        self.round.load(Ordering::Relaxed)
    }
}

/// When frames come, and which of them count.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Before this there are none, in nanoseconds.
    pub start: u64,
    /// From here on frames count.
    pub from: u64,
    /// From here on none come.
    pub until: u64,
}

/// Frames of a network at a steady rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Whose.
    pub network: u16,
    /// Bytes of each, FCS included.
    pub bytes: usize,
    /// How many a second.
    pub per_second: u64,
    /// What differs among them.
    pub pattern: Pattern,
}

/// What happened to the frames of a network, as far as they count.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Came to a line, for a host that there is.
    pub offered: u64,
    /// Left by the uplink.
    pub delivered: u64,
    /// From arrival to the last bit on the uplink, in nanoseconds.
    pub latency: Latency,
}

/// What lines and uplink write down.
#[derive(Debug, Default)]
pub struct Book {
    /// By network's number.
    pub networks: Vec<Tally>,
    /// Frames that came out where or as they must not.
    pub leaked: u64,
    /// Sent in this round.
    fresh: Vec<Sent>,
}

/// A frame that was sent in this round.
#[derive(Clone, Copy, Debug)]
struct Sent {
    network: u16,
    came: u64,
    /// When its last bit is gone, as far as the wire is concerned.
    gone: u64,
    /// Which of the round's calls for sending took it, from 1.
    call: u64,
}

/// A [`Book`] that ports share.
#[derive(Clone, Debug)]
pub struct Shared(Arc<Mutex<Book>>);

impl Shared {
    /// For networks with numbers below `n`.
    pub fn new(n: usize) -> Self {
        let networks = vec![Tally::default(); n];
        Self(Arc::new(Mutex::new(Book { networks, ..Book::default() })))
    }
    /// To look at it.
    pub fn open(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// A round that began then is over, and took so long. Its calls for sending were spread evenly over it, the
    /// last at its end: no frame left before it was sent.
    pub fn settle(&self, begin: u64, round: u64, window: Window) {
        let mut book = self.open();
        let mut fresh = std::mem::take(&mut book.fresh);
        let calls = fresh.iter().map(|s| s.call).max().unwrap_or(1);
        for s in fresh.drain(..) {
            let of = book.networks.get_mut(usize::from(s.network));
            if let Some(t) = of.filter(|_| s.came >= window.from) {
                t.delivered += 1;
                let sent = begin + round * s.call / calls;
                t.latency.record(s.gone.max(sent).saturating_sub(s.came));
            }
        }
        book.fresh = fresh;
    }
}

#[derive(Clone, Copy, Debug)]
struct Running {
    source: Source,
    /// When the next one comes, in picoseconds.
    next: u64,
    sent: u64,
}

/// A network's own port.
pub struct Line {
    owner: u16,
    time: Time,
    window: Window,
    sources: Vec<Running>,
    ring: VecDeque<(Source, u64, u64)>,
    missed: u64,
    book: Shared,
    bytes: Vec<u8>,
}

impl Line {
    /// One that brings frames of these sources.
    pub fn new(owner: u16, sources: &[Source], time: &Time, window: Window, book: &Shared) -> Self {
        // Each begins at a place of its own, so that no two come in step.
        let step = |s: &Source| PS / s.per_second / 7 * (u64::from(s.network) + 1);
        let start = |s: &Source| window.start * 1000 + step(s);
        let running = |s: &Source| Running { source: *s, next: start(s), sent: 0 };
        Self {
            owner,
            time: time.clone(),
            window,
            sources: sources.iter().filter(|s| s.per_second > 0).map(running).collect(),
            ring: VecDeque::with_capacity(RING),
            missed: 0,
            book: book.clone(),
            bytes: Vec::with_capacity(1600),
        }
    }

    /// Takes in what has come since it was last asked.
    fn advance(&mut self) {
        let now = self.time.now().min(self.window.until) * 1000;
        let mut book = self.book.open();
        while let Some(r) = self.sources.iter_mut().min_by_key(|r| r.next).filter(|r| r.next <= now)
        {
            let (at, nth) = (r.next / 1000, r.sent);
            r.next += PS / r.source.per_second;
            r.sent += 1;
            let s = r.source;
            let counts = at >= self.window.from && s.pattern != Pattern::Nobody;
            if let Some(t) = book.networks.get_mut(usize::from(s.network)).filter(|_| counts) {
                t.offered += 1;
            }
            if self.ring.len() < RING {
                self.ring.push_back((s, nth, at));
            } else {
                self.missed += 1;
            }
        }
    }
}

impl Device for Line {
    fn name(&self) -> &str {
        "line"
    }
    fn caps(&self) -> Caps {
        Caps::new(1514, Feed::Overflows)
    }
    fn link(&mut self, _: &mut Pool) -> LinkState {
        LinkState::Up
    }
    fn rx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        self.advance();
        let before = burst.len();
        while burst.room() > 0 && !self.ring.is_empty() {
            let Some(mut f) = pool.alloc() else { break };
            let Some((s, nth, at)) = self.ring.pop_front() else { break };
            frames::write(&mut self.bytes, s.network, s.pattern, nth, s.bytes, at);
            if f.copy_from(&self.bytes).is_err() {
                pool.free(f);
                break;
            }
            if let Err(f) = burst.push(f) {
                pool.free(f);
                break;
            }
        }
        burst.len() - before
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let n = burst.len();
        for f in burst.drain() {
            let own = frames::read(f.bytes()).is_some_and(|(network, _)| network == self.owner);
            self.book.open().leaked += u64::from(!own);
            pool.free(f);
        }
        n
    }
    fn flush(&mut self, _: &mut Pool) {}
    fn held(&self) -> usize {
        0
    }
    fn counters(&self) -> DeviceCounters {
        DeviceCounters { rx_missed: self.missed, ..DeviceCounters::default() }
    }
    fn close(&mut self, _: &mut Pool) {}
}

/// The port that all networks share.
pub struct Uplink {
    time: Time,
    bps: u64,
    /// When what it was given is gone.
    busy_until: u64,
    /// When each frame in its ring is gone.
    ring: VecDeque<u64>,
    /// The round that is on, by its beginning, and its calls for sending so far; those of the one before.
    round: (u64, u64),
    before: u64,
    book: Shared,
}

impl Uplink {
    /// One that sends so many bits a second.
    pub fn new(bps: u64, time: &Time, book: &Shared) -> Self {
        let ring = VecDeque::with_capacity(UPLINK_RING);
        Self {
            time: time.clone(),
            bps,
            busy_until: 0,
            ring,
            round: (0, 0),
            before: 1,
            book: book.clone(),
        }
    }
}

/// Nanoseconds that a frame of so many bytes, FCS included, takes on a wire of that rate.
pub const fn on_the_wire(bytes: usize, bps: u64) -> u64 {
    (bytes as u64 * 8 * 1_000_000_000).div_ceil(bps)
}

impl Device for Uplink {
    fn name(&self) -> &str {
        "uplink"
    }
    fn caps(&self) -> Caps {
        Caps::new(1518, Feed::Overflows)
    }
    fn link(&mut self, _: &mut Pool) -> LinkState {
        LinkState::Up
    }
    fn rx(&mut self, _: &mut Pool, _: &mut Burst) -> usize {
        0
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let begin = self.time.now();
        if self.round.0 != begin {
            (self.before, self.round) = (self.round.1, (begin, 0));
        }
        self.round.1 += 1;
        let call = self.round.1;
        // The wire has worked on meanwhile: about as long as up to this call in the round before.
        let now = begin + self.time.last_round() * call / self.before.max(call);
        while self.ring.front().is_some_and(|gone| *gone <= now) {
            self.ring.pop_front();
        }
        let n = burst.len().min(UPLINK_RING - self.ring.len());
        let mut book = self.book.open();
        for f in burst.drain_front(n) {
            self.busy_until = self.busy_until.max(now) + on_the_wire(f.len() + FCS, self.bps);
            self.ring.push_back(self.busy_until);
            match frames::read(f.bytes()) {
                Some((network, came)) if frames::is_its_own(f.bytes()) => {
                    let gone = self.busy_until;
                    book.fresh.push(Sent { network, came, gone, call });
                }
                _ => book.leaked += 1,
            }
            pool.free(f);
        }
        n
    }
    fn flush(&mut self, _: &mut Pool) {}
    fn held(&self) -> usize {
        0
    }
    fn counters(&self) -> DeviceCounters {
        DeviceCounters::default()
    }
    fn close(&mut self, _: &mut Pool) {}
}
