//! Every system call and mapping of this crate. The only modules of it with `unsafe`; what they
//! give out is safe to use.
#![allow(unsafe_code)]

use std::io;

/// The result of a system call that says -1 for an error.
fn checked(r: libc::c_int) -> io::Result<libc::c_int> {
    if r < 0 { Err(io::Error::last_os_error()) } else { Ok(r) }
}

/// CPU time that the calling thread has used.
pub(crate) fn thread_cpu_time() -> std::time::Duration {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid place for the answer.
    let r = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    if checked(r).is_err() {
        return std::time::Duration::ZERO;
    }
    std::time::Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}
