//! What outlives a connection to the switch, or the slicer itself: what slices have asked for and have, told as it
//! changes ([`Fact`]), and taken up again with the rules that are still at the switch.
//!
//! Room: between the books and `switch`; who keeps facts is the driver's affair. A driver that keeps them begins by
//! [`Switch::begin_again`], gives what it has kept to [`Switch::resume`] when [`Switch::awaits`] says so, and writes
//! down what comes in `Out::facts` before anything that came with it is sent.
//!
//! The switch is asked for its groups, meters and flows. What is as it should be is not touched, so frames go
//! on as if nothing had been; what is nobody's goes, what is missing comes. So a change that was cut off half way is
//! whole afterwards. A rule with a time-out that is not there any more has had its time.

use super::book::{Change, Flow, FlowId, Key as RuleKey};
use super::flows::cookie;
use super::ledger::{Asker, OpId, Undo, What};
use super::space::SliceId;
use super::switch::{NOBODY, Out, Switch};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use weir_openflow::model::{
    FlowCommand, FlowFilter, FlowFlags, FlowMod, FlowStats, GroupCommand, GroupDesc, GroupKind,
    GroupMod, METER_ALL, Message, MeterCommand, MeterConfig, MeterFlags, MeterMod, Part,
    StatsReply, StatsRequest, Version,
};

/// What a fact is about, by a number that nothing else of its kind has at this switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A meter, by the switch's number.
    Meter(u32),
    /// A group, by the switch's number.
    Group(u32),
    /// A flow.
    Flow(u64),
}

/// Something is so, or is no more.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// What.
    pub key: Key,
    /// Whose it is, and the message by which the slice would ask for it (flow_mod, group_mod or meter_mod: add);
    /// `None`: it is gone.
    pub held: Option<(SliceId, Message)>,
}

/// What is known of the time before this connection.
#[derive(Debug, Default)]
pub(super) enum Past {
    /// Nothing is kept: the switch was emptied.
    #[default]
    Emptied,
    /// What was kept has not been said yet.
    Awaited,
    /// The switch's own word is compared with it.
    Compared(Box<Comparison>),
    /// All of it.
    Known,
}

/// What should be at the switch and was not seen there yet.
#[derive(Debug)]
pub(super) struct Comparison {
    /// The question that is open.
    xid: u32,
    rules: HashMap<RuleKey, (SliceId, FlowId)>,
    groups: BTreeSet<u32>,
    meters: BTreeSet<u32>,
}

/// Slices with something to tell; emptied by every entry into the room.
#[derive(Debug, Default)]
pub(super) struct Touched(BTreeSet<SliceId>);

impl Touched {
    pub fn note(&mut self, slice: SliceId) {
        self.0.insert(slice);
    }
    pub fn note_all(&mut self, slices: usize) {
        self.0.extend((0..slices).filter_map(|i| u16::try_from(i).ok()).map(SliceId));
    }
}

/// How a flow would be asked for.
fn asked(f: &Flow) -> FlowMod {
    FlowMod {
        table: f.table,
        priority: f.priority,
        matcher: f.matcher.clone(),
        cookie: f.cookie,
        flags: f.flags,
        idle_timeout: f.idle_timeout,
        hard_timeout: f.hard_timeout,
        instructions: f.instructions.clone(),
        ..FlowMod::new(FlowCommand::Add)
    }
}

impl Switch {
    /// Asks the switch who it is, and leaves it as it is until [`Switch::resume`].
    pub fn begin_again(&mut self, out: &mut Out) {
        self.past = Past::Awaited;
        self.ask_who(out);
    }

    /// The switch's id, when it waits for what was kept of it.
    pub fn awaits(&self) -> Option<u64> {
        let awaited = matches!(self.past, Past::Awaited) && self.is_known();
        self.datapath_id().filter(|_| awaited)
    }

    /// Takes up what was kept of this switch, of slices that are there. Without anything, the switch is emptied.
    pub fn resume(&mut self, kept: Vec<Fact>, out: &mut Out) {
        if kept.is_empty() {
            self.past = Past::Known;
            self.leave_nothing(out);
            self.enter_all(out);
            return self.now_ready();
        }
        self.enter_all(out);
        for Fact { key, held } in kept {
            let Some((slice, asked)) = held else { continue };
            let Some(s) = self.slices.get_mut(usize::from(slice.0)) else { continue };
            match (key, asked) {
                (Key::Meter(at), Message::MeterMod(m)) => {
                    s.meters.insert(m.id, at);
                    s.meter_mods.insert(m.id, m);
                }
                (Key::Group(at), Message::GroupMod(m)) => {
                    s.groups.insert(m.id, at);
                    s.group_mods.insert(m.id, m);
                }
                (Key::Flow(id), Message::FlowMod(m)) => {
                    self.next_flow = self.next_flow.max(id);
                    let flow = Flow {
                        table: m.table,
                        priority: m.priority,
                        matcher: m.matcher,
                        cookie: m.cookie,
                        flags: m.flags,
                        idle_timeout: m.idle_timeout,
                        hard_timeout: m.hard_timeout,
                        instructions: m.instructions,
                        pieces: Vec::new(),
                        counted: (0, 0),
                        lived: None,
                        since: None,
                        leaving: Vec::new(),
                    };
                    if s.book.find(flow.table, flow.priority, &flow.matcher).is_none() {
                        s.book.add(FlowId(id), flow, &mut Vec::new());
                    }
                }
                // Whoever kept it has mixed it up.
                _ => {}
            }
        }
        self.compare(out);
        self.remember(out);
    }

    /// Works out what should be at the switch, and asks what is.
    pub(super) fn compare(&mut self, out: &mut Out) {
        let slices = (0..self.slices.len()).filter_map(|i| u16::try_from(i).ok()).map(SliceId);
        for slice in slices.collect::<Vec<_>>() {
            self.forget_groups(slice);
            // What it comes to is compared with what is there.
            self.recompile(slice, out);
            if let Some(s) = self.slices.get_mut(usize::from(slice.0)) {
                s.book.forget_leaving();
            }
        }
        self.touched.note_all(self.slices.len());
        let mut c = Comparison {
            xid: 0,
            rules: HashMap::new(),
            groups: BTreeSet::new(),
            meters: BTreeSet::new(),
        };
        for s in &self.slices {
            let rules = s.book.rules().map(|(key, id)| (key.clone(), (s.id, id)));
            c.rules.extend(rules);
            c.groups.extend(s.groups.iter().map(|(_, at)| at));
            c.meters.extend(s.meters.iter().map(|(_, at)| at));
        }
        self.question(c, Asks::first(self.version), out);
    }

    /// Groups that reach further than their slice may go are not taken up, and no meters of who only reads.
    fn forget_groups(&mut self, slice: SliceId) {
        let writes = self.space.writes(slice);
        let Some(s) = self.slices.get_mut(usize::from(slice.0)) else { return };
        if !writes {
            for own in std::mem::take(&mut s.meter_mods).into_keys() {
                s.touched.extend(s.meters.remove(own).map(Key::Meter));
            }
        }
        let all: Vec<_> = s.group_mods.values().map(|m| (m.id, m.buckets.clone())).collect();
        for (own, buckets) in all {
            let Some(s) = self.slices.get_mut(usize::from(slice.0)) else { return };
            if s.judge(&mut self.space, self.version).buckets(&buckets).is_err() {
                s.group_mods.remove(&own);
                s.touched.extend(s.groups.remove(own).map(Key::Group));
            }
        }
    }

    fn question(&mut self, c: Comparison, asks: Asks, out: &mut Out) {
        let body = match asks {
            Asks::Groups => StatsRequest::GroupDesc,
            Asks::Meters => StatsRequest::MeterConfig(METER_ALL),
            Asks::Flows => StatsRequest::Flow(FlowFilter::every_flow()),
        };
        let body = Message::StatsRequest { more: Part::Last, body };
        let xid = self.ledger.send(None, What::Compared(asks), body, &mut out.to_switch);
        self.past = Past::Compared(Box::new(Comparison { xid, ..c }));
    }

    /// What the switch says of itself.
    pub(super) fn compared(&mut self, xid: u32, more: Part, body: StatsReply, out: &mut Out) {
        let Past::Compared(c) = &mut self.past else { return };
        if c.xid != xid {
            return;
        }
        match body {
            StatsReply::GroupDesc(all) => {
                let known: Vec<_> = all.iter().map(|g| c.groups.remove(&g.id)).collect();
                for (g, known) in all.iter().zip(known) {
                    self.compare_group(g, Known::from(known), out);
                }
            }
            StatsReply::MeterConfig(all) => {
                let known: Vec<_> = all.iter().map(|m| c.meters.remove(&m.id)).collect();
                for (m, known) in all.iter().zip(known) {
                    self.compare_meter(m, Known::from(known), out);
                }
            }
            StatsReply::Flow(all) => {
                let key = |r: &FlowStats| (r.table, r.priority, r.matcher.clone());
                let known: Vec<_> = all.iter().map(|r| c.rules.remove(&key(r))).collect();
                for (r, whose) in all.iter().zip(known) {
                    self.compare_rule(r, whose, out);
                }
            }
            _ => {}
        }
        if more == Part::Last {
            self.compared_all(xid, out);
        }
    }

    /// The switch has said all of one kind, or has none: the next, or it is ready.
    pub(super) fn compared_all(&mut self, xid: u32, out: &mut Out) {
        let Past::Compared(c) = &mut self.past else { return };
        if c.xid != xid {
            return;
        }
        let Some(What::Compared(asks)) = self.ledger.close(xid) else { return };
        let rest = match asks {
            Asks::Groups => std::mem::take(&mut c.groups),
            Asks::Meters => std::mem::take(&mut c.meters),
            Asks::Flows => BTreeSet::new(),
        };
        let Past::Compared(c) = std::mem::replace(&mut self.past, Past::Known) else { return };
        for at in rest {
            match asks {
                Asks::Groups => self.say_group(at, GroupCommand::Add, out),
                _ => self.say_meter(at, MeterCommand::Add, out),
            }
        }
        match asks.next() {
            Some(asks) => self.question(*c, asks, out),
            None => {
                self.ledger.fence(&mut out.to_switch);
                self.bring_back(c.rules, out);
                self.now_ready();
            }
        }
    }

    /// Rules that should be at the switch and are not.
    fn bring_back(&mut self, missing: HashMap<RuleKey, (SliceId, FlowId)>, out: &mut Out) {
        let mut coming: BTreeMap<(SliceId, FlowId), Vec<Change>> = BTreeMap::new();
        for ((_, _, matcher), (slice, id)) in missing {
            let Some(s) = self.slices.get_mut(usize::from(slice.0)) else { continue };
            let Some(f) = s.book.get(id) else { continue };
            if f.idle_timeout == 0 && f.hard_timeout == 0 {
                coming.entry((slice, id)).or_default().push(Change::Install(id, matcher));
                continue;
            }
            let mut changes = Vec::new();
            s.book.gone(id, &matcher, (0, 0), &mut changes);
            self.touched.note(slice);
            self.reinstall(slice, &changes, out);
        }
        for ((slice, id), changes) in coming {
            let op = self.nobodys(slice, vec![Undo::Remove(id)]);
            self.carry_out(slice, op, &changes, FlowFlags(0), None, out);
        }
    }

    /// A change that nobody waits for.
    fn nobodys(&mut self, slice: SliceId, undo: Vec<Undo>) -> OpId {
        let asker = Asker { slice, conn: NOBODY, xid: 0, head: Vec::new() };
        self.ledger.begin(asker, undo, Vec::new())
    }

    /// Says something that no slice has asked for.
    fn tell_switch(&mut self, body: Message, out: &mut Out) {
        let op = self.nobodys(SliceId(u16::MAX), Vec::new());
        self.ledger.send(None, What::Part(op), body, &mut out.to_switch);
    }

    fn compare_rule(&mut self, r: &FlowStats, whose: Option<(SliceId, FlowId)>, out: &mut Out) {
        let Some((slice, id)) = whose else {
            return self.tell_switch(
                Message::FlowMod(FlowMod {
                    table: r.table,
                    priority: r.priority,
                    matcher: r.matcher.clone(),
                    ..FlowMod::new(FlowCommand::DeleteStrict)
                }),
                out,
            );
        };
        let now = self.now;
        let Some(s) = self.slices.get_mut(usize::from(slice.0)) else { return };
        let Some(f) = s.book.flow_mut(id) else { return };
        if r.cookie == cookie(slice, id) {
            f.has_lived(r, now);
        }
        let Some(p) = f.pieces.iter().find(|p| p.matcher == r.matcher) else { return };
        // One that was covered for a time has less left than was asked for.
        let hard =
            (1..=f.hard_timeout).contains(&r.hard_timeout) || r.hard_timeout == f.hard_timeout;
        let mut flags = FlowFlags(0);
        let change = if (cookie(slice, id), f.idle_timeout) != (r.cookie, r.idle_timeout) || !hard {
            // What another flow's rule has counted is not this one's.
            if cookie(slice, id) != r.cookie && self.version == Version::V13 {
                flags = FlowFlags::RESET_COUNTS;
            }
            Change::Install(id, p.matcher.clone())
        } else if p.instructions != r.instructions {
            Change::Alter(id, p.matcher.clone())
        } else {
            return;
        };
        let op = self.nobodys(slice, vec![Undo::Remove(id)]);
        self.carry_out(slice, op, &[change], flags, None, out);
    }

    fn compare_group(&mut self, g: &GroupDesc, known: Known, out: &mut Out) {
        if known == Known::No {
            let (kind, buckets) = (GroupKind::All, Vec::new());
            let m = GroupMod { command: GroupCommand::Delete, id: g.id, kind, buckets };
            return self.tell_switch(Message::GroupMod(m), out);
        }
        let wanted = self.group_at(g.id);
        if wanted.is_some_and(|w| w.kind != g.kind || w.buckets != g.buckets) {
            self.say_group(g.id, GroupCommand::Modify, out);
        }
    }

    /// A group as it should be at the switch.
    fn group_at(&mut self, at: u32) -> Option<GroupMod> {
        let s = self.slices.iter().find(|s| s.groups.own(at).is_some())?;
        let m = s.group_mods.get(&s.groups.own(at)?)?.clone();
        let buckets = s.judge(&mut self.space, self.version).buckets(&m.buckets).ok()?;
        Some(GroupMod { id: at, buckets, ..m })
    }

    fn say_group(&mut self, at: u32, command: GroupCommand, out: &mut Out) {
        if let Some(m) = self.group_at(at) {
            self.tell_switch(Message::GroupMod(GroupMod { command, ..m }), out);
        }
    }

    fn compare_meter(&mut self, m: &MeterConfig, known: Known, out: &mut Out) {
        if known == Known::No {
            let (flags, bands) = (MeterFlags(0), Vec::new());
            let m = MeterMod { command: MeterCommand::Delete, id: m.id, flags, bands };
            return self.tell_switch(Message::MeterMod(m), out);
        }
        if self.meter_at(m.id).is_some_and(|w| w.flags != m.flags || w.bands != m.bands) {
            self.say_meter(m.id, MeterCommand::Modify, out);
        }
    }

    /// A meter as it should be at the switch.
    fn meter_at(&self, at: u32) -> Option<MeterMod> {
        let s = self.slices.iter().find(|s| s.meters.own(at).is_some())?;
        let m = s.meter_mods.get(&s.meters.own(at)?)?.clone();
        Some(MeterMod { id: at, ..m })
    }

    fn say_meter(&mut self, at: u32, command: MeterCommand, out: &mut Out) {
        if let Some(m) = self.meter_at(at) {
            self.tell_switch(Message::MeterMod(MeterMod { command, ..m }), out);
        }
    }

    /// Tells what has changed of what slices have. The last of every entry into the room.
    pub(super) fn remember(&mut self, out: &mut Out) {
        for slice in std::mem::take(&mut self.touched.0) {
            let Some(s) = self.slices.get_mut(usize::from(slice.0)) else { continue };
            let mut keys: BTreeSet<Key> = std::mem::take(&mut s.touched).into_iter().collect();
            keys.extend(s.book.take_touched().map(|id| Key::Flow(id.0)));
            if matches!(self.past, Past::Emptied) {
                continue;
            }
            for key in keys {
                let held = match key {
                    Key::Flow(id) => s.book.get(FlowId(id)).map(|f| Message::FlowMod(asked(f))),
                    Key::Group(at) => {
                        let m = s.groups.own(at).and_then(|own| s.group_mods.get(&own));
                        m.map(|m| GroupMod { command: GroupCommand::Add, ..m.clone() })
                            .map(Message::GroupMod)
                    }
                    Key::Meter(at) => {
                        let m = s.meters.own(at).and_then(|own| s.meter_mods.get(&own));
                        m.map(|m| MeterMod { command: MeterCommand::Add, ..m.clone() })
                            .map(Message::MeterMod)
                    }
                };
                out.facts.push(Fact { key, held: held.map(|m| (slice, m)) });
            }
        }
    }
}

/// Whether something at the switch is known to be a slice's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Yes,
    No,
}

impl From<bool> for Known {
    fn from(is: bool) -> Self {
        if is { Self::Yes } else { Self::No }
    }
}

/// What the switch is asked about itself, in this order: flows may use groups and meters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    Groups,
    Meters,
    Flows,
}

impl Asks {
    fn first(version: Version) -> Self {
        if version == Version::V13 { Self::Groups } else { Self::Flows }
    }
    fn next(self) -> Option<Self> {
        match self {
            Self::Groups => Some(Self::Meters),
            Self::Meters => Some(Self::Flows),
            Self::Flows => None,
        }
    }
}
