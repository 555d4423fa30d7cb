//! A resting switch, packed: what it is set to, its ports, meters, groups and flows.

use super::wire::Out;
use super::{FORM, PIECE, kind};
use crate::fail::Miss;
use crate::flows::Flow;
use crate::state::Group;
use crate::switch::Switch;
use std::collections::{BTreeMap, BTreeSet};
use weir_dataplane::{InvalidTtl, RuleRef};
use weir_openflow::codec::{decode, encode};
use weir_openflow::model::{
    FlowCommand, FlowMod, Fragments, GroupCommand, GroupMod, Message, MeterCommand, MeterMod, Msg,
    NO_BUFFER, Version,
};
use weir_packet::Nanos;

/// How far a switch is packed.
#[derive(Debug)]
pub struct Packing {
    /// What comes next.
    next: Next,
    now: Nanos,
    flows: u32,
}

#[derive(Debug)]
enum Next {
    Head,
    Flows(RuleRef),
    Nothing,
}

impl Packing {
    /// From the beginning, at a time.
    pub fn new(now: Nanos) -> Self {
        Self { next: Next::Head, now, flows: 0 }
    }
}

impl Switch {
    /// The next piece of all that the switch is but its counters; `None`: that was all. The switch
    /// must not change from the first piece on.
    pub fn pack(&self, p: &mut Packing) -> Option<Vec<u8>> {
        let mut out = Out::default();
        match p.next {
            Next::Head => {
                self.pack_head(p.now, &mut out);
                p.next = Next::Flows(RuleRef { table: 0, slot: 0 });
            }
            Next::Flows(from) => {
                let mut last = None;
                for (at, f) in self.flows.from(from) {
                    if out.0.len() >= PIECE {
                        last = Some(at);
                        break;
                    }
                    self.pack_flow(at, f, p.now, &mut out);
                    p.flows += 1;
                }
                match last {
                    Some(at) => p.next = Next::Flows(at),
                    None => {
                        out.record(kind::END, |o| o.u32(p.flows));
                        p.next = Next::Nothing;
                    }
                }
            }
            Next::Nothing => return None,
        }
        Some(out.0)
    }

    fn pack_head(&self, now: Nanos, out: &mut Out) {
        out.record(kind::HEAD, |o| {
            o.u16(FORM);
            o.u8(self.state.tables);
            o.text(&self.config.desc.serial);
        });
        out.record(kind::SETTINGS, |o| {
            o.u8(u8::from(self.fragments == Fragments::Drop));
            o.u8(match self.miss {
                None => 0,
                Some(Miss::Drop) => 1,
                Some(Miss::Controller) => 2,
                Some(Miss::Normal) => 3,
            });
            let (told, len) = match self.invalid_ttl {
                InvalidTtl::Drop => (0, 0),
                InvalidTtl::Controller(len) => (1, len),
            };
            o.u8(told);
            o.u16(len);
            let generation = self.conns.generation();
            o.u8(u8::from(generation.is_some()));
            o.u64(generation.unwrap_or(0));
            self.table_config.iter().for_each(|c| o.u32(*c));
        });
        for (no, p) in &self.state.ports {
            out.record(kind::PORT, |o| {
                o.u32(no.0);
                o.u32(p.config.0);
                o.u32(p.advertised.0);
                o.u64(age(now, self.state.since.get(no).copied().unwrap_or(now)));
                o.0.extend(p.mac);
                o.text(&p.name);
            });
        }
        for (id, m) in &self.state.meters {
            let (flags, bands) = (m.flags, m.bands.clone());
            let made = MeterMod { command: MeterCommand::Add, flags, id: *id, bands };
            pack_message(kind::METER, age(now, m.created), Message::MeterMod(made), out);
        }
        for id in in_order(&self.state.groups) {
            let Some(g) = self.state.groups.get(&id) else { continue };
            let (kind, buckets) = (g.kind, g.buckets.clone());
            let made = GroupMod { command: GroupCommand::Add, kind, id, buckets };
            pack_message(kind::GROUP, age(now, g.created), Message::GroupMod(made), out);
        }
    }

    fn pack_flow(&self, at: RuleRef, f: &Flow, now: Nanos, out: &mut Out) {
        let does = self.flows.behaviours.get(f.behaviour);
        let made = FlowMod {
            cookie: f.cookie,
            table: at.table,
            idle_timeout: f.idle_timeout,
            hard_timeout: f.hard_timeout,
            priority: f.priority,
            buffer_id: NO_BUFFER,
            flags: f.flags(),
            matcher: self.flows.match_of(f),
            instructions: does.map(|b| b.instructions.to_vec()).unwrap_or_default(),
            ..FlowMod::new(FlowCommand::Add)
        };
        let whole = Message::FlowMod(made.clone());
        if pack_message(kind::FLOW, age(now, f.created), whole, out) {
            return;
        }
        // What 1.0 alone has words for, or allows, in a second message behind it; matches all have a form
        // in 1.3.
        let FlowMod { instructions, .. } = made.clone();
        let bare = Message::FlowMod(FlowMod { instructions: Vec::new(), ..made });
        let does = FlowMod { instructions, ..FlowMod::new(FlowCommand::Add) };
        out.record(kind::FLOW, |o| {
            o.u64(age(now, f.created));
            put(Version::V13, bare, o);
            put(Version::V10, Message::FlowMod(does), o);
        });
    }
}

/// An age, and a message of 1.3. Whether it has a form; if not, nothing was written.
fn pack_message(kind: u8, age: u64, body: Message, out: &mut Out) -> bool {
    let before = out.0.len();
    let mut done = false;
    out.record(kind, |o| {
        o.u64(age);
        done = put(Version::V13, body, o);
    });
    if !done {
        out.0.truncate(before);
    }
    done
}

/// A message behind its length.
fn put(version: Version, body: Message, o: &mut Out) -> bool {
    let at = o.0.len();
    o.u32(0);
    let written = encode(version, &Msg { xid: 0, body }, &mut o.0).is_ok();
    // 1.3 refuses what 1.0 takes, as changes of headers that no match asks for.
    let done = written && decode(version, &o.0[at + 4..]).is_ok();
    let len = u32::try_from(o.0.len() - at - 4).unwrap_or(0);
    o.0[at..at + 4].copy_from_slice(&len.to_be_bytes());
    done
}

pub(super) fn age(now: Nanos, since: Nanos) -> u64 {
    now.since(since).0
}

/// Groups, each behind those that it leads to or watches.
fn in_order(groups: &BTreeMap<u32, Group>) -> Vec<u32> {
    let (mut out, mut seen) = (Vec::new(), BTreeSet::new());
    for first in groups.keys() {
        // A walk in depth: a group is put out when all behind it are.
        let mut way = vec![(*first, false)];
        while let Some((id, done)) = way.pop() {
            if done {
                out.push(id);
                continue;
            }
            if !seen.insert(id) {
                continue;
            }
            way.push((id, true));
            let behind = groups.get(&id).map(Group::follows).unwrap_or_default();
            way.extend(behind.into_iter().filter(|g| !seen.contains(g)).map(|g| (g, false)));
        }
    }
    out
}
