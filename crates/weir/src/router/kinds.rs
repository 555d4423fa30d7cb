//! A node becomes one of the other kind, frames flowing: a VDP a virtual router and back (003 §2.1, migrate).
//!
//! Room: plans of VDPs and the steps between them. Called by [`super::node`], which makes and ends the rest of
//! a router.
//!
//! What forwards for a router is a VDP of its own, a *part* of the node's. The node's VDP keeps its number,
//! name and mark, and what it was: rules, program, groups, flows of its controllers. Which of the two gets
//! the node's frames is a matter of mapping rules, which change all between two bursts. So whoever comes is
//! whole before the first frame, and whoever goes is there until its last has left. What a part has counted
//! goes to its node's VDP when it ends.

use crate::config::apply::{self, Model};
use crate::config::diff::{Step, diff_vdp};
use crate::config::plan::VdpPlan;
use crate::socket::handler::{bad, here};
use crate::socket::live::{Live, NotDone};
use crate::socket::protocol::{Became, Counted};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use weir_dataplane::Vid;
use weir_packet::DropReason;
use weir_supervisor::model::Kind;

/// How long what is under way inside a router may be silent before it counts as gone.
const QUIET: Duration = Duration::from_millis(50);
/// How long that is waited for: programs inside may say something for ever.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why frames are dropped that a node of either kind does not forward, whether it changes or not.
const MEANT: [DropReason; 15] = [
    // By an interface that is set down inside.
    DropReason::PortDown,
    DropReason::Runt,
    DropReason::Malformed,
    DropReason::Action,
    DropReason::Miss,
    DropReason::TooDeep,
    DropReason::TtlExpired,
    DropReason::NoSuchHeader,
    DropReason::Meter,
    DropReason::GroupEmpty,
    DropReason::Program,
    DropReason::Injected,
    DropReason::PortConfig,
    DropReason::Fragment,
    DropReason::Congestion,
];

/// What stands for a router's node while nothing else ever did: a VDP that gets no frames.
pub fn shell(v: &VdpPlan) -> VdpPlan {
    let (label, ports) = (v.label.clone(), v.ports.clone());
    VdpPlan { label, ports, path: v.path, ..VdpPlan::new(v.vid, &v.name) }
}

/// A VDP without frames, and without what it is promised of the host.
pub fn idle(v: &VdpPlan) -> VdpPlan {
    let (mapping, shares) = (Vec::new(), BTreeMap::new());
    VdpPlan { mapping, shares, cpu_permille: 0, tcam_entries: 0, ..v.clone() }
}

/// The VDP whose place a new router takes, if there is one.
pub fn before(m: &Model, v: &VdpPlan) -> Result<Option<VdpPlan>, NotDone> {
    let same = |o: &&VdpPlan| o.vid == v.vid || o.name == v.name;
    let Some(old) = m.plan.vdps.values().find(same) else { return Ok(None) };
    if old.vid != v.vid || old.name != v.name || old.part_of.is_some() {
        return Err(bad(format!("{} is there already: delete it first", old.called())));
    }
    if old.place.is_some() {
        let text = "is the configuration file's: take it out there first";
        return Err(bad(format!("{} {text}", old.called())));
    }
    here(m, &old.vid.to_string())?;
    Ok(Some(old.clone()))
}

/// The steps that make VDPs these.
pub fn steps_to(m: &Model, all: Vec<VdpPlan>) -> Result<Vec<Step>, NotDone> {
    let mut steps = Vec::new();
    for new in all {
        match m.plan.vdps.get(&new.vid.0) {
            Some(old) => steps.extend(diff_vdp(old, &new)?),
            None => steps.push(Step::CreateVdp(Box::new(new))),
        }
    }
    Ok(steps)
}

/// Has a router's parts get the frames that its node's VDP got.
pub fn take_place(
    live: &Live,
    node: &VdpPlan,
    parts: Vec<VdpPlan>,
) -> Result<(Vec<String>, Duration), NotDone> {
    let (vid, label) = (node.vid, node.label.clone());
    live.swap(move |m| {
        let old = m.plan.vdps.get(&vid.0).map(|n| VdpPlan { label, ..idle(n) });
        steps_to(m, old.into_iter().chain(parts).collect())
    })
}

/// What a node's VDP has counted, with its parts.
pub fn counted(live: &Live, vid: Vid) -> Result<Counted, NotDone> {
    Ok(live.observe(move |p, m| {
        let parts = m.plan.vdps.values().filter(|o| o.part_of == Some(vid)).map(|o| o.vid);
        let mut sum = Counted::default();
        for v in parts.chain([vid]).filter_map(|v| p.vdp_view(v)) {
            let c = &v.counters;
            sum.received += c.received.frames;
            sum.forwarded += c.forwarded.frames;
            sum.generated += c.generated;
            sum.cloned += c.cloned;
            sum.consumed += c.consumed;
            sum.dropped += c.dropped.total();
            sum.meant += MEANT.iter().map(|why| c.dropped.get(*why)).sum::<u64>();
            sum.held += v.held as u64;
        }
        sum
    })?)
}

/// Gives a node's VDP back what it had before a router began to take its place.
pub fn back(live: &Live, old: VdpPlan) -> Result<(), NotDone> {
    live.swap(move |m| steps_to(m, vec![old])).map(drop)
}

/// Has a node's VDP be `v` and get its frames, which the parts of its router got; when that is done, what is
/// under way in the router has left it. `outside` are the node's ports.
pub fn give_place(
    live: &Live,
    v: VdpPlan,
    parts: Vec<VdpPlan>,
    outside: &[String],
) -> Result<(Vec<String>, Duration), NotDone> {
    let vids: Vec<Vid> = parts.iter().map(|p| p.vid).collect();
    let heads: Vec<String> = outside.iter().map(|p| format!("in_port={p}")).collect();
    // What comes from inside goes on its way; what would come from outside is the node's VDP's.
    let draining = move |p: VdpPlan| {
        let all = p.mapping.iter();
        let within = all.filter(|m| !heads.iter().any(|h| m.text.split(',').next() == Some(h)));
        VdpPlan { mapping: within.cloned().collect(), ..idle(&p) }
    };
    let parts: Vec<VdpPlan> = parts.into_iter().map(draining).collect();
    let done = live.swap(move |m| {
        let mut plan = m.plan.clone();
        plan.vdps.insert(v.vid.0, v.clone());
        for p in &parts {
            plan.vdps.insert(p.vid.0, p.clone());
        }
        apply::rehearse(&plan)?;
        steps_to(m, parts.into_iter().chain([v]).collect())
    })?;
    let mut last = (Instant::now(), None);
    let end = Instant::now() + PATIENCE;
    while last.0.elapsed() < QUIET && Instant::now() < end {
        let of = vids.clone();
        let now = live.handle().call(move |p| {
            let vdps = of.into_iter().filter_map(|v| p.vdp_view(v));
            vdps.map(|v| (v.counters.came(), v.counters.ended())).collect::<Vec<_>>()
        })?;
        if last.1.as_ref() != Some(&now) {
            last = (Instant::now(), Some(now));
        }
        std::thread::sleep(QUIET / 10);
    }
    Ok(done)
}

/// When a node began to become one of the other kind, and what it had counted then.
#[derive(Debug)]
pub struct Begun {
    vid: Vid,
    at: Instant,
    before: Counted,
}

impl Begun {
    /// Now.
    ///
    /// # Errors
    /// Nobody serves the data plane any more.
    pub fn now(live: &Live, vid: Vid) -> Result<Self, NotDone> {
        Ok(Self { vid, at: Instant::now(), before: counted(live, vid)? })
    }

    /// What came of it, now that it is one.
    ///
    /// # Errors
    /// Nobody serves the data plane any more.
    pub fn ended(
        self,
        live: &Live,
        name: String,
        kind: Kind,
        pause: Duration,
    ) -> Result<Became, NotDone> {
        let ns = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        let kind = match kind {
            Kind::Router => "router",
            Kind::Vdp => "vdp",
        };
        let became = Became {
            name,
            kind: kind.to_owned(),
            took_ns: ns(self.at.elapsed()),
            longest_pause_ns: ns(pause),
            before: self.before,
            after: counted(live, self.vid)?,
            ..Became::default()
        };
        Ok(became.weighed())
    }
}
