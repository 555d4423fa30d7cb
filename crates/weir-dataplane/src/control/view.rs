//! What a data plane looks like between two bursts, and whether its frames add up.
//!
//! Read by `weir show`, `stats` and `top`, and by every test.

use super::*;
use crate::action::{PortNo, Vid};
use crate::counters::{PortCounters, Tally, VdpCounters};
use crate::edge::VdpPortCounters;
use crate::matching::{RuleSpec, Tables};
use crate::plane::{DataPlane, Port};
use crate::shortcut::ShortcutView;
use crate::software::Dedicated;
use crate::vdp::{MigrationReport, Phase, Spilled, Vdp};
use crate::written::Lists;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;
use weir_packet::{Arrival, DeviceCounters, Nanos, PortId, WayQuality};

/// A rule with its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleView {
    /// Which table.
    pub table: u8,
    /// The rule.
    pub spec: RuleSpec,
    /// What it matched.
    pub hits: Tally,
    /// Where it lives.
    pub placed: Placed,
}

/// A VDP as it is.
#[derive(Clone, Debug)]
pub struct VdpView {
    /// Its id.
    pub vid: Vid,
    /// Its name.
    pub name: String,
    /// What it is doing.
    pub phase: Phase,
    /// Its ports.
    pub ports: Vec<(PortNo, PortId)>,
    /// Rules on the fast path.
    pub rules: usize,
    /// Rules on the slow path only.
    pub slow_rules: usize,
    /// Whether all of it is on the slow path for their sake.
    pub spilled: Spilled,
    /// Its channel, and whether that is its own.
    pub channel: (u8, Dedicated),
    /// Counters, of this data plane alone.
    pub counters: VdpCounters,
    /// The same with what it counted on other data planes before, where it did.
    pub everywhere: Option<VdpCounters>,
    /// Counters of each of its ports.
    pub port_counters: Vec<(PortNo, VdpPortCounters)>,
    /// Frames at ports that are not, or no longer, its own.
    pub elsewhere: VdpPortCounters,
    /// Frames inside the data plane.
    pub held: usize,
    /// Memory of its tables in bytes.
    pub memory_bytes: usize,
    /// Tables whose lookups have an index beside them.
    pub indexed_tables: usize,
    /// What the worker has done for it here, in the cost units of compiled actions.
    pub work: u64,
    /// Packet-outs that were lost for want of a frame; they are among the dropped.
    pub packet_outs_lost: u64,
    /// How migrations went.
    pub migration: MigrationReport,
}

/// A port as it is.
#[derive(Clone, Debug)]
pub struct PortView {
    /// Its number.
    pub id: PortId,
    /// Its name.
    pub name: String,
    /// Its device's name.
    pub device: String,
    /// Whether it can send.
    pub up: bool,
    /// The longest frame it takes, in bytes with the Ethernet header.
    pub max_frame_bytes: usize,
    /// The longest packet that its network carries.
    pub mtu: usize,
    /// Counters.
    pub counters: PortCounters,
    /// The device's own counters.
    pub device_counters: DeviceCounters,
    /// Frames waiting in its queues.
    pub backlog: usize,
    /// What its device knows of its ways to its other end.
    pub ways: Vec<WayQuality>,
    /// What is wrong with its device, in one line.
    pub fault: Option<String>,
    /// What of its traffic it can't take ([`weir_packet::Device::caveat`]).
    pub caveat: Option<String>,
    /// Whether nothing more will ever come from its device.
    pub exhausted: bool,
    /// Whether nothing waits there, and nothing will come but what this data plane itself sends: a wire in memory, or what is exhausted.
    pub quiet: bool,
    /// What its device forwards by itself.
    pub shortcut: ShortcutView,
}

/// Everything at one moment between two bursts.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// When.
    pub at: Nanos,
    /// Ports.
    pub ports: Vec<PortView>,
    /// VDPs.
    pub vdps: Vec<VdpView>,
    /// VDPs that were deleted.
    pub retired: VdpCounters,
    /// Frames without a VDP: runts.
    pub unmapped: VdpCounters,
    /// Frames in the region, free ones, and ones that devices keep.
    pub frames: FramesView,
}

/// Where the region's frames are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FramesView {
    /// In all.
    pub count: usize,
    /// Free.
    pub free: usize,
    /// Lent to the kernel.
    pub lent: usize,
    /// Held for VDPs.
    pub held: usize,
    /// Spares of the software stage.
    pub spares: usize,
}

/// Frames do not add up: a defect.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what}: {came} frames came, {ended} ended, {held} are held")]
pub struct Imbalance {
    /// Whose frames.
    pub what: String,
    /// Received, generated, cloned.
    pub came: u64,
    /// Forwarded, consumed, dropped.
    pub ended: u64,
    /// Still inside.
    pub held: u64,
}

impl Snapshot {
    /// Conservation: per VDP, per port, in total.
    ///
    /// # Errors
    /// The first that does not add up.
    pub fn check(&self) -> Result<(), Imbalance> {
        let sum = |what: String, came: u64, ended: u64, held: u64| {
            if came == ended + held { Ok(()) } else { Err(Imbalance { what, came, ended, held }) }
        };
        let mut all = self.retired.clone();
        all.merge(&self.unmapped);
        for v in &self.vdps {
            let (came, ended) = (v.counters.came(), v.counters.ended());
            sum(format!("VDP {}", v.vid), came, ended, v.held as u64)?;
            all.merge(&v.counters);
            let mut at_ports = v.elsewhere;
            v.port_counters.iter().for_each(|(_, c)| at_ports.merge(c));
            let (received, forwarded) = (v.counters.received, v.counters.forwarded);
            let by_port = |what: &str| format!("{what} of VDP {} by port", v.vid);
            sum(by_port("received"), at_ports.rx.frames, received.frames, 0)?;
            sum(by_port("forwarded"), at_ports.tx.frames, forwarded.frames, 0)?;
        }
        let mut rx = Tally::default();
        let mut tx = Tally::default();
        for p in &self.ports {
            rx.merge(p.counters.rx);
            tx.merge(p.counters.tx);
        }
        // Counters of removed ports stand in the list, so that these hold whatever ports went.
        sum("received by ports".to_owned(), rx.frames, all.received.frames, 0)?;
        sum("sent by ports".to_owned(), tx.frames, all.forwarded.frames, 0)?;
        let f = self.frames;
        let used = (f.free + f.lent + f.held + f.spares) as u64;
        sum("chunks of the region".to_owned(), f.count as u64, used, 0)
    }
}

impl DataPlane {
    /// One VDP, as it is between two bursts; `None`: there is no such VDP. Its cost does not grow with the others.
    pub fn vdp_view(&self, vid: Vid) -> Option<VdpView> {
        let v = self.vdp(vid).ok()?;
        match &self.desk {
            Some(desk) => desk.vdp_view(vid),
            None => Some(self.view_of(v, &self.parked())),
        }
    }
    /// How many frames of VDPs are parked, of those that have any.
    fn parked(&self) -> BTreeMap<Vid, usize> {
        let mut parked = BTreeMap::new();
        for f in self.present().flat_map(|p| &p.parked) {
            *parked.entry(f.vid).or_default() += 1;
        }
        parked
    }
    fn view_of(&self, v: &Vdp, parked: &BTreeMap<Vid, usize>) -> VdpView {
        // It has queues at its ports, and at those by which it hands on; there may be thousands of others.
        let far = v.away.iter().flat_map(|a| &a.pairs).map(|(_, far)| far);
        let port = |id: &PortId| self.ports.get(usize::from(id.0))?.as_deref();
        let own = v.port_ids.iter().chain(far).filter_map(port);
        let backlog: usize = own.map(|p| p.tx.backlog_of(v.vid)).sum();
        debug_assert_eq!(backlog, v.queued as usize, "frames of VDP {} that wait", v.vid.0);
        let parked = parked.get(&v.vid).copied().unwrap_or_default();
        let channel = self.channels.get(usize::from(v.channel.channel));
        VdpView {
            vid: v.vid,
            name: v.name.to_string(),
            phase: v.phase,
            ports: v.ports.to_vec(),
            rules: v.fast.len(),
            slow_rules: v.slow_only.len(),
            spilled: v.spilled,
            channel: (v.channel.channel, channel.map_or(Dedicated::No, |c| c.dedicated)),
            counters: v.tally(),
            everywhere: v.counted_everywhere(),
            port_counters: v.port_counters(),
            elsewhere: v.edge.elsewhere(),
            held: v.held() + backlog + parked,
            memory_bytes: v.fast.tables.iter().map(|t| t.memory_bytes()).sum(),
            indexed_tables: v.fast.tables.iter().filter(|t| t.classifier.is_indexed()).count(),
            work: v.worked + v.spent.used(),
            packet_outs_lost: v.packet_outs_lost,
            migration: v.migration,
        }
    }
    /// Everything, as it is between two bursts.
    pub fn snapshot(&self) -> Snapshot {
        let parked = self.parked();
        if let Some(mut all) = self.desk.as_ref().and_then(|d| d.snapshot()) {
            let ending = self.ending(all.vdps.iter().map(|v| v.vid));
            let ending: Vec<_> = ending.map(|v| self.view_of(v, &parked)).collect();
            all.vdps.extend(ending);
            return all;
        }
        let each = self.vdps.iter().flatten();
        let vdps: Vec<VdpView> = each.map(|v| self.view_of(v, &parked)).collect();
        let in_devices = |p: &Port| p.tx.device.held() + p.tx.device.in_transit();
        let frames = FramesView {
            count: self.pool.count(),
            free: self.pool.available(),
            lent: self.present().map(in_devices).sum(),
            held: vdps.iter().map(|v| v.held).sum(),
            spares: self.channels.iter().map(|c| c.ring.spares_out).sum(),
        };
        Snapshot {
            at: self.now,
            ports: self.own_port_views(),
            vdps,
            retired: self.retired.clone(),
            unmapped: self.unmapped.clone(),
            frames,
        }
    }
    /// VDPs that end here and are not among these. A VDP's number is free when it is free here, a round after the last
    /// worker has let it go.
    fn ending(&self, known: impl Iterator<Item = Vid>) -> impl Iterator<Item = &Vdp> {
        let known: BTreeSet<Vid> = known.collect();
        let all = self.vdps.iter().flatten().map(|v| &**v);
        all.filter(move |v| v.phase.is_deleting() && !known.contains(&v.vid))
    }
    /// What each VDP is doing: of a [`DataPlane::snapshot`] what does not grow with ports, rules and tables.
    pub fn phases(&self) -> Vec<(Vid, Phase)> {
        if let Some(mut all) = self.desk.as_ref().and_then(|d| d.phases()) {
            let ending = self.ending(all.iter().map(|(vid, _)| *vid));
            let ending: Vec<_> = ending.map(|v| (v.vid, v.phase)).collect();
            all.extend(ending);
            return all;
        }
        self.vdps.iter().flatten().map(|v| (v.vid, v.phase)).collect()
    }
    /// The ports of a [`DataPlane::snapshot`], without looking at any VDP.
    pub fn port_views(&self) -> Vec<PortView> {
        let all = self.desk.as_ref().and_then(|d| d.port_views());
        all.unwrap_or_else(|| self.own_port_views())
    }
    fn own_port_views(&self) -> Vec<PortView> {
        let mut ports: Vec<PortView> = self
            .present()
            .map(|p| PortView {
                id: p.id,
                name: p.name.clone(),
                device: p.tx.device.name().to_owned(),
                up: p.tx.is_up(),
                max_frame_bytes: p.tx.device.caps().max_frame_bytes,
                mtu: p.tx.device.caps().ip_bytes,
                counters: p.counters.clone(),
                device_counters: p.tx.device.counters(),
                backlog: p.tx.backlog(),
                ways: p.tx.device.ways(),
                fault: p.tx.device.fault(),
                caveat: p.tx.device.caveat(),
                exhausted: p.tx.device.exhausted(),
                // What is down may come back with more.
                quiet: p.tx.device.exhausted()
                    || p.tx.is_up() && matches!(p.tx.device.arrival(), Arrival::Never),
                shortcut: self.shortcut_view(p),
            })
            .collect();
        if let Some((c, devices)) = &self.removed_ports {
            ports.push(PortView {
                id: PortId(0),
                name: "(removed)".to_owned(),
                device: String::new(),
                up: false,
                max_frame_bytes: 0,
                mtu: 0,
                counters: c.clone(),
                device_counters: *devices,
                backlog: 0,
                ways: Vec::new(),
                fault: None,
                caveat: None,
                exhausted: true,
                quiet: true,
                shortcut: ShortcutView::NotOffered,
            });
        }
        ports
    }
    /// The time of the latest round: what last uses are measured by.
    pub fn now(&self) -> Nanos {
        self.now
    }
    /// Rules in all fast tables of all VDPs and mapping rules.
    pub fn rule_counts(&self) -> (usize, usize) {
        (self.mapping.len(), self.vdps.iter().flatten().map(|v| v.fast.len()).sum())
    }
}

impl Tables {
    /// Every rule with its counters.
    pub fn views(&self, placed: Placed) -> Vec<RuleView> {
        self.views_of(placed, |_, _| true)
    }
    /// The same, of rules in those slots of a table only for which `f` says so.
    pub(crate) fn views_of(&self, placed: Placed, f: impl Fn(u8, u32) -> bool) -> Vec<RuleView> {
        let (mut out, mut lists) = (Vec::with_capacity(self.len()), Lists::default());
        for (n, t) in self.tables.iter().enumerate() {
            t.for_each(&mut |r| {
                let slot = r.id.0;
                if !f(n as u8, slot) {
                    return;
                }
                let spec = t.spec_by(&r.matcher, r.priority, slot, |w| lists.of(w));
                let Some(spec) = spec else { return };
                let hits = t.usage(slot).unwrap_or_default().tally();
                out.push(RuleView { table: n as u8, spec, hits, placed });
            });
        }
        out
    }
}
