//! The way of a frame through the reference's tables and groups (1.3 §5).

use super::packet::Packet;
use super::{Flow, Reference};
use weir_openflow::model::*;

/// Where copies went: port and frame, in order.
pub type Sent = Vec<(u32, Packet)>;

impl Reference {
    /// A frame comes in.
    pub fn frame(&mut self, in_port: u32, p: &Packet) -> Sent {
        let (mut p, mut sent) = (p.clone(), vec![]);
        let (mut table, mut metadata, mut set) = (0u8, 0u64, Vec::<Action>::new());
        loop {
            let fits = |f: &Flow| {
                f.m.table == table
                    && f.m.matcher.0.iter().all(|m| {
                        p.field(m.field, in_port, metadata).is_some_and(|v| v & m.mask == m.value)
                    })
            };
            self.lookups[usize::from(table)].0 += 1;
            // Priorities of overlapping flows may be equal: the older wins here, as it may.
            let hits = self.flows.iter().enumerate().filter(|(_, f)| fits(f));
            let best = hits.max_by_key(|(i, f)| (f.m.priority, std::cmp::Reverse(*i)));
            let Some(i) = best.map(|(i, _)| i) else {
                return sent;
            };
            self.lookups[usize::from(table)].1 += 1;
            let len = p.bytes().len() as u64;
            let f = &mut self.flows[i];
            (f.packets, f.bytes, f.used) = (f.packets + 1, f.bytes + len, self.now);
            let todo = f.m.instructions.clone();
            let mut next = None;
            // §5.9: in this order, whatever the message's.
            for i in &todo {
                if let Instruction::Meter(id) = i {
                    let m = self.meters.iter_mut().find(|m| m.id == *id).unwrap();
                    (m.packets, m.bytes) = (m.packets + 1, m.bytes + len);
                }
            }
            for i in &todo {
                if let Instruction::Apply(list) = i {
                    for a in list {
                        self.act(a, in_port, &mut p, &mut sent);
                    }
                }
            }
            if todo.contains(&Instruction::Clear) {
                set.clear();
            }
            for i in &todo {
                match i {
                    Instruction::Write(list) => list.iter().for_each(|a| write(&mut set, a)),
                    Instruction::WriteMetadata { value, mask } => {
                        metadata = metadata & !mask | value & mask;
                    }
                    Instruction::GotoTable(t) => next = Some(*t),
                    _ => {}
                }
            }
            match next {
                Some(t) => table = t,
                None => break,
            }
        }
        self.act_set(set, in_port, &mut p, &mut sent);
        sent
    }

    fn act(&mut self, a: &Action, in_port: u32, p: &mut Packet, sent: &mut Sent) {
        match a {
            // In the tests, controllers stand behind this number.
            Action::Output { port: Port::CONTROLLER, .. } => {
                sent.push((Port::CONTROLLER.0, p.clone()))
            }
            Action::Output { port: Port::IN_PORT, .. } => sent.push((in_port, p.clone())),
            Action::Output { port: Port::ALL | Port::FLOOD, .. } => {
                let others = (1..=self.ports).filter(|n| *n != in_port);
                sent.extend(others.map(|n| (n, p.clone())));
            }
            Action::Output { port, .. } => {
                if port.0 != in_port {
                    sent.push((port.0, p.clone()));
                }
            }
            Action::SetField(f, v) => p.set(*f, *v),
            Action::PushVlan(_) => {
                let copy = p.tags.first().copied().unwrap_or((0, 0));
                p.tags.insert(0, copy);
            }
            Action::PopVlan => {
                if !p.tags.is_empty() {
                    p.tags.remove(0);
                }
            }
            // 1.0: a tag where there is none.
            Action::SetVlanVid(v) => {
                if p.tags.is_empty() {
                    p.tags.push((0, 0));
                }
                p.tags[0].1 = *v;
            }
            Action::Group(id) => self.group(*id, in_port, p, sent),
            // Which queue of its port a frame waits in changes neither the frame nor the port.
            Action::SetQueue(_) => {}
            Action::Enqueue { port, .. } => {
                self.act(&Action::Output { port: *port, max_len: 0 }, in_port, p, sent);
            }
            a => panic!("{a:?}"),
        }
    }

    /// §5.6.1. What a group does to a frame does not come back to who sent it there.
    fn group(&mut self, id: u32, in_port: u32, p: &Packet, sent: &mut Sent) {
        let len = p.bytes().len() as u64;
        let Some(g) = self.groups.iter_mut().find(|g| g.id == id) else { return };
        (g.packets, g.bytes) = (g.packets + 1, g.bytes + len);
        let chosen = match g.kind {
            GroupKind::All => 0..g.buckets.len(),
            GroupKind::Indirect => 0..1,
            GroupKind::Select => self.select.choose(&g.buckets),
            // All ports are up.
            _ => 0..g.buckets.len().min(1),
        };
        for c in &mut g.each[chosen.clone()] {
            *c = (c.0 + 1, c.1 + len);
        }
        let buckets: Vec<Bucket> = g.buckets[chosen].to_vec();
        for b in buckets {
            let mut set = vec![];
            b.actions.iter().for_each(|a| write(&mut set, a));
            self.act_set(set, in_port, &mut p.clone(), sent);
        }
    }

    /// §5.10: in this order; a group instead of an output.
    fn act_set(&mut self, mut set: Vec<Action>, in_port: u32, p: &mut Packet, sent: &mut Sent) {
        set.sort_by_key(place);
        let group = set.iter().any(|a| matches!(a, Action::Group(_)));
        for a in &set {
            if !(group && matches!(a, Action::Output { .. })) {
                self.act(a, in_port, p, sent);
            }
        }
    }
}

fn place(a: &Action) -> u8 {
    match a {
        Action::PopVlan => 2,
        Action::PushVlan(_) => 5,
        Action::SetField(..) => 8,
        Action::SetQueue(_) => 9,
        Action::Group(_) => 10,
        Action::Output { .. } => 11,
        a => panic!("{a:?}"),
    }
}

/// Merges an action into a set: one of a kind, one set-field of a field.
fn write(set: &mut Vec<Action>, a: &Action) {
    set.retain(|o| match (o, a) {
        (Action::SetField(x, _), Action::SetField(y, _)) => x != y,
        _ => place(o) != place(a),
    });
    set.push(a.clone());
}
