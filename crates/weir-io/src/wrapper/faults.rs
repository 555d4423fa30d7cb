//! A fault injector: drops, duplicates, corrupts, delays and reorders frames around any port, by a
//! seed and probabilities.
//!
//! Room: ports. Which frame suffers what depends on the seed and on how many frames came before,
//! per direction; only when a delayed frame comes out depends on time. Every frame that goes in
//! comes out, is counted as [`DropReason::Injected`], or is in transit:
//! `entered + duplicated == left + injected + in transit`, per direction ([`FaultCounts`]).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use weir_packet::{
    Arrival, BURST, Burst, Caps, Device, DeviceCounters, DeviceError, DropCounts, DropReason,
    Frame, LinkState, Nanos, Pool, WayQuality,
};

/// Frames that may be delayed at a time, per direction; beyond, frames pass undelayed.
const MAX_DELAYED: usize = 4096;
/// A frame that waits to be overtaken goes on after this time if nothing comes.
const OVERTAKE: Nanos = Nanos(1_000_000);

/// Probabilities of one direction, from 0 to 1 each. The default is no fault.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// The frame is dropped.
    pub drop: f64,
    /// The frame comes twice.
    pub duplicate: f64,
    /// One bit of the frame is turned.
    pub corrupt: f64,
    /// The frame waits for `delay_by`.
    pub delay: f64,
    /// How long.
    pub delay_by: Nanos,
    /// The frame is overtaken by the one behind it.
    pub reorder: f64,
}

/// What to do to a port.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// Where the random numbers start.
    pub seed: u64,
    /// On what the port receives.
    pub rx: Rates,
    /// On what the port sends.
    pub tx: Rates,
}

/// What one direction has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Frames that came in.
    pub entered: u64,
    /// Frames that went out.
    pub left: u64,
    /// Frames dropped.
    pub injected: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Frames with a turned bit.
    pub corrupted: u64,
    /// Frames that had to wait.
    pub delayed: u64,
    /// Frames that were overtaken.
    pub reordered: u64,
}

impl FaultCounts {
    /// The same as drops by reason.
    pub fn drops(&self) -> DropCounts {
        let mut d = DropCounts::default();
        d.add_n(DropReason::Injected, self.injected);
        d
    }
}

#[derive(Debug, Default)]
struct Shared {
    entered: AtomicU64,
    left: AtomicU64,
    injected: AtomicU64,
    duplicated: AtomicU64,
    corrupted: AtomicU64,
    delayed: AtomicU64,
    reordered: AtomicU64,
}

fn count(c: &AtomicU64) {
    c.fetch_add(1, Ordering::Relaxed);
}

impl Shared {
    fn counts(&self) -> FaultCounts {
        let get = |c: &AtomicU64| c.load(Ordering::Relaxed);
        FaultCounts {
            entered: get(&self.entered),
            left: get(&self.left),
            injected: get(&self.injected),
            duplicated: get(&self.duplicated),
            corrupted: get(&self.corrupted),
            delayed: get(&self.delayed),
            reordered: get(&self.reordered),
        }
    }
}

/// Looks at the counters from anywhere; consistent while the port rests.
#[derive(Clone, Debug)]
pub struct FaultHandle {
    rx: Arc<Shared>,
    tx: Arc<Shared>,
}

impl FaultHandle {
    /// What happened to received frames.
    pub fn rx(&self) -> FaultCounts {
        self.rx.counts()
    }
    /// What happened to sent frames.
    pub fn tx(&self) -> FaultCounts {
        self.tx.counts()
    }
}

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): one addition and a mix, any seed is good.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
    /// Draws once, whatever the probability: the sequence does not depend on it.
    fn happens(&mut self, probability: f64) -> bool {
        // 53 bits: as many as a double holds.
        ((self.next() >> 11) as f64) < probability * (1u64 << 53) as f64
    }
}

/// One direction.
#[derive(Debug)]
struct Lane {
    random: Random,
    rates: Rates,
    counts: Arc<Shared>,
    /// In order of the time at which they go on: the delay is the same for all.
    delayed: VecDeque<(Nanos, Frame)>,
    /// The frame that the next one overtakes, and when it gives up waiting.
    behind: Option<(Nanos, Frame)>,
    /// Ready to go on.
    ready: VecDeque<Frame>,
}

impl Lane {
    fn new(seed: u64, rates: Rates) -> Self {
        Self {
            random: Random(seed),
            rates,
            counts: Arc::default(),
            delayed: VecDeque::new(),
            behind: None,
            ready: VecDeque::new(),
        }
    }

    fn in_transit(&self) -> usize {
        self.delayed.len() + self.ready.len() + usize::from(self.behind.is_some())
    }

    /// Takes a frame in and decides.
    fn enter(&mut self, mut frame: Frame, now: Nanos, pool: &mut Pool) {
        count(&self.counts.entered);
        let r = &mut self.random;
        let [drop, duplicate, corrupt, delay, reorder] = [
            self.rates.drop,
            self.rates.duplicate,
            self.rates.corrupt,
            self.rates.delay,
            self.rates.reorder,
        ]
        .map(|p| r.happens(p));
        let (at, bit) = (r.below(frame.len()), r.below(8));
        if drop {
            count(&self.counts.injected);
            pool.free(frame);
            return;
        }
        if corrupt && let Some(byte) = frame.bytes_mut().get_mut(at) {
            *byte ^= 1 << bit;
            count(&self.counts.corrupted);
        }
        let copy = if duplicate { pool.alloc() } else { None };
        let copy = copy.and_then(|mut copy| match copy.clone_from_frame(&frame) {
            Ok(()) => Some(copy),
            Err(_) => {
                pool.free(copy);
                None
            }
        });
        if delay && self.delayed.len() < MAX_DELAYED {
            count(&self.counts.delayed);
            self.delayed.push_back((now + self.rates.delay_by, frame));
        } else if reorder && self.behind.is_none() {
            count(&self.counts.reordered);
            self.behind = Some((now + OVERTAKE, frame));
        } else {
            self.ready.push_back(frame);
            self.ready.extend(self.behind.take().map(|(_, f)| f));
        }
        if let Some(copy) = copy {
            count(&self.counts.duplicated);
            self.ready.push_back(copy);
        }
    }

    /// Makes ready what has waited long enough.
    fn ripen(&mut self, now: Nanos) {
        while let Some((due, _)) = self.delayed.front() {
            if *due > now {
                break;
            }
            self.ready.extend(self.delayed.pop_front().map(|(_, f)| f));
        }
        if self.behind.as_ref().is_some_and(|(due, _)| *due <= now) {
            self.ready.extend(self.behind.take().map(|(_, f)| f));
        }
    }

    /// Moves what is ready to `burst`; says how many.
    fn leave(&mut self, burst: &mut Burst, pool: &mut Pool) -> usize {
        let n = burst.room().min(self.ready.len());
        for frame in self.ready.drain(..n) {
            if let Err(frame) = burst.push(frame) {
                pool.free(frame);
            }
        }
        n
    }

    /// Drops everything, at the end.
    fn clear(&mut self, pool: &mut Pool) {
        let behind = self.behind.take().map(|(_, f)| f);
        let delayed = self.delayed.drain(..).map(|(_, f)| f);
        for frame in self.ready.drain(..).chain(delayed).chain(behind) {
            count(&self.counts.injected);
            pool.free(frame);
        }
    }
}

/// A device with faults.
pub struct Faults {
    inner: Box<dyn Device>,
    rx: Lane,
    tx: Lane,
    /// Between a lane and the device.
    fresh: Burst,
    going: Burst,
    start: Instant,
}

impl std::fmt::Debug for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Faults").field("inner", &self.inner.name()).finish_non_exhaustive()
    }
}

impl Faults {
    /// Puts faults around a device.
    ///
    /// # Errors
    /// [`DeviceError::Setting`] for a probability that is none.
    pub fn new(
        inner: Box<dyn Device>,
        plan: FaultPlan,
    ) -> Result<(Self, FaultHandle), DeviceError> {
        for rates in [plan.rx, plan.tx] {
            for (name, p) in [
                ("drop", rates.drop),
                ("duplicate", rates.duplicate),
                ("corrupt", rates.corrupt),
                ("delay", rates.delay),
                ("reorder", rates.reorder),
            ] {
                if !(0.0..=1.0).contains(&p) {
                    return Err(DeviceError::Setting {
                        name: inner.name().to_owned(),
                        problem: format!("the probability '{name}' is {p}: 0 to 1 is meant"),
                    });
                }
            }
        }
        let rx = Lane::new(plan.seed, plan.rx);
        // The other direction has a sequence of its own.
        let tx = Lane::new(plan.seed ^ 0x5851_f42d_4c95_7f2d, plan.tx);
        let handle = FaultHandle { rx: rx.counts.clone(), tx: tx.counts.clone() };
        let (fresh, going) = (Burst::new(), Burst::new());
        Ok((Self { inner, rx, tx, fresh, going, start: Instant::now() }, handle))
    }

    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Gives the device what is ready to be sent.
    fn push_on(&mut self, pool: &mut Pool) {
        loop {
            self.tx.leave(&mut self.going, pool);
            if self.going.is_empty() {
                break;
            }
            let sent = self.inner.tx(pool, &mut self.going);
            self.tx.counts.left.fetch_add(sent as u64, Ordering::Relaxed);
            if sent == 0 {
                break;
            }
        }
    }
}

impl Device for Faults {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn caps(&self) -> Caps {
        self.inner.caps()
    }
    fn link(&mut self, pool: &mut Pool) -> LinkState {
        self.inner.link(pool)
    }
    fn rx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let now = self.now();
        self.rx.ripen(now);
        let mut got = self.rx.leave(burst, pool);
        // Only when nothing waits, so that what is ready stays bounded by one burst and its copies.
        if burst.room() > 0 {
            self.inner.rx(pool, &mut self.fresh);
            for frame in self.fresh.drain() {
                self.rx.enter(frame, now, pool);
            }
            self.rx.ripen(now);
            got += self.rx.leave(burst, pool);
        }
        self.rx.counts.left.fetch_add(got as u64, Ordering::Relaxed);
        got
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        self.push_on(pool);
        if self.going.len() + self.tx.ready.len() > BURST {
            return 0;
        }
        let now = self.now();
        let mut taken = 0;
        for frame in burst.drain() {
            self.tx.enter(frame, now, pool);
            taken += 1;
        }
        self.tx.ripen(now);
        self.push_on(pool);
        taken
    }
    fn flush(&mut self, pool: &mut Pool) {
        let now = self.now();
        self.tx.ripen(now);
        self.push_on(pool);
        self.inner.flush(pool);
    }
    /// Of what comes; what waits here is in transit.
    fn arrival(&self) -> Arrival<'_> {
        self.inner.arrival()
    }
    fn patience(&self) -> Nanos {
        self.inner.patience()
    }
    fn held(&self) -> usize {
        self.inner.held()
    }
    /// Frames that wait here, in both directions; received ones have not been handed over yet, sent
    /// ones were taken.
    fn in_transit(&self) -> usize {
        self.inner.in_transit() + self.rx.in_transit() + self.tx.in_transit() + self.going.len()
    }
    fn exhausted(&self) -> bool {
        self.inner.exhausted() && self.rx.in_transit() == 0
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
    /// Frames that still wait are dropped.
    fn close(&mut self, pool: &mut Pool) {
        self.rx.clear(pool);
        self.tx.clear(pool);
        for frame in self.going.drain() {
            count(&self.tx.counts.injected);
            pool.free(frame);
        }
        self.inner.close(pool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Memory, MemoryPeer, WireSize};

    fn port(plan: FaultPlan) -> (Pool, Faults, FaultHandle, MemoryPeer) {
        let (inner, peer) = Memory::with_peer("m", WireSize { slots: 4096, max_frame_bytes: 64 });
        let (faults, handle) = Faults::new(Box::new(inner), plan).unwrap();
        (Pool::new(8192, 2048).unwrap(), faults, handle, peer)
    }

    /// Sends 1000 numbered frames into the port and receives until nothing is left inside.
    fn received(plan: FaultPlan) -> (Vec<Vec<u8>>, FaultCounts) {
        let (mut pool, mut port, handle, mut peer) = port(plan);
        for i in 0..1000u32 {
            peer.send(&[i.to_be_bytes(); 15].concat()).unwrap();
        }
        let (mut burst, mut got) = (Burst::new(), Vec::new());
        loop {
            let n = port.rx(&mut pool, &mut burst);
            for f in burst.drain() {
                got.push(f.bytes().to_vec());
                pool.free(f);
            }
            assert_eq!(pool.available() + port.in_transit(), pool.count());
            let c = handle.rx();
            let inside = port.in_transit() as u64;
            assert_eq!(c.entered + c.duplicated, c.left + c.injected + inside);
            if n == 0 && inside == 0 {
                break;
            }
        }
        port.close(&mut pool);
        assert_eq!(pool.available(), pool.count());
        (got, handle.rx())
    }

    fn numbers(frames: &[Vec<u8>]) -> Vec<u32> {
        frames.iter().map(|f| u32::from_be_bytes(f[..4].try_into().unwrap())).collect()
    }

    #[test]
    fn each_fault_does_what_it_says() {
        let none = FaultPlan { seed: 1, ..FaultPlan::default() };
        let (all, counts) = received(none);
        assert_eq!(numbers(&all), (0..1000).collect::<Vec<_>>());
        assert_eq!(counts, FaultCounts { entered: 1000, left: 1000, ..FaultCounts::default() });

        let with = |rx| received(FaultPlan { rx, ..none });
        let (got, c) = with(Rates { drop: 0.25, ..Rates::default() });
        assert_eq!((got.len() as u64, c.left), (1000 - c.injected, 1000 - c.injected));
        assert!((150..350).contains(&c.injected), "{c:?}");
        assert_eq!(c.drops().get(DropReason::Injected), c.injected);
        assert_eq!(numbers(&with(Rates { drop: 1.0, ..Rates::default() }).0), []);

        let (got, c) = with(Rates { duplicate: 0.25, ..Rates::default() });
        let mut n = numbers(&got);
        assert_eq!(n.len() as u64, 1000 + c.duplicated);
        assert!(n.is_sorted());
        n.dedup();
        assert_eq!(n.len(), 1000);

        let (got, c) = with(Rates { corrupt: 0.25, ..Rates::default() });
        let bits = |f: &[u8], i: usize| {
            let want = [(i as u32).to_be_bytes(); 15].concat();
            f.iter().zip(&want).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>()
        };
        let turned: Vec<u32> = got.iter().enumerate().map(|(i, f)| bits(f, i)).collect();
        assert!(turned.iter().all(|&b| b < 2));
        assert_eq!(turned.iter().sum::<u32>() as u64, c.corrupted);
        assert!(c.corrupted > 150);

        let (got, c) = with(Rates { reorder: 0.25, ..Rates::default() });
        let n = numbers(&got);
        let steps_back = n.windows(2).filter(|w| w[1] < w[0]).count() as u64;
        assert!(steps_back > 100 && steps_back <= c.reordered, "{steps_back} {c:?}");
        let mut sorted = n.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<_>>());

        let late = Rates { delay: 0.25, delay_by: Nanos::from_millis(3), ..Rates::default() };
        let (got, c) = with(late);
        assert_eq!(got.len(), 1000);
        assert!(c.delayed > 150);
    }

    #[test]
    fn a_seed_decides() {
        let rates = Rates { drop: 0.1, duplicate: 0.1, corrupt: 0.1, ..Rates::default() };
        let run = |seed| received(FaultPlan { seed, rx: rates, ..FaultPlan::default() });
        assert_eq!(run(7), run(7));
        assert_ne!(run(7).0, run(8).0);
    }

    #[test]
    fn sending_has_faults_too_and_waits_for_room() {
        let rates = Rates { drop: 0.5, reorder: 0.1, ..Rates::default() };
        let (mut pool, mut port, handle, mut peer) =
            port(FaultPlan { seed: 3, tx: rates, ..FaultPlan::default() });
        let (mut burst, mut got) = (Burst::new(), Vec::new());
        let mut seen = 0;
        for i in 0..1000u32 {
            let mut f = pool.alloc().unwrap();
            f.copy_from(&[i.to_be_bytes(); 15].concat()).unwrap();
            burst.push(f).unwrap();
            port.tx(&mut pool, &mut burst);
        }
        while port.in_transit() > 0 {
            port.flush(&mut pool);
        }
        while peer.recv(&mut got) {
            seen += 1;
        }
        let c = handle.tx();
        assert_eq!(c.entered, 1000);
        assert_eq!(c.left, seen);
        assert_eq!(c.left + c.injected, 1000);
        port.close(&mut pool);
        assert_eq!(pool.available(), pool.count());
    }

    #[test]
    fn a_probability_above_one_is_refused() {
        let (inner, _peer) = Memory::with_peer("m", WireSize::default());
        let plan =
            FaultPlan { tx: Rates { drop: 1.5, ..Rates::default() }, ..FaultPlan::default() };
        let e = Faults::new(Box::new(inner), plan).unwrap_err();
        assert!(e.to_string().contains("'drop' is 1.5"), "{e}");
    }
}
