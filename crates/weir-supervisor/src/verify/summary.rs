//! What a table and all that may follow it can do to frames at most: read off the actions, whatever
//! the matches.
//!
//! Where that cannot leave the network, the table need not be entered.
//!
//! Room: called by `walk`, once for each VDP.

use super::plane::{Act, Bits, Edit, Plane, Program, To, Vdp};
use super::shares::{NONE, Shares};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What may happen at most.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Bits that may change.
    pub writes: Bits,
    /// Shared ports that frames may leave by, by place.
    pub ports: Vec<usize>,
    /// Whether something of another network's is reached that no header keeps frames from.
    pub strays: bool,
    /// Whether frames may leave by the port that they came by.
    pub returns: bool,
    /// Groups that were followed.
    groups: BTreeSet<u32>,
}

impl Default for Summary {
    fn default() -> Self {
        let (ports, groups) = (Vec::new(), BTreeSet::new());
        Self { writes: NONE, ports, strays: false, returns: false, groups }
    }
}

/// What summaries are made from.
#[derive(Clone, Copy)]
pub struct Maker<'a> {
    /// The plane.
    pub plane: &'a Plane,
    /// Its shares.
    pub shares: &'a Shares,
    /// Whose tables.
    pub vdp: &'a Vdp,
}

impl Maker<'_> {
    /// Of each table and what may follow it, and last of the default alone.
    pub fn all(&self) -> Vec<Summary> {
        let mut default = Summary::default();
        self.acts(&self.vdp.default, &mut default);
        let mut out = vec![default.clone(); self.vdp.tables.len() + 1];
        for (t, table) in self.vdp.tables.iter().enumerate().rev() {
            let mut s = default.clone();
            let mut last: Option<&Arc<[Act]>> = None;
            let mut goes = [false; 256];
            for r in table.rules() {
                // Rules come in rows that do the same.
                if last.is_some_and(|l| Arc::ptr_eq(l, &r.acts)) {
                    continue;
                }
                last = Some(&r.acts);
                self.acts(&r.acts, &mut s);
                for a in r.acts.iter() {
                    if let Act::Goto(n) = a {
                        goes[usize::from(*n)] = true;
                    }
                }
            }
            for (n, _) in goes.iter().enumerate().filter(|(n, g)| **g && *n > t) {
                if let Some(later) = out.get(n.min(self.vdp.tables.len())).cloned() {
                    s.merge(&later);
                }
            }
            if let Some(o) = out.get_mut(t) {
                *o = s;
            }
        }
        out
    }
    /// Adds what actions may do.
    pub fn acts(&self, acts: &[Act], s: &mut Summary) {
        for a in acts {
            match a {
                Act::Edit(e) => s.edit(e),
                Act::Cases(cases) => cases.iter().flat_map(|c| &c.edits).for_each(|e| s.edit(e)),
                Act::Output(To::Port(p)) => self.port(*p, s),
                Act::Output(To::InPort) => s.returns = true,
                Act::Output(To::All) => self.all_ports(s),
                Act::Program if self.vdp.program == Program::Passes => self.all_ports(s),
                Act::Group(id) => {
                    let Some(g) = self.vdp.groups.get(id).filter(|_| s.groups.insert(*id)) else {
                        continue;
                    };
                    s.strays |= g.network != self.vdp.network;
                    g.buckets.iter().for_each(|b| self.acts(b, s));
                }
                Act::Controller => {
                    let foreign = |c: &usize| {
                        let c = self.plane.controllers.get(*c);
                        c.is_some_and(|c| c.networks.iter().any(|n| *n != self.vdp.network))
                    };
                    s.strays |= self.vdp.controllers.iter().any(foreign);
                }
                Act::Write(set) => {
                    set.iter().for_each(|(_, list)| self.acts(list, s));
                }
                Act::Program | Act::Goto(_) | Act::Clear => {}
            }
        }
    }
    fn all_ports(&self, s: &mut Summary) {
        self.vdp.ports.iter().for_each(|(_, p)| self.port(*p, s));
    }
    fn port(&self, port: usize, s: &mut Summary) {
        if self.shares.is_shared(self.vdp.network, port) && !s.ports.contains(&port) {
            s.ports.push(port);
        }
    }
}

impl Summary {
    /// Adds what another says.
    pub fn merge(&mut self, o: &Summary) {
        self.writes.iter_mut().zip(o.writes).for_each(|(w, b)| *w |= b);
        let new = o.ports.iter().filter(|p| !self.ports.contains(p)).copied().collect::<Vec<_>>();
        self.ports.extend(new);
        self.strays |= o.strays;
        self.returns |= o.returns;
    }
    fn edit(&mut self, e: &Edit) {
        let bits = match e {
            Edit::Set(m) => m.mask,
            Edit::Copy(_, to) => to.bits(),
            Edit::Reveal(b) | Edit::Unknown(b) => **b,
        };
        self.writes.iter_mut().zip(bits).for_each(|(w, b)| *w |= b);
    }
}
