//! `actions`: what each modification of a frame costs, what it loses, and whether it is done rightly. 001
//! §4.1, table 2.
//!
//! For each modification: one rule does it to every probe and sends it on; probes of 100 bytes at 100 Mb/s
//! (as the paper has them) go through for a while; each frame that comes is compared byte for byte with what
//! it must be by then (checksums included), and its delay is from departure to arrival. Then combinations:
//! the paper found that one costs what its dearest part costs.
//!
//! Probes before the rule works are not counted: measuring begins once one has come through as it should be,
//! or after a second without any. What each modification is stands in `change`,
//! what is said of them in `told`.

mod change;
mod told;

use self::change::{Change, OLD_VID, PRESENT};
use crate::document::{Document, Samples};
use crate::module::{
    About, Bench, Captured, Context, Leaves, Load, LoadDone, LoadId, Module, Packets, Params, rules,
};
use crate::probe::Headers;
use crate::stats;
use std::time::Duration;
use weir_openflow::model::{Field, Match, Message, Msg};
use weir_packet::Nanos;
use weir_wire::VlanRepr;

pub(super) fn about() -> About {
    About::new("actions", "What does each modification of a frame cost, lose and change")
        .leaving(Leaves::Sizes)
        .paper("001 table 2")
        .number("rate", "Mb/s", "probe rate, by the frames' own bits", 100.0, 0.01, 100_000.0)
        .quick("4")
        .number("duration", "s", "time for each modification", 10.0, 0.01, 3600.0)
        .quick("0.5")
        .count(
            "rounds",
            "",
            "parts of that time, so that a disturbance meets all alike",
            5,
            1,
            1000,
        )
        .quick("3")
        .count("frame", "B", "size of a probe, with its check sequence", 100, 68, 156)
}

pub(super) fn make(p: &Params) -> Box<dyn Module> {
    Box::new(new(p))
}

fn new(p: &Params) -> Actions {
    let frame = p.count("frame") as usize;
    let fps = Load::fps_of(p.number("rate"), frame);
    Actions {
        frame,
        fps,
        frames: (fps * p.number("duration") / p.number("rounds")).ceil().max(1.0) as u64,
        rounds: p.count("rounds"),
        round: 0,
        rows: Vec::new(),
        at: 0,
        step: Step::Installing(None),
        load: None,
        expected: Vec::new(),
        strips: false,
        token: 0,
    }
}

/// A modification, or several, and what was found.
struct Row {
    name: String,
    changes: Vec<Change>,
    sent: u64,
    received: u64,
    right: u64,
    duplicates: u64,
    seen: Vec<u64>,
    delays: Samples,
    /// Those of the round at work, and the medians of the rounds before, in microseconds.
    of_round: Samples,
    medians: Vec<f64>,
    refused: Option<String>,
    /// The first frame that was wrong, in words.
    wrong: Option<String>,
}

impl Row {
    fn new(name: &str, changes: &[Change]) -> Self {
        Self {
            name: name.to_owned(),
            changes: changes.to_vec(),
            sent: 0,
            received: 0,
            right: 0,
            duplicates: 0,
            seen: Vec::new(),
            delays: Samples::new("µs").in_group("delay by modification"),
            of_round: Samples::new("µs"),
            medians: Vec::new(),
            refused: None,
            wrong: None,
        }
    }

    /// A round has ended, or all of it before its end.
    fn end_round(&mut self) {
        let samples = std::mem::replace(&mut self.of_round, Samples::new("µs"));
        self.medians.extend(samples.percentile(50.0));
    }

    fn is_tagged(&self) -> bool {
        self.changes.iter().any(|c| c.needs_tag())
    }

    /// Its name; of a combination, of how many.
    fn short(&self) -> String {
        match self.changes.len() {
            0 | 1 => self.name.clone(),
            n => format!("{n} together"),
        }
    }

    /// Headers of the probes as they are sent.
    fn headers(&self) -> Headers {
        let vlan = self.is_tagged().then(|| VlanRepr::dot1q(OLD_VID));
        Headers { vlan, ..Headers::default() }
    }

    fn loss(&self) -> f64 {
        stats::loss_percent(self.sent, self.received)
    }

    /// Counts a frame; `false` for one that came before.
    fn is_new(&mut self, number: u32) -> bool {
        let (word, bit) = (number as usize / 64, 1u64 << (number % 64));
        // As many bits as frames were sent; more would be a switch's invention.
        if word >= self.seen.len() {
            return true;
        }
        let new = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        new
    }
}

/// Each modification alone, then combinations.
fn rows(is_13: bool) -> Vec<Row> {
    let mut rows = vec![Row::new("Forward", &[])];
    let single = Change::ALL.iter().filter(|(_, c)| is_13 || !c.needs_13());
    rows.extend(single.map(|(name, c)| Row::new(name, &[*c])));
    for changes in [
        &[Change::Mac, Change::Ip][..],
        &[Change::Mac, Change::Ip, Change::Tos, Change::L4Port],
        &[Change::Mac, Change::Ip, Change::Tos, Change::L4Port, Change::VlanId],
    ] {
        let name = |c: &Change| Change::ALL.iter().find(|(_, x)| x == c).map_or("", |n| n.0);
        let names: Vec<_> = changes.iter().map(name).collect();
        rows.push(Row::new(&names.join(" + "), changes));
    }
    rows
}

/// After the last probe of a modification.
const SETTLE_MS: u64 = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Installing(Option<u32>),
    /// A few probes until one comes through.
    Waking,
    Measuring,
    Settling,
    Over,
}

struct Actions {
    frame: usize,
    fps: f64,
    /// Of each load.
    frames: u64,
    rounds: u64,
    round: u64,
    rows: Vec<Row>,
    at: usize,
    step: Step,
    load: Option<LoadId>,
    /// One for each size.
    expected: Vec<Packets>,
    /// Whether their tag is taken out then.
    strips: bool,
    token: u64,
}

impl Actions {
    fn timer_in(&mut self, cx: &mut Context<'_>, ms: u64) {
        self.token += 1;
        cx.timer_in(Duration::from_millis(ms), self.token);
    }

    fn install(&mut self, cx: &mut Context<'_>) {
        // What was refused once is not asked for again.
        while self.rows.get(self.at).is_some_and(|r| r.refused.is_some()) {
            self.at += 1;
        }
        if self.at >= self.rows.len() {
            (self.at, self.round) = (0, self.round + 1);
            let all_refused = self.rows.iter().all(|r| r.refused.is_some());
            if self.round >= self.rounds || all_refused {
                self.step = Step::Over;
                return cx.end();
            }
            return self.install(cx);
        }
        let rows = self.rows.len() as u64;
        cx.progress(self.round * rows + self.at as u64, self.rounds * rows);
        let Some(row) = self.rows.get(self.at) else { return };
        let is_13 = cx.bench().is_13();
        let (here, there) = (cx.bench().port(0), cx.bench().port(1));
        let mut matcher = Match::default().with(Field::InPort, u128::from(here.0));
        matcher = matcher.with(Field::EthType, 0x0800);
        if row.is_tagged() {
            matcher = matcher.with(Field::VlanVid, u128::from(PRESENT | OLD_VID));
        }
        matcher = matcher.with(Field::IpProto, 17);
        let mut actions: Vec<_> = row.changes.iter().flat_map(|c| c.actions(is_13)).collect();
        actions.push(rules::output(there));
        cx.clear_table();
        cx.flow_mod(rules::add(matcher, 1000, actions));
        let barrier = cx.bench().barriers.then(|| cx.barrier());
        self.step = Step::Installing(barrier);
        if barrier.is_none() {
            self.timer_in(cx, 1000);
        }
    }

    fn wake(&mut self, cx: &mut Context<'_>) {
        let Some(row) = self.rows.get(self.at) else { return };
        let load = cx.begin(Load::new(0, row.headers(), self.frame, self.fps.min(1000.0)));
        self.load = Some(load);
        self.expect(cx, load);
        self.step = Step::Waking;
        self.timer_in(cx, 1000);
    }

    fn measure(&mut self, cx: &mut Context<'_>) {
        let frames = self.frames;
        let Some(row) = self.rows.get_mut(self.at) else { return };
        row.seen = vec![0; usize::try_from(frames / 64 + 1).unwrap_or(1)];
        let load = cx.begin(Load::new(0, row.headers(), self.frame, self.fps).only(frames));
        self.load = Some(load);
        self.expect(cx, load);
        self.step = Step::Measuring;
    }

    /// Makes ready what frames of `load` must be by then.
    fn expect(&mut self, cx: &Context<'_>, load: LoadId) {
        let Some(row) = self.rows.get(self.at) else { return };
        let mut after = row.headers();
        row.changes.iter().for_each(|c| c.apply(&mut after));
        // A pushed tag leaves a frame four bytes longer, a stripped one shorter, perhaps than any that is sent: so
        // that is taken out last. The payload is the same.
        let before = row.headers().vlan;
        self.strips = before.is_some() && after.vlan.is_none();
        after.vlan = after.vlan.or(before);
        let more = if before.is_none() && after.vlan.is_some() { TAG } else { 0 };
        let of = |own| Packets::of(load, after, own + more, 0);
        self.expected = cx.sizes(self.frame).into_iter().filter_map(of).collect();
    }

    /// What a frame must be by then.
    fn wanted(&mut self, frame: &Captured, number: u32) -> Vec<u8> {
        let Some(row) = self.rows.get(self.at) else { return Vec::new() };
        let mut first = None;
        // One for each size that it may have had.
        for expected in &mut self.expected {
            let mut want = expected.frame(number, stamp_of(frame));
            if self.strips {
                want.drain(12..12 + TAG);
            }
            let tagged = want.get(12..14) == Some(&[0x81, 0x00]);
            row.changes.iter().for_each(|c| c.finish(&mut want, tagged));
            if want.len() == usize::from(frame.len) {
                return want;
            }
            first.get_or_insert(want);
        }
        first.unwrap_or_default()
    }

    fn judge(&mut self, frame: &Captured, number: u32) {
        let want = self.wanted(frame, number);
        let Some(row) = self.rows.get_mut(self.at) else { return };
        if !row.is_new(number) {
            row.duplicates += 1;
            return;
        }
        row.received += 1;
        if let Some(ns) = frame.delay_ns() {
            row.delays.record(ns / 1e3);
            row.of_round.record(ns / 1e3);
        }
        let got = frame.bytes();
        if is_right(frame, &want) {
            row.right += 1;
        } else if row.wrong.is_none() {
            let at = got.iter().zip(&want).position(|(a, b)| a != b);
            row.wrong = Some(match at {
                Some(at) => format!(
                    "byte {at} is {:#04x}, not {:#04x}",
                    got.get(at).copied().unwrap_or(0),
                    want.get(at).copied().unwrap_or(0)
                ),
                None => format!("it has {} bytes, not {}", frame.len, want.len()),
            });
        }
    }
}

/// Bytes of a tag.
const TAG: usize = weir_wire::vlan::TAG_LEN;

/// Whether a frame is that; of a long one, as much of it as is kept.
fn is_right(frame: &Captured, want: &[u8]) -> bool {
    usize::from(frame.len) == want.len() && want.starts_with(frame.bytes())
}

/// The stamp that the program wrote into a captured probe.
fn stamp_of(frame: &Captured) -> Nanos {
    crate::probe::identify_any(frame.bytes()).map_or(Nanos(0), |(_, id)| id.stamp)
}

impl Module for Actions {
    fn takes(&self) -> Option<Duration> {
        // All rows of 1.3; 1.0 has fewer.
        let row = self.frames as f64 / self.fps + SETTLE_MS as f64 / 1e3;
        let rounds = self.rounds as f64;
        Duration::try_from_secs_f64(row * rounds * rows(true).len() as f64).ok()
    }

    fn start(&mut self, cx: &mut Context<'_>) {
        self.rows = rows(cx.bench().is_13());
        self.install(cx);
    }

    fn message(&mut self, cx: &mut Context<'_>, _: Nanos, msg: &Msg) {
        match (&msg.body, self.step) {
            (Message::BarrierReply, Step::Installing(Some(b))) if b == msg.xid => {
                let refused = self.rows.get(self.at).is_some_and(|r| r.refused.is_some());
                if refused {
                    self.at += 1;
                    self.install(cx);
                } else {
                    self.wake(cx);
                }
            }
            (Message::Error(e), Step::Installing(_) | Step::Waking) => {
                if let Some(row) = self.rows.get_mut(self.at) {
                    row.refused.get_or_insert_with(|| format!("{:?}", e.code));
                }
            }
            _ => {}
        }
    }

    fn frame(&mut self, cx: &mut Context<'_>, frame: &Captured) {
        let Some(id) = frame.probe.filter(|id| Some(id.load) == self.load) else { return };
        if frame.channel != 1 {
            return;
        }
        match self.step {
            // One that is right: others may still be treated by the rule of before.
            Step::Waking => {
                if is_right(frame, &self.wanted(frame, id.number)) {
                    self.measure(cx);
                }
            }
            Step::Measuring | Step::Settling => self.judge(frame, id.number),
            Step::Installing(_) | Step::Over => {}
        }
    }

    fn load_done(&mut self, cx: &mut Context<'_>, done: &LoadDone) {
        if Some(done.load) == self.load && self.step == Step::Measuring {
            if let Some(row) = self.rows.get_mut(self.at) {
                row.sent += done.sent;
            }
            self.step = Step::Settling;
            self.timer_in(cx, SETTLE_MS);
        }
    }

    fn timer(&mut self, cx: &mut Context<'_>, token: u64) {
        if token != self.token {
            return;
        }
        match self.step {
            Step::Installing(None) => self.wake(cx),
            Step::Waking => self.measure(cx),
            Step::Settling => {
                if let Some(row) = self.rows.get_mut(self.at) {
                    row.end_round();
                }
                self.at += 1;
                self.install(cx);
            }
            Step::Installing(Some(_)) | Step::Measuring | Step::Over => {}
        }
    }

    fn finish(&mut self, _: &Bench, document: &mut Document) {
        self.rows.iter_mut().for_each(Row::end_round);
        self.tell(document);
    }
}
