//! Up to [`BURST`] frames, in the order in which they came.

use crate::Frame;

/// The largest burst a worker takes from a port at once.
pub const BURST: usize = 64;

/// A bounded, ordered batch of frames. Its storage is allocated once.
#[derive(Debug)]
pub struct Burst {
    frames: Vec<Frame>,
}

impl Default for Burst {
    fn default() -> Self {
        Self::new()
    }
}

impl Burst {
    /// An empty burst with room for [`BURST`] frames.
    pub fn new() -> Self {
        Self { frames: Vec::with_capacity(BURST) }
    }
    /// Frames held.
    #[inline]
    pub fn len(&self) -> usize {
        self.frames.len()
    }
    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
    /// Frames that still fit.
    #[inline]
    pub fn room(&self) -> usize {
        BURST - self.frames.len()
    }
    /// Appends `frame`.
    ///
    /// # Errors
    /// Gives the frame back when the burst is full.
    #[inline]
    pub fn push(&mut self, frame: Frame) -> Result<(), Frame> {
        if self.frames.len() == BURST {
            return Err(frame);
        }
        self.frames.push(frame);
        Ok(())
    }
    /// The frames, first come first.
    #[inline]
    pub fn as_slice(&self) -> &[Frame] {
        &self.frames
    }
    /// The frames, to be changed in place.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [Frame] {
        &mut self.frames
    }
    /// Takes all frames out, in order.
    #[inline]
    pub fn drain(&mut self) -> std::vec::Drain<'_, Frame> {
        self.frames.drain(..)
    }
    /// Takes the first `n` frames out (all, when there are fewer), in order.
    #[inline]
    pub fn drain_front(&mut self, n: usize) -> std::vec::Drain<'_, Frame> {
        let n = n.min(self.frames.len());
        self.frames.drain(..n)
    }
}
