//! Memory that a BPF program and this process both have: the value of a map, mapped.
//!
//! Room: `sys`. Words only, each read and written as one; what they mean is `af_xdp::ways`' affair.

use super::bpf::Map;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

/// The value of a map with one entry.
#[derive(Debug)]
pub(crate) struct Memory {
    map: Map,
    base: NonNull<u8>,
    words: usize,
}

// SAFETY: memory shared with the kernel, reached by atomic accesses alone; not tied to a thread.
unsafe impl Send for Memory {}

impl Memory {
    /// So many words of zeros.
    pub(crate) fn new(words: usize) -> io::Result<Self> {
        let map = Map::memory(words * 8)?;
        // SAFETY: a new mapping at an address of the kernel's choice. The kernel rounds both the
        // map's memory and the length up to whole pages.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                words * 8,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.fd().as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>())
            .ok_or_else(|| io::Error::other("a map was mapped at address zero"))?;
        Ok(Self { map, base, words })
    }
    /// How instructions name it.
    pub(crate) fn number(&self) -> i32 {
        self.map.number()
    }
    fn word(&self, at: usize) -> Option<&AtomicU64> {
        // SAFETY: inside the mapping, which is aligned to pages and lives as long as `self`; the
        // program's accesses to the word are whole, too.
        (at < self.words).then(|| unsafe { &*self.base.as_ptr().cast::<AtomicU64>().add(at) })
    }
    /// A word; zero beyond the end. What the program wrote before it is seen afterwards.
    pub(crate) fn get(&self, at: usize) -> u64 {
        self.word(at).map_or(0, |w| w.load(Ordering::Acquire))
    }
    /// Sets a word; beyond the end nothing. What was written before is seen by who sees it.
    pub(crate) fn set(&self, at: usize, value: u64) {
        if let Some(w) = self.word(at) {
            w.store(value, Ordering::Release);
        }
    }
    /// Sets a word, before anything is read afterwards.
    pub(crate) fn set_first(&self, at: usize, value: u64) {
        if let Some(w) = self.word(at) {
            w.swap(value, Ordering::SeqCst);
            std::sync::atomic::fence(Ordering::SeqCst);
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length; no reference to a word outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.words * 8) };
    }
}
