//! A connection as a switch knows it, taken along: role, what it wants to hear, version.

use super::CarryError;
use super::wire::{In, Out};
use crate::outbox::ConnId;
use crate::roles::{Conn, Listens, Purpose};
use crate::switch::Switch;
use weir_openflow::model::{AsyncConfig, Role, Version};

/// What a switch knows of a connection. Its bytes are [`Session::BYTES`] long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session(Vec<u8>);

impl Session {
    /// Its length in bytes.
    pub const BYTES: usize = 30;

    /// The bytes of one.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
    /// From bytes that may be anything.
    ///
    /// # Errors
    /// They are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CarryError> {
        conn(bytes)?;
        Ok(Self(bytes.to_vec()))
    }
    /// The version that was agreed on.
    pub fn version(&self) -> Version {
        if self.0.first() == Some(&1) { Version::V10 } else { Version::V13 }
    }
    /// What the connection is for.
    pub fn purpose(&self) -> Purpose {
        match self.0.get(1) {
            Some(0) => Purpose::Controller,
            _ => Purpose::Management,
        }
    }
    /// The role that it has.
    pub fn role(&self) -> Role {
        conn(&self.0).map_or(Role::Equal, |c| c.role)
    }
}

impl Switch {
    /// Lets go of a connection that goes on elsewhere; nothing is told to it, and nothing follows from
    /// its end. `None`: there is no such connection, or it has no version yet.
    pub fn release_session(&mut self, conn: ConnId) -> Option<Session> {
        let c = self.conns.all.remove(&conn)?;
        self.walks.retain(|w| w.who.conn != conn);
        let mut o = Out::default();
        o.u8(c.version as u8);
        o.u8(u8::from(c.purpose == Purpose::Management));
        o.u8(match c.role {
            Role::NoChange | Role::Equal => 0,
            Role::Master => 1,
            Role::Slave => 2,
        });
        o.u8(u8::from(c.listens == Listens::Yes));
        o.u16(c.miss_send_len);
        let w = c.wants;
        w.packet_in.iter().chain(&w.port_status).chain(&w.flow_removed).for_each(|m| o.u32(*m));
        Some(Session(o.0))
    }

    /// Takes up a connection that was another's. Nothing is told to it, and nothing follows from its
    /// beginning: [`Switch::tick`] settles that when all are there.
    pub fn take_session(&mut self, id: ConnId, s: &Session) {
        if let Ok(c) = conn(&s.0) {
            self.conns.all.insert(id, c);
            self.alone_since = None;
        }
    }
}

fn conn(bytes: &[u8]) -> Result<Conn, CarryError> {
    let wrong = CarryError::Broken("a session that is none");
    let mut r = In::piece(bytes)?;
    let version = match r.u8()? {
        1 => Version::V10,
        4 => Version::V13,
        _ => return Err(wrong),
    };
    let purpose = match r.u8()? {
        0 => Purpose::Controller,
        1 => Purpose::Management,
        _ => return Err(wrong),
    };
    let role = match r.u8()? {
        0 => Role::Equal,
        1 => Role::Master,
        2 => Role::Slave,
        _ => return Err(wrong),
    };
    let listens = match r.u8()? {
        0 => Listens::No,
        1 => Listens::Yes,
        _ => return Err(wrong),
    };
    let miss_send_len = r.u16()?;
    let mut two = || Ok::<_, CarryError>([r.u32()?, r.u32()?]);
    let wants = AsyncConfig { packet_in: two()?, port_status: two()?, flow_removed: two()? };
    r.end()?;
    Ok(Conn { miss_send_len, role, wants, listens, ..Conn::new(version, purpose) })
}
