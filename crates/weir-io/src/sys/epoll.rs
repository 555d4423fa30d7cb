//! Waiting for many descriptors at once, and an event that ends it: epoll(7), eventfd(2).
//!
//! Room: `sys`.

use super::checked;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// An eventfd.
#[derive(Debug)]
pub(crate) struct Event(OwnedFd);

impl Event {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no memory is involved.
        let fd = checked(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
        // SAFETY: the descriptor is new and belongs to no one else.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }
    /// Makes it readable. Cannot fail but when it is so already.
    pub(crate) fn set(&self) {
        let one = 1u64;
        // SAFETY: eight bytes that are alive.
        let _ = unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }
    /// Makes it unreadable again.
    pub(crate) fn clear(&self) {
        let mut n = 0u64;
        // SAFETY: room for eight bytes.
        let _ = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut n).cast(), 8) };
    }
}

/// Events that one call may report: only whether there is any counts.
const EVENTS: usize = 16;
/// What stands for the event in what is reported.
const THE_EVENT: u64 = u64::MAX;

/// A set of descriptors with an [`Event`].
#[derive(Debug)]
pub(crate) struct Set(OwnedFd);

/// What a wait has seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ready {
    pub(crate) event: bool,
    pub(crate) others: bool,
}

impl Set {
    pub(crate) fn new(event: &Event) -> io::Result<Self> {
        // SAFETY: no memory is involved.
        let fd = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor is new and belongs to no one else.
        let set = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        set.put(event.0.as_raw_fd(), THE_EVENT)?;
        Ok(set)
    }
    fn put(&self, fd: i32, data: u64) -> io::Result<()> {
        let mut e = libc::epoll_event { events: libc::EPOLLIN as u32, u64: data };
        // SAFETY: one event that is alive. The kernel forgets a descriptor when it is closed.
        checked(unsafe {
            libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut e)
        })?;
        Ok(())
    }
    /// Adds a descriptor, if it is not there.
    pub(crate) fn add(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        match self.put(fd.as_raw_fd(), 0) {
            Err(e) if e.raw_os_error() == Some(libc::EEXIST) => Ok(()),
            r => r,
        }
    }
    /// Waits, at most so long. An interruption counts as the end of the time.
    pub(crate) fn wait(&self, at_most: Duration) -> Ready {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        // Rounded up: a rest that ends early is a round for nothing.
        let ms = at_most.as_micros().div_ceil(1000).min(60_000) as i32;
        // SAFETY: room for as many events as the kernel is told.
        let n =
            unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), EVENTS as i32, ms) };
        let seen = events.get(..usize::try_from(n).unwrap_or(0)).unwrap_or_default();
        let of_event = |e: &libc::epoll_event| e.u64 == THE_EVENT;
        Ready { event: seen.iter().any(of_event), others: seen.iter().any(|e| !of_event(e)) }
    }
}
