//! Messages of controllers, and what the device answers.
//!
//! Room: part of `Dut`. 1.0 §4, §5; 1.3 §6, §7. Of 1.3 it has one table and neither groups, meters nor
//! queues; roles are all equal.

use super::Dut;
use super::book::Change;
use super::hardware::{Done, Op};
use super::line::Event;
use super::profile::{BarrierReply, IdleFrom};
use super::program::Program;
use weir_openflow::channel::Head;
use weir_openflow::model::*;
use weir_packet::Nanos;

impl Dut {
    /// Takes what a connection brought, as far as there is room for what it causes.
    pub(super) fn read(&mut self, conn: u32, now: Nanos) {
        while self.hardware.has_room() && self.desk.has_room() && self.line.has_room() {
            let Some(c) = self.conns.get_mut(&conn) else { return };
            let Some((msg, head)) = c.next(now) else { return };
            let how = self.profile.connection;
            let messages = c.messages;
            if how.close_after_messages > 0 && messages >= how.close_after_messages {
                c.end("as many messages as the profile allows");
                return;
            }
            if how.garbage_every > 0 && messages.is_multiple_of(how.garbage_every) {
                c.send_garbage();
            }
            if let Err(code) = self.handle(conn, msg, head, now)
                && let Some(c) = self.conns.get_mut(&conn)
            {
                c.refuse(&head, code);
            }
            self.settle(now);
        }
    }

    fn handle(&mut self, conn: u32, msg: Msg, head: Head, now: Nanos) -> Result<(), ErrorCode> {
        let Msg { xid, body } = msg;
        let tell = |body| Msg { xid, body };
        match body {
            Message::EchoRequest(data) => {
                let at = now + self.profile.echo.delay_us.nanos();
                self.line.put(at, Event::Tell(conn, tell(Message::EchoReply(data))));
            }
            Message::FeaturesRequest => {
                let features = self.features();
                self.say(conn, tell(Message::FeaturesReply(features)));
            }
            Message::GetConfigRequest => {
                self.say(conn, tell(Message::GetConfigReply(self.config)));
            }
            Message::SetConfig(c) => self.config.miss_send_len = c.miss_send_len,
            Message::FlowMod(m) => self.flow_mod(conn, m, now)?,
            Message::PacketOut(m) => {
                if m.buffer_id != NO_BUFFER {
                    return Err(ErrorCode::BufferUnknown);
                }
                Program::of_packet_out(&self.profile.actions, self.ports.len(), &m.actions)?;
                let at = now + self.profile.packet_out.delay_us.nanos();
                self.line.put(at, Event::PacketOut(m));
            }
            Message::PortMod(m) => self.port_mod(&m)?,
            Message::TableMod { table, .. } if table == 0 || table == TABLE_ALL => {}
            Message::TableMod { .. } => return Err(ErrorCode::TableBadTable),
            Message::StatsRequest { body, .. } => self.ask((conn, xid), head, body, now),
            Message::BarrierRequest => self.barrier(conn, xid, now)?,
            Message::QueueConfigRequest(port) => {
                let there = port == Port::ANY || self.port_mut(port.0).is_some();
                if !there {
                    return Err(ErrorCode::QueueBadPort);
                }
                let queues = Vec::new();
                self.say(conn, tell(Message::QueueConfigReply { port, queues }));
            }
            Message::RoleRequest(r) => match r.role {
                Role::NoChange | Role::Equal => {
                    let role = RoleMsg { role: Role::Equal, generation: r.generation };
                    self.say(conn, tell(Message::RoleReply(role)));
                }
                Role::Master | Role::Slave => return Err(ErrorCode::RoleUnsupported),
            },
            Message::GroupMod(m) => match m.command {
                // Controllers begin by deleting all groups.
                GroupCommand::Delete => {}
                _ => return Err(ErrorCode::GroupOutOfGroups),
            },
            Message::MeterMod(m) => match m.command {
                MeterCommand::Delete => {}
                _ => return Err(ErrorCode::MeterOutOfMeters),
            },
            Message::Experimenter { .. } => return Err(ErrorCode::BadExperimenter),
            // Replies to nothing, and errors.
            Message::EchoReply(_) | Message::Error(_) | Message::Hello { .. } => {}
            _ => return Err(ErrorCode::BadType),
        }
        Ok(())
    }

    fn say(&mut self, conn: u32, msg: Msg) {
        if let Some(c) = self.conns.get_mut(&conn) {
            c.send(&msg);
        }
    }

    fn features(&self) -> Features {
        let all_of_10 = 0b1111_1111_1111;
        // OFPAT_ENQUEUE (11) is not done.
        let actions = all_of_10 & !(1 << 11);
        Features {
            datapath_id: self.datapath_id,
            buffers: 0,
            tables: 1,
            auxiliary_id: 0,
            capabilities: Capabilities::FLOW_STATS
                | Capabilities::TABLE_STATS
                | Capabilities::PORT_STATS,
            actions,
            ports: self.ports.iter().map(|p| p.desc.clone()).collect(),
        }
    }

    fn flow_mod(&mut self, conn: u32, m: FlowMod, now: Nanos) -> Result<(), ErrorCode> {
        let Some(version) = self.conns.get(&conn).and_then(|c| c.version()) else { return Ok(()) };
        let buffered = m.buffer_id != NO_BUFFER
            && !matches!(m.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        let with = (&self.profile.actions, self.ports.len());
        let changes = self.book.flow_mod(version, m, with, now)?;
        for change in changes {
            if let Change::Install { id, .. } = &change {
                self.arm(*id);
            }
            self.hardware.push(Op::Change(change), now);
        }
        // Nothing is buffered here: the flow is added, the frame is not found (1.3 §6.4).
        if buffered { Err(ErrorCode::BufferUnknown) } else { Ok(()) }
    }

    fn barrier(&mut self, conn: u32, xid: u32, now: Nanos) -> Result<(), ErrorCode> {
        match self.profile.barrier.reply {
            BarrierReply::Honest => self.hardware.push(Op::Barrier(conn, xid), now),
            BarrierReply::Early => self.barrier_reply(conn, xid, now),
            BarrierReply::Unsupported => return Err(ErrorCode::BadType),
            BarrierReply::Never => {}
        }
        Ok(())
    }

    fn barrier_reply(&mut self, conn: u32, xid: u32, now: Nanos) {
        let reply = Msg { xid, body: Message::BarrierReply };
        let delay = self.profile.barrier.delay_us;
        if delay.is_zero() {
            self.say(conn, reply);
        } else {
            self.line.put(now + delay.nanos(), Event::Tell(conn, reply));
        }
    }

    /// What came of a change.
    pub(super) fn done(&mut self, done: Done, at: Nanos) {
        match done {
            Done::Barrier(conn, xid) => self.barrier_reply(conn, xid, at),
            Done::Removed(flow, reason, usage) => {
                if !flow.flags.has(FlowFlags::SEND_FLOW_REM) {
                    return;
                }
                let off = self.profile.counters.off_percent;
                let life = at.since(flow.added).0;
                let gone = FlowRemoved {
                    cookie: flow.cookie,
                    priority: flow.priority,
                    reason,
                    table: 0,
                    duration_sec: (life / 1_000_000_000) as u32,
                    duration_nsec: (life % 1_000_000_000) as u32,
                    idle_timeout: flow.idle_timeout,
                    hard_timeout: flow.hard_timeout,
                    packets: off.tell(usage.packets),
                    bytes: off.tell(usage.bytes),
                    matcher: flow.matcher.clone(),
                };
                for c in self.conns.values_mut() {
                    c.tell(Message::FlowRemoved(gone.clone()));
                }
            }
        }
    }

    /// From when a flow's idle time-out counts, unless it was added later.
    fn idle_since(&self, id: u64) -> Nanos {
        match self.profile.timeouts.idle_from {
            IdleFrom::LastFrame => self.hardware.last_used(id),
            IdleFrom::Insertion => Nanos(0),
        }
    }

    /// Sees to it that a flow's time-outs are looked at in time.
    fn arm(&mut self, id: u64) {
        let used = self.idle_since(id);
        let late = self.profile.timeouts.late_us.nanos();
        let Some(f) = self.book.get_mut(id) else { return };
        let secs = |s: u16| Nanos::from_secs(s.into());
        let hard = (f.hard_timeout > 0).then(|| f.added + secs(f.hard_timeout));
        let idle = (f.idle_timeout > 0).then(|| f.added.max(used) + secs(f.idle_timeout));
        let Some(at) = [hard, idle].into_iter().flatten().min().map(|t| t + late) else { return };
        if f.armed.is_none_or(|before| at < before) {
            f.armed = Some(at);
            self.line.put(at, Event::Expire(id));
        }
    }

    /// Looks at a flow's time-outs.
    pub(super) fn expire(&mut self, id: u64, at: Nanos) {
        let used = self.idle_since(id);
        let late = self.profile.timeouts.late_us.nanos();
        let Some(f) = self.book.get_mut(id) else { return };
        // One that was put in the place of another has been armed for itself.
        if f.armed.is_some_and(|t| t > at) {
            return;
        }
        f.armed = None;
        let over = |from: Nanos, s: u16| s > 0 && from + Nanos::from_secs(s.into()) + late <= at;
        let why = if over(f.added, f.hard_timeout) {
            RemovedReason::HardTimeout
        } else if over(f.added.max(used), f.idle_timeout) {
            RemovedReason::IdleTimeout
        } else {
            self.arm(id);
            return;
        };
        let Some(flow) = self.book.take(id) else { return };
        let usage = self.hardware.expire(id, flow.priority);
        self.done(Done::Removed(Box::new(flow), why, usage), at);
    }

    fn port_mod(&mut self, m: &PortMod) -> Result<(), ErrorCode> {
        let p = self.port_mut(m.port.0).ok_or(ErrorCode::PortBadPort)?;
        if p.desc.mac != m.mac {
            return Err(ErrorCode::PortBadHwAddr);
        }
        let known = m.mask.0 & PortConfig::KNOWN.0;
        p.desc.config = PortConfig(p.desc.config.0 & !known | m.config.0 & known);
        let status = PortStatus { reason: PortReason::Modify, desc: p.desc.clone() };
        for c in self.conns.values_mut() {
            c.tell(Message::PortStatus(status.clone()));
        }
        Ok(())
    }
}
