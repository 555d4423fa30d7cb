//! `counters`: are the counters of flows, ports, tables, queues, groups and meters what was really sent, and how
//! old is what they tell?
//!
//! Probes go round-robin over some flows; in 1.3 one more goes through a group and one through a meter, where the
//! switch has them. All counters are asked for many times a second. *Age*: the probes that had left when the
//! request was written, less those that the reply counts, at the probes' rate. A counter that tells of more
//! than had left when the reply was read is *ahead*: such frames do not exist. Then the probes stop, and the
//! counters are asked for until they are right, or for so long that they will not be any more: *settled* is
//! when they were, after the last probe. Flows, group and meter were just made, in a table that was emptied, and count
//! from 0; of what was there before, only what it grows by counts. What counts is in `ledger`, what is said of it in `told`.

mod ledger;
mod told;

use self::ledger::{KINDS, NOT_KEPT, Pair, Places, Reading, Truth, What};
use super::verdicts::refused;
use crate::document::Document;
use crate::module::{
    About, Bench, Captured, Context, Load, LoadDone, LoadId, Module, Params, ns_between, rules,
};
use crate::probe::{Headers, Vary};
use std::collections::BTreeMap;
use std::time::Duration;
use weir_openflow::model::{
    Action, Band, BandKind, Bucket, FlowFilter, FlowMod, GROUP_ANY, GroupCommand, GroupKind,
    GroupMod, Instruction, Message, MeterCommand, MeterFlags, MeterMod, Msg, Part, Port, QUEUE_ALL,
    StatsRequest,
};
use weir_packet::Nanos;

pub(super) fn about() -> About {
    About::new("counters", "Are counters what was really sent, and how old is what they tell")
        .count("flows", "", "flows that are counted", 100, 1, 10_000)
        .quick("20")
        .number("duration", "s", "how long probes are sent", 30.0, 0.1, 3600.0)
        .quick("3")
        .number("polls", "1/s", "rounds of questions a second", 10.0, 0.1, 10_000.0)
        .number("rate", "Mb/s", "probe rate, by the frames' own bits", 10.0, 0.01, 10_000.0)
        .quick("2")
        .count("frame", "B", "size of a probe, with its check sequence", 100, 64, 1518)
        .number(
            "wait",
            "s",
            "how long counters may take to be right once probes stop",
            10.0,
            0.1,
            600.0,
        )
        .quick("3")
}

pub(super) fn make(p: &Params) -> Box<dyn Module> {
    Box::new(new(p))
}

fn new(p: &Params) -> Counters {
    let frame = p.count("frame") as usize;
    Counters {
        flows: p.count("flows") as usize,
        duration: Duration::from_secs_f64(p.number("duration")),
        interval: Duration::from_secs_f64(1.0 / p.number("polls")),
        fps: Load::fps_of(p.number("rate"), frame),
        frame,
        wait: Nanos((p.number("wait") * 1e9) as u64),
        step: Step::Inserting(None),
        extras: Vec::new(),
        xids: BTreeMap::new(),
        refused: BTreeMap::new(),
        silent: Vec::new(),
        load: None,
        probed: Vec::new(),
        through: Vec::new(),
        sent: 0,
        last_left: Nanos(0),
        latest: None,
        round: None,
        before: None,
        kinds: BTreeMap::new(),
        last: None,
        stopped: false,
        until: Nanos(0),
        rounds: 0,
        unanswered: 0,
    }
}

const PRIORITY: u16 = 1000;
/// Number of the group and of the meter: nobody else's, or else the switch refuses.
const NUMBER: u32 = 4242;
/// A band that never acts: 4 Tb/s in kb/s.
const BEYOND: u32 = 4_000_000_000;
/// Older than this is old, as for `flow-stats`.
const OLD_MS: f64 = 100.0;
/// What was due for a probe more may have left.
const SLACK: f64 = 2.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Inserting(Option<u32>),
    /// Counters before the first probe.
    Before,
    Probing,
    /// Probes have stopped; until counters are right.
    Settling,
    Over,
}

/// What is needed for one kind of counter beyond a plain flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extra {
    Group,
    Meter,
}

/// A round of questions.
struct Round {
    /// Requests without their whole answer.
    open: Vec<u32>,
    /// When each was written.
    written: BTreeMap<u32, Nanos>,
    reading: Reading,
    /// What had been sent when a kind was asked for and when it was told.
    moments: BTreeMap<What, (f64, f64)>,
}

/// What was found of one kind of counter.
#[derive(Default)]
struct Found {
    readings: u64,
    /// Milliseconds.
    ages: Vec<f64>,
    ahead: u64,
    /// The most by which a reading was, in milliseconds of probes.
    lead: f64,
    back: u64,
    /// What it told before the first probe.
    before: u128,
    /// Milliseconds from the last probe to the first request whose answer was right.
    settled: Option<f64>,
}

struct Counters {
    flows: usize,
    duration: Duration,
    interval: Duration,
    fps: f64,
    frame: usize,
    wait: Nanos,
    step: Step,
    extras: Vec<Extra>,
    /// What each message was for.
    xids: BTreeMap<u32, Option<Extra>>,
    /// Kinds that the switch has not, in its word.
    refused: BTreeMap<&'static str, String>,
    /// Kinds that it does not tell.
    silent: Vec<&'static str>,
    load: Option<LoadId>,
    /// Number of the flow that each of the load's is.
    probed: Vec<u16>,
    through: Vec<u64>,
    sent: u64,
    last_left: Nanos,
    latest: Option<(u32, Nanos)>,
    round: Option<Round>,
    before: Option<Reading>,
    kinds: BTreeMap<What, Found>,
    last: Option<Reading>,
    stopped: bool,
    until: Nanos,
    rounds: u64,
    unanswered: u64,
}

const ASK: u64 = 0;
const STOP: u64 = 1;
const BEGIN: u64 = 2;

impl Counters {
    fn flow(n: usize) -> Headers {
        Headers::default().nth(n as u16, &[Vary::DstAddr])
    }

    fn places(&self, bench: &Bench) -> Places {
        Places {
            first: bench.port(0),
            second: bench.port(1),
            group: NUMBER,
            meter: NUMBER,
            flows: (self.flows + 2) as u16,
        }
    }

    fn has(&self, extra: Extra) -> bool {
        self.extras.contains(&extra)
    }

    /// Of the load, which flow goes through a group or a meter.
    fn flow_of(&self, extra: Extra) -> u16 {
        (self.flows + usize::from(extra == Extra::Meter)) as u16
    }

    fn insert(&mut self, cx: &mut Context<'_>) {
        let to = rules::output(cx.bench().port(1));
        let rule = |n: usize, actions| {
            let rule = rules::add(rules::by_destination(&Self::flow(n)), PRIORITY, actions);
            FlowMod { cookie: n as u64 + 1, ..rule }
        };
        for n in 0..self.flows {
            let xid = cx.flow_mod(rule(n, vec![to.clone()]));
            self.xids.insert(xid, None);
        }
        if cx.bench().is_13() {
            let bucket = Bucket {
                weight: 0,
                watch_port: Port::ANY,
                watch_group: GROUP_ANY,
                actions: vec![to.clone()],
            };
            let group = Message::GroupMod(GroupMod {
                command: GroupCommand::Add,
                kind: GroupKind::Indirect,
                id: NUMBER,
                buckets: vec![bucket],
            });
            let by_group = rule(self.flows, vec![Action::Group(NUMBER)]);
            let band = Band { rate: BEYOND, burst: 0, kind: BandKind::Drop };
            let meter = Message::MeterMod(MeterMod {
                command: MeterCommand::Add,
                flags: MeterFlags::KBPS | MeterFlags::STATS,
                id: NUMBER,
                bands: vec![band],
            });
            let metered = rule(self.flows + 1, vec![to]);
            let instructions =
                [vec![Instruction::Meter(NUMBER)], metered.instructions.clone()].concat();
            let by_meter = FlowMod { instructions, ..metered };
            self.extras = vec![Extra::Group, Extra::Meter];
            for (extra, what) in [
                (Extra::Group, group),
                (Extra::Group, Message::FlowMod(by_group)),
                (Extra::Meter, meter),
                (Extra::Meter, Message::FlowMod(by_meter)),
            ] {
                let xid = cx.send(what);
                self.xids.insert(xid, Some(extra));
            }
        }
        let barrier = cx.bench().barriers.then(|| cx.barrier());
        self.step = Step::Inserting(barrier);
        if barrier.is_none() {
            cx.timer_in(Duration::from_secs(1), BEGIN);
        }
    }

    /// Asks for all counters.
    fn ask(&mut self, cx: &mut Context<'_>) {
        if self.round.is_some() || self.step == Step::Over {
            return;
        }
        let mut requests = vec![
            StatsRequest::Flow(FlowFilter::every_flow()),
            StatsRequest::Port(Port::ANY),
            StatsRequest::Table,
        ];
        if !self.silent.contains(&"queues") {
            requests.push(StatsRequest::Queue { port: Port::ANY, queue: QUEUE_ALL });
        }
        if self.has(Extra::Group) {
            requests.push(StatsRequest::Group(NUMBER));
        }
        if self.has(Extra::Meter) {
            requests.push(StatsRequest::Meter(NUMBER));
        }
        let open = requests.into_iter().map(|r| cx.stats(r)).collect();
        self.round = Some(Round {
            open,
            written: BTreeMap::new(),
            reading: Reading::default(),
            moments: BTreeMap::new(),
        });
        self.rounds += 1;
        if self.step != Step::Before {
            cx.timer_in(self.interval, ASK);
        }
    }

    /// Probes that had left by then.
    fn left_by(&self, cx: &Context<'_>, at: Nanos) -> f64 {
        if self.stopped && at >= self.last_left {
            return self.sent as f64;
        }
        let (Some((number, left)), Some(load)) = (self.latest, self.load) else { return 0.0 };
        let guess = f64::from(number) + ns_between(left, at) / 1e9 * self.fps;
        let mut n = guess.max(-1.0) as i64;
        let left = |n: i64| u32::try_from(n).ok().and_then(|n| cx.departure(load, n));
        // By the departures themselves, as far as they are known.
        for _ in 0..1000 {
            if left(n + 1).is_some_and(|t| t <= at) {
                n += 1;
            } else if left(n).is_some_and(|t| t > at) {
                n -= 1;
            } else {
                break;
            }
        }
        (n + 1) as f64
    }

    /// How much of the load a kind of counter counts.
    fn share(&self, what: What) -> f64 {
        let all = self.probed.len().max(1) as f64;
        match what {
            What::Group | What::Meter => 1.0 / all,
            _ => 1.0,
        }
    }

    /// What a kind must tell once all probes are through.
    fn truth(&self, what: What) -> Truth {
        let bytes_each = self.frame.saturating_sub(4) as u64;
        let of = |flow: u16| {
            let Some(place) = self.probed.iter().position(|f| *f == flow) else {
                return Truth { least: 0, most: 0, bytes_each };
            };
            let all = self.probed.len() as u64;
            let most = self.sent / all + u64::from((place as u64) < self.sent % all);
            let least = self.through.get(place).copied().unwrap_or(0);
            Truth { least, most, bytes_each }
        };
        let through = self.through.iter().sum();
        match what {
            What::Flow(n) => of(n),
            What::Group => of(self.flow_of(Extra::Group)),
            What::Meter => of(self.flow_of(Extra::Meter)),
            What::PortIn => {
                Truth { least: self.sent, most: self.sent, bytes_each }.with_strangers()
            }
            What::PortOut | What::Queue => {
                Truth { least: through, most: self.sent, bytes_each }.with_strangers()
            }
            What::Table => Truth { least: through, most: self.sent, bytes_each }.with_strangers(),
        }
    }

    /// A request is answered, or will not be: perhaps the round is over.
    fn close(&mut self, cx: &mut Context<'_>, xid: u32) {
        let Some(round) = &mut self.round else { return };
        round.open.retain(|x| *x != xid);
        if round.open.is_empty()
            && let Some(round) = self.round.take()
        {
            self.end_round(cx, round);
        }
    }

    fn end_round(&mut self, cx: &mut Context<'_>, round: Round) {
        match self.step {
            Step::Before => {
                for (name, kind) in KINDS {
                    if let Some(packets) = round.reading.packets(kind) {
                        let found = Found { before: packets, ..Found::default() };
                        self.kinds.insert(kind, found);
                    } else {
                        self.silent.push(name.split(',').next().unwrap_or(name));
                    }
                }
                self.before = Some(round.reading);
                self.begin(cx);
            }
            Step::Probing | Step::Settling => {
                self.enter(&round);
                let right = self.step == Step::Settling && self.are_right(&round);
                self.last = Some(round.reading);
                if self.step == Step::Settling && (right || cx.now() >= self.until) {
                    self.step = Step::Over;
                    cx.end();
                }
            }
            Step::Inserting(_) | Step::Over => {}
        }
    }

    fn begin(&mut self, cx: &mut Context<'_>) {
        let mut probed: Vec<u16> = (0..self.flows as u16).collect();
        probed.extend(self.extras.iter().map(|e| self.flow_of(*e)));
        let flows = probed.iter().map(|n| Self::flow(usize::from(*n))).collect();
        self.through = vec![0; probed.len()];
        self.probed = probed;
        let load = Load::new(0, Headers::default(), self.frame, self.fps).over(flows);
        self.load = Some(cx.begin(load));
        self.step = Step::Probing;
        cx.timer_in(self.duration, STOP);
        self.ask(cx);
    }

    /// Ages, and counters that are ahead.
    fn enter(&mut self, round: &Round) {
        for (_, kind) in KINDS {
            let (Some(told), Some((asked, read))) =
                (round.reading.packets(kind), round.moments.get(&kind))
            else {
                continue;
            };
            let share = self.share(kind);
            let (fps, stopped) = (self.fps, self.step != Step::Probing);
            let earlier = self.last.as_ref().or(self.before.as_ref());
            let back = earlier.is_some_and(|e| round.reading.has_fallen(kind, e));
            let strangers = match kind {
                _ if kind.is_new() => 0.0,
                _ => 10.0 + read / 1000.0,
            };
            let one_over = match kind {
                What::Flow(_) => self.one_flow_over(&round.reading, *read),
                _ => 0.0,
            };
            let Some(found) = self.kinds.get_mut(&kind) else { continue };
            found.readings += 1;
            found.back += u64::from(back);
            let before = if kind.is_new() { 0 } else { found.before };
            let told = told.saturating_sub(before) as f64;
            if !stopped {
                found.ages.push((asked * share - told) / (fps * share) * 1e3);
            }
            let over = told - read * share - strangers;
            if over > SLACK || one_over > 0.0 {
                found.ahead += 1;
                found.lead = found.lead.max(over.max(one_over) / (fps * share) * 1e3);
            }
        }
    }

    /// The most packets that a single flow tells of beyond those that had left; one more may have, see [`SLACK`].
    fn one_flow_over(&self, reading: &Reading, left: f64) -> f64 {
        let all = self.probed.len().max(1) as f64;
        let over = self.probed.iter().enumerate().filter_map(|(place, flow)| {
            let (packets, _) = reading.told.get(&What::Flow(*flow))?;
            let turns = ((left + SLACK - place as f64) / all).ceil().max(0.0);
            Some(*packets as f64 - turns - 1.0)
        });
        over.fold(0.0, f64::max)
    }

    /// Whether all counters are right; notes when each of them was first.
    fn are_right(&mut self, round: &Round) -> bool {
        let mut all = true;
        let kinds: Vec<What> = self.kinds.keys().copied().collect();
        for kind in kinds {
            let right = self.is_right(kind, &round.reading);
            all &= right;
            let first = round.written.values().min().copied();
            let after = first.map(|at| ns_between(self.last_left, at) / 1e6);
            if let Some(found) = self.kinds.get_mut(&kind).filter(|f| right && f.settled.is_none())
            {
                found.settled = after;
            }
        }
        all
    }

    /// What a counter tells of the probes.
    fn difference(&self, what: What, reading: &Reading) -> Option<Pair> {
        let now = *reading.told.get(&what)?;
        if what.is_new() {
            return Some(now);
        }
        let before = self.before.as_ref().and_then(|b| b.told.get(&what)).copied();
        let before = before.unwrap_or_default();
        let bytes = match [before.1, now.1].contains(&NOT_KEPT) {
            true => NOT_KEPT,
            false => now.1.saturating_sub(before.1),
        };
        Some((now.0.saturating_sub(before.0), bytes))
    }

    /// Packets and bytes of a kind are what was sent.
    fn is_right(&self, kind: What, reading: &Reading) -> bool {
        let one = |what: What| {
            let truth = self.truth(what);
            self.difference(what, reading).is_some_and(|pair| {
                truth.has_packets(pair.0) && (kind == What::Table || truth.has_bytes(pair))
            })
        };
        match kind {
            What::Flow(_) => self.probed.iter().all(|n| one(What::Flow(*n))),
            other => one(other),
        }
    }
}

impl Module for Counters {
    fn takes(&self) -> Option<Duration> {
        Some(self.duration)
    }

    fn start(&mut self, cx: &mut Context<'_>) {
        self.insert(cx);
    }

    fn written(&mut self, _: &mut Context<'_>, xid: u32, at: Nanos) {
        if let Some(round) = self.round.as_mut().filter(|r| r.open.contains(&xid)) {
            round.written.insert(xid, at);
        }
    }

    fn message(&mut self, cx: &mut Context<'_>, at: Nanos, msg: &Msg) {
        match &msg.body {
            Message::BarrierReply if self.step == Step::Inserting(Some(msg.xid)) => {
                self.step = Step::Before;
                self.ask(cx);
            }
            Message::StatsReply { more, body } => {
                let Some(round) = self.round.as_ref().filter(|r| r.open.contains(&msg.xid)) else {
                    return;
                };
                let written = round.written.get(&msg.xid).copied().unwrap_or(at);
                let (asked, read) = (self.left_by(cx, written), self.left_by(cx, at));
                let places = self.places(cx.bench());
                if let Some(round) = &mut self.round {
                    let had: Vec<What> = round.reading.told.keys().copied().collect();
                    round.reading.take(body, &places);
                    for (_, kind) in KINDS {
                        let is_new = !had.contains(&kind) && round.reading.packets(kind).is_some();
                        if is_new {
                            round.moments.insert(kind, (asked, read));
                        } else if let Some(m) = round.moments.get_mut(&kind)
                            && matches!(kind, What::Flow(_))
                        {
                            m.1 = read;
                        }
                    }
                }
                if *more == Part::Last {
                    self.close(cx, msg.xid);
                }
            }
            Message::Error(e) => {
                let word = format!("{:?}", e.code);
                match self.xids.get(&msg.xid) {
                    Some(Some(extra)) => {
                        let extra = *extra;
                        self.extras.retain(|e| *e != extra);
                        let name = if extra == Extra::Group { "group" } else { "meter" };
                        self.refused.entry(name).or_insert(word);
                    }
                    Some(None) => cx.fail(refused(self.flows, "flows", &word, "flows")),
                    None => self.close(cx, msg.xid),
                }
            }
            _ => {}
        }
    }

    fn unanswered(&mut self, cx: &mut Context<'_>, xid: u32) -> bool {
        let is_ours = self.round.as_ref().is_some_and(|r| r.open.contains(&xid));
        if is_ours {
            self.unanswered += 1;
            self.close(cx, xid);
        }
        is_ours
    }

    fn frame(&mut self, _: &mut Context<'_>, frame: &Captured) {
        let Some(id) = frame.probe.filter(|id| Some(id.load) == self.load) else { return };
        if frame.channel != 1 {
            return;
        }
        if let Some(n) = self.through.get_mut(usize::from(id.flow)) {
            *n += 1;
        }
        if let Some(left) = frame.left {
            self.latest = Some((id.number, left));
        }
    }

    fn load_done(&mut self, cx: &mut Context<'_>, done: &LoadDone) {
        if Some(done.load) != self.load {
            return;
        }
        let last = (done.sent.checked_sub(1)).and_then(|n| cx.departure(done.load, n as u32));
        (self.sent, self.last_left, self.stopped) = (done.sent, last.unwrap_or(done.to), true);
        self.step = Step::Settling;
        self.until = cx.now() + self.wait;
    }

    fn timer(&mut self, cx: &mut Context<'_>, token: u64) {
        match token {
            ASK if self.round.is_some() => cx.timer_in(Duration::from_millis(1), ASK),
            ASK => self.ask(cx),
            BEGIN => {
                self.step = Step::Before;
                self.ask(cx);
            }
            _ => {
                if let Some(load) = self.load {
                    cx.stop(load);
                }
            }
        }
    }

    fn finish(&mut self, _: &Bench, document: &mut Document) {
        self.tell(document);
    }
}
