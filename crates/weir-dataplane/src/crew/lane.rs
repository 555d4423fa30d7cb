//! One way between two workers, for frames.
//!
//! Room: crew. A short frame's bytes cross, in lines of memory that follow each other, so that a processor has the next when it
//! is asked for; its chunk is free at once and stays near whose it is. Of a longer frame the handle crosses: whoever takes it
//! copies it into its own region, and the handle goes home. Two rings with one writer and one reader each; nothing is
//! allocated once they exist. A handle that is not home is lent, as one is that the kernel has.

use rtrb::{Consumer, Producer, RingBuffer};
use weir_packet::{BURST, Burst, COPIED, Frame, Nanos, Pool, SHORTEST_FRAME};

/// What crosses.
#[derive(Debug)]
enum Crossing {
    Short { bytes: [u8; COPIED], len: u8, stamp: Option<Nanos> },
    Lent(Frame),
}

/// The end of whose frames they are.
#[derive(Debug)]
pub(super) struct Lender {
    out: Producer<Crossing>,
    back: Consumer<Frame>,
    lent: usize,
}

/// The end that takes them.
#[derive(Debug)]
pub(super) struct Borrower {
    inn: Consumer<Crossing>,
    back: Producer<Frame>,
    /// Copied, not given back yet.
    kept: Vec<Frame>,
}

pub(super) fn lane(size: usize) -> (Lender, Borrower) {
    let size = size.max(BURST);
    let (out, inn) = RingBuffer::new(size);
    // Those on their way there, those that are kept, those on their way back.
    let (back_to, back) = RingBuffer::new(2 * size);
    let kept = Vec::with_capacity(BURST);
    (Lender { out, back, lent: 0 }, Borrower { inn, back: back_to, kept })
}

impl Lender {
    /// Frames that it takes now, whatever their length.
    pub(super) fn room(&self) -> usize {
        self.out.slots().min(self.back.buffer().capacity() - self.lent)
    }
    /// Frames that are not home.
    pub(super) fn lent(&self) -> usize {
        self.lent
    }
    /// Sends frames from the front of a list, as many as there is room for; says how many.
    pub(super) fn send(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) -> usize {
        let n = self.room().min(frames.len());
        self.send_all(pool, frames.drain(..n))
    }
    /// The same from a burst.
    pub(super) fn send_burst(&mut self, pool: &mut Pool, frames: &mut Burst) -> usize {
        let n = self.room().min(frames.len());
        self.send_all(pool, frames.drain_front(n))
    }
    #[inline]
    fn send_all(&mut self, pool: &mut Pool, frames: impl ExactSizeIterator<Item = Frame>) -> usize {
        let lent = &mut self.lent;
        let crossing = |f: Frame| match short(f.bytes()) {
            Some(bytes) => {
                let it = Crossing::Short { bytes, len: f.len() as u8, stamp: f.stamp() };
                pool.free(f);
                it
            }
            None => {
                *lent += 1;
                Crossing::Lent(f)
            }
        };
        // There is room: as many were taken out.
        match self.out.write_chunk_uninit(frames.len()) {
            Ok(chunk) => chunk.fill_from_iter(frames.map(crossing)),
            Err(_) => 0,
        }
    }
    /// Frees what has come home.
    #[inline]
    pub(super) fn reclaim(&mut self, pool: &mut Pool) {
        if self.lent == 0 {
            return;
        }
        let n = self.back.slots();
        if let Ok(chunk) = self.back.read_chunk(n) {
            chunk.into_iter().for_each(|f| pool.free(f));
            self.lent -= n;
        }
    }
    /// Whether nobody is at the other end.
    pub(super) fn is_abandoned(&self) -> bool {
        self.out.is_abandoned()
    }
}

/// The bytes of a frame that are no more than a line of memory.
#[inline(always)]
fn short(frame: &[u8]) -> Option<[u8; COPIED]> {
    let mut bytes = [0; COPIED];
    // The length that most short frames have is copied without a call.
    if let (Some(whole), SHORTEST_FRAME) = (frame.first_chunk::<SHORTEST_FRAME>(), frame.len()) {
        bytes[..SHORTEST_FRAME].copy_from_slice(whole);
    } else {
        bytes.get_mut(..frame.len())?.copy_from_slice(frame);
    }
    Some(bytes)
}

/// What became of frames that were taken out of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// Copied.
    pub(super) frames: usize,
    /// Too long for the taker's chunks.
    pub(super) unfit: usize,
}

impl Borrower {
    /// Whether frames wait.
    pub(super) fn is_empty(&self) -> bool {
        self.inn.is_empty()
    }
    /// Copies what waits into `burst`, as far as there is room and the pool has frames.
    #[inline]
    pub(super) fn copy(&mut self, pool: &mut Pool, burst: &mut Burst) -> Taken {
        let room = burst.room().min(pool.available()).min(BURST - self.kept.len());
        let n = self.inn.slots().min(room);
        let mut taken = Taken::default();
        if n == 0 {
            return taken;
        }
        let Ok(chunk) = self.inn.read_chunk(n) else { return taken };
        for it in chunk {
            // There is a frame: it was asked for.
            let Some(mut f) = pool.alloc() else { continue };
            let fits = match it {
                Crossing::Short { bytes, len, stamp } => {
                    let fits = f.copy_front(&bytes, len.into()).is_ok();
                    if let Some(t) = stamp {
                        f.set_stamp(t);
                    }
                    fits
                }
                Crossing::Lent(lent) => {
                    let fits = f.clone_from_frame(&lent).is_ok();
                    self.kept.push(lent);
                    fits
                }
            };
            match if fits { burst.push(f) } else { Err(f) } {
                Ok(()) => taken.frames += 1,
                Err(f) => {
                    taken.unfit += 1;
                    pool.free(f);
                }
            }
        }
        taken
    }
    /// Gives back what was copied.
    #[inline]
    pub(super) fn give_back(&mut self) {
        let n = self.kept.len();
        // As many places as frames can be lent.
        if n > 0
            && let Ok(chunk) = self.back.write_chunk_uninit(n)
        {
            chunk.fill_from_iter(self.kept.drain(..));
        }
    }
    /// Gives everything back, copied or not; says how many had not been.
    pub(super) fn refuse_all(&mut self) -> usize {
        let mut refused = 0;
        loop {
            self.give_back();
            let n = self.inn.slots().min(BURST);
            if n == 0 {
                return refused;
            }
            let Ok(chunk) = self.inn.read_chunk(n) else { return refused };
            for it in chunk {
                if let Crossing::Lent(f) = it {
                    self.kept.push(f);
                }
            }
            refused += n;
        }
    }
    /// Whether whose frames they are has gone.
    pub(super) fn is_abandoned(&self) -> bool {
        self.inn.is_abandoned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Short ones and longer ones in turn.
    fn frame(pool: &mut Pool, n: u8) -> Frame {
        let mut f = pool.alloc().unwrap();
        f.copy_from(&[n; 200][..length(n)]).unwrap();
        if n.is_multiple_of(5) {
            f.set_stamp(Nanos(n.into()));
        }
        f
    }

    fn length(n: u8) -> usize {
        [60, 64, 65, 14, 200][usize::from(n) % 5]
    }

    #[test]
    fn frames_cross_in_order_and_come_home() {
        let (mut near, mut far) = (Pool::new(100, 2048).unwrap(), Pool::new(10, 2048).unwrap());
        let (mut a, mut b) = lane(64);
        let mut out: Vec<Frame> = (0..100).map(|n| frame(&mut near, n)).collect();
        assert_eq!(a.send(&mut near, &mut out), 64);
        assert_eq!((a.room(), a.send(&mut near, &mut out)), (0, 0));
        // Two of five are longer than a line.
        assert_eq!((a.lent(), near.available()), (25, 39));
        let mut burst = Burst::new();
        let mut next = 0;
        loop {
            let got = b.copy(&mut far, &mut burst);
            assert!(got.frames <= 10 && got.unfit == 0);
            for f in burst.drain() {
                assert_eq!(f.bytes(), &[next; 200][..length(next)]);
                assert_eq!(f.stamp(), next.is_multiple_of(5).then_some(Nanos(next.into())));
                assert!(far.owns(&f));
                far.free(f);
                next += 1;
            }
            b.give_back();
            if got.frames == 0 {
                break;
            }
        }
        a.reclaim(&mut near);
        assert_eq!((next, a.lent(), near.available()), (64, 0, 64));
        assert_eq!(a.send(&mut near, &mut out), 36);
        assert_eq!(b.refuse_all(), 36);
        a.reclaim(&mut near);
        assert_eq!((near.available(), far.available(), near.foreign()), (100, 10, 0));
    }

    #[test]
    fn what_does_not_fit_is_counted_and_comes_home() {
        let (mut near, mut far) = (Pool::new(2, 8192).unwrap(), Pool::new(2, 2048).unwrap());
        let (mut a, mut b) = lane(64);
        let mut long = near.alloc().unwrap();
        long.copy_from(&[1; 4000]).unwrap();
        let mut out = vec![long, frame(&mut near, 7)];
        a.send(&mut near, &mut out);
        let mut burst = Burst::new();
        assert_eq!(b.copy(&mut far, &mut burst), Taken { frames: 1, unfit: 1 });
        b.give_back();
        a.reclaim(&mut near);
        assert_eq!(near.available(), 2);
        burst.drain().for_each(|f| far.free(f));
        assert_eq!(far.available(), 2);
    }
}
