//! The memory that frames live in: one page-aligned region of equal chunks, and its pool.
//!
//! Room: the only `unsafe` of this crate. A region can be registered as an AF_XDP umem as it is.
//!
//! Why it is sound: a [`Chunk`] is one chunk's address. Exactly one of these holds it at any time:
//! the pool's free list, one [`Frame`] (neither `Clone` nor `Copy`), or the kernel (marked in
//! `lent`). References into a chunk are made only through its `Frame`, so they follow the borrow
//! rules. The memory is given back only when every chunk is home; otherwise it is leaked.
#![allow(unsafe_code)]

use crate::frame::RESERVED;
use crate::{Burst, Frame};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use thiserror::Error;

/// Chunks are aligned so that they never share a page with another allocation; two megabytes lets
/// the kernel back the region with huge pages where that is on.
const ALIGN: usize = 2 << 20;

/// One chunk: its first byte, its size, and where a frame's data lies in it (kept here so that a
/// handle is 16 bytes). Copied only inside this crate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    base: NonNull<u8>,
    cap: u16,
    /// First byte of the data.
    pub(crate) off: u16,
    /// Bytes of data.
    pub(crate) len: u16,
    /// Whether the reserved bytes hold a time stamp.
    pub(crate) stamped: bool,
}

// SAFETY: a chunk is plain memory that one handle owns (see the module's text).
unsafe impl Send for Chunk {}
// SAFETY: through `&Frame` the bytes can only be read.
unsafe impl Sync for Chunk {}

impl Chunk {
    /// The same chunk with its data at `off`, `len` bytes long, without a stamp.
    #[inline]
    pub(crate) fn with_data(self, off: u16, len: u16) -> Self {
        Self { off, len, stamped: false, ..self }
    }
    #[inline]
    pub(crate) fn cap(self) -> u16 {
        self.cap
    }
    #[inline]
    pub(crate) fn slice<'a>(self, off: u16, len: u16) -> &'a [u8] {
        debug_assert!(u32::from(off) + u32::from(len) <= u32::from(self.cap));
        // SAFETY: `Frame` keeps off + len ≤ cap and owns the chunk; the caller ties the lifetime
        // to its borrow of the frame. The memory was zeroed, so every byte is initialised.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(off.into()), len.into()) }
    }
    #[inline]
    pub(crate) fn slice_mut<'a>(self, off: u16, len: u16) -> &'a mut [u8] {
        debug_assert!(u32::from(off) + u32::from(len) <= u32::from(self.cap));
        // SAFETY: as in `slice`; the caller has `&mut Frame`, so no other reference exists.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(off.into()), len.into()) }
    }
}

/// Why a pool can't be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PoolError {
    /// Chunk size out of range.
    #[error("chunk size {0} is not a power of two from 2048 to 32768")]
    ChunkSize(usize),
    /// No frames, or so many that their size overflows.
    #[error("{0} frames can't be had: at least 1, and no more than memory holds")]
    Count(usize),
    /// The system has not that much memory.
    #[error("no memory for {bytes} bytes of frames: take fewer frames, or smaller chunks")]
    NoMemory {
        /// Bytes asked for.
        bytes: usize,
    },
}

/// The address of a chunk that was lent to the kernel, as an offset into the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent {
    /// Offset of the data (or, for an empty frame, of where data would begin), in bytes.
    pub offset: u64,
    /// Length of the data in bytes.
    pub len: u32,
}

/// One region of chunks and its free list. One worker owns it; frames may travel.
///
/// The list is last-in-first-out, so that a busy worker goes on using chunks that are in cache.
#[derive(Debug)]
pub struct Pool {
    base: NonNull<u8>,
    layout: Layout,
    chunk: usize,
    headroom: u16,
    free: Vec<Chunk>,
    lent: Vec<bool>,
    lent_count: usize,
    foreign: u64,
}

// SAFETY: the pool owns its region; nothing in it is tied to a thread.
unsafe impl Send for Pool {}

impl Pool {
    /// Headroom of a new frame in bytes: room for VXLAN or a stack of labels in front.
    pub const HEADROOM: u16 = 256;

    /// A region of `count` chunks of `chunk` bytes each (2048 or 4096 for AF_XDP).
    ///
    /// # Errors
    /// [`PoolError`]; nothing is allocated then.
    pub fn new(count: usize, chunk: usize) -> Result<Self, PoolError> {
        if !chunk.is_power_of_two() || !(2048..=32768).contains(&chunk) {
            return Err(PoolError::ChunkSize(chunk));
        }
        let bytes = count.checked_mul(chunk).ok_or(PoolError::Count(count))?;
        // A small pool does not deserve two megabytes of alignment.
        let align = if bytes >= ALIGN { ALIGN } else { 4096 };
        let layout = Layout::from_size_align(bytes, align).map_err(|_| PoolError::Count(count))?;
        if bytes == 0 {
            return Err(PoolError::Count(count));
        }
        // SAFETY: the size is not zero.
        let base =
            NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(PoolError::NoMemory { bytes })?;
        let mut free = Vec::with_capacity(count);
        for i in (0..count).rev() {
            // SAFETY: i * chunk < bytes, inside the allocation.
            let at = unsafe { base.add(i * chunk) };
            free.push(Chunk { base: at, cap: chunk as u16, off: 0, len: 0, stamped: false });
        }
        Ok(Self {
            base,
            layout,
            chunk,
            headroom: Self::HEADROOM,
            free,
            lent: vec![false; count],
            lent_count: 0,
            foreign: 0,
        })
    }

    /// An empty frame with [`Pool::HEADROOM`] bytes of headroom, or `None` when all are in use.
    #[inline]
    pub fn alloc(&mut self) -> Option<Frame> {
        self.free.pop().map(|c| Frame::new(c, self.headroom + RESERVED))
    }

    /// Takes a frame back.
    ///
    /// A frame of another pool is leaked and counted ([`Pool::foreign`]): taking it would let this
    /// pool hand out memory that it does not own.
    #[inline]
    pub fn free(&mut self, frame: Frame) {
        let c = frame.into_chunk();
        if self.index_of(c).is_some() {
            self.free.push(c);
        } else {
            self.foreign += 1;
        }
    }

    /// Takes all frames of a burst back: [`Pool::free`] of each.
    #[inline]
    pub fn free_all(&mut self, burst: &mut Burst) {
        let own = |f: &Frame| self.index_of(f.chunk()).is_some();
        // Looked at first, so that what is the rule is one move of them all.
        if burst.as_slice().iter().fold(true, |all, f| all & own(f)) {
            self.free.extend(burst.drain().map(Frame::into_chunk));
        } else {
            burst.drain().for_each(|f| self.free(f));
        }
    }

    #[inline]
    fn index_of(&self, c: Chunk) -> Option<usize> {
        let d = (c.base.as_ptr() as usize).wrapping_sub(self.base.as_ptr() as usize);
        (d < self.layout.size()).then(|| d / self.chunk)
    }

    /// Whether `frame` lives in this pool's region.
    pub fn owns(&self, frame: &Frame) -> bool {
        self.index_of(frame.chunk()).is_some()
    }

    /// Gives a frame to the kernel: from now on the kernel may read and write its chunk.
    ///
    /// # Errors
    /// Gives the frame back when it belongs to another pool.
    #[inline]
    pub fn lend(&mut self, frame: Frame) -> Result<Lent, Frame> {
        let Some(i) = self.index_of(frame.chunk()) else { return Err(frame) };
        let Chunk { off, len, .. } = frame.into_chunk();
        self.lent[i] = true;
        self.lent_count += 1;
        Ok(Lent { offset: (i * self.chunk) as u64 + u64::from(off), len: len.into() })
    }

    /// Takes a chunk back from the kernel, its data at `lent`. `None` when that chunk was not lent
    /// or the data does not lie inside it: the kernel's word is checked, not trusted.
    #[inline]
    pub fn reclaim(&mut self, lent: Lent) -> Option<Frame> {
        let at = usize::try_from(lent.offset).ok()?;
        let i = at / self.chunk;
        if !*self.lent.get(i)? {
            return None;
        }
        // SAFETY: i < count, so the address is inside the allocation.
        let base = unsafe { self.base.add(i * self.chunk) };
        let c = Chunk { base, cap: self.chunk as u16, off: 0, len: 0, stamped: false };
        let f = Frame::placed(c, (at % self.chunk) as u16, u16::try_from(lent.len).ok()?)?;
        self.lent[i] = false;
        self.lent_count -= 1;
        Some(f)
    }

    /// Chunks in all.
    pub fn count(&self) -> usize {
        self.lent.len()
    }
    /// Chunks ready to be given out.
    #[inline]
    pub fn available(&self) -> usize {
        self.free.len()
    }
    /// Chunks that are neither free nor lent: frames somewhere in the system, or lost.
    pub fn outstanding(&self) -> usize {
        self.lent.len() - self.free.len() - self.lent_count
    }
    /// Chunks that the kernel has.
    pub fn lent(&self) -> usize {
        self.lent_count
    }
    /// Frames of other pools that were given to this one by mistake.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }
    /// Size of a chunk in bytes.
    pub fn chunk_bytes(&self) -> usize {
        self.chunk
    }
    /// The longest frame that fits behind the standard headroom, in bytes.
    pub fn max_frame_bytes(&self) -> usize {
        self.chunk - usize::from(self.headroom) - usize::from(RESERVED)
    }
    /// Bytes in front of the data of a new frame, reserved bytes included.
    pub fn data_offset(&self) -> usize {
        usize::from(self.headroom) + usize::from(RESERVED)
    }
    /// Where the region begins and how long it is: what a umem registration needs. The pointer is
    /// only to be given to the kernel, for chunks that were lent.
    pub fn region(&self) -> (NonNull<u8>, usize) {
        (self.base, self.layout.size())
    }
    /// Where `frame`'s data lies in the region, if it is of this pool.
    pub fn offset_of(&self, frame: &Frame) -> Option<u64> {
        let i = self.index_of(frame.chunk())?;
        Some((i * self.chunk) as u64 + u64::from(frame.chunk().off))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.free.len() == self.lent.len() {
            // SAFETY: allocated with this layout, and every chunk is home: no frame points here.
            unsafe { dealloc(self.base.as_ptr(), self.layout) };
        }
        // Otherwise a frame or the kernel still points into the region: leaking is the safe end.
    }
}
