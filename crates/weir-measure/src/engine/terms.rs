//! What a core is told, what it asks for, how it stands, and how it is to measure.
//!
//! Room: `engine`. Plain data between [`super::Core`] and whoever drives it.

use super::forecast;
use crate::module::traffic::Traffic;
use crate::module::{Captured, Count, Load, LoadDone, LoadId, Sample};
use std::time::Duration;
use weir_openflow::channel::Versions;
use weir_openflow::codec::DecodeError;
use weir_openflow::model::{Msg, Version};
use weir_packet::Nanos;
/// What happened.
#[derive(Debug)]
pub enum Input {
    /// The control connection is made and a version agreed.
    Up(Version),
    /// The control connection is over, or could not be made; why.
    Closed(String),
    /// Somebody connected who is no switch, and was passed over; how that showed.
    Stranger(String),
    /// A message came.
    Message(Msg),
    /// A message of ours went out: its transaction id.
    Written(u32),
    /// The switch said what can't be read.
    Misread(DecodeError),
    /// A frame came in.
    Frame(Captured),
    /// A probe left: by the kernel's word, or else by the program's.
    Left(LoadId, u32),
    /// A load has ended.
    LoadDone(LoadDone),
    /// A load could not be begun, or its port failed.
    LoadFailed(LoadId, String),
    /// A data channel can't be used any more.
    PortFailed(usize, String),
    /// A reading of the switch's state.
    Sample(Sample),
    /// The switch was asked for its state and did not tell it; why.
    Untold(String),
    /// The instrument lost something: a ring was full.
    Lost(&'static str, u64),
    /// Frames that had come by a data channel were dropped by the kernel: the capture was too slow.
    Missed(usize, u64),
    /// Frames of a load that tells of one in so many came by a data channel.
    Counted(LoadId, usize, Count),
    /// The switch's reset, which was asked for, is done; or why it could not be.
    Reset(Result<(), String>),
    /// The switch's flows, which were to be kept, are; or why they can't be.
    Kept(Result<(), String>),
    /// Something that a reader must know.
    Note(String),
    /// The measurement must end now; why.
    Interrupted(String),
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Send a message.
    Send(Msg),
    /// Begin to send probes; a load that the channel has ends.
    Begin(LoadId, Load),
    /// Change a load's rate, in frames a second.
    Rate(LoadId, f64),
    /// Stop a load.
    Stop(LoadId),
    /// Connect to the switch.
    Connect,
    /// Close the connection.
    Disconnect,
    /// Reset the switch.
    Reset,
    /// Put the switch's flows, as text, where they outlive the program; [`Input::Kept`] is waited for.
    Keep(String),
}

/// Where a measurement stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Connecting, asking, finding the wires.
    Calibrate,
    /// A moment of quiet before measuring.
    WarmUp,
    /// The module is at work.
    Measure,
    /// What is on its way is waited for.
    Drain,
    /// The switch is put back.
    CleanUp,
    /// Over.
    Done,
}

impl Phase {
    /// In a word or two.
    pub fn name(self) -> &'static str {
        match self {
            Self::Calibrate => "calibrate",
            Self::WarmUp => "warm up",
            Self::Measure => "measure",
            Self::Drain => "drain",
            Self::CleanUp => "clean up",
            Self::Done => "done",
        }
    }
}

/// For people who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Where it stands.
    pub phase: Phase,
    /// Done, as the module counts.
    pub done: u64,
    /// Of all; 0 if the module does not say.
    pub of: u64,
    /// How long measuring takes on a switch that needs no time of its own.
    pub takes: Option<Duration>,
    /// When measuring began, once it has.
    pub measuring_since: Option<Nanos>,
}

impl Status {
    /// How much longer measuring will take.
    pub fn left(&self, now: Nanos) -> Option<Duration> {
        let since = self.measuring_since.unwrap_or(now);
        let measured = Duration::from_nanos(now.since(since).0);
        forecast::left(self.takes, measured, self.done, self.of)
    }
}

/// How to measure, whatever is measured.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The data channels' names.
    pub channels: Vec<String>,
    /// The switch's ports behind them, where the user says so: checked.
    pub expected_ports: Option<Vec<u32>>,
    /// Versions that the switch is offered.
    pub versions: Versions,
    /// How long an answer may take.
    pub patience: Duration,
    /// Quiet before measuring.
    pub warm_up: Duration,
    /// Quiet after measuring.
    pub drain: Duration,
    /// Whose word the moments are at which probes left.
    pub departures: Departures,
    /// What the user says of the module's loads.
    pub traffic: Option<Traffic>,
    /// Who can reset the switch.
    pub resets: Resets,
    /// Who keeps the switch's flows.
    pub keeps: Keeps,
}

/// Who keeps a switch's flows while a measurement has its table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keeps {
    /// The core alone, which puts them back.
    #[default]
    InMind,
    /// Whoever drives the core, too: [`Command::Keep`].
    ByCommand,
}

/// Who can reset a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resets {
    /// People alone.
    #[default]
    ByHand,
    /// Whoever drives the core: [`Command::Reset`].
    ByCommand,
}

/// Who says when a probe left ([`Input::Left`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departures {
    /// The program's; it is in the probe, too.
    Program,
    /// The kernel's: frames that came wait for it.
    Kernel,
}

impl Settings {
    /// For these data channels, with the usual times.
    pub fn new(channels: Vec<String>) -> Self {
        Self {
            channels,
            expected_ports: None,
            versions: Versions::ALL,
            patience: Duration::from_secs(10),
            warm_up: Duration::from_millis(200),
            drain: Duration::from_millis(300),
            departures: Departures::Program,
            traffic: None,
            resets: Resets::default(),
            keeps: Keeps::default(),
        }
    }
}

pub(super) fn nanos(d: Duration) -> Nanos {
    Nanos(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}
