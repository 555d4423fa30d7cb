//! Stage 4, software processing: channels, and the servers behind them.
//!
//! A channel is a pair of rings between the worker and a [`Server`] (004's DMA channels): frames go
//! out with their VDP, port and reason, and come back with what became of them. Four channels by
//! default: the first three can be dedicated to one VDP each, the last is shared by the others. A
//! server runs on the worker's own thread or on a thread of its own; it is the same code.
//!
//! Order: a server first looks how many frames wait, then carries out the jobs in its inbox, then
//! takes that many frames. A job that the worker posted before it pushed a frame is therefore done
//! before that frame is seen: rule changes and frames keep their order without a lock.
//!
//! Fairness on a shared channel: a VDP may have at most as many frames in flight as there are places
//! free. A flood finds its part full and loses its own frames; whoever comes next finds room.
//!
//! Room: `channel` is the worker's end, `server` the other, `slot` one VDP there, `copied` its rules, `egress` the way
//! out for rules that live there.

mod channel;
mod copied;
mod egress;
mod server;
mod slot;

pub use channel::{Channel, Dedicated, ToServer, pair};
pub use server::Server;
pub(crate) use slot::SlowRule;
pub use slot::{Slot, SlotPort};
