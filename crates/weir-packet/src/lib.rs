//! Frames, the memory they live in, and the narrow trait that every port implements.
//!
//! Room: the vocabulary between ports (`weir-io`) and the data plane (`weir-dataplane`). Knows
//! nothing of protocols, sockets or clocks. Depends on nothing of ours.
//!
//! - [`Pool`] owns one region (`region.rs`) of equal chunks; a [`Frame`] is the only handle to
//!   a chunk. Layout of a chunk: `frame.rs`.
//! - [`Burst`] is up to [`BURST`] frames in order.
//! - [`Device`] is what a port must do; [`DropReason`] is every way in which a frame may end.
//! - [`Shortcut`] is how a device forwards frames by itself, as it was told.
//! - [`Waiter`] is how a worker without work sleeps until a device has some.
#![deny(unsafe_code)]

mod burst;
mod device;
mod drop_reason;
mod frame;
mod region;
mod shortcut;
mod time;
mod waiting;

pub use burst::{BURST, Burst};
pub use device::{
    Arrival, Caps, Device, DeviceCounters, DeviceError, Feed, LinkState, NoFrames, PortId,
    Rejected, WayDelay, WayQuality,
};
pub use drop_reason::{DropCounts, DropReason};
pub use frame::{COPIED, Frame, NoRoom, SHORTEST_FRAME};
pub use region::{Lent, Pool, PoolError};
pub use shortcut::{Mac, Shortcut, Taken, WAYS, Way, Ways};
pub use time::Nanos;
pub use waiting::{Bell, Waiter, Woken};
