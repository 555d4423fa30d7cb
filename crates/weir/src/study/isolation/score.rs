//! What follows from an attack: shares, Jain's index, percentiles, leaks, a verdict.
//!
//! Pure.

use super::attack::Attack;
use super::world::{ATTACKER, Fate, Fates, Network, VICTIMS, burst};
use crate::study::report::{Bound, Figure, Promise, Table, number};
use weir_measure::latency::LatencySummary;
use weir_measure::stats::jain_index;

/// The part of its guarantee that a network must get under every attack.
pub const KEPT: f64 = 0.95;

/// A network that nobody disturbs.
#[derive(Clone, Debug)]
pub struct Alone {
    /// Which.
    pub network: Network,
    /// Its frames' delays.
    pub latency: LatencySummary,
}

/// What a network suffered.
#[derive(Clone, Debug)]
pub struct Suffered {
    /// Delivered over what it was due.
    pub share: f64,
    /// Delays of what was delivered.
    pub latency: LatencySummary,
    /// The p99 that it may have, in nanoseconds.
    pub bound_ns: u64,
    /// Its p99 over its own alone.
    pub ratio: f64,
    /// Barriers answered, of so many.
    pub answered: (u64, u64),
    /// Errors that its controller got.
    pub errors: u64,
}

/// One attack.
#[derive(Clone, Debug)]
pub struct Row {
    /// Which; `None`: all networks keep to their part.
    pub attack: Option<Attack>,
    /// Frames a second that the attacker got through alone.
    pub attacker_alone: f64,
    /// And beside the others.
    pub attacker: f64,
    /// The others, in their order.
    pub victims: Vec<Suffered>,
    /// Jain's index over all networks' shares.
    pub jain: f64,
    /// Frames that came out where they must not.
    pub frames: u64,
    /// Messages that came to whom they must not.
    pub messages: u64,
}

const NOTHING: LatencySummary = LatencySummary {
    count: 0,
    min_ns: 0,
    p50_ns: 0,
    p90_ns: 0,
    p99_ns: 0,
    p99_9_ns: 0,
    max_ns: 0,
    mean_ns: 0.0,
    standard_deviation_ns: 0.0,
};

fn summary(f: &Fate) -> LatencySummary {
    f.frames.latency.summary().unwrap_or(NOTHING)
}

/// Delivered over what was due: the lesser of what was offered and what was promised.
fn share(f: &Fate, promised: u64) -> f64 {
    let due = f.frames.offered.min(promised);
    if due == 0 { 0.0 } else { (f.frames.delivered as f64 / due as f64).min(1.0) }
}

impl Alone {
    /// Of a run in which it was alone.
    pub fn of(fates: &Fates, network: &Network) -> Self {
        let latency = fates.of.get(usize::from(network.id)).map_or(NOTHING, summary);
        Self { network: *network, latency }
    }
}

impl Row {
    /// Of an attack's two runs, of so many nanoseconds each.
    pub fn new(
        attack: Option<Attack>,
        by_itself: &Fates,
        together: &Fates,
        alone: &[Alone],
        time: u64,
    ) -> Self {
        let promised = super::world::PROMISED * time / 1_000_000_000;
        let of = |fates: &Fates, id: u16| fates.of.get(usize::from(id)).cloned();
        let rate = |fates: &Fates| {
            let f = of(fates, ATTACKER.id);
            f.map_or(0.0, |f| f.frames.delivered as f64 / time as f64 * 1e9)
        };
        // All four send.
        let bursts = VICTIMS.iter().chain([&ATTACKER]).map(|n| burst(n, attack)).sum::<u64>();
        let suffered = |a: &Alone| {
            let f = of(together, a.network.id)?;
            let latency = summary(&f);
            Some(Suffered {
                share: share(&f, promised),
                bound_ns: a.latency.p99_ns + bursts,
                ratio: latency.p99_ns as f64 / a.latency.p99_ns.max(1) as f64,
                latency,
                answered: (f.heard.answered, f.heard.asked),
                errors: f.heard.errors,
            })
        };
        let shares: Vec<f64> = together.of.iter().skip(1).map(|f| share(f, promised)).collect();
        let strange = |fates: &Fates| fates.of.iter().map(|f| f.heard.strange).sum::<u64>();
        Self {
            attack,
            attacker_alone: rate(by_itself),
            attacker: rate(together),
            victims: alone.iter().filter_map(suffered).collect(),
            jain: jain_index(&shares).unwrap_or(0.0),
            frames: by_itself.leaked + together.leaked,
            messages: strange(by_itself) + strange(together),
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.attack.map_or("none", Attack::name)
    }

    fn least_share(&self) -> f64 {
        self.victims.iter().map(|v| v.share).fold(1.0, f64::min)
    }
    fn most_ratio(&self) -> f64 {
        self.victims.iter().map(|v| v.ratio).fold(0.0, f64::max)
    }
    /// The worst p99 over what it may be.
    fn of_bound(&self) -> f64 {
        let of = |v: &Suffered| v.latency.p99_ns as f64 / v.bound_ns.max(1) as f64;
        self.victims.iter().map(of).fold(0.0, f64::max)
    }
    fn unanswered(&self) -> u64 {
        self.victims.iter().map(|v| v.answered.1.saturating_sub(v.answered.0) + v.errors).sum()
    }
    fn leaks(&self) -> u64 {
        self.frames + self.messages
    }
    /// What the others lost by it, in a word.
    fn verdict(&self) -> &'static str {
        if self.leaks() > 0 {
            "leaks"
        } else if self.least_share() < KEPT {
            "share lost"
        } else if self.of_bound() > 1.0 {
            "delayed"
        } else if self.unanswered() > 0 {
            "control lost"
        } else {
            "holds"
        }
    }
}

/// Attack by attack.
pub fn card(rows: &[Row]) -> Table {
    let head = [
        "no.",
        "attack",
        "least share of a guarantee",
        "Jain's index",
        "largest p99 over that alone",
        "largest p99 over its bound",
        "barriers answered",
        "frames leaked",
        "messages leaked",
        "verdict",
    ];
    let row = |(n, r): (usize, &Row)| {
        let (answered, asked) =
            r.victims.iter().fold((0, 0), |(a, b), v| (a + v.answered.0, b + v.answered.1));
        vec![
            n.to_string(),
            r.name().to_owned(),
            format!("{} %", number(100.0 * r.least_share())),
            format!("{:.4}", r.jain),
            number(r.most_ratio()),
            number(r.of_bound()),
            format!("{answered} of {asked}"),
            r.frames.to_string(),
            r.messages.to_string(),
            r.verdict().to_owned(),
        ]
    };
    Table {
        title: "scorecard, from memory in virtual time".to_owned(),
        head: head.map(str::to_owned).into(),
        rows: rows.iter().enumerate().map(row).collect(),
    }
}

/// Attack by network.
pub fn details(rows: &[Row], alone: &[Alone]) -> Table {
    let head = [
        "attack",
        "network",
        "share",
        "p50 / p99 / p99.9 alone (µs)",
        "under attack (µs)",
        "p99 at most (µs)",
        "attacker's rate alone / beside (frames per second)",
    ];
    let us = |ns: u64| number(ns as f64 / 1e3);
    let three =
        |l: &LatencySummary| format!("{} / {} / {}", us(l.p50_ns), us(l.p99_ns), us(l.p99_9_ns));
    let mut all = Vec::new();
    for r in rows {
        for (v, a) in r.victims.iter().zip(alone) {
            all.push(vec![
                r.name().to_owned(),
                a.network.name.to_owned(),
                format!("{} %", number(100.0 * v.share)),
                three(&a.latency),
                three(&v.latency),
                us(v.bound_ns),
                format!("{} / {}", number(r.attacker_alone), number(r.attacker)),
            ]);
        }
    }
    Table {
        title: "each network, alone and under each attack, from memory in virtual time".to_owned(),
        head: head.map(str::to_owned).into(),
        rows: all,
    }
}

/// What weir promises of it.
pub fn judge(rows: &[Row]) -> Vec<Figure> {
    let most = |of: fn(&Row) -> f64| rows.iter().map(of).fold(0.0, f64::max);
    let figure = |what: &str, value, unit, bound, promised| {
        Figure::of(what, value, unit, Some(Promise { bound, value: promised }))
    };
    let least = rows.iter().map(|r| 100.0 * r.least_share()).fold(100.0, f64::min);
    let sum = |of: fn(&Row) -> u64| rows.iter().map(of).sum::<u64>() as f64;
    vec![
        figure(
            "least share of a guarantee under any attack, from memory",
            least,
            "%",
            Bound::AtLeast,
            100.0 * KEPT,
        ),
        figure(
            "largest p99 over its own alone plus one burst of every active VDP, from memory",
            most(Row::of_bound),
            "",
            Bound::AtMost,
            1.0,
        ),
        figure("frames leaked, from memory", sum(|r| r.frames), "", Bound::AtMost, 0.0),
        figure("messages leaked, from memory", sum(|r| r.messages), "", Bound::AtMost, 0.0),
        figure(
            "questions of the others' controllers unanswered or refused, from memory",
            sum(Row::unanswered),
            "",
            Bound::AtMost,
            0.0,
        ),
    ]
}
