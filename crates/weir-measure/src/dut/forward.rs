//! A frame's way: looked up, changed, sent, or handed to controllers; with what the profile does to it.
//!
//! Room: part of `Dut`. Frames are bytes; where they go and when is put on the `line`.

use super::Dut;
use super::line::Event;
use super::program::{Fate, Program};
use super::rewrite::{self, Expired};
use weir_openflow::model::*;
use weir_packet::Nanos;

/// All ones: no flow (1.3 §7.4.1).
const NO_COOKIE: u64 = u64::MAX;

/// Why a frame is where it is, for what is told to controllers.
#[derive(Clone, Copy)]
struct From {
    in_port: u32,
    cookie: u64,
    reason: PacketInReason,
}

impl Dut {
    /// A frame came by a port, at a time not before that of the last call.
    pub fn frame_in(&mut self, port: u32, frame: &[u8], now: Nanos) {
        let now = self.run(now);
        let Some(p) = self.port_mut(port) else { return };
        if p.desc.config.has(PortConfig::NO_RECV) || p.desc.config.has(PortConfig::DOWN) {
            p.stats.rx_dropped += 1;
            return;
        }
        p.stats.rx_packets += 1;
        p.stats.rx_bytes += frame.len() as u64;
        self.through_table(port, frame, now);
        self.settle(now);
    }

    fn through_table(&mut self, in_port: u32, frame: &[u8], now: Nanos) {
        self.lookups += 1;
        let Some((id, program)) = self.hardware.look_up(frame, in_port) else {
            // 1.0 §3.4: to the controller; 1.3 §5.4: dropped, where no flow says else.
            let from = From { in_port, cookie: NO_COOKIE, reason: PacketInReason::NoMatch };
            self.punt_by(frame, from, Version::V10, now);
            return;
        };
        self.matched += 1;
        self.hardware.count(id, frame.len(), now);
        let flow = self.book.get_mut(id);
        // The table-miss flow (1.3 §5.4) is the one that matches all at priority 0.
        let miss = flow.as_ref().is_some_and(|f| f.priority == 0 && f.matcher.0.is_empty());
        let reason = if miss { PacketInReason::NoMatch } else { PacketInReason::Action };
        let cookie = flow.map_or(NO_COOKIE, |f| f.cookie);
        self.carry_out(&program, frame, From { in_port, cookie, reason }, now);
    }

    fn carry_out(&mut self, program: &Program, frame: &[u8], from: From, now: Nanos) {
        let at = match program.fate {
            Fate::Discarded => return,
            Fate::Hardware => Some(now + self.profile.forwarding.delay_us.nanos()),
            Fate::Cpu => self.slow.as_mut().and_then(|s| s.pass(now)),
        };
        let Some(at) = at else {
            self.slow_lost += 1;
            return;
        };
        let mut frame = frame.to_vec();
        for action in &program.actions {
            if let Action::Output { port, .. } = action {
                self.output(*port, &frame, from, at);
                continue;
            }
            if rewrite::apply(&self.profile.actions, action, &mut frame) == Err(Expired) {
                let from = From { reason: PacketInReason::InvalidTtl, ..from };
                self.punt_by(&frame, from, Version::V13, at);
                return;
            }
        }
    }

    fn output(&mut self, port: Port, frame: &[u8], from: From, at: Nanos) {
        match port {
            Port::CONTROLLER => self.punt(frame, from, at),
            Port::IN_PORT => self.leave(from.in_port, frame, at),
            Port::ALL | Port::FLOOD => {
                for n in 1..=self.ports.len() as u32 {
                    let quiet = self.port_mut(n).is_some_and(|p| {
                        port == Port::FLOOD && p.desc.config.has(PortConfig::NO_FLOOD)
                    });
                    if n != from.in_port && !quiet {
                        self.leave(n, frame, at);
                    }
                }
            }
            Port::TABLE => self.through_table(from.in_port, frame, at),
            // Back where it came from only if that is asked for by name.
            Port(n) if n != from.in_port => self.leave(n, frame, at),
            _ => {}
        }
    }

    /// Puts a frame on its way out, with what goes wrong there.
    fn leave(&mut self, port: u32, frame: &[u8], at: Nanos) {
        if self.loses.picks() {
            return;
        }
        let twice = self.duplicates.picks();
        if self.swaps.picks() && self.swapped.is_none() {
            self.swapped = Some((port, frame.to_vec(), at + SWAP_PATIENCE));
            return;
        }
        self.put_out(port, frame.to_vec(), at);
        if twice {
            self.put_out(port, frame.to_vec(), at);
        }
        if let Some((port, frame, _)) = self.swapped.take() {
            self.put_out(port, frame, at);
        }
    }

    /// A frame that waits for a successor goes when none comes.
    pub(super) fn release_swapped(&mut self, now: Nanos) {
        if let Some((port, frame, _)) = self.swapped.take() {
            self.put_out(port, frame, now);
        }
    }

    fn put_out(&mut self, port: u32, frame: Vec<u8>, at: Nanos) {
        let room = self.line.has_room();
        let Some(p) = self.port_mut(port) else { return };
        let shut = p.desc.config.has(PortConfig::NO_FWD) || p.desc.config.has(PortConfig::DOWN);
        if shut || !room {
            p.stats.tx_dropped += 1;
            return;
        }
        self.line.put(at, Event::Leave(port, frame));
    }

    /// A frame for the controllers of one version: those of the other do not hear of it.
    fn punt_by(&mut self, frame: &[u8], from: From, version: Version, at: Nanos) {
        if self.conns.values().any(|c| c.version() == Some(version)) {
            self.punt(frame, from, at);
        }
    }

    fn punt(&mut self, frame: &[u8], from: From, at: Nanos) {
        let faults = self.profile.packet_in;
        let quiet = |p: &mut super::PortState| p.desc.config.has(PortConfig::NO_PACKET_IN);
        if self.port_mut(from.in_port).is_some_and(quiet) || !self.line.has_room() {
            return;
        }
        let Some(at) = self.packet_ins.serve(at) else {
            self.packet_ins_lost += 1;
            return;
        };
        let matcher = Match::default().with(Field::InPort, from.in_port.into());
        let message = Message::PacketIn(PacketIn {
            buffer_id: NO_BUFFER,
            total_len: u16::try_from(frame.len()).unwrap_or(u16::MAX),
            reason: from.reason,
            table: 0,
            cookie: from.cookie,
            matcher,
            data: frame.to_vec(),
        });
        let at = at + faults.delay_us.nanos();
        if self.packet_ins_twice.picks() && self.line.has_room() {
            self.line.put(at, Event::TellAll(message.clone()));
        }
        self.line.put(at, Event::TellAll(message));
    }

    /// A packet-out takes effect.
    pub(super) fn packet_out(&mut self, m: &PacketOut, now: Nanos) {
        if self.packet_outs_lost.picks() {
            return;
        }
        let ports = self.ports.len();
        // It was checked when it came.
        let faults = &self.profile.actions;
        let Ok(program) = Program::of_packet_out(faults, ports, &m.actions) else { return };
        let from = From { in_port: m.in_port.0, cookie: NO_COOKIE, reason: PacketInReason::Action };
        self.carry_out(&program, &m.data, from, now);
    }
}

/// How long a frame waits for a successor that is to overtake it.
pub(super) const SWAP_PATIENCE: Nanos = Nanos(100_000_000);
