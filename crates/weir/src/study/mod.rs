//! `weir study`: sets of measurements that each answer one figure of a paper, or one figure that
//! weir promises, with the published values beside ours.
//!
//! Room: between `weir-measure` (trials, searches, summaries) and the command that prints. From
//! memory a study needs nothing; over veth it needs root and makes namespaces of its own (`lab`).
//! Called by `commands::study`; `commands::estimate` draws by `chart`, too.

mod bare;
mod channels;
mod chart;
mod dut;
mod functions;
mod isolation;
mod lab;
mod latency;
mod load;
pub mod memory;
mod offload;
mod peer;
mod process;
pub mod report;
mod scale;
mod throughput;
mod veth_forward;
mod vnet;
mod whole_path;

use anyhow::{Result, bail};
use report::Report;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use chart::{svg, titled};

/// A study, by the name that people give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Id {
    /// Throughput by frame size: fast path, slow path, Linux
    VdpThroughput,
    /// Latency by frame size: fast path, slow path, Linux
    VdpLatency,
    /// Cost of a frame with 4 to 1024 VDPs
    VdpScale,
    /// Rate against the share of a VDP's rules that are on the fast path
    VdpOffload,
    /// The software stage served by the worker, or by one to four threads
    Channels,
    /// Over veth with AF_XDP: the CPU time of the whole path, beside the Linux bridge's
    VethForward,
    /// A static Ethernet switch: estimate against measurement
    NfL2Basic,
    /// A learning switch: estimate against measurement
    NfLearning,
    /// An MPLS switch: estimate against measurement
    NfMpls,
    /// A broadband network gateway: estimate against measurement
    NfBng,
    /// Every network function: how far estimates are off
    NfAll,
    /// Chains of one to four functions: estimate against measurement
    NfChains,
    /// One network's attacks, and what the others notice
    Isolation,
    /// Delivered against offered rate, 64-byte frames, by what forwards
    VnetRate64,
    /// The same with 1512-byte frames
    VnetRate1512,
    /// Round trips under background load; the first frame of a flow
    VnetDelay,
    /// Aggregate rate by number of networks
    VnetNetworks,
    /// Aggregate rate by number of flows
    VnetFlows,
    /// Aggregate rate by CPUs of the shared plane
    VnetCpus,
}

/// Where frames come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Place {
    /// Wherever the study measures
    All,
    /// From memory: no root
    Memory,
    /// Over veth in namespaces of its own: root
    Veth,
    /// Network functions from memory, and Open vSwitch with the same jobs: root
    Peer,
}

/// How thoroughly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Short durations: to see that it works.
    Quick,
    /// Durations whose medians can be used.
    Full,
}

impl Depth {
    /// The one of two amounts that belongs to it.
    pub fn of<T>(self, quick: T, full: T) -> T {
        match self {
            Depth::Quick => quick,
            Depth::Full => full,
        }
    }
}

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How thoroughly.
    pub depth: Depth,
    /// Where.
    pub place: Place,
    /// Length of an RFC 2544 trial, if it was given.
    pub trial: Option<Duration>,
    /// This machine's profile, where it shall not be calibrated first: a name or a file.
    pub profile: Option<String>,
}

impl Plan {
    /// Whether to measure from memory.
    pub fn memory(&self) -> bool {
        self.place != Place::Veth
    }
    /// Whether to measure over veth.
    pub fn veth(&self) -> bool {
        matches!(self.place, Place::All | Place::Veth)
    }
    /// Whether to measure Open vSwitch beside network functions.
    pub fn peer(&self) -> bool {
        matches!(self.place, Place::All | Place::Peer)
    }
}

/// What a study says while it works, and whether it shall go on.
pub struct Watch<'a> {
    say: &'a mut dyn FnMut(&str),
    stop: Arc<AtomicBool>,
}

impl<'a> Watch<'a> {
    /// Says by `say`; ends soon after `stop` is set.
    pub fn new(say: &'a mut dyn FnMut(&str), stop: Arc<AtomicBool>) -> Self {
        Self { say, stop }
    }
    /// Says what comes next.
    ///
    /// # Errors
    /// It was asked to stop.
    pub fn next(&mut self, what: &str) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            bail!("stopped before its end: nothing was written");
        }
        (self.say)(what);
        Ok(())
    }
}

impl Id {
    /// All of them, in the order of the list.
    pub const ALL: [Id; 19] = [
        Id::VdpThroughput,
        Id::VdpLatency,
        Id::VdpScale,
        Id::VdpOffload,
        Id::Channels,
        Id::VethForward,
        Id::NfL2Basic,
        Id::NfLearning,
        Id::NfMpls,
        Id::NfBng,
        Id::NfAll,
        Id::NfChains,
        Id::Isolation,
        Id::VnetRate64,
        Id::VnetRate1512,
        Id::VnetDelay,
        Id::VnetNetworks,
        Id::VnetFlows,
        Id::VnetCpus,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Id::VdpThroughput => "vdp-throughput",
            Id::VdpLatency => "vdp-latency",
            Id::VdpScale => "vdp-scale",
            Id::VdpOffload => "vdp-offload",
            Id::Channels => "channels",
            Id::VethForward => "veth-forward",
            Id::NfL2Basic => "nf-l2-basic",
            Id::NfLearning => "nf-learning",
            Id::NfMpls => "nf-mpls",
            Id::NfBng => "nf-bng",
            Id::NfAll => "nf-all",
            Id::NfChains => "nf-chains",
            Id::Isolation => "isolation",
            Id::VnetRate64 => "vnet-rate64",
            Id::VnetRate1512 => "vnet-rate1512",
            Id::VnetDelay => "vnet-delay",
            Id::VnetNetworks => "vnet-networks",
            Id::VnetFlows => "vnet-flows",
            Id::VnetCpus => "vnet-cpus",
        }
    }
    /// What it answers.
    pub const fn answers(self) -> &'static str {
        match self {
            Id::VdpThroughput => "paper 004, figure 4: throughput of both paths by frame size",
            Id::VdpLatency => "paper 004, figure 4: latency of both paths by frame size",
            Id::VdpScale => "paper 004, figure 5: performance with 4 to 1024 VDPs",
            Id::VdpOffload => {
                "paper 004, section 4.2: rules that do not fit the TCAM are on the slow path"
            }
            Id::Channels => "paper 004, section 4.2: the software stage by one to four threads",
            Id::VethForward => {
                "what weir promises of itself: at least the Linux bridge's rate over veth"
            }
            Id::NfL2Basic => {
                "paper 002, figure 10: a switch with a static table, estimate against measurement"
            }
            Id::NfLearning => {
                "paper 002, figure 11: a learning switch, estimate against measurement"
            }
            Id::NfMpls => "paper 002, figure 12: an MPLS switch, estimate against measurement",
            Id::NfBng => "paper 002, figure 13: a broadband gateway, estimate against measurement",
            Id::NfAll => {
                "what weir promises of its estimates: every function, table, locality and frame"
            }
            Id::NfChains => "what paper 002 leaves open (§5): chains of one to four functions",
            Id::Isolation => {
                "what weir promises of networks that share a data plane: each attack, each victim"
            }
            Id::VnetRate64 => "paper 003, figure 11: delivered against offered rate, 64 bytes",
            Id::VnetRate1512 => "paper 003, figure 12: delivered against offered rate, 1512 bytes",
            Id::VnetDelay => "paper 003, figure 13 and §4.2: RTT and jitter; a flow's first frame",
            Id::VnetNetworks => "paper 003, figure 14 (a): 200 kp/s over 1 to 1024 networks",
            Id::VnetFlows => "paper 003, figure 14 (b): 200 kp/s over 1 to 1024 flows",
            Id::VnetCpus => "paper 003, figure 15: 200 kp/s by CPUs given to the shared plane",
        }
    }
    /// Whether it measures from memory.
    pub const fn has_memory(self) -> bool {
        !matches!(self, Id::VethForward) && !self.is_vnet()
    }
    /// Whether it is one of 003's.
    const fn is_vnet(self) -> bool {
        matches!(
            self,
            Id::VnetRate64
                | Id::VnetRate1512
                | Id::VnetDelay
                | Id::VnetNetworks
                | Id::VnetFlows
                | Id::VnetCpus
        )
    }
    /// Whether it measures over veth.
    pub const fn has_veth(self) -> bool {
        !matches!(self, Id::Channels | Id::NfChains)
    }
    /// Whether it is one of network functions: measured from memory always, elsewhere besides.
    pub const fn has_functions(self) -> bool {
        matches!(self, Id::NfL2Basic | Id::NfLearning | Id::NfMpls | Id::NfBng | Id::NfAll)
    }
    /// About how many seconds it takes.
    pub fn seconds(self, plan: &Plan) -> u64 {
        let (quick, full) = match self {
            Id::VdpThroughput => ((3, 20), (45, 150)),
            Id::VdpLatency => ((2, 14), (20, 100)),
            Id::VdpScale | Id::VdpOffload => ((2, 4), (25, 15)),
            Id::Channels => ((1, 0), (15, 0)),
            Id::VethForward => ((0, 4), (0, 40)),
            Id::NfAll => ((30, 15), (300, 120)),
            Id::NfChains => ((15, 0), (100, 0)),
            Id::Isolation => ((2, 8), (10, 40)),
            Id::VnetRate64 => ((0, 5), (0, 60)),
            Id::VnetRate1512 => ((0, 5), (0, 50)),
            Id::VnetDelay => ((0, 8), (0, 90)),
            Id::VnetNetworks | Id::VnetFlows | Id::VnetCpus => ((0, 6), (0, 50)),
            Id::NfL2Basic | Id::NfLearning | Id::NfMpls | Id::NfBng => ((20, 3), (100, 30)),
        };
        let (memory, veth) = plan.depth.of(quick, full);
        let memory = u64::from(plan.memory() || self.has_functions()) * memory;
        let peer = u64::from(plan.peer() && self.has_functions()) * plan.depth.of(60, 250);
        memory + u64::from(plan.veth()) * veth + peer
    }

    /// Runs it.
    ///
    /// # Errors
    /// It can't be measured here, or was stopped.
    pub fn run(self, plan: &Plan, watch: &mut Watch<'_>) -> Result<Report> {
        let mut report = match self {
            Id::VdpThroughput => throughput::run(plan, watch),
            Id::VdpLatency => latency::run(plan, watch),
            Id::VdpScale => scale::run(plan, watch),
            Id::VdpOffload => offload::run(plan, watch),
            Id::Channels => channels::run(plan, watch),
            Id::VethForward => veth_forward::run(plan, watch),
            Id::NfAll => functions::all(plan, watch),
            Id::NfChains => functions::chains(plan, watch),
            Id::Isolation => isolation::run(plan, watch),
            Id::VnetRate64
            | Id::VnetRate1512
            | Id::VnetDelay
            | Id::VnetNetworks
            | Id::VnetFlows
            | Id::VnetCpus => vnet::run(self, plan, watch),
            Id::NfL2Basic | Id::NfLearning | Id::NfMpls | Id::NfBng => {
                functions::figure(self, plan, watch)
            }
        }?;
        report.judge();
        Ok(report)
    }
}
