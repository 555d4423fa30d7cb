//! What each kind of counter told, beside what was really sent.
//!
//! Pure. The module enters readings with the truth of their moment; verdicts and tables come from here.

use std::collections::BTreeMap;
use weir_openflow::model::{Port, StatsReply};

/// A kind of counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// Of the flow with this number, from 0.
    Flow(u16),
    /// Frames received by the first port.
    PortIn,
    /// Frames sent by the second.
    PortOut,
    /// Frames that matched in the first table.
    Table,
    /// Frames sent by all queues of the second port.
    Queue,
    Group,
    Meter,
}

/// Kinds as they are told, all flows as one.
pub(super) const KINDS: [(&str, What); 7] = [
    ("flows", What::Flow(0)),
    ("port, received", What::PortIn),
    ("port, sent", What::PortOut),
    ("table, matched", What::Table),
    ("queues, sent", What::Queue),
    ("group", What::Group),
    ("meter", What::Meter),
];

impl What {
    /// Of an entry that the module has just made in an emptied table: it counts from 0. Others were there before.
    pub(super) fn is_new(self) -> bool {
        matches!(self, Self::Flow(_) | Self::Group | Self::Meter)
    }
}

/// Packets and bytes; sums of what a switch may tell, however much that is.
pub(super) type Pair = (u128, u128);

/// Bytes that the switch does not keep, or not of all that is summed up.
pub(super) const NOT_KEPT: u128 = u128::MAX;

/// What one round of requests told.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    pub(super) told: BTreeMap<What, Pair>,
}

/// Where to look in replies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) first: Port,
    pub(super) second: Port,
    pub(super) group: u32,
    pub(super) meter: u32,
    /// Flows that are ours have cookies from 1 to this.
    pub(super) flows: u16,
}

impl Reading {
    fn add(&mut self, what: What, (packets, bytes): (u64, u64)) {
        // All ones: the switch does not keep it.
        if packets == u64::MAX {
            return;
        }
        let sum = self.told.entry(what).or_default();
        sum.0 += u128::from(packets);
        sum.1 = match bytes {
            u64::MAX => NOT_KEPT,
            bytes => sum.1.saturating_add(u128::from(bytes)),
        };
    }

    /// Takes a reply, or a part of one.
    pub(super) fn take(&mut self, reply: &StatsReply, at: &Places) {
        match reply {
            StatsReply::Flow(flows) => {
                for f in flows.iter().filter(|f| (1..=u64::from(at.flows)).contains(&f.cookie)) {
                    self.add(What::Flow((f.cookie - 1) as u16), (f.packets, f.bytes));
                }
            }
            StatsReply::Port(ports) => {
                for p in ports {
                    if p.port == at.first {
                        self.add(What::PortIn, (p.rx_packets, p.rx_bytes));
                    }
                    if p.port == at.second {
                        self.add(What::PortOut, (p.tx_packets, p.tx_bytes));
                    }
                }
            }
            StatsReply::Table(tables) => {
                for t in tables.iter().filter(|t| t.table == 0) {
                    self.add(What::Table, (t.matched, 0));
                }
            }
            StatsReply::Queue(queues) => {
                for q in queues.iter().filter(|q| q.port == at.second) {
                    self.add(What::Queue, (q.tx_packets, q.tx_bytes));
                }
            }
            StatsReply::Group(groups) => {
                for g in groups.iter().filter(|g| g.group == at.group) {
                    self.add(What::Group, (g.packets, g.bytes));
                }
            }
            StatsReply::Meter(meters) => {
                for m in meters.iter().filter(|m| m.meter == at.meter) {
                    self.add(What::Meter, (m.packets, m.bytes));
                }
            }
            _ => {}
        }
    }

    /// Packets of a kind, all flows together; `None`: it was not told.
    pub(super) fn packets(&self, kind: What) -> Option<u128> {
        self.of(kind).map(|(_, p)| p.0).reduce(|sum, packets| sum + packets)
    }

    /// The counters of a kind: each flow's, or the one that there is.
    pub(super) fn of(&self, kind: What) -> impl Iterator<Item = (What, Pair)> + '_ {
        let range = match kind {
            What::Flow(_) => What::Flow(0)..=What::Flow(u16::MAX),
            other => other..=other,
        };
        self.told.range(range).map(|(what, pair)| (*what, *pair))
    }

    /// Whether any counter of a kind tells of fewer packets than an earlier reading.
    pub(super) fn has_fallen(&self, kind: What, earlier: &Self) -> bool {
        self.of(kind).any(|(what, now)| earlier.told.get(&what).is_some_and(|then| now.0 < then.0))
    }
}

/// The truth of one counter: at least and at most so many frames, and bytes of each without check sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Truth {
    pub(super) least: u64,
    pub(super) most: u64,
    pub(super) bytes_each: u64,
}

impl Truth {
    /// With room for a stranger's frames: ports hear of more than is asked of them.
    pub(super) fn with_strangers(self) -> Self {
        let some = 10 + self.most / 1000;
        Self { least: self.least.saturating_sub(some), most: self.most + some, ..self }
    }

    pub(super) fn has_packets(&self, packets: u128) -> bool {
        (u128::from(self.least)..=u128::from(self.most)).contains(&packets)
    }

    /// With or without check sequence, both are done; a stranger's frames have other sizes.
    pub(super) fn has_bytes(&self, (packets, bytes): Pair) -> bool {
        let strangers = u128::from(self.most - self.least);
        bytes == NOT_KEPT
            || [self.bytes_each, self.bytes_each + 4].iter().any(|each| {
                let want = packets.saturating_mul(u128::from(*each));
                want.abs_diff(bytes) <= strangers.saturating_mul(1600)
                    && (strangers > 0 || want == bytes)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_openflow::model::{FlowFlags, FlowStats, Match, PortStats, TableStats};

    #[test]
    fn replies_are_read_where_they_are_ours() {
        let at = Places { first: Port(1), second: Port(2), group: 7, meter: 7, flows: 2 };
        let mut r = Reading::default();
        let port = |n, rx, tx| PortStats {
            port: Port(n),
            rx_packets: rx,
            tx_packets: tx,
            ..PortStats::default()
        };
        r.take(&StatsReply::Port(vec![port(1, 5, 6), port(2, 7, 8), port(3, 9, 9)]), &at);
        assert_eq!((r.packets(What::PortIn), r.packets(What::PortOut)), (Some(5), Some(8)));
        r.take(&StatsReply::Port(vec![port(1, u64::MAX, 0)]), &at);
        assert_eq!(r.packets(What::PortIn), Some(5), "not kept");
        let table = |table, matched| TableStats {
            table,
            name: String::new(),
            max_entries: 0,
            active: 0,
            lookups: 0,
            matched,
        };
        r.take(&StatsReply::Table(vec![table(0, 3), table(1, 4)]), &at);
        assert_eq!((r.packets(What::Table), r.packets(What::Group)), (Some(3), None));
    }

    #[test]
    fn counters_of_any_size_are_summed_and_compared_one_by_one() {
        let at = Places { first: Port(1), second: Port(2), group: 7, meter: 7, flows: 3 };
        let reading = |packets: &[u64]| {
            let mut r = Reading::default();
            let flow = |(n, packets): (usize, &u64)| FlowStats {
                table: 0,
                duration_sec: 0,
                duration_nsec: 0,
                priority: 1000,
                idle_timeout: 0,
                hard_timeout: 0,
                flags: FlowFlags(0),
                cookie: n as u64 + 1,
                packets: *packets,
                bytes: 0,
                matcher: Match::default(),
                instructions: Vec::new(),
            };
            r.take(&StatsReply::Flow(packets.iter().enumerate().map(flow).collect()), &at);
            r
        };
        let (kind, huge) = (What::Flow(0), u64::MAX - 5);
        let before = reading(&[huge, huge, 3]);
        assert_eq!(before.packets(kind), Some(2 * u128::from(huge) + 3));
        assert!(!reading(&[huge + 1, huge, 3]).has_fallen(kind, &before));
        assert!(reading(&[huge + 1, 0, 3]).has_fallen(kind, &before), "one of them wrapped");
        assert!(reading(&[huge + 4, huge, 2]).has_fallen(kind, &before), "though the sum grew");
    }

    #[test]
    fn truth_is_exact_but_for_strangers() {
        let t = Truth { least: 100, most: 100, bytes_each: 96 };
        assert!(t.has_packets(100) && !t.has_packets(99) && !t.has_packets(101));
        assert!(t.has_bytes((100, 9_600)) && t.has_bytes((100, 10_000)));
        assert!(!t.has_bytes((100, 9_601)));
        let t = t.with_strangers();
        assert!(t.has_packets(110) && !t.has_packets(111) && t.has_bytes((101, 9_700)));
        assert!(!t.has_bytes((100, 90_000)));
        // That they are not kept is no fault.
        assert!(t.has_bytes((100, NOT_KEPT)));
    }
}
