//! By which a module acts. What it asks for is gathered and done by the engine right after the handler.
//!
//! Sans-I/O: a list of [`Act`]s and a counter of transaction ids.

use super::load::{Leaves, Load, LoadId};
use super::traffic::Traffic;
use super::{Bench, Params, rules};
use crate::engine::pairing::Pairing;
use std::time::Duration;
use weir_openflow::model::{FlowMod, Message, Part, StatsRequest};
use weir_packet::Nanos;

/// What a module asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Send a message.
    Send {
        /// Its transaction id.
        xid: u32,
        /// The message.
        body: Message,
        /// Whether an answer is waited for.
        answered: bool,
    },
    /// Begin to send probes.
    Begin(LoadId, Load),
    /// Change a load's rate, in frames a second.
    Rate(LoadId, f64),
    /// Stop a load.
    Stop(LoadId),
    /// Call [`super::Module::timer`] then, with this token.
    Timer(Nanos, u64),
    /// Close the control connection.
    Disconnect,
    /// Reset the switch.
    Reset,
    /// Connect again.
    Connect,
    /// How far it is: done, of all.
    Progress(u64, u64),
    /// The measurement is over; what is on its way is still taken.
    End,
    /// The measurement can't go on, and why.
    Fail(String),
}

/// A module's hands.
#[derive(Debug)]
pub struct Context<'a> {
    pub(crate) now: Nanos,
    pub(crate) bench: &'a Bench,
    pub(crate) params: &'a Params,
    pub(crate) acts: &'a mut Vec<Act>,
    pub(crate) xid: &'a mut u32,
    pub(crate) loads: &'a mut u8,
    pub(crate) departures: &'a mut Pairing,
    pub(crate) traffic: Option<&'a Traffic>,
}

impl Context<'_> {
    /// About now: for timers, not for results.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// What is measured.
    pub fn bench(&self) -> &Bench {
        self.bench
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        self.params
    }

    /// When a probe of a load left, whether or not it came; of the last hundred thousand or so of each of
    /// the last few loads.
    pub fn departure(&self, load: LoadId, number: u32) -> Option<Nanos> {
        self.departures.departure(load, number)
    }

    /// The sizes that frames of a load can have whose own is `own`, with their check sequence: what the user says
    /// of it.
    pub fn sizes(&self, own: usize) -> Vec<usize> {
        let leaves = self.params.about().leaves >= Leaves::Sizes;
        let given = self.traffic.filter(|_| leaves).map_or(&[][..], Traffic::sizes);
        let mut all = given.to_vec();
        all.sort_unstable();
        all.dedup();
        if all.is_empty() { vec![own] } else { all }
    }

    /// Frames a second of a load for which a module asks for `own`: those of a capture that is played go at its pace.
    pub fn pace(&self, own: f64) -> f64 {
        self.traffic.and_then(Traffic::pace).unwrap_or(own)
    }

    fn push(&mut self, body: Message, answered: bool) -> u32 {
        *self.xid = self.xid.wrapping_add(1);
        self.acts.push(Act::Send { xid: *self.xid, body, answered });
        *self.xid
    }

    /// Sends a message that needs no answer; says its transaction id, by which
    /// [`super::Module::written`] and answers name it.
    pub fn send(&mut self, body: Message) -> u32 {
        self.push(body, false)
    }

    /// Sends a message that must be answered: see [`super::Module::unanswered`].
    pub fn request(&mut self, body: Message) -> u32 {
        self.push(body, true)
    }

    /// Sends a flow_mod.
    pub fn flow_mod(&mut self, flow: FlowMod) -> u32 {
        self.send(Message::FlowMod(flow))
    }

    /// Asks for a barrier.
    pub fn barrier(&mut self) -> u32 {
        self.request(Message::BarrierRequest)
    }

    /// Asks for statistics.
    pub fn stats(&mut self, body: StatsRequest) -> u32 {
        self.request(Message::StatsRequest { more: Part::Last, body })
    }

    /// Deletes every rule but the one that drops what nothing else matches.
    pub fn clear_table(&mut self) {
        if let Some(version) = self.bench.version {
            self.flow_mod(FlowMod::delete_all(version));
            self.flow_mod(rules::drop_rest());
        }
    }

    /// Begins to send probes. A data channel has one load at a time: an earlier one ends.
    pub fn begin(&mut self, load: Load) -> LoadId {
        // 0 is LoadId::OF_SWITCH.
        *self.loads = self.loads.checked_add(1).unwrap_or(1);
        let id = LoadId(*self.loads);
        self.acts.push(Act::Begin(id, load));
        id
    }

    /// Changes a load's rate, in frames a second.
    pub fn set_fps(&mut self, load: LoadId, fps: f64) {
        self.acts.push(Act::Rate(load, fps));
    }

    /// Stops a load; [`super::Module::load_done`] follows.
    pub fn stop(&mut self, load: LoadId) {
        self.acts.push(Act::Stop(load));
    }

    /// [`super::Module::timer`] with this token after that time.
    pub fn timer_in(&mut self, after: Duration, token: u64) {
        let after = Nanos(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX));
        self.acts.push(Act::Timer(self.now + after, token));
    }

    /// Closes the control connection; [`super::Module::connection`] follows.
    pub fn disconnect(&mut self) {
        self.acts.push(Act::Disconnect);
    }

    /// Connects again; [`super::Module::connection`] follows.
    pub fn connect(&mut self) {
        self.acts.push(Act::Connect);
    }

    /// Has the switch reset, where that can be ([`Bench::resets`]); [`super::Module::was_reset`] follows.
    pub fn reset(&mut self) {
        self.acts.push(Act::Reset);
    }

    /// Says how far the measurement is.
    pub fn progress(&mut self, done: u64, of: u64) {
        self.acts.push(Act::Progress(done, of));
    }

    /// The measurement is over.
    pub fn end(&mut self) {
        self.acts.push(Act::End);
    }

    /// The measurement can't go on: one line, what and how to mend it.
    pub fn fail(&mut self, why: impl Into<String>) {
        self.acts.push(Act::Fail(why.into()));
    }
}
