//! What `show` and `stats` tell: a snapshot of the data plane with the plan's names.
//!
//! Room: reading only. Called by the handler, between two bursts where the data plane is needed.

use super::items::{
    Count, DelayItem, DeletedItem, FramesItem, MappingItem, PlaneItem, PortItem, RouterItem,
    RuleItem, Takes, TcamItem, TcamShareItem, VdpDetail, VdpItem, VdpPortItem, WayItem,
};
use super::live::Own;
use super::protocol::{Item, WithRules};
use crate::commands::log_writer;
use crate::config::apply::Model;
use crate::config::openflow::read_again;
use crate::config::plan::{PortPlan, VdpPlan};
use crate::openflow::moves::Stage;
use crate::openflow::status::SwitchItem;
use crate::openflow::tls::Identity;
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;
use std::time::Duration;
use weir_classify::{Owner, Part};
use weir_dataplane::flowtext::{ActionsText, FlowSpec, FlowText};
use weir_dataplane::{
    DataPlane, Dedicated, Isolation, Path, Phase, Placed, PortView, RuleView, ShortcutView,
    Snapshot, Spilled, Tally, VdpCounters, VdpView, Vid,
};
use weir_packet::{DropCounts, PortId, WayDelay, WayQuality};

/// How long the slow path is waited for, when it is asked for rules or a program's state.
const SLOW_PATH: Duration = Duration::from_secs(1);

fn count(t: Tally) -> Count {
    Count { frames: t.frames, bytes: t.bytes }
}

/// Reasons of drops by their names.
pub fn drops(d: &DropCounts) -> BTreeMap<String, u64> {
    d.iter().map(|(why, n)| (why.label().to_owned(), n)).collect()
}

/// A phase's word.
pub fn phase_name(p: Phase) -> &'static str {
    match p {
        Phase::On(Path::Fast) => "fast",
        Phase::On(Path::Slow) => "slow",
        Phase::Draining { .. } | Phase::Drained { .. } => "draining",
        Phase::Returning => "returning",
        Phase::Leaving { .. } => "leaving",
        Phase::Away => "away",
        Phase::Coming { .. } => "coming",
        Phase::Deleting { .. } => "deleting",
    }
}

/// A port as it is.
pub fn port(p: PortView) -> PortItem {
    let d = p.device_counters;
    PortItem {
        name: p.name,
        number: p.id.0,
        device: p.device,
        label: None,
        up: p.up,
        rx: count(p.counters.rx),
        tx: count(p.counters.tx),
        tx_dropped: drops(&p.counters.tx_dropped),
        rx_missed: d.rx_missed,
        rx_errors: d.rx_errors,
        tx_errors: d.tx_errors,
        csum_completed: d.csum_completed,
        segmented: d.segmented,
        vlan_restored: d.vlan_restored,
        rx_unknown: d.rx_unknown,
        rx_malformed: d.rx_malformed,
        way_changes: d.way_changes,
        backlog: p.backlog,
        ways: p.ways.into_iter().map(way).collect(),
        fault: p.fault,
        caveat: p.caveat,
        exhausted: p.exhausted,
        shortcut: shortcut(&p.shortcut),
    }
}

fn way(w: WayQuality) -> WayItem {
    let delay = |d: WayDelay| DelayItem {
        last_ns: d.last_ns,
        least_ns: d.least_ns,
        most_ns: d.most_ns,
        smoothed_ns: d.smoothed_ns,
    };
    WayItem {
        name: w.name,
        up: w.up,
        taken: w.taken,
        probes_sent: w.sent,
        probes_heard: w.heard,
        probes_lost: w.lost,
        probes_late: w.late,
        delay: w.delay.map(delay),
        jitter_ns: w.jitter_ns,
    }
}

/// What a port's device forwards by itself, in words.
fn shortcut(s: &ShortcutView) -> Option<String> {
    match s {
        ShortcutView::NotOffered => None,
        ShortcutView::Off(why) => Some(format!("off: {why}")),
        ShortcutView::On { vids, macs, why_not } => {
            let vids: Vec<String> = vids.iter().map(ToString::to_string).collect();
            let mut out = format!("VDP {}", vids.join(", "));
            if *macs > 0 {
                out.push_str(&format!(" ({macs} addresses)"));
            }
            if let Some(why) = why_not {
                out.push_str(&format!("; the rest not: {why}"));
            }
            Some(out)
        }
    }
}

/// A VDP's counters, wherever it was.
pub fn vdp(v: &VdpView) -> VdpItem {
    let c = v.everywhere.as_ref().unwrap_or(&v.counters);
    VdpItem {
        vid: v.vid.0,
        name: v.name.clone(),
        phase: phase_name(v.phase).to_owned(),
        received: count(c.received),
        forwarded: count(c.forwarded),
        generated: c.generated,
        cloned: c.cloned,
        consumed: c.consumed,
        slow: c.slow,
        dropped: drops(&c.dropped),
        held: v.held,
        takes: Takes {
            work: v.work,
            memory_bytes: v.memory_bytes as u64,
            rules: (v.rules + v.slow_rules) as u64,
            ..Takes::default()
        },
        part_of: None,
        detail: None,
    }
}

/// What VDPs that were deleted had counted, if any had.
pub fn deleted(c: &VdpCounters) -> Option<DeletedItem> {
    (*c != VdpCounters::default()).then(|| DeletedItem {
        received: count(c.received),
        forwarded: count(c.forwarded),
        generated: c.generated,
        cloned: c.cloned,
        consumed: c.consumed,
        slow: c.slow,
        dropped: drops(&c.dropped),
    })
}

/// The data plane as a whole.
pub fn plane(p: &DataPlane, s: &Snapshot) -> PlaneItem {
    let f = s.frames;
    let tcam = p.tcam();
    let part = |part: Part| TcamItem {
        part: part.to_string(),
        entries: tcam.entries(part),
        slice_entries: tcam.slice_entries(),
        free_entries: tcam.free_entries(part),
        blocks: tcam.blocks(part),
        blocks_in_use: tcam.blocks_in_use(part),
    };
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let cpu = Duration::try_from(used).unwrap_or_default();
    PlaneItem {
        cpu_ns: u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX),
        pid: std::process::id(),
        at_ns: s.at.0,
        frames: FramesItem {
            count: f.count,
            free: f.free,
            lent: f.lent,
            held: f.held,
            spares: f.spares,
        },
        tcam: Part::ALL.map(part).to_vec(),
        workers: p.workers(),
        channels: p.channels(),
        unmapped_dropped: drops(&s.unmapped.dropped),
        deleted: deleted(&s.retired).map(Box::new),
        imbalance: s.check().err().map(|e| e.to_string()),
        instance: None,
        processors: None,
        log_left_out: log_writer::left_out(),
    }
}

/// Counters of everything.
pub fn stats(p: &DataPlane, m: &Model) -> Vec<Item> {
    let s = p.snapshot();
    let mut out = vec![Item::Plane(plane(p, &s))];
    let of = |v: &VdpView| m.plan.vdps.get(&v.vid.0)?.part_of.map(|of| of.0);
    let used = |v: &VdpView| -> u64 {
        Part::ALL
            .map(|part| u64::from(p.tcam().usage(part, Owner(v.vid.0.into())).used))
            .iter()
            .sum()
    };
    let item = |v: &VdpView| {
        let mut i = vdp(v);
        i.takes.tcam_entries = used(v);
        Item::Vdp(Box::new(VdpItem { part_of: of(v), ..i }))
    };
    out.extend(s.vdps.iter().map(item));
    out.extend(s.ports.into_iter().map(|p| Item::Port(Box::new(port(p)))));
    out
}

/// Adds to counters what VDPs take as switches and as virtual routers.
pub fn with_control(
    items: &mut [Item],
    switches: &BTreeMap<u16, (u64, u64)>,
    routers: &BTreeMap<u16, RouterItem>,
) {
    for i in items {
        let Item::Vdp(v) = i else { continue };
        (v.takes.messages_in, v.takes.messages_out) =
            switches.get(&v.vid).copied().unwrap_or_default();
        if let Some(r) = routers.get(&v.vid) {
            v.takes.router_cpu_ns = r.cpu_us.unwrap_or(0) * 1000;
            v.takes.memory_bytes += r.memory_bytes.unwrap_or(0);
        }
    }
}

/// What was asked of the slow path and is awaited outside the worker.
pub struct Asked {
    items: Vec<Item>,
    vdps: Vec<AskedVdp>,
}

struct AskedVdp {
    item: VdpItem,
    plan: VdpPlan,
    /// What it shows to controllers, if a supervisor keeps it.
    shows: Option<Identity>,
    status: Option<Receiver<Vec<(String, String)>>>,
    rules: Option<(Vec<RuleView>, Receiver<Vec<RuleView>>)>,
}

/// Gathers what `show` tells; runs between two bursts.
pub fn ask(p: &DataPlane, m: &Model, only: Option<Vid>, rules: WithRules) -> Asked {
    let mut items = Vec::new();
    let mut vdps = Vec::new();
    let (views, ports) = match only {
        // Frames wait meanwhile: for one VDP the others are not looked at.
        Some(vid) => (p.vdp_view(vid).into_iter().collect(), Vec::new()),
        None => {
            let s = p.snapshot();
            items.push(Item::Plane(plane(p, &s)));
            (s.vdps, s.ports)
        }
    };
    for v in &views {
        let mut item = vdp(v);
        let Some(plan) = m.plan.vdps.get(&v.vid.0) else {
            items.push(Item::Vdp(Box::new(item)));
            continue;
        };
        item.part_of = plan.part_of.map(|of| of.0);
        item.detail = Some(detail(p, m, v, plan));
        let status = plan.program.as_ref().and_then(|_| p.program_status(v.vid).ok());
        let rules = (rules == WithRules::Yes).then(|| p.rules(v.vid).ok()).flatten();
        let kept = plan.openflow.as_ref().filter(|_| plan.label.is_some());
        let shows = kept.and_then(|o| o.tls.clone());
        // Its rules may be many and are asked of the data plane itself.
        let plan = VdpPlan { rules: Default::default(), ..shallow(plan) };
        vdps.push(AskedVdp { item, plan, shows, status, rules });
    }
    let kept = |p: &PortPlan| Some((p.name.clone(), p.label.clone()?));
    let mut labels: BTreeMap<String, String> = m.plan.ports.iter().filter_map(kept).collect();
    items.extend(ports.into_iter().map(|p| {
        let label = labels.remove(&p.name);
        Item::Port(Box::new(PortItem { label, ..port(p) }))
    }));
    Asked { items, vdps }
}

/// A plan without its rules: what names need.
fn shallow(p: &VdpPlan) -> VdpPlan {
    VdpPlan { ports: p.ports.clone(), fields: p.fields.clone(), ..VdpPlan::new(p.vid, &p.name) }
}

fn detail(p: &DataPlane, m: &Model, v: &VdpView, plan: &VdpPlan) -> VdpDetail {
    let who = Owner(v.vid.0.into());
    let tcam = p.tcam();
    let share = |part: Part| {
        let u = tcam.usage(part, who);
        let part = part.to_string();
        TcamShareItem { part, used: u.used, allowed: u.allowed, slices: u.slices }
    };
    let woken = tcam.activation(who);
    let ports = plan.ports.iter().map(|(name, no)| {
        let s = plan.shares.get(name).copied().unwrap_or_default();
        VdpPortItem {
            number: no.0,
            name: name.clone(),
            present: m.ids.contains_key(name),
            guarantee_bps: s.guarantee_bps,
            ceiling_bps: s.ceiling_bps,
            weight: s.weight,
            queue_frames: s.queue_frames,
        }
    });
    let mapping =
        plan.mapping.iter().map(|r| MappingItem { matcher: r.text.clone(), priority: r.priority });
    VdpDetail {
        label: plan.label.clone(),
        ports: ports.collect(),
        mapping: mapping.collect(),
        default: ActionsText(&plan.default, &plan.names()).to_string(),
        program: plan
            .program
            .as_ref()
            .filter(|_| plan.workers(p.workers()) == 1)
            .map(|p| p.name().to_owned()),
        program_status: Vec::new(),
        channel: v.channel.0,
        worker: p.worker_of(v.vid),
        channel_dedicated: v.channel.1 == Dedicated::Yes,
        fast_rules: v.rules,
        slow_rules: v.slow_rules,
        spilled_whole: v.spilled != Spilled::No,
        spills: v.migration.spilled.into(),
        groups: plan.groups.len(),
        meters: plan.meters.len(),
        tcam: Part::ALL.map(share).to_vec(),
        blocks_woken: (woken.mapping + woken.action, woken.whole),
        cpu_permille: plan.cpu_permille,
        isolated: plan.isolation == Isolation::CutOff,
        memory_bytes: v.memory_bytes,
        indexed_tables: v.indexed_tables,
        migrations: v.migration.completed,
        migrations_given_up: v.migration.given_up.into(),
        migration_held: v.migration.held,
        migration_drain_ns: v.migration.drain_ns,
        moving: None,
        certificate_renewed: false,
        openflow: None,
        router: None,
    }
}

impl Asked {
    /// The same with what there is of the VDPs as OpenFlow switches.
    pub fn with_switches(mut self, mut all: BTreeMap<u16, SwitchItem>) -> Self {
        for v in &mut self.vdps {
            if let Some(d) = &mut v.item.detail {
                d.openflow = all.remove(&v.item.vid).map(Box::new);
            }
        }
        self
    }

    /// The same with what there is of the VDPs as virtual routers'.
    pub fn with_routers(mut self, mut all: BTreeMap<u16, RouterItem>) -> Self {
        for v in &mut self.vdps {
            if let Some(d) = &mut v.item.detail {
                d.router = all.remove(&v.item.vid).map(Box::new);
            }
        }
        self
    }

    /// The same with how moves to other nodes stand.
    pub fn with_moves(mut self, stages: &BTreeMap<u16, Stage>) -> Self {
        for v in &mut self.vdps {
            if let Some(d) = &mut v.item.detail {
                d.moving = stages.get(&v.item.vid).and_then(|s| s.word());
            }
        }
        self
    }

    /// The same with what the data plane is known by.
    pub fn with_own(mut self, own: &Own) -> Self {
        for i in &mut self.items {
            if let Item::Plane(p) = i {
                p.instance = Some(own.instance.clone());
                p.processors.clone_from(&own.processors);
            }
        }
        self
    }

    /// Awaits the slow path's answers and hands everything on, part by part.
    ///
    /// # Errors
    /// What `to` says.
    pub fn tell<E>(self, mut to: impl FnMut(Item) -> Result<(), E>) -> Result<(), E> {
        for i in self.items {
            to(i)?;
        }
        for mut v in self.vdps {
            if let (Some(rx), Some(d)) = (v.status, &mut v.item.detail) {
                d.program_status = rx.recv_timeout(SLOW_PATH).unwrap_or_default();
            }
            if let (Some(held), Some(d)) = (&v.shows, &mut v.item.detail) {
                d.certificate_renewed = matches!(read_again(held), Some(Ok(new)) if new != *held);
            }
            let vid = v.item.vid;
            to(Item::Vdp(Box::new(v.item)))?;
            let Some((fast, slow)) = v.rules else { continue };
            let slow = slow.recv_timeout(SLOW_PATH).unwrap_or_default();
            for r in merge(fast, slow) {
                to(Item::Rule(rule(vid, &r, &v.plan)))?;
            }
        }
        Ok(())
    }
}

/// Rules of both paths. While a VDP is on the slow path it has copies of the fast path's rules
/// there, whose hits are the rule's own.
fn merge(mut fast: Vec<RuleView>, slow: Vec<RuleView>) -> Vec<RuleView> {
    let key = |r: &RuleView| (r.table, r.spec.priority, r.spec.matcher);
    let at: std::collections::HashMap<_, _> =
        fast.iter().enumerate().map(|(i, r)| (key(r), i)).collect();
    for s in slow {
        match at.get(&key(&s)).and_then(|i| fast.get_mut(*i)) {
            Some(f) => f.hits.merge(s.hits),
            None => fast.push(RuleView { placed: Placed::Slow, ..s }),
        }
    }
    fast.sort_by(|a, b| (a.table, b.spec.priority).cmp(&(b.table, a.spec.priority)));
    fast
}

fn rule(vid: u16, r: &RuleView, plan: &VdpPlan) -> RuleItem {
    let spec = FlowSpec {
        table: r.table,
        priority: u16::try_from(r.spec.priority).unwrap_or(u16::MAX),
        cookie: r.spec.cookie,
        matcher: r.spec.matcher,
        actions: r.spec.actions.to_vec(),
        ..FlowSpec::default()
    };
    RuleItem {
        vid,
        flow: FlowText(&spec, &plan.names()).to_string(),
        placed: match r.placed {
            Placed::Fast => "fast",
            Placed::Slow => "slow",
        }
        .to_owned(),
        hits: count(r.hits),
    }
}

/// A port's name for people.
pub fn port_name(m: &Model, id: PortId) -> String {
    m.port_name(id).map_or_else(|| format!("port{id}"), str::to_owned)
}
