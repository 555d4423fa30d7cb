//! Frames that leave by a group, in bursts: those to which one bucket gives a common way.
//!
//! Room: called by `onward`, for rules that are nothing but a group, and for action sets that are. Copies, groups behind groups and buckets that do more than
//! change a frame which leaves by a port are for [`DataPlane::process`]. What groups count has no order, so that frames come to them in any.

use super::accounts::is_live;
use super::alike::{Known, Leaving, Place, change};
use super::*;
use crate::compile::ActionResult;
use crate::execute::Writer;
use crate::group::{Chosen, Group, GroupKind, pick};
use crate::matching::{Groups, Tables};
use crate::numbered::Named;
use crate::processing::flow_hash;
use std::sync::Arc;

/// Groups of a VDP from which on they are asked for ahead.
const FAR_GROUPS: usize = 256;

/// The group to which the rule that took a frame, or the action set that it carries, sends it.
fn named(tables: &Tables, slot: Slot, carrying: Option<Writer>) -> Option<Named> {
    let rule = |table: u8, slot| Some(&tables.tables.get(table.into())?.entry(slot)?.result);
    match (slot.rule()?, carrying) {
        (_, Some(w)) => rule(w.table, w.slot)?.group_by_set(),
        ((table, slot), None) => rule(table, slot)?.group(),
    }
}

/// What a bucket does, if it is one bucket that gets a frame with this key.
fn bucket<'g>(
    groups: &'g Groups,
    g: &'g Group<Arc<ActionResult>>,
    key: &FlowKey,
    is_live: &dyn Fn(u32) -> bool,
) -> Option<(Chosen, &'g ActionResult)> {
    let hash = if g.kind() == GroupKind::Select { flow_hash(key) } else { 0 };
    let chosen = pick(groups, g, hash, is_live);
    let i = match chosen {
        Chosen::One(i) => i,
        Chosen::All if g.len() == 1 => 0,
        Chosen::All | Chosen::None => return None,
    };
    Some((chosen, &**g.payload(i)?))
}

impl DataPlane {
    /// Takes those of these frames, a bit each, whose group gives them a common way out there, counted at the rules that took them, where they have not
    /// been.
    #[inline(never)]
    pub(super) fn by_groups(&mut self, in_port: PortId, frames: u64, leaving: &mut Leaving) {
        self.warm_groups(frames);
        let w = &mut self.work;
        for (i, f) in (0..BURST).zip(w.burst.as_mut_slice()) {
            let (1, slot) = (frames >> i & 1, w.slots[i]) else { continue };
            let Some(v) = vdp_mut(&mut self.vdps, w.vids[i]) else { continue };
            let (invalid_ttl, edge, fields) = (&v.fast.invalid_ttl, &v.edge, &v.fields);
            let at = Place { in_port, invalid_ttl, depth: w.depths[i], edge, fields };
            let (key, layers, depth) = (&mut w.keys[i], &mut w.layers[i], &mut w.depths[i]);
            let mut known = Known { key, layers, depth };
            let counted = matches!(slot, Slot::At { .. });
            let len = f.len();
            let to = named(&v.fast, slot, w.carrying.writer(i));
            let group = to.and_then(|to| Some((to, v.fast.groups.at(to)?)));
            let by = group.and_then(|(to, g)| {
                if g.kind() == GroupKind::Select {
                    known.complete(f, &at);
                }
                let live =
                    |p: u32| u16::try_from(p).is_ok_and(|p| is_live(&self.ports, edge, PortId(p)));
                let (chosen, r) = bucket(&v.fast.groups, g, known.key, &live)?;
                let at = Place { depth: *known.depth, ..at };
                Some((to, chosen, r.port, change(r, f, known.key, known.layers, &at)?))
            });
            let Some((to, chosen, port, done)) = by else {
                leaving.otherwise();
                if counted {
                    known.complete(f, &at);
                }
                continue;
            };
            if let Some(g) = v.fast.groups.at_mut(to) {
                g.count(chosen, len);
            }
            if let Slot::Rule(slot) = slot
                && let Some(e) = v.fast.tables.first_mut().hit(slot, len, self.now)
            {
                let cost = u64::from(e.result.cost);
                v.spent.grant(cost);
                self.interval_units += cost;
            }
            w.slots[i] = leaving.by(port, done, f.len());
        }
    }

    /// Many groups are many lines far away, each found by way of others: those of these frames, a bit each, are asked for before the first
    /// is needed.
    #[inline(always)]
    fn warm_groups(&self, frames: u64) {
        let w = &self.work;
        let groups = |i: usize| {
            let v = self.vdps.get(usize::from(w.vids[i].0))?.as_deref()?;
            Some(&v.fast).filter(|t| t.groups.len() >= FAR_GROUPS)
        };
        if !each(frames).any(|i| groups(i).is_some()) {
            return;
        }
        let mut places = [None; BURST];
        for i in each(frames) {
            let Some(t) = groups(i) else { continue };
            let Some(at) = named(t, w.slots[i], w.carrying.writer(i)) else { continue };
            t.groups.prefetch_place(at);
            places[i] = Some((&t.groups, at));
        }
        let found = places.map(|p| p.and_then(|(groups, at)| groups.at(at)));
        found.iter().flatten().for_each(|g| g.prefetch());
        found.iter().flatten().for_each(|g| g.prefetch_first());
    }
}
