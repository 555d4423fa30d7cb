//! How a channel is set up: its side, the versions it offers, its limits.
//!
//! Room: plain data, read by `machine`.

use crate::model::Version;
use core::time::Duration;

/// Which end of the connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The switch: gets requests, gives replies and asynchronous messages.
    Switch,
    /// The controller.
    Controller,
}

/// A set of versions; bit n stands for wire version n, as in the bitmap of a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Versions(u32);

impl Versions {
    /// All that this crate speaks.
    pub const ALL: Versions = Versions(1 << Version::V10 as u32 | 1 << Version::V13 as u32);

    /// Only this one.
    pub const fn only(version: Version) -> Self {
        Self(1 << version as u32)
    }
    /// As bits.
    pub const fn bits(self) -> u32 {
        self.0
    }
    /// Whether `version` is among them.
    pub const fn has(self, version: Version) -> bool {
        self.0 & (1 << version as u32) != 0
    }
    /// The number of the highest.
    pub const fn highest(self) -> u8 {
        // Never empty: there is no way to make an empty set.
        (31 - self.0.leading_zeros()) as u8
    }
}

/// So many a second, and so many at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// A second; 0: none at all.
    pub per_second: u32,
    /// At once, after a pause; at least 1 counts.
    pub burst: u32,
}

/// When a silent peer is asked for a sign of life, and when it is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Silence after which an echo request is sent, and the time between requests.
    pub interval: Duration,
    /// Requests without any sign of life before the peer is held to be dead, an interval after the
    /// last of them.
    pub probes: u32,
}

/// What bounds a channel. With them, a connection holds at most [`Limits::INPUT`] bytes of input
/// (a few KiB while it is held back), and `output` bytes of output plus the answer to one request;
/// a controller keeps 64 KiB more for answers to echo requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of output that may wait. From there on a switch takes nothing more from the input, and
    /// flow_removed and port_status are dropped; packet-ins are dropped from half of it on. A
    /// controller's requests are refused.
    pub output: usize,
    /// Messages taken from the input; above it, they wait.
    pub messages: Option<Rate>,
    /// Of them flow_mods.
    pub flow_mods: Option<Rate>,
    /// Time for the versions to be agreed.
    pub handshake: Duration,
}

impl Limits {
    /// Bytes of input that may wait: two of the longest messages, so that one always fits.
    pub const INPUT: usize = 2 * 65_536;
}

impl Default for Limits {
    /// A mebibyte of output, ten seconds for the handshake, no limits on rates.
    fn default() -> Self {
        Self {
            output: 1 << 20,
            messages: None,
            flow_mods: None,
            handshake: Duration::from_secs(10),
        }
    }
}

/// Who answers the peer's echo requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EchoBy {
    /// The channel, at once; the owner never sees them.
    #[default]
    Channel,
    /// The owner, who gets them as messages: to look at them, or to answer in its own time.
    Owner,
}

/// All of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which end this is.
    pub side: Side,
    /// Versions to offer.
    pub versions: Versions,
    /// Signs of life; `None`: none are asked for.
    pub keep_alive: Option<KeepAlive>,
    /// Who answers echo requests.
    pub echo: EchoBy,
    /// Bounds.
    pub limits: Limits,
}

impl Config {
    /// The usual: all versions, an echo after five seconds of silence, three of them.
    pub fn new(side: Side) -> Self {
        Self {
            side,
            versions: Versions::ALL,
            keep_alive: Some(KeepAlive { interval: Duration::from_secs(5), probes: 3 }),
            echo: EchoBy::Channel,
            limits: Limits::default(),
        }
    }
}
