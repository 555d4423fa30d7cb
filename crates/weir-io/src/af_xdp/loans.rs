//! Which chunks of the pool this port has lent to the kernel.
//!
//! Room: `af_xdp`. The rings alone don't tell: the kernel keeps chunks that are in none of them. So
//! that every chunk comes home when the socket is gone, they are written down here.

use weir_packet::{Frame, Lent, Pool};

#[derive(Debug)]
pub(super) struct Loans {
    lent: Vec<bool>,
    /// Binary logarithm of the chunk size.
    shift: u32,
    data_offset: u64,
    count: usize,
}

impl Loans {
    pub(super) fn new(pool: &Pool) -> Self {
        Self {
            lent: vec![false; pool.count()],
            shift: pool.chunk_bytes().trailing_zeros(),
            data_offset: pool.data_offset() as u64,
            count: 0,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Lends a frame's chunk; gives the frame back when it is of another pool.
    #[inline]
    pub(super) fn lend(&mut self, pool: &mut Pool, frame: Frame) -> Result<Lent, Frame> {
        let lent = pool.lend(frame)?;
        if let Some(l) = self.lent.get_mut((lent.offset >> self.shift) as usize) {
            *l = true;
            self.count += 1;
        }
        Ok(lent)
    }

    /// Takes back a chunk that this port lent.
    #[inline]
    pub(super) fn take_back(&mut self, pool: &mut Pool, offset: u64, len: u32) -> Option<Frame> {
        let mine = self.lent.get_mut(usize::try_from(offset >> self.shift).ok()?)?;
        if !*mine {
            return None;
        }
        let frame = pool.reclaim(Lent { offset, len })?;
        *mine = false;
        self.count -= 1;
        Some(frame)
    }

    /// Takes back every chunk. Only when the kernel has no way to them any more.
    pub(super) fn recover(&mut self, pool: &mut Pool) {
        for i in 0..self.lent.len() {
            let offset = ((i as u64) << self.shift) + self.data_offset;
            if let Some(frame) = self.take_back(pool, offset, 0) {
                pool.free(frame);
            }
        }
    }
}
