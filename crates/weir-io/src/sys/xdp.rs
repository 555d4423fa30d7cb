//! AF_XDP sockets and their four rings.
//!
//! Room: `sys`. Knows descriptors, not frames: which chunk is whose is `af_xdp`'s affair. Source:
//! the kernel's Documentation/networking/af_xdp.rst and `if_xdp.h`.

use super::{checked, get_option, set_option, socket};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const AF_XDP: i32 = 44;
const SOL_XDP: i32 = 283;
const XDP_MMAP_OFFSETS: i32 = 1;
const XDP_RX_RING: i32 = 2;
const XDP_TX_RING: i32 = 3;
const XDP_UMEM_REG: i32 = 4;
const XDP_UMEM_FILL_RING: i32 = 5;
const XDP_UMEM_COMPLETION_RING: i32 = 6;
const XDP_STATISTICS: i32 = 7;
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;
const PGOFF_RX: i64 = 0;
const PGOFF_TX: i64 = 0x8000_0000;
const PGOFF_FILL: i64 = 0x1_0000_0000;
const PGOFF_COMPLETION: i64 = 0x1_8000_0000;
const SHARED_UMEM: u16 = 1;
const COPY: u16 = 1 << 1;
const USE_NEED_WAKEUP: u16 = 1 << 3;
const USE_SG: u16 = 1 << 4;
/// In a ring's flags: the kernel waits to be woken.
const NEED_WAKEUP: u32 = 1;
/// In a descriptor's options: the frame goes on in the next one.
const CONTINUED: u32 = 1;
/// Frames that one wake-up may send.
const TX_BUDGET: u32 = 256;
/// Bytes of frames that may be on their way out, as the kernel accounts for them.
const SEND_BUFFER: i32 = 8 << 20;

/// Where a frame, or a part of it, lies in the umem.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub offset: u64,
    pub len: u32,
    options: u32,
}

impl Descriptor {
    pub(crate) fn new(offset: u64, len: u32) -> Self {
        Self { offset, len, options: 0 }
    }
    /// Whether the frame goes on in the next descriptor.
    pub(crate) fn is_continued(&self) -> bool {
        self.options & CONTINUED != 0
    }
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RingOffset {
    producer: u64,
    consumer: u64,
    descriptors: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Offsets {
    rx: RingOffset,
    tx: RingOffset,
    fill: RingOffset,
    completion: RingOffset,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct UmemReg {
    address: u64,
    len: u64,
    chunk_bytes: u32,
    headroom: u32,
    flags: u32,
    tx_metadata_len: u32,
}

#[repr(C)]
struct Address {
    family: u16,
    flags: u16,
    index: u32,
    queue: u32,
    shared_with: u32,
}

/// What a socket counted.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Statistics {
    pub rx_dropped: u64,
    pub rx_invalid: u64,
    pub tx_invalid: u64,
    pub rx_ring_full: u64,
    pub fill_ring_empty: u64,
    pub tx_ring_empty: u64,
}

/// The shared memory of one ring.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: memory shared with the kernel; not tied to a thread.
unsafe impl Send for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `Ring::map` with this length; the ring's pointers go with it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// One ring: a producer's and a consumer's index, which only grow (and wrap), and a power of two of
/// entries. The other side is the kernel.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    mapping: Mapping,
    producer: usize,
    consumer: usize,
    flags: usize,
    entries: usize,
    size: u32,
    /// This side's copies of both indices; the own one is ahead of the shared one until `publish`.
    own: u32,
    other: u32,
    of: PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    fn map(fd: &OwnedFd, at: &RingOffset, size: u32, page_offset: i64) -> io::Result<Self> {
        let offset = |v: u64| usize::try_from(v).map_err(io::Error::other);
        let entries = offset(at.descriptors)?;
        let len = entries + size as usize * size_of::<T>();
        let fields = [offset(at.producer)?, offset(at.consumer)?, offset(at.flags)?];
        // Checked once, so that every access below is inside and aligned.
        let sound = fields.iter().all(|f| f % 4 == 0 && f + 4 <= len)
            && entries % align_of::<T>() == 0
            && size.is_power_of_two();
        if !sound {
            return Err(io::Error::other("the kernel's ring offsets are not usable"));
        }
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                fd.as_raw_fd(),
                page_offset,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>())
            .ok_or_else(|| io::Error::other("a ring was mapped at address zero"))?;
        let [producer, consumer, flags] = fields;
        let mapping = Mapping { base, len };
        Ok(Self {
            mapping,
            producer,
            consumer,
            flags,
            entries,
            size,
            own: 0,
            other: 0,
            of: PhantomData,
        })
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: `map` checked that `at` is aligned and inside the mapping, which lives as long
        // as `self`; the kernel accesses the word atomically too.
        unsafe { &*self.mapping.base.as_ptr().add(at).cast::<AtomicU32>() }
    }
    #[inline]
    fn entry(&self, index: u32) -> *mut T {
        let i = (index & (self.size - 1)) as usize;
        // SAFETY: i < size, so the entry is inside the mapping.
        unsafe { self.mapping.base.as_ptr().add(self.entries).cast::<T>().add(i) }
    }
    /// Whether the kernel waits to be woken for this ring.
    #[inline]
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.word(self.flags).load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }

    /// As producer: entries that can be pushed; asks the kernel only when fewer than `want` are
    /// known of.
    #[inline]
    pub(crate) fn room(&mut self, want: usize) -> usize {
        // `min`: the kernel's index is not trusted to be behind ours.
        let used = self.own.wrapping_sub(self.other).min(self.size);
        if ((self.size - used) as usize) < want {
            self.other = self.word(self.consumer).load(Ordering::Acquire);
        }
        (self.size - self.own.wrapping_sub(self.other).min(self.size)) as usize
    }
    /// As producer: writes an entry. The caller has asked for [`Ring::room`].
    #[inline]
    pub(crate) fn push(&mut self, v: T) {
        // SAFETY: the entry is inside the mapping and, within `room`, not the kernel's to read.
        unsafe { self.entry(self.own).write(v) };
        self.own = self.own.wrapping_add(1);
    }
    /// As producer: lets the kernel see what was pushed.
    #[inline]
    pub(crate) fn publish_pushed(&mut self) {
        self.word(self.producer).store(self.own, Ordering::Release);
    }
    /// As producer: entries that the kernel has not taken yet. Once there is none, the kernel's
    /// index is not looked at until something is pushed.
    #[inline]
    pub(crate) fn pending(&mut self) -> u32 {
        if self.own != self.other {
            self.other = self.word(self.consumer).load(Ordering::Acquire);
        }
        self.own.wrapping_sub(self.other)
    }

    /// As consumer: the next entry.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.own == self.other {
            self.other = self.word(self.producer).load(Ordering::Acquire);
            if self.own == self.other {
                return None;
            }
        }
        // SAFETY: the entry is inside the mapping; the kernel has written it (acquired above).
        let v = unsafe { self.entry(self.own).read() };
        self.own = self.own.wrapping_add(1);
        Some(v)
    }
    /// As consumer: entries that can be popped.
    pub(crate) fn ready(&self) -> u32 {
        // The kernel's index is not trusted.
        let there = self.word(self.producer).load(Ordering::Acquire);
        there.wrapping_sub(self.own).min(self.size)
    }
    /// As consumer: lets the kernel use the places of what was popped.
    #[inline]
    pub(crate) fn publish_popped(&mut self) {
        self.word(self.consumer).store(self.own, Ordering::Release);
    }
}

/// The memory of frames, as a socket registers it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    pub base: NonNull<u8>,
    pub len: usize,
    pub chunk_bytes: usize,
}

/// A bound socket. Fields are dropped in this order: the rings go before the descriptor, because a
/// mapping keeps the socket alive.
#[derive(Debug)]
pub(crate) struct Socket {
    pub rx: Ring<Descriptor>,
    pub tx: Ring<Descriptor>,
    pub fill: Ring<u64>,
    pub completion: Ring<u64>,
    pub fd: Arc<OwnedFd>,
}

impl Socket {
    /// Binds a socket with rings of `size` entries to a queue. It registers `region`, or shares
    /// the umem of a socket that has done so. `EBUSY` may pass: a queue is given back late.
    pub(crate) fn bind(
        index: u32,
        queue: u32,
        size: u32,
        region: Region,
        shared_with: Option<&OwnedFd>,
    ) -> io::Result<Self> {
        let fd = socket(AF_XDP, libc::SOCK_RAW, 0)?;
        if shared_with.is_none() {
            let reg = UmemReg {
                address: region.base.as_ptr() as u64,
                len: region.len as u64,
                chunk_bytes: region.chunk_bytes as u32,
                headroom: 0,
                flags: 0,
                tx_metadata_len: 0,
            };
            set_option(&fd, SOL_XDP, XDP_UMEM_REG, reg)?;
        }
        for ring in [XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING, XDP_RX_RING, XDP_TX_RING] {
            set_option(&fd, SOL_XDP, ring, size)?;
        }
        // Better when they work, not needed: kernels before 6.17 send 32 frames per wake-up.
        let _ = set_option(&fd, SOL_XDP, XDP_MAX_TX_SKB_BUDGET, TX_BUDGET.min(size));
        let _ = set_option(&fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SEND_BUFFER);
        let at: Offsets = get_option(&fd, SOL_XDP, XDP_MMAP_OFFSETS)?;
        let rings = (
            Ring::map(&fd, &at.rx, size, PGOFF_RX)?,
            Ring::map(&fd, &at.tx, size, PGOFF_TX)?,
            Ring::map(&fd, &at.fill, size, PGOFF_FILL)?,
            Ring::map(&fd, &at.completion, size, PGOFF_COMPLETION)?,
        );
        let (flags, shared) = match shared_with {
            Some(other) => (vec![SHARED_UMEM], other.as_raw_fd() as u32),
            // Frames of several buffers are known from 6.6 on.
            None => (vec![COPY | USE_NEED_WAKEUP | USE_SG, COPY | USE_NEED_WAKEUP], 0),
        };
        let mut result = Ok(());
        for flags in flags {
            let to = Address { family: AF_XDP as u16, flags, index, queue, shared_with: shared };
            // SAFETY: the address is alive and as long as the kernel is told.
            result = checked(unsafe {
                libc::bind(
                    fd.as_raw_fd(),
                    (&raw const to).cast(),
                    size_of::<Address>() as libc::socklen_t,
                )
            })
            .map(|_| ());
            if !result.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::EINVAL)) {
                break;
            }
        }
        result?;
        let (rx, tx, fill, completion) = rings;
        Ok(Self { rx, tx, fill, completion, fd: Arc::new(fd) })
    }

    /// Makes the kernel send what is in the tx ring.
    pub(crate) fn wake_tx(&self) -> io::Result<()> {
        // SAFETY: no data and no address.
        let r = unsafe {
            libc::sendto(self.fd.as_raw_fd(), ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0)
        };
        if r < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    pub(crate) fn statistics(&self) -> io::Result<Statistics> {
        get_option(&self.fd, SOL_XDP, XDP_STATISTICS)
    }
}
