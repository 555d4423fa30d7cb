//! Every system call, mapping and prefetch of this crate. The only modules of it with `unsafe`; what they
//! give out is safe to use.
#![allow(unsafe_code)]

pub(crate) mod ahead;
pub(crate) mod bpf;
pub(crate) mod bpf_memory;
pub(crate) mod epoll;
pub(crate) mod heap;
pub(crate) mod namespace;
pub(crate) mod netdev;
pub(crate) mod packet;
pub(crate) mod phc;
pub(crate) mod sched;
pub(crate) mod stamp;
pub(crate) mod tun;
pub(crate) mod udp;
pub(crate) mod xdp;

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The result of a system call that says -1 for an error.
fn checked(r: libc::c_int) -> io::Result<libc::c_int> {
    if r < 0 { Err(io::Error::last_os_error()) } else { Ok(r) }
}

/// A new socket, close-on-exec.
fn socket(family: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    let fd = checked(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: the descriptor is new and belongs to no one else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets a socket option to a plain value.
fn set_option<T: Copy>(fd: &OwnedFd, level: i32, name: i32, value: T) -> io::Result<()> {
    let at = (&raw const value).cast();
    // SAFETY: `value` is alive and as long as the kernel is told.
    checked(unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, name, at, size_of::<T>() as libc::socklen_t)
    })?;
    Ok(())
}

/// Reads a socket option made of integers. The kernel may know a shorter form: the rest is zero.
fn get_option<T: Copy + Default>(fd: &OwnedFd, level: i32, name: i32) -> io::Result<T> {
    let mut value = T::default();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` has room for `len` bytes; every `T` of this crate is made of integers, so
    // that any bytes are a value.
    checked(unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut len)
    })?;
    Ok(value)
}

/// Asks for the beginning of `bytes` to be brought into the cache.
#[inline]
pub(crate) fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint that reads nothing; the address is that of a live slice anyway.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

/// CPU time that the calling thread has used.
pub(crate) fn thread_cpu_time() -> std::time::Duration {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid place for the answer.
    let r = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut t) };
    if checked(r).is_err() {
        return std::time::Duration::ZERO;
    }
    std::time::Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}
