//! What a measurement module is: a description, and handlers on events. 001 §2.
//!
//! Room: the contract between the engine ([`crate::engine`]) and the modules ([`crate::modules`], one
//! file each, or a script). No sockets, no clocks, no threads: a module is told what happened and when,
//! and says what to do. So the same module runs on a switch and on a simulated one.
//!
//! A module is its question and nothing else. The engine connects, learns the switch's ports, clears its
//! table, warms up, stamps, paces, collects, drains, restores the table and writes the document.
//!
//! ```text
//!  engine:  connect → calibrate → warm up →  measure   →  drain  → clean up
//!  module:                                 start, events … events → finish
//! ```
//!
//! - [`About`]: name, question, paper, parameters; [`Params`]: their values, validated before anything is
//!   done.
//! - [`Module`]: the handlers. [`Context`]: by which they act. [`Bench`]: what the module works on.
//! - [`load`]: probes to send. [`event`]: what happened.
//! - [`traffic`]: what a user says of the loads' times, sizes and headers.
//! - [`rules`]: flow_mods that most modules need.
//!
//! **A new module** is a file in `modules` with `about()` and `make()`, and a line in
//! [`crate::modules::all`]. Its numbers come from time stamps in events, never from when a handler was
//! called: handlers run late and events of different sources come in any order. What it finds goes into
//! the [`Document`] in [`Module::finish`], which is also called after a measurement that ended early:
//! then there are fewer samples, and verdicts must be [`Outcome::Unclear`](crate::document::Outcome)
//! rather than wrong.

mod about;
mod bench;
mod context;
pub mod event;
pub mod load;
mod params;
pub mod rules;
pub mod traffic;

pub use about::{About, Depth, Kind, On, Param, Table};
pub use bench::{Bench, Wired};
pub use context::{Act, Context};
pub(crate) use event::is_among;
pub use event::{Captured, Count, LoadDone, ProbeId, Sample, ns_between};
pub use load::{Leaves, Load, LoadId, Packets, Recording, Shape};
pub(crate) use params::distance;
pub use params::{ParamError, Params};

use crate::document::Document;
use std::sync::Arc;
use std::time::Duration;
use weir_openflow::model::Msg;
use weir_packet::Nanos;

/// A measurement. Every handler may do nothing.
pub trait Module: Send {
    /// How long it takes from [`Self::start`] to [`Context::end`] on a switch that needs no time of its
    /// own; every other switch takes longer. `None`: that can't be said beforehand.
    fn takes(&self) -> Option<Duration> {
        None
    }

    /// The measurement begins: the switch is connected, its table empty but for a rule that drops what
    /// nothing else matches (if [`About::table`] says so), its ports known.
    fn start(&mut self, cx: &mut Context<'_>);

    /// The first byte of a message of ours was given to the system at `at`.
    fn written(&mut self, cx: &mut Context<'_>, xid: u32, at: Nanos) {
        let _ = (cx, xid, at);
    }

    /// The switch's message was read at `at`.
    fn message(&mut self, cx: &mut Context<'_>, at: Nanos, msg: &Msg) {
        let _ = (cx, at, msg);
    }

    /// A frame came in by a data channel.
    fn frame(&mut self, cx: &mut Context<'_>, frame: &Captured) {
        let _ = (cx, frame);
    }

    /// Frames of a load that tells of one in so many ([`Load::one_in`]) came in by a data channel; those that
    /// are told of are among them.
    fn counted(&mut self, cx: &mut Context<'_>, load: LoadId, channel: usize, count: Count) {
        let _ = (cx, load, channel, count);
    }

    /// The kernel dropped frames that had come by a data channel: the instrument was too slow for them.
    fn missed(&mut self, cx: &mut Context<'_>, channel: usize, frames: u64) {
        let _ = (cx, channel, frames);
    }

    /// A timer that the module set.
    fn timer(&mut self, cx: &mut Context<'_>, token: u64) {
        let _ = (cx, token);
    }

    /// Load and counters of the switch itself, by SNMP or from `/proc`.
    fn sample(&mut self, cx: &mut Context<'_>, sample: &Sample) {
        let _ = (cx, sample);
    }

    /// A load has ended: it sent what it should, or it was stopped.
    fn load_done(&mut self, cx: &mut Context<'_>, done: &LoadDone) {
        let _ = (cx, done);
    }

    /// A request ([`Context::request`]) was not answered in time. `true`: the module goes on; otherwise
    /// the measurement ends here.
    fn unanswered(&mut self, cx: &mut Context<'_>, xid: u32) -> bool {
        let _ = (cx, xid);
        false
    }

    /// The control connection ended, or (`up`) is there again. `true`: the module expected it; otherwise
    /// a lost connection ends the measurement.
    fn connection(&mut self, cx: &mut Context<'_>, at: Nanos, up: bool) -> bool {
        let _ = (cx, at, up);
        false
    }

    /// The reset of the switch that the module asked for is done. It need not be at work yet.
    fn was_reset(&mut self, cx: &mut Context<'_>, at: Nanos) {
        let _ = (cx, at);
    }

    /// All is measured and drained, or it ended early ([`Document::partial`] says why): what was found.
    fn finish(&mut self, bench: &Bench, document: &mut Document);
}

/// Makes a module from its parameters.
pub type Make = Arc<dyn Fn(&Params) -> Box<dyn Module> + Send + Sync>;

/// A module that can be run.
#[derive(Clone)]
pub struct Entry {
    /// What it is.
    pub about: About,
    /// Makes one.
    pub make: Make,
}

impl Entry {
    /// One that is made by that.
    pub fn new(
        about: About,
        make: impl Fn(&Params) -> Box<dyn Module> + Send + Sync + 'static,
    ) -> Self {
        Self { about, make: Arc::new(make) }
    }
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("about", &self.about).finish_non_exhaustive()
    }
}
