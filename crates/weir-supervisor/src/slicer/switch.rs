//! A foreign switch, sliced: who is connected, what it is, and the way in for messages from either side.
//!
//! Room: the door of `slicer`. Owned by whoever has the connections; knows messages and time as it is told them.
//! A driver's part: [`Switch::begin`] once the switch's connection is up; its messages to
//! [`Switch::from_switch`]; when [`Switch::is_ready`], controllers in by [`Switch::connected`] and
//! [`Switch::from_controller`] while [`Switch::takes_from`]; [`Switch::settle`] after every batch.

use super::book::FlowId;
use super::judge::{Floods, Ports};
use super::ledger::{Asker, Ledger, What, error};
use super::plan::{Loss, PortRef, SlicePlan, SpaceRule};
use super::resume::{Fact, Past, Touched};
use super::role::{self, Tiding, USUAL};
use super::slice::{Slice, SliceCounters};
use super::space::{Entry, EntryId, FlowSpace, Right, SliceId, SpaceError};
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use weir_openflow::model::{
    AsyncConfig, ErrorCode, Features, Field, FlowMod, Fragments, GROUP_ALL, GroupCommand,
    GroupKind, GroupMod, METER_ALL, Match, Message, MeterCommand, MeterFlags, MeterMod, Msg, Part,
    Port, PortDesc, PortReason, PortStatus, Role, StatsRequest, SwitchConfig, Version,
};

/// A controller's connection, by a number from 1 that is never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId(pub u64);

/// A connection that there never is: numbers begin at 1.
pub(super) const NOBODY: ConnId = ConnId(0);

/// What is to be sent, in order.
#[derive(Debug, Default)]
pub struct Out {
    /// To the switch.
    pub to_switch: Vec<Msg>,
    /// To controllers.
    pub to_controllers: Vec<(ConnId, Msg)>,
    /// What is to be kept, before anything here is sent.
    pub facts: Vec<Fact>,
    /// Lines for the operator.
    pub told: Vec<String>,
}

/// A controller's connection.
#[derive(Debug)]
pub(super) struct Controller {
    pub slice: SliceId,
    pub role: Role,
    pub wants: AsyncConfig,
}

/// What is known of the switch so far.
#[derive(Debug, Default)]
struct Seen {
    features: Option<Features>,
    ports_known: Known,
    ready: Known,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Known {
    #[default]
    No,
    Yes,
}

/// A rule of the flow space, and its entries where its ports are.
#[derive(Debug)]
struct Ruled {
    rule: SpaceRule,
    entries: BTreeMap<Option<Port>, Vec<EntryId>>,
}

/// One switch with its slices.
#[derive(Debug)]
pub struct Switch {
    pub(super) version: Version,
    seen: Seen,
    pub(super) ports: BTreeMap<Port, PortDesc>,
    pub(super) space: FlowSpace,
    rules: Vec<Ruled>,
    pub(super) slices: Vec<Slice>,
    pub(super) controllers: BTreeMap<ConnId, Controller>,
    pub(super) ledger: Ledger,
    pub(super) next_flow: u64,
    pub(super) next_id: u32,
    pub(super) past: Past,
    pub(super) touched: Touched,
    /// Deleted flows of which the switch has not told all yet, and until when that is waited for.
    pub(super) waning: VecDeque<(Duration, SliceId, FlowId)>,
    /// When a message was handled last.
    pub(super) now: Duration,
}

impl Switch {
    /// A switch of which nothing is known, whose connection speaks this version.
    pub fn new(version: Version, slices: Vec<SlicePlan>, rules: Vec<SpaceRule>) -> Self {
        let slice = |(i, plan)| Slice::new(SliceId(i), plan);
        Self {
            version,
            seen: Seen::default(),
            ports: BTreeMap::new(),
            space: FlowSpace::new(),
            rules: rules.into_iter().map(|rule| Ruled { rule, entries: BTreeMap::new() }).collect(),
            slices: (0..).zip(slices).map(slice).collect(),
            controllers: BTreeMap::new(),
            ledger: Ledger::default(),
            next_flow: 0,
            next_id: 0,
            past: Past::default(),
            touched: Touched::default(),
            waning: VecDeque::new(),
            now: Duration::ZERO,
        }
    }

    /// Asks the switch who it is, and leaves it without flows, groups and meters of before.
    pub fn begin(&mut self, out: &mut Out) {
        self.leave_nothing(out);
        self.ask_who(out);
    }

    /// Deletes what the switch has.
    pub(super) fn leave_nothing(&mut self, out: &mut Out) {
        let mut own = |body| {
            self.ledger.send(None, What::OwnChange, body, &mut out.to_switch);
        };
        own(Message::FlowMod(FlowMod::delete_all(self.version)));
        if self.version == Version::V13 {
            let (command, kind, buckets) = (GroupCommand::Delete, GroupKind::All, Vec::new());
            own(Message::GroupMod(GroupMod { command, kind, id: GROUP_ALL, buckets }));
            let (command, flags, bands) = (MeterCommand::Delete, MeterFlags(0), Vec::new());
            own(Message::MeterMod(MeterMod { command, flags, id: METER_ALL, bands }));
        }
        self.ledger.fence(&mut out.to_switch);
    }

    /// Asks who it is.
    pub(super) fn ask_who(&mut self, out: &mut Out) {
        let mut own = |what, body| {
            self.ledger.send(None, what, body, &mut out.to_switch);
        };
        // Whole packets: a part of one may not tell whose it is.
        let config = SwitchConfig { fragments: Fragments::Normal, miss_send_len: 0xffff };
        own(What::OwnChange, Message::SetConfig(config));
        own(What::Own, Message::FeaturesRequest);
        if self.version == Version::V13 {
            let body = StatsRequest::PortDesc;
            own(What::Own, Message::StatsRequest { more: Part::Last, body });
        }
    }

    /// Whether controllers may come: the switch and its ports are known.
    pub fn is_ready(&self) -> bool {
        self.seen.ready == Known::Yes
    }
    /// The switch's id.
    pub fn datapath_id(&self) -> Option<u64> {
        self.features().map(|f| f.datapath_id)
    }
    /// What the switch said of itself.
    pub(super) fn features(&self) -> Option<&Features> {
        self.seen.features.as_ref()
    }
    /// Its ports.
    pub fn ports(&self) -> impl Iterator<Item = &PortDesc> {
        self.ports.values()
    }
    /// A slice's counters, with its flows and the rules that they take.
    pub fn counters(&self, slice: SliceId) -> Option<(SliceCounters, usize, usize)> {
        let s = self.slices.get(usize::from(slice.0))?;
        Some((s.counters, s.book.len(), s.book.pieces()))
    }

    /// The switch has said who it is.
    pub(super) fn learnt(&mut self, features: Features, out: &mut Out) {
        if self.version == Version::V10 {
            for p in &features.ports {
                self.ports.insert(p.no, p.clone());
            }
            self.seen.ports_known = Known::Yes;
        }
        self.seen.features = Some(features);
        self.perhaps_ready(out);
    }

    /// The switch has said which ports it has.
    pub(super) fn learnt_ports(&mut self, ports: Vec<PortDesc>, more: Part, out: &mut Out) {
        for p in ports {
            self.ports.insert(p.no, p);
        }
        if more == Part::Last {
            self.seen.ports_known = Known::Yes;
            self.perhaps_ready(out);
        }
    }

    /// Whether the switch has said who it is and which ports it has.
    pub(super) fn is_known(&self) -> bool {
        self.seen.features.is_some() && self.seen.ports_known == Known::Yes
    }

    fn perhaps_ready(&mut self, out: &mut Out) {
        if !self.is_known() || self.is_ready() || !matches!(self.past, Past::Emptied) {
            return;
        }
        self.enter_all(out);
        self.now_ready();
    }

    /// Controllers may come.
    pub(super) fn now_ready(&mut self) {
        self.deal_ports();
        self.seen.ready = Known::Yes;
    }

    /// From now on these are the flow space's rules; none is entered yet.
    pub(super) fn set_rules(&mut self, rules: &[SpaceRule]) {
        let ruled = |rule: &SpaceRule| Ruled { rule: rule.clone(), entries: BTreeMap::new() };
        self.rules = rules.iter().map(ruled).collect();
    }

    /// Enters what is meant for this switch into the flow space.
    pub(super) fn enter_all(&mut self, out: &mut Out) {
        let id = self.datapath_id();
        self.rules.retain(|r| r.rule.datapath.is_none_or(|d| Some(d) == id));
        for (slice, _) in
            self.rules.iter().flat_map(|r| &r.rule.grants).filter(|g| g.1 != Right::Read)
        {
            self.space.note_writer(*slice);
        }
        for at in 0..self.rules.len() {
            self.enter(at, None, out);
            for port in self.ports.keys().copied().collect::<Vec<_>>() {
                self.enter(at, Some(port), out);
            }
        }
        self.deal_ports();
    }

    /// Makes a rule's entries for a port, or those for all ports.
    fn enter(&mut self, at: usize, port: Option<Port>, out: &mut Out) {
        let Some(r) = self.rules.get_mut(at) else { return };
        let meant = match port {
            None => r.rule.ports.is_empty(),
            Some(p) => {
                let name = self.ports.get(&p).map(|d| d.name.as_str());
                r.rule.ports.iter().any(|wanted| match wanted {
                    PortRef::Number(n) => *n == p,
                    PortRef::Name(n) => Some(n.as_str()) == name,
                })
            }
        };
        if !meant || r.entries.contains_key(&port) {
            return;
        }
        let mut ids = Vec::new();
        for m in &r.rule.matchers {
            let matcher = match port {
                Some(p) => m.clone().with(Field::InPort, u128::from(p.0)),
                None => m.clone(),
            };
            let (priority, grants) = (r.rule.priority, r.rule.grants.clone());
            let entry = Entry { priority, matcher, grants };
            let done = match r.rule.by {
                Some(giver) => self.space.delegate(giver, entry),
                None => self.space.insert(entry),
            };
            match done {
                Ok(id) => ids.push(id),
                Err(e) => {
                    // None of a rule's entries rather than some.
                    ids.drain(..).for_each(|id| drop(self.space.remove(id)));
                    let port = port.map(|p| format!(" at port {p}")).unwrap_or_default();
                    out.told.push(format!("rule {} of the flow space{port}: {e}", at + 1));
                    break;
                }
            }
        }
        r.entries.insert(port, ids);
    }

    /// Works out which ports each slice sees: those where something is its own.
    fn deal_ports(&mut self) {
        for s in &mut self.slices {
            let of = |r: &&Ruled| r.rule.grants.iter().any(|(g, _)| *g == s.id);
            let mut all = BTreeMap::new();
            for r in self.rules.iter().filter(of) {
                for (port, ids) in &r.entries {
                    match port {
                        _ if ids.is_empty() => {}
                        Some(p) => drop(all.insert(*p, Floods::Yes)),
                        None => {
                            let one = r.rule.matchers.iter().map(|m| m.get(Field::InPort));
                            for m in one {
                                let meant =
                                    |p: &&Port| m.is_none_or(|m| m.value == u128::from(p.0));
                                let ports = self.ports.keys().filter(meant);
                                all.extend(ports.map(|p| (*p, Floods::Yes)));
                            }
                        }
                    }
                }
            }
            for (p, f) in &mut all {
                *f = s.ports.get(p).copied().unwrap_or(Floods::Yes);
            }
            s.ports = all;
        }
    }

    /// A port has changed: whose it is goes by its number and its name of now, and the slices that see it are told.
    pub(super) fn port_changed(&mut self, p: PortStatus, out: &mut Out) {
        let no = p.desc.no;
        let before: Vec<Ports> = self.slices.iter().map(|s| s.ports.clone()).collect();
        let old = match p.reason {
            PortReason::Delete => self.ports.remove(&no),
            PortReason::Add | PortReason::Modify => self.ports.insert(no, p.desc.clone()),
        };
        let name = |d: &PortDesc| d.name.clone();
        if old.as_ref().map(name) != self.ports.get(&no).map(name) {
            self.enter_anew(no, &before, out);
        }
        if !self.is_ready() {
            return;
        }
        for (s, before) in self.slices.iter().zip(before) {
            let reason = match (before.contains_key(&no), s.has(no)) {
                (false, false) => continue,
                (false, true) => PortReason::Add,
                (true, false) => PortReason::Delete,
                (true, true) => p.reason,
            };
            let status = PortStatus { reason, desc: s.port(&p.desc) };
            let tiding = Tiding::PortStatus(reason as u32);
            self.tell(s.id, tiding, &Message::PortStatus(status), out);
        }
    }

    /// Makes the rules' entries for a port anew, and what leans on them: else a number that is used again would
    /// be another's with the flows of whose it was.
    fn enter_anew(&mut self, no: Port, before: &[Ports], out: &mut Out) {
        let compared = matches!(self.past, Past::Compared(_));
        if !self.is_ready() && !compared {
            // All are entered once it is known which switch it is.
            return;
        }
        for r in &mut self.rules {
            for id in r.entries.remove(&Some(no)).unwrap_or_default() {
                self.space.remove(id);
            }
        }
        if self.ports.contains_key(&no) {
            for at in 0..self.rules.len() {
                self.enter(at, Some(no), out);
            }
        }
        self.deal_ports();
        if compared {
            return self.compare(out);
        }
        self.recompile_all(before, out);
        self.touched.note_all(self.slices.len());
    }

    /// A controller of a slice's has connected.
    pub fn connected(&mut self, conn: ConnId, slice: SliceId, out: &mut Out) {
        if self.controllers.values().all(|c| c.slice != slice) {
            self.drop_no_more(slice, out);
        }
        let role = Role::Equal;
        self.controllers.insert(conn, Controller { slice, role, wants: USUAL });
    }

    /// It has gone. What becomes of the slice's flows when it was the last is as configured.
    pub fn disconnected(&mut self, conn: ConnId, out: &mut Out) {
        let Some(gone) = self.controllers.remove(&conn) else { return };
        if self.controllers.values().any(|c| c.slice == gone.slice) {
            return;
        }
        let loss = self.slices.get(usize::from(gone.slice.0)).map(|s| s.plan.loss);
        if loss == Some(Loss::Delete) {
            self.touched.note(gone.slice);
            self.empty(conn, gone.slice, out);
            self.remember(out);
        }
    }

    /// Whether messages of this controller may be handled: not while too much of its slice's is unsettled.
    pub fn takes_from(&self, conn: ConnId) -> bool {
        self.controllers.get(&conn).is_none_or(|c| self.ledger.has_room(c.slice))
    }

    /// Sees to it that changes are settled soon, and that slices are told what the switch does not tell.
    pub fn settle(&mut self, now: Duration, out: &mut Out) {
        self.now = now;
        self.wane(now, out);
        self.ledger.settle(&mut out.to_switch);
    }
    /// When it is to be settled though nothing has come.
    pub fn wake_at(&self) -> Option<Duration> {
        self.waning.front().map(|(until, ..)| *until)
    }

    /// A message from a controller; `head` is how it began.
    pub fn from_controller(
        &mut self,
        conn: ConnId,
        msg: Msg,
        head: &[u8],
        now: Duration,
        out: &mut Out,
    ) {
        self.now = now;
        let Some(slice) = self.controllers.get(&conn).map(|c| c.slice) else { return };
        let asker = Asker { slice, conn, xid: msg.xid, head: head.to_vec() };
        if let Some(s) = self.slices.get_mut(usize::from(slice.0)) {
            s.counters.requests += 1;
        }
        if let Err(code) = self.request(&asker, msg.body, now, out) {
            self.refuse(&asker, code, out);
        }
        self.touched.note(slice);
        self.remember(out);
    }

    pub(super) fn refuse(&mut self, asker: &Asker, code: ErrorCode, out: &mut Out) {
        if let Some(s) = self.slices.get_mut(usize::from(asker.slice.0)) {
            s.counters.refused += 1;
        }
        out.to_controllers.push((asker.conn, error(asker, code)));
    }

    /// Tells those of a slice's controllers that are to hear it.
    pub(super) fn tell(&self, slice: SliceId, what: Tiding, body: &Message, out: &mut Out) -> bool {
        let mut any = false;
        for (conn, c) in self.controllers.iter().filter(|(_, c)| c.slice == slice) {
            if role::is_told(c.role, &c.wants, what) {
                out.to_controllers.push((*conn, Msg { xid: 0, body: body.clone() }));
                any = true;
            }
        }
        any
    }

    /// A controller had no room for what it was told.
    pub fn unread(&mut self, conn: ConnId) {
        let Some(c) = self.controllers.get(&conn) else { return };
        if let Some(s) = self.slices.get_mut(usize::from(c.slice.0)) {
            s.counters.unread += 1;
        }
    }

    /// An answer to a controller that may have gone.
    pub(super) fn answer(&self, asker: &Asker, body: Message, out: &mut Out) {
        if self.controllers.contains_key(&asker.conn) {
            out.to_controllers.push((asker.conn, Msg { xid: asker.xid, body }));
        }
    }
}

impl Slice {
    /// A port as this slice sees it.
    pub(super) fn port(&self, p: &PortDesc) -> PortDesc {
        use weir_openflow::model::PortConfig;
        let mut p = p.clone();
        let own = PortConfig::NO_FLOOD.0;
        p.config.0 &= !own;
        if self.ports.get(&p.no) == Some(&Floods::No) {
            p.config.0 |= own;
        }
        p
    }
    /// Its ports as it sees them.
    pub(super) fn sees(&self, all: &BTreeMap<Port, PortDesc>) -> Vec<PortDesc> {
        let own = all.values().filter(|p| self.has(p.no));
        own.map(|p| self.port(p)).collect()
    }
}

/// From here on numbers stand for ports of which only a name is known; switches number from 1.
const NAMED: u128 = 1 << 31;

/// Why a rule of the flow space can't be, before any switch is there: as far as names are not needed.
///
/// # Errors
/// The rule's place in the list, that of the rule with which it clashes, and what is wrong.
pub fn check(rules: &[SpaceRule]) -> Result<(), (usize, Option<usize>, SpaceError)> {
    let mut space = FlowSpace::new();
    let mut places: BTreeMap<EntryId, usize> = BTreeMap::new();
    // A name stands for a number that no real port has: the same name, the same number.
    let mut names: BTreeMap<&PortRef, u128> = BTreeMap::new();
    for (at, r) in rules.iter().enumerate() {
        let mut ports: Vec<Option<u128>> = Vec::new();
        for p in &r.ports {
            let next = NAMED + names.len() as u128;
            ports.push(Some(match p {
                PortRef::Number(n) => n.0.into(),
                PortRef::Name(_) => *names.entry(p).or_insert(next),
            }));
        }
        if ports.is_empty() {
            ports.push(None);
        }
        for port in ports {
            for m in &r.matchers {
                let matcher: Match = match port {
                    Some(p) => m.clone().with(Field::InPort, p),
                    None => m.clone(),
                };
                let (priority, grants) = (r.priority, r.grants.clone());
                let entry = Entry { priority, matcher, grants };
                let done = match r.by {
                    Some(giver) => space.delegate(giver, entry),
                    None => space.insert(entry),
                };
                let id = done.map_err(|e| match e {
                    SpaceError::Clash { other, .. } => (at, places.get(&other).copied(), e),
                    e => (at, None, e),
                })?;
                places.insert(id, at);
            }
        }
    }
    Ok(())
}
