//! The entries of the learning switch's table, by number.
//! Touches numbers only. Called by `table.rs`.
//!
//! In chunks: only the first is copied as it grows, which is 2 MB at most, so that no frame waits for millions to be copied.

use super::table::Station;
use std::ops::{Index, IndexMut};
use weir_packet::Nanos;

/// Entries in a chunk.
const CHUNK: usize = 1 << 16;

/// When a station was seen, and its place in its port's list. Half a line of cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct Entry {
    pub key: Station,
    pub seen: Nanos,
    /// Its port's list; `u32::MAX` for a static entry, which is in none.
    pub list: u32,
    pub prev: u32,
    pub next: u32,
}

const _: () = assert!(size_of::<Entry>() == 32);

/// All entries, used or not.
#[derive(Debug, Default)]
pub(super) struct Entries {
    chunks: Vec<Vec<Entry>>,
}

const fn split(i: u32) -> (usize, usize) {
    (i as usize / CHUNK, i as usize % CHUNK)
}

impl Entries {
    pub fn len(&self) -> usize {
        let last = self.chunks.last().map_or(0, Vec::len);
        self.chunks.len().saturating_sub(1) * CHUNK + last
    }

    #[inline(always)]
    pub fn get(&self, i: u32) -> Option<&Entry> {
        let (chunk, at) = split(i);
        self.chunks.get(chunk)?.get(at)
    }

    /// A further one; its number.
    pub fn push(&mut self, e: Entry) -> u32 {
        let n = self.len();
        match self.chunks.last_mut() {
            Some(c) if c.len() < CHUNK => c.push(e),
            before => {
                // The first is as small as the network; the system gives later ones' memory as it is met.
                let room = if before.is_some() { CHUNK } else { 1 };
                let mut c = Vec::with_capacity(room);
                c.push(e);
                self.chunks.push(c);
            }
        }
        n as u32
    }
}

impl Index<u32> for Entries {
    type Output = Entry;
    #[inline(always)]
    fn index(&self, i: u32) -> &Entry {
        let (chunk, at) = split(i);
        &self.chunks[chunk][at]
    }
}

impl IndexMut<u32> for Entries {
    #[inline(always)]
    fn index_mut(&mut self, i: u32) -> &mut Entry {
        let (chunk, at) = split(i);
        &mut self.chunks[chunk][at]
    }
}
