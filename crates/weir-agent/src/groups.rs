//! Groups (1.3 §5.6, §6.5, §7.3.4.2): checked, kept, given to the data plane; deleted with the flows
//! that use them.

use crate::actions::{Named, Place, World, turn};
use crate::apply::code_of;
use crate::plane::Plane;
use crate::request::{Cx, Stop};
use crate::state::{Group, Known, follows};
use crate::switch::Switch;
use std::collections::BTreeSet;
use weir_dataplane::{
    Absent, Action, Bucket as Way, ChainError, ControlError, Group as Ways, GroupKind as Kind,
    MAX_BUCKETS, MAX_CHAIN,
};
use weir_openflow::model::{
    Bucket, ErrorCode, GROUP_ALL, GROUP_ANY, GROUP_MAX, GroupCommand, GroupKind, GroupMod, Port,
    RemovedReason,
};

/// How often groups may be named, all in all, by those that a group leads to.
const MAX_BEHIND: usize = MAX_CHAIN * MAX_BUCKETS;

/// Groups or meters that one call of the data plane is about: frames wait for it.
pub(crate) const AT_ONCE: usize = 128;

impl Switch {
    pub(crate) fn group_mod<P: Plane>(
        &mut self,
        m: GroupMod,
        absent: Absent,
        cx: &mut Cx<'_, P>,
    ) -> Result<(), Stop> {
        self.flush(cx)?;
        let there = self.state.groups.contains_key(&m.id);
        match m.command {
            GroupCommand::Add if there => Err(ErrorCode::GroupExists.into()),
            GroupCommand::Add if m.id > GROUP_MAX => Err(ErrorCode::GroupInvalid.into()),
            GroupCommand::Add if self.state.groups.len() >= self.config.limits.groups as usize => {
                Err(ErrorCode::GroupOutOfGroups.into())
            }
            GroupCommand::Modify if m.id > GROUP_MAX => Err(ErrorCode::GroupInvalid.into()),
            GroupCommand::Modify if !there => Err(ErrorCode::GroupUnknown.into()),
            GroupCommand::Add | GroupCommand::Modify => self.put_group(m, absent, cx),
            GroupCommand::Delete if m.id == GROUP_ALL => self.delete_groups(cx),
            GroupCommand::Delete if m.id > GROUP_MAX => Err(ErrorCode::GroupInvalid.into()),
            GroupCommand::Delete if there => self.delete_group(m.id, cx),
            GroupCommand::Delete => Ok(()),
        }
    }

    fn put_group<P: Plane>(
        &mut self,
        m: GroupMod,
        absent: Absent,
        cx: &mut Cx<'_, P>,
    ) -> Result<(), Stop> {
        let ways = self.turn_group(&m, absent)?;
        self.check_loop(&m)?;
        let (vid, id) = (self.config.vid, m.id);
        cx.plane.with(move |dp| dp.put_own_group(vid, id, ways, absent))?.map_err(|e| match e {
            ControlError::Chain { chain: ChainError::Loop(_), .. } => ErrorCode::GroupLoop,
            ControlError::Chain { .. } => ErrorCode::GroupChainingUnsupported,
            e => code_of(e),
        })?;
        let before = self.state.groups.get(&id);
        let created = before.map_or(cx.now, |g| g.created);
        self.state.groups.insert(id, Group { kind: m.kind, buckets: m.buckets, created });
        Ok(())
    }

    /// Checks a group's buckets and turns them.
    fn turn_group(&self, m: &GroupMod, absent: Absent) -> Result<Ways<Vec<Action>>, ErrorCode> {
        if m.buckets.len() > MAX_BUCKETS {
            return Err(ErrorCode::GroupOutOfBuckets);
        }
        if m.kind == GroupKind::Indirect && m.buckets.len() != 1 {
            return Err(ErrorCode::GroupInvalid);
        }
        let mut ways = Vec::with_capacity(m.buckets.len());
        for b in &m.buckets {
            let mut way = Way::new(self.turn_bucket(m, b, absent)?);
            way.weight = b.weight;
            way.watch_port = (b.watch_port != Port::ANY).then_some(b.watch_port.0);
            way.watch_group = (b.watch_group != GROUP_ANY).then_some(b.watch_group);
            ways.push(way);
        }
        let kind = match m.kind {
            GroupKind::All => Kind::All,
            GroupKind::Select => Kind::Select,
            GroupKind::Indirect => Kind::Indirect,
            GroupKind::FastFailover => Kind::FastFailover,
        };
        Ways::new(kind, ways).map_err(|_| ErrorCode::GroupInvalid)
    }

    fn turn_bucket(
        &self,
        m: &GroupMod,
        b: &Bucket,
        absent: Absent,
    ) -> Result<Vec<Action>, ErrorCode> {
        let world = Known { state: &self.state, absent };
        let unwatched = b.watch_port == Port::ANY && b.watch_group == GROUP_ANY;
        // Fields that mean nothing for a kind (§6.5), and failover without a sign of life.
        let weighs = m.kind != GroupKind::Select && b.weight != 0;
        if weighs || m.kind == GroupKind::FastFailover && unwatched {
            return Err(ErrorCode::GroupInvalid);
        }
        if b.watch_port != Port::ANY && !world.has_port(b.watch_port) {
            return Err(ErrorCode::GroupBadWatch);
        }
        if follows(b).any(|g| g == m.id) {
            return Err(ErrorCode::GroupLoop);
        }
        if b.watch_group != GROUP_ANY && !self.state.groups.contains_key(&b.watch_group) {
            return Err(ErrorCode::GroupBadWatch);
        }
        let mut named = Named::default();
        turn(&b.actions, Place::Rule, &world, &mut named)
    }

    /// Whether the group, as it shall be, leads back to itself or to too much: the data plane looks at all that it leads
    /// to, and frames wait.
    fn check_loop(&self, m: &GroupMod) -> Result<(), ErrorCode> {
        let (mut seen, mut names) = (BTreeSet::new(), 0);
        let mut now: BTreeSet<u32> = m.buckets.iter().flat_map(follows).collect();
        while !now.is_empty() {
            if now.contains(&m.id) {
                return Err(ErrorCode::GroupLoop);
            }
            seen.extend(now.iter().copied());
            let mut next = BTreeSet::new();
            for g in now.iter().filter_map(|g| self.state.groups.get(g)) {
                let behind = g.follows();
                names += behind.len();
                // How far is counted by the data plane.
                if names > MAX_BEHIND {
                    return Err(ErrorCode::GroupChainingUnsupported);
                }
                next.extend(behind.into_iter().filter(|g| !seen.contains(g)));
            }
            now = next;
        }
        Ok(())
    }

    fn delete_group<P: Plane>(&mut self, id: u32, cx: &mut Cx<'_, P>) -> Result<(), Stop> {
        if self.state.groups.values().flat_map(|g| &g.buckets).flat_map(follows).any(|g| g == id) {
            return Err(ErrorCode::GroupChained.into());
        }
        let flows = self.flows.doing(|b| b.groups.contains(&id));
        self.remove_flows(flows.into(), RemovedReason::GroupDelete, cx)?;
        self.state.groups.remove(&id);
        let vid = self.config.vid;
        // It was there; and if it was not, it is not.
        let _ = cx.plane.with(move |dp| dp.remove_group(vid, id))?;
        Ok(())
    }

    fn delete_groups<P: Plane>(&mut self, cx: &mut Cx<'_, P>) -> Result<(), Stop> {
        let flows = self.flows.doing(|b| !b.groups.is_empty());
        self.remove_flows(flows.into(), RemovedReason::GroupDelete, cx)?;
        let ids: Vec<u32> = std::mem::take(&mut self.state.groups).into_keys().collect();
        let vid = self.config.vid;
        for ids in ids.chunks(AT_ONCE) {
            let ids = ids.to_vec();
            cx.plane.with(move |dp| {
                for id in ids {
                    // As above.
                    let _ = dp.remove_group(vid, id);
                }
            })?;
        }
        Ok(())
    }
}
