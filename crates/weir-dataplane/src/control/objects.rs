//! Groups and meters.

use super::*;
use crate::action::{Action, Vid};
use crate::compile::{ActionResult, Op, compile_bucket};
use crate::group::{Group, check_chains};
use crate::meter::Meter;
use crate::plane::DataPlane;
use std::sync::Arc;

/// The groups that an action result goes on with.
fn groups_in(r: &ActionResult) -> Vec<u32> {
    let named = |op: &Op| match op {
        Op::Group(id) => Some(*id),
        _ => None,
    };
    r.ops().filter_map(named).collect()
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
        let mut failed = None;
        let v = self.vdp(vid)?;
        let one = |actions: &[Action]| {
            let r = compile_bucket(actions, v)?;
            Self::check_objects(v, &r)?;
            Ok(r)
        };
        let compiled = group.map(|actions| match one(&actions) {
            Ok(r) => Arc::new(r),
            Err(e) => {
                failed = Some(e);
                Arc::new(ActionResult::drop())
            }
        });
        if let Some(e) = failed {
            return Err(e);
        }
        let groups = &mut self.vdp_mut(vid)?.fast.groups;
        let before = groups.insert(id, compiled.clone());
        if let Err(chain) = check_chains(groups, |r| groups_in(r)) {
            match before {
                Some(old) => groups.insert(id, old),
                None => groups.remove(&id),
            };
            return Err(ControlError::Chain { vid, chain });
        }
        self.post(vid, move |s| {
            s.tables.groups.insert(id, compiled);
        })
    }
    /// Removes a group. Rules that name it lose their frames there, counted.
    ///
    /// # Errors
    /// No such VDP or group.
    pub fn remove_group(&mut self, vid: Vid, id: u32) -> Result<(), ControlError> {
        if self.vdp_mut(vid)?.fast.groups.remove(&id).is_none() {
            let why = "there is none";
            return Err(ControlError::Object { what: "group", id, vid, why });
        }
        self.post(vid, move |s| {
            s.tables.groups.remove(&id);
        })
    }
    /// Adds or replaces a meter. On the slow path it counts for itself.
    ///
    /// # Errors
    /// No such VDP.
    pub fn put_meter(&mut self, vid: Vid, id: u32, meter: Meter) -> Result<(), ControlError> {
        self.vdp_mut(vid)?.fast.meters.insert(id, meter.clone());
        self.post(vid, move |s| {
            s.tables.meters.insert(id, meter);
        })
    }
    /// Removes a meter.
    ///
    /// # Errors
    /// No such VDP or meter.
    pub fn remove_meter(&mut self, vid: Vid, id: u32) -> Result<(), ControlError> {
        if self.vdp_mut(vid)?.fast.meters.remove(&id).is_none() {
            let why = "there is none";
            return Err(ControlError::Object { what: "meter", id, vid, why });
        }
        self.post(vid, move |s| {
            s.tables.meters.remove(&id);
        })
    }
}
