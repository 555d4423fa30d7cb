//! All ways of a VDP's frames through its tables, as sets of frames, until they leave the network
//! or cannot.
//!
//! A set is a cube less what rules above took; what they took is worked out only where the cube
//! alone would leak. A table is not entered where its [`Summary`] says that nothing in it can leak.
//!
//! Room: called by the verifier for one VDP, and for one mapping rule. Pure; work is bounded.

use super::cube::{Spent, remainder};
use super::plane::{
    Act, Edit, GROUP_KIND, MapRule, Match, OUTPUT_KIND, Plane, Program, Rule, Takes, To, Vdp, WORDS,
};
use super::report::{By, Leak, Reaches, Sure};
use super::shares::{Part, Shares};
use super::summary::{Maker, Summary};
use super::view::{Region, View, came_in, looks_behind};
use std::collections::BTreeSet;

/// Groups inside groups are followed this far.
const MAX_DEPTH: u8 = 32;

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Leaks: for each rule and thing reached, one.
    pub leaks: Vec<Leak>,
    /// Whether the work ended before all was looked at.
    pub spent: bool,
}

/// Frames on their way.
#[derive(Clone)]
struct State {
    frames: Region,
    view: View,
    in_port: usize,
    /// The action set.
    set: Vec<(u8, Vec<Act>)>,
    by: By,
    depth: u8,
    sure: Sure,
}

/// What is kept from the frames, of the header as it was there.
struct Kept<'a> {
    what: What<'a>,
    view: View,
}

enum What<'a> {
    Rules(&'a [Rule]),
    Above(i64),
    Not(Vec<Match>),
}

/// What stands behind a list of actions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The action set.
    Set,
    /// Nothing.
    Nothing,
}

/// A walk.
pub struct Walk<'a> {
    plane: &'a Plane,
    shares: &'a Shares,
    at: usize,
    vdp: &'a Vdp,
    summaries: Vec<Summary>,
    kept: Vec<Kept<'a>>,
    seen: BTreeSet<(By, Reaches)>,
    found: Found,
    work: u64,
}

impl<'a> Walk<'a> {
    /// Of the VDP at this place, with so much work at most.
    pub fn new(plane: &'a Plane, shares: &'a Shares, at: usize, work: u64) -> Option<Self> {
        let vdp = plane.vdps.get(at)?;
        Some(Self {
            plane,
            shares,
            at,
            vdp,
            summaries: Vec::new(),
            kept: Vec::new(),
            seen: BTreeSet::new(),
            found: Found::default(),
            work,
        })
    }

    /// Where the VDP's frames get to, which are those of these mapping rules.
    pub fn tables(mut self, mapping: &[usize]) -> Found {
        let vdp = self.vdp;
        let maker = Maker { plane: self.plane, shares: self.shares, vdp };
        self.summaries = maker.all();
        self.program();
        for r in mapping.iter().filter_map(|i| self.plane.mapping.get(*i)) {
            for in_port in self.ports_of(r) {
                let Some(state) = self.arrival(r, in_port, By::Default) else { continue };
                self.kept.clear();
                self.kept.push(Kept { what: What::Above(r.priority), view: View::default() });
                let Ok(state) = self.renumbered(state) else { continue };
                // No rule is asked then, so none keeps anything from it.
                let alone = State { by: By::Alone, ..state.clone() };
                self.acts(&vdp.alone, alone, Then::Set);
                self.table(0, state);
            }
        }
        self.found
    }

    /// Whether a mapping rule takes frames of others.
    pub fn mapping(mut self, place: usize) -> Found {
        let Some(r) = self.plane.mapping.get(place) else { return self.found };
        if self.vdp.is_sink() {
            return self.found;
        }
        let own = self.vdp.network;
        self.kept.push(Kept { what: What::Above(r.priority), view: View::default() });
        let mut told = BTreeSet::new();
        for in_port in self.ports_of(r) {
            let Some(state) = self.arrival(r, in_port, By::Mapping(place)) else { continue };
            let number = self.number(in_port);
            let holders: Vec<usize> = self.shares.holders(in_port).collect();
            if let Some(first) = holders.first().filter(|_| !holders.contains(&own)) {
                let of = self.shares.parts().find(|(_, p)| {
                    p.is_at(number) && holders.contains(&p.network) && p.matcher.meets(&r.matcher)
                });
                let from = of.map_or(*first, |(_, p)| p.network);
                if !told.contains(&from) && self.ingress(&state, &[], from) {
                    told.insert(from);
                }
            } else if self.plane.shares.is_some() {
                for (from, frames, minus) in self.foreign(&state, number) {
                    if !told.contains(&from) {
                        let state = State { frames, ..state.clone() };
                        if self.ingress(&state, &minus, from) {
                            told.insert(from);
                        }
                    }
                }
            }
        }
        self.found
    }

    fn ingress(&mut self, s: &State, minus: &[Region], from: usize) -> bool {
        let Some(frames) = self.search(s.frames, minus) else { return false };
        self.found.leaks.push(Leak {
            from,
            to: Some(self.vdp.network),
            reaches: Reaches::Rules,
            vdp: self.at,
            by: s.by,
            in_port: s.in_port,
            frames: came_in(&frames),
            leaves: None,
            sure: self.sureness(&frames, s),
        });
        true
    }

    /// Ports whose frames a mapping rule may take, by place.
    fn ports_of(&self, r: &MapRule) -> Vec<usize> {
        let at = self.plane.layout.in_port;
        let ports = self.plane.ports.iter().enumerate();
        let takes = |number: u32| r.matcher.meets(&at.is(number.into()));
        ports.filter(|(_, p)| takes(p.number)).map(|(i, _)| i).collect()
    }

    fn number(&self, port: usize) -> u32 {
        self.plane.ports.get(port).map_or(u32::MAX, |p| p.number)
    }

    fn arrival(&self, r: &MapRule, in_port: usize, by: By) -> Option<State> {
        let l = &self.plane.layout;
        let at = l.in_port.is(self.number(in_port).into());
        let m = r.matcher.and(&at)?.and(&l.start)?;
        let view = View::default();
        let frames = view.back(&m)?;
        Some(State { frames, view, in_port, set: Vec::new(), by, depth: 0, sure: Sure::Frame })
    }

    /// Inside, the ingress port has the VDP's own number.
    fn renumbered(&mut self, mut s: State) -> Result<State, Spent> {
        let own = self.vdp.ports.iter().find(|(_, p)| *p == s.in_port).map_or(0, |(no, _)| *no);
        if own != self.number(s.in_port) {
            let set = self.plane.layout.in_port.is(own.into());
            s.view = s.view.after(&super::Edit::Set(Box::new(set)))?;
        }
        Ok(s)
    }

    /// A program that may send anything may do so wherever another has a part of what it may send.
    fn program(&mut self) {
        if self.vdp.program != Program::Anything {
            return;
        }
        let own = self.vdp.network;
        let (shares, plane, vdp) = (self.shares, self.plane, self.vdp);
        let number = |port: usize| plane.ports.get(port).map_or(u32::MAX, |p| p.number);
        let whole = |port| shares.plainly(own, number(port), &Match::any());
        let shared = |p: &&(u32, usize)| shares.is_shared(own, p.1) && !whole(p.1);
        // Whoever has a part of it is told before whoever has what is left over.
        let other = |port: usize| {
            let parts = shares.parts().map(|(_, p)| p);
            let theirs = parts.filter(|p| p.network != own && p.is_at(number(port)));
            let strongest = theirs.max_by_key(|p| p.priority).map(|p| p.network);
            strongest.or_else(|| shares.holders(port).find(|n| *n != own))
        };
        for (_, port) in vdp.ports.iter().filter(shared) {
            self.found.leaks.push(Leak {
                from: own,
                to: other(*port),
                reaches: Reaches::Port(*port),
                vdp: self.at,
                by: By::Program,
                in_port: *port,
                frames: Match::any(),
                leaves: Some(Match::any()),
                sure: Sure::May,
            });
        }
    }

    fn worked(&mut self, n: u64) -> bool {
        match self.work.checked_sub(n) {
            Some(left) => self.work = left,
            None => (self.found.spent, self.work) = (true, 0),
        }
        !self.found.spent
    }

    /// Whether nothing of what a summary allows can leak for headers like these.
    fn harmless(&self, s: &Summary, now: &Match, in_port: usize) -> bool {
        let then = now.freed(&s.writes);
        let own = self.vdp.network;
        let back = [in_port].into_iter().filter(|p| s.returns && self.shares.is_shared(own, *p));
        let mut ports = s.ports.iter().copied().chain(back);
        let has = |p: usize| self.shares.holders(p).any(|n| n == own);
        !s.strays && ports.all(|p| has(p) && self.shares.plainly(own, self.number(p), &then))
    }

    fn table(&mut self, n: usize, s: State) {
        let now = s.view.now(&s.frames);
        if let Some(after) = self.summaries.get(n.min(self.vdp.tables.len())) {
            let harmless = if s.set.is_empty() {
                self.harmless(after, &now, s.in_port)
            } else {
                let mut all = after.clone();
                let maker = Maker { plane: self.plane, shares: self.shares, vdp: self.vdp };
                s.set.iter().for_each(|(_, list)| maker.acts(list, &mut all));
                self.harmless(&all, &now, s.in_port)
            };
            if harmless {
                return;
            }
        }
        let vdp = self.vdp;
        let table = vdp.tables.get(n);
        for (i, r) in table.into_iter().flat_map(|t| t.rules().iter().enumerate()) {
            if !self.worked(1) {
                return;
            }
            if !r.matcher.meets(&now) {
                continue;
            }
            let Some(frames) = s.view.back(&r.matcher).and_then(|m| s.frames.and(&m)) else {
                continue;
            };
            let above = table.map(|t| t.above(r.priority)).unwrap_or_default();
            self.kept.push(Kept { what: What::Rules(above), view: s.view.clone() });
            let by = By::Rule(n.min(255) as u8, i);
            self.acts(&r.acts, State { frames, by, ..s.clone() }, Then::Set);
            self.kept.pop();
        }
        let all = table.map(|t| t.rules()).unwrap_or_default();
        self.kept.push(Kept { what: What::Rules(all), view: s.view.clone() });
        let missed = State { by: By::Default, set: Vec::new(), ..s };
        self.acts(&vdp.default, missed, Then::Set);
        self.kept.pop();
    }

    fn acts(&mut self, acts: &[Act], mut s: State, then: Then) {
        for (i, a) in acts.iter().enumerate() {
            if !self.worked(1) {
                return;
            }
            match a {
                Act::Edit(e) => match self.edited(&s, e) {
                    Ok(v) => s.view = v,
                    Err(Spent) => return self.found.spent = true,
                },
                Act::Cases(cases) => {
                    let rest = acts.get(i + 1..).unwrap_or_default();
                    return cases.iter().for_each(|c| self.case(c, rest, &s, then));
                }
                Act::Output(To::Port(p)) if *p == s.in_port => {}
                Act::Output(To::Port(p)) => self.emit(*p, &s),
                Act::Output(To::InPort) => self.emit(s.in_port, &s),
                Act::Output(To::All) => {
                    let ports = self.vdp.ports.iter().filter(|(_, p)| *p != s.in_port);
                    ports.for_each(|(_, p)| self.emit(*p, &s));
                }
                Act::Program if self.vdp.program == Program::Passes => {
                    // By which of them is its own affair.
                    let passed = State { sure: Sure::May, ..s.clone() };
                    self.vdp.ports.iter().for_each(|(_, p)| self.emit(*p, &passed));
                }
                Act::Program => {}
                Act::Controller => self.controllers(&s),
                Act::Group(id) => self.group(*id, &s),
                Act::Write(w) => {
                    for (kind, a) in w {
                        s.set.retain(|(k, _)| k != kind);
                        s.set.push((*kind, a.clone()));
                    }
                }
                Act::Clear => s.set.clear(),
                Act::Goto(n) => return self.table((*n).into(), s),
            }
        }
        if then == Then::Set && !s.set.is_empty() {
            let mut set = std::mem::take(&mut s.set);
            set.sort_by_key(|(kind, _)| *kind);
            if set.iter().any(|(kind, _)| *kind == GROUP_KIND) {
                set.retain(|(kind, _)| *kind != OUTPUT_KIND);
            }
            let list: Vec<Act> = set.into_iter().flat_map(|(_, list)| list).collect();
            self.acts(&list, s, Then::Nothing);
        }
    }

    fn case(&mut self, c: &super::Case, rest: &[Act], s: &State, then: Then) {
        let Some(frames) = s.view.back(&c.when).and_then(|m| s.frames.and(&m)) else { return };
        let out = |m: &Match| s.view.back(m).is_some_and(|m| m.covers(&frames));
        if c.unless.iter().any(out) {
            return;
        }
        let mut sub = State { frames, ..s.clone() };
        self.kept.push(Kept { what: What::Not(c.unless.clone()), view: s.view.clone() });
        for e in &c.edits {
            match self.edited(&sub, e) {
                Ok(v) => sub.view = v,
                Err(Spent) => self.found.spent = true,
            }
        }
        self.acts(rest, sub, then);
        self.kept.pop();
    }

    /// How the header reads after a change. A second tag that is taken off brings to light all that the
    /// first did: there is room for that where what the first brought has served its turn.
    fn edited(&mut self, s: &State, e: &Edit) -> Result<View, Spent> {
        if let Ok(v) = s.view.after(e) {
            return Ok(v);
        }
        let mut spoken = s.frames.mask;
        let mut looked_at = 0;
        for k in &self.kept {
            let matches: &mut dyn Iterator<Item = &Match> = match &k.what {
                What::Rules(rules) => &mut rules.iter().map(|r| &r.matcher),
                What::Not(these) => &mut these.iter(),
                // Of frames as they came in.
                What::Above(_) => continue,
            };
            let mut bits = [0; WORDS];
            for m in matches {
                looked_at += 1;
                bits.iter_mut().zip(m.mask).for_each(|(b, m)| *b |= m);
            }
            spoken.iter_mut().zip(k.view.origins(&bits)).for_each(|(s, o)| *s |= o);
        }
        if !self.worked(looked_at) {
            return Err(Spent);
        }
        s.view.after_again(e, &spoken)
    }

    fn group(&mut self, id: u32, s: &State) {
        let vdp = self.vdp;
        let Some(g) = vdp.groups.get(&id).filter(|_| s.depth < MAX_DEPTH) else { return };
        if g.network != vdp.network {
            self.tell(Reaches::Group(id), Some(g.network), s, s.frames, &[]);
        }
        for b in &g.buckets {
            let own = State { set: Vec::new(), depth: s.depth + 1, ..s.clone() };
            self.acts(b, own, Then::Nothing);
        }
    }

    fn controllers(&mut self, s: &State) {
        let own = self.vdp.network;
        for c in &self.vdp.controllers {
            let Some(k) = self.plane.controllers.get(*c) else { continue };
            if let Some(other) = k.networks.iter().copied().find(|n| *n != own) {
                self.tell(Reaches::Controller(*c), Some(other), s, s.frames, &[]);
            }
        }
    }

    /// The parts of others at a port that frames could be in, with what of them stays others': the strongest
    /// claim first, so that a network is told before whoever has what is left over.
    fn foreign(&self, s: &State, number: u32) -> Vec<(usize, Region, Vec<Region>)> {
        let own = self.vdp.network;
        let at = |p: &Part| p.is_at(number);
        let mut out = Vec::new();
        for (_, p) in self.shares.parts().filter(|(_, p)| p.network != own && at(p)) {
            let Some(in_part) = s.view.back(&p.matcher).and_then(|m| s.frames.and(&m)) else {
                continue;
            };
            let wins = |o: &Part| at(o) && o.whole && o.priority > p.priority;
            let above = self.shares.parts().filter(|(_, o)| wins(o) && o.meets_match(&p.matcher));
            let minus = above.filter_map(|(_, o)| s.view.back(&o.matcher));
            out.push((p.priority, (p.network, in_part, minus.collect())));
        }
        out.sort_by_key(|(priority, _)| std::cmp::Reverse(*priority));
        out.into_iter().map(|(_, part)| part).collect()
    }

    /// Frames leave by a port.
    fn emit(&mut self, port: usize, s: &State) {
        let own = self.vdp.network;
        if !self.shares.is_shared(own, port) || self.seen.contains(&(s.by, Reaches::Port(port))) {
            return;
        }
        let number = self.number(port);
        if !self.shares.holders(port).any(|n| n == own) {
            // Where it has no port it has no part of one.
            let to = self.shares.holders(port).next();
            self.tell(Reaches::Port(port), to, s, s.frames, &[]);
            return;
        }
        if self.shares.plainly(own, number, &s.view.now(&s.frames)) || !self.can_be(&s.frames) {
            return;
        }
        for (to, frames, minus) in self.foreign(s, number) {
            if self.tell(Reaches::Port(port), Some(to), s, frames, &minus) {
                return;
            }
        }
        let all = self.shares.parts().filter(|(_, p)| p.whole && p.is_at(number));
        let minus: Vec<Region> = all.filter_map(|(_, p)| s.view.back(&p.matcher)).collect();
        self.tell(Reaches::Port(port), None, s, s.frames, &minus);
    }

    /// Whether any frame's header is in a region, as far as shapes say. Those of the cases that actions
    /// are split into that no frame is in are not held against every part of a port one by one.
    fn can_be(&mut self, frames: &Region) -> bool {
        let shapes = &self.plane.layout.shapes;
        let frames = came_in(frames);
        self.worked(shapes.len() as u64)
            && (shapes.is_empty() || shapes.iter().any(|s| s.meets(&frames)))
    }

    /// Tells a leak, if frames remain that show it. Says whether.
    fn tell(
        &mut self,
        reaches: Reaches,
        to: Option<usize>,
        s: &State,
        frames: Region,
        minus: &[Region],
    ) -> bool {
        if self.seen.contains(&(s.by, reaches)) {
            return true;
        }
        let Some(frames) = self.search(frames, minus) else { return false };
        self.seen.insert((s.by, reaches));
        self.found.leaks.push(Leak {
            from: self.vdp.network,
            to,
            reaches,
            vdp: self.at,
            by: s.by,
            in_port: s.in_port,
            frames: came_in(&frames),
            leaves: matches!(reaches, Reaches::Port(_)).then(|| s.view.now(&frames)),
            sure: self.sureness(&frames, s),
        });
        true
    }

    fn sureness(&self, frames: &Region, s: &State) -> Sure {
        let own = self.vdp.network;
        let partly = |p: &Part| !p.whole && p.network == own;
        if s.sure == Sure::May
            || s.view.guesses(frames)
            || self.shares.parts().any(|(_, p)| partly(p))
        {
            Sure::May
        } else if looks_behind(frames) {
            Sure::Content
        } else {
            Sure::Frame
        }
    }

    /// Frames among these that the rules above leave, and that can be.
    fn search(&mut self, frames: Region, minus: &[Region]) -> Option<Region> {
        let mut out: Vec<Region> = minus.iter().filter(|m| m.meets(&frames)).copied().collect();
        for k in &self.kept {
            let mut add = |m: &Match| out.extend(k.view.back(m).filter(|m| m.meets(&frames)));
            match &k.what {
                What::Rules(rules) => rules.iter().for_each(|r| add(&r.matcher)),
                What::Not(these) => these.iter().for_each(&mut add),
                What::Above(p) => {
                    let wins = |r: &&MapRule| {
                        r.priority > *p && r.takes == Takes::All && r.vdp != usize::MAX
                    };
                    self.plane.mapping.iter().filter(wins).for_each(|r| add(&r.matcher));
                }
            }
        }
        match self.remain(&frames, &out) {
            Ok(found) => found,
            Err(Spent) => {
                self.found.spent = true;
                None
            }
        }
    }

    fn remain(&mut self, frames: &Region, out: &[Region]) -> Result<Option<Region>, Spent> {
        let any = remainder(frames, out, &mut self.work)?;
        let shapes = &self.plane.layout.shapes;
        if any.is_none() || shapes.is_empty() {
            return Ok(any);
        }
        for shape in shapes {
            let of = View::default().back(shape).and_then(|m| frames.and(&m));
            let Some(of) = of else { continue };
            if let Some(found) = remainder(&of, out, &mut self.work)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

/// Frames that two networks claim with equal priority, for the part at this place and those before.
pub fn claims(plane: &Plane, shares: &Shares, place: usize, work: u64) -> Found {
    let mut found = Found::default();
    let Some(p) = shares.part(place) else { return found };
    let vdp = plane.mapping.get(place).filter(|_| plane.shares.is_none()).map_or(0, |r| r.vdp);
    let Some(mut w) = Walk::new(plane, shares, vdp, work) else { return found };
    let equal = |o: &Part| o.priority == p.priority && o.network != p.network;
    for (_, o) in shares.parts().filter(|(i, o)| *i < place && equal(o) && o.meets(p)) {
        let Some(both) = o.matcher.and(&p.matcher) else { continue };
        let ports = plane.ports.iter().enumerate();
        for (in_port, port) in ports.filter(|(_, x)| o.is_at(x.number) && p.is_at(x.number)) {
            if !w.worked(1) {
                break;
            }
            let l = &plane.layout;
            let at = both.and(&l.in_port.is(port.number.into())).and_then(|m| m.and(&l.start));
            let Some(frames) = at.and_then(|m| View::default().back(&m)) else { continue };
            let above = |x: &Part| x.priority > p.priority && x.whole && x.is_at(port.number);
            let minus: Vec<Region> = shares
                .parts()
                .filter(|(_, x)| above(x))
                .filter_map(|(_, x)| View::default().back(&x.matcher))
                .collect();
            let Some(frames) = w.search(frames, &minus) else { continue };
            found.leaks.push(Leak {
                from: o.network,
                to: Some(p.network),
                reaches: Reaches::Claimed,
                vdp,
                // The rule of `vdp`, which takes them from the one that was there before.
                by: if plane.shares.is_some() { By::Share(place) } else { By::Mapping(place) },
                in_port,
                frames: came_in(&frames),
                leaves: None,
                sure: if o.whole && p.whole { Sure::Frame } else { Sure::May },
            });
            break;
        }
    }
    found.spent = w.found.spent;
    found
}
