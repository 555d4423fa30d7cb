//! Before measuring: ask the switch who it is, keep its flows in mind, empty its table, find out which of
//! its ports each data channel is wired to, and see frames pass between them.
//!
//! Sans-I/O: a part of [`Core`]. Ports are found by sending a probe out of each of the switch's ports
//! (packet-out) and looking where it arrives; then a rule joins each channel to the next and probes must
//! come through. So a port that is down, not connected or swapped is known before anything is measured.

use super::core::{Core, Expected};
use super::misread::Lack;
use super::terms::{Phase, nanos};
use crate::module::{Captured, Load, LoadId, Packets, Table, rules};
use crate::probe::{Headers, Vary};
use std::collections::HashSet;
use std::time::Duration;
use weir_openflow::model::{
    Field, FlowFilter, FlowFlags, FlowMod, FlowStats, Fragments, Match, Message, Msg, NO_BUFFER,
    NO_MAX_LEN, PacketOut, Part, Port, PortDesc, PortState, StatsReply, StatsRequest, SwitchConfig,
    Version,
};
use weir_packet::Nanos;

/// Ports that are tried.
const MOST_PORTS: usize = 256;
/// How often probes are sent out of each port.
const ROUNDS: u8 = 5;
/// How long a round waits.
const ROUND: Duration = Duration::from_millis(300);
/// How long a frame may take to come through a rule that was just made.
const JOIN: Duration = Duration::from_secs(5);
/// What stands for a barrier where the switch has none.
const SETTLE: Duration = Duration::from_secs(1);
/// Size of the probes, FCS included.
const FRAME: usize = 100;
/// Flows kept in mind.
const MOST_FLOWS: usize = 1 << 20;

/// What is taken for a switch's configuration that it does not tell.
const PLAIN: SwitchConfig = SwitchConfig { fragments: Fragments::Normal, miss_send_len: 128 };

/// Where the set-up stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Connecting,
    Asking,
    /// The flows of before are kept.
    Keeping,
    Clearing,
    Locating {
        round: u8,
    },
    /// Probes go into this channel.
    Joining {
        from: usize,
        load: LoadId,
    },
    Leaving,
}

/// What is known so far.
#[derive(Debug, Default)]
pub struct Setup {
    stage: Stage,
    features: Option<u32>,
    desc: Option<u32>,
    config: Option<u32>,
    ports_asked: Option<u32>,
    flows: Option<u32>,
    barrier: Option<u32>,
    /// The latest rule that joins two channels.
    rule: Option<u32>,
    ports: Vec<PortDesc>,
    /// How it showed of the last who connected that it was no switch.
    stranger: Option<String>,
}

impl Setup {
    /// Whether that request was for the flows to be put back.
    pub(super) fn asks_for_flows(&self, xid: u32) -> bool {
        self.flows == Some(xid)
    }

    /// Whether the table is to be emptied once its flows are kept.
    pub(super) fn waits_for_keeping(&self) -> bool {
        self.stage == Stage::Keeping
    }

    /// What is added where no switch came.
    pub(super) fn last_stranger(&self) -> String {
        let told = |why| format!("; the last that connected was none: {why}");
        self.stranger.as_ref().map_or_else(String::new, told)
    }
}

impl Core {
    /// Somebody came who is no switch.
    pub(super) fn stranger(&mut self, why: String) {
        self.note(format!("Somebody connected that is no switch, and was passed over: {why}."));
        self.setup.stranger = Some(why);
    }

    /// The switch is there.
    pub(super) fn ask(&mut self, now: Nanos, version: Version) {
        self.phase_at = None;
        self.setup.stage = Stage::Asking;
        let stats = |body| Message::StatsRequest { more: Part::Last, body };
        self.setup.features = Some(self.request(now, Message::FeaturesRequest));
        self.setup.desc = Some(self.request(now, stats(StatsRequest::Desc)));
        if version == Version::V13 {
            self.setup.ports_asked = Some(self.request(now, stats(StatsRequest::PortDesc)));
        }
        self.setup.config = Some(self.request(now, Message::GetConfigRequest));
        if self.table == Table::Own {
            let filter = FlowFilter::every_flow();
            self.setup.flows = Some(self.request(now, stats(StatsRequest::Flow(filter))));
        }
    }

    pub(super) fn setup_message(&mut self, now: Nanos, msg: &Msg, expected: Option<&Expected>) {
        let xid = Some(msg.xid);
        match &msg.body {
            Message::FeaturesReply(f) if xid == self.setup.features => {
                self.setup.ports.extend(f.ports.iter().take(MOST_PORTS).cloned());
                self.bench.features = Some(f.clone());
                self.setup.features = None;
            }
            Message::StatsReply { body: StatsReply::Desc(d), .. } if xid == self.setup.desc => {
                self.bench.desc = Some(d.clone());
                self.setup.desc = None;
            }
            Message::StatsReply { body: StatsReply::PortDesc(p), more }
                if xid == self.setup.ports_asked =>
            {
                let room = MOST_PORTS.saturating_sub(self.setup.ports.len());
                self.setup.ports.extend(p.iter().take(room).cloned());
                if *more == Part::Last {
                    self.setup.ports_asked = None;
                }
            }
            Message::StatsReply { body: StatsReply::Flow(f), more } if xid == self.setup.flows => {
                self.keep(now, f);
                if *more == Part::Last {
                    self.setup.flows = None;
                }
            }
            Message::GetConfigReply(c) if xid == self.setup.config => {
                self.config_before = Some(*c);
                self.setup.config = None;
            }
            Message::BarrierReply if xid == self.setup.barrier => {
                self.setup.barrier = None;
                self.bench.barriers = true;
                return self.table_is_ready(now);
            }
            Message::Error(e) if expected.is_some() => {
                if xid == self.setup.barrier {
                    return self.no_barrier(now, &format!("it answers with {:?}", e.code));
                }
                if xid == self.setup.desc {
                    self.setup.desc = None;
                } else if xid == self.setup.config {
                    self.setup.config = None;
                } else {
                    let what = expected.map_or("a request", |e| e.what);
                    return self.fail(now, format!("the switch answers {what} with {:?}", e.code));
                }
            }
            Message::Error(e) if xid == self.setup.rule => {
                if let Stage::Joining { load, .. } = self.setup.stage {
                    self.stop(load);
                }
                return self.fail(
                    now,
                    format!(
                        "the switch refuses the flow that frames are to pass by with {:?}",
                        e.code
                    ),
                );
            }
            Message::Error(e) => {
                self.note(format!("While it was set up, the switch reported {:?}.", e.code));
            }
            _ => {}
        }
        let s = &self.setup;
        let waits = s.features.is_some()
            || s.desc.is_some()
            || s.config.is_some()
            || s.ports_asked.is_some()
            || s.flows.is_some();
        if s.stage == Stage::Asking && !waits {
            if let Some(why) = self.is_cut_short() {
                return self.fail(now, why);
            }
            self.clear(now);
        }
    }

    /// Keeps flows of before, for afterwards.
    fn keep(&mut self, now: Nanos, flows: &[FlowStats]) {
        self.before.extend_from_slice(flows);
        self.bench.flows_before = self.before.len();
        if self.before.len() > MOST_FLOWS {
            self.fail(now, format!("the switch says it has more than {MOST_FLOWS} flows"));
        }
    }

    /// Why the flows of before could not be put back as they are, as far as that shows: 1.0 was asked for, and
    /// tells of a table that 1.3 has filled. A switch that speaks 1.0 alone finds a table for each by itself.
    fn is_cut_short(&self) -> Option<String> {
        let all = self.settings.versions.has(Version::V13) || self.bench.is_13();
        let how = if all {
            None
        } else if let Some(f) = self.before.iter().find(|f| f.table != 0) {
            Some(format!("one is in table {}", f.table))
        } else {
            let mut seen = HashSet::new();
            let twice = !self.before.iter().all(|f| seen.insert((f.priority, &f.matcher)));
            twice.then(|| "two have one match and one priority".to_owned())
        };
        how.map(|how| {
            format!(
                "the switch has flows that OpenFlow 1.0 can't put back ({how}): take '--openflow 1.3', or empty its table first"
            )
        })
    }

    pub(super) fn setup_unanswered(&mut self, now: Nanos, xid: u32, e: &Expected, lack: &Lack) {
        if self.phase == Phase::CleanUp {
            return self.restore_is_late(now);
        }
        if Some(xid) == self.setup.barrier {
            self.bench.barrier_fault = Some(self.barrier_fault(lack));
            return self.no_barrier(now, lack.words());
        }
        if Some(xid) == self.setup.desc || Some(xid) == self.setup.config {
            let asked = &mut self.setup;
            *if Some(xid) == asked.desc { &mut asked.desc } else { &mut asked.config } = None;
            let nothing = Msg { xid, body: Message::EchoReply(Vec::new()) };
            return self.setup_message(now, &nothing, None);
        }
        let why = self.no_answer(e, lack);
        self.fail(now, why);
    }

    fn no_barrier(&mut self, now: Nanos, how: &str) {
        if self.bench.barriers {
            return self.fail(now, format!("the switch answered a barrier before, and now {how}"));
        }
        self.setup.barrier = None;
        self.note(format!("The switch has no barrier: {how}."));
        self.phase_at = Some(now + nanos(SETTLE));
    }

    /// The table is emptied, if the module wants it for itself.
    fn clear(&mut self, now: Nanos) {
        if self.table == Table::Untouched {
            return self.locate(now, 0);
        }
        self.setup.stage = Stage::Keeping;
        if !self.keeps_flows() {
            self.empty_first(now);
        }
    }

    /// Nothing more is needed of what the table had.
    pub(super) fn empty_first(&mut self, now: Nanos) {
        self.setup.stage = Stage::Clearing;
        self.empty(now);
    }

    fn empty(&mut self, now: Nanos) {
        let Some(version) = self.bench.version else { return };
        self.touched = true;
        // Switches that listen take their controllers for tools, which get no packet-ins, until one says
        // how much of a packet it wants.
        let before = self.config_before.unwrap_or(PLAIN);
        self.send(Message::SetConfig(SwitchConfig { miss_send_len: NO_MAX_LEN, ..before }));
        self.send(Message::FlowMod(FlowMod::delete_all(version)));
        self.send(Message::FlowMod(rules::drop_rest()));
        self.settle(now);
    }

    /// A barrier, or a while.
    fn settle(&mut self, now: Nanos) {
        if self.bench.barriers || self.setup.stage == Stage::Clearing {
            self.setup.barrier = Some(self.request(now, Message::BarrierRequest));
        } else {
            self.phase_at = Some(now + nanos(SETTLE));
        }
    }

    fn table_is_ready(&mut self, now: Nanos) {
        match self.setup.stage {
            Stage::Clearing => self.locate(now, 0),
            Stage::Leaving => self.warm_up(now),
            _ => {}
        }
    }

    /// What is due when a stage has waited long enough.
    pub(super) fn setup_is_late(&mut self, now: Nanos) {
        match self.setup.stage {
            Stage::Connecting => {
                let s = self.settings.patience.as_secs_f64();
                let last = self.setup.last_stranger();
                self.fail(
                    now,
                    format!("no OpenFlow connection within {s} s: the switch does not greet{last}"),
                );
            }
            Stage::Clearing | Stage::Leaving => self.table_is_ready(now),
            Stage::Locating { round } if round < ROUNDS => self.locate(now, round),
            Stage::Locating { .. } => {
                let why = self.lost_channels();
                self.fail(now, why);
            }
            Stage::Joining { from, load } => {
                self.stop(load);
                let to = self.next_channel(from);
                let wired = |n: usize| {
                    let w = &self.bench.wired[n];
                    format!("'{}' (the switch's port {})", w.name, w.port)
                };
                let why = format!(
                    "frames sent into {} do not come out of {}: is the link up in both directions, and nothing else on it?",
                    wired(from),
                    wired(to)
                );
                self.fail(now, why);
            }
            Stage::Asking | Stage::Keeping => {}
        }
    }

    fn next_channel(&self, n: usize) -> usize {
        (n + 1) % self.bench.wired.len().max(1)
    }

    /// Sends a probe out of each port that is not found yet.
    fn locate(&mut self, now: Nanos, round: u8) {
        if self.bench.wired.is_empty() {
            return self.warm_up(now);
        }
        self.setup.stage = Stage::Locating { round: round + 1 };
        self.phase_at = Some(now + nanos(ROUND * u32::from(round + 1)));
        for n in 0..self.setup.ports.len() {
            let port = self.setup.ports[n].no;
            if !port.is_physical() {
                continue;
            }
            let headers = Headers::default().nth(n as u16, &[Vary::SrcMac, Vary::SrcAddr]);
            let Some(mut packets) = Packets::new(headers, FRAME, n as u16) else { continue };
            let data = packets.frame(round.into(), now);
            let actions = vec![rules::output(port)];
            let in_port = if self.bench.is_13() { Port::CONTROLLER } else { Port::ANY };
            self.send(Message::PacketOut(PacketOut {
                buffer_id: NO_BUFFER,
                in_port,
                actions,
                data,
            }));
        }
    }

    pub(super) fn calibration_frame(&mut self, now: Nanos, frame: &Captured) {
        let Some(id) = frame.probe else { return };
        match self.setup.stage {
            Stage::Locating { .. } if id.load == LoadId::OF_SWITCH => {
                let Some(port) = self.setup.ports.get(usize::from(id.flow)).map(|p| p.no) else {
                    return;
                };
                let Some(w) = self.bench.wired.get_mut(frame.channel) else { return };
                if w.port != Port::ANY && w.port != port {
                    let why = format!(
                        "'{}' receives what the switch sends by port {} and by port {}: connect it to one",
                        w.name, w.port, port
                    );
                    return self.fail(now, why);
                }
                w.port = port;
                if self.bench.wired.iter().all(|w| w.port != Port::ANY) {
                    self.located(now);
                }
            }
            Stage::Joining { from, load }
                if id.load == load && frame.channel == self.next_channel(from) =>
            {
                self.stop(load);
                self.join(now, from + 1);
            }
            _ => {}
        }
    }

    /// All channels are found.
    fn located(&mut self, now: Nanos) {
        self.phase_at = None;
        for (n, want) in self.settings.expected_ports.iter().flatten().enumerate() {
            let Some(w) = self.bench.wired.get(n).filter(|w| w.port != Port(*want)) else {
                continue;
            };
            let why = format!(
                "the ports are swapped or wrong: '{}' is wired to the switch's port {}, not to {want}",
                w.name, w.port
            );
            return self.fail(now, why);
        }
        if self.bench.wired.len() > 1 && self.table == Table::Own {
            self.join(now, 0);
        } else {
            self.warm_up(now);
        }
    }

    fn lost_channels(&self) -> String {
        let lost = |w: &&crate::module::Wired| w.port == Port::ANY;
        let names: Vec<_> =
            self.bench.wired.iter().filter(lost).map(|w| format!("'{}'", w.name)).collect();
        let ports = self.setup.ports.iter().filter(|p| p.no.is_physical()).map(|p| {
            let down = p.state.has(PortState::LINK_DOWN);
            format!("{} ({}{})", p.no, p.name, if down { ", link down" } else { "" })
        });
        let ports: Vec<_> = ports.take(16).collect();
        format!(
            "nothing that the switch sends arrives at {}: not connected to it, or down; its ports are {}",
            names.join(" and "),
            if ports.is_empty() { "none".to_owned() } else { ports.join(", ") }
        )
    }

    /// Joins channel `from` to the next, and sends probes until one comes through.
    fn join(&mut self, now: Nanos, from: usize) {
        if from >= self.bench.wired.len() {
            self.setup.stage = Stage::Leaving;
            self.phase_at = None;
            return self.empty(now);
        }
        let to = self.next_channel(from);
        let (here, there) = (self.bench.port(from), self.bench.port(to));
        let matcher = Match::default().with(Field::InPort, u128::from(here.0));
        let rule = rules::add(matcher, 1000, vec![rules::output(there)]);
        self.setup.rule = Some(self.send(Message::FlowMod(rule)));
        self.loads = self.loads.wrapping_add(1);
        let load = LoadId(self.loads);
        self.setup.stage = Stage::Joining { from, load };
        self.phase_at = Some(now + nanos(JOIN));
        self.begin(now, load, Load::new(from, Headers::default(), FRAME, 500.0));
    }

    fn warm_up(&mut self, now: Nanos) {
        self.phase = Phase::WarmUp;
        self.phase_at = Some(now + nanos(self.settings.warm_up));
    }

    /// The flags with which a flow of before is put back.
    pub(super) fn flags_of(flow: &FlowStats) -> FlowFlags {
        FlowFlags(flow.flags.0 & FlowFlags::KNOWN.0 & !FlowFlags::EMERG.0)
    }
}
