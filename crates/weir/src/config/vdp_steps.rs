//! What belongs to a VDP, put into a data plane: its ports, rules, groups, meters, shares and mapping.
//!
//! Room: between two bursts, on the thread that owns the data plane. Called by `apply.rs`.

use super::apply::Model;
use super::error::Place;
use super::failed::{Failed, Reason};
use super::openflow::QueuePlan;
use super::plan::{GroupPlan, MappingPlan, MeterPlan, RulePlan, VdpPlan};
use std::collections::BTreeMap;
use weir_dataplane::{
    ControlError, DataPlane, MappingRule, Placed, PortNo, QueueRate, VdpSpec, Vid,
};
use weir_packet::PortId;

/// Grows a VDP's slices to hold `entries`, or gives back what is not in use beyond them.
pub(super) fn reserve(plane: &mut DataPlane, vid: Vid, entries: usize) -> Result<(), Reason> {
    let wanted = u32::try_from(entries).unwrap_or(u32::MAX);
    Ok(plane.reserve_actions(vid, wanted)?)
}

/// A mapping rule in the data plane's numbers; `None` while a port that it names is away.
pub(super) fn resolve(
    m: &MappingPlan,
    v: &VdpPlan,
    ids: &BTreeMap<String, PortId>,
) -> Result<Option<MappingRule>, Reason> {
    use weir_dataplane::flowtext::FlowErrorKind;
    match m.resolve(ids, &v.fields) {
        Ok(matcher) => Ok(Some(MappingRule { matcher, priority: m.priority })),
        Err(e) if e.kind == FlowErrorKind::UnknownPort => Ok(None),
        Err(e) => Err(Reason::Config(format!("mapping rule '{}': {e}", m.text))),
    }
}

pub(super) fn put_meter(
    plane: &mut DataPlane,
    vid: Vid,
    id: u32,
    m: &MeterPlan,
) -> Result<(), Reason> {
    let meter = m.build().map_err(|e| Reason::Config(format!("meter {id}: {e}")))?;
    Ok(plane.put_meter(vid, id, meter)?)
}

pub(super) fn put_group(
    plane: &mut DataPlane,
    vid: Vid,
    id: u32,
    g: &GroupPlan,
    ids: &BTreeMap<String, PortId>,
) -> Result<(), Reason> {
    let group = g.build(ids).map_err(|e| Reason::Config(format!("group {id}: {e}")))?;
    Ok(plane.put_group(vid, id, group)?)
}

pub(super) fn put_rule(
    plane: &mut DataPlane,
    vid: Vid,
    r: &RulePlan,
) -> Result<Placed, ControlError> {
    plane.add_rule(vid, r.table, &r.spec, r.placement)
}

/// Sets a queue of a port; one that is away gets it when it comes.
pub(super) fn put_queue(
    plane: &mut DataPlane,
    v: &VdpPlan,
    ids: &BTreeMap<String, PortId>,
    (port, id): (&str, u32),
    q: QueuePlan,
) -> Result<(), ControlError> {
    let Some(no) = v.number_of(port).filter(|_| ids.contains_key(port)) else { return Ok(()) };
    let rate = QueueRate { min_bps: q.min_bps, max_bps: q.max_bps };
    plane.set_queue(v.vid, no, id, rate)
}

/// The VDP's ports that are there, by its numbers.
fn present(v: &VdpPlan, ids: &BTreeMap<String, PortId>) -> Vec<(PortNo, PortId)> {
    v.ports.iter().filter_map(|(n, no)| ids.get(n).map(|id| (*no, *id))).collect()
}

/// Gives a VDP the ports that its plan names and that are there. Its rules name ports by the VDP's
/// numbers and are compiled to the data plane's, so they are put in again.
pub(super) fn attach(
    plane: &mut DataPlane,
    ids: &BTreeMap<String, PortId>,
    v: &VdpPlan,
) -> Result<(), Reason> {
    plane.set_ports(v.vid, present(v, ids))?;
    for (port, share) in &v.shares {
        if let (Some(id), Some(_)) = (ids.get(port), v.number_of(port)) {
            plane.set_share(v.vid, *id, *share)?;
        }
    }
    for ((port, id), q) in &v.queues {
        put_queue(plane, v, ids, (port, *id), *q)?;
    }
    // What sends to a port that is away stays as it is and loses its frames, counted.
    for (id, g) in &v.groups {
        let _ = put_group(plane, v.vid, *id, g, ids);
    }
    for r in v.rules_in_order() {
        let _ = put_rule(plane, v.vid, r);
    }
    match v.openflow {
        None => {
            let _ = plane.set_default(v.vid, &v.default);
            // The rules of a virtual router's routes, which its plan does not name.
            plane.relink(v.vid)?;
        }
        // What frames without a flow get is the switch's to say.
        // The rules and groups that controllers have made, for the same reason.
        Some(_) => plane.relink(v.vid)?,
    }
    Ok(())
}

/// Gives a VDP that was emptied what its section says of rules, groups and meters. What can't be had stays
/// away, as when its port is.
pub fn refill(plane: &mut DataPlane, model: &Model, vid: Vid) {
    let Some(v) = model.plan.vdps.get(&vid.0) else { return };
    for (id, m) in &v.meters {
        let _ = put_meter(plane, vid, *id, m);
    }
    for (id, g) in &v.groups {
        let _ = put_group(plane, vid, *id, g, &model.ids);
    }
    for r in v.rules_in_order() {
        let _ = put_rule(plane, vid, r);
    }
}

/// Makes a VDP with all that belongs to it, or nothing of it.
pub(super) fn create(plane: &mut DataPlane, model: &mut Model, v: VdpPlan) -> Result<(), Failed> {
    let failed = |reason, place: &Option<Place>| Failed {
        place: place.clone(),
        whose: v.called(),
        reason,
        after: 0,
    };
    let program = v.program.as_ref().filter(|p| v.has_program(p, plane.workers()));
    let program = program.map(|p| model.as_far_as_tried(p).build()).transpose();
    let fits = v.openflow.as_ref().map(|o| o.fits(v.workers(plane.workers()))).transpose();
    fits.map_err(|e| failed(Reason::Config(e), &v.place))?;
    let spec = VdpSpec {
        ports: present(&v, &model.ids),
        program: program.map_err(|e| failed(Reason::Config(e), &v.place))?,
        channel: v.channel,
        path: v.path,
        fields: v.fields.clone(),
        action_entries: v.tcam_entries,
        action_limit: v.tcam_limit,
        cpu_permille: v.cpu_permille,
        worker: v.worker,
        ..VdpSpec::new(v.vid, &v.name)
    };
    plane.create_vdp(spec).map_err(|e| failed(e.into(), &v.place))?;
    match fill(plane, model, &v) {
        Ok(()) => {
            model.away.remove(&v.vid.0);
            model.plan.vdps.insert(v.vid.0, v);
            Ok(())
        }
        Err((reason, place)) => {
            // It was just made, so it is there to be deleted.
            let _ = plane.delete_vdp(v.vid);
            Err(failed(reason, &place))
        }
    }
}

/// Gives a new VDP its rules, shares and, last, its frames.
fn fill(
    plane: &mut DataPlane,
    model: &mut Model,
    v: &VdpPlan,
) -> Result<(), (Reason, Option<Place>)> {
    plane.isolate(v.vid, v.isolation).map_err(|e| (e.into(), v.place.clone()))?;
    for (id, m) in &v.meters {
        put_meter(plane, v.vid, *id, m).map_err(|e| (e, v.place.clone()))?;
    }
    for (id, g) in &v.groups {
        put_group(plane, v.vid, *id, g, &model.ids).map_err(|e| (e, v.place.clone()))?;
    }
    let mut spilled = 0;
    for r in v.rules_in_order() {
        let placed = put_rule(plane, v.vid, r).map_err(|e| (e.into(), r.place.clone()))?;
        spilled +=
            usize::from(r.placement == weir_dataplane::Placement::Spill && placed == Placed::Slow);
    }
    if spilled > 0 {
        let text = "rules are on the slow path, because the TCAM has no entry left for them";
        model.notes.push(format!("{}: {spilled} {text}", v.called()));
    }
    let at_vdp = |e: ControlError| (Reason::from(e), v.place.clone());
    plane.set_default(v.vid, &v.default).map_err(at_vdp)?;
    for (port, share) in &v.shares {
        if let Some(id) = model.ids.get(port) {
            plane.set_share(v.vid, *id, *share).map_err(at_vdp)?;
        }
    }
    for ((port, id), q) in &v.queues {
        put_queue(plane, v, &model.ids, (port, *id), *q).map_err(at_vdp)?;
    }
    for m in &v.mapping {
        if let Some(rule) = resolve(m, v, &model.ids).map_err(|e| (e, v.place.clone()))? {
            plane.add_mapping(v.vid, &rule).map_err(at_vdp)?;
        }
    }
    Ok(())
}
