//! What a data plane can refuse, and why. Nothing has changed then.

use crate::action::{PortNo, Vid};
use crate::compile::CompileError;
use crate::group::ChainError;
use crate::mapping::MappingError;
use thiserror::Error;
use weir_classify::{MissingPrereq, TcamError};
use weir_packet::{PoolError, PortId};

/// A request that can't be met. Nothing has changed then.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ControlError {
    /// No such VDP.
    #[error("there is no VDP {0}: 'weir show' lists those there are")]
    NoVdp(Vid),
    /// Its VID is taken.
    #[error("VDP {0} exists already: delete it first or choose another VID")]
    VdpExists(Vid),
    /// Its VID can't be.
    #[error("VID {0} can't be used: 1 to 65534 are for VDPs, 0 is the default VDP")]
    BadVid(Vid),
    /// The default VDP can't be deleted or moved.
    #[error("the default VDP stays, and stays on the slow path")]
    DefaultVdp,
    /// No such port.
    #[error("there is no port {0}: 'weir show' lists those there are")]
    NoPort(PortId),
    /// A name is taken.
    #[error("port name '{0}' is taken: choose another")]
    PortName(String),
    /// Too many ports.
    #[error("no port number is left: 65534 have been given out and none is used twice")]
    NoPortNumber,
    /// A port number stands twice in a VDP.
    #[error("port number {0} stands twice: number a VDP's ports differently")]
    PortTwice(PortNo),
    /// A channel that can't be dedicated.
    #[error("channel {channel} can't be dedicated to VDP {vid}: {why}")]
    Channel {
        /// Which channel.
        channel: u8,
        /// For which VDP.
        vid: Vid,
        /// Why not.
        why: &'static str,
    },
    /// The VDP is between two paths.
    #[error("VDP {0} is migrating: try again when it has arrived")]
    Migrating(Vid),
    /// The VDP is not where it would have to be for this.
    #[error("VDP {vid} {why}")]
    Elsewhere {
        /// Which.
        vid: Vid,
        /// Where it is, and what to do.
        why: &'static str,
    },
    /// A VDP that can't be on the fast path.
    #[error(
        "VDP {0} has several tables, and rules that live on the slow path only: give it more TCAM \
         entries and add those rules again, or remove them"
    )]
    Split(Vid),
    /// No such rule.
    #[error("VDP {0} has no rule with this match and priority")]
    NoRule(Vid),
    /// No such group or meter, or one in use.
    #[error("{what} {id} of VDP {vid}: {why}")]
    Object {
        /// "group" or "meter".
        what: &'static str,
        /// Its number.
        id: u32,
        /// Whose.
        vid: Vid,
        /// What is wrong.
        why: &'static str,
    },
    /// Groups that loop, or follow one another too far.
    #[error("groups of VDP {vid}: {chain}")]
    Chain {
        /// Whose.
        vid: Vid,
        /// What is wrong.
        chain: ChainError,
    },
    /// A share that can't be.
    #[error("share at port {port}: {why}")]
    Share {
        /// Where.
        port: PortId,
        /// What is wrong and how to mend it.
        why: &'static str,
    },
    /// A VDP has no such port.
    #[error("VDP {vid} has no port {port}: 'weir show' lists its ports")]
    NoVdpPort {
        /// Whose.
        vid: Vid,
        /// Its number of the port.
        port: PortNo,
    },
    /// A queue that can't be.
    #[error("queue {queue} of VDP {vid} at its port {port}: {why}")]
    Queue {
        /// Whose.
        vid: Vid,
        /// Its number of the port.
        port: PortNo,
        /// Its number.
        queue: u32,
        /// What is wrong and how to mend it.
        why: &'static str,
    },
    /// Something that several workers can't hold between them.
    #[error(
        "VDP {vid}: {what} takes one worker, and there are {workers}: {why}; {mend}or run the data plane with one worker"
    )]
    OneWorker {
        /// Whose.
        vid: Vid,
        /// What was asked for.
        what: &'static str,
        /// Why it does not go, or what to do.
        why: &'static str,
        /// What else would help, if anything does.
        mend: &'static str,
        /// How many workers there are.
        workers: usize,
    },
    /// A VDP pinned to a worker that is not there.
    #[error(
        "VDP {vid}: worker = {worker}, and there are {workers}, counted from 0: choose one of these, or raise 'workers'"
    )]
    NoWorker {
        /// Which VDP.
        vid: Vid,
        /// The worker that it asks for.
        worker: usize,
        /// How many there are.
        workers: usize,
    },
    /// A mapping rule of a pinned VDP that takes frames of any port.
    #[error(
        "VDP {vid} is pinned to worker {worker}, and a mapping rule of it names no port, so its frames would come to any \
         worker: write in_port=... into each of its mapping rules, or take 'worker' away"
    )]
    PinnedAnywhere {
        /// Whose.
        vid: Vid,
        /// Its worker.
        worker: usize,
    },
    /// Two workers would have to have one port whole.
    #[error(
        "VDP {vid} is pinned to worker {worker}, and port '{port}' is kept whole by worker {there} for VDP {other}: pin both \
         to one worker, or take the frames from another port"
    )]
    PinnedApart {
        /// Whose rule it is.
        vid: Vid,
        /// Its worker.
        worker: usize,
        /// The port's name.
        port: String,
        /// Who has it whole.
        there: usize,
        /// For which VDP.
        other: Vid,
    },
    /// A port of which each worker has a queue.
    #[error(
        "port '{port}' can't be kept whole by worker {worker}: each worker has a queue of it; remove the port, give the interface one \
         ('ethtool -L IF combined 1'; a veth 'rx 1', after 'tx 1' at its other end), and add it again, or pin no VDP whose frames come by it"
    )]
    HasQueues {
        /// The port's name.
        port: String,
        /// Who should have it.
        worker: usize,
    },
    /// A port that could not be given to one worker whole.
    #[error(
        "port '{port}' could not be kept whole by worker {worker}: another worker has frames of it that do not leave; try \
         again when it has less to do, or see which port stands still ('weir top')"
    )]
    NotWhole {
        /// The port's name.
        port: String,
        /// Who should have it.
        worker: usize,
    },
    /// Guarantees would exceed the worker.
    #[error("CPU guarantees would add up to {0} ‰: at most 1000 can be promised")]
    CpuShare(u32),
    /// A match that can't be.
    #[error(transparent)]
    Match(#[from] MissingPrereq),
    /// Actions that can't be.
    #[error(transparent)]
    Actions(#[from] CompileError),
    /// A mapping rule that can't be.
    #[error(transparent)]
    Mapping(#[from] MappingError),
    /// The TCAM's budget is spent.
    #[error(transparent)]
    Tcam(#[from] TcamError),
    /// No frame is free.
    #[error("no frame is free: raise 'frames', or send less at once")]
    NoFrame,
    /// No memory for frames.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A table that can't take more.
    #[error(transparent)]
    Table(#[from] crate::matching::TableFull),
    /// A size that can't be.
    #[error("{what} = {value}: {why}")]
    Size {
        /// Which setting.
        what: &'static str,
        /// Its value.
        value: usize,
        /// What is allowed.
        why: &'static str,
    },
}
