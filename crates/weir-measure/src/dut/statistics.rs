//! Requests for statistics, answered one after the other: each takes its time, and an answer may come
//! in parts, paced.
//!
//! Room: part of `Dut`: looks at the book, the counters and the ports, changes none of them. 1.0
//! §5.3.5; 1.3 §7.3.5.

use super::Dut;
use super::profile::Past;
use std::collections::VecDeque;
use weir_openflow::channel::Head;
use weir_openflow::model::*;
use weir_packet::Nanos;

/// Requests that may wait before the agent reads no further.
const WAITING: usize = 64;
/// How soon an answer for which a connection has no room is tried again.
const AGAIN: Nanos = Nanos(1_000_000);

/// Who asked what.
#[derive(Debug)]
struct Job {
    conn: u32,
    xid: u32,
    head: Head,
    request: StatsRequest,
    parts: Parts,
}

/// Whether an answer comes in the parts that the profile says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parts {
    Split,
    /// The request came so soon after another that it is answered at once and whole.
    Whole,
}

#[derive(Debug)]
enum Work {
    /// Being looked up, until then.
    Reading(Job, Nanos),
    /// Parts that are still to be sent, and when the next is.
    Sending { conn: u32, xid: u32, parts: VecDeque<StatsReply>, at: Nanos },
}

/// Requests, and the one that is being answered.
#[derive(Debug, Default)]
pub(super) struct Desk {
    waiting: VecDeque<Job>,
    work: Option<Work>,
    free_at: Nanos,
    /// When flows were asked for last.
    asked_at: Option<Nanos>,
}

impl Desk {
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < WAITING
    }
    /// When something is due.
    pub(super) fn due(&self) -> Option<Nanos> {
        match &self.work {
            Some(Work::Reading(_, at) | Work::Sending { at, .. }) => Some(*at),
            None if self.waiting.is_empty() => None,
            None => Some(self.free_at),
        }
    }
}

impl Dut {
    pub(super) fn ask(
        &mut self,
        (conn, xid): (u32, u32),
        head: Head,
        request: StatsRequest,
        now: Nanos,
    ) {
        if self.desk.work.is_none() && self.desk.waiting.is_empty() {
            self.desk.free_at = self.desk.free_at.max(now);
        }
        let soon = self.profile.statistics.whole_within_us.nanos();
        let mut parts = Parts::Split;
        if let StatsRequest::Flow(_) = request {
            if self.desk.asked_at.is_some_and(|before| now.since(before) < soon) {
                parts = Parts::Whole;
            }
            self.desk.asked_at = Some(now);
        }
        self.desk.waiting.push_back(Job { conn, xid, head, request, parts });
    }

    /// Does what is due of it at `now`.
    pub(super) fn answer(&mut self, now: Nanos) {
        let faults = self.profile.statistics;
        match self.desk.work.take() {
            None => {
                let Some(job) = self.desk.waiting.pop_front() else { return };
                let cost = self.cost(&job.request);
                let begin = self.desk.free_at.max(now);
                self.cpu.works(begin, cost);
                self.answering = self.answering + cost;
                let taken = (cost.0 as f64 * faults.slows_updates_percent.part()) as u64;
                if taken > 0 {
                    self.hardware.hold(Nanos(taken), now);
                }
                self.desk.work = Some(Work::Reading(job, begin + cost));
            }
            Some(Work::Reading(job, at)) => match self.reply(&job, at) {
                Ok(parts) => {
                    let Job { conn, xid, .. } = job;
                    self.desk.work = Some(Work::Sending { conn, xid, parts, at });
                }
                Err(code) => {
                    self.desk.free_at = at;
                    if let Some(c) = self.conns.get_mut(&job.conn) {
                        c.refuse(&job.head, code);
                    }
                }
            },
            Some(Work::Sending { conn, xid, mut parts, at }) => {
                self.desk.free_at = at;
                let Some(c) = self.conns.get_mut(&conn) else { return };
                if !c.takes_answers() {
                    let at = now + AGAIN;
                    self.desk.work = Some(Work::Sending { conn, xid, parts, at });
                    return;
                }
                let Some(body) = parts.pop_front() else { return };
                let more = if parts.is_empty() { Part::Last } else { Part::More };
                c.send(&Msg { xid, body: Message::StatsReply { more, body } });
                if more == Part::More {
                    let at = at + faults.pace_us.nanos();
                    self.desk.work = Some(Work::Sending { conn, xid, parts, at });
                }
            }
        }
    }

    fn cost(&self, request: &StatsRequest) -> Nanos {
        let s = &self.profile.statistics;
        match request {
            StatsRequest::Flow(f) | StatsRequest::Aggregate(f) => {
                let flows = self.book.chosen(f).count() as u64;
                Nanos(s.delay_us.nanos().0 + s.per_flow_us.nanos().0.saturating_mul(flows))
            }
            StatsRequest::Table | StatsRequest::Port(_) => s.delay_us.nanos(),
            _ => Nanos(0),
        }
    }

    /// The parts of an answer; one at least.
    fn reply(&self, job: &Job, now: Nanos) -> Result<VecDeque<StatsReply>, ErrorCode> {
        let one = match &job.request {
            StatsRequest::Flow(f) => return Ok(self.flows(f, job.parts, now)),
            StatsRequest::Desc => StatsReply::Desc(SwitchDesc {
                manufacturer: "weir".to_owned(),
                hardware: "a device under test with known faults".to_owned(),
                software: env!("CARGO_PKG_VERSION").to_owned(),
                serial: "none".to_owned(),
                datapath: "device under test".to_owned(),
            }),
            StatsRequest::Aggregate(f) => StatsReply::Aggregate(self.aggregate(f, now)),
            StatsRequest::Table => {
                let t = &self.profile.table;
                let off = self.profile.counters.table_off_percent;
                // Whoever loses entries without a word does not know how many it holds.
                let max = if t.past == Past::Lost { 65_536.max(t.entries) } else { t.entries };
                StatsReply::Table(vec![TableStats {
                    table: 0,
                    name: "flows".to_owned(),
                    max_entries: max as u32,
                    active: self.book.len() as u32,
                    lookups: off.tell(self.lookups),
                    matched: off.tell(self.matched),
                }])
            }
            StatsRequest::Port(asked) => {
                let chosen = |p: &&PortStats| *asked == Port::ANY || p.port == *asked;
                let life = now.since(self.born);
                let off = self.profile.counters.port_off_percent;
                let alive = |p: &PortStats| PortStats {
                    rx_packets: off.tell(p.rx_packets),
                    tx_packets: off.tell(p.tx_packets),
                    rx_bytes: off.tell(p.rx_bytes),
                    tx_bytes: off.tell(p.tx_bytes),
                    duration_sec: (life.0 / 1_000_000_000) as u32,
                    duration_nsec: (life.0 % 1_000_000_000) as u32,
                    ..*p
                };
                let all: Vec<_> =
                    self.ports.iter().map(|p| &p.stats).filter(chosen).map(alive).collect();
                if all.is_empty() && *asked != Port::ANY {
                    return Err(ErrorCode::BadPort);
                }
                StatsReply::Port(all)
            }
            StatsRequest::PortDesc => {
                StatsReply::PortDesc(self.ports.iter().map(|p| p.desc.clone()).collect())
            }
            StatsRequest::Queue { .. } => StatsReply::Queue(Vec::new()),
            StatsRequest::Group(_) => StatsReply::Group(Vec::new()),
            StatsRequest::GroupDesc => StatsReply::GroupDesc(Vec::new()),
            StatsRequest::GroupFeatures => StatsReply::GroupFeatures(GroupFeatures::default()),
            StatsRequest::Meter(_) => StatsReply::Meter(Vec::new()),
            StatsRequest::MeterConfig(_) => StatsReply::MeterConfig(Vec::new()),
            StatsRequest::MeterFeatures => StatsReply::MeterFeatures(MeterFeatures::default()),
            // The table stays as it is.
            StatsRequest::TableFeatures(wanted) if !wanted.is_empty() => {
                return Err(ErrorCode::TableFeaturesEperm);
            }
            StatsRequest::TableFeatures(_) => {
                StatsReply::TableFeatures(vec![super::abilities::of(&self.profile.table)])
            }
            StatsRequest::Experimenter { .. } => return Err(ErrorCode::BadExperimenter),
            _ => return Err(ErrorCode::BadMultipart),
        };
        Ok(VecDeque::from([one]))
    }

    fn flows(&self, filter: &FlowFilter, parts: Parts, now: Nanos) -> VecDeque<StatsReply> {
        let each = |f: &super::book::Flow| {
            let (packets, bytes) = self.told(f.id, now);
            let life = now.since(f.added).0;
            FlowStats {
                table: 0,
                duration_sec: (life / 1_000_000_000) as u32,
                duration_nsec: (life % 1_000_000_000) as u32,
                priority: f.priority,
                idle_timeout: f.idle_timeout,
                hard_timeout: f.hard_timeout,
                flags: f.flags,
                cookie: f.cookie,
                packets,
                bytes,
                matcher: f.matcher.clone(),
                instructions: f.instructions.clone(),
            }
        };
        let all: Vec<FlowStats> = self.book.chosen(filter).map(each).collect();
        let part = match (parts, self.profile.statistics.flows_per_part) {
            // The encoding cuts at 64 KiB.
            (Parts::Whole, _) | (_, 0) => all.len().max(1),
            (Parts::Split, n) => n,
        };
        let mut parts: VecDeque<_> =
            all.chunks(part).map(|c| StatsReply::Flow(c.to_vec())).collect();
        if parts.is_empty() {
            parts.push_back(StatsReply::Flow(Vec::new()));
        }
        parts
    }

    fn aggregate(&self, filter: &FlowFilter, now: Nanos) -> Aggregate {
        self.book.chosen(filter).fold(Aggregate::default(), |sum, f| {
            let (packets, bytes) = self.told(f.id, now);
            Aggregate {
                packets: sum.packets + packets,
                bytes: sum.bytes + bytes,
                flows: sum.flows + 1,
            }
        })
    }

    fn told(&self, id: u64, now: Nanos) -> (u64, u64) {
        let (packets, bytes) = self.hardware.told(id, now);
        let off = self.profile.counters.off_percent;
        (off.tell(packets), off.tell(bytes))
    }
}
