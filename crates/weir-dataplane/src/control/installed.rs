//! What is installed for a VDP: everything that decides where its frames may go.
//!
//! Room: reading only, between two bursts. Called by whoever verifies.

use super::*;
use crate::action::{Action, PortNo, Vid};
use crate::execute::InvalidTtl;
use crate::meter::BandKind;
use crate::plane::DataPlane;
use crate::userfield::UserFields;
use std::sync::mpsc::Receiver;
use weir_packet::PortId;

/// Changes by control are numbered, so that who looks again need not read what is as it was.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    last: u64,
    layout: u64,
}

impl Changes {
    /// The number of one more change.
    pub(crate) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
    /// The same, of one that concerns ports, mapping rules, or which VDPs there are.
    pub(crate) fn layout(&mut self) -> u64 {
        self.layout = self.next();
        self.layout
    }
    /// The number of the last one that concerned ports, mapping rules, or which VDPs there are.
    pub(crate) fn last_layout(&self) -> u64 {
        self.layout
    }
}

/// Which changes were the last. Numbers grow; one that is the same says that nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastChanges {
    /// To ports, VDPs' ports, mapping rules, or to which VDPs there are and their names.
    pub layout: u64,
    /// To each VDP, in the order of [`DataPlane::vids`].
    pub vdps: Vec<(Vid, u64)>,
}

/// A VDP as it is installed.
#[derive(Debug)]
pub struct Installed {
    /// Its id.
    pub vid: Vid,
    /// Which change was the last that was made to it.
    pub touched: u64,
    /// Its name.
    pub name: String,
    /// Its ports.
    pub ports: Vec<(PortNo, PortId)>,
    /// Fields of its own.
    pub fields: UserFields,
    /// What a frame without a rule gets, as it was asked for.
    pub default: Vec<Action>,
    /// Its groups: the actions of each bucket, as they were asked for.
    pub groups: Vec<(u32, Vec<Vec<Action>>)>,
    /// Meters that change what they let pass.
    pub remarking: Vec<u32>,
    /// What becomes of frames whose TTL can't be decremented.
    pub invalid_ttl: InvalidTtl,
    /// Rules of the fast path.
    pub rules: Vec<RuleView>,
    /// Rules of the slow path, its copies of others among them.
    pub slow: Receiver<Vec<RuleView>>,
}

impl DataPlane {
    /// Which changes were the last.
    pub fn last_changes(&self) -> LastChanges {
        let there = self.vdps.iter().flatten().filter(|v| !v.phase.is_deleting());
        LastChanges {
            layout: self.changes.layout,
            vdps: there.map(|v| (v.vid, v.touched)).collect(),
        }
    }
    /// The VDPs there are, those that are being deleted left out.
    pub fn vids(&self) -> Vec<Vid> {
        let there = self.vdps.iter().flatten().filter(|v| !v.phase.is_deleting());
        there.map(|v| v.vid).collect()
    }
    /// What is installed for a VDP.
    ///
    /// # Errors
    /// No such VDP.
    pub fn installed(&self, vid: Vid) -> Result<Installed, ControlError> {
        let v = self.vdp(vid)?;
        let (rules, slow) = self.rules(vid)?;
        let groups = v.fast.groups.ids().into_iter().map(|id| {
            let asked = v.asked.groups.get(&id);
            let buckets = asked.iter().flat_map(|g| g.written.buckets());
            (id, buckets.map(|b| b.payload.clone()).collect())
        });
        let remarks = |m: &crate::meter::Meter| {
            m.bands().any(|(b, _)| matches!(b.kind, BandKind::DscpRemark(_)))
        };
        let meters = v.fast.meters.iter().filter(|(_, m)| remarks(m));
        Ok(Installed {
            vid,
            touched: v.touched,
            name: v.name.to_string(),
            ports: v.ports.to_vec(),
            fields: v.fields.clone(),
            default: v.asked.default.tell(<[Action]>::to_vec),
            groups: groups.collect(),
            remarking: meters.map(|(id, _)| id).collect(),
            invalid_ttl: v.fast.invalid_ttl,
            rules,
            slow,
        })
    }
}
