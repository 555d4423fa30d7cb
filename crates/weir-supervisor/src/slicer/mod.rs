//! The slicer: several controllers on one OpenFlow switch that is not weir's, each as if it were alone there
//! (FlowVisor's place in paper 003: a proxy between forwarding elements and controllers).
//!
//! Room: above `weir-openflow`'s model, below whoever has sockets. Messages and time are arguments, messages come
//! out; no bytes, no clocks. May depend on `weir-openflow` alone. Called by the binary's `slicer`.
//!
//! - `space`: which headers are whose, over `cube`, the algebra of matches; `header`: a frame as a point of it;
//! - `plan`: what the configuration asks for; `slice`: one slice as it goes;
//! - `book`: its flows and the rules behind them; `ids`: its numbers of groups and meters; `buffers`: its packets
//!   that wait at the switch; `role`: which of its controllers may do what;
//! - `judge`: what a slice's actions may do, `tags` with the tags of VLANs; `compile`: pieces that a version can say;
//! - `switch`: one switch, sliced: the door. `requests` come in by it from controllers (`flows`, `packets`,
//!   `groups`, `asked`), `replies` from the switch; `ledger` knows whose every xid is, and takes back what failed;
//!   `replan` gives other slices and another flow space to a switch that runs; `resume` takes up what slices had
//!   before a connection, or the slicer, ended; `covered`: what a flow has counted whose rule another's covers.

mod asked;
mod book;
mod buffers;
mod compile;
mod covered;
pub mod cube;
mod flows;
mod groups;
pub mod header;
mod ids;
mod judge;
mod ledger;
mod packets;
pub mod plan;
mod replan;
mod replies;
mod requests;
mod resume;
mod role;
mod slice;
pub mod space;
mod switch;
mod tags;

pub use plan::{Grant, Limits, Loss, PortRef, SlicePlan, SpaceRule, TagsRead};
pub use resume::{Fact, Key};
pub use slice::SliceCounters;
pub use switch::{ConnId, Out, Switch, check};
