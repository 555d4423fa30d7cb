//! Groups and meters of a slice (1.3): its own numbers, its quota, buckets judged like flows.
//!
//! Room: called by `requests`, and by `flows` when a change is taken back.

use super::ledger::{Asker, Undo, What};
use super::resume::Key;
use super::slice::Slice;
use super::switch::{Out, Switch};
use weir_openflow::model::{
    ErrorCode, GROUP_ALL, GROUP_MAX, GroupCommand, GroupMod, METER_ALL, METER_MAX, Message,
    MeterCommand, MeterMod,
};

impl Switch {
    /// A number that the switch does not use yet, for a group or a meter.
    fn fresh(&mut self) -> u32 {
        // Meters' numbers end first.
        let used = |s: &Slice, n: u32| s.groups.own(n).is_some() || s.meters.own(n).is_some();
        loop {
            self.next_id = if self.next_id >= METER_MAX - 1 { 1 } else { self.next_id + 1 };
            if !self.slices.iter().any(|s| used(s, self.next_id)) {
                return self.next_id;
            }
        }
    }

    /// OFPT_GROUP_MOD.
    ///
    /// # Errors
    /// What the controller is told.
    pub(super) fn group_mod(
        &mut self,
        asker: &Asker,
        m: GroupMod,
        out: &mut Out,
    ) -> Result<(), ErrorCode> {
        let s = self.slices.get(usize::from(asker.slice.0)).ok_or(ErrorCode::GroupEperm)?;
        let was = s.group_mods.get(&m.id).cloned();
        match m.command {
            GroupCommand::Add if was.is_some() => return Err(ErrorCode::GroupExists),
            GroupCommand::Add if m.id > GROUP_MAX => return Err(ErrorCode::GroupInvalid),
            GroupCommand::Add if s.groups.len() >= s.plan.limits.groups => {
                return Err(ErrorCode::GroupOutOfGroups);
            }
            GroupCommand::Modify if was.is_none() => return Err(ErrorCode::GroupUnknown),
            GroupCommand::Delete => {
                let meant = match m.id {
                    GROUP_ALL => s.groups.iter().map(|(own, _)| own).collect(),
                    id if was.is_some() => vec![id],
                    _ => Vec::new(),
                };
                self.delete_groups(asker, &meant, out);
                return Ok(());
            }
            GroupCommand::Add | GroupCommand::Modify => {}
        }
        if m.buckets.len() > s.plan.limits.pieces {
            return Err(ErrorCode::GroupOutOfBuckets);
        }
        let buckets = s.judge(&mut self.space, self.version).buckets(&m.buckets)?;
        let id = match s.groups.physical(m.id) {
            Some(id) => id,
            None => self.fresh(),
        };
        let s = self.slice_mut(asker)?;
        s.groups.insert(m.id, id);
        s.group_mods.insert(m.id, m.clone());
        s.touched.push(Key::Group(id));
        let op = self.ledger.begin(asker.clone(), vec![Undo::Group(m.id, was)], Vec::new());
        let body = Message::GroupMod(GroupMod { id, buckets, ..m });
        self.pass(asker, What::Part(op), body, out);
        Ok(())
    }

    /// Deletes groups; the switch deletes the flows that use them, and says so.
    pub(super) fn delete_groups(&mut self, asker: &Asker, meant: &[u32], out: &mut Out) {
        for own in meant {
            let Ok(s) = self.slice_mut(asker) else { return };
            let was = s.group_mods.remove(own);
            let (Some(id), Some(was)) = (s.groups.remove(*own), was) else { continue };
            s.touched.push(Key::Group(id));
            let op = self.ledger.begin(asker.clone(), Vec::new(), Vec::new());
            let (command, buckets) = (GroupCommand::Delete, Vec::new());
            let body = Message::GroupMod(GroupMod { command, id, kind: was.kind, buckets });
            self.pass(asker, What::Part(op), body, out);
        }
    }

    /// OFPT_METER_MOD.
    ///
    /// # Errors
    /// What the controller is told.
    pub(super) fn meter_mod(
        &mut self,
        asker: &Asker,
        m: MeterMod,
        out: &mut Out,
    ) -> Result<(), ErrorCode> {
        let s = self.slice(asker)?;
        let was = s.meter_mods.get(&m.id).cloned();
        match m.command {
            MeterCommand::Add if was.is_some() => return Err(ErrorCode::MeterExists),
            // Those of the switch itself (OFPM_SLOWPATH, OFPM_CONTROLLER) are everybody's.
            MeterCommand::Add if m.id == 0 || m.id > METER_MAX => {
                return Err(ErrorCode::MeterInvalid);
            }
            MeterCommand::Add if s.meters.len() >= s.plan.limits.meters => {
                return Err(ErrorCode::MeterOutOfMeters);
            }
            MeterCommand::Modify if was.is_none() => return Err(ErrorCode::MeterUnknownMeter),
            MeterCommand::Delete => {
                let meant = match m.id {
                    METER_ALL => s.meters.iter().map(|(own, _)| own).collect(),
                    id if was.is_some() => vec![id],
                    _ => return Err(ErrorCode::MeterUnknownMeter),
                };
                self.delete_meters(asker, &meant, out);
                return Ok(());
            }
            // The specification has no EPERM for meters alone.
            _ if !self.space.writes(asker.slice) => return Err(ErrorCode::RequestEperm),
            MeterCommand::Add | MeterCommand::Modify => {}
        }
        let id = match s.meters.physical(m.id) {
            Some(id) => id,
            None => self.fresh(),
        };
        let s = self.slice_mut(asker)?;
        s.meters.insert(m.id, id);
        s.meter_mods.insert(m.id, m.clone());
        s.touched.push(Key::Meter(id));
        let op = self.ledger.begin(asker.clone(), vec![Undo::Meter(m.id, was)], Vec::new());
        self.pass(asker, What::Part(op), Message::MeterMod(MeterMod { id, ..m }), out);
        Ok(())
    }

    fn delete_meters(&mut self, asker: &Asker, meant: &[u32], out: &mut Out) {
        for own in meant {
            let Ok(s) = self.slice_mut(asker) else { return };
            let was = s.meter_mods.remove(own);
            let (Some(id), Some(was)) = (s.meters.remove(*own), was) else { continue };
            s.touched.push(Key::Meter(id));
            let op = self.ledger.begin(asker.clone(), Vec::new(), Vec::new());
            let (command, bands) = (MeterCommand::Delete, Vec::new());
            let body = Message::MeterMod(MeterMod { command, id, flags: was.flags, bands });
            self.pass(asker, What::Part(op), body, out);
        }
    }

    /// All groups and meters of a slice go.
    pub(super) fn empty_groups(&mut self, asker: &Asker, out: &mut Out) {
        let Ok(s) = self.slice(asker) else { return };
        let groups: Vec<u32> = s.groups.iter().map(|(own, _)| own).collect();
        let meters: Vec<u32> = s.meters.iter().map(|(own, _)| own).collect();
        self.delete_groups(asker, &groups, out);
        self.delete_meters(asker, &meters, out);
    }

    /// The switch has refused a group: it is as it was before.
    pub(super) fn restore_group(&mut self, asker: &Asker, own: u32, was: Option<GroupMod>) {
        let Ok(s) = self.slice_mut(asker) else { return };
        s.touched.extend(s.groups.physical(own).map(Key::Group));
        match was {
            // It never was at the switch.
            None => {
                s.group_mods.remove(&own);
                s.groups.remove(own);
            }
            // A change that was refused has changed nothing there.
            Some(m) if s.groups.physical(own).is_some() => drop(s.group_mods.insert(own, m)),
            Some(_) => {}
        }
    }

    /// The same for a meter.
    pub(super) fn restore_meter(&mut self, asker: &Asker, own: u32, was: Option<MeterMod>) {
        let Ok(s) = self.slice_mut(asker) else { return };
        s.touched.extend(s.meters.physical(own).map(Key::Meter));
        match was {
            None => {
                s.meter_mods.remove(&own);
                s.meters.remove(own);
            }
            Some(m) => drop(s.meter_mods.insert(own, m)),
        }
    }
}
