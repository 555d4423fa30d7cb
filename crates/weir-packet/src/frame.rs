//! One frame: an owning handle to one chunk of a region.
//!
//! ```text
//! chunk  |stamp 8 B| … headroom … | data (len) | tailroom |
//!        0         8              off          off+len    cap
//! ```
//! The first [`RESERVED`] bytes of a chunk hold what travels with a frame but is rarely read (the
//! receive time stamp), so that a handle stays 16 bytes. An AF_XDP umem leaves at least 256 bytes
//! in front of received data, so the same layout serves it.
//!
//! A handle is neither `Clone` nor `Copy`: whoever has it, has the frame. Give it back with
//! [`crate::Pool::free`]; a handle that is dropped is a frame lost to its pool, which
//! `Pool::outstanding` shows and the conservation tests look for.

use crate::Nanos;
use crate::region::Chunk;
use thiserror::Error;

/// Bytes of the shortest frame that Ethernet carries, without FCS (IEEE 802.3, §4A.2.3.2.4).
pub const SHORTEST_FRAME: usize = 60;

/// Bytes at the front of every chunk that are not headroom.
pub(crate) const RESERVED: u16 = 8;

/// Bytes that [`Frame::copy_front`] copies at once: a line of memory, which holds a shortest frame.
pub const COPIED: usize = 64;

/// A chunk has not enough room in front of or behind the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("frame needs {need} bytes of room, has {have}")]
pub struct NoRoom {
    /// Bytes asked for.
    pub need: usize,
    /// Bytes there.
    pub have: usize,
}

/// An Ethernet frame without FCS, in a chunk of its own.
#[derive(Debug)]
pub struct Frame {
    chunk: Chunk,
}

impl Frame {
    pub(crate) fn new(chunk: Chunk, off: u16) -> Self {
        let off = off.max(RESERVED).min(chunk.cap());
        Self { chunk: chunk.with_data(off, 0) }
    }
    pub(crate) fn placed(chunk: Chunk, off: u16, len: u16) -> Option<Self> {
        let end = u32::from(off) + u32::from(len);
        (off >= RESERVED && end <= u32::from(chunk.cap()))
            .then_some(Self { chunk: chunk.with_data(off, len) })
    }
    pub(crate) fn into_chunk(self) -> Chunk {
        self.chunk
    }
    pub(crate) fn chunk(&self) -> Chunk {
        self.chunk
    }

    /// Length of the data in bytes, without FCS.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.chunk.len)
    }
    /// The data: destination MAC first.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.chunk.slice(self.chunk.off, self.chunk.len)
    }
    /// The data, to be changed in place.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.chunk.slice_mut(self.chunk.off, self.chunk.len)
    }
    /// Free bytes in front of the data.
    #[inline]
    pub fn headroom(&self) -> usize {
        usize::from(self.chunk.off - RESERVED)
    }
    /// Free bytes behind the data.
    #[inline]
    pub fn tailroom(&self) -> usize {
        usize::from(self.chunk.cap() - self.chunk.off - self.chunk.len)
    }
    /// Replaces the data by a copy of `data`, where the data begins now.
    ///
    /// # Errors
    /// [`NoRoom`] when the chunk is too small; the frame is unchanged.
    #[inline]
    pub fn copy_from(&mut self, data: &[u8]) -> Result<(), NoRoom> {
        let room = usize::from(self.chunk.cap() - self.chunk.off);
        if data.len() > room {
            return Err(NoRoom { need: data.len(), have: room });
        }
        // `room` is at most 65,535, so the length fits.
        self.chunk.len = data.len() as u16;
        self.bytes_mut().copy_from_slice(data);
        Ok(())
    }
    /// [`Frame::copy_from`] of the first `len` bytes of `data`, of which there may be more: what lies
    /// behind them, up to a multiple of [`COPIED`], may be copied along and is no part of the data.
    /// Lengths that are known when the code is made are copied without a call.
    ///
    /// # Errors
    /// [`NoRoom`] when the chunk is too small; the frame is unchanged.
    #[inline(always)]
    pub fn copy_front(&mut self, data: &[u8], len: usize) -> Result<(), NoRoom> {
        let room = usize::from(self.chunk.cap() - self.chunk.off);
        if len <= COPIED
            && room >= COPIED
            && let Some(data) = data.first_chunk::<COPIED>()
        {
            self.chunk.len = len as u16;
            let to = self.chunk.slice_mut(self.chunk.off, COPIED as u16);
            to.copy_from_slice(data);
            return Ok(());
        }
        self.copy_from(data.get(..len).unwrap_or(data))
    }
    /// Makes the data `n` bytes longer at the front; their content is whatever was there.
    ///
    /// # Errors
    /// [`NoRoom`] when the headroom is smaller; the frame is unchanged.
    #[inline]
    pub fn push_front(&mut self, n: usize) -> Result<(), NoRoom> {
        let have = self.headroom();
        if n > have {
            return Err(NoRoom { need: n, have });
        }
        self.chunk.off -= n as u16;
        self.chunk.len += n as u16;
        Ok(())
    }
    /// Takes `n` bytes off the front of the data.
    ///
    /// # Errors
    /// [`NoRoom`] when there are fewer; the frame is unchanged.
    #[inline]
    pub fn pull_front(&mut self, n: usize) -> Result<(), NoRoom> {
        let have = self.len();
        if n > have {
            return Err(NoRoom { need: n, have });
        }
        self.chunk.off += n as u16;
        self.chunk.len -= n as u16;
        Ok(())
    }
    /// Makes data shorter than `len` bytes as long, with zeros; where the chunk has no room, the
    /// data stays as it is.
    #[inline]
    pub fn pad(&mut self, len: usize) {
        let before = self.len();
        if before < len
            && self.set_len(len).is_ok()
            && let Some(added) = self.bytes_mut().get_mut(before..)
        {
            added.fill(0);
        }
    }
    /// Makes the data `len` bytes long; bytes added at the end are whatever was there.
    ///
    /// # Errors
    /// [`NoRoom`] when the chunk is too small; the frame is unchanged.
    #[inline]
    pub fn set_len(&mut self, len: usize) -> Result<(), NoRoom> {
        let room = usize::from(self.chunk.cap() - self.chunk.off);
        if len > room {
            return Err(NoRoom { need: len, have: room });
        }
        self.chunk.len = len as u16;
        Ok(())
    }
    /// Makes this frame a copy of `other`: data, headroom where it fits, and time stamp.
    ///
    /// # Errors
    /// [`NoRoom`] when the data does not fit; the frame is unchanged.
    pub fn clone_from_frame(&mut self, other: &Frame) -> Result<(), NoRoom> {
        if other.len() + usize::from(RESERVED) > usize::from(self.chunk.cap()) {
            return Err(NoRoom { need: other.len(), have: usize::from(self.chunk.cap()) });
        }
        self.chunk.off = other.chunk.off.min(self.chunk.cap() - other.chunk.len);
        self.copy_from(other.bytes())?;
        match other.stamp() {
            Some(t) => self.set_stamp(t),
            None => self.chunk.stamped = false,
        }
        Ok(())
    }
    /// When the frame was received, if its port took a stamp.
    pub fn stamp(&self) -> Option<Nanos> {
        if !self.chunk.stamped {
            return None;
        }
        let b = self.chunk.slice(0, RESERVED);
        b.try_into().ok().map(|b| Nanos(u64::from_ne_bytes(b)))
    }
    /// Notes when the frame was received.
    pub fn set_stamp(&mut self, t: Nanos) {
        self.chunk.slice_mut(0, RESERVED).copy_from_slice(&t.0.to_ne_bytes());
        self.chunk.stamped = true;
    }
}
