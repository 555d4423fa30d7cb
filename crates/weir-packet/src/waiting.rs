//! What a worker without work sleeps by. `weir-io` implements it by the kernel's means, the worker's
//! thread of `weir-dataplane` calls it.

use core::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// Sleeps until a device has frames, somebody rings, or a time has passed.
pub trait Waiter: Send + fmt::Debug {
    /// Watches these descriptors too, for being readable. Those it watches already stay; those that
    /// were closed since are forgotten.
    ///
    /// # Errors
    /// The system's word; those before it in `of` are watched then.
    fn watch(&mut self, of: &mut dyn Iterator<Item = BorrowedFd<'_>>) -> io::Result<()>;

    /// Sleeps, at most so long. A ring since the last sleep ends it at once.
    fn wait(&mut self, at_most: Duration) -> Woken;

    /// What others ring.
    fn bell(&self) -> Arc<dyn Bell>;
}

/// Why a sleep has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// A descriptor is readable.
    Readable,
    /// Somebody rang.
    Rung,
    /// The time has passed.
    Late,
}

/// Ends a sleep, from any thread.
pub trait Bell: Send + Sync + fmt::Debug {
    /// Ends the sleep that lasts, or the next.
    fn ring(&self);
}
