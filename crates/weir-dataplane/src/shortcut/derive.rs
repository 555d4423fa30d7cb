//! What the data plane would do with every frame that comes in by one port, where that is no more than
//! a port, or a destination, leading to a port.
//!
//! Room: `shortcut`. Pure: mapping and rules in, [`Ways`] out. What can't be said so is left out, and is
//! then done by the data plane: leaving out is always right. Its judge is the data plane itself.

use crate::compile::bits;
use crate::mapping::Mapping;
use crate::vdp::{Path, Phase, Vdp};
use std::collections::BTreeMap;
use thiserror::Error;
use weir_classify::{Field, Match};
use weir_packet::{Mac, PortId, WAYS, Way, Ways};

/// Rules beyond which none are looked at: they are looked at between two bursts.
const RULES: usize = 16 * WAYS;

/// Why a port's frames, or some of them, do not take a way of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WhyNot {
    /// A capture wants to see frames.
    #[error("a capture is running")]
    Tapped,
    /// Something looks at fields of a VDP's own.
    #[error("mapping rules look at fields of a VDP's own")]
    OwnFields,
    /// Nothing leads from the port to a VDP by the port or a destination alone.
    #[error("no mapping rule takes its frames by the port or the destination address alone")]
    Mapping,
    /// More than can be told apart.
    #[error("more than {WAYS} addresses, or more rules than are looked at for it")]
    TooMany,
    /// The VDP is on the slow path, on its way from or to it, or has rules there.
    #[error("the VDP is not wholly on the fast path")]
    NotFast,
    /// The VDP asks something of a port or of fragments.
    #[error("the VDP has port settings or drops fragments")]
    PortSettings,
    /// The VDP has a part of the worker's cycles.
    #[error("the VDP has a CPU share")]
    CpuShare,
    /// No rule forwards by the port or the destination alone.
    #[error(
        "no rule sends its frames, by the port or the destination address alone, to one other port with no more than new MAC addresses"
    )]
    Rules,
    /// The other port is down, or does not offer it.
    #[error("the port that frames leave by is down, is not a veth, or is not opened with shortcut")]
    Exit,
    /// The other port's bandwidth is divided.
    #[error("the port that frames leave by has bandwidth limits, weights or queues")]
    Shares,
}

/// What a match asks of frames that come in by one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    /// Nothing more.
    Nothing,
    /// This destination.
    Dst(Mac),
    /// Another port.
    AnotherPort,
    /// Something else.
    More,
}

fn asks(m: &Match, in_port: u32) -> Asks {
    let mut more = *m.mask();
    let port = more.get(Field::InPort);
    if (u128::from(in_port) ^ m.value().get(Field::InPort)) & port != 0 {
        return Asks::AnotherPort;
    }
    let dst = more.get(Field::EthDst);
    more.set(Field::InPort, 0);
    more.set(Field::EthDst, 0);
    if !more.is_empty() || (dst != 0 && dst != Field::EthDst.full()) {
        return Asks::More;
    }
    if dst == 0 {
        return Asks::Nothing;
    }
    let [.., a, b, c, d, e, f] = m.value().get(Field::EthDst).to_be_bytes();
    Asks::Dst([a, b, c, d, e, f])
}

/// What rules decide by destination, and for all others if that is so.
#[derive(Debug)]
struct Decided<T> {
    by_mac: BTreeMap<Mac, T>,
    rest: Option<T>,
}

impl<T: Copy> Decided<T> {
    /// Of rules with their priorities, from the highest down to where one asks for more, or where two
    /// of one priority meet.
    fn of(mut rules: Vec<(Asks, u32, T)>) -> Self {
        rules.sort_by_key(|(_, priority, _)| std::cmp::Reverse(*priority));
        let mut this = Self { by_mac: BTreeMap::new(), rest: None };
        for group in rules.chunk_by(|a, b| a.1 == b.1) {
            let simple = match group {
                [(Asks::Nothing, _, to)] => {
                    this.rest = Some(*to);
                    break;
                }
                _ => group.iter().all(|r| matches!(r.0, Asks::Dst(_))),
            };
            let mut macs: Vec<Asks> = group.iter().map(|r| r.0).collect();
            macs.sort_unstable_by_key(|a| if let Asks::Dst(m) = a { *m } else { [0; 6] });
            if !simple || macs.windows(2).any(|w| w[0] == w[1]) {
                break;
            }
            for (asks, _, to) in group {
                if let Asks::Dst(mac) = asks {
                    this.by_mac.entry(*mac).or_insert(*to);
                }
            }
        }
        this
    }
    fn of_mac(&self, mac: &Mac) -> Option<T> {
        self.by_mac.get(mac).copied().or(self.rest)
    }
}

/// Whose frames are counted under a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Whose {
    pub vid: crate::action::Vid,
    /// The rule's slot in the VDP's table 0.
    pub slot: u32,
    /// Where they leave.
    pub out: PortId,
}

/// Ways for one port, and whose frames go them: by the ways' numbers.
#[derive(Clone, Debug)]
pub(crate) struct Derived {
    pub ways: Ways,
    pub whose: Vec<Whose>,
    /// Why not more of them.
    pub why_not: Option<WhyNot>,
}

/// What a port can be left by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit {
    pub number: u32,
    pub max_frame_bytes: usize,
}

/// Ports as ways see them.
pub(crate) trait Exits {
    /// How to leave by a port.
    ///
    /// # Errors
    /// Why frames can't leave so.
    fn exit(&self, id: PortId) -> Result<Exit, WhyNot>;
}

struct Deriving<'a> {
    port: PortId,
    vdps: &'a [Option<Box<Vdp>>],
    exits: &'a dyn Exits,
    whose: Vec<Whose>,
    why_not: Option<WhyNot>,
}

/// Ways for frames that come in by `port`.
pub(crate) fn derive(
    port: PortId,
    mapping: &Mapping,
    vdps: &[Option<Box<Vdp>>],
    exits: &dyn Exits,
) -> Result<Derived, WhyNot> {
    if mapping.has_own_fields() {
        return Err(WhyNot::OwnFields);
    }
    if mapping.len() > RULES {
        return Err(WhyNot::TooMany);
    }
    let mut rules = Vec::new();
    mapping.for_each(&mut |m, priority, vid| match asks(m, port.0.into()) {
        Asks::AnotherPort => {}
        asks => rules.push((asks, priority, vid)),
    });
    let mapped = Decided::of(rules);
    let mut d = Deriving { port, vdps, exits, whose: Vec::new(), why_not: None };
    let mut tables = BTreeMap::new();
    for vid in mapped.by_mac.values().chain(&mapped.rest) {
        if !tables.contains_key(vid)
            && let Some(table) = d.table(usize::from(vid.0))
        {
            tables.insert(*vid, table);
        }
    }
    let mut ways = Ways::default();
    let way_of = |d: &mut Deriving<'_>, vid, mac: Option<&Mac>| {
        let table: &Decided<u32> = tables.get(&vid)?;
        let slot = mac.map_or(table.rest, |m| table.of_mac(m))?;
        d.way(vid, slot)
    };
    for (mac, vid) in &mapped.by_mac {
        ways.by_mac.push((*mac, way_of(&mut d, *vid, Some(mac))));
    }
    if let Some(vid) = mapped.rest {
        let own = tables.get(&vid).into_iter().flat_map(|t| t.by_mac.keys());
        for mac in own.filter(|m| !mapped.by_mac.contains_key(*m)) {
            ways.by_mac.push((*mac, way_of(&mut d, vid, Some(mac))));
        }
        ways.rest = way_of(&mut d, vid, None);
    }
    if ways.rest.is_none() {
        // What is not known is handed over anyway.
        ways.by_mac.retain(|(_, w)| w.is_some());
    }
    let Deriving { whose, why_not, .. } = d;
    if ways.by_mac.len() > WAYS || whose.len() > WAYS {
        return Err(WhyNot::TooMany);
    }
    if whose.is_empty() {
        let mapped = !mapped.by_mac.is_empty() || mapped.rest.is_some();
        return Err(why_not.unwrap_or(if mapped { WhyNot::Rules } else { WhyNot::Mapping }));
    }
    Ok(Derived { ways, whose, why_not })
}

impl Deriving<'_> {
    fn not(&mut self, why: WhyNot) {
        self.why_not.get_or_insert(why);
    }
    /// What the rules of a VDP decide, by their slots.
    fn table(&mut self, vid: usize) -> Option<Decided<u32>> {
        let v = self.vdps.get(vid)?.as_deref()?;
        if let Some(why) = standing(v) {
            self.not(why);
            return None;
        }
        let t = v.fast.tables.first();
        if t.len() > RULES {
            self.not(WhyNot::TooMany);
            return None;
        }
        let no = v.edge.at(self.port).no;
        let mut rules = Vec::new();
        t.for_each(&mut |r| match asks(&r.matcher, no) {
            Asks::AnotherPort => {}
            asks => rules.push((asks, r.priority, r.id.0)),
        });
        Some(Decided::of(rules))
    }
    /// The way of a rule's frames.
    fn way(&mut self, vid: crate::action::Vid, slot: u32) -> Option<Way> {
        let v = self.vdps.get(usize::from(vid.0))?.as_deref()?;
        let r = &v.fast.tables.first().entry(slot)?.result;
        let all = bits::PROGRAM | bits::DROP | bits::FORWARD | bits::TTL;
        if r.bits & all != bits::FORWARD || r.port == self.port {
            self.not(WhyNot::Rules);
            return None;
        }
        let exit = self.exits.exit(r.port).map_err(|why| self.not(why)).ok()?;
        let whose = Whose { vid, slot, out: r.port };
        let counter = self.whose.iter().position(|w| *w == whose).unwrap_or_else(|| {
            self.whose.push(whose);
            self.whose.len() - 1
        });
        let (dst, src) = r.macs.split_at(6);
        let when = |bit: u8, mac: &[u8]| {
            (r.bits & (bits::CHANGE_MAC | bit) != 0).then(|| mac.try_into().ok()).flatten()
        };
        Some(Way {
            exit: exit.number,
            max_frame_bytes: exit.max_frame_bytes as u32,
            eth_dst: when(bits::DST_ONLY, dst),
            eth_src: when(bits::SRC_ONLY, src),
            counter: counter as u32,
        })
    }
}

/// What about a VDP stands against it, if anything.
fn standing(v: &Vdp) -> Option<WhyNot> {
    if v.phase != Phase::On(Path::Fast) || !v.slow_only.is_empty() {
        Some(WhyNot::NotFast)
    } else if v.edge.configured() {
        Some(WhyNot::PortSettings)
    } else if v.cpu.guarantee_permille > 0 {
        Some(WhyNot::CpuShare)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Mac = [0, 0, 0, 0, 0, 1];
    const B: Mac = [0, 0, 0, 0, 0, 2];

    #[test]
    fn a_match_asks_for_a_destination_or_for_more() {
        let on = |p: u128| Match::any().with(Field::InPort, p);
        assert_eq!(asks(&Match::any(), 3), Asks::Nothing);
        assert_eq!(asks(&on(3), 3), Asks::Nothing);
        assert_eq!(asks(&on(4), 3), Asks::AnotherPort);
        assert_eq!(asks(&on(3).with(Field::EthDst, 1), 3), Asks::Dst(A));
        // Of another port whatever else it asks.
        assert_eq!(asks(&on(4).with(Field::EthSrc, 1), 3), Asks::AnotherPort);
        assert_eq!(asks(&on(3).with(Field::EthSrc, 1), 3), Asks::More);
        assert_eq!(asks(&Match::any().with_masked(Field::EthDst, 1, 1), 3), Asks::More);
    }

    #[test]
    fn what_stands_above_decides_and_what_is_unclear_ends_it() {
        let d = Decided::of(vec![
            (Asks::Dst(A), 9, 1),
            (Asks::Dst(A), 8, 2),
            (Asks::Nothing, 7, 3),
            (Asks::Dst(B), 6, 4),
        ]);
        assert_eq!([d.of_mac(&A), d.of_mac(&B), d.rest], [Some(1), Some(3), Some(3)]);
        let d = Decided::of(vec![(Asks::Dst(A), 9, 1), (Asks::More, 8, 2), (Asks::Nothing, 7, 3)]);
        assert_eq!([d.of_mac(&A), d.of_mac(&B), d.rest], [Some(1), None, None]);
        // Which of two equals came first is not known here.
        for other in [Asks::Nothing, Asks::Dst(A), Asks::More] {
            let d = Decided::of(vec![(Asks::Dst(A), 9, 1), (other, 9, 2)]);
            assert_eq!([d.of_mac(&A), d.rest], [None, None]);
        }
    }
}
