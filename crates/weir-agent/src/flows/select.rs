//! Which flows a request means (1.3 §6.4), found piece by piece, so that no list of a million is
//! made.

use super::{Behaviour, Flow, Flows};
use weir_dataplane::{DataPlane, RuleRef, Vid};
use weir_openflow::model::{GROUP_ANY, Match, Port, TABLE_ALL};

/// Which flows a request means, beside their match.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub table: u8,
    pub cookie: u64,
    pub cookie_mask: u64,
    pub out_port: Port,
    pub out_group: u32,
}

impl Filter {
    /// Whether it means flows of this table.
    pub fn means_table(&self, table: u8) -> bool {
        self.table == TABLE_ALL || self.table == table
    }
    /// Whether it leaves a flow alone that does not output where it says, or has another cookie.
    pub fn admits(&self, flow: &Flow, does: Option<&Behaviour>) -> bool {
        (flow.cookie ^ self.cookie) & self.cookie_mask == 0
            && (self.out_port == Port::ANY || does.is_some_and(|b| b.outs.contains(&self.out_port)))
            && (self.out_group == GROUP_ANY
                || does.is_some_and(|b| b.groups.contains(&self.out_group)))
    }
    /// Whether it admits any flow of the tables that it means.
    pub fn admits_all(&self) -> bool {
        self.cookie_mask == 0 && self.out_port == Port::ANY && self.out_group == GROUP_ANY
    }
}

/// Flows that a request means, taken piece by piece. Those that are added meanwhile may be among
/// them.
#[derive(Debug)]
pub(crate) enum Selection {
    /// Just these, and how many were taken.
    These(Vec<RuleRef>, usize),
    /// Those that fit, from a place on.
    Walk(Box<(Filter, Match)>, RuleRef),
}

impl Selection {
    /// All within a match that a filter admits.
    pub fn walk(filter: Filter, within: Match) -> Self {
        let table = if filter.table == TABLE_ALL { 0 } else { filter.table };
        Selection::Walk(Box::new((filter, within)), RuleRef { table, slot: 0 })
    }
    /// The next of them; none: that was all.
    pub fn next(&mut self, flows: &Flows, most: usize) -> Vec<RuleRef> {
        match self {
            Selection::These(all, taken) => {
                let rest = all.get(*taken..).unwrap_or_default();
                let piece = rest.get(..most).unwrap_or(rest).to_vec();
                *taken += piece.len();
                piece
            }
            Selection::Walk(what, next) => flows.walk(&what.0, &what.1, next, most),
        }
    }
}

impl From<Vec<RuleRef>> for Selection {
    fn from(these: Vec<RuleRef>) -> Self {
        Selection::These(these, 0)
    }
}

impl Flows {
    fn walk(
        &self,
        filter: &Filter,
        within: &Match,
        next: &mut RuleRef,
        most: usize,
    ) -> Vec<RuleRef> {
        let mut out = Vec::with_capacity(most.min(self.len()));
        while let Some(t) = self.tables.get(usize::from(next.table)) {
            let from = next.slot as usize;
            let rest = t.flows.get(from..).unwrap_or_default();
            for f in rest.iter().take_while(|_| filter.means_table(next.table)) {
                if out.len() == most {
                    return out;
                }
                let at = *next;
                next.slot += 1;
                if f.as_ref().is_some_and(|f| self.is_meant(filter, within, f)) {
                    out.push(at);
                }
            }
            // There are 255 tables at most.
            *next = RuleRef { table: next.table + 1, slot: 0 };
        }
        out
    }
    /// Whether a flow is among those that a request means, of its tables.
    pub fn is_meant(&self, filter: &Filter, within: &Match, f: &Flow) -> bool {
        filter.admits(f, self.behaviours.get(f.behaviour))
            && (within.0.is_empty()
                || self.shapes.get(f.shape).is_some_and(|s| s.is_within(&f.values, within)))
    }
    /// Where only flows with just the fields and masks of `within` can be meant: the tables and
    /// priorities at which there are such.
    pub fn places(&self, filter: &Filter, within: &Match) -> Option<Vec<(u8, u16)>> {
        let own = self.shapes.find(&super::ShapeKey(within), |s| s.is_of(within));
        let mut out = Vec::new();
        for (table, priority, shape) in self.shapes_at.keys() {
            if !filter.means_table(*table) {
                continue;
            }
            if Some(*shape) == own {
                out.push((*table, *priority));
            } else if self.shapes.get(*shape).is_none_or(|s| s.covers(within)) {
                return None;
            }
        }
        Some(out)
    }
    /// The flows with just this match at these places that a filter admits.
    pub fn find_each(
        &mut self,
        dp: &DataPlane,
        vid: Vid,
        places: &[(u8, u16)],
        filter: &Filter,
        m: &Match,
    ) -> Vec<RuleRef> {
        let mut out = Vec::new();
        for (table, priority) in places {
            let id = self.identity(*table, *priority, m);
            let keys = self.keys(&id);
            out.extend(self.find(dp, vid, &id, &keys).filter(|at| {
                self.get(*at).is_some_and(|f| filter.admits(f, self.behaviours.get(f.behaviour)))
            }));
            self.forget(id);
        }
        out
    }
}
