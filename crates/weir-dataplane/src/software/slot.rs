//! One VDP on the slow path: the rules that live there, its ports, its program.
//!
//! Room: owned by a `Server`, changed by jobs only.

use crate::action::PortNo;
use crate::compile::ActionResult;
use crate::control::{Placed, RuleView};
use crate::counters::Tally;
use crate::matching::{Put, RuleSpec, Tables};
use crate::program::{Program, ProgramPort};
use weir_classify::Match;
use weir_packet::PortId;

/// A VDP on the slow path: the rules that live there, then its program.
pub struct Slot {
    /// Rules that are not (or not only) on the fast path.
    pub tables: Tables,
    /// What a frame without a rule gets.
    pub default: ActionResult,
    /// The program.
    pub program: Option<Box<dyn Program>>,
    /// The VDP's ports: number, port of the data plane.
    pub ports: Vec<(PortNo, PortId)>,
    pub(super) live: Vec<PortId>,
    pub(super) all: Vec<PortId>,
    pub(super) program_ports: Vec<ProgramPort>,
    /// The VDP's own fields.
    pub fields: crate::userfield::UserFields,
    /// Rules of the fast path that stand here, too, while the VDP is on the slow path.
    copied: Vec<(u8, Match, u32)>,
}

/// Hits that a copied rule had on the slow path.
#[derive(Clone, Copy, Debug)]
pub struct CopyHits {
    /// Its table.
    pub table: u8,
    /// Its match.
    pub matcher: Match,
    /// Its priority.
    pub priority: u32,
    /// What it matched.
    pub hits: Tally,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot")
            .field("rules", &self.tables.len())
            .field("program", &self.program.as_ref().map(|p| p.name()))
            .finish_non_exhaustive()
    }
}

impl Slot {
    /// A VDP with this program and no rules.
    pub fn new(program: Option<Box<dyn Program>>) -> Self {
        Self {
            tables: Tables::default(),
            default: ActionResult::to_channel(),
            program,
            ports: Vec::new(),
            live: Vec::new(),
            all: Vec::new(),
            program_ports: Vec::new(),
            fields: crate::userfield::UserFields::default(),
            copied: Vec::new(),
        }
    }
    /// Whether frames that come by the default rule meet anything here before the program.
    #[inline]
    pub(crate) fn judges(&self) -> bool {
        !self.tables.is_empty() || !self.default.is_to_channel()
    }
    /// Puts a copy of a fast-path rule here.
    pub(crate) fn put_copy(&mut self, table: u8, spec: &RuleSpec, result: ActionResult) {
        if self.tables.put(table, spec, result) == Some(Put::Added) {
            self.copied.push((table, spec.matcher, spec.priority));
        }
    }
    /// Puts a rule here that the fast path has not.
    pub(crate) fn put_own(&mut self, table: u8, spec: &RuleSpec, result: ActionResult) {
        self.copied.retain(|c| *c != (table, spec.matcher, spec.priority));
        self.tables.put(table, spec, result);
    }
    /// Takes a rule away.
    pub(crate) fn take_rule(&mut self, table: u8, matcher: &Match, priority: u32) {
        if let Some(t) = self.tables.tables.get_mut(usize::from(table)) {
            t.take(matcher, priority);
        }
    }
    /// Takes all copies away and says what they matched.
    pub(crate) fn end_copy(&mut self) -> Vec<CopyHits> {
        let take = |(table, matcher, priority): (u8, Match, u32)| {
            let e = self.tables.tables.get_mut(usize::from(table))?.take(&matcher, priority)?;
            Some(CopyHits { table, matcher, priority, hits: e.hits })
        };
        std::mem::take(&mut self.copied).into_iter().filter_map(take).collect()
    }
    /// Every rule here with its counters.
    pub(crate) fn views(&self) -> Vec<RuleView> {
        self.tables.views(Placed::Slow)
    }
    /// Tells the slot its ports: number, port of the data plane, whether up, longest frame.
    pub fn set_ports(&mut self, ports: &[(ProgramPort, PortId)]) {
        self.ports = ports.iter().map(|(p, id)| (p.no, *id)).collect();
        self.all = ports.iter().map(|(_, id)| *id).collect();
        self.live = ports.iter().filter(|(p, _)| p.up).map(|(_, id)| *id).collect();
        self.program_ports = ports.iter().map(|(p, _)| *p).collect();
    }
    /// Its ports that are up.
    pub(crate) fn live(&self) -> &[PortId] {
        &self.live
    }
    /// All its ports.
    pub(crate) fn all(&self) -> &[PortId] {
        &self.all
    }
    /// Its number for a port of the data plane, 0 where it has none.
    pub(crate) fn local(&self, id: PortId) -> PortNo {
        self.ports.iter().find(|(_, i)| *i == id).map_or(PortNo(0), |(n, _)| *n)
    }
}
