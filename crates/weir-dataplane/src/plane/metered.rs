//! Rules that begin with a meter, in bursts: whether frames may come to it here, and what is then left to do with them.
//!
//! Room: called by `onward`; `stages` asks for meters ahead here, too. A meter takes frames in the order in which they came,
//! whatever their rules do. Here they come to it table by table, so a frame does only where that is the same order ([`pass`]); else
//! it is for [`DataPlane::process`].

use super::alike::{Known, Leaving, Place};
use super::*;
use crate::compile::{ActionResult, bits};
use crate::execute::{InvalidTtl, apply_changes};
use crate::matching::Meters;
use crate::meter::{Meter, Verdict};
use crate::packet::{Packet, Stale};
use crate::processing::set_tos;

/// Meters of a VDP from which on they are asked for ahead.
const FAR_METERS: usize = 1024;

/// A burst's frames that are under way in tables here, a bit each, and where they have got to.
pub(super) struct UnderWay<'a> {
    frames: u64,
    tables: &'a [u8; BURST],
    /// The table where all of them are.
    all_at: Option<u8>,
}

impl<'a> UnderWay<'a> {
    pub(super) fn new(frames: u64, tables: &'a [u8; BURST]) -> Self {
        let first = each(frames).map(|i| tables[i]).next();
        let all_at = first.filter(|n| each(frames).all(|i| tables[i] == *n));
        Self { frames, tables, all_at }
    }
    /// Whether the `i`-th frame may come to a meter of its table, `n`, now, though frames before it have not gone all their way: whether those of
    /// its VDP's are all at that table, and none of those that are left for the long way (`left`) came before it.
    fn is_turn(&self, i: usize, n: u8, left: u64, vids: &[Vid; BURST]) -> bool {
        let of_its = |frames: u64| each(frames).filter(|j| vids[*j] == vids[i]);
        let left = left & ((1 << i) - 1);
        (left == 0 || of_its(left).next().is_none())
            && (self.all_at == Some(n) || of_its(self.frames).all(|j| self.tables[j] == n))
    }
}

/// What becomes of a frame at such a rule.
enum Met {
    /// It goes on to a later table.
    On,
    /// It leaves, or is dropped.
    Done(Result<(), DropReason>),
}

/// Takes a frame to the meter that `r`, of table `n`, begins with and, where it leaves then, out. `None`: that can't be done here, and
/// nothing has happened. The meter must be that table's alone: what is asked behind all tables is no table's, so that frames that no
/// rule takes come to none of these.
fn pass(
    r: &ActionResult,
    n: u8,
    meters: &mut Meters,
    f: &mut Frame,
    now: Nanos,
    known: &mut Known<'_>,
    at: &Place<'_>,
) -> Option<Met> {
    let on = r.is_onward();
    // Whoever wants to hear of an invalid TTL takes the long way.
    if *at.invalid_ttl != InvalidTtl::Drop || !on && r.port == at.in_port {
        return None;
    }
    let meter = meters.at_mut(r.meter()?).filter(|m| m.is_of(n))?;
    let passed = match meter.pass(now, f.len()) {
        Verdict::Pass => Ok(()),
        Verdict::Drop => Err(DropReason::Meter),
        Verdict::Remark(levels) => known.remark(levels, f, at),
    };
    Some(match (passed, on) {
        (Ok(()), true) => Met::On,
        (Ok(()), false) => Met::Done(known.change(r, f, at)),
        (Err(why), _) => Met::Done(Err(why)),
    })
}

impl Known<'_> {
    /// Raises a frame's drop precedence, which its key says, too.
    #[cold]
    fn remark(&mut self, levels: u8, f: &mut Frame, at: &Place<'_>) -> Result<(), DropReason> {
        self.complete(f, at);
        let mut p = Packet { frame: f, key: self.key, layers: *self.layers, stale: Stale::No };
        set_tos::remark(levels, &mut p)?;
        p.refresh_all(at.fields)?;
        *self.layers = p.layers;
        Ok(())
    }
    /// Changes a frame that its meter let pass, and which leaves then, as `r` says.
    fn change(
        &mut self,
        r: &ActionResult,
        f: &mut Frame,
        at: &Place<'_>,
    ) -> Result<(), DropReason> {
        let ops = r.behind_meter();
        if ops.is_empty() {
            return Ok(());
        }
        if *self.depth != Depth::Common || r.bits & bits::BY_HEADERS == 0 {
            self.complete(f, at);
        }
        apply_changes(ops, f, *self.layers, self.key)
    }
}

impl DataPlane {
    /// Takes those of these frames, a bit each, to the meters that their rules begin with that may go there now, counts them
    /// where they have not been, and takes those out that leave then. Says which go on.
    #[inline(never)]
    pub(super) fn meter(
        &mut self,
        in_port: PortId,
        frames: u64,
        under_way: &UnderWay<'_>,
        left: &mut u64,
        leaving: &mut Leaving,
    ) -> u64 {
        self.warm_meters(frames);
        let w = &mut self.work;
        let mut on = 0;
        for (i, f) in (0..BURST).zip(w.burst.as_mut_slice()) {
            let (1, Some((n, slot))) = (frames >> i & 1, w.slots[i].rule()) else { continue };
            let Some(v) = vdp_mut(&mut self.vdps, w.vids[i]) else { continue };
            let Some(t) = v.fast.tables.get_mut(n.into()) else { continue };
            let Some(r) = t.entry(slot).map(|e| &e.result) else { continue };
            let (len, port, cost) = (f.len(), r.port, u64::from(r.cost));
            let (invalid_ttl, edge, fields) = (&v.fast.invalid_ttl, &v.edge, &v.fields);
            let place = Place { in_port, invalid_ttl, depth: w.depths[i], edge, fields };
            let mut known =
                Known { key: &mut w.keys[i], layers: &mut w.layers[i], depth: &mut w.depths[i] };
            let counted = matches!(w.slots[i], Slot::At { .. });
            let met = match under_way.is_turn(i, n, *left, &w.vids) {
                true => pass(r, n, &mut v.fast.meters, f, self.now, &mut known, &place),
                false => None,
            };
            let Some(met) = met else {
                *left |= 1 << i;
                leaving.otherwise();
                if counted {
                    known.complete(f, &place);
                }
                continue;
            };
            if !counted {
                t.hit(slot, len, self.now);
                v.spent.grant(cost);
                self.interval_units += cost;
            }
            w.slots[i] = match met {
                Met::On => {
                    on |= 1 << i;
                    Slot::At { table: n, slot }
                }
                Met::Done(done) => leaving.by(port, done, f.len()),
            };
        }
        on
    }

    /// Many meters are many lines far away, each found by way of others: those of these frames, a bit each, are asked for before the
    /// first is needed.
    #[inline(always)]
    pub(super) fn warm_meters(&self, frames: u64) {
        if self.has_far_meters(frames) {
            self.warm_far_meters(frames);
        }
    }

    /// Whether any of these frames, a bit each, is of a VDP with many meters.
    #[inline(always)]
    fn has_far_meters(&self, frames: u64) -> bool {
        let (w, mut last) = (&self.work, None);
        each(frames).any(|i| {
            let vid = w.vids[i];
            let v = self.vdps.get(usize::from(vid.0)).filter(|_| last.replace(vid) != Some(vid));
            v.and_then(Option::as_ref).is_some_and(|v| v.fast.meters.len() >= FAR_METERS)
        })
    }

    #[inline(never)]
    fn warm_far_meters(&self, frames: u64) {
        let w = &self.work;
        let of = |i: usize| {
            let (table, slot) = w.slots[i].rule()?;
            let v = self.vdps.get(usize::from(w.vids[i].0))?.as_deref()?;
            let t =
                v.fast.tables.get(table.into()).filter(|_| v.fast.meters.len() >= FAR_METERS)?;
            Some((t, slot, &v.fast.meters))
        };
        for (t, slot, meters) in each(frames).filter_map(of) {
            match t.entry(slot).and_then(|e| e.result.meter()) {
                Some(at) => meters.prefetch_place(at),
                None => t
                    .first_meter(slot)
                    .and_then(|id| meters.get(id))
                    .into_iter()
                    .for_each(Meter::prefetch),
            }
        }
        for (t, slot, meters) in each(frames).filter_map(of) {
            let at = t.entry(slot).and_then(|e| e.result.meter());
            at.and_then(|at| meters.at(at)).into_iter().for_each(Meter::prefetch);
        }
    }
}
