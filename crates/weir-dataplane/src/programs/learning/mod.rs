//! `learning`: a learning switch, what OpenFlow calls NORMAL. Knows its ports, the time and the
//! frames that the software stage hands it; no rules.
//!
//! Where IEEE 802.1Q leaves room or practice differs, it does as Open vSwitch's NORMAL does:
//! - Learns the source address of each frame in its VLAN; the outer tag's VLAN id, 0 without tag
//!   and for a priority tag. Every port carries every VLAN, and tags stay as they are.
//! - Frames to 01:80:c2:00:00:00 … 0f (IEEE 802.1D-2004 table 7-10: STP, pause, LACP, LLDP …) are
//!   neither forwarded nor learned from. (Open vSwitch also stops some vendors' addresses, as
//!   Cisco's 01:00:0c:cc:cc:cc; here those are groups like others.)
//! - A group address as source is not learned; the frame is forwarded.
//! - Unknown, group and broadcast destinations are flooded to every port that is up but the
//!   ingress port. There is no multicast snooping.
//! - A station whose port is the ingress port gets nothing: the frame is dropped.
//! - A station seen at another port has moved: the last sighting counts, and moves are counted.
//! - A static entry stays where it is, whatever is seen; ageing and eviction pass it by.
//! - A frame whose VLAN tag is cut short is dropped as malformed.
//! - The table holds 8192 entries and forgets after 300 s without a sighting, unless set otherwise;
//!   when it is full the port with most entries gives its oldest.
//!
//! Entries of a port that the VDP has lost are forgotten; those of a port that is down stay.
//! There is no spanning tree: loops between its ports are the configuration's affair.

mod entries;
mod slots;
mod table;

use crate::action::PortNo;
use crate::program::{Ahead, Program, ProgramCx, SlowFrame, of_kind};
use crate::programs::hash::fresh_seed;
use table::{Learned, Row, Station, Table};
use thiserror::Error;
use weir_packet::{DropReason, Frame, Nanos};
use weir_wire::{EtherType, MacAddr};

/// 01:80:c2:00:00:00 without its last four bits.
const RESERVED: u64 = 0x0180_c200_0000;
/// How often ageing and lost ports are looked at.
const SWEEP: Nanos = Nanos::from_millis(100);
/// Entries that a tick forgets: a whole table may age in one moment, and everybody's frames wait meanwhile.
const AT_ONCE: usize = 1024;

/// What can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearningConfig {
    /// How long an address is kept after it was last seen. At most a second of it may be missing.
    pub ageing: Nanos,
    /// The most entries, static ones included; at least 1.
    pub max_entries: usize,
}

impl Default for LearningConfig {
    fn default() -> Self {
        Self { ageing: Nanos::from_secs(300), max_entries: 8192 }
    }
}

/// A static entry that can't be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StaticEntryError {
    /// A group address is not a station.
    #[error("static entry {0}: a group address has no port; use a unicast address")]
    Group(MacAddr),
    /// VLAN id out of range.
    #[error("static entry: VLAN {0} is not in 0 … 4095")]
    Vlan(u16),
    /// Every entry is static already.
    #[error("the table is full of {0} static entries: raise max_entries or remove one")]
    Full(usize),
}

/// One learned or static address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LearnedStation {
    /// VLAN id, 0 for untagged.
    pub vlan: u16,
    /// Address.
    pub mac: MacAddr,
    /// Where it is.
    pub port: PortNo,
    /// Since when it has not been seen; `None` for a static entry.
    pub age: Option<Nanos>,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LearningCounters {
    /// Frames to a station whose port was known.
    pub known: u64,
    /// Frames flooded.
    pub flooded: u64,
    /// Frames to a reserved address.
    pub reserved: u64,
    /// Frames whose station is at the port they came from.
    pub same_port: u64,
    /// Addresses learned.
    pub learned: u64,
    /// Addresses seen at another port than before.
    pub moved: u64,
    /// Addresses that made room for others.
    pub evicted: u64,
    /// Addresses that aged out, or whose port went away.
    pub expired: u64,
}

/// The learning switch.
#[derive(Debug)]
pub struct LearningSwitch {
    table: Table,
    ageing: Nanos,
    swept: Nanos,
    counters: LearningCounters,
    last_move: Option<(Station, PortNo, PortNo)>,
}

impl Default for LearningSwitch {
    fn default() -> Self {
        Self::new(LearningConfig::default())
    }
}

fn station(vlan: u16, mac: MacAddr) -> Station {
    let [a, b, c, d, e, f] = mac.octets();
    Station(u64::from(vlan & 0xfff) << 48 | u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
}

fn parts(s: Station) -> (u16, MacAddr) {
    let [_, _, a, b, c, d, e, f] = s.0.to_be_bytes();
    ((s.0 >> 48) as u16 & 0xfff, MacAddr([a, b, c, d, e, f]))
}

/// What the switch reads of a frame.
struct Header {
    dst: u64,
    src: u64,
    /// VLAN id, where a key wants it.
    vlan: u64,
}

#[inline(always)]
fn header(bytes: &[u8]) -> Result<Header, DropReason> {
    let Some(h) = bytes.first_chunk::<14>() else { return Err(DropReason::Runt) };
    let dst = u64::from_be_bytes([0, 0, h[0], h[1], h[2], h[3], h[4], h[5]]);
    let src = u64::from_be_bytes([0, 0, h[6], h[7], h[8], h[9], h[10], h[11]]);
    let mut vlan = 0;
    if EtherType::from(u16::from_be_bytes([h[12], h[13]])).is_vlan() {
        // The tag is whole when the type behind it is there.
        let Some(t) = bytes.first_chunk::<18>() else { return Err(DropReason::Malformed) };
        vlan = u64::from(u16::from_be_bytes([t[14] & 0x0f, t[15]])) << 48;
    }
    Ok(Header { dst, src, vlan })
}

const GROUP: u64 = 1 << 40;

impl LearningSwitch {
    /// A switch that has learned nothing.
    pub fn new(config: LearningConfig) -> Self {
        // An address seen all the time is moved in its list once per grain, not once per frame.
        let grain = Nanos((config.ageing.0 / 16).min(Nanos::from_secs(1).0));
        Self {
            table: Table::new(config.max_entries, grain, fresh_seed()),
            ageing: config.ageing,
            swept: Nanos(0),
            counters: LearningCounters::default(),
            last_move: None,
        }
    }

    /// Pins an address to a port, until [`LearningSwitch::forget`].
    ///
    /// # Errors
    /// [`StaticEntryError`]; nothing has changed then.
    pub fn add_static(
        &mut self,
        vlan: u16,
        mac: MacAddr,
        port: PortNo,
    ) -> Result<(), StaticEntryError> {
        if mac.is_multicast() {
            return Err(StaticEntryError::Group(mac));
        }
        if vlan > 4095 {
            return Err(StaticEntryError::Vlan(vlan));
        }
        match self.table.pin(station(vlan, mac), port, self.swept) {
            true => Ok(()),
            false => Err(StaticEntryError::Full(self.table.max())),
        }
    }

    /// Removes an address, static or not; `false` when it was not there.
    pub fn forget(&mut self, vlan: u16, mac: MacAddr) -> bool {
        self.table.forget(station(vlan, mac))
    }

    /// Removes all that was learned; static entries stay.
    pub fn flush(&mut self) {
        self.counters.expired += self.table.forget_ports(|_| true, usize::MAX) as u64;
    }

    /// The table at time `now`, by VLAN and address.
    pub fn stations(&self, now: Nanos) -> Vec<LearnedStation> {
        let row = |r: Row| {
            let (vlan, mac) = parts(r.key);
            LearnedStation { vlan, mac, port: r.port, age: r.seen.map(|s| now.since(s)) }
        };
        let mut all: Vec<_> = self.table.rows().map(row).collect();
        all.sort_unstable();
        all
    }

    /// What happened so far.
    pub fn counters(&self) -> LearningCounters {
        self.counters
    }

    #[inline]
    fn learn(&mut self, key: Station, port: PortNo, now: Nanos) {
        match self.table.learn(key, port, now) {
            Learned::Known | Learned::Static | Learned::Full => {}
            Learned::New => self.counters.learned += 1,
            Learned::Evicted => {
                self.counters.learned += 1;
                self.counters.evicted += 1;
            }
            Learned::Moved(from) => {
                self.counters.moved += 1;
                self.last_move = Some((key, from, port));
            }
        }
    }
}

impl Program for LearningSwitch {
    fn name(&self) -> &'static str {
        "learning"
    }

    fn forget_port(&mut self, port: PortNo) {
        self.counters.expired += self.table.forget_ports(|p| p == port, usize::MAX) as u64;
    }

    /// What was learned, as much as it has room for; static entries are its own.
    fn take_over(&mut self, before: Box<dyn Program>) {
        let Some(before) = of_kind::<Self>(before) else { return };
        (self.counters, self.swept) = (before.counters, before.swept);
        self.last_move = before.last_move;
        self.table.take_over(before.table, self.swept);
    }

    fn expect(&self, frame: &Frame, _: PortNo) -> Ahead {
        if let Ok(h) = header(frame.bytes()) {
            self.table.expect(Station(h.vlan | h.src));
            self.table.expect(Station(h.vlan | h.dst));
            return self.table.ahead();
        }
        Ahead::All
    }

    fn expect_further(&self, frame: &Frame, _: PortNo) {
        if let Ok(h) = header(frame.bytes()) {
            self.table.expect_sighting(Station(h.vlan | h.src));
        }
    }

    #[inline]
    fn frame(&mut self, rx: SlowFrame, cx: &mut ProgramCx<'_>) {
        let SlowFrame { frame, in_port, .. } = rx;
        let h = match header(frame.bytes()) {
            Ok(h) => h,
            Err(why) => return cx.drop(frame, why),
        };
        if h.dst & !0xf == RESERVED {
            self.counters.reserved += 1;
            return cx.drop(frame, DropReason::Program);
        }
        if h.src & GROUP == 0 {
            self.learn(Station(h.vlan | h.src), in_port, cx.now());
        }
        let known = match h.dst & GROUP {
            0 => self.table.port_of(Station(h.vlan | h.dst)),
            _ => None,
        };
        match known {
            Some(port) if port == in_port => {
                self.counters.same_port += 1;
                cx.drop(frame, DropReason::Program);
            }
            Some(port) => {
                self.counters.known += 1;
                cx.output(frame, port);
            }
            None => {
                self.counters.flooded += 1;
                cx.flood(frame, in_port);
            }
        }
    }

    /// Stations age in seconds.
    fn patience(&self) -> Nanos {
        SWEEP
    }

    fn tick(&mut self, cx: &mut ProgramCx<'_>) {
        let now = cx.now();
        if now.since(self.swept) < SWEEP {
            return;
        }
        let ports = cx.ports();
        let is_lost = |p| !ports.iter().any(|q| q.no == p);
        let mut gone = self.table.forget_ports(is_lost, AT_ONCE);
        gone += self.table.expire(now - self.ageing, AT_ONCE - gone);
        self.counters.expired += gone as u64;
        // There may be more: the next tick goes on.
        if gone < AT_ONCE {
            self.swept = now;
        }
    }

    fn status(&self) -> Vec<(String, String)> {
        let c = &self.counters;
        let mut s = vec![
            ("entries".into(), format!("{} of {}", self.table.len(), self.table.max())),
            ("static entries".into(), self.table.statics().to_string()),
            ("ageing".into(), format!("{} s", self.ageing.0 as f64 / 1e9)),
            ("known".into(), c.known.to_string()),
            ("flooded".into(), c.flooded.to_string()),
            ("to reserved addresses".into(), c.reserved.to_string()),
            ("to the ingress port".into(), c.same_port.to_string()),
            ("learned".into(), c.learned.to_string()),
            ("moved".into(), c.moved.to_string()),
            ("evicted".into(), c.evicted.to_string()),
            ("expired".into(), c.expired.to_string()),
        ];
        if let Some((key, from, to)) = self.last_move {
            let (vlan, mac) = parts(key);
            let text = format!("{mac} in VLAN {vlan} from port {from} to {to}");
            s.push(("last move".into(), text));
        }
        s
    }
}
