//! The five stages of paper 004 on general-purpose cores: one shared data plane that carries
//! thousands of virtual data planes (VDPs).
//!
//! Room: the core. Frames, rules and time are arguments; no sockets, no files, no clocks, no logs.
#![forbid(unsafe_code)]

mod action;
pub mod flowtext;
mod packet;
mod program;
pub mod programs;
mod userfield;

pub use action::{Action, GreChecksum, Out, Outer, PortNo, TunnelAddrs, Vid};
pub use packet::{Layers, Net, Packet, Stale, extract};
pub use program::{Done, End, Origin, Program, ProgramCx, ProgramPort, Punt, SlowFrame};
pub use userfield::{Layer, USER_FIELDS, UserField, UserFieldError, UserFields};
