//! Groups and meters.

use super::rules::{Absent, Former};
use super::*;
use crate::action::{Action, PortNo, Vid};
use crate::compile::{ActionResult, CompileError, Op, ResolvePort, compile_bucket};
use crate::counters::Tally;
use crate::execute::InvalidTtl;
use crate::group::{Group, follows};
use crate::meter::Meter;
use crate::plane::DataPlane;
use crate::vdp::{AskedGroup, Watched};
use std::sync::Arc;

/// The groups that an action result goes on with.
fn groups_in(r: &ActionResult) -> Vec<u32> {
    let named = |op: &Op| match op {
        Op::Group(id) => Some(*id),
        _ => None,
    };
    r.ops().filter_map(named).collect()
}

/// What a group goes on with or watches.
fn behind(g: &Group<Arc<ActionResult>>) -> Vec<u32> {
    follows(g, &|r: &Arc<ActionResult>| groups_in(r))
}

/// What a group got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupCounters {
    /// All of it.
    pub counted: Tally,
    /// Each bucket, in order.
    pub buckets: Vec<Tally>,
}

/// What a meter got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeterCounters {
    /// All of it.
    pub counted: Tally,
    /// What each band decided, in order.
    pub bands: Vec<Tally>,
}

impl DataPlane {
    /// Adds or replaces a group.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn put_group(
        &mut self,
        vid: Vid,
        id: u32,
        group: Group<Vec<Action>>,
    ) -> Result<(), ControlError> {
        if self.desk.is_some() {
            return self.everywhere(move |p| p.put_group(vid, id, group.clone()));
        }
        let written = group.clone();
        self.install_group(vid, id, group, Absent::Refused)?;
        let v = self.vdp_mut(vid)?;
        v.asked.groups.insert(id, AskedGroup { written, watched: Watched::Plane });
        Ok(())
    }

    fn install_group(
        &mut self,
        vid: Vid,
        id: u32,
        group: Group<Vec<Action>>,
        absent: Absent,
    ) -> Result<(), ControlError> {
        let (mut failed, mut former) = (None, false);
        let v = self.vdp(vid)?;
        let mut one = |actions: &[Action]| {
            let r = match compile_bucket(actions, v) {
                Err(CompileError::NoSuchPort(_)) if absent == Absent::Kept => {
                    former = true;
                    compile_bucket(actions, &Former(v))?
                }
                other => other?,
            };
            Self::check_objects(v, &r)?;
            self.refuse_apart(vid, &r)?;
            Ok(r)
        };
        let mut compiled = group.map(|actions| match one(&actions) {
            Ok(r) => Arc::new(r),
            Err(e) => {
                failed = Some(e);
                Arc::new(ActionResult::drop())
            }
        });
        if let Some(e) = failed {
            return Err(e);
        }
        let slow = compiled.share();
        let v = self.vdp_mut(vid)?;
        if former {
            v.edge.names_former();
        }
        let groups = &mut v.fast.groups;
        let before = groups.get(id).map(behind).unwrap_or_default();
        let names = |id| groups.get(id).map(behind);
        let judged = v.asked.chains.put(id, &before, &behind(&compiled), &names);
        judged.map_err(|chain| ControlError::Chain { vid, chain })?;
        groups.insert(id, compiled);
        self.post(vid, move |s| {
            s.tables.get_mut().groups.insert(id, slow);
        })
    }
    /// Removes a group. Rules that name it lose their frames there, counted.
    ///
    /// # Errors
    /// No such VDP or group.
    pub fn remove_group(&mut self, vid: Vid, id: u32) -> Result<(), ControlError> {
        if self.desk.is_some() {
            return self.everywhere(move |p| p.remove_group(vid, id));
        }
        let v = self.vdp_mut(vid)?;
        let Some(gone) = v.fast.groups.remove(id) else {
            let why = "there is none";
            return Err(ControlError::Object { what: "group", id, vid, why });
        };
        v.asked.groups.remove(&id);
        let names = |id| v.fast.groups.get(id).map(behind);
        v.asked.chains.remove(id, &behind(&gone), &names);
        self.post(vid, move |s| {
            s.tables.get_mut().groups.remove(id);
        })
    }
    /// As [`DataPlane::put_group`], with watched ports in the VDP's own numbers. One that the VDP
    /// has not is never live, until it has it: [`DataPlane::relink`]; `absent` says what becomes of outputs to such a port.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn put_own_group(
        &mut self,
        vid: Vid,
        id: u32,
        group: Group<Vec<Action>>,
        absent: Absent,
    ) -> Result<(), ControlError> {
        if self.desk.is_some() {
            return self.everywhere(move |p| p.put_own_group(vid, id, group.clone(), absent));
        }
        let v = self.vdp(vid)?;
        let written = group.clone();
        let group = group.watching(|no| v.port(PortNo(no)).map_or(u32::MAX, |p| p.0.into()));
        self.install_group(vid, id, group, absent)?;
        let v = self.vdp_mut(vid)?;
        v.asked.groups.insert(id, AskedGroup { written, watched: Watched::Own });
        Ok(())
    }
    /// What a group and, in order, its buckets got since it was put there, on both paths.
    ///
    /// # Errors
    /// No such VDP or group.
    pub fn group_counters(&self, vid: Vid, id: u32) -> Result<GroupCounters, ControlError> {
        let why = "there is none";
        let g = self.vdp(vid)?.fast.groups.get(id);
        let g = g.ok_or(ControlError::Object { what: "group", id, vid, why })?;
        if let Some(desk) = &self.desk {
            return Ok(desk.group_counters(vid, id));
        }
        Ok(GroupCounters { counted: g.counted(), buckets: g.taken() })
    }
    /// What a meter got and, in order, its bands decided since it was put there, on both paths.
    ///
    /// # Errors
    /// No such VDP or meter.
    pub fn meter_counters(&self, vid: Vid, id: u32) -> Result<MeterCounters, ControlError> {
        let why = "there is none";
        let m = self.vdp(vid)?.fast.meters.get(id);
        let m = m.ok_or(ControlError::Object { what: "meter", id, vid, why })?;
        if let (Some(desk), Some(worker)) = (&self.desk, self.worker_of(vid)) {
            let read = desk.one(worker, move |p| p.meter_counters(vid, id));
            return read.unwrap_or_else(|| Ok(MeterCounters::default()));
        }
        Ok(MeterCounters { counted: m.counted(), bands: m.bands().map(|(_, t)| t).collect() })
    }
    /// Says what becomes of a VDP's frames whose TTL can't be decremented.
    ///
    /// # Errors
    /// No such VDP.
    pub fn set_invalid_ttl(&mut self, vid: Vid, to: InvalidTtl) -> Result<(), ControlError> {
        if self.desk.is_some() {
            return self.everywhere(move |p| p.set_invalid_ttl(vid, to));
        }
        self.vdp_mut(vid)?.fast.invalid_ttl = to;
        self.post(vid, move |s| s.tables.get_mut().invalid_ttl = to)
    }
    /// Adds or replaces a meter: one limit, whichever path frames take.
    ///
    /// # Errors
    /// No such VDP.
    pub fn put_meter(&mut self, vid: Vid, id: u32, meter: Meter) -> Result<(), ControlError> {
        let why = "each would let the whole rate pass";
        self.takes_a_pin(vid, "a meter", why)?;
        if self.desk.is_some() {
            return self.everywhere(move |p| p.put_meter(vid, id, meter.clone()));
        }
        let mut meter = meter;
        let slow = meter.share();
        let v = self.vdp_mut(vid)?;
        match v.fast.meters.get(id) {
            Some(old) => meter.is_asked_as(old),
            None if v.default.meters().any(|m| m == id) => meter.is_asked_by_default(),
            None => {}
        }
        v.fast.meters.insert(id, meter);
        self.post(vid, move |s| {
            s.tables.get_mut().meters.insert(id, slow);
        })
    }
    /// Removes a meter. Frames of rules that still name it pass; such rules are best taken out before, since a meter that is put
    /// there again knows nothing of them, and frames of a burst may come to it in another order than they came in.
    ///
    /// # Errors
    /// No such VDP or meter.
    pub fn remove_meter(&mut self, vid: Vid, id: u32) -> Result<(), ControlError> {
        if self.desk.is_some() {
            return self.everywhere(move |p| p.remove_meter(vid, id));
        }
        if self.vdp_mut(vid)?.fast.meters.remove(id).is_none() {
            let why = "there is none";
            return Err(ControlError::Object { what: "meter", id, vid, why });
        }
        self.post(vid, move |s| {
            s.tables.get_mut().meters.remove(id);
        })
    }
}
