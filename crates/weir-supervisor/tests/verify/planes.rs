//! Small planes for the verifier's tests: headers of six bits and a bit of metadata, and a frame
//! followed through them one by one, as slowly and obviously as can be.

use std::collections::{BTreeMap, BTreeSet};
use weir_supervisor::verify::{
    Act, Bits, By, Edit, FieldAt, GROUP_KIND, Layout, MapRule, Match, OUTPUT_KIND, Plane, Program,
    Reaches, Rule, Takes, To, Vdp, WORDS,
};

pub const IN_PORT: FieldAt = FieldAt { word: 0, shift: 8, width: 2 };
pub const TAG: FieldAt = FieldAt { word: 1, shift: 0, width: 2 };
pub const DATA: FieldAt = FieldAt { word: 1, shift: 62, width: 2 };
pub const META: FieldAt = FieldAt { word: 6, shift: 3, width: 1 };

/// Headers of these fields, of frames without metadata. With `shapes`, a frame of tag 0 has no data.
pub fn layout(shapes: bool) -> Layout {
    let tagged = [1, 2].map(|bit| bits_at(TAG, bit, bit));
    let plain = TAG.is(0).and(&DATA.is(0)).expect("different fields");
    let shapes = if shapes { tagged.into_iter().chain([plain]).collect() } else { Vec::new() };
    Layout { in_port: IN_PORT, start: META.is(0), shapes }
}

/// These bits, and so many of no field that more than one such change takes up all the room that there is.
pub fn with_more(bits: Bits) -> Bits {
    let mut all = bits;
    all.iter_mut().skip(8).take(10).for_each(|w| *w = u64::MAX);
    all
}

/// The headers that have `value` under `mask` in a field.
pub fn bits_at(f: FieldAt, mask: u64, value: u64) -> Match {
    let (mut m, mut v) = ([0; WORDS], [0; WORDS]);
    m[f.word] = mask << f.shift;
    v[f.word] = value << f.shift;
    Match::new(m, v)
}

pub fn get(h: &Bits, f: FieldAt) -> u64 {
    (h[f.word] & f.mask()) >> f.shift
}

pub fn set(h: &mut Bits, f: FieldAt, v: u64) {
    h[f.word] = h[f.word] & !f.mask() | v << f.shift;
}

/// Every frame that can come in.
pub fn frames(p: &Plane) -> Vec<(usize, Bits)> {
    let mut out = Vec::new();
    for (at, port) in p.ports.iter().enumerate() {
        for bits in 0..16 {
            let mut h = [0; WORDS];
            set(&mut h, IN_PORT, port.number.into());
            set(&mut h, TAG, bits & 3);
            set(&mut h, DATA, bits >> 2);
            let shapes = &p.layout.shapes;
            if shapes.is_empty() || shapes.iter().any(|s| s.has(&h)) {
                out.push((at, h));
            }
        }
    }
    out
}

/// A leak, as the oracle sees it: the VDP, what does it, what is reached.
pub type Key = (usize, By, Reaches);

/// What the oracle found: for each leak, whom it reaches, and the frames that show it.
#[derive(Debug, Default)]
pub struct Seen {
    pub to: BTreeSet<Option<usize>>,
    pub frames: BTreeSet<(usize, Bits)>,
}

/// Follows every frame.
pub fn oracle(p: &Plane) -> BTreeMap<Key, Seen> {
    let mut out: BTreeMap<Key, Seen> = BTreeMap::new();
    for (in_port, h) in frames(p) {
        let mut add = |key: Key, to: Option<usize>| {
            let s = out.entry(key).or_default();
            s.to.insert(to);
            s.frames.insert((in_port, h));
        };
        let winners = winners(p, &h);
        for (i, place) in winners.iter().enumerate() {
            let r = p.mapping.get(*place).expect("a place");
            let v = &p.vdps[r.vdp];
            // Whom the frame belongs to.
            let holders = holders(p, in_port);
            if !sink(v) && !holders.is_empty() && !holders.contains(&v.network) {
                add((r.vdp, By::Mapping(*place), Reaches::Rules), Some(v.network));
            } else if !sink(v) && p.shares.is_some() {
                let owners = owners(p, in_port, &h);
                if owners.iter().any(|o| *o != v.network) {
                    add((r.vdp, By::Mapping(*place), Reaches::Rules), Some(v.network));
                }
            }
            for other in &winners[..i] {
                let first = &p.vdps[p.mapping[*other].vdp];
                if p.shares.is_none() && first.network != v.network {
                    add((r.vdp, By::Mapping(*place), Reaches::Claimed), Some(v.network));
                }
            }
            let mut inside = h;
            let own = v.ports.iter().find(|(_, at)| *at == in_port).map_or(0, |(no, _)| *no);
            set(&mut inside, IN_PORT, own.into());
            let mut way = Way {
                p,
                v,
                in_port,
                tells: &mut |by, what, to| {
                    add((r.vdp, by, what), to);
                },
            };
            way.acts(&v.alone, inside, Vec::new(), By::Alone, true, 0);
            way.table(0, inside, Vec::new());
        }
    }
    out
}

fn sink(v: &Vdp) -> bool {
    v.default.is_empty()
        && v.alone.is_empty()
        && v.program == Program::Nothing
        && v.tables.iter().all(|t| t.rules().is_empty())
}

fn holders(p: &Plane, port: usize) -> BTreeSet<usize> {
    let has = |v: &&Vdp| v.ports.iter().any(|(_, at)| *at == port);
    p.vdps.iter().filter(has).map(|v| v.network).collect()
}

/// The mapping rules that may win.
fn winners(p: &Plane, h: &Bits) -> Vec<usize> {
    let hit = |r: &MapRule| r.matcher.has(h);
    let best = p.mapping.iter().filter(|r| hit(r)).map(|r| r.priority).max();
    let all = p.mapping.iter().enumerate();
    all.filter(|(_, r)| hit(r) && Some(r.priority) == best).map(|(i, _)| i).collect()
}

/// The networks that may have a frame at a port.
fn owners(p: &Plane, port: usize, h: &Bits) -> BTreeSet<usize> {
    let mut there = *h;
    set(&mut there, IN_PORT, p.ports[port].number.into());
    match &p.shares {
        Some(shares) => {
            let hits = || shares.iter().filter(|s| s.matcher.has(&there));
            let best = hits().map(|s| s.priority).max();
            hits().filter(|s| Some(s.priority) == best).map(|s| s.network).collect()
        }
        None => {
            let of = winners(p, &there).into_iter();
            of.map(|i| p.vdps[p.mapping[i].vdp].network).collect()
        }
    }
}

struct Way<'a> {
    p: &'a Plane,
    v: &'a Vdp,
    in_port: usize,
    tells: &'a mut dyn FnMut(By, Reaches, Option<usize>),
}

type Set = Vec<(u8, Vec<Act>)>;

impl Way<'_> {
    fn table(&mut self, n: usize, h: Bits, written: Set) {
        let v = self.v;
        let rules = v.tables.get(n).map(|t| t.rules()).unwrap_or_default();
        let best = rules.iter().filter(|r| r.matcher.has(&h)).map(|r| r.priority).max();
        let wins = |r: &Rule| r.matcher.has(&h) && Some(r.priority) == best;
        for (i, r) in rules.iter().enumerate().filter(|(_, r)| wins(r)) {
            self.acts(&r.acts, h, written.clone(), By::Rule(n as u8, i), true, 0);
        }
        if best.is_none() {
            self.acts(&v.default, h, Vec::new(), By::Default, true, 0);
        }
    }
    fn acts(&mut self, acts: &[Act], mut h: Bits, mut w: Set, by: By, last: bool, depth: u8) {
        for (i, a) in acts.iter().enumerate() {
            let rest = &acts[i + 1..];
            match a {
                Act::Edit(e) => match edited(e, &h).as_slice() {
                    [one] => h = *one,
                    many => {
                        for h in many {
                            self.acts(rest, *h, w.clone(), by, last, depth);
                        }
                        return;
                    }
                },
                Act::Cases(cases) => {
                    for c in cases {
                        if c.when.has(&h) && !c.unless.iter().any(|u| u.has(&h)) {
                            let edits = c.edits.iter().cloned().map(Act::Edit);
                            let list: Vec<Act> = edits.chain(rest.iter().cloned()).collect();
                            self.acts(&list, h, w.clone(), by, last, depth);
                        }
                    }
                    return;
                }
                Act::Output(To::Port(p)) if *p == self.in_port => {}
                Act::Output(To::Port(p)) => self.emit(*p, &h, by),
                Act::Output(To::InPort) => self.emit(self.in_port, &h, by),
                Act::Output(To::All) => {
                    let (v, came_by) = (self.v, self.in_port);
                    for (_, p) in v.ports.iter().filter(|(_, p)| *p != came_by) {
                        self.emit(*p, &h, by);
                    }
                }
                Act::Program => {
                    if self.v.program == Program::Passes {
                        let v = self.v;
                        for (_, p) in &v.ports {
                            self.emit(*p, &h, by);
                        }
                    }
                }
                Act::Controller => {
                    for c in &self.v.controllers {
                        let other = |n: &&usize| **n != self.v.network;
                        if let Some(n) = self.p.controllers[*c].networks.iter().find(other) {
                            (self.tells)(by, Reaches::Controller(*c), Some(*n));
                        }
                    }
                }
                Act::Group(id) => {
                    let Some(g) = self.v.groups.get(id).filter(|_| depth < 32) else { continue };
                    if g.network != self.v.network {
                        (self.tells)(by, Reaches::Group(*id), Some(g.network));
                    }
                    for b in &g.buckets {
                        self.acts(b, h, Vec::new(), by, false, depth + 1);
                    }
                }
                Act::Write(these) => {
                    for (k, a) in these {
                        w.retain(|(old, _)| old != k);
                        w.push((*k, a.clone()));
                    }
                }
                Act::Clear => w.clear(),
                Act::Goto(n) => return self.table((*n).into(), h, w),
            }
        }
        if last && !w.is_empty() {
            w.sort_by_key(|(k, _)| *k);
            if w.iter().any(|(k, _)| *k == GROUP_KIND) {
                w.retain(|(k, _)| *k != OUTPUT_KIND);
            }
            let list: Vec<Act> = w.into_iter().flat_map(|(_, list)| list).collect();
            self.acts(&list, h, Vec::new(), by, false, depth);
        }
    }
    fn emit(&mut self, port: usize, h: &Bits, by: By) {
        let (own, holders) = (self.v.network, holders(self.p, port));
        if !holders.iter().any(|n| *n != own) {
            return;
        }
        if !holders.contains(&own) {
            for n in holders {
                (self.tells)(by, Reaches::Port(port), Some(n));
            }
            return;
        }
        let owners = owners(self.p, port, h);
        if owners.is_empty() {
            (self.tells)(by, Reaches::Port(port), None);
        }
        for o in owners.into_iter().filter(|o| *o != own) {
            (self.tells)(by, Reaches::Port(port), Some(o));
        }
    }
}

/// What a header may be after an edit.
fn edited(e: &Edit, h: &Bits) -> Vec<Bits> {
    match e {
        Edit::Set(m) => {
            let mut h = *h;
            for ((b, mask), v) in h.iter_mut().zip(m.mask).zip(m.value) {
                *b = *b & !mask | v;
            }
            vec![h]
        }
        Edit::Copy(from, to) => {
            let mut out = *h;
            set(&mut out, *to, get(h, *from));
            vec![out]
        }
        Edit::Reveal(bits) | Edit::Unknown(bits) => {
            let mut all = vec![*h];
            // No match looks at what is of no field.
            for (w, word) in bits.iter().enumerate().take(8) {
                for bit in (0..64).filter(|b| word >> b & 1 == 1) {
                    let both = |h: &Bits| {
                        let (mut zero, mut one) = (*h, *h);
                        zero[w] &= !(1 << bit);
                        one[w] |= 1 << bit;
                        [zero, one]
                    };
                    all = all.iter().flat_map(both).collect();
                }
            }
            all
        }
    }
}

/// A mapping rule that takes all of its match.
pub fn maps(vdp: usize, matcher: Match, priority: i64) -> MapRule {
    MapRule { vdp, matcher, priority, takes: Takes::All }
}
