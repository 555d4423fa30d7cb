//! Whom a thread goes before: sched(7).
//!
//! Room: `sys`.

use super::checked;
use crate::precedence::Precedence;
use std::io;

/// Sets the calling thread's policy.
pub(crate) fn set(to: Precedence) -> io::Result<()> {
    let (policy, priority) = match to {
        Precedence::Usual => (libc::SCHED_OTHER, 0),
        Precedence::First => (libc::SCHED_FIFO, 1),
    };
    // SAFETY: all zeroes is a value of this plain structure.
    let mut how: libc::sched_param = unsafe { std::mem::zeroed() };
    how.sched_priority = priority;
    // What is started from such a thread is none.
    let policy = policy | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the kernel reads a structure that is alive; 0 is the calling thread.
    checked(unsafe { libc::sched_setscheduler(0, policy, &raw const how) })?;
    Ok(())
}
