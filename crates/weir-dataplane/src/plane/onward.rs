//! Stages 2 and 3 once more, for frames that rules send on to later tables: table by table, and of a burst all frames at a
//! time, so that what each reads is on its way while others compute.
//!
//! Room: called by `alike` and `mixed`, for frames of which table 0's rule wants no more than that they are changed and go on
//! ([`bits::ONWARD`]), that a meter (`metered`) is asked first, or that they leave by a group (`grouped`); action sets that they get on their
//! way are `carrying`'s. A short cut for what `execute` does frame by frame: whatever else a rule wants, in whichever table, is for
//! [`DataPlane::process`].

use super::alike::{Leaving, Place, change, complete};
use super::metered::UnderWay;
use super::mixed::ask_several;
use super::*;
use crate::compile::{ActionResult, Op, bits};
use crate::execute::InvalidTtl;
use crate::packet::{Packet, Stale};
use crate::processing;
use weir_classify::RuleId;

/// Whether a frame with this result does nothing but go on, changed perhaps. Whoever wants to hear of an invalid TTL takes
/// the long way.
#[inline(always)]
fn goes_on(r: &ActionResult, invalid_ttl: &InvalidTtl) -> bool {
    r.is_onward() && *invalid_ttl == InvalidTtl::Drop
}

/// What is known when the frames' rules are carried out: the tables that come next, which frames go on there, and which of these
/// are best looked up with others, a bit each.
struct Step {
    tables: [u8; BURST],
    on: u64,
    several: u64,
}

impl DataPlane {
    /// Takes those of these frames, a bit each, that table 0's rules send on as far as rules do, and from there out where
    /// that is a common way; and those that meet a meter there and leave then. Keys are known as far as [`Work::depths`] says; of
    /// frames that have gone on and are left for [`DataPlane::process`] they are whole then.
    #[inline(never)]
    pub(super) fn go_on(&mut self, in_port: PortId, frames: u64, leaving: Leaving) -> Leaving {
        self.work.carrying.none();
        let (mut leaving, mut left) = (leaving, 0);
        let mut going = self.depart(in_port, frames, &mut left, &mut leaving);
        // Each turn leads to later tables.
        while going != 0 {
            let step = self.step(in_port, going);
            if step.on != going {
                leaving.otherwise();
            }
            self.find_later(&step);
            going = self.arrive(in_port, &step, &mut left, &mut leaving);
        }
        leaving
    }

    /// Counts those of these frames whose rules of table 0 can be carried out here; those that leave behind a meter leave. Says
    /// which go on.
    fn depart(
        &mut self,
        in_port: PortId,
        frames: u64,
        left: &mut u64,
        leaving: &mut Leaving,
    ) -> u64 {
        let w = &mut self.work;
        let (mut going, mut metered, mut grouped) = (0, 0, 0);
        for (i, f) in (0..BURST).zip(w.burst.as_slice()) {
            let (1, Slot::Rule(slot)) = (frames >> i & 1, w.slots[i]) else { continue };
            let Some(v) = vdp_mut(&mut self.vdps, w.vids[i]) else { continue };
            let table = v.fast.tables.first_mut();
            match table.entry(slot) {
                Some(e) if e.result.meter().is_some() => {
                    metered |= 1 << i;
                    continue;
                }
                Some(e) if goes_on(&e.result, &v.fast.invalid_ttl) => {}
                Some(e) if e.result.group().is_some() => {
                    grouped |= 1 << i;
                    continue;
                }
                how => {
                    // What is dropped comes to no meter.
                    let drops = how.is_none_or(|e| e.result.bits & bits::DROP != 0);
                    *left |= u64::from(!drops) << i;
                    leaving.otherwise();
                    continue;
                }
            }
            let Some(e) = table.hit(slot, f.len(), self.now) else { continue };
            v.spent.grant(e.result.cost.into());
            self.interval_units += u64::from(e.result.cost);
            w.slots[i] = Slot::At { table: 0, slot };
            going |= 1 << i;
        }
        if grouped != 0 {
            self.by_groups(in_port, grouped, leaving);
        }
        if metered != 0 {
            let all = UnderWay::new(frames, &[0; BURST]);
            going |= self.meter(in_port, metered, &all, left, leaving);
        }
        going
    }

    /// Carries out what the frames' rules say but for the last, and asks for what lookups in the tables that come next read.
    fn step(&mut self, in_port: PortId, going: u64) -> Step {
        let w = &mut self.work;
        let mut step = Step { tables: [0; BURST], on: 0, several: 0 };
        for (i, f) in (0..BURST).zip(w.burst.as_mut_slice()) {
            let (1, Slot::At { table, slot }) = (going >> i & 1, w.slots[i]) else { continue };
            let Some(v) = vdp_mut(&mut self.vdps, w.vids[i]) else { continue };
            let tables = &mut v.fast.tables;
            let rule = tables.get(table.into()).and_then(|t| Some(&t.entry(slot)?.result));
            let Some((r, (n, changes))) = rule.and_then(|r| Some((r, r.onward()?))) else {
                continue;
            };
            w.carrying.goes_on(i, r, table, slot);
            let then = tables.get(n.into()).map_or(Depth::Ethernet, |t| Depth::of(&t.classifier));
            let need = if changes.is_empty() { then.max(Depth::Ethernet) } else { Depth::Whole };
            let key = &mut w.keys[i];
            if w.depths[i] < need {
                w.layers[i] = complete(&v.fields, f, v.edge.at(in_port).no, key);
                w.depths[i] = Depth::Whole;
            }
            if !changes.is_empty() {
                let mut p = Packet { frame: f, key, layers: w.layers[i], stale: Stale::No };
                if let Err(why) = apply_all(changes, &mut p).and_then(|()| p.refresh_all(&v.fields))
                {
                    w.slots[i] = Slot::Drop(why);
                    continue;
                }
                w.layers[i] = p.layers;
            }
            (w.slots[i], step.tables[i]) = (Slot::DefaultOf(n), n);
            step.on |= 1 << i;
            let Some(t) = tables.get_mut(n.into()) else { continue };
            if t.takes_several() {
                step.several |= 1 << i;
            } else {
                w.probes[i] = t.probe(&w.keys[i]);
            }
        }
        step
    }

    /// Which rules take these frames in the tables that come next.
    fn find_later(&mut self, step: &Step) {
        let Step { tables: at, on: going, several } = *step;
        let w = &mut self.work;
        let mut found = [None; BURST];
        if several != 0 {
            let mut tables = [None; BURST];
            for i in each(several) {
                let v = self.vdps.get(usize::from(w.vids[i].0)).and_then(Option::as_ref);
                tables[i] = v.and_then(|v| v.fast.tables.get(at[i].into()));
            }
            found = ask_several(several, &tables, &w.keys, &mut w.probes);
        }
        let mut far = false;
        for i in each(going) {
            let Some(v) = vdp_mut(&mut self.vdps, w.vids[i]) else { continue };
            let Some(t) = v.fast.tables.get_mut(at[i].into()) else { continue };
            let found = match several >> i & 1 {
                0 => t.resolve(&w.keys[i], w.probes[i]),
                _ => found[i].map(|RuleId(slot)| slot),
            };
            match found {
                Some(slot) => {
                    t.prefetch(slot);
                    far |= t.is_far(slot);
                    w.slots[i] = Slot::At { table: at[i], slot };
                }
                None => t.miss(),
            }
        }
        if far {
            self.warm_programs();
        }
    }

    /// Counts the frames at the rules that took them; those that leave in a common way leave. Says which go on again.
    fn arrive(
        &mut self,
        in_port: PortId,
        step: &Step,
        left: &mut u64,
        leaving: &mut Leaving,
    ) -> u64 {
        let w = &mut self.work;
        let carrying = w.carrying.frames();
        let (mut on, mut metered, mut carry, mut grouped) = (0, 0, 0, 0);
        for (i, f) in (0..BURST).zip(w.burst.as_mut_slice()) {
            if step.on >> i & 1 == 0 {
                continue;
            }
            let Some(v) = vdp_mut(&mut self.vdps, w.vids[i]) else { continue };
            let (invalid_ttl, edge, fields) = (&v.fast.invalid_ttl, &v.edge, &v.fields);
            let place = Place { in_port, invalid_ttl, depth: w.depths[i], edge, fields };
            let drops = match w.slots[i] {
                Slot::At { table, slot } => {
                    let Some(t) = v.fast.tables.get_mut(table.into()) else { continue };
                    let Some(e) = t.hit(slot, f.len(), self.now) else { continue };
                    let r = &e.result;
                    if carrying >> i & 1 == 1 {
                        carry |= 1 << i;
                        continue;
                    }
                    if r.meter().is_some() {
                        metered |= 1 << i;
                        continue;
                    }
                    if goes_on(r, invalid_ttl) {
                        on |= 1 << i;
                        continue;
                    }
                    if let Some(done) = change(r, f, &mut w.keys[i], &w.layers[i], &place) {
                        w.slots[i] = leaving.by(r.port, done, f.len());
                        continue;
                    }
                    if r.group().is_some() {
                        grouped |= 1 << i;
                        continue;
                    }
                    let drops = r.bits & bits::DROP != 0;
                    *left |= u64::from(!drops) << i;
                    drops
                }
                _ => v.miss.bits & bits::DROP != 0,
            };
            leaving.otherwise();
            if w.depths[i] != Depth::Whole && !drops {
                w.layers[i] = complete(fields, f, edge.at(in_port).no, &mut w.keys[i]);
            }
        }
        if carry != 0 {
            let next = self.carry_sets(in_port, carry, left, leaving);
            (on, metered) = (on | next.on, metered | next.metered);
            grouped |= next.grouped;
        }
        if grouped != 0 {
            self.by_groups(in_port, grouped, leaving);
        }
        if metered != 0 {
            let all = UnderWay::new(step.on, &step.tables);
            on |= self.meter(in_port, metered, &all, left, leaving);
        }
        on
    }
}

/// Changes a frame.
#[inline]
pub(super) fn apply_all<'a>(
    changes: impl IntoIterator<Item = &'a Op>,
    p: &mut Packet<'_>,
) -> Result<(), DropReason> {
    for op in changes {
        match op {
            Op::Change(c) => processing::apply(c, p)?,
            Op::Metadata(value, mask) => processing::metadata::write(*value, *mask, p.key),
            _ => {}
        }
    }
    Ok(())
}
