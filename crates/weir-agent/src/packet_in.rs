//! Packets for controllers: to whom, how much of each, buffered or whole (1.3 §6.1.2, §7.4.1;
//! 1.0 §5.4.1).
//!
//! Frames come from the data plane's punt sink through a queue that its owner bounds.

use crate::buffers::Buffered;
use crate::outbox::{ConnId, Outbox};
use crate::switch::Switch;
use weir_dataplane::{PuntReason, Punted};
use weir_openflow::model::{
    Field, Match, Message, NO_BUFFER, NO_MAX_LEN, PacketIn, PacketInReason, Port, Version,
};
use weir_packet::Nanos;

/// A frame that came for the controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Where it came in.
    pub in_port: Port,
    /// Why it comes.
    pub reason: PacketInReason,
    /// The table that sent it.
    pub table: u8,
    /// The flow's cookie; all ones where no flow sent it.
    pub cookie: u64,
    /// How much of it the flow wants sent.
    pub max_len: u16,
    /// Its metadata.
    pub metadata: u64,
    /// Its tunnel id.
    pub tunnel_id: u64,
    /// The frame.
    pub frame: Vec<u8>,
}

impl From<Punted<'_>> for Arrived {
    fn from(p: Punted<'_>) -> Self {
        Self {
            in_port: Port(p.in_port.0),
            reason: match p.reason {
                PuntReason::NoMatch => PacketInReason::NoMatch,
                PuntReason::Action => PacketInReason::Action,
                PuntReason::InvalidTtl => PacketInReason::InvalidTtl,
            },
            table: p.table,
            cookie: p.cookie,
            max_len: p.max_len,
            metadata: p.metadata,
            tunnel_id: p.tunnel_id,
            frame: p.frame.to_vec(),
        }
    }
}

/// Cookie of a frame that no flow sent.
pub(crate) const NO_FLOW: u64 = u64::MAX;

/// A bucket of packet-ins: so many a second, a tenth of a second's worth at once.
#[derive(Debug)]
pub(crate) struct Rate {
    per_second: u64,
    /// In billionths of a packet.
    tokens: u64,
    last: Nanos,
}

const ONE: u64 = 1_000_000_000;

impl Rate {
    pub fn new(per_second: u32) -> Self {
        let per_second = u64::from(per_second);
        Self { per_second, tokens: Self::full(per_second), last: Nanos(0) }
    }
    fn full(per_second: u64) -> u64 {
        (per_second * (ONE / 10)).max(ONE)
    }
    /// Whether one more may go.
    pub fn admits(&mut self, now: Nanos) -> bool {
        let new = now.since(self.last).0.saturating_mul(self.per_second);
        self.last = self.last.max(now);
        self.tokens = self.tokens.saturating_add(new).min(Self::full(self.per_second));
        match self.tokens.checked_sub(ONE) {
            Some(rest) => {
                self.tokens = rest;
                true
            }
            None => false,
        }
    }
}

impl Switch {
    /// A frame came for the controllers.
    pub fn punted(&mut self, a: Arrived, now: Nanos, out: &mut Outbox) {
        let implicit = a.reason == PacketInReason::NoMatch && a.cookie == NO_FLOW;
        let (conns, rate) = (&self.conns, &mut self.packet_ins);
        // A miss entry is 1.3's (§5.4): to 1.0 it is a flow like others, and no match is what no flow takes.
        let reason = |version| match (version, a.reason) {
            (Version::V10, PacketInReason::NoMatch) if !implicit => PacketInReason::Action,
            (_, reason) => reason,
        };
        // What no flow takes goes to controllers of 1.0 alone (1.3 §5.4 asks for a miss entry).
        let mut to: Vec<(ConnId, Version, u16)> = Vec::new();
        for (id, c) in &conns.all {
            let why = reason(c.version);
            if !c.wants_packet(why) || implicit && c.version != Version::V10 {
                continue;
            }
            let by_switch = match c.version {
                Version::V10 => why == PacketInReason::NoMatch,
                _ => why == PacketInReason::InvalidTtl,
            };
            to.push((*id, c.version, if by_switch { c.miss_send_len } else { a.max_len }));
        }
        if to.is_empty() || rate.as_mut().is_some_and(|r| !r.admits(now)) {
            self.packets_kept_back += u64::from(!to.is_empty());
            return;
        }
        let wanted = to.iter().any(|(_, _, len)| *len != NO_MAX_LEN);
        let buffer = match wanted {
            true => {
                let packet = Buffered { in_port: a.in_port, frame: a.frame.clone() };
                self.buffers.put(packet, now)
            }
            false => None,
        };
        for (conn, version, len) in to {
            let (buffer_id, keep) = match buffer {
                Some(b) if len != NO_MAX_LEN => (b, usize::from(len).min(a.frame.len())),
                _ => (NO_BUFFER, a.frame.len()),
            };
            let mut matcher = Match::default().with(Field::InPort, a.in_port.0.into());
            if version != Version::V10 {
                for (field, n) in [(Field::Metadata, a.metadata), (Field::TunnelId, a.tunnel_id)] {
                    if n != 0 {
                        matcher = matcher.with(field, n.into());
                    }
                }
            }
            out.tell(
                conn,
                Message::PacketIn(PacketIn {
                    buffer_id,
                    total_len: u16::try_from(a.frame.len()).unwrap_or(u16::MAX),
                    reason: reason(version),
                    table: a.table,
                    cookie: a.cookie,
                    matcher,
                    data: a.frame[..keep].to_vec(),
                }),
            );
        }
    }
    /// Packets that a limit kept from the controllers so far.
    pub fn packets_kept_back(&self) -> u64 {
        self.packets_kept_back
    }
}
