//! Proof of isolation: decides, from the rules as installed, whether a frame of one network can
//! reach another's port, rule, counter or controller. Exactly, not by sampling: what is said holds
//! for every frame, and what is said to leak comes with frames that show it.
//!
//! # What "reach" means
//! A *network* has VDPs; it *has* the ports that its VDPs have. A port that one network has is its
//! own, with every frame on it. On a port that several have, each has a *part*: the frames that,
//! coming in by it, would be mapped to the network (or what [`Plane::shares`] declares). It is the
//! wire's division, so it holds for both directions. Then a plane is isolated when
//!
//! 1. *(ports)* every frame that a VDP's rules, groups, default or program send by a port that
//!    another network has lies, as it leaves, in the sender's own part of that port. Who has not
//!    the port has no part of it, and frames in nobody's part count as leaving one's own;
//! 2. *(rules and counters)* no mapping rule takes frames on a port that other networks have and
//!    its own has not, or, where parts are declared, out of another's part. Once mapped, a frame
//!    meets the tables of its VDP alone, which is how a data plane is built, not what is shown here;
//! 3. *(counters)* no rule sends to a group of another network;
//! 4. *(controllers)* no rule or default sends to a controller that another network has too;
//! 5. *(claims)* no two networks claim a frame with equal priority, where chance would decide.
//!
//! A VDP that has neither rules nor actions nor a program is nobody's: frames end there.
//!
//! # What is taken as it may be
//! Every bucket of a group may be taken, every port may be up, every meter may pass, of rules of
//! equal priority either may win. Controllers may be there or away: what a VDP does while they are
//! away ([`Vdp::alone`]) is added to what it does by its rules. A program that [`Program::Passes`] sends what it gets by any port
//! of its VDP; one that may do [`Program::Anything`] sends anything by any. Packets that controllers
//! send out by themselves are no rules, and not looked at.
//!
//! # How
//! Sets of frames are ternary cubes (header-space analysis, Kazemian et al., NSDI 2012) less the
//! rules above, which are taken away only where the cube alone would leak (`cube::remainder`, a
//! tautology check by splitting). Changes are followed by saying, of every bit of the header, which
//! bit of the incoming frame it is (`view`), so a leak comes out as the frames that go in. What
//! cannot leak whatever its matches say is not entered (`summary`). `docs/decisions/0022` says why.
//!
//! Room: no I/O, no clock, nothing of a switch's own. Called by `weir net verify`. The judge is
//! `tests/verify`, which follows every frame of small planes.

mod cube;
mod plane;
mod report;
mod shares;
mod summary;
mod view;
mod walk;

pub use cube::{Cube, Spent, remainder};
pub use plane::{
    Act, Bits, Case, Controller, Edit, FieldAt, GROUP_KIND, Group, Layout, MapRule, Match,
    OUTPUT_KIND, Plane, Port, Program, Rule, Share, Table, Takes, To, Vdp, WORDS,
};
pub use report::{By, Leak, Reaches, Report, Sure};

use shares::Shares;
use walk::{Found, Walk, claims};

/// Work that one VDP may take: rules looked at and cubes taken away, about a second's worth.
pub const WORK: u64 = 20_000_000;

/// The priority of what no mapping rule takes: below all of them.
const REST: i64 = -1;

/// Stands for a VDP that is not there: in the place of mapping rules that were taken away.
const GONE: usize = usize::MAX;

/// A plane that has been verified, and is kept so: after a change only what it touches is looked at
/// again.
#[derive(Debug)]
pub struct Verifier {
    plane: Plane,
    shares: Shares,
    /// By VDP: its mapping rules.
    mapping_of: Vec<Vec<usize>>,
    /// By mapping rule.
    of_mapping: Vec<Found>,
    /// By part.
    of_claims: Vec<Found>,
    /// By VDP.
    of_vdp: Vec<Found>,
    work: u64,
}

impl Verifier {
    /// Verifies all of a plane. Work past `work` for one VDP leaves it undecided.
    pub fn new(mut plane: Plane, work: u64) -> Self {
        if let Some(vdp) = plane.rest.filter(|r| plane.vdps.get(*r).is_some_and(|v| !v.is_sink())) {
            let (matcher, takes) = (Match::any(), Takes::All);
            plane.mapping.push(MapRule { vdp, matcher, priority: REST, takes });
        }
        let mut v = Self {
            shares: Shares::of(&plane),
            mapping_of: vec![Vec::new(); plane.vdps.len()],
            of_mapping: vec![Found::default(); plane.mapping.len()],
            of_claims: Vec::new(),
            of_vdp: vec![Found::default(); plane.vdps.len()],
            plane,
            work,
        };
        for (i, r) in v.plane.mapping.iter().enumerate() {
            if let Some(of) = v.mapping_of.get_mut(r.vdp) {
                of.push(i);
            }
        }
        let places: Vec<usize> = v.shares.parts().map(|(i, _)| i).collect();
        v.of_claims = vec![Found::default(); places.last().map_or(0, |l| l + 1)];
        (0..v.plane.vdps.len()).for_each(|at| v.look(at));
        places.into_iter().for_each(|at| v.look_at_claims(at));
        v
    }

    /// The plane.
    pub fn plane(&self) -> &Plane {
        &self.plane
    }

    /// What holds of the plane as it is now, with so many leaks at most.
    pub fn report(&self, leaks: usize) -> Report {
        let all = || self.of_mapping.iter().chain(&self.of_claims).chain(&self.of_vdp);
        let count: usize = all().map(|f| f.leaks.len()).sum();
        let spent = |at: &usize| {
            let mapping = self.mapping_of.get(*at).into_iter().flatten();
            let mut of = mapping.filter_map(|i| self.of_mapping.get(*i));
            of.any(|f| f.spent) || self.of_vdp.get(*at).is_some_and(|f| f.spent)
        };
        let mut undecided: Vec<usize> = (0..self.plane.vdps.len()).filter(spent).collect();
        for (i, _) in self.of_claims.iter().enumerate().filter(|(_, f)| f.spent) {
            undecided.extend(self.plane.mapping.get(i).map(|r| r.vdp));
        }
        undecided.dedup();
        let tables = self.plane.vdps.iter().flat_map(|v| &v.tables);
        Report {
            leaks: all().flat_map(|f| &f.leaks).take(leaks).cloned().collect(),
            more: count.saturating_sub(leaks),
            undecided,
            rules: tables.map(|t| t.rules().len()).sum::<usize>() + self.plane.mapping.len(),
        }
    }

    /// Adds a rule to a VDP's table, or replaces the one with its match and priority.
    pub fn put_rule(&mut self, vdp: usize, table: u8, rule: Rule) {
        let Some(v) = self.plane.vdps.get_mut(vdp) else { return };
        let was_sink = v.is_sink();
        let table = usize::from(table);
        if v.tables.len() <= table {
            v.tables.resize_with(table + 1, Table::default);
        }
        if let Some(t) = v.tables.get_mut(table) {
            t.put(rule);
        }
        self.changed(vdp, was_sink);
    }

    /// Takes a rule away; says whether it was there.
    pub fn remove_rule(&mut self, vdp: usize, table: u8, matcher: &Match, priority: u32) -> bool {
        let Some(v) = self.plane.vdps.get_mut(vdp) else { return false };
        let was_sink = v.is_sink();
        let there =
            v.tables.get_mut(usize::from(table)).is_some_and(|t| t.remove(matcher, priority));
        self.changed(vdp, was_sink);
        there
    }

    /// Puts another in the place of a VDP, if it is of the same network, and has the same ports and
    /// controllers. Says whether; otherwise nothing is changed.
    pub fn put_vdp(&mut self, at: usize, vdp: Vdp) -> bool {
        let same = |v: &&mut Vdp| {
            (v.network, &v.ports, &v.controllers) == (vdp.network, &vdp.ports, &vdp.controllers)
        };
        let Some(v) = self.plane.vdps.get_mut(at).filter(same) else { return false };
        let was_sink = v.is_sink();
        *v = vdp;
        self.changed(at, was_sink);
        true
    }

    /// A VDP's rules are others now.
    fn changed(&mut self, vdp: usize, was_sink: bool) {
        let is = self.plane.vdps.get(vdp).is_some_and(Vdp::is_sink);
        if is == was_sink {
            return self.look(vdp);
        }
        if self.plane.rest == Some(vdp) {
            // It takes what no rule takes, or does so no longer: whose frames are whose changes.
            let mut plane = self.plane.clone();
            plane.mapping.retain(|r| r.priority != REST && r.vdp != GONE);
            *self = Self::new(plane, self.work);
            return;
        }
        self.look(vdp);
    }

    /// Adds a mapping rule.
    pub fn put_mapping(&mut self, rule: MapRule) {
        let Some(v) = self.plane.vdps.get(rule.vdp) else { return };
        let (network, vdp, place) = (v.network, rule.vdp, self.plane.mapping.len());
        let whole = rule.takes == Takes::All;
        if self.plane.shares.is_none() {
            let at = self.plane.layout.in_port;
            self.shares.add(network, &rule.matcher, rule.priority, whole, at);
            self.of_claims.push(Found::default());
        }
        self.plane.mapping.push(rule);
        self.of_mapping.push(Found::default());
        if let Some(of) = self.mapping_of.get_mut(vdp) {
            of.push(place);
        }
        self.look_around(place);
    }

    /// Takes a mapping rule of a VDP away; says whether it was there.
    pub fn remove_mapping(&mut self, vdp: usize, matcher: &Match, priority: i64) -> bool {
        let same = |r: &MapRule| r.vdp == vdp && r.matcher == *matcher && r.priority == priority;
        let Some(place) = self.plane.mapping.iter().position(same) else { return false };
        let touched = self.touched(place);
        if let Some(r) = self.plane.mapping.get_mut(place) {
            r.vdp = GONE;
        }
        if self.plane.shares.is_none() {
            self.shares.remove(place);
        }
        if let Some(of) = self.mapping_of.get_mut(vdp) {
            of.retain(|i| *i != place);
        }
        if let Some(f) = self.of_mapping.get_mut(place) {
            *f = Found::default();
        }
        self.look_again(&touched);
        true
    }

    /// Gives a VDP other ports. Whose ports those are concerns everyone, so all is looked at again.
    pub fn set_ports(&mut self, vdp: usize, ports: Vec<(u32, usize)>) {
        let Some(v) = self.plane.vdps.get_mut(vdp) else { return };
        let network = v.network;
        let before = std::mem::replace(&mut v.ports, ports.clone());
        self.shares.release(network, &before);
        self.shares.hold(network, &ports);
        (0..self.plane.vdps.len()).for_each(|at| self.look(at));
    }

    /// The networks that a mapping rule has to do with.
    fn touched(&self, place: usize) -> Vec<usize> {
        let Some(rule) = self.plane.mapping.get(place) else { return Vec::new() };
        if self.plane.shares.is_none() {
            return self.shares.part(place).map(|p| self.shares.touched(p)).unwrap_or_default();
        }
        let meets = |r: &&MapRule| r.matcher.meets(&rule.matcher);
        let of = self.plane.mapping.iter().filter(meets).filter_map(|r| self.plane.vdps.get(r.vdp));
        of.map(|v| v.network).collect()
    }

    fn look_around(&mut self, place: usize) {
        let touched = self.touched(place);
        self.look_again(&touched);
    }

    /// Looks at these networks again, and at everything that leaked or was left undecided: what is
    /// said of it may name another now.
    fn look_again(&mut self, networks: &[usize]) {
        let odd = |f: &Found| f.spent || !f.leaks.is_empty();
        for at in 0..self.plane.vdps.len() {
            let of = self.plane.vdps.get(at).is_some_and(|v| networks.contains(&v.network));
            let mapping = self.mapping_of.get(at).into_iter().flatten();
            let mut mapping = mapping.filter_map(|i| self.of_mapping.get(*i));
            if of || self.of_vdp.get(at).is_some_and(odd) || mapping.any(odd) {
                self.look(at);
            }
        }
        let claimed = |f: &Found| odd(f);
        for at in 0..self.of_claims.len() {
            let of = self.shares.part(at).is_none_or(|p| networks.contains(&p.network));
            if of || self.of_claims.get(at).is_some_and(claimed) {
                self.look_at_claims(at);
            }
        }
    }

    /// Looks at a VDP, tables and mapping rules.
    fn look(&mut self, at: usize) {
        let of = self.mapping_of.get(at).cloned().unwrap_or_default();
        let walk = Walk::new(&self.plane, &self.shares, at, self.work);
        if let (Some(w), Some(f)) = (walk, self.of_vdp.get_mut(at)) {
            *f = w.tables(&of);
        }
        of.into_iter().for_each(|place| self.look_at_mapping(place));
    }

    fn look_at_mapping(&mut self, place: usize) {
        let vdp = self.plane.mapping.get(place).map_or(GONE, |r| r.vdp);
        let walk = Walk::new(&self.plane, &self.shares, vdp, self.work);
        if let Some(f) = self.of_mapping.get_mut(place) {
            *f = walk.map(|w| w.mapping(place)).unwrap_or_default();
        }
    }

    fn look_at_claims(&mut self, place: usize) {
        if let Some(f) = self.of_claims.get_mut(place) {
            *f = claims(&self.plane, &self.shares, place, self.work);
        }
    }
}
