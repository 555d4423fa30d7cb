//! What a VDP takes along to another data plane, and what stays of it while it is away.
//!
//! Room: plain counters, and which port hands frames on to which. A data plane's own counters stay as
//! they are, so that its sums hold; what was counted elsewhere is laid beside them and added when
//! somebody asks for the VDP's. Made and read by `control/away`, followed by `plane/away`.

use crate::action::PortNo;
use crate::counters::{TableCounters, Tally, VdpCounters};
use crate::edge::VdpPortCounters;
use weir_packet::{DropCounts, DropReason, PortId};

/// What a VDP has counted, wherever it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// The VDP's.
    pub counters: VdpCounters,
    /// Each of its ports', by its own numbers.
    pub ports: Vec<(PortNo, VdpPortCounters)>,
    /// Lookups in each of its tables.
    pub tables: Vec<TableCounters>,
}

/// What a VDP counted before it came here, and what this data plane had counted for it by then.
#[derive(Debug, Default)]
pub(crate) struct Brought {
    pub given: Carried,
    pub here: Carried,
}

/// Whether frames that a VDP on its way holds go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// They wait for those before them.
    Shut,
    /// They go on, oldest first; new ones stand behind them.
    Open,
}

/// Ports of a VDP that is away, in pairs: what comes in by one leaves by the other.
#[derive(Debug)]
pub(crate) struct Away {
    /// Its own port, and that towards the other data plane.
    pub pairs: Vec<(PortId, PortId)>,
    /// Its own number of each of these ports, by which one that comes anew is known.
    pub nos: Vec<PortNo>,
    /// Frames that passed far ports which have gone since, and were followed by others.
    pub gone: Handed,
    /// Where it was before.
    pub back: crate::vdp::Path,
    /// What it had counted when it left.
    pub left: Carried,
    /// While it is out: what its ways to the other data plane, and ports that it had before, had counted when it left.
    pub out: Option<VdpPortCounters>,
    /// Frames at the far ports when it left: sent there, come from there.
    pub begun: Handed,
    /// How many must have come back for those that were handed on to be all back.
    pub expected: Option<u64>,
    /// What this data plane had counted for it when it was back.
    pub back_with: Option<Back>,
    /// Whether held frames go on.
    pub gate: Gate,
    /// What became of it.
    pub told: AwayView,
}

/// A VDP that is back.
#[derive(Clone, Debug)]
pub(crate) struct Back {
    /// What this data plane had counted.
    pub here: Carried,
    /// The same with what it had counted elsewhere before it left, and without what was but handed on and back.
    pub home: Carried,
}

impl Back {
    /// What it has counted at all, by what it had when it `left`, and what the other data plane has `given` back, which has counted on from
    /// there. What has come in and gone out has done so here; what was lost was lost at either.
    pub fn with(&self, left: &Carried, mut given: Carried) -> Carried {
        let (c, h, l) = (&mut given.counters, &self.home.counters, &left.counters);
        (c.received, c.forwarded) = (h.received, h.forwarded);
        for why in DropReason::ALL.iter().copied() {
            c.dropped.add_n(why, h.dropped.get(why).saturating_sub(l.dropped.get(why)));
        }
        for (no, c) in &mut given.ports {
            let of = |c: &Carried| c.ports.iter().find(|(n, _)| n == no).map(|(_, c)| *c);
            let (Some(h), l) = (of(&self.home), of(left).unwrap_or_default()) else { continue };
            // One that went and came back has begun anew.
            if h.rx.frames < l.rx.frames || h.tx.frames < l.tx.frames {
                continue;
            }
            (c.rx, c.tx) = (h.rx, h.tx);
            c.rx_dropped = on(c.rx_dropped, h.rx_dropped, l.rx_dropped);
            c.tx_dropped = on(c.tx_dropped, h.tx_dropped, l.tx_dropped);
        }
        given
    }
}

/// Frames handed on to another data plane, and back from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handed {
    /// Left by the ports towards it.
    pub sent: u64,
    /// Came by these ports.
    pub came: u64,
    /// Wait at the ports: not sent yet.
    pub waiting: u64,
}

/// How a VDP's way to another data plane, or back, went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AwayView {
    /// Frames that were held during the last of both.
    pub held: u64,
    /// How long the first of them waited, in nanoseconds.
    pub hold_ns: u64,
    /// Attempts that were given up: it is where it was.
    pub given_up: u64,
}

impl Away {
    /// Where a frame that came in by a port goes on.
    pub fn partner(&self, port: PortId) -> Option<PortId> {
        self.pairs.iter().find_map(|(near, far)| match port {
            p if p == *near => Some(*far),
            p if p == *far => Some(*near),
            _ => None,
        })
    }
    /// Goes on with its own ports as they are now: one that came anew has another number of the data plane's.
    pub fn follow_ports(&mut self, ports: &[(PortNo, PortId)]) {
        for ((near, _), no) in self.pairs.iter_mut().zip(&self.nos) {
            if let Some((_, id)) = ports.iter().find(|(n, _)| n == no) {
                *near = *id;
            }
        }
    }
}

/// `given + now - here`, since `now` goes on from `here`.
fn on(given: u64, now: u64, here: u64) -> u64 {
    given.saturating_add(now.saturating_sub(here))
}

fn tally(given: Tally, now: Tally, here: Tally) -> Tally {
    Tally {
        frames: on(given.frames, now.frames, here.frames),
        bytes: on(given.bytes, now.bytes, here.bytes),
    }
}

impl Brought {
    /// What a VDP has counted, from what this data plane has.
    pub fn counters(&self, now: &VdpCounters) -> VdpCounters {
        let (g, h) = (&self.given.counters, &self.here.counters);
        let mut dropped = DropCounts::default();
        for why in DropReason::ALL.iter().copied() {
            let n = |c: &VdpCounters| c.dropped.get(why);
            dropped.add_n(why, on(n(g), n(now), n(h)));
        }
        VdpCounters {
            received: tally(g.received, now.received, h.received),
            forwarded: tally(g.forwarded, now.forwarded, h.forwarded),
            generated: on(g.generated, now.generated, h.generated),
            cloned: on(g.cloned, now.cloned, h.cloned),
            consumed: on(g.consumed, now.consumed, h.consumed),
            slow: on(g.slow, now.slow, h.slow),
            dropped,
        }
    }
    /// What happened at a port of a VDP, from what this data plane has.
    pub fn port(&self, no: PortNo, now: VdpPortCounters) -> VdpPortCounters {
        let of = |c: &Carried| {
            c.ports.iter().find(|(n, _)| *n == no).map(|(_, c)| *c).unwrap_or_default()
        };
        let (g, h) = (of(&self.given), of(&self.here));
        VdpPortCounters {
            rx: tally(g.rx, now.rx, h.rx),
            tx: tally(g.tx, now.tx, h.tx),
            rx_dropped: on(g.rx_dropped, now.rx_dropped, h.rx_dropped),
            tx_dropped: on(g.tx_dropped, now.tx_dropped, h.tx_dropped),
        }
    }
    /// What happened in a VDP's tables, from what this data plane has.
    pub fn tables(&self, now: Vec<TableCounters>) -> Vec<TableCounters> {
        let of = |c: &Carried, n: u8| {
            c.tables.iter().find(|t| t.table == n).copied().unwrap_or_default()
        };
        let one = |t: TableCounters| {
            let (g, h) = (of(&self.given, t.table), of(&self.here, t.table));
            TableCounters {
                lookups: on(g.lookups, t.lookups, h.lookups),
                matched: on(g.matched, t.matched, h.matched),
                ..t
            }
        };
        let mut all: Vec<TableCounters> = now.into_iter().map(one).collect();
        // Tables that frames came to there, and that no rule has made here yet.
        let there = self.given.tables.iter().filter(|t| !all.iter().any(|n| n.table == t.table));
        let more: Vec<TableCounters> = there.map(|t| TableCounters { active: 0, ..*t }).collect();
        all.extend(more);
        all.sort_by_key(|t| t.table);
        all
    }
}
