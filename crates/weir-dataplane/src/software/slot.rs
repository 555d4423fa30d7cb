//! One VDP on the slow path: the rules that live there, its ports, its program.
//!
//! Room: owned by a `Server`, changed by jobs only.

use super::copied::Copied;
use crate::action::PortNo;
use crate::compile::ActionResult;
use crate::control::{Placed, RuleView};
use crate::counters::SharedUsage;
use crate::edge::{PortFlags, reserved_no};
use crate::matching::{Counting, RuleSpec, Tables};
use crate::program::{Program, ProgramPort};
use crate::punt::PuntSink;
use crate::spares::Taken;
use crate::userfield::UserFields;
use std::sync::Arc;
use weir_packet::PortId;

/// A VDP's tables on the slow path. Most VDPs have no rules there: they are made when they are needed.
#[derive(Debug)]
pub struct SlowTables {
    pub(super) made: Option<Box<Tables>>,
    counting: Counting,
}

impl SlowTables {
    /// What is there, if anything was needed so far.
    pub fn get(&self) -> Option<&Tables> {
        self.made.as_deref()
    }
    /// They are there from now on.
    pub fn get_mut(&mut self) -> &mut Tables {
        self.made.get_or_insert_with(|| Box::new(Tables::counted(&self.counting)))
    }
}

/// A VDP on the slow path: the rules that live there, then its program.
pub struct Slot {
    /// Rules that are not (or not only) on the fast path.
    pub tables: SlowTables,
    /// What a frame without a rule gets.
    pub default: ActionResult,
    /// The program.
    pub program: Option<Box<dyn Program>>,
    /// What gets frames for LOCAL.
    pub own_stack: Option<Box<dyn Program>>,
    /// Where frames for the controllers go.
    pub sink: Option<Box<dyn PuntSink>>,
    /// The VDP's ports.
    pub ports: Box<[SlotPort]>,
    pub(super) live: Box<[PortId]>,
    pub(super) all: Box<[PortId]>,
    pub(super) program_ports: Box<[ProgramPort]>,
    /// The VDP's own fields.
    pub fields: UserFields,
    /// Rules of the fast path that stand here, too, while the VDP is on the slow path.
    pub(super) copied: Option<Box<Copied>>,
    /// Spare frames that it has had.
    pub(super) taken: Taken,
    /// Frames that its programs keep.
    pub(super) kept: usize,
}

/// A port of a VDP on the slow path.
#[derive(Clone, Copy, Debug)]
pub struct SlotPort {
    /// As programs see it.
    pub port: ProgramPort,
    /// The port of the data plane.
    pub id: PortId,
    /// What the VDP asks of it.
    pub flags: PortFlags,
}

/// A rule on its way to the slow path.
pub(crate) struct SlowRule {
    /// As its owner wrote it.
    pub spec: RuleSpec,
    /// What it comes down to.
    pub result: ActionResult,
    /// Where its hits are counted.
    pub usage: Arc<SharedUsage>,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot")
            .field("rules", &self.tables.get().map_or(0, Tables::len))
            .field("program", &self.program.as_ref().map(|p| p.name()))
            .finish_non_exhaustive()
    }
}

impl Slot {
    /// A VDP with this program and no rules; lookups are counted so.
    pub(crate) fn new(program: Option<Box<dyn Program>>, counting: Counting) -> Self {
        Self {
            tables: SlowTables { made: None, counting },
            default: ActionResult::to_channel(),
            program,
            ports: Box::default(),
            live: Box::default(),
            all: Box::default(),
            own_stack: None,
            sink: None,
            program_ports: Box::default(),
            fields: UserFields::default(),
            copied: None,
            taken: Taken::default(),
            kept: 0,
        }
    }
    /// Whether frames that come by the default rule meet anything here before the program.
    #[inline]
    pub(crate) fn judges(&self) -> bool {
        self.tables.get().is_some_and(|t| !t.is_empty()) || !self.default.is_to_channel()
    }
    /// Other tables in the place of those that are there, copies included.
    pub(crate) fn start_anew(&mut self, tables: Tables) {
        self.tables.counting = tables.counting.clone();
        self.tables.made = Some(Box::new(tables));
        self.copied = None;
    }
    /// Every rule that only this path has, with its counters.
    pub(crate) fn views(&self) -> Vec<RuleView> {
        let Some(tables) = self.tables.get() else { return Vec::new() };
        let is_copy = |table, slot| self.copied.as_ref().is_some_and(|c| c.has(table, slot));
        tables.views_of(Placed::Slow, |table, slot| !is_copy(table, slot))
    }
    /// Tells the slot its ports, and the programs which numbers are others' now.
    pub fn set_ports(&mut self, ports: Vec<SlotPort>) {
        let stays =
            |was: &SlotPort| ports.iter().any(|p| (p.port.no, p.id) == (was.port.no, was.id));
        for was in self.ports.iter().filter(|p| !stays(p)) {
            for program in self.program.iter_mut().chain(&mut self.own_stack) {
                program.forget_port(was.port.no);
            }
        }
        let ids = |of: &dyn Fn(&SlotPort) -> bool| -> Box<[PortId]> {
            ports.iter().filter(|p| of(p)).map(|p| p.id).collect()
        };
        self.all = ids(&|p| p.flags.may_send());
        self.live = ids(&|p| p.port.up);
        self.program_ports = ports.iter().map(|p| p.port).collect();
        self.ports = ports.into();
    }
    /// Has programs forget whom they know behind the slot's ports.
    pub(crate) fn forget_ports(&mut self) {
        let ports = self.ports.iter().map(|p| p.port.no);
        for program in self.program.iter_mut().chain(&mut self.own_stack) {
            ports.clone().for_each(|no| program.forget_port(no));
        }
    }
    /// How many frames its programs may keep, where `all` are kept on a channel of so many places.
    #[inline]
    pub(super) fn most_kept(&self, all: usize, places: usize) -> usize {
        places.saturating_sub(all - self.kept) / 2
    }
    /// Counts the frames that its programs keep, there and in the sum of `all`.
    #[inline]
    pub(super) fn count_kept(&mut self, all: &mut usize) {
        let of = |p: &Option<Box<dyn Program>>| p.as_ref().map_or(0, |p| p.held());
        let now = of(&self.program) + of(&self.own_stack);
        *all = *all - self.kept + now;
        self.kept = now;
    }
    /// All that may keep frames.
    pub(super) fn programs(&mut self) -> impl Iterator<Item = &mut Box<dyn Program>> {
        self.program.iter_mut().chain(&mut self.own_stack)
    }
    /// Its ports that are up.
    pub(crate) fn live(&self) -> &[PortId] {
        &self.live
    }
    /// All its ports.
    pub(crate) fn all(&self) -> &[PortId] {
        &self.all
    }
    /// What the VDP asks of a port.
    pub(crate) fn flags(&self, id: PortId) -> PortFlags {
        self.ports.iter().find(|p| p.id == id).map_or(PortFlags::NONE, |p| p.flags)
    }
    /// Its number for a port of the data plane, 0 where it has none.
    pub(crate) fn local(&self, id: PortId) -> PortNo {
        local_no(&self.ports, id)
    }
}

/// A VDP's number for a port of the data plane.
pub(super) fn local_no(ports: &[SlotPort], id: PortId) -> PortNo {
    ports.iter().find(|p| p.id == id).map_or_else(|| reserved_no(id), |p| p.port.no)
}
