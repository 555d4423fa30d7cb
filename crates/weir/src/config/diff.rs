//! What must happen for a running data plane to become another one: an ordered list of steps.
//!
//! Room: two plans in, steps out; nothing is touched. Called on reload, and for the first start, when
//! the running data plane has nothing but its default VDP.
//!
//! Order: what goes, goes first, so that whatever it held (names, numbers, budgets, guarantees) is
//! free for what comes. All steps run between two bursts, so no frame meets a half-way state.

use super::error::ConfigError;
use super::openflow::{Nature, OpenflowPlan, QueuePlan};
use super::plan::{
    Fixed, GroupPlan, MappingPlan, MeterPlan, Plan, PortPlan, RuleKey, RulePlan, VdpPlan,
};
use super::program::ProgramPlan;
use crate::openflow::tls::Identity;
use weir_dataplane::{Action, Isolation, Path, PortNo, PortShare, Vid};

/// One change.
#[derive(Debug)]
pub enum Step {
    /// Removes a port.
    RemovePort(String),
    /// Opens a port; VDPs that name it get it.
    AddPort(PortPlan),
    /// Marks a port as somebody's, or as nobody's.
    SetPortLabel(String, Option<String>),
    /// Deletes a VDP.
    DeleteVdp(Vid),
    /// Makes a VDP with all that belongs to it.
    CreateVdp(Box<VdpPlan>),
    /// Gives a VDP another name.
    SetName(Vid, String),
    /// Marks a VDP as somebody's, or as nobody's.
    SetLabel(Vid, Option<String>),
    /// Gives a VDP other ports.
    SetPorts(Vid, Vec<(String, PortNo)>),
    /// Gives a VDP another program.
    SetProgram(Vid, Option<ProgramPlan>),
    /// Sets what frames without a rule get.
    SetDefault(Vid, Vec<Action>),
    /// Adds a mapping rule.
    AddMapping(Vid, MappingPlan),
    /// Removes a mapping rule.
    RemoveMapping(Vid, MappingPlan),
    /// Adds or replaces a meter.
    PutMeter(Vid, u32, MeterPlan),
    /// Removes a meter.
    RemoveMeter(Vid, u32),
    /// Adds or replaces a group.
    PutGroup(Vid, u32, GroupPlan),
    /// Removes a group.
    RemoveGroup(Vid, u32),
    /// Adds a rule or changes its actions.
    PutRule(Vid, Box<RulePlan>),
    /// Removes a rule.
    RemoveRule(Vid, Box<RuleKey>),
    /// Sets a share of a port.
    SetShare(Vid, String, PortShare),
    /// Sets the guaranteed part of the worker's cycles.
    SetCpu(Vid, u16),
    Isolate(Vid, Isolation),
    /// Sets the most TCAM entries for action rules.
    SetLimit(Vid, Option<u32>),
    /// Reserves TCAM entries for action rules.
    Reserve(Vid, usize),
    /// Moves a VDP to another path.
    Migrate(Vid, Path),
    /// Adds a queue of a port or changes its rates.
    PutQueue(Vid, String, u32, QueuePlan),
    /// Removes a queue of a port.
    RemoveQueue(Vid, String, u32),
    /// Makes a VDP an OpenFlow switch, or changes with whom it speaks.
    SetOpenflow(Vid, Box<OpenflowPlan>),
    /// Has a VDP's counters go to another when it is deleted.
    Bequeath(Vid, Vid),
    /// Has the node API show another certificate, or let others in.
    SetIdentity(Box<Identity>),
}

/// The steps from one plan to another.
///
/// # Errors
/// A change that a running data plane can't make; says what to do instead.
pub fn diff(from: &Plan, to: &Plan) -> Result<Vec<Step>, ConfigError> {
    fixed(from, to)?;
    let mut steps = Vec::new();
    if let (Some(old), Some(new)) = (&from.fixed.api, &to.fixed.api)
        && old.tls != new.tls
    {
        steps.push(Step::SetIdentity(Box::new(new.tls.clone())));
    }
    let kept =
        |p: &PortPlan, all: &[PortPlan]| all.iter().any(|o| o.name == p.name && o.spec == p.spec);
    for vdp in from.vdps.values().filter(|v| !to.vdps.contains_key(&v.vid.0)) {
        steps.push(Step::DeleteVdp(vdp.vid));
    }
    let both =
        || to.vdps.values().filter_map(|new| from.vdps.get(&new.vid.0).map(|old| (old, new)));
    for (old, new) in both() {
        same_nature(old, new)?;
        lessen(old, new, &mut steps);
    }
    for p in from.ports.iter().filter(|p| !kept(p, &to.ports)) {
        steps.push(Step::RemovePort(p.name.clone()));
    }
    for p in to.ports.iter().filter(|p| !kept(p, &from.ports)) {
        steps.push(Step::AddPort(p.clone()));
    }
    for (old, new) in both() {
        change(old, new, &mut steps);
    }
    for vdp in to.vdps.values().filter(|v| !from.vdps.contains_key(&v.vid.0)) {
        steps.push(Step::CreateVdp(Box::new(vdp.clone())));
    }
    Ok(steps)
}

/// The steps from one form of a VDP to another.
///
/// # Errors
/// As [`diff`].
pub fn diff_vdp(old: &VdpPlan, new: &VdpPlan) -> Result<Vec<Step>, ConfigError> {
    same_nature(old, new)?;
    let mut steps = Vec::new();
    lessen(old, new, &mut steps);
    change(old, new, &mut steps);
    Ok(steps)
}

/// Sizes and threads are chosen when a data plane is made.
fn fixed(from: &Plan, to: &Plan) -> Result<(), ConfigError> {
    let (a, b) = (&from.fixed, &to.fixed);
    let (c, d) = (&a.config, &b.config);
    let changed = [
        // What the file leaves out is as many as its ports asked for at start.
        ("frames", c.frames != d.frames && to.places.keys.contains_key("frames")),
        ("chunk_bytes", c.chunk_bytes != d.chunk_bytes),
        ("channels", c.channels != d.channels),
        ("channel_frames", c.channel_frames != d.channel_frames),
        ("queue_frames", c.queue_frames != d.queue_frames),
        ("tcam", c.tcam != d.tcam),
        ("drain_limit_ms", c.drain_limit != d.drain_limit),
        ("serving", a.serving != b.serving),
        ("idle", a.idle != b.idle),
        ("cpu", a.cpu != b.cpu),
        ("workers", c.workers != d.workers),
        ("socket", a.socket != b.socket),
    ];
    let keys: Vec<&str> = changed.iter().filter(|(_, is)| *is).map(|(k, _)| *k).collect();
    // What the API shows, and whom it lets in, is not: certificates are renewed.
    let listens = |f: &Fixed| f.api.as_ref().map(|a| a.listen);
    let (what, place) = match keys.first() {
        Some(first) => (format!("[dataplane] {}", keys.join(", ")), to.places.of(first)),
        None if listens(a) == listens(b) => return Ok(()),
        None => ("[api] listen".to_owned(), to.places.keys.get("api").cloned()),
    };
    let text = format!("{what}: fixed while the data plane runs; restart 'weir run' to change it");
    Err(ConfigError { place, text })
}

/// What a VDP is made with and can't be changed without losing its frames.
fn same_nature(old: &VdpPlan, new: &VdpPlan) -> Result<(), ConfigError> {
    let what = match () {
        () if old.fields != new.fields => "its own fields",
        () if old.channel != new.channel => "its channel",
        () if old.worker != new.worker => "its worker",
        () if old.openflow.is_some() && nature(old) != nature(new) => "what it is to controllers",
        () => return Ok(()),
    };
    let text = format!(
        "{}: {what} can't be changed while it runs; give the VDP another vid, or delete it first \
         with 'weir vdp delete {}'",
        new.called(),
        new.vid
    );
    Err(ConfigError { place: new.place.clone(), text })
}

/// What a switch is made with, if it is one.
fn nature(v: &VdpPlan) -> Option<&Nature> {
    v.openflow.as_ref().map(|o| &o.nature)
}

/// Whatever a VDP gives up.
fn lessen(old: &VdpPlan, new: &VdpPlan, steps: &mut Vec<Step>) {
    let vid = new.vid;
    if old.isolation != new.isolation {
        steps.push(Step::Isolate(vid, new.isolation));
    }
    for m in old.mapping.iter().filter(|m| !new.mapping.contains(m)) {
        steps.push(Step::RemoveMapping(vid, m.clone()));
    }
    for key in old.rules.keys().filter(|k| !new.rules.contains_key(k)) {
        steps.push(Step::RemoveRule(vid, Box::new(*key)));
    }
    for (port, id) in old.queues.keys().filter(|k| !new.queues.contains_key(*k)) {
        if new.number_of(port).is_some() {
            steps.push(Step::RemoveQueue(vid, port.clone(), *id));
        }
    }
    if new.cpu_permille < old.cpu_permille {
        steps.push(Step::SetCpu(vid, new.cpu_permille));
    }
    if new.tcam_entries < old.tcam_entries {
        steps.push(Step::Reserve(vid, new.tcam_entries));
    }
}

/// Everything else.
fn change(old: &VdpPlan, new: &VdpPlan, steps: &mut Vec<Step>) {
    let vid = new.vid;
    if old.name != new.name {
        steps.push(Step::SetName(vid, new.name.clone()));
    }
    if old.label != new.label {
        steps.push(Step::SetLabel(vid, new.label.clone()));
    }
    if old.ports != new.ports && vid.0 != 0 {
        steps.push(Step::SetPorts(vid, new.ports.clone()));
    }
    if old.program != new.program {
        steps.push(Step::SetProgram(vid, new.program.clone()));
    }
    if old.tcam_limit != new.tcam_limit {
        steps.push(Step::SetLimit(vid, new.tcam_limit));
    }
    if new.tcam_entries > old.tcam_entries {
        steps.push(Step::Reserve(vid, new.tcam_entries));
    }
    for (id, m) in new.meters.iter().filter(|(id, m)| old.meters.get(id) != Some(*m)) {
        steps.push(Step::PutMeter(vid, *id, m.clone()));
    }
    for (id, g) in new.groups.iter().filter(|(id, g)| old.groups.get(id) != Some(*g)) {
        steps.push(Step::PutGroup(vid, *id, g.clone()));
    }
    let mut rules: Vec<&RulePlan> =
        new.rules.values().filter(|r| old.rules.get(&r.key()).is_none_or(|o| !o.same(r))).collect();
    rules.sort_by_key(|r| r.order);
    for r in rules {
        steps.push(Step::PutRule(vid, Box::new(r.clone())));
    }
    // What no rule names any more goes last.
    for id in old.groups.keys().filter(|id| !new.groups.contains_key(id)) {
        steps.push(Step::RemoveGroup(vid, *id));
    }
    for id in old.meters.keys().filter(|id| !new.meters.contains_key(id)) {
        steps.push(Step::RemoveMeter(vid, *id));
    }
    if old.default != new.default {
        steps.push(Step::SetDefault(vid, new.default.clone()));
    }
    for (port, share) in new.shares.iter().filter(|(p, s)| old.shares.get(*p) != Some(*s)) {
        steps.push(Step::SetShare(vid, port.clone(), *share));
    }
    for port in old.shares.keys().filter(|p| !new.shares.contains_key(*p)) {
        if new.number_of(port).is_some() {
            steps.push(Step::SetShare(vid, port.clone(), PortShare::default()));
        }
    }
    if new.cpu_permille > old.cpu_permille {
        steps.push(Step::SetCpu(vid, new.cpu_permille));
    }
    for m in new.mapping.iter().filter(|m| !old.mapping.contains(m)) {
        steps.push(Step::AddMapping(vid, m.clone()));
    }
    for ((port, id), q) in new.queues.iter().filter(|(k, q)| old.queues.get(*k) != Some(*q)) {
        steps.push(Step::PutQueue(vid, port.clone(), *id, *q));
    }
    // The same certificates from other files are the same to controllers, and are read again from those.
    let origin =
        |v: &VdpPlan| v.openflow.as_ref()?.tls.as_ref()?.origin().map(|o| (o.0.clone(), o.2));
    let differs = old.openflow != new.openflow || origin(old) != origin(new);
    if let Some(o) = new.openflow.as_ref().filter(|_| differs) {
        steps.push(Step::SetOpenflow(vid, Box::new(o.clone())));
    }
    if old.path != new.path {
        steps.push(Step::Migrate(vid, new.path));
    }
}

impl Step {
    /// In words, for the log.
    pub fn told(&self) -> String {
        match self {
            Step::RemovePort(n) => format!("port {n}: removed"),
            Step::AddPort(p) => format!("port {}: {}", p.name, p.spec),
            Step::SetPortLabel(n, Some(l)) => format!("port {n}: kept as {l}"),
            Step::SetPortLabel(n, None) => format!("port {n}: kept by nobody any more"),
            Step::DeleteVdp(v) => format!("VDP {v}: deleted"),
            Step::CreateVdp(v) => format!(
                "{}: {} ports, {} mapping rules, {} rules, {} path{}{}",
                v.called(),
                v.ports.len(),
                v.mapping.len(),
                v.rules.len(),
                path_name(v.path),
                v.worker.map(|w| format!(", worker {w}")).unwrap_or_default(),
                v.program.as_ref().map(|p| format!(", program {}", p.name())).unwrap_or_default()
            ),
            Step::SetIdentity(_) => {
                "node API: connections from now on by what its tls is now".to_owned()
            }
            Step::Bequeath(v, to) => format!("VDP {v}: its counters go to VDP {to}"),
            Step::SetName(v, n) => format!("VDP {v}: now called {n}"),
            Step::SetLabel(v, Some(l)) => format!("VDP {v}: kept as {l}"),
            Step::SetLabel(v, None) => format!("VDP {v}: kept by nobody any more"),
            Step::SetPorts(v, p) => {
                let list: Vec<&str> = p.iter().map(|(n, _)| n.as_str()).collect();
                format!("VDP {v}: ports {}", list.join(", "))
            }
            Step::SetProgram(v, p) => {
                format!("VDP {v}: program {}", p.as_ref().map_or("none", |p| p.name()))
            }
            Step::SetDefault(v, _) => format!("VDP {v}: another default"),
            Step::AddMapping(v, m) => format!("VDP {v}: maps '{}'", m.text),
            Step::RemoveMapping(v, m) => format!("VDP {v}: no longer maps '{}'", m.text),
            Step::PutMeter(v, id, _) => format!("VDP {v}: meter {id}"),
            Step::RemoveMeter(v, id) => format!("VDP {v}: without meter {id}"),
            Step::PutGroup(v, id, _) => format!("VDP {v}: group {id}"),
            Step::RemoveGroup(v, id) => format!("VDP {v}: without group {id}"),
            Step::PutRule(v, r) => format!("VDP {v}: rule with priority {}", r.spec.priority),
            Step::RemoveRule(v, k) => format!("VDP {v}: without a rule of priority {}", k.priority),
            Step::SetShare(v, p, _) => format!("VDP {v}: another share of port {p}"),
            Step::Isolate(v, Isolation::CutOff) => format!("VDP {v}: cut off from its ports"),
            Step::Isolate(v, Isolation::Joined) => format!("VDP {v}: joined to its ports again"),
            Step::SetCpu(v, n) => format!("VDP {v}: {n} permille of the worker guaranteed"),
            Step::SetLimit(v, Some(n)) => format!("VDP {v}: at most {n} TCAM entries"),
            Step::SetLimit(v, None) => format!("VDP {v}: no limit of TCAM entries"),
            Step::Reserve(v, n) => format!("VDP {v}: {n} TCAM entries reserved"),
            Step::Migrate(v, p) => format!("VDP {v}: to the {} path", path_name(*p)),
            Step::PutQueue(v, p, id, _) => format!("VDP {v}: queue {id} of port {p}"),
            Step::RemoveQueue(v, p, id) => format!("VDP {v}: without queue {id} of port {p}"),
            Step::SetOpenflow(v, o) => {
                let all =
                    |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
                let (c, l) = (o.controllers.len(), o.listen.len());
                let id = o.nature.datapath_id;
                format!(
                    "VDP {v}: OpenFlow switch {id:016x}, {}, {}",
                    all(c, "controller"),
                    all(l, "listener")
                )
            }
        }
    }
}

/// A path's name.
pub fn path_name(p: Path) -> &'static str {
    match p {
        Path::Fast => "fast",
        Path::Slow => "slow",
    }
}
