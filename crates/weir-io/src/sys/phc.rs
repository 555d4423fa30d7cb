//! PTP hardware clocks: `/dev/ptpN`, read as dynamic POSIX clocks.
//!
//! Room: `sys`. Source: the kernel's `ptp.rst`, clock_gettime(2).

use super::checked;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// An open one.
#[derive(Debug)]
pub(crate) struct Phc(File);

fn read(id: libc::clockid_t) -> io::Result<u64> {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid place for the answer.
    checked(unsafe { libc::clock_gettime(id, &raw mut t) })?;
    Ok((t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64))
}

/// Nanoseconds of the Unix epoch.
pub(crate) fn unix() -> io::Result<u64> {
    read(libc::CLOCK_REALTIME)
}

impl Phc {
    pub(crate) fn open(number: u32) -> io::Result<Self> {
        let path = format!("/dev/ptp{number}");
        File::open(&path).map(Self).map_err(|e| io::Error::new(e.kind(), format!("{path}: {e}")))
    }

    /// Its time, in nanoseconds of its own epoch.
    pub(crate) fn now(&self) -> io::Result<u64> {
        // FD_TO_CLOCKID of the kernel's documentation: the descriptor's complement above the number of the
        // clocks that are devices.
        const DEVICE: libc::clockid_t = 3;
        read((!self.0.as_raw_fd() << 3) | DEVICE)
    }
}
