//! Connections: their roles (1.3 §6.3.4, Nicira's for 1.0), which asynchronous messages each wants
//! (1.3 §7.3.10), and what a slave may not do.
//!
//! Room: no sockets; a connection is a number. Touches nothing of the data plane.

use crate::outbox::ConnId;
use std::collections::BTreeMap;
use weir_openflow::model::{
    AsyncConfig, ErrorCode, Message, PacketInReason, Part, PortReason, RemovedReason, Role,
    RoleMsg, StatsRequest, Version,
};

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A controller: decides over frames without a flow.
    Controller,
    /// A tool, such as `ovs-ofctl`: asks and changes, but the switch is not in its care. It gets
    /// asynchronous messages when it has set what it wants of packets or of messages.
    Management,
}

/// A connection.
#[derive(Clone, Debug)]
pub(crate) struct Conn {
    pub version: Version,
    pub purpose: Purpose,
    pub role: Role,
    pub wants: AsyncConfig,
    /// Bytes of a packet that a packet-in without an action carries.
    pub miss_send_len: u16,
    /// Whether a tool has said that it listens.
    pub listens: Listens,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listens {
    No,
    Yes,
}

/// OFP_DEFAULT_MISS_SEND_LEN.
pub(crate) const MISS_SEND_LEN: u16 = 128;

/// What a connection gets before it says otherwise: all but packets with an invalid TTL; a slave
/// only what happens to ports.
const WANTS: AsyncConfig =
    AsyncConfig { packet_in: [0b011, 0], port_status: [0b111, 0b111], flow_removed: [0b1111, 0] };

impl Conn {
    pub fn new(version: Version, purpose: Purpose) -> Self {
        let listens = match purpose {
            Purpose::Controller => Listens::Yes,
            Purpose::Management => Listens::No,
        };
        Self {
            version,
            purpose,
            role: Role::Equal,
            wants: WANTS,
            miss_send_len: MISS_SEND_LEN,
            listens,
        }
    }
    fn wants(&self, mask: [u32; 2], bit: u32) -> bool {
        let mask = mask[usize::from(self.role == Role::Slave)];
        self.listens == Listens::Yes && mask >> bit & 1 != 0
    }
    /// Whether it gets packets sent for this reason.
    pub fn wants_packet(&self, why: PacketInReason) -> bool {
        match why {
            PacketInReason::NoMatch => self.wants(self.wants.packet_in, 0),
            PacketInReason::Action => self.wants(self.wants.packet_in, 1),
            PacketInReason::InvalidTtl => {
                self.version != Version::V10 && self.wants(self.wants.packet_in, 2)
            }
        }
    }
    /// Whether it hears of this change of a port.
    pub fn wants_port(&self, why: PortReason) -> bool {
        let bit = match why {
            PortReason::Add => 0,
            PortReason::Delete => 1,
            PortReason::Modify => 2,
        };
        self.wants(self.wants.port_status, bit)
    }
    /// Whether it hears of flows gone for this reason.
    pub fn wants_removed(&self, why: RemovedReason) -> bool {
        let bit = match why {
            RemovedReason::IdleTimeout => 0,
            RemovedReason::HardTimeout => 1,
            RemovedReason::Delete => 2,
            // Groups are not of 1.0.
            RemovedReason::GroupDelete if self.version == Version::V10 => return false,
            RemovedReason::GroupDelete => 3,
        };
        self.wants(self.wants.flow_removed, bit)
    }
}

/// All connections of a switch.
#[derive(Debug, Default)]
pub(crate) struct Conns {
    pub all: BTreeMap<ConnId, Conn>,
    /// Of the last election that anybody told of.
    generation: Option<u64>,
}

impl Conns {
    /// The last election that anybody told of.
    pub fn generation(&self) -> Option<u64> {
        self.generation
    }
    /// Goes on from an election that was told of elsewhere.
    pub fn set_generation(&mut self, generation: Option<u64>) {
        self.generation = generation;
    }
    /// Whether a controller is connected.
    pub fn any_controller(&self) -> bool {
        self.all.values().any(|c| c.purpose == Purpose::Controller)
    }
    /// Whether somebody of 1.0 is that gets what no flow takes: a controller, or a tool that asked for packets.
    pub fn any_old_listener(&self) -> bool {
        self.all.values().any(|c| c.version == Version::V10 && c.listens == Listens::Yes)
    }
    /// Gives a connection the role it asks for.
    ///
    /// # Errors
    /// ROLE_REQUEST_FAILED, STALE.
    pub fn request(&mut self, conn: ConnId, m: RoleMsg) -> Result<RoleMsg, ErrorCode> {
        let Some(c) = self.all.get(&conn) else { return Err(ErrorCode::RoleUnsupported) };
        let elected = c.version != Version::V10;
        if elected && matches!(m.role, Role::Master | Role::Slave) {
            // A distance, not an order: numbers go round.
            if self.generation.is_some_and(|g| (m.generation.wrapping_sub(g) as i64) < 0) {
                return Err(ErrorCode::RoleStale);
            }
            self.generation = Some(m.generation);
        }
        if m.role == Role::Master {
            for c in self.all.values_mut().filter(|c| c.role == Role::Master) {
                c.role = Role::Slave;
            }
        }
        let generation = self.generation.filter(|_| elected).unwrap_or(u64::MAX);
        let Some(c) = self.all.get_mut(&conn) else { return Err(ErrorCode::RoleUnsupported) };
        if m.role != Role::NoChange {
            c.role = m.role;
        }
        // Nicira's master is one among others that become slaves (of equals there is no word).
        let (role, old) = (c.role, !elected);
        if old && m.role == Role::Master {
            for (id, c) in &mut self.all {
                if *id != conn && c.version == Version::V10 && c.role == Role::Master {
                    c.role = Role::Slave;
                }
            }
        }
        Ok(RoleMsg { role, generation })
    }
}

/// Whether a message changes the switch, which a slave may not (1.3 §6.3.4).
pub(crate) fn changes(m: &Message) -> bool {
    match m {
        Message::PacketOut(_)
        | Message::FlowMod(_)
        | Message::GroupMod(_)
        | Message::PortMod(_)
        | Message::TableMod { .. }
        | Message::MeterMod(_) => true,
        Message::StatsRequest { more, body: StatsRequest::TableFeatures(body) } => {
            *more == Part::More || !body.is_empty()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Conns {
        let mut c = Conns::default();
        for i in 1..=2 {
            c.all.insert(ConnId(i), Conn::new(Version::V13, Purpose::Controller));
        }
        c
    }

    #[test]
    fn there_is_one_master_and_elections_do_not_go_back() {
        let mut c = two();
        let ask = |c: &mut Conns, conn, role, generation| {
            c.request(ConnId(conn), RoleMsg { role, generation })
        };
        let first = ask(&mut c, 1, Role::NoChange, 0).unwrap();
        assert_eq!((first.role, first.generation), (Role::Equal, u64::MAX));
        assert_eq!(ask(&mut c, 1, Role::Master, u64::MAX).unwrap().role, Role::Master);
        assert_eq!(ask(&mut c, 2, Role::Master, 0).unwrap().generation, 0);
        assert_eq!(c.all[&ConnId(1)].role, Role::Slave);
        assert_eq!(ask(&mut c, 1, Role::Master, u64::MAX), Err(ErrorCode::RoleStale));
        assert_eq!(ask(&mut c, 1, Role::Equal, u64::MAX).unwrap().role, Role::Equal);
    }

    #[test]
    fn slaves_hear_of_ports_alone_and_tools_of_nothing_until_they_listen() {
        let mut c = Conn::new(Version::V13, Purpose::Controller);
        assert!(c.wants_packet(PacketInReason::Action) && c.wants_port(PortReason::Add));
        assert!(!c.wants_packet(PacketInReason::InvalidTtl));
        c.role = Role::Slave;
        assert!(!c.wants_packet(PacketInReason::Action) && c.wants_port(PortReason::Add));
        assert!(!c.wants_removed(RemovedReason::Delete));
        let tool = Conn::new(Version::V10, Purpose::Management);
        assert!(!tool.wants_port(PortReason::Add));
    }
}
