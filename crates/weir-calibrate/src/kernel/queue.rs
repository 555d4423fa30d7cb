//! Operations on rings between cores, and what is done once for a burst.
//!
//! Room: one writer, one reader. What a line costs that changes cores is measured by two threads that
//! hand one to and fro. Called by `bench` and by `lib`.

use super::{Memory, Pace, over};
use crate::field::{Word, get, put};
use crate::meter::Run;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Descriptors of a ring.
const RING: u64 = 256;

/// The descriptor of `W` words at an index.
#[inline(always)]
fn descriptor<const W: usize>(words: &mut [Word], index: u64) -> &mut [Word] {
    super::table::entry::<W>(words, index & (RING - 1))
}

/// 'ring_enqueue': a descriptor of `W` words is written; the end is told once for all of a burst, which
/// is not counted here.
pub fn enqueue<const W: usize>(memory: &Memory, pace: Pace, places: u64) -> Run {
    let tail = Box::new(AtomicU64::new(0));
    let head = Box::new(AtomicU64::new(0));
    over(memory, pace, places, move |words, at| {
        let index = tail.load(Ordering::Relaxed);
        if index.wrapping_sub(head.load(Ordering::Acquire)) >= RING {
            head.store(index, Ordering::Relaxed);
        }
        for (i, w) in descriptor::<W>(words, index).iter_mut().enumerate() {
            put(w, at.wrapping_add(i as u64));
        }
        tail.store(index.wrapping_add(1), Ordering::Release);
        at
    })
}

/// 'ring_dequeue': a descriptor of `W` words is read.
pub fn dequeue<const W: usize>(memory: &Memory, pace: Pace, places: u64) -> Run {
    let tail = Box::new(AtomicU64::new(RING));
    let head = Box::new(AtomicU64::new(0));
    over(memory, pace, places, move |words, at| {
        let index = head.load(Ordering::Relaxed);
        if index == tail.load(Ordering::Acquire) {
            tail.store(index.wrapping_add(RING), Ordering::Relaxed);
        }
        let all = descriptor::<W>(words, index).iter().fold(at, |x, w| x ^ get(w));
        head.store(index.wrapping_add(1), Ordering::Release);
        all
    })
}

/// What a loop in bursts asks of a port, whatever port it is.
trait Port {
    fn poll(&mut self) -> u64;
    fn flush(&mut self, sent: u64);
}

/// A port with nothing behind its indices.
struct Bare {
    head: AtomicU64,
    tail: AtomicU64,
}

impl Port for Bare {
    fn poll(&mut self) -> u64 {
        let ready = self.tail.load(Ordering::Acquire) - self.head.load(Ordering::Relaxed);
        self.head.store(0, Ordering::Release);
        ready
    }
    fn flush(&mut self, sent: u64) {
        self.tail.store(sent, Ordering::Release);
    }
}

/// 'batch_overhead': a port is polled and another flushed, whatever ports they are; what was sent is
/// counted.
pub fn batch(memory: &Memory, pace: Pace, places: u64) -> Run {
    let bare = || Bare { head: AtomicU64::new(0), tail: AtomicU64::new(32) };
    let mut ports: Vec<Box<dyn Port>> = vec![Box::new(bare()), Box::new(bare())];
    over(memory, pace, places, move |words, at| {
        let ports = black_box(&mut ports);
        let ready = ports.first_mut().map_or(0, |p| p.poll());
        if let Some(w) = words.get_mut((at & 7) as usize) {
            put(w, get(w).wrapping_add(ready));
        }
        if let Some(p) = ports.last_mut() {
            p.flush(ready | 32);
        }
        ready
    })
}

/// Nanoseconds of a line's way from one core to another: half a round trip between two threads, the
/// least of several hundred, since a thread that is not running makes it longer. Nothing where there is
/// one CPU; the calling thread is on the first.
pub fn crossing_ns(cpus: &[usize], time: Duration) -> Option<f64> {
    let [_, other, ..] = cpus else { return None };
    const TRIPS: u64 = 200;
    let (ball, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let begin = Instant::now();
    let best = std::thread::scope(|scope| {
        scope.spawn(|| {
            crate::cpus::pin(*other);
            let mut last = 0;
            while !over.load(Ordering::Relaxed) {
                let now = ball.load(Ordering::Acquire);
                if now > last && now % 2 == 1 {
                    last = now + 1;
                    ball.store(last, Ordering::Release);
                }
                std::hint::spin_loop();
            }
        });
        let mut best = f64::MAX;
        let mut n = 0u64;
        while begin.elapsed() < time {
            let start = Instant::now();
            for _ in 0..TRIPS {
                ball.store(n + 1, Ordering::Release);
                n += 2;
                // A partner that is not running must not hold us for ever.
                let mut spins = 0u32;
                while ball.load(Ordering::Acquire) != n {
                    spins = spins.wrapping_add(1);
                    if spins.is_multiple_of(1 << 16) && begin.elapsed() > 4 * time {
                        over.store(true, Ordering::Relaxed);
                        return None;
                    }
                }
            }
            best = best.min(start.elapsed().as_nanos() as f64 / TRIPS as f64 / 2.0);
        }
        over.store(true, Ordering::Relaxed);
        Some(best)
    });
    best.filter(|b| *b < f64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{Field, Pages};
    use std::cell::RefCell;
    use std::rc::Rc;

    #[test]
    fn rings_hand_on_what_was_written() {
        let memory: Memory =
            Rc::new(RefCell::new(Field::new(1 << 16, Pages::Small).expect("memory")));
        enqueue::<2>(&memory, Pace::Alone, 1)(3);
        let words: Vec<u64> = memory.borrow_mut().words()[..6].iter().map(get).collect();
        assert_eq!(words, [0, 1, 0, 1, 0, 1]);
        assert_eq!(dequeue::<2>(&memory, Pace::Alone, 1)(1), 1);
        // Round and round.
        enqueue::<2>(&memory, Pace::Burst, 8)(10_000);
        dequeue::<2>(&memory, Pace::Burst, 8)(10_000);
        assert_eq!(batch(&memory, Pace::Alone, 1)(5), 32);
    }

    #[test]
    fn a_line_crosses_or_nobody_is_there() {
        assert_eq!(crossing_ns(&[0], Duration::from_millis(1)), None);
        if let Some(ns) = crossing_ns(&crate::cpus::allowed(), Duration::from_millis(20)) {
            assert!(ns > 0.0);
        }
    }
}
