//! A VDP's ports as its frames meet them: its number for each, what may pass there, and what did.
//!
//! Room: part of a `Vdp`, so of one worker. A frame looks its ingress port up once, which gives the
//! VDP's number for it, what the port's configuration says, and where to count. A VDP that has
//! configured nothing pays for one comparison.

use crate::action::PortNo;
use crate::counters::Tally;
use weir_classify::simd::prefetch_read;
use weir_classify::{FRAG_ANY, Field, FlowKey};
use weir_packet::{DropReason, PortId};

/// Stands for `OFPP_LOCAL` as an ingress port: no port of a data plane has this number.
pub(crate) const LOCAL: PortId = PortId(u16::MAX - 1);
/// Stands for `OFPP_CONTROLLER` as an ingress port: no port of a data plane has this number.
pub(crate) const CONTROLLER: PortId = PortId(u16::MAX);

/// Stands for no ingress port: port 0 is never given out.
pub(crate) const NOWHERE: PortId = PortId(0);

/// The VDP's number for an ingress port that is none of its ports (OpenFlow 1.3, §A.2.1).
pub(crate) fn reserved_no(id: PortId) -> PortNo {
    match id {
        LOCAL => PortNo(0xffff_fffe),
        CONTROLLER => PortNo(0xffff_fffd),
        NOWHERE => PortNo(0xffff_ffff),
        _ => PortNo(0),
    }
}

/// Where 802.1D's bridges send their frames.
const BRIDGES: u128 = 0x0180_c200_0000;

/// What a VDP asks of one of its ports (OpenFlow 1.3, §A.2.1, `ofp_port_config`). It holds for that
/// VDP alone: another VDP on the same port goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortFlags(u8);

impl PortFlags {
    /// Nothing special.
    pub const NONE: Self = Self(0);
    /// Administratively down: nothing in, nothing out, not live.
    pub const DOWN: Self = Self(1);
    /// Drop what is received, but for 802.1D's frames.
    pub const NO_RECV: Self = Self(2);
    /// Drop what would be sent.
    pub const NO_FWD: Self = Self(4);
    /// Not part of flooding.
    pub const NO_FLOOD: Self = Self(8);
    /// A table miss of a frame received here sends no packet-in.
    pub const NO_PACKET_IN: Self = Self(16);
    /// Drop received 802.1D frames (1.0.1, §5.2.1); 1.3 has one flag for all frames.
    pub const NO_RECV_STP: Self = Self(32);

    /// Whether any of these is set.
    #[inline]
    pub const fn any_of(self, of: Self) -> bool {
        self.0 & of.0 != 0
    }
    /// With these set, too.
    #[must_use]
    pub const fn with(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }
    /// Whether frames can leave by the port, as far as its configuration goes.
    pub const fn may_send(self) -> bool {
        !self.any_of(Self::DOWN.with(Self::NO_FWD))
    }
    /// Whether all frames can come in by the port, as far as its configuration goes.
    fn may_receive(self) -> bool {
        !self.any_of(Self::DOWN.with(Self::NO_RECV).with(Self::NO_RECV_STP))
    }
    /// Why frames can't leave by the port, if they can't.
    pub(crate) fn why_not_out(self) -> Option<DropReason> {
        if self.any_of(Self::DOWN) {
            Some(DropReason::PortDown)
        } else if self.any_of(Self::NO_FWD) {
            Some(DropReason::PortConfig)
        } else {
            None
        }
    }
}

impl std::ops::BitOr for PortFlags {
    type Output = Self;
    fn bitor(self, o: Self) -> Self {
        self.with(o)
    }
}

/// Whether a VDP is joined to its ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Frames pass.
    #[default]
    Joined,
    /// Nothing comes in, nothing leaves.
    CutOff,
}

/// What becomes of fragments (OpenFlow 1.3, §A.3.2, `ofp_config_flags`). Reassembly is not offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fragments {
    /// Fragments meet the rules like other frames.
    #[default]
    Normal,
    /// Fragments are dropped.
    Drop,
}

/// Ports of a VDP that lie in place, so that their frames find all in the VDP's first lines of memory.
const NEAR: usize = 4;

/// Stands in a vacant place of the list of ids: no port of a data plane has this number.
const VACANT: PortId = PortId(u16::MAX - 2);

/// Stands for a port that a VDP has lost, in rules that were carried here with it: no port of a data plane has this number.
pub(crate) const GONE: PortId = PortId(u16::MAX - 3);

/// Ports of a data plane have smaller numbers.
pub(crate) const RESERVED: PortId = GONE;

/// Where to count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// With other ports that are not its own.
    #[default]
    Elsewhere,
    /// At one of the ports that lie in place.
    Near(u8),
    /// At one of the others.
    Far(u16),
}

/// A VDP at a port of the data plane.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct At {
    /// Its number for the port, 0 where it has none.
    pub no: u32,
    place: Place,
    /// What it asks of the port.
    pub flags: PortFlags,
}

/// What happened to a VDP's frames at one of its ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VdpPortCounters {
    /// Received here and mapped to the VDP.
    pub rx: Tally,
    /// Left here.
    pub tx: Tally,
    /// Received here and dropped before any rule was asked: the port's configuration, fragments.
    pub rx_dropped: u64,
    /// Dropped on the way out: the port's configuration, its link, full queues, too long.
    pub tx_dropped: u64,
}

impl VdpPortCounters {
    /// Adds another's.
    pub fn merge(&mut self, o: &Self) {
        self.rx.merge(o.rx);
        self.tx.merge(o.tx);
        self.rx_dropped += o.rx_dropped;
        self.tx_dropped += o.tx_dropped;
    }
    /// What was counted since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            rx: self.rx.less(before.rx),
            tx: self.tx.less(before.tx),
            rx_dropped: self.rx_dropped.saturating_sub(before.rx_dropped),
            tx_dropped: self.tx_dropped.saturating_sub(before.tx_dropped),
        }
    }
}

/// Something a frame must be held against.
const PORTS: u8 = 1;
const FRAGMENTS: u8 = 2;
/// Ports were taken away: rules may still name them.
const FORMER: u8 = 4;
/// A lookup is asked for before it is done.
const LOOKUPS: u8 = 8;
/// Nothing comes in and nothing leaves, whatever its ports say.
const ISOLATED: u8 = 16;
/// By some port frames can't leave.
const SHUT: u8 = 32;

/// Frames that passed a port.
#[derive(Clone, Copy, Debug, Default)]
struct Passed {
    rx: Tally,
    tx: Tally,
}

/// Frames that were dropped at a port.
#[derive(Clone, Copy, Debug, Default)]
struct Lost {
    rx: u64,
    tx: u64,
}

/// A VDP's ports. What every frame looks at fits, with the VDP's phase, one line of memory; what is
/// counted for every frame follows, two ports to a line.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Edge {
    ids: [PortId; NEAR],
    nos: [u32; NEAR],
    flags: [PortFlags; NEAR],
    guards: u8,
    /// What passed at the ports that lie in place.
    passed: [Passed; NEAR],
    far: Box<Far>,
}

/// What few frames touch.
#[derive(Debug, Default)]
struct Far {
    /// What was dropped at the ports that lie in place.
    lost: [Lost; NEAR],
    elsewhere: VdpPortCounters,
    /// The other ports, by port of the data plane.
    at: Box<[At]>,
    places: Box<[VdpPortCounters]>,
}

impl Default for Edge {
    fn default() -> Self {
        Self {
            ids: [VACANT; NEAR],
            nos: [0; NEAR],
            flags: [PortFlags::NONE; NEAR],
            guards: 0,
            passed: [Passed::default(); NEAR],
            far: Box::default(),
        }
    }
}

impl Edge {
    /// Where what is counted for every frame begins.
    pub const COUNTED: usize = std::mem::offset_of!(Edge, passed);

    /// Asks for what is counted at the first ports.
    #[inline(always)]
    pub fn prefetch(&self) {
        prefetch_read(&self.passed);
    }
    /// The VDP at a port.
    #[inline(always)]
    pub fn at(&self, id: PortId) -> At {
        match self.near(id) {
            Some(i) => At { no: self.nos[i], place: Place::Near(i as u8), flags: self.flags[i] },
            None => self.far_at(id),
        }
    }
    #[inline(always)]
    fn near(&self, id: PortId) -> Option<usize> {
        self.ids.iter().position(|at| *at == id)
    }
    fn far_at(&self, id: PortId) -> At {
        match self.far.at.get(usize::from(id.0)) {
            Some(a) if a.place != Place::Elsewhere => *a,
            _ => At { no: reserved_no(id).0, ..At::default() },
        }
    }
    fn far_mut(&mut self, place: Place) -> &mut VdpPortCounters {
        let far = &mut *self.far;
        match place {
            Place::Far(i) => far.places.get_mut(usize::from(i)).unwrap_or(&mut far.elsewhere),
            Place::Near(_) | Place::Elsewhere => &mut far.elsewhere,
        }
    }
    /// What passed at a place.
    #[inline(always)]
    fn passed_mut(&mut self, place: Place) -> (&mut Tally, &mut Tally) {
        if let Place::Near(i) = place
            && usize::from(i) < NEAR
        {
            let p = &mut self.passed[usize::from(i)];
            return (&mut p.rx, &mut p.tx);
        }
        let p = self.far_mut(place);
        (&mut p.rx, &mut p.tx)
    }
    /// What was dropped at a place.
    fn lost_mut(&mut self, place: Place) -> (&mut u64, &mut u64) {
        if let Place::Near(i) = place
            && usize::from(i) < NEAR
        {
            let l = &mut self.far.lost[usize::from(i)];
            return (&mut l.rx, &mut l.tx);
        }
        let p = self.far_mut(place);
        (&mut p.rx_dropped, &mut p.tx_dropped)
    }
    /// Counts a frame that came in.
    #[inline(always)]
    pub fn received(&mut self, at: At, bytes: usize) {
        self.passed_mut(at.place).0.add(bytes);
    }
    /// Counts frames that came in.
    #[inline(always)]
    pub fn received_all(&mut self, at: At, what: Tally) {
        self.passed_mut(at.place).0.merge(what);
    }
    /// Counts frames that came in by a port.
    pub fn received_at(&mut self, id: PortId, what: Tally) {
        self.passed_mut(self.at(id).place).0.merge(what);
    }
    /// Counts frames that left.
    #[inline(always)]
    pub fn sent(&mut self, id: PortId, what: Tally) {
        match self.near(id) {
            Some(i) => self.passed[i].tx.merge(what),
            None => self.sent_far(id, what),
        }
    }
    fn sent_far(&mut self, id: PortId, what: Tally) {
        self.passed_mut(self.far_at(id).place).1.merge(what);
    }
    /// Counts a frame that was dropped on its way out.
    pub fn lost(&mut self, id: PortId) {
        *self.lost_mut(self.at(id).place).1 += 1;
    }
    /// Whether frames have to be held against anything.
    #[inline(always)]
    pub fn guarded(&self) -> bool {
        self.guards != 0
    }
    /// Whether its owner asked for anything that frames are held against.
    #[inline(always)]
    pub fn configured(&self) -> bool {
        self.guards & !LOOKUPS != 0
    }
    /// Whether whatever comes by a port may come in.
    #[inline(always)]
    pub fn lets_all_in(&self, id: PortId) -> bool {
        !self.configured() || self.guards & (FRAGMENTS | ISOLATED) == 0 && self.may_receive(id)
    }
    // Cold: out of the way of VDPs that have configured nothing.
    #[cold]
    fn may_receive(&self, id: PortId) -> bool {
        self.flags(id).may_receive()
    }
    /// Whether there are ports by which frames that came in can't leave.
    #[inline(always)]
    pub fn keeps_some_in(&self) -> bool {
        self.guards & (SHUT | FORMER) != 0
    }
    /// Whether frames that came in may leave by a port.
    #[inline(always)]
    pub fn lets_out(&self, id: PortId) -> bool {
        !self.keeps_some_in() || self.why_not_out(id).is_none()
    }
    /// Whether a frame's lookup is asked for before it is done (`cpu_share`).
    pub fn guard_lookups(&mut self, on: bool) {
        self.guard(LOOKUPS, on);
    }
    /// Why a frame may not come in, if it may not.
    pub fn why_not_in(&self, at: At, key: &FlowKey) -> Option<DropReason> {
        let no_recv = || match key.get(Field::EthDst) == BRIDGES {
            true => PortFlags::NO_RECV_STP,
            false => PortFlags::NO_RECV,
        };
        let fragment = || key.get(Field::IpFrag) & u128::from(FRAG_ANY) != 0;
        if self.is_isolated() {
            Some(DropReason::Isolated)
        } else if at.flags.any_of(PortFlags::DOWN) {
            Some(DropReason::PortDown)
        } else if at.flags.any_of(no_recv()) {
            Some(DropReason::PortConfig)
        } else if self.guards & FRAGMENTS != 0 && fragment() {
            Some(DropReason::Fragment)
        } else {
            None
        }
    }
    /// As [`Edge::why_not_in`], counted at the port.
    #[cold]
    pub fn refuse_in(&mut self, at: At, key: &FlowKey) -> Option<DropReason> {
        let why = self.why_not_in(at, key)?;
        *self.lost_mut(at.place).0 += 1;
        Some(why)
    }
    /// Why a frame may not leave by a port, if it may not.
    pub fn why_not_out(&self, id: PortId) -> Option<DropReason> {
        let at = self.at(id);
        if self.is_isolated() {
            Some(DropReason::Isolated)
        } else if at.place == Place::Elsewhere && self.guards & FORMER != 0 {
            Some(DropReason::NoSuchPort)
        } else {
            at.flags.why_not_out()
        }
    }
    /// As [`Edge::why_not_out`], counted at the port.
    #[cold]
    pub fn refuse_out(&mut self, id: PortId) -> Option<DropReason> {
        let why = self.why_not_out(id)?;
        self.lost(id);
        Some(why)
    }
    /// Holds frames against nothing but isolation until [`Edge::set_guards`]: they have come in before.
    pub fn take_guards(&mut self) -> u8 {
        let isolated = self.guards & ISOLATED;
        std::mem::replace(&mut self.guards, isolated)
    }
    /// Undoes [`Edge::take_guards`].
    pub fn set_guards(&mut self, guards: u8) {
        self.guards = guards;
    }
    /// What was received by a port so far.
    pub fn rx(&mut self, id: PortId) -> Tally {
        *self.passed_mut(self.at(id).place).0
    }
    /// Undoes what was received by a port since `rx`.
    pub fn set_rx(&mut self, id: PortId, rx: Tally) {
        *self.passed_mut(self.at(id).place).0 = rx;
    }
    /// What happened at a port.
    pub fn counters(&self, id: PortId) -> VdpPortCounters {
        match self.at(id).place {
            Place::Near(i) => self.near_counters(usize::from(i)),
            Place::Far(i) => self.far.places.get(usize::from(i)).copied().unwrap_or_default(),
            Place::Elsewhere => VdpPortCounters::default(),
        }
    }
    fn near_counters(&self, i: usize) -> VdpPortCounters {
        let (Some(p), Some(l)) = (self.passed.get(i), self.far.lost.get(i)) else {
            return VdpPortCounters::default();
        };
        VdpPortCounters { rx: p.rx, tx: p.tx, rx_dropped: l.rx, tx_dropped: l.tx }
    }
    /// What happened elsewhere: at ports that are not (or no longer) its own.
    pub fn elsewhere(&self) -> VdpPortCounters {
        self.far.elsewhere
    }
    /// Adds what happened at a port to another VDP.
    pub fn take_over(&mut self, id: PortId, of: &VdpPortCounters) {
        let place = self.at(id).place;
        let (rx, tx) = self.passed_mut(place);
        rx.merge(of.rx);
        tx.merge(of.tx);
        let (rx, tx) = self.lost_mut(place);
        *rx += of.rx_dropped;
        *tx += of.tx_dropped;
    }
    /// Adds what happened at ports that were not, or no longer, another VDP's.
    pub fn take_elsewhere(&mut self, of: &VdpPortCounters) {
        self.far.elsewhere.merge(of);
    }
    /// What happened at all.
    pub fn sum(&self) -> VdpPortCounters {
        let mut all = self.far.elsewhere;
        (0..NEAR).for_each(|i| all.merge(&self.near_counters(i)));
        self.far.places.iter().for_each(|p| all.merge(p));
        all
    }
    /// What it asks of a port.
    pub fn flags(&self, id: PortId) -> PortFlags {
        self.at(id).flags
    }
    /// Asks this of a port that it has.
    pub fn set_flags(&mut self, id: PortId, flags: PortFlags) {
        match self.at(id).place {
            Place::Near(i) => {
                self.flags.get_mut(usize::from(i)).into_iter().for_each(|f| *f = flags);
            }
            Place::Far(_) => {
                self.far.at.get_mut(usize::from(id.0)).into_iter().for_each(|a| a.flags = flags);
            }
            Place::Elsewhere => {}
        }
        self.guard_ports();
    }
    /// Says what becomes of fragments.
    pub fn set_fragments(&mut self, f: Fragments) {
        self.guard(FRAGMENTS, f == Fragments::Drop);
    }
    /// Cuts the VDP off from all of its ports, or joins it to them again.
    pub fn set_isolated(&mut self, isolated: bool) {
        self.guard(ISOLATED, isolated);
    }
    /// Whether it is cut off.
    pub fn is_isolated(&self) -> bool {
        self.guards & ISOLATED != 0
    }
    /// What becomes of fragments.
    pub fn fragments(&self) -> Fragments {
        if self.guards & FRAGMENTS == 0 { Fragments::Normal } else { Fragments::Drop }
    }
    /// Holds frames against ports that rules name and the VDP has not.
    pub fn names_former(&mut self) {
        self.guard(FORMER, true);
    }
    fn guard(&mut self, bit: u8, on: bool) {
        self.guards = if on { self.guards | bit } else { self.guards & !bit };
    }
    fn guard_ports(&mut self) {
        let asked = self.flags.iter().chain(self.far.at.iter().map(|a| &a.flags));
        let any = asked.clone().any(|f| *f != PortFlags::NONE);
        let shut = asked.clone().any(|f| !f.may_send());
        self.guard(PORTS, any);
        self.guard(SHUT, shut);
    }
    /// Gives it other ports. Those that stay keep what they have; what happened at others counts
    /// as elsewhere.
    pub fn set_ports(&mut self, ports: &[(PortNo, PortId)]) {
        let old = std::mem::take(self);
        let stays = |id: PortId| ports.iter().any(|(_, p)| *p == id);
        let mut next = Edge { guards: old.guards, ..Edge::default() };
        next.far.elsewhere = old.far.elsewhere;
        for id in old.ids().filter(|id| !stays(*id)) {
            next.guard(FORMER, true);
            next.far.elsewhere.merge(&old.counters(id));
        }
        let top = ports.iter().skip(NEAR).map(|(_, id)| usize::from(id.0) + 1).max().unwrap_or(0);
        let mut at = vec![At::default(); top];
        let mut places = Vec::new();
        for (i, (no, id)) in ports.iter().enumerate() {
            let (had, flags) = (old.counters(*id), old.flags(*id));
            if i < NEAR {
                (next.ids[i], next.nos[i], next.flags[i]) = (*id, no.0, flags);
                next.passed[i] = Passed { rx: had.rx, tx: had.tx };
                next.far.lost[i] = Lost { rx: had.rx_dropped, tx: had.tx_dropped };
            } else if let Some(a) = at.get_mut(usize::from(id.0)) {
                // A VDP has fewer ports than a data plane has numbers for them.
                *a = At { no: no.0, place: Place::Far(places.len() as u16), flags };
                places.push(had);
            }
        }
        (next.far.at, next.far.places) = (at.into(), places.into());
        *self = next;
        self.guard_ports();
    }
    /// Its ports.
    fn ids(&self) -> impl Iterator<Item = PortId> {
        let far = self.far.at.iter().enumerate().filter(|(_, a)| a.place != Place::Elsewhere);
        let near = self.ids.iter().copied().filter(|id| *id != VACANT);
        near.chain(far.map(|(id, _)| PortId(id as u16)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const ONE: Tally = Tally { frames: 1, bytes: 60 };

    proptest! {
        /// Whatever ports come and go, near or far, each keeps its number, flags and counters, and
        /// the sum loses nothing.
        #[test]
        fn ports_keep_what_is_theirs(
            steps in prop::collection::vec(
                (prop::collection::btree_set(1u16..40, 0..9), 1u16..40, 0u8..4), 1..12),
        ) {
            let mut edge = Edge::default();
            let mut model: BTreeMap<u16, (VdpPortCounters, PortFlags)> = BTreeMap::new();
            let mut all = VdpPortCounters::default();
            for (ids, at, asked) in steps {
                // Numbers of their own, and an order that is not that of the ids.
                let ports: Vec<_> =
                    ids.iter().rev().map(|id| (PortNo(u32::from(*id) + 100), PortId(*id))).collect();
                edge.set_ports(&ports);
                model.retain(|id, _| ids.contains(id));
                ids.iter().for_each(|id| _ = model.entry(*id).or_default());
                for id in (1..40).map(PortId) {
                    let at = edge.at(id);
                    edge.received(at, 60);
                    edge.sent(id, ONE);
                    edge.lost(id);
                    let one = VdpPortCounters { rx: ONE, tx: ONE, rx_dropped: 0, tx_dropped: 1 };
                    all.merge(&one);
                    if let Some((c, _)) = model.get_mut(&id.0) {
                        c.merge(&one);
                    }
                }
                let flags = PortFlags(asked);
                edge.set_flags(PortId(at), flags);
                if let Some((_, f)) = model.get_mut(&at) {
                    *f = flags;
                }
                for id in (1..40).map(PortId) {
                    let (counters, flags) = model.get(&id.0).copied().unwrap_or_default();
                    let no = if model.contains_key(&id.0) { u32::from(id.0) + 100 } else { 0 };
                    prop_assert_eq!(edge.at(id).no, no);
                    prop_assert_eq!((edge.counters(id), edge.flags(id)), (counters, flags));
                }
                prop_assert_eq!(edge.sum(), all);
                let any = model.values().any(|(_, f)| *f != PortFlags::NONE);
                prop_assert_eq!(edge.guards & PORTS != 0, any);
                let shut = model.values().any(|(_, f)| !f.may_send());
                prop_assert_eq!(edge.guards & SHUT != 0, shut);
                for id in (1..40).map(PortId) {
                    let all = edge.why_not_in(edge.at(id), &FlowKey::default()).is_none();
                    prop_assert_eq!(edge.lets_all_in(id), all);
                    prop_assert!(edge.keeps_some_in() || edge.why_not_out(id).is_none());
                }
            }
        }
    }
}
