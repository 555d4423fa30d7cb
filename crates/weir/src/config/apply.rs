//! Carries steps out on a data plane, and keeps the plan of what runs beside it.
//!
//! Room: between two bursts, on the thread that owns the data plane; also on a scratch data plane with
//! ports that swallow, where a whole configuration is tried before anything real is touched.

mod opening;
mod work;

use super::diff::{Step, diff};
use super::error::{ConfigError, Place};
use super::failed::{Failed, Reason};
use super::homes::Homes;
use super::plan::{Plan, PortPlan, RulePlan, VdpPlan};
use super::program::ProgramPlan;
use super::vdp_steps::{
    attach, create, put_group, put_meter, put_queue, put_rule, reserve, resolve,
};
use opening::{Ready, close, open_device};
use std::collections::BTreeMap;
use weir_classify::Field;
use weir_dataplane::{Config, ControlError, DataPlane, MappingRule, PortShare, Vid};
use weir_io::af_xdp::Umem;
use weir_io::memory::Memory;
use weir_io::open::{Kind, PortSpec};
use weir_io::patience::{Again, patiently};
use weir_io::vxlan::Settings;
use weir_packet::{PoolError, PortId};
pub use work::Work;

/// Which devices ports get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Devices {
    /// Those that the plan names.
    Real,
    /// Ones that swallow: nothing outside the process is touched.
    Scratch,
}

/// What runs: the plan, and what it became.
#[derive(Debug)]
pub struct Model {
    /// The plan as it is carried out now.
    pub plan: Plan,
    /// Port numbers by name.
    pub ids: BTreeMap<String, PortId>,
    /// VDPs that another node processes, and the ports by which each hands frames on, in the order of its own.
    pub away: BTreeMap<u16, Vec<String>>,
    devices: Devices,
    /// One for each worker's region.
    umems: BTreeMap<usize, Umem>,
    /// Which worker is at home at a port.
    homes: Homes,
    /// Far ends of memory wires whose second port has not come yet.
    wires: BTreeMap<String, Memory>,
    /// Devices for ports, by name, in the place of those that the plan names.
    pub supplied: BTreeMap<String, Memory>,
    /// What people should know of the steps carried out.
    pub notes: Vec<String>,
}

impl Model {
    /// A data plane with nothing but its default VDP, for `plan`'s sizes.
    pub fn new(plan: &Plan, devices: Devices) -> Self {
        Self {
            plan: Plan::empty(plan.fixed.clone()),
            ids: BTreeMap::new(),
            away: BTreeMap::new(),
            devices,
            umems: BTreeMap::new(),
            homes: Homes::default(),
            wires: BTreeMap::new(),
            supplied: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    /// A program, or what stands for it where nothing outside the process is touched.
    pub(super) fn as_far_as_tried<'a>(&self, p: &'a ProgramPlan) -> &'a ProgramPlan {
        match (self.devices, p) {
            // Its frames are those that the router itself waits for.
            (Devices::Scratch, ProgramPlan::Container(_)) => &ProgramPlan::Sink,
            _ => p,
        }
    }

    /// What forwards for a VDP, if something does.
    pub fn part(&self, of: Vid) -> Option<&VdpPlan> {
        self.plan.part(of)
    }

    /// Whether a VDP is a virtual router's, or one of its bridges.
    pub fn is_routers(&self, v: &VdpPlan) -> bool {
        let its = |n: &String| self.plan.ports.iter().any(|p| p.name == *n && p.router().is_some());
        v.part_of.is_some() || self.part(v.vid).is_some() || v.ports.iter().any(|(n, _)| its(n))
    }

    /// What the AF_XDP ports of one worker share.
    fn umem(&mut self, worker: usize) -> Umem {
        let rings = self.plan.fixed.rings;
        self.umems.entry(worker).or_insert_with(|| Umem::with_rings(rings)).clone()
    }

    /// The name of a port.
    pub fn port_name(&self, id: PortId) -> Option<&str> {
        self.ids.iter().find(|(_, i)| **i == id).map(|(n, _)| n.as_str())
    }
}

/// Tries a whole plan on a data plane of its own.
///
/// # Errors
/// [`Failed`], with the place in the file.
pub fn rehearse(plan: &Plan) -> Result<(), Failed> {
    scratch(plan).map(|_| ())
}

/// A data plane of its own that does what a plan says, with ports that swallow.
///
/// # Errors
/// [`Failed`], with the place in the file.
pub fn scratch(plan: &Plan) -> Result<(DataPlane, Model), Failed> {
    let config = Config { frames: 512, chunk_bytes: 2048, ..plan.fixed.config.clone() };
    // The sizes themselves are tried as they are, and given back at once.
    let fail = |e| Failed {
        place: plan.places.of(key_of(&e)),
        whose: "[dataplane]".to_owned(),
        reason: Reason::Control(e),
        after: 0,
    };
    weir_packet::Pool::new(plan.fixed.config.frames, plan.fixed.config.chunk_bytes)
        .map_err(|e| fail(e.into()))?;
    let mut plane = DataPlane::new(config).map_err(fail)?;
    let mut model = Model::new(plan, Devices::Scratch);
    let steps = diff(&model.plan, &with_all_ports(plan)).map_err(|e: ConfigError| Failed {
        place: e.place,
        whose: "configuration".to_owned(),
        reason: Reason::Config(e.text),
        after: 0,
    })?;
    // Whatever was changed was changed on the scratch data plane.
    run_here(&mut plane, &mut model, steps).map_err(|e| Failed { after: 0, ..e })?;
    Ok((plane, model))
}

/// The key of `[dataplane]` that a data plane could not be made by.
fn key_of(e: &ControlError) -> &'static str {
    match e {
        ControlError::Pool(PoolError::ChunkSize(_)) => "chunk_bytes",
        ControlError::Pool(_) => "frames",
        ControlError::Tcam(_) => "tcam",
        ControlError::Size { what, .. } => what,
        _ => "",
    }
}

/// A plan in which ports that are away are there.
fn with_all_ports(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    for name in plan.vdps.values().flat_map(|v| v.ports.iter()).map(|(n, _)| n) {
        if !plan.ports.iter().any(|p| p.name == *name) {
            let spec = PortSpec { kind: Kind::Null, target: String::new() };
            plan.ports.push(PortPlan { name: name.clone(), spec, label: None, place: None });
        }
    }
    plan
}

/// Carries out steps in order. Where an interface is another's, or is only just given back, nothing is done and all is handed
/// back, to be tried again after [`Work::wait`]; the data plane goes on as it is meanwhile.
///
/// # Errors
/// The first step that failed. Devices are opened before anything is changed, so a device that
/// can't be opened leaves all as it was; what else can fail was found by [`rehearse`].
pub fn run(plane: &mut DataPlane, model: &mut Model, work: Work) -> Result<Option<Work>, Failed> {
    // Several workers add ports one by one: no frame comes before all that is for it is there.
    let ports = work.steps.iter().any(|s| matches!(s, Step::AddPort(_) | Step::RemovePort(_)));
    if ports {
        plane.rest_ports(true);
    }
    let done = run_all(plane, model, work);
    if ports {
        plane.rest_ports(false);
    }
    done
}

fn run_all(
    plane: &mut DataPlane,
    model: &mut Model,
    mut work: Work,
) -> Result<Option<Work>, Failed> {
    let (again, told) = (work.patience.begin(), model.notes.len());
    model.homes.expect(&model.plan, &work.steps, plane.workers());
    let mut opened = BTreeMap::new();
    if let Err((port, e)) = open_free(plane, model, &work, &mut opened, again) {
        // What no port has is nowhere counted, so it is not kept.
        close(plane, opened);
        if again == Again::Never || !e.is_busy() {
            return Err(e);
        }
        model.notes.truncate(told);
        return Ok(Some(Work { waits: Some(port), ..work }));
    }
    for (after, s) in work.steps.into_iter().enumerate() {
        if let Err(e) = step(plane, model, s, &mut opened) {
            close(plane, opened);
            return Err(Failed { after, ..e });
        }
    }
    Ok(None)
}

/// Opens what ports that are to be added have, where it is not another's that goes in the same change. Says which can't be.
fn open_free(
    plane: &mut DataPlane,
    model: &mut Model,
    work: &Work,
    opened: &mut BTreeMap<String, Ready>,
    again: Again,
) -> Result<(), (String, Failed)> {
    let going: Vec<&PortPlan> = work
        .steps
        .iter()
        .filter_map(|s| match s {
            Step::RemovePort(n) => model.plan.ports.iter().find(|p| p.name == *n),
            _ => None,
        })
        .collect();
    // A device that is about to be let go can't be opened a second time before.
    let free = |p: &PortPlan| !going.iter().any(|g| g.spec.meets(&p.spec));
    let mut first: Vec<&PortPlan> = work
        .steps
        .iter()
        .filter_map(|s| match s {
            Step::AddPort(p) if free(p) => Some(p),
            _ => None,
        })
        .collect();
    first.sort_by_key(|p| work.waits.as_ref() != Some(&p.name));
    for p in first {
        let device = open_device(plane, model, p, again);
        opened.insert(p.name.clone(), device.map_err(|e| (p.name.clone(), e))?);
    }
    Ok(())
}

/// Carries out steps of a data plane that does nothing else meanwhile.
///
/// # Errors
/// As [`run`].
pub fn run_here(plane: &mut DataPlane, model: &mut Model, steps: Vec<Step>) -> Result<(), Failed> {
    let mut left = Some(Work::new(steps));
    while let Some(work) = left {
        work.wait();
        left = run(plane, model, work)?;
    }
    Ok(())
}

/// One step: the data plane first, then the plan.
fn step(
    plane: &mut DataPlane,
    model: &mut Model,
    s: Step,
    opened: &mut BTreeMap<String, Ready>,
) -> Result<(), Failed> {
    match s {
        Step::AddPort(p) => {
            let device = match opened.remove(&p.name) {
                Some(d) => d,
                // What another port has just let go of. Here and now: no frame meets what is half done.
                None => patiently(Failed::is_busy, |again| open_device(plane, model, &p, again))?,
            };
            return add_port(plane, model, p, device);
        }
        Step::CreateVdp(v) => return create(plane, model, *v),
        _ => {}
    }
    let vid = vid_of(&s);
    let whose = match (&s, vid.and_then(|v| model.plan.vdps.get(&v.0))) {
        (Step::RemovePort(n) | Step::SetPortLabel(n, _), _) => format!("port '{n}'"),
        (_, Some(v)) => v.called(),
        (_, None) => String::new(),
    };
    let place = match &s {
        Step::PutRule(_, r) => r.place.clone(),
        _ => vid.and_then(|v| model.plan.vdps.get(&v.0)).and_then(|v| v.place.clone()),
    };
    small_step(plane, model, s).map_err(|reason| Failed { place, whose, reason, after: 0 })
}

fn vid_of(s: &Step) -> Option<Vid> {
    match s {
        Step::RemovePort(_)
        | Step::AddPort(_)
        | Step::SetPortLabel(..)
        | Step::SetIdentity(_)
        | Step::CreateVdp(_) => None,
        Step::DeleteVdp(v)
        | Step::SetName(v, _)
        | Step::SetLabel(v, _)
        | Step::SetPorts(v, _)
        | Step::SetProgram(v, _)
        | Step::SetDefault(v, _)
        | Step::AddMapping(v, _)
        | Step::RemoveMapping(v, _)
        | Step::PutMeter(v, ..)
        | Step::RemoveMeter(v, _)
        | Step::PutGroup(v, ..)
        | Step::RemoveGroup(v, _)
        | Step::PutRule(v, _)
        | Step::RemoveRule(v, _)
        | Step::SetShare(v, ..)
        | Step::SetCpu(v, _)
        | Step::Isolate(v, _)
        | Step::SetLimit(v, _)
        | Step::Reserve(v, _)
        | Step::Migrate(v, _)
        | Step::PutQueue(v, ..)
        | Step::RemoveQueue(v, ..)
        | Step::Bequeath(v, _)
        | Step::SetOpenflow(v, _) => Some(*v),
    }
}

fn of(plan: &mut Plan, vid: Vid) -> Result<&mut VdpPlan, Reason> {
    plan.vdps.get_mut(&vid.0).ok_or(Reason::Control(ControlError::NoVdp(vid)))
}

fn small_step(plane: &mut DataPlane, model: &mut Model, s: Step) -> Result<(), Reason> {
    if let Step::RemovePort(name) = &s {
        return remove_port(plane, model, name);
    }
    let Model { plan, ids, .. } = model;
    match s {
        Step::AddPort(_) | Step::CreateVdp(_) | Step::RemovePort(_) => Ok(()),
        Step::SetIdentity(new) => {
            plan.fixed.api.iter_mut().for_each(|a| a.tls = (*new).clone());
            Ok(())
        }
        Step::SetPortLabel(name, label) => {
            if let Some(p) = plan.ports.iter_mut().find(|p| p.name == name) {
                p.label = label;
            }
            Ok(())
        }
        Step::DeleteVdp(vid) => {
            plane.delete_vdp(vid)?;
            plan.vdps.remove(&vid.0);
            Ok(())
        }
        Step::Bequeath(vid, heir) => Ok(plane.bequeath(vid, heir)?),
        Step::SetName(vid, name) => {
            plane.set_name(vid, &name)?;
            of(plan, vid)?.name = name;
            Ok(())
        }
        Step::SetLabel(vid, label) => {
            of(plan, vid)?.label = label;
            Ok(())
        }
        Step::SetPorts(vid, ports) => {
            let v = of(plan, vid)?;
            v.ports = ports;
            attach(plane, ids, v)
        }
        Step::SetProgram(vid, program) => {
            let v = of(plan, vid)?;
            let kept = program.as_ref().filter(|p| v.has_program(p, plane.workers()));
            let built = kept.map(|p| p.build()).transpose().map_err(Reason::Config)?;
            plane.set_program(vid, built)?;
            v.program = program;
            Ok(())
        }
        Step::SetDefault(vid, actions) => {
            plane.set_default(vid, &actions)?;
            of(plan, vid)?.default = actions;
            Ok(())
        }
        Step::AddMapping(vid, m) => {
            let v = of(plan, vid)?;
            if let Some(rule) = resolve(&m, v, ids)? {
                plane.add_mapping(vid, &rule)?;
            }
            if !v.mapping.contains(&m) {
                v.mapping.push(m);
            }
            Ok(())
        }
        Step::RemoveMapping(vid, m) => {
            let v = of(plan, vid)?;
            if let Some(rule) = resolve(&m, v, ids)? {
                plane.remove_mapping(vid, &rule)?;
            }
            v.mapping.retain(|o| *o != m);
            Ok(())
        }
        Step::PutMeter(vid, id, m) => {
            put_meter(plane, vid, id, &m)?;
            of(plan, vid)?.meters.insert(id, m);
            Ok(())
        }
        Step::RemoveMeter(vid, id) => {
            plane.remove_meter(vid, id)?;
            of(plan, vid)?.meters.remove(&id);
            Ok(())
        }
        Step::PutGroup(vid, id, g) => {
            put_group(plane, vid, id, &g, ids)?;
            of(plan, vid)?.groups.insert(id, g);
            Ok(())
        }
        Step::RemoveGroup(vid, id) => {
            plane.remove_group(vid, id)?;
            of(plan, vid)?.groups.remove(&id);
            Ok(())
        }
        Step::PutRule(vid, r) => {
            let v = of(plan, vid)?;
            put_rule(plane, vid, &r)?;
            let order = v.rules.get(&r.key()).map_or(v.rules.len(), |o| o.order);
            v.rules.insert(r.key(), RulePlan { order, ..*r });
            Ok(())
        }
        Step::RemoveRule(vid, k) => {
            plane.remove_rule(vid, k.table, &k.matcher, k.priority)?;
            of(plan, vid)?.rules.remove(&*k);
            Ok(())
        }
        Step::SetShare(vid, port, share) => {
            if let Some(id) = ids.get(&port) {
                plane.set_share(vid, *id, share)?;
            }
            let shares = &mut of(plan, vid)?.shares;
            match share == PortShare::default() {
                true => shares.remove(&port),
                false => shares.insert(port, share),
            };
            Ok(())
        }
        Step::Isolate(vid, isolation) => {
            plane.isolate(vid, isolation)?;
            of(plan, vid)?.isolation = isolation;
            Ok(())
        }
        Step::SetCpu(vid, permille) => {
            plane.set_cpu(vid, permille)?;
            of(plan, vid)?.cpu_permille = permille;
            Ok(())
        }
        Step::SetLimit(vid, limit) => {
            plane.set_action_limit(vid, limit)?;
            of(plan, vid)?.tcam_limit = limit;
            Ok(())
        }
        Step::Reserve(vid, entries) => {
            reserve(plane, vid, entries)?;
            of(plan, vid)?.tcam_entries = entries;
            Ok(())
        }
        Step::Migrate(vid, path) => {
            plane.migrate(vid, path)?;
            of(plan, vid)?.path = path;
            Ok(())
        }
        Step::PutQueue(vid, port, id, q) => {
            let v = of(plan, vid)?;
            put_queue(plane, v, ids, (&port, id), q)?;
            v.queues.insert((port, id), q);
            Ok(())
        }
        Step::RemoveQueue(vid, port, id) => {
            let v = of(plan, vid)?;
            if let Some(no) = v.number_of(&port).filter(|_| ids.contains_key(&port)) {
                plane.remove_queue(vid, no, id)?;
            }
            v.queues.remove(&(port, id));
            Ok(())
        }
        // The plan is all: the switches' thread is told of it when the change is done.
        Step::SetOpenflow(vid, o) => {
            let v = of(plan, vid)?;
            o.fits(v.workers(plane.workers())).map_err(Reason::Config)?;
            v.openflow = Some(*o);
            Ok(())
        }
    }
}

fn add_port(
    plane: &mut DataPlane,
    model: &mut Model,
    p: PortPlan,
    ready: Ready,
) -> Result<(), Failed> {
    let failed = |reason, place: &Option<Place>, whose| Failed {
        place: place.clone(),
        whose,
        reason,
        after: 0,
    };
    let added = match ready {
        Ready::AtHome(device, home) => plane.add_port_at(&p.name, device, home),
        Ready::Queues(devices) => plane.add_port_queues(&p.name, devices),
    };
    let id = added.map_err(|e| failed(e.into(), &p.place, format!("port '{}'", p.name)))?;
    if p.label.is_some() {
        let whose = || format!("port '{}'", p.name);
        plane.withhold(id).map_err(|e| failed(e.into(), &None, whose()))?;
    }
    model.ids.insert(p.name.clone(), id);
    for v in model.plan.vdps.values().filter(|v| v.vid.0 != 0 && v.number_of(&p.name).is_some()) {
        attach(plane, &model.ids, v).map_err(|e| failed(e, &v.place, v.called()))?;
    }
    for v in model.plan.vdps.values().filter(|v| v.vid.0 != 0) {
        for m in &v.mapping {
            let rule = resolve(m, v, &model.ids).map_err(|e| failed(e, &v.place, v.called()))?;
            if let Some(rule) = rule.filter(|r| names_port(r, id)) {
                plane
                    .add_mapping(v.vid, &rule)
                    .map_err(|e| failed(e.into(), &v.place, v.called()))?;
            }
        }
    }
    if let Some(share) = model.plan.vdps.get(&0).and_then(|v| v.shares.get(&p.name)) {
        let whose = || "VDP 0 (default)".to_owned();
        plane.set_share(Vid(0), id, *share).map_err(|e| failed(e.into(), &None, whose()))?;
    }
    let taken = handed_on_by(plane, model, &p.name, id);
    let taken = taken.map_err(|(e, whose)| failed(e.into(), &p.place, whose));
    let name = p.name.clone();
    model.plan.ports.push(p);
    if taken.is_err() {
        // Who asks again is refused again: it must not seem to be there, by which nobody's frames go.
        let _ = remove_port(plane, model, &name);
        return taken;
    }
    stand_for(plane, model, &name);
    Ok(())
}

/// Has ends of tunnels tell the other ends the links of the ports that they name, as far as these are there and either is this one.
fn stand_for(plane: &mut DataPlane, model: &Model, one: &str) {
    let says = format!("link={one}");
    let concerned = |p: &&PortPlan| {
        p.spec.kind == Kind::Vxlan && (p.name == one || p.spec.target.contains(&says))
    };
    for p in model.plan.ports.iter().filter(concerned) {
        let told = p.spec.target.parse::<Settings>().ok().and_then(|s| s.link);
        let (Some(id), Some(name)) = (model.ids.get(&p.name), told) else { continue };
        // One that is not there is down: it keeps the number that it had.
        if let Some(of) = model.ids.get(&name) {
            // The port is there: it has a number.
            let _ = plane.stand_for(*id, Some(*of));
        }
    }
}

/// Has VDPs that are away hand frames on by a port that has come anew, where they did by one of its name.
fn handed_on_by(
    plane: &mut DataPlane,
    model: &Model,
    name: &str,
    id: PortId,
) -> Result<(), (ControlError, String)> {
    for (vid, names) in &model.away {
        // One that was deleted is not away any more.
        let Some(v) = model.plan.vdps.get(vid) else { continue };
        if let Some(nth) = names.iter().position(|n| n == name) {
            plane.replace_partner(v.vid, nth, id).map_err(|e| (e, v.called()))?;
        }
    }
    Ok(())
}

fn names_port(rule: &MappingRule, id: PortId) -> bool {
    rule.matcher.mask().looks_at(Field::InPort)
        && rule.matcher.value().get(Field::InPort) == u128::from(id.0)
}

/// Removes a port. VDPs keep its name, so that they have it again when it comes back.
fn remove_port(plane: &mut DataPlane, model: &mut Model, name: &str) -> Result<(), Reason> {
    let Some(id) = model.ids.get(name).copied() else {
        let list: Vec<&str> = model.ids.keys().map(String::as_str).collect();
        let text = format!("there is none of that name; there are: {}", list.join(", "));
        return Err(Reason::Config(text));
    };
    for v in model.plan.vdps.values() {
        for m in &v.mapping {
            if let Some(rule) = resolve(m, v, &model.ids)?.filter(|r| names_port(r, id)) {
                // It can't be gone: it was added with the port.
                let _ = plane.remove_mapping(v.vid, &rule);
            }
        }
    }
    plane.remove_port(id)?;
    model.ids.remove(name);
    model.plan.ports.retain(|p| p.name != name);
    // The far end of a wire that it was alone at is nobody's now, and has all of the wire's frames.
    model.wires.retain(|_, far| !far.is_abandoned());
    Ok(())
}
