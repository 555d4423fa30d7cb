//! Stages 1 to 3 over a burst whose frames may be many VDPs': of each frame no more is looked at than says whose it is,
//! then no more than that VDP's rules look at.
//!
//! Room: called by `poll_port` in place of the stages for any burst in which nothing is captured and that is not one VDP's
//! (`alike`), and a short cut likewise: frames of VDPs that are near their limit, don't let all in or are on another path meet what they meet
//! in `stages`, with whole keys; what is no common change of a frame that leaves by a port is done by
//! [`DataPlane::process`], behind `onward`, where frames go on to later tables.

use super::alike::{AllBy, ETHERNET, Leaving, Place, change, complete};
use super::stages::enter;
use super::*;
use crate::compile::bits;
use crate::matching::Table;
use crate::packet::{extract, extract_ethernet, extract_some, vlan_vid};
use weir_classify::simd::prefetch_read;
use weir_classify::{FastTable, RuleId};

/// Frames of a burst that are not like the others, a bit each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Apart {
    /// [`DataPlane::process`] must see to everything.
    others: u64,
    /// There are ports by which their VDP's can't leave: whoever leaves has to be let out.
    shut: u64,
}

/// For fewer lookups passes cost more than they save.
const SEVERAL: u32 = 4;

impl DataPlane {
    /// Whether the burst may go by this way.
    #[inline(always)]
    pub(super) fn may_mix(&self, sizes: Sizes) -> bool {
        !self.taps.any() && sizes.shortest >= ETHERNET
    }

    /// Stage 1. Says how much keys have at least.
    #[inline]
    pub(super) fn map_mixed(&mut self, in_port: PortId) -> Depth {
        let w = &mut self.work;
        let frames = w.burst.as_slice();
        if let Some(vlans) = self.mapping.by_vlan() {
            for (i, f) in (0..BURST).zip(frames) {
                w.vids[i] = vlans.of(vlan_vid(f.bytes()));
            }
            return Depth::Port;
        }
        let depth = self.mapping.depth();
        match depth {
            Depth::Port => {
                w.vids = [self.mapping.by_port(in_port).unwrap_or_default(); BURST];
                return Depth::Port;
            }
            Depth::Ethernet => {
                for (i, f) in (0..BURST).zip(frames) {
                    let key = &mut w.keys[i];
                    if !extract_ethernet(f.bytes(), in_port.0.into(), key) {
                        w.layers[i] = extract(f.bytes(), in_port.0.into(), key).unwrap_or_default();
                    }
                    w.probes[i] = self.mapping.probe(key);
                }
            }
            Depth::Common => {
                frames.iter().for_each(|f| prefetch_read(f.bytes()));
                for (i, f) in (0..BURST).zip(frames) {
                    let key = &mut w.keys[i];
                    w.layers[i] =
                        extract_some(f.bytes(), in_port.0.into(), key).unwrap_or_default();
                    w.probes[i] = self.mapping.probe(key);
                }
            }
            Depth::Whole => {
                self.map(in_port);
                return Depth::Whole;
            }
        }
        for (i, f) in (0..BURST).zip(frames) {
            w.vids[i] = self.mapping.resolve(&w.keys[i], w.probes[i], f.bytes(), &w.layers[i]);
        }
        depth
    }

    /// Stage 2, where keys have `known` at least.
    #[inline]
    pub(super) fn match_mixed(&mut self, in_port: PortId, known: Depth) -> Apart {
        self.warm_tables();
        let w = &mut self.work;
        let n = w.burst.len();
        let (mut others, mut several, mut shut) = (0, 0, 0);
        for (i, f) in (0..BURST).zip(w.burst.as_slice()) {
            let (vid, key) = (w.vids[i], &mut w.keys[i]);
            let Some(v) = vdp_mut(&mut self.vdps, vid) else {
                (w.slots[i], others) = (Slot::Drop(DropReason::VdpGone), others | 1 << i);
                continue;
            };
            let at = v.edge.at(in_port);
            v.edge.received(at, f.len());
            if v.spent.first_seen() {
                self.seen.push(vid);
            }
            let mut depth = Depth::of(&v.fast.tables.first().classifier);
            let lets_in = !v.edge.configured() || {
                shut |= u64::from(v.edge.keeps_some_in()) << i;
                v.edge.lets_all_in(in_port)
            };
            if lets_in && v.is_plain(n) {
                let lookup = u64::from(v.spent.lookup);
                v.spent.grant(lookup);
                self.interval_units += lookup;
            } else {
                others |= 1 << i;
                depth = Depth::Whole;
                if known != Depth::Whole {
                    w.layers[i] = extract(f.bytes(), in_port.0.into(), key).unwrap_or_default();
                }
                if let Some(slot) = enter(v, at, in_port, key, &mut self.interval_units) {
                    w.slots[i] = slot;
                    continue;
                }
            }
            match depth {
                Depth::Ethernet if known < depth => {
                    if !extract_ethernet(f.bytes(), at.no, key) {
                        w.layers[i] = extract(f.bytes(), at.no, key).unwrap_or_default();
                    }
                }
                Depth::Common if known < depth => {
                    w.layers[i] = extract_some(f.bytes(), at.no, key).unwrap_or_default();
                }
                Depth::Whole if known < depth && others >> i & 1 == 0 => {
                    w.layers[i] = complete(&v.fields, f, at.no, key);
                }
                Depth::Port if known == Depth::Port => key.0[0] = u64::from(at.no) << 32,
                _ => {
                    key.0[0] = key.0[0] & 0xffff_ffff | u64::from(at.no) << 32;
                    if depth.max(known) == Depth::Whole {
                        v.fields.extract(f.bytes(), &w.layers[i], key);
                    }
                }
            }
            w.depths[i] = depth.max(known);
            let table = v.fast.tables.first_mut();
            w.slots[i] = Slot::Rule(0);
            if table.takes_several() {
                several |= 1 << i;
            } else {
                w.probes[i] = table.probe(key);
            }
        }
        if several != 0 {
            self.find_several(several);
        }
        self.find_rules(several);
        Apart { others, shut }
    }

    /// Second half of stage 2 for these frames, a bit each, whose tables are best asked together.
    #[inline(never)]
    fn find_several(&mut self, several: u64) {
        let w = &mut self.work;
        let mut tables = [None; BURST];
        for i in each(several) {
            let v = self.vdps.get(usize::from(w.vids[i].0)).and_then(Option::as_ref);
            tables[i] = v.map(|v| v.fast.tables.first());
        }
        let found = ask_several(several, &tables, &w.keys, &mut w.probes);
        for i in each(several) {
            w.slots[i] = match (tables[i], found[i]) {
                (Some(t), Some(RuleId(slot))) => {
                    t.prefetch(slot);
                    Slot::Rule(slot)
                }
                _ => Slot::Default,
            };
        }
    }

    /// Stage 3, as far as frames are changed in common ways and leave by a port. `None`: what is left is for
    /// [`DataPlane::process`].
    #[inline]
    pub(super) fn process_mixed(&mut self, in_port: PortId, apart: Apart) -> Option<AllBy> {
        let Apart { others, shut } = apart;
        let w = &mut self.work;
        let (mut leaving, mut aside) = (Leaving::default(), 0);
        if others != 0 {
            leaving.otherwise();
        }
        for (i, f) in (0..BURST).zip(w.burst.as_mut_slice()) {
            if others >> i & 1 == 1 {
                continue;
            }
            let Slot::Rule(slot) = w.slots[i] else {
                leaving.otherwise();
                continue;
            };
            let Some(v) = vdp_mut(&mut self.vdps, w.vids[i]) else {
                leaving.otherwise();
                continue;
            };
            let table = v.fast.tables.first_mut();
            let Some(e) = table.entry_mut(slot) else {
                leaving.otherwise();
                continue;
            };
            let (invalid_ttl, edge, fields) = (&v.fast.invalid_ttl, &v.edge, &v.fields);
            let place = Place { in_port, invalid_ttl, depth: w.depths[i], edge, fields };
            let len = f.len();
            let Some(done) = change(&e.result, f, &mut w.keys[i], &w.layers[i], &place) else {
                aside |= 1 << i;
                continue;
            };
            let (port, cost) = (e.result.port, u64::from(e.result.cost));
            e.hit(len, self.now);
            table.matched_one();
            v.spent.grant(cost);
            self.interval_units += cost;
            w.slots[i] = leaving.by(port, done, f.len());
        }
        if aside != 0 {
            leaving = self.go_on(in_port, aside, leaving);
        }
        if shut != 0 && self.keep_in(shut) {
            leaving.otherwise();
        }
        if let Some(by) = leaving.all() {
            return Some(by);
        }
        let w = &mut self.work;
        for (i, f) in (0..BURST).zip(w.burst.as_slice()) {
            if others >> i & 1 == 1 || w.depths[i] == Depth::Whole {
                continue;
            }
            let Some(v) = vdp_mut(&mut self.vdps, w.vids[i]) else { continue };
            let r = match w.slots[i] {
                Slot::Rule(s) => v.fast.tables.first().entry(s).map(|e| &e.result),
                Slot::Default => Some(&v.miss),
                _ => None,
            };
            if r.is_some_and(|r| r.bits & bits::DROP == 0) {
                let no = v.edge.at(in_port).no;
                w.layers[i] = complete(&v.fields, f, no, &mut w.keys[i]);
            }
        }
        None
    }
}

/// What takes these frames, a bit each, in these tables, which are best asked together.
#[inline(always)]
pub(super) fn ask_several(
    several: u64,
    tables: &[Option<&Table>; BURST],
    keys: &[FlowKey; BURST],
    probes: &mut [Probe; BURST],
) -> [Option<RuleId>; BURST] {
    let mut found = [None; BURST];
    if several.count_ones() < SEVERAL {
        for i in each(several) {
            probes[i] = tables[i].map_or(probes[i], |t| t.classifier.probe(&keys[i]));
        }
        for i in each(several) {
            found[i] = tables[i].and_then(|t| t.classifier.resolve(&keys[i], probes[i]));
        }
    } else {
        let classifiers = tables.map(|t| t.map(|t| &t.classifier));
        FastTable::lookup_several(&classifiers, &keys[..], &mut found);
    }
    found
}
