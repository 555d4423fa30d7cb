//! An OpenFlow switch in front of each VDP: from messages to changes of the data plane, and back.
//!
//! Room: between the control channel and the data plane's control interface. Messages and time are
//! arguments; no sockets, no clocks, no threads, no frames but those inside messages. May depend on
//! `weir-openflow` and `weir-dataplane`, and on the words they share: `weir-classify`'s fields and
//! `weir-packet`'s time.
//!
//! [`Switch`] is one VDP as a switch of 1.0 and 1.3 at once. What changes flows or sends frames is
//! gathered and carried out in one closure on the data plane ([`Plane`]), in order; whatever must
//! see its effect, a barrier above all, has it carried out first.
//!
//! - `switch`: who gets which message; `request`: how a refusal finds its sender;
//! - `fields`, `matches`, `actions`, `instructions`: OpenFlow's words checked, and turned into the
//!   data plane's;
//! - `flows/`: what is kept of each flow; `flow_mod`, `apply`, `timeouts`: how flows change;
//! - `groups`, `meters`, `ports`, `queues`, `roles`, `buffers`, `packet_in`, `packet_out`, `fail`;
//! - `carry/`: a switch packed, and unpacked on another data plane;
//! - `stats/`: statistics and descriptions, a file a kind.
#![forbid(unsafe_code)]

mod actions;
mod apply;
mod buffers;
mod carry;
mod config;
mod dp;
mod fail;
mod fields;
mod flow_mod;
mod flows;
mod groups;
mod instructions;
mod matches;
mod meters;
mod outbox;
mod packet_in;
mod packet_out;
mod plane;
mod ports;
mod request;
mod roles;
mod state;
mod stats;
mod switch;
mod timeouts;

pub use carry::{
    CarryError, MOST as LONGEST_PIECE, Packing, Session, Tallying, Unpacking, count_plain,
    tally_plain,
};
pub use config::{Config, FailMode, Limits};
pub use outbox::{ConnId, Kind, Outbox, Sent};
pub use packet_in::Arrived;
pub use plane::{Plane, PlaneGone};
pub use ports::{Link, PortUpdate};
pub use roles::Purpose;
pub use switch::Switch;
