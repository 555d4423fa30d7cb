//! The five stages of paper 004 on general-purpose cores: one shared data plane that carries
//! thousands of virtual data planes (VDPs).
//!
//! Room: the core. Frames, rules and time are arguments; no sockets, no files, no logs. The way of
//! a frame, a file each: `mapping`, `matching`, `execute` with `processing/`, `software`,
//! `forwarding`; `plane` is the loop, `control` what can be asked of it, `runner` its thread.
#![forbid(unsafe_code)]

mod action;
mod carried;
mod compile;
mod control;
mod counters;
mod cpu_share;
pub mod crew;
mod edge;
mod execute;
pub mod flowtext;
mod forwarding;
mod group;
mod mapping;
mod matching;
mod meter;
mod numbered;
mod packet;
mod plane;
pub mod processing;
mod program;
pub mod programs;
mod punt;
mod runner;
mod shortcut;
mod software;
mod spares;
mod tap;
mod timing;
pub mod trace;
mod userfield;
mod vdp;
mod written;

pub use action::{Action, GreChecksum, Out, Outer, PortNo, TunnelAddrs, Vid};
pub use carried::{AwayView, Carried, Handed};
pub use compile::{
    ActionResult, CompileError, MAX_ACTIONS, Op, PuntMeta, PuntReason, ResolvePort, bits, compile,
    compile_bucket, compile_default, compile_packet_out, set,
};
pub use control::{
    Absent, Config, ControlError, FramesView, Gauge, GroupCounters, Imbalance, Installed,
    LastChanges, LinkEvent, MeterCounters, PacketOut, Passed, Placed, Placement, PortChange,
    PortEvent, PortIn, PortView, QueueCounters, QueueView, RuleRef, RuleView, Snapshot, TakenRules,
    VdpSpec, VdpView,
};
pub use counters::{PortCounters, TableCounters, Tally, Usage, VdpCounters};
pub use edge::{Fragments, Isolation, PortFlags, VdpPortCounters};
pub use execute::InvalidTtl;
pub use forwarding::{PortShare, QueueRate};
pub use group::{
    Bucket, ChainError, Chosen, Group, GroupError, GroupKind, GroupTable, LIVENESS_STEPS,
    MAX_BUCKETS, MAX_CHAIN, Watch, check_chains, choose as choose_bucket,
};
pub use mapping::{MappingError, MappingRule};
pub use matching::{MAX_TABLES, RuleSpec};
pub use meter::{Band, BandKind, MAX_BANDS, Meter, MeterError, Unit, Verdict};
pub use numbered::Named;
pub use packet::{Layers, Net, Packet, Stale, extract};
pub use plane::DataPlane;
pub use program::{
    Ahead, Done, End, Origin, Program, ProgramCx, ProgramPort, Punt, SlowFrame, of_kind,
};
pub use punt::{PuntSink, Punted};
pub use runner::{Handle, Runner, Serving, Waker, WhenIdle, WorkerGone};
pub use shortcut::{ShortcutView, WhyNot};
pub use software::{Dedicated, Server};
pub use tap::{Captured, TapId, TapPoint};
pub use timing::{NoTimer, Stage, StageTimer};
pub use userfield::*;
pub use vdp::{MigrationReport, Path, Phase, Spilled};
