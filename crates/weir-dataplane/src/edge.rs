//! A VDP's ports as its frames meet them: its number for each, what may pass there, and what did.
//!
//! Room: part of a `Vdp`, so of one worker. A frame looks its ingress port up once, which gives the
//! VDP's number for it, what the port's configuration says, and where to count. A VDP that has
//! configured nothing pays for one comparison.

use crate::action::PortNo;
use crate::counters::Tally;
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
        _ => PortNo(0),
    }
}

/// What a VDP asks of one of its ports (OpenFlow 1.3, §A.2.1, `ofp_port_config`). It holds for that
/// VDP alone: another VDP on the same port goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortFlags(u8);

impl PortFlags {
    /// Nothing special.
    pub const NONE: Self = Self(0);
    /// Administratively down: nothing in, nothing out, not live.
    pub const DOWN: Self = Self(1);
    /// Drop what is received.
    pub const NO_RECV: Self = Self(2);
    /// Drop what would be sent.
    pub const NO_FWD: Self = Self(4);
    /// Not part of flooding.
    pub const NO_FLOOD: Self = Self(8);
    /// A table miss of a frame received here sends no packet-in.
    pub const NO_PACKET_IN: Self = Self(16);

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

/// What becomes of fragments (OpenFlow 1.3, §A.3.2, `ofp_config_flags`). Reassembly is not offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fragments {
    /// Fragments meet the rules like other frames.
    #[default]
    Normal,
    /// Fragments are dropped.
    Drop,
}

/// A VDP at a port of the data plane.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct At {
    /// Its number for the port, 0 where it has none.
    pub no: u32,
    /// Where to count; 0: with other ports that are not its own.
    place: u16,
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
}

/// Something a frame must be held against.
const PORTS: u8 = 1;
const FRAGMENTS: u8 = 2;
/// Ports were taken away: rules may still name them.
const FORMER: u8 = 4;

/// A VDP's ports. What every frame touches fits, with the VDP's phase, one line of memory.
#[derive(Debug, Default)]
pub(crate) struct Edge {
    /// By port of the data plane.
    at: Box<[At]>,
    /// By `At::place`.
    places: Box<[VdpPortCounters]>,
    guards: u8,
}

impl Edge {
    /// The VDP at a port.
    #[inline(always)]
    pub fn at(&self, id: PortId) -> At {
        match self.at.get(usize::from(id.0)) {
            Some(a) => *a,
            None => strange(id),
        }
    }
    /// Counts a frame that came in.
    #[inline(always)]
    pub fn received(&mut self, at: At, bytes: usize) {
        if let Some(p) = self.places.get_mut(usize::from(at.place)) {
            p.rx.add(bytes);
        }
    }
    /// Counts frames that left.
    #[inline(always)]
    pub fn sent(&mut self, id: PortId, what: Tally) {
        let at = self.at(id);
        if let Some(p) = self.places.get_mut(usize::from(at.place)) {
            p.tx.merge(what);
        }
    }
    /// Counts a frame that was dropped on its way out.
    pub fn lost(&mut self, id: PortId) {
        let at = self.at(id);
        if let Some(p) = self.places.get_mut(usize::from(at.place)) {
            p.tx_dropped += 1;
        }
    }
    /// Whether frames have to be held against anything.
    #[inline(always)]
    pub fn guarded(&self) -> bool {
        self.guards != 0
    }
    /// Why a frame may not come in, if it may not.
    pub fn why_not_in(&self, at: At, key: &FlowKey) -> Option<DropReason> {
        let fragment = || key.get(Field::IpFrag) & u128::from(FRAG_ANY) != 0;
        if at.flags.any_of(PortFlags::DOWN) {
            Some(DropReason::PortDown)
        } else if at.flags.any_of(PortFlags::NO_RECV) {
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
        if let Some(p) = self.places.get_mut(usize::from(at.place)) {
            p.rx_dropped += 1;
        }
        Some(why)
    }
    /// Why a frame may not leave by a port, if it may not.
    pub fn why_not_out(&self, id: PortId) -> Option<DropReason> {
        let at = self.at(id);
        if at.place == 0 && self.guards & FORMER != 0 {
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
    /// Holds frames against nothing until [`Edge::set_guards`]: they have come in before.
    pub fn take_guards(&mut self) -> u8 {
        std::mem::take(&mut self.guards)
    }
    /// Undoes [`Edge::take_guards`].
    pub fn set_guards(&mut self, guards: u8) {
        self.guards = guards;
    }
    /// What was received by a port so far.
    pub fn rx(&self, id: PortId) -> Tally {
        self.places.get(usize::from(self.at(id).place)).map_or_else(Tally::default, |p| p.rx)
    }
    /// Undoes what was received by a port since `rx`.
    pub fn set_rx(&mut self, id: PortId, rx: Tally) {
        let at = self.at(id);
        if let Some(p) = self.places.get_mut(usize::from(at.place)) {
            p.rx = rx;
        }
    }
    /// What happened at a port.
    pub fn counters(&self, id: PortId) -> VdpPortCounters {
        match self.at(id).place {
            0 => VdpPortCounters::default(),
            n => self.places.get(usize::from(n)).copied().unwrap_or_default(),
        }
    }
    /// What happened elsewhere: at ports that are not (or no longer) its own.
    pub fn elsewhere(&self) -> VdpPortCounters {
        self.places.first().copied().unwrap_or_default()
    }
    /// What happened at all.
    pub fn sum(&self) -> VdpPortCounters {
        let mut all = VdpPortCounters::default();
        self.places.iter().for_each(|p| all.merge(p));
        all
    }
    /// What it asks of a port.
    pub fn flags(&self, id: PortId) -> PortFlags {
        self.at(id).flags
    }
    /// Asks this of a port that it has.
    pub fn set_flags(&mut self, id: PortId, flags: PortFlags) {
        if let Some(a) = self.at.get_mut(usize::from(id.0)).filter(|a| a.place != 0) {
            a.flags = flags;
        }
        let any = self.at.iter().any(|a| a.flags != PortFlags::NONE);
        self.guard(PORTS, any);
    }
    /// Says what becomes of fragments.
    pub fn set_fragments(&mut self, f: Fragments) {
        self.guard(FRAGMENTS, f == Fragments::Drop);
    }
    /// What becomes of fragments.
    pub fn fragments(&self) -> Fragments {
        if self.guards & FRAGMENTS == 0 { Fragments::Normal } else { Fragments::Drop }
    }
    fn guard(&mut self, bit: u8, on: bool) {
        self.guards = if on { self.guards | bit } else { self.guards & !bit };
    }
    /// Gives it other ports. Those that stay keep what they have; what happened at others counts
    /// as elsewhere.
    pub fn set_ports(&mut self, ports: &[(PortNo, PortId)]) {
        let top = ports.iter().map(|(_, id)| usize::from(id.0) + 1).max().unwrap_or(0);
        let mut at = vec![At::default(); top];
        let mut places = vec![VdpPortCounters::default()];
        let mut former = self.guards & FORMER != 0;
        for (id, old) in self.at.iter().enumerate().filter(|(_, a)| a.place != 0) {
            if !ports.iter().any(|(_, p)| usize::from(p.0) == id) {
                former = true;
                if let (Some(all), Some(p)) =
                    (places.first_mut(), self.places.get(usize::from(old.place)))
                {
                    all.merge(p);
                }
            }
        }
        if let Some(all) = places.first_mut() {
            all.merge(&self.elsewhere());
        }
        for (no, id) in ports {
            let flags = self.flags(*id);
            if let Some(a) = at.get_mut(usize::from(id.0)) {
                // A VDP has fewer ports than a data plane has numbers for them.
                *a = At { no: no.0, place: places.len() as u16, flags };
                places.push(self.counters(*id));
            }
        }
        (self.at, self.places) = (at.into(), places.into());
        let any = self.at.iter().any(|a| a.flags != PortFlags::NONE);
        self.guard(PORTS, any);
        self.guard(FORMER, former);
    }
}

#[cold]
fn strange(id: PortId) -> At {
    At { no: reserved_no(id).0, place: 0, flags: PortFlags::NONE }
}
