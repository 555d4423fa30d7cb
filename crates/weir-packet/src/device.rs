//! What a port must do. `weir-io` implements it, the worker loop of `weir-dataplane` calls it.
//!
//! Every frame that passes here is somebody's: [`Device::rx`] makes frames out of a pool's chunks,
//! [`Device::tx`] takes them. A device that keeps chunks (fill rings, frames on their way out)
//! says how many by [`Device::held`], so that conservation can be checked at any moment.

use crate::{Burst, DropReason, Frame, Nanos, Pool, Shortcut};
use core::fmt;
use std::os::fd::BorrowedFd;
use thiserror::Error;

/// A port of a data plane: a small dense number, 1 and up. OpenFlow's port numbers are per VDP and
/// are mapped to these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId(pub u16);

impl fmt::Display for PortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether a device can be used now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Frames flow.
    Up,
    /// The device is there, its link is not.
    Down,
    /// The device has disappeared; it may come back.
    Gone,
}

impl From<bool> for LinkState {
    /// Of a device that is there: whether its link is up.
    fn from(up: bool) -> Self {
        if up { Self::Up } else { Self::Down }
    }
}

/// What happens to frames that a device's source has ready while nobody takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// They wait: a memory ring or a capture file. Not polling such a port loses nothing.
    Waits,
    /// They are lost once the device's own ring is full: a network.
    Overflows,
}

/// What a device can do. It changes only inside [`Device::link`]: an MTU was set, a device is back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// The longest frame it sends or receives, in bytes, Ethernet header included, FCS not.
    pub max_frame_bytes: usize,
    /// The longest IP packet that it sends in a frame without VLAN tags, in bytes: its link's MTU. Frames may be longer by
    /// more than an Ethernet header, for tags.
    pub ip_bytes: usize,
    /// What happens to frames that nobody takes.
    pub feed: Feed,
}

impl Caps {
    /// Of a device whose frames are as long with tags as without.
    pub const fn new(max_frame_bytes: usize, feed: Feed) -> Self {
        let ip_bytes = max_frame_bytes.saturating_sub(ETHERNET_BYTES);
        Self { max_frame_bytes, ip_bytes, feed }
    }

    /// Sets what frames may be: of an interface with this MTU in bytes, which takes up to two VLAN tags beside, where frames have
    /// room for `most` bytes.
    pub fn measure(&mut self, mtu: usize, most: usize) {
        self.max_frame_bytes = most.min(mtu + ETHERNET_BYTES + TAGS_BYTES);
        self.ip_bytes = mtu.min(most.saturating_sub(ETHERNET_BYTES));
    }
}

/// An Ethernet header.
const ETHERNET_BYTES: usize = 14;
/// Two VLAN tags.
const TAGS_BYTES: usize = 8;

/// How it becomes known that a device has frames to receive.
#[derive(Clone, Copy, Debug)]
pub enum Arrival<'a> {
    /// By asking: [`Device::rx`].
    Polled,
    /// This descriptor becomes readable, as poll(2) says. Asking finds them too.
    Told(BorrowedFd<'a>),
    /// None come, as long as [`Device::link`] does not change it: a sink, the end of a file, an
    /// interface that has gone.
    Never,
}

/// What a device counted by itself, outside what it handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Frames lost before they could be received (ring overflow), as far as the device can know.
    pub rx_missed: u64,
    /// Frames received that could not be handed over (too long, no free chunk, broken descriptor).
    pub rx_errors: u64,
    /// Frames that were taken for sending and then failed.
    pub tx_errors: u64,
    /// Partial checksums completed on reception.
    pub csum_completed: u64,
    /// Super-frames (GSO/GRO) cut into frames on reception.
    pub segmented: u64,
    /// VLAN tags put back that the kernel had stripped.
    pub vlan_restored: u64,
    /// Datagrams of a tunnel's socket for none of its ports: an unknown network identifier, or a known
    /// one from a stranger. Told by one of the ports that share the socket. And, told by the port that they
    /// came to, frames of tunnels' probes' look with another key than its own.
    pub rx_unknown: u64,
    /// Datagrams of a tunnel's socket that are none of a tunnel. Told as `rx_unknown` is.
    pub rx_malformed: u64,
    /// Times that a tunnel's end took another of its ways.
    pub way_changes: u64,
}

impl DeviceCounters {
    /// Adds another's.
    pub fn merge(&mut self, other: Self) {
        self.rx_missed += other.rx_missed;
        self.rx_errors += other.rx_errors;
        self.tx_errors += other.tx_errors;
        self.csum_completed += other.csum_completed;
        self.segmented += other.segmented;
        self.vlan_restored += other.vlan_restored;
        self.rx_unknown += other.rx_unknown;
        self.rx_malformed += other.rx_malformed;
        self.way_changes += other.way_changes;
    }
}

/// Delay of a way there and back, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WayDelay {
    /// The last.
    pub last_ns: u64,
    /// The least so far.
    pub least_ns: u64,
    /// The most so far.
    pub most_ns: u64,
    /// A mean in which what is long ago counts less (an eighth for the last, as RFC 6298 does).
    pub smoothed_ns: u64,
}

/// What a device knows of one of its ways to its other end, by probes in band.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WayQuality {
    /// Which, in words.
    pub name: String,
    /// Whether it is up in both directions.
    pub up: bool,
    /// Whether frames take it.
    pub taken: bool,
    /// Probes sent.
    pub sent: u64,
    /// Probes of the other end that came.
    pub heard: u64,
    /// Probes of the other end that did not come, while later ones did.
    pub lost: u64,
    /// Among those that came, the ones that came behind later ones.
    pub late: u64,
    /// There and back, without the time that the other end took to answer; `None`: not known yet.
    pub delay: Option<WayDelay>,
    /// How delays from the other end vary, in nanoseconds (RFC 3550, §6.4.1).
    pub jitter_ns: u64,
}

/// Why a device can't be opened or used. Says what, where and how to mend it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// No interface of that name.
    #[error("interface '{0}' does not exist: see 'ip link' for those that do")]
    NoInterface(String),
    /// The interface is there but not up.
    #[error("interface '{0}' is down: 'ip link set {0} up' raises it")]
    InterfaceDown(String),
    /// Missing privilege.
    #[error("{what} on '{name}' needs {need}: run as root or grant it with setcap")]
    NoRights {
        /// What was tried.
        what: &'static str,
        /// On which device.
        name: String,
        /// Which capability.
        need: &'static str,
    },
    /// The system refused.
    #[error("{what} on '{name}': {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// On which device.
        name: String,
        /// The system's word.
        source: std::io::Error,
    },
    /// Another has it, or is only just giving it back: it may be free in a moment.
    #[error(
        "port '{name}': its queue {queue} or its XDP hook is in use by another program: see 'ip link show {name}'"
    )]
    Busy {
        /// Which interface.
        name: String,
        /// Which of its queues.
        queue: u32,
    },
    /// A file that is not what it should be.
    #[error("{path}: {problem}")]
    File {
        /// Which file.
        path: String,
        /// What is wrong, and how to mend it.
        problem: String,
    },
    /// A setting that can't be.
    #[error("port '{name}': {problem}")]
    Setting {
        /// Which port.
        name: String,
        /// What is wrong, and how to mend it.
        problem: String,
    },
}

impl DeviceError {
    /// Whether another has it, or is only just giving it back.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Busy { .. })
    }
}

/// The pool ran out of free frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no free frame in the pool")]
pub struct NoFrames;

/// A frame that a device will not send, with the reason.
#[derive(Debug)]
pub struct Rejected {
    /// The frame, handed back.
    pub frame: Frame,
    /// Why.
    pub why: DropReason,
}

/// A port's device. One worker owns it and calls it; no method blocks.
pub trait Device: Send {
    /// The name shown to people: an interface's, a file's.
    fn name(&self) -> &str;

    /// What it can do.
    fn caps(&self) -> Caps;

    /// Whether it can be used now. Called a few times a second: a device that was gone may use the
    /// call to come back.
    fn link(&mut self, pool: &mut Pool) -> LinkState;

    /// Says the link of the port that frames go on by, or come from, beyond this one. A tunnel's end tells the other end, whose
    /// [`Device::link`] is down then. Called a few times a second, by whoever joins two ports.
    fn stand_for(&mut self, _link: LinkState) {}

    /// Appends received frames to `burst` until it is full or nothing is there; says how many.
    fn rx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize;

    /// Takes frames from the front of `burst` for sending, in order; says how many. What it does
    /// not take stays. A frame that was taken counts as forwarded.
    ///
    /// The caller gives no frame longer than [`Caps::max_frame_bytes`].
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize;

    /// Ends a round: wakes the kernel if it must be woken and takes back what was sent.
    fn flush(&mut self, pool: &mut Pool);

    /// Chunks of the pool that the device keeps and that hold no frame of the data plane: fill
    /// rings, and frames that were taken for sending and not yet released by the kernel.
    fn held(&self) -> usize;

    /// Frames that are inside the device on their way to the data plane or out of it, so that they
    /// are counted as received or not yet as forwarded: a delaying wrapper's queue.
    fn in_transit(&self) -> usize {
        0
    }

    /// How it becomes known that frames have come. Asked before a worker sleeps.
    fn arrival(&self) -> Arrival<'_> {
        Arrival::Polled
    }

    /// How late a round may be for what the device does by itself, such as probing a tunnel.
    fn patience(&self) -> Nanos {
        Nanos(u64::MAX)
    }

    /// Whether nothing more will ever come (the end of a capture file).
    fn exhausted(&self) -> bool {
        false
    }

    /// What has gone wrong since it was opened and is still so, in one line for people: a capture
    /// that was cut short, a file that can't be written, an interface that has gone.
    fn fault(&self) -> Option<String> {
        None
    }

    /// What of its traffic it can't take, though nothing is wrong: queues of an interface that it does not serve, a ring that is
    /// shorter than it should be.
    fn caveat(&self) -> Option<String> {
        None
    }

    /// What it knows of its ways to its other end, where it probes them.
    fn ways(&self) -> Vec<WayQuality> {
        Vec::new()
    }

    /// Its way past the data plane, if it was opened with one.
    fn shortcut(&mut self) -> Option<&mut dyn Shortcut> {
        None
    }

    /// Whether [`Device::shortcut`] gives one.
    fn offers_shortcut(&self) -> bool {
        false
    }

    /// The number by which other ports' shortcuts send frames out here; `None` where they can't, or
    /// while the device is not there.
    fn exit(&self) -> Option<u32> {
        None
    }

    /// Its own counters.
    fn counters(&self) -> DeviceCounters;

    /// Gives every chunk back to the pool and lets go of the device. Afterwards it is only dropped.
    fn close(&mut self, pool: &mut Pool);
}
