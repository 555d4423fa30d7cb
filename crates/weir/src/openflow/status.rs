//! What `weir show` tells of switches: the shape of it, and how it is gathered.
//!
//! Room: reading only, on the switches' thread; the shape goes over the control socket.

use super::conn::Conn;
use super::connect::name;
use super::endpoint::{Endpoint, What};
use super::hub::Entry;
use crate::config::openflow::FailMode;
use serde::{Deserialize, Serialize};
use weir_agent::Purpose;
use weir_openflow::channel::Kind;
use weir_openflow::model::Role;
use weir_packet::Nanos;

/// A VDP as an OpenFlow switch.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SwitchItem {
    /// 16 hexadecimal digits.
    pub datapath_id: String,
    /// "secure" or "standalone".
    pub fail_mode: String,
    /// Flows in all tables.
    pub flows: usize,
    /// Frames for controllers that found no room on their way: in the software stage, or at a
    /// connection.
    pub packet_ins_dropped: u64,
    /// Frames for controllers beyond the limit.
    pub packet_ins_limited: u64,
    /// Frames from controllers for which the data plane had none free.
    #[serde(default)]
    pub packet_outs_lost: u64,
    /// Controllers that it connects to.
    pub controllers: Vec<EndpointItem>,
    /// Where it listens.
    pub listeners: Vec<EndpointItem>,
}

/// A controller or a listener.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EndpointItem {
    /// As configured.
    pub address: String,
    /// Where a listener listens in truth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<String>,
    /// Connections so far.
    pub connected: u64,
    /// Connections that were refused or did not get as far as a version.
    pub refused: u64,
    /// Attempts in a row that led to nothing.
    pub attempts: u32,
    /// Time until the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_in_ms: Option<u64>,
    /// The last thing that went wrong.
    pub last_error: Option<String>,
    /// Connections that are open.
    pub connections: Vec<ConnectionItem>,
}

/// A connection.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ConnectionItem {
    /// The other end.
    pub peer: String,
    /// How long it has been there.
    pub for_ms: u64,
    /// The node that its bytes go on to, where its switch is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// "1.0", "1.3", or nothing yet.
    pub version: Option<String>,
    /// "controller" or "tool".
    pub purpose: String,
    /// "equal", "master" or "slave"; "unknown" while its switch is at another node, which knows it.
    pub role: String,
    /// Messages that came.
    pub messages_in: u64,
    /// Messages that went.
    pub messages_out: u64,
    /// Errors among those that came.
    pub errors_in: u64,
    /// Errors among those that went.
    pub errors_out: u64,
    /// Asynchronous messages for which there was no room.
    pub dropped: u64,
    /// Bytes that wait to be written.
    pub waiting_bytes: usize,
    /// How often it was held back by a rate limit or by its own full queue.
    pub held_back: u64,
}

/// What there is of a switch.
pub fn of(e: &Entry) -> SwitchItem {
    let now = e.vdp.common.clock.now();
    let relayed = e.vdp.relayed();
    e.vdp.look(|switch, conns, _| {
        let dropped = |c: &Conn| c.channel.borrow().stats().dropped[Kind::PacketIn as usize];
        let at_conns: u64 = conns.values().map(|c| dropped(c)).sum();
        let item = |p: &Endpoint| {
            let mine = conns.values().chain(&relayed).filter(|c| c.endpoint == p.id);
            endpoint(p, mine.map(|c| connection(c, now)).collect(), now)
        };
        let (controllers, listeners): (Vec<_>, Vec<_>) =
            e.endpoints.iter().partition(|p| matches!(p.what, What::Controller(_)));
        SwitchItem {
            datapath_id: format!("{:016x}", e.wanted.plan.nature.datapath_id),
            fail_mode: match e.wanted.plan.nature.fail_mode {
                FailMode::Secure => "secure",
                FailMode::Standalone => "standalone",
            }
            .to_owned(),
            flows: switch.flow_count(),
            packet_ins_dropped: e.lost.frames() + at_conns,
            packet_ins_limited: switch.packets_kept_back(),
            packet_outs_lost: switch.packet_outs_lost(),
            controllers: controllers.into_iter().map(|p| item(p)).collect(),
            listeners: listeners.into_iter().map(|p| item(p)).collect(),
        }
    })
}

fn endpoint(p: &Endpoint, connections: Vec<ConnectionItem>, now: Nanos) -> EndpointItem {
    let f = p.facts.borrow();
    let address = match &p.what {
        What::Controller(c) => c.to_string(),
        What::Listener(l) => l.to_string(),
    };
    EndpointItem {
        address,
        bound: f.at.map(|a| a.to_string()),
        connected: f.connections,
        refused: f.refused,
        attempts: f.attempts,
        retry_in_ms: f.retry_at.map(|at| at.since(now).0 / 1_000_000),
        last_error: f.last_error.clone(),
        connections,
    }
}

fn connection(c: &Conn, now: Nanos) -> ConnectionItem {
    let channel = c.channel.borrow();
    let s = channel.stats();
    let (messages_in, messages_out) = c.messages();
    let by = c.by.borrow().clone();
    ConnectionItem {
        peer: c.peer.clone(),
        for_ms: now.since(c.since).0 / 1_000_000,
        version: c.version.get().map(|v| name(v).to_owned()),
        purpose: match c.purpose {
            Purpose::Controller => "controller",
            Purpose::Management => "tool",
        }
        .to_owned(),
        role: match (&by, c.role.get()) {
            (Some(_), _) => "unknown",
            (None, Role::Master) => "master",
            (None, Role::Slave) => "slave",
            (None, Role::Equal | Role::NoChange) => "equal",
        }
        .to_owned(),
        by,
        messages_in,
        messages_out,
        errors_in: s.received[Kind::Error as usize],
        errors_out: s.sent[Kind::Error as usize],
        dropped: s.dropped.iter().sum(),
        waiting_bytes: channel.outgoing().len(),
        held_back: s.throttled + s.pushed_back,
    }
}
