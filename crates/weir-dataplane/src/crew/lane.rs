//! One way between two workers, for frames.
//!
//! Room: crew. A short frame's bytes cross, in lines of memory that follow each other and are written and read where they are;
//! its chunk is free at once and stays near whose it is. Of a longer frame the handle crosses beside its line: whoever takes
//! it copies it into its own region, and the handle goes home. Three rings with one writer and one reader each; nothing is
//! allocated once they exist. A handle that is not home is lent, as one is that the kernel has.

use rtrb::{Consumer, Producer, RingBuffer};
use weir_classify::simd::{prefetch_read, prefetch_write};
use weir_packet::{BURST, Burst, Frame, Pool, SHORTEST_FRAME};

/// A frame on its way: its bytes, if there are no more than a shortest frame's and no stamp.
#[derive(Debug)]
#[repr(align(64))]
struct Line {
    bytes: [u8; SHORTEST_FRAME],
    len: u8,
}

/// In place of a length: the next handle is the frame.
const LENT: u8 = u8::MAX;

const _: () = assert!(size_of::<Line>() == 64 && SHORTEST_FRAME < LENT as usize);

impl Default for Line {
    #[inline(always)]
    fn default() -> Self {
        Self { bytes: [0; SHORTEST_FRAME], len: 0 }
    }
}

/// The end of whose frames they are.
#[derive(Debug)]
pub(super) struct Lender {
    out: Producer<Line>,
    handles: Producer<Frame>,
    back: Consumer<Frame>,
    lent: usize,
    size: usize,
}

/// The end that takes them.
#[derive(Debug)]
pub(super) struct Borrower {
    inn: Consumer<Line>,
    handles: Consumer<Frame>,
    back: Producer<Frame>,
    /// Copied, not given back yet.
    kept: Vec<Frame>,
}

pub(super) fn lane(size: usize) -> (Lender, Borrower) {
    let size = size.max(BURST);
    let (out, inn) = RingBuffer::new(size);
    let (handles_out, handles) = RingBuffer::new(size);
    let (back_to, back) = RingBuffer::new(size);
    let kept = Vec::with_capacity(BURST);
    (
        Lender { out, handles: handles_out, back, lent: 0, size },
        Borrower { inn, handles, back: back_to, kept },
    )
}

impl Lender {
    /// Frames that it takes now, whatever their length.
    pub(super) fn room(&self) -> usize {
        self.out.slots().min(self.size - self.lent)
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
        let (n, all) = (frames.len(), self.out.slots());
        if let Ok(mut ahead) = self.out.write_chunk_uninit(all) {
            // The other processor has read these lines: the next burst's are on their way while this one is written.
            let (front, rest) = ahead.as_mut_slices();
            let next = front.iter().chain(rest.iter()).skip(n).take(BURST);
            next.for_each(prefetch_write);
        }
        // There is room: as many were taken out.
        let Ok(mut chunk) = self.out.write_chunk(n) else { return 0 };
        let (front, rest) = chunk.as_mut_slices();
        for (line, f) in front.iter_mut().chain(rest).zip(frames) {
            match short(&f) {
                Some(len) => {
                    line.fill(f.bytes(), len);
                    pool.free(f);
                }
                None => {
                    line.len = LENT;
                    match self.handles.push(f) {
                        Ok(()) => self.lent += 1,
                        // No more are lent than there are places.
                        Err(rtrb::PushError::Full(f)) => {
                            line.len = 0;
                            pool.free(f);
                        }
                    }
                }
            }
        }
        chunk.commit_all();
        n
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

/// The length of a frame that a line holds.
#[inline(always)]
fn short(f: &Frame) -> Option<u8> {
    (f.len() <= SHORTEST_FRAME && f.stamp().is_none()).then_some(f.len() as u8)
}

impl Line {
    #[inline(always)]
    fn fill(&mut self, frame: &[u8], len: u8) {
        self.len = len;
        // The length that most short frames have is copied without a call.
        if let Some(whole) = frame.first_chunk::<SHORTEST_FRAME>() {
            self.bytes = *whole;
        } else if let Some(part) = self.bytes.get_mut(..frame.len()) {
            part.copy_from_slice(frame);
        }
    }
    #[inline(always)]
    fn copy_to(&self, f: &mut Frame) -> bool {
        match usize::from(self.len) {
            SHORTEST_FRAME => f.copy_from(&self.bytes).is_ok(),
            n => f.copy_from(self.bytes.get(..n).unwrap_or_default()).is_ok(),
        }
    }
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
        let (front, rest) = chunk.as_slices();
        front.iter().chain(rest).for_each(prefetch_read);
        for line in front.iter().chain(rest) {
            // There is a frame: it was asked for.
            let Some(mut f) = pool.alloc() else { continue };
            let fits = if line.len == LENT {
                // It was pushed before its line.
                let lent = self.handles.pop().ok();
                let fits = lent.as_ref().is_some_and(|l| f.clone_from_frame(l).is_ok());
                self.kept.extend(lent);
                fits
            } else {
                line.copy_to(&mut f)
            };
            match if fits { burst.push(f) } else { Err(f) } {
                Ok(()) => taken.frames += 1,
                Err(f) => {
                    taken.unfit += 1;
                    pool.free(f);
                }
            }
        }
        chunk.commit_all();
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
            let (front, rest) = chunk.as_slices();
            for _ in front.iter().chain(rest).filter(|line| line.len == LENT) {
                self.kept.extend(self.handles.pop().ok());
            }
            chunk.commit_all();
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
    use weir_packet::Nanos;

    /// Short ones and longer ones in turn.
    fn frame(pool: &mut Pool, n: u8) -> Frame {
        let mut f = pool.alloc().unwrap();
        f.copy_from(&[n; 200][..length(n)]).unwrap();
        if n % 10 == 3 {
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
        // Three of five are longer than a shortest frame, and half of the shortest have a stamp.
        assert_eq!((a.lent(), near.available()), (45, 19));
        let mut burst = Burst::new();
        let mut next = 0;
        loop {
            let got = b.copy(&mut far, &mut burst);
            assert!(got.frames <= 10 && got.unfit == 0);
            for f in burst.drain() {
                assert_eq!(f.bytes(), &[next; 200][..length(next)]);
                assert_eq!(f.stamp(), (next % 10 == 3).then_some(Nanos(next.into())));
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
