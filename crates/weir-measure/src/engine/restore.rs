//! After measuring: the switch's table as it was found.
//!
//! Sans-I/O: a part of [`Core`]. Also after an interruption, an error or a lost connection, which is made
//! again for this. Counters and the ages of time-outs begin anew: no message could set them.

use super::core::{Core, Expected};
use super::terms::{Phase, nanos};
use crate::module::is_among;
use std::collections::BTreeMap;
use std::time::Duration;
use weir_openflow::model::{
    FlowMod, GroupCommand, GroupKind, GroupMod, Message, MeterCommand, MeterFlags, MeterMod, Msg,
    NO_BUFFER,
};
use weir_packet::Nanos;

/// How long putting back may take beyond an answer's patience, for each thousand flows.
const PER_THOUSAND: Duration = Duration::from_secs(5);

/// From one try to connect to the next.
const AGAIN: Duration = Duration::from_millis(500);

/// Groups and meters that a module made: the switch shall have them no longer than the measurement.
#[derive(Debug, Default)]
pub(super) struct Made(BTreeMap<u32, Thing>);

#[derive(Clone, Copy, Debug)]
enum Thing {
    Group(u32),
    Meter(u32),
}

impl Made {
    /// A message of a module goes out.
    pub(super) fn sent(&mut self, xid: u32, body: &Message) {
        let thing = match body {
            Message::GroupMod(m) if m.command == GroupCommand::Add => Thing::Group(m.id),
            Message::MeterMod(m) if m.command == MeterCommand::Add => Thing::Meter(m.id),
            _ => return,
        };
        self.0.insert(xid, thing);
    }

    /// It was refused: what has that number is somebody else's.
    pub(super) fn refused(&mut self, xid: u32) {
        self.0.remove(&xid);
    }

    /// What takes all of it away, as often as it must be said; flows that use it must be gone.
    fn undo(&self) -> impl Iterator<Item = Message> {
        self.0.values().map(|&thing| match thing {
            Thing::Group(id) => Message::GroupMod(GroupMod {
                command: GroupCommand::Delete,
                kind: GroupKind::All,
                id,
                buckets: Vec::new(),
            }),
            Thing::Meter(id) => Message::MeterMod(MeterMod {
                command: MeterCommand::Delete,
                flags: MeterFlags(0),
                id,
                bands: Vec::new(),
            }),
        })
    }
}

impl Core {
    /// Begins to put the switch back; at once over if nothing was touched.
    pub(super) fn clean_up(&mut self, now: Nanos) {
        self.phase = Phase::CleanUp;
        self.forget_expected();
        if !self.touched {
            return self.over();
        }
        let flows = self.before.len() as u32;
        let at_most = self.settings.patience + PER_THOUSAND * (flows / 1000 + 1);
        self.phase_at = Some(now + nanos(at_most));
        if self.connected {
            self.put_back(now);
        } else {
            self.connect();
        }
    }

    /// The connection is there.
    pub(super) fn put_back(&mut self, _now: Nanos) {
        let Some(version) = self.bench.version else { return self.over() };
        self.send(Message::FlowMod(FlowMod::delete_all(version)));
        for undone in self.made.undo().collect::<Vec<_>>() {
            self.send(undone);
        }
        // Kept until the switch has them: the connection may be lost over it.
        (self.going_back, self.not_taken_back) = (None, false);
        for n in 0..self.before.len() {
            let Some(flow) = self.before.get(n).cloned() else { break };
            let flags = Self::flags_of(&flow);
            let xid = self.send(Message::FlowMod(FlowMod {
                cookie: flow.cookie,
                table: flow.table,
                idle_timeout: flow.idle_timeout,
                hard_timeout: flow.hard_timeout,
                priority: flow.priority,
                buffer_id: NO_BUFFER,
                flags,
                matcher: flow.matcher,
                instructions: flow.instructions,
                ..FlowMod::new(weir_openflow::model::FlowCommand::Add)
            }));
            self.going_back = Some((self.going_back.map_or(xid, |(first, _)| first), xid));
        }
        if let Some(config) = self.config_before {
            self.send(Message::SetConfig(config));
        }
        // Answered by something, if only an error, also where there are no barriers.
        let end = self.send(Message::BarrierRequest);
        self.restored_by = Some(end);
    }

    pub(super) fn restore_message(&mut self, _now: Nanos, msg: &Msg, _: Option<&Expected>) {
        if Some(msg.xid) == self.restored_by {
            return self.restored();
        }
        if let Message::Error(e) = &msg.body {
            self.not_taken_back |= self.going_back.is_some_and(|all| is_among(msg.xid, all));
            self.late_note(format!(
                "While its flows were put back, the switch reported {:?}.",
                e.code
            ));
        }
    }

    /// The switch has its flows, or has refused some.
    pub(super) fn restored(&mut self) {
        if !self.not_taken_back {
            self.before.clear();
        }
        self.over();
    }

    /// The connection is lost, or can't be had: it is tried again as long as there is time.
    pub(super) fn restore_again(&mut self, now: Nanos) {
        let again = now + nanos(AGAIN);
        if self.phase_at.is_none_or(|end| end <= again) {
            return self.restore_is_late(now);
        }
        self.retry_at = Some(again);
    }

    /// The time is over.
    pub(super) fn restore_is_late(&mut self, _now: Nanos) {
        if self.connected && !self.bench.barriers {
            self.late_note(
                "The switch's flows were put back; without barriers it does not say when that was done."
                    .to_owned(),
            );
            return self.restored();
        }
        self.late_note(if self.connected {
            "The switch was asked to put its flows back, and did not say that it has: its table may hold rules of this measurement."
                .to_owned()
        } else {
            "The switch could not be asked to put its flows back: its table may hold rules of this measurement."
                .to_owned()
        });
        self.over();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(command: GroupCommand, id: u32) -> Message {
        Message::GroupMod(GroupMod { command, kind: GroupKind::Indirect, id, buckets: Vec::new() })
    }

    #[test]
    fn what_was_made_is_taken_away_and_nobody_elses() {
        let mut made = Made::default();
        made.sent(1, &group(GroupCommand::Add, 7));
        made.sent(2, &group(GroupCommand::Add, 8));
        made.sent(3, &group(GroupCommand::Modify, 9));
        let (flags, bands) = (MeterFlags::KBPS, Vec::new());
        let command = MeterCommand::Add;
        made.sent(4, &Message::MeterMod(MeterMod { command, flags, id: 5, bands }));
        // There is one of that number already.
        made.refused(2);
        let undone: Vec<_> = made.undo().collect();
        assert!(
            matches!(
                undone[..],
                [
                    Message::GroupMod(GroupMod { command: GroupCommand::Delete, id: 7, .. }),
                    Message::MeterMod(MeterMod { command: MeterCommand::Delete, id: 5, .. }),
                ]
            ),
            "{undone:?}"
        );
        // The connection may be lost over it.
        assert_eq!(made.undo().count(), 2);
    }
}
