//! `actions`: what each modification of a frame costs, what it loses, and whether it is done rightly. 001
//! §4.1, table 2.
//!
//! For each modification: one rule does it to every probe and sends it on; probes of 100 bytes at 100 Mb/s
//! (as the paper has them) go through for a while; each frame that comes is compared byte for byte with what
//! it must be by then (checksums included), and its delay is from departure to arrival. Then combinations:
//! the paper found that one costs what its dearest part costs.
//!
//! Probes before the rule works are not counted: measuring begins once one has come through as it should be,
//! or after a second without any. What each modification is stands in `change`.

mod change;

use self::change::{Change, OLD_VID, PRESENT};
use crate::document::{
    Axis, Cell, Column, Document, Figure, Outcome, Point, ProbeResolution, Samples, Series, Table,
    Verdict,
};
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
        .quick("1")
        .count("frame", "B", "size of a probe, with its check sequence", 100, 68, 156)
}

pub(super) fn make(p: &Params) -> Box<dyn Module> {
    let frame = p.count("frame") as usize;
    let fps = Load::fps_of(p.number("rate"), frame);
    Box::new(Actions {
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
    })
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
            refused: None,
            wrong: None,
        }
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
        Duration::try_from_secs_f64(row * rows(true).len() as f64).ok()
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
                self.at += 1;
                self.install(cx);
            }
            Step::Installing(Some(_)) | Step::Measuring | Step::Over => {}
        }
    }

    fn finish(&mut self, _: &Bench, document: &mut Document) {
        let bytes = self.frame.saturating_sub(4) as u32;
        document.probe = Some(ProbeResolution::shared(self.fps, bytes, 1));
        let mut table = Table::new(
            "actions",
            "Time to perform packet modifications, and loss",
            vec![
                Column::text("modification"),
                Column::number("median", "µs"),
                Column::number("standard deviation", "µs"),
                Column::number("loss", "%"),
                Column::number("right", "%"),
                Column::number("frames", ""),
                Column::text("remark"),
            ],
        );
        let mut figure = Figure::new(
            "actions-delay",
            "Delay of modifications",
            Axis::of_names("modification", self.rows.iter().map(Row::short).collect()),
            Axis::log("delay", "µs"),
        );
        let mut series = Series::measured("delay", "10th to 90th percentile");
        let mut medians = Vec::new();
        for (n, row) in self.rows.iter_mut().enumerate() {
            let id = format!("action-{n}");
            let samples = std::mem::replace(&mut row.delays, Samples::new("µs"));
            let measured = samples.count() > 0;
            document.distribution(&id, &row.name, samples);
            let Some(d) = document.distributions.last() else { continue };
            let p = |percent| d.percentile(percent).unwrap_or(f64::NAN);
            let right = row.right as f64 / row.received.max(1) as f64 * 100.0;
            let median = p(50.0);
            table.row([
                Cell::from(row.name.clone()),
                Cell::from(median),
                Cell::from(d.standard_deviation.filter(|_| measured).unwrap_or(f64::NAN)),
                Cell::from(row.loss()),
                Cell::from(if row.received > 0 { right } else { f64::NAN }),
                Cell::from(row.sent),
                Cell::from(match (&row.refused, &row.wrong) {
                    (Some(r), _) => format!("refused: {r}"),
                    (None, Some(w)) => format!("changed wrongly: {w}"),
                    (None, None) if row.duplicates > 0 => format!("{} twice", row.duplicates),
                    (None, None) => String::new(),
                }),
            ]);
            series.push(Point::with_spread(n as f64, median, p(10.0), p(90.0)));
            let deviation = d.standard_deviation.filter(|_| measured).unwrap_or(f64::NAN);
            medians.push(Delay { p10: p(10.0), median, deviation });
        }
        figure.series.push(series);
        document.tables.push(table);
        document.figures.push(figure);
        document.verdicts.extend([self.accepted(), self.correct(), self.complete()]);
        document.verdicts.push(self.fast(&medians));
        document.verdicts.push(self.dearest(&medians));
    }
}

/// A delay is another kind of delay from here on: several times what forwarding takes, and much of it.
const DEARER: f64 = 4.0;
/// By so much beyond another's median must be nine of ten frames: what only the machine's other work delays has
/// some that it did not meet.
const DEARER_BY_US: f64 = 50.0;

/// What a row's frames take, in microseconds; not a number where none came.
#[derive(Clone, Copy, Debug)]
struct Delay {
    p10: f64,
    median: f64,
    deviation: f64,
}

impl Delay {
    /// Whether nearly all take longer than another's median, and by much.
    fn is_beyond(self, median: f64) -> bool {
        self.median.is_finite() && self.p10 > median + DEARER_BY_US
    }
}

/// Without the combinations that have one of the others as a part: what they do is that part's doing.
fn by_themselves(rows: Vec<&Row>) -> Vec<&Row> {
    let single = |c: &Change| rows.iter().any(|r| r.changes == [*c]);
    let is_implied = |r: &Row| r.changes.len() > 1 && r.changes.iter().any(single);
    rows.iter().copied().filter(|r| !is_implied(r)).collect()
}

impl Actions {
    fn tried(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|r| r.sent > 0)
    }

    fn accepted(&self) -> Verdict {
        let id = "modifications-accepted";
        let refused = by_themselves(self.rows.iter().filter(|r| r.refused.is_some()).collect());
        let told = |r: &&Row| format!("{} ({})", r.name, r.refused.as_deref().unwrap_or_default());
        let refused: Vec<_> = refused.iter().map(told).collect();
        if refused.is_empty() {
            return Verdict::new(id, Outcome::Holds, "No flow was refused for its modifications.");
        }
        let s = format!("Flows are refused for: {}.", refused.join(", "));
        Verdict::new(id, Outcome::Fails, s).with("refused", refused.len() as f64, "")
    }

    fn correct(&self) -> Verdict {
        let id = "modifications-right";
        let came = self.tried().filter(|r| r.received > 0).count();
        let wrong = by_themselves(self.tried().filter(|r| r.right < r.received).collect());
        let wrong: Vec<_> = wrong.iter().map(|r| r.name.as_str()).collect();
        if came == 0 {
            Verdict::new(id, Outcome::Unclear, "No frame came through.")
        } else if wrong.is_empty() {
            Verdict::new(id, Outcome::Holds, "Every frame that came was changed as it should be.")
        } else {
            let s = format!("Frames are changed wrongly by: {}.", wrong.join(", "));
            Verdict::new(id, Outcome::Fails, s).with("modifications", wrong.len() as f64, "")
        }
    }

    fn complete(&self) -> Verdict {
        let id = "modifications-complete";
        // A frame in a hundred may be the instrument's own.
        let lossy = by_themselves(self.tried().filter(|r| r.loss() > 1.0).collect());
        let worst = self.tried().map(Row::loss).fold(0.0, f64::max);
        if self.tried().next().is_none() {
            return Verdict::new(id, Outcome::Unclear, "No frame was sent.");
        }
        if lossy.is_empty() {
            let s = "No modification loses frames.";
            return Verdict::new(id, Outcome::Holds, s).with("worst loss", worst, "%");
        }
        let told = |r: &&Row| match r.received {
            0 => format!("{} (all, without an error)", r.name),
            _ => format!("{} ({:.1} %)", r.name, r.loss()),
        };
        let names: Vec<_> = lossy.iter().map(told).collect();
        let s = format!("Frames are lost by: {}.", names.join(", "));
        Verdict::new(id, Outcome::Fails, s).with("worst loss", worst, "%")
    }

    fn fast(&self, delays: &[Delay]) -> Verdict {
        let id = "modifications-as-fast";
        let Some(forward) = delays.first().map(|d| d.median).filter(|m| m.is_finite()) else {
            return Verdict::new(id, Outcome::Unclear, "Forwarding alone could not be measured.");
        };
        let slow = self.rows.iter().zip(delays);
        let slow: Vec<_> =
            slow.filter(|(_, d)| d.is_beyond(forward) && d.median > DEARER * forward).collect();
        // Of a combination the deviation is that of its parts.
        let slowest = slow.iter().map(|s| s.1).max_by(|a, b| a.median.total_cmp(&b.median));
        let names = by_themselves(slow.iter().map(|s| s.0).collect());
        let slow: Vec<_> = slow
            .iter()
            .filter(|(r, _)| names.iter().any(|n| n.name == r.name))
            .map(|(r, d)| format!("{} ({:.0} µs)", r.name, d.median))
            .collect();
        let verdict = if slow.is_empty() {
            let s = format!("Modifications take about what forwarding takes ({forward:.1} µs).");
            Verdict::new(id, Outcome::Holds, s)
        } else {
            let s = format!(
                "Forwarding takes {forward:.1} µs; another, slower part of the switch does: {}.",
                slow.join(", ")
            );
            Verdict::new(id, Outcome::Fails, s)
        };
        let verdict = verdict.with("forwarding, median", forward, "µs");
        match slowest {
            None => verdict,
            Some(d) => verdict.with("slowest, median", d.median, "µs").with(
                "slowest, standard deviation",
                d.deviation,
                "µs",
            ),
        }
    }

    /// 001 §4.1: the time of a combination is the highest of its parts'.
    fn dearest(&self, delays: &[Delay]) -> Verdict {
        let id = "combination-costs-its-dearest";
        let of = |c: &Change| {
            let at = self.rows.iter().position(|r| r.changes == [*c])?;
            delays.get(at).map(|d| d.median).filter(|m| m.is_finite())
        };
        let mut worst = 0.0_f64;
        let mut some = false;
        for (row, d) in self.rows.iter().zip(delays).filter(|(r, _)| r.changes.len() > 1) {
            let dearest = row.changes.iter().filter_map(of).fold(f64::NAN, f64::max);
            if d.median.is_finite() && dearest.is_finite() && dearest > 0.0 {
                some = true;
                if d.is_beyond(dearest) {
                    worst = worst.max((d.median - dearest - DEARER_BY_US) / dearest);
                }
            }
        }
        let (outcome, s) = match (some, worst < 0.5) {
            (false, _) => (Outcome::Unclear, "No combination could be measured."),
            (true, true) => {
                (Outcome::Holds, "A combination costs about what its dearest part costs.")
            }
            (true, false) => (Outcome::Fails, "A combination costs more than its dearest part."),
        };
        Verdict::new(id, outcome, s).with("beyond the dearest part, at most", worst * 100.0, "%")
    }
}
