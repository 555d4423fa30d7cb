//! Stages 1 to 3 over a burst whose frames are all one VDP's, as the port says by which they came: what holds for all
//! of them is looked at once, and of each frame no more than the VDP's rules look at.
//!
//! Room: called by `stages` in place of the stages for any burst, of which it is a short cut: where frames differ in
//! what becomes of them, or something beyond the common shapes does, [`DataPlane::process`] goes on. What is near its limit,
//! not let in by its port, captured or on another path takes the long way from the beginning. Frames that go on to later tables, come
//! to a meter first or leave by a group are `onward`'s in between.

use super::*;
use crate::compile::{ActionResult, bits};
use crate::edge::Edge;
use crate::execute::{InvalidTtl, apply_changes, apply_paper_bits};
use crate::matching::Table;
use crate::packet::{Depth, extract, extract_ethernet, extract_some, plain_ipv4};
use weir_classify::simd::prefetch_read;
use weir_classify::{Classifier, Probe, RuleId};

/// How long a burst's frames are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) bytes: usize,
    pub(super) shortest: usize,
    longest: usize,
}

impl Sizes {
    #[inline(always)]
    pub(super) fn of(burst: &Burst) -> Self {
        let start = Self { bytes: 0, shortest: usize::MAX, longest: 0 };
        burst.as_slice().iter().map(Frame::len).fold(start, |s, n| Self {
            bytes: s.bytes + n,
            shortest: s.shortest.min(n),
            longest: s.longest.max(n),
        })
    }
}

/// Of shorter frames nothing is known: runts.
pub(super) const ETHERNET: usize = 14;
/// What [`Work::found`] says of a frame that no rule takes: no slot has this number.
const MISS: u32 = u32::MAX;
/// What of a result says which way its frames take.
const WAY: u8 = bits::PROGRAM | bits::DROP | bits::FORWARD | bits::STRAIGHT;
const FORWARDED: u8 = bits::FORWARD | bits::PORT_VALID;
const CHANGED: u8 = bits::PROGRAM | bits::STRAIGHT;
/// What a forwarded frame may be changed by.
const CHANGES: u8 = bits::CHANGE_MAC | bits::SRC_ONLY | bits::DST_ONLY | bits::TTL;

/// What rules take the first `n` frames, of a table that is best asked for all of them at once.
#[inline(never)]
fn find_all(table: &Table, w: &mut Work, n: usize) {
    let mut found = [None; BURST];
    table.lookup_all(&w.keys[..n], &mut found[..n]);
    for (slot, found) in w.found.iter_mut().zip(found).take(n) {
        *slot = found.map_or(MISS, |RuleId(slot)| slot);
        table.prefetch(*slot);
    }
    table.prefetch_programs(&w.found[..n]);
}

/// All frames of a burst leave by this port.
pub(super) struct AllBy {
    pub(super) port: PortId,
    pub(super) longest: usize,
}

/// What is known so far of whether all frames of a burst leave by one port.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Leaving {
    longest: usize,
    differ: bool,
    only: Option<PortId>,
}

impl Leaving {
    /// A frame, now so long, was changed with this success and leaves by `port`: what becomes of it.
    #[inline(always)]
    pub(super) fn by(&mut self, port: PortId, done: Result<(), DropReason>, len: usize) -> Slot {
        match done {
            Ok(()) => {
                self.longest = self.longest.max(len);
                self.differ |= *self.only.get_or_insert(port) != port;
                Slot::Out(port)
            }
            Err(why) => {
                self.differ = true;
                Slot::Drop(why)
            }
        }
    }
    /// Something else becomes of a frame.
    #[inline(always)]
    pub(super) fn otherwise(&mut self) {
        self.differ = true;
    }
    #[inline(always)]
    pub(super) fn all(self) -> Option<AllBy> {
        let Self { longest, differ, only } = self;
        only.filter(|_| !differ).map(|port| AllBy { port, longest })
    }
}

/// What is known of a frame that goes through tables.
pub(super) struct Known<'a> {
    pub(super) key: &'a mut FlowKey,
    pub(super) layers: &'a mut Layers,
    /// How much the key has.
    pub(super) depth: &'a mut Depth,
}

impl Known<'_> {
    /// Makes the key whole.
    pub(super) fn complete(&mut self, f: &Frame, at: &Place<'_>) {
        if *self.depth != Depth::Whole {
            *self.layers = complete(at.fields, f, at.edge.at(at.in_port).no, self.key);
            *self.depth = Depth::Whole;
        }
    }
}

/// Where a frame is, and what is known of it beside its key.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) in_port: PortId,
    /// Whether its VDP wants to hear of TTLs that can't be decremented: read of frames whose TTL is.
    pub(super) invalid_ttl: &'a InvalidTtl,
    /// How much its key has.
    pub(super) depth: Depth,
    /// Its VDP's.
    pub(super) edge: &'a Edge,
    pub(super) fields: &'a UserFields,
}

impl DataPlane {
    /// Stage 1: whose all frames of the burst are, if it is a burst for this way.
    #[inline]
    pub(super) fn all_of(&self, in_port: PortId, sizes: Sizes) -> Option<Vid> {
        if self.taps.any() || sizes.shortest < ETHERNET {
            return None;
        }
        let vid = self.mapping.by_port(in_port)?;
        let v = self.vdps.get(usize::from(vid.0))?.as_deref()?;
        (v.edge.lets_all_in(in_port) && v.is_plain(self.work.burst.len())).then_some(vid)
    }

    /// Stage 2.
    #[inline]
    pub(super) fn match_alike(&mut self, vid: Vid, in_port: PortId, sizes: Sizes) {
        let w = &mut self.work;
        let frames = w.burst.as_slice();
        w.vids = [vid; BURST];
        let Some(v) = vdp_mut(&mut self.vdps, vid) else { return };
        let at = v.edge.at(in_port);
        let received = Tally { frames: frames.len() as u64, bytes: sizes.bytes as u64 };
        v.edge.received_all(at, received);
        if v.spent.first_seen() {
            self.seen.push(vid);
        }
        let lookups = received.frames * u64::from(v.spent.lookup);
        v.spent.grant(lookups);
        self.interval_units += lookups;
        let table = v.fast.tables.first_mut();
        w.depth = Depth::of(&table.classifier);
        let n = frames.len().min(BURST);
        // Who asks for all of them at once needs no probes.
        let at_once = w.depth != Depth::Port && table.takes_all(n);
        let probe = |key: &FlowKey| if at_once { Probe::default() } else { table.probe(key) };
        match w.depth {
            Depth::Port => {
                let mut key = FlowKey::default();
                key.0[0] = u64::from(at.no) << 32;
                let slot = table.classifier.lookup(&key).map_or(MISS, |r| r.0);
                w.found = [slot; BURST];
                return;
            }
            Depth::Ethernet => {
                for (i, f) in (0..BURST).zip(frames) {
                    let key = &mut w.keys[i];
                    if !extract_ethernet(f.bytes(), at.no, key) {
                        w.layers[i] = extract(f.bytes(), at.no, key).unwrap_or_default();
                    }
                    w.probes[i] = probe(key);
                }
            }
            Depth::Common => {
                frames.iter().for_each(|f| prefetch_read(f.bytes()));
                for (i, f) in (0..BURST).zip(frames) {
                    let key = &mut w.keys[i];
                    w.layers[i] = extract_some(f.bytes(), at.no, key).unwrap_or_default();
                    w.probes[i] = probe(key);
                }
            }
            Depth::Whole => {
                frames.iter().for_each(|f| prefetch_read(f.bytes()));
                for (i, f) in (0..BURST).zip(frames) {
                    let key = &mut w.keys[i];
                    w.layers[i] = extract(f.bytes(), at.no, key).unwrap_or_default();
                    v.fields.extract(f.bytes(), &w.layers[i], key);
                    w.probes[i] = probe(key);
                }
            }
        }
        if at_once {
            return find_all(table, w, n);
        }
        for i in 0..n {
            w.found[i] = match table.resolve(&w.keys[i], w.probes[i]) {
                Some(slot) => {
                    table.prefetch(slot);
                    slot
                }
                None => MISS,
            };
        }
        table.prefetch_programs(&w.found[..n]);
    }

    /// Stage 3, as far as frames are changed in common ways and leave by a port. `None`: what is left is for
    /// [`DataPlane::process`].
    #[inline]
    pub(super) fn process_alike(
        &mut self,
        vid: Vid,
        in_port: PortId,
        sizes: Sizes,
    ) -> Option<AllBy> {
        let w = &mut self.work;
        let v = vdp_mut(&mut self.vdps, vid)?;
        let table = v.fast.tables.first_mut();
        let n = w.burst.len() as u64;
        if w.depth == Depth::Port
            && let Some(r) = table.entry(w.found[0]).map(|e| &e.result)
            && r.bits & (WAY | CHANGES) == FORWARDED
            && r.port != in_port
            && v.edge.lets_out(r.port)
        {
            let (port, units) = (r.port, n * u64::from(r.cost));
            table.hits(w.found[0], Tally { frames: n, bytes: sizes.bytes as u64 }, self.now);
            v.spent.grant(units);
            self.interval_units += units;
            return Some(AllBy { port, longest: sizes.longest });
        }
        let (mut matched, mut units, mut others) = (0, 0, 0);
        let mut leaving = Leaving::default();
        let entries = table.entries_mut();
        let (invalid_ttl, edge, fields) = (&v.fast.invalid_ttl, &v.edge, &v.fields);
        let place = Place { in_port, invalid_ttl, depth: w.depth, edge, fields };
        for (i, f) in (0..BURST).zip(w.burst.as_mut_slice()) {
            let slot = w.found[i];
            let Some(e) = entries.get_mut(slot as usize) else {
                w.slots[i] = Slot::Default;
                leaving.otherwise();
                continue;
            };
            let len = f.len();
            let Some(done) = change(&e.result, f, &mut w.keys[i], &w.layers[i], &place) else {
                (w.slots[i], others) = (Slot::Rule(slot), others | 1 << i);
                continue;
            };
            let (port, cost) = (e.result.port, e.result.cost);
            e.hit(len, self.now);
            matched += 1;
            units += u64::from(cost);
            w.slots[i] = leaving.by(port, done, f.len());
        }
        table.matched_more(matched);
        v.spent.grant(units);
        self.interval_units += units;
        if others != 0 {
            w.depths = [w.depth; BURST];
            leaving = self.go_on(in_port, others, leaving);
        }
        let edge = &vdp_mut(&mut self.vdps, vid)?.edge;
        if let Some(by) = leaving.all()
            && edge.lets_out(by.port)
        {
            return Some(by);
        }
        if edge.keeps_some_in() {
            self.keep_in(u64::MAX);
        }
        let w = &mut self.work;
        let v = vdp_mut(&mut self.vdps, vid)?;
        if w.depth != Depth::Whole {
            let no = v.edge.at(in_port).no;
            for (i, f) in (0..BURST).zip(w.burst.as_slice()) {
                let r = match w.slots[i] {
                    Slot::Rule(s) => v.fast.tables.first().entry(s).map(|e| &e.result),
                    Slot::Default => Some(&v.miss),
                    _ => None,
                };
                if r.is_some_and(|r| r.bits & bits::DROP == 0) {
                    w.layers[i] = complete(&v.fields, f, no, &mut w.keys[i]);
                }
            }
        }
        None
    }

    /// Of these frames, a bit each, those are dropped that may not leave by their port. Says whether there are any.
    #[inline(never)]
    pub(super) fn keep_in(&mut self, frames: u64) -> bool {
        let w = &mut self.work;
        let mut any = false;
        for i in each(frames).take_while(|i| *i < w.burst.len()) {
            let (Slot::Out(port), Some(v)) = (w.slots[i], vdp_mut(&mut self.vdps, w.vids[i]))
            else {
                continue;
            };
            if let Some(why) = v.edge.refuse_out(port) {
                (w.slots[i], any) = (Slot::Drop(why), true);
            }
        }
        any
    }

    /// Stage 5.
    #[inline]
    pub(super) fn forward_all(&mut self, by: AllBy) {
        let w = &mut self.work;
        let AllBy { port: at, longest } = by;
        let Some(p) = self.ports.get_mut(usize::from(at.0)).and_then(Option::as_deref_mut) else {
            let frames = w.burst.drain().zip(w.vids);
            w.out.extend(frames.map(|(frame, vid)| OutItem { frame, port: at, vid, queue: 0 }));
            return self.hand_to_forwarding(None);
        };
        let mut a = Accounts {
            at,
            vdps: &mut self.vdps,
            retired: &mut self.retired,
            port: &mut p.counters,
            grave: &mut w.grave,
        };
        p.tx.submit_all(&w.vids, &mut w.burst, longest, self.now, &mut self.pool, &mut a);
    }
}

/// Changes a frame as its rule says, where that is a common way and it leaves by a port then. `None`: it is not, and
/// nothing has happened.
#[inline(always)]
pub(super) fn change(
    r: &ActionResult,
    f: &mut Frame,
    key: &mut FlowKey,
    layers: &Layers,
    at: &Place<'_>,
) -> Option<Result<(), DropReason>> {
    let way = r.bits & WAY;
    let may_be_told =
        r.bits & (bits::TTL | bits::PROGRAM) != 0 && *at.invalid_ttl != InvalidTtl::Drop;
    if way != FORWARDED && way != CHANGED || r.port == at.in_port || may_be_told {
        return None;
    }
    if r.bits & (CHANGES | bits::PROGRAM) == 0 {
        return Some(Ok(()));
    }
    // Addresses lie where they lie; else headers must be known, and by some programs the key.
    let by_headers = r.bits & bits::BY_HEADERS != 0;
    let layers = match at.depth {
        Depth::Whole => *layers,
        Depth::Common if by_headers => *layers,
        _ if way == FORWARDED && !by_headers => Layers::default(),
        _ => match plain_ipv4(f.bytes()) {
            Some(l) if way == FORWARDED => l,
            _ => complete(at.fields, f, at.edge.at(at.in_port).no, key),
        },
    };
    Some(match &r.program {
        Some(ops) => apply_changes(ops, f, layers, key),
        None => apply_paper_bits(r, f, layers, key),
    })
}

/// The whole key, as the VDP's frames have it, of a frame of which less was looked at.
#[inline(never)]
pub(super) fn complete(fields: &UserFields, f: &Frame, no: u32, key: &mut FlowKey) -> Layers {
    let layers = extract(f.bytes(), no, key).unwrap_or_default();
    fields.extract(f.bytes(), &layers, key);
    layers
}
