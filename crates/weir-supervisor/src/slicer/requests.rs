//! What a slice's controller asks for, message by message: what the slicer answers itself, what it passes on in
//! the slice's name, and what no slice may have.
//!
//! Room: one function a kind of message, called by `switch`. Flows, packets, groups and statistics are in
//! files of their own.

use super::judge::Floods;
use super::ledger::{Ask, Asker, What};
use super::role;
use super::switch::{ConnId, Out, Switch};
use core::time::Duration;
use weir_openflow::model::{
    ErrorCode, Features, Fragments, Message, Port, PortConfig, PortMod, Role, RoleMsg, Version,
};

impl Switch {
    /// Does what is asked.
    ///
    /// # Errors
    /// What the controller is told. Nothing has happened then.
    pub(super) fn request(
        &mut self,
        asker: &Asker,
        body: Message,
        now: Duration,
        out: &mut Out,
    ) -> Result<(), ErrorCode> {
        if changes(&body) && self.role_of(asker.conn) == Role::Slave {
            return Err(ErrorCode::IsSlave);
        }
        match body {
            Message::FeaturesRequest => {
                let features = self.features_for(asker).ok_or(ErrorCode::RequestEperm)?;
                self.answer(asker, Message::FeaturesReply(features), out);
            }
            Message::GetConfigRequest => {
                let config = self.slice(asker)?.config;
                self.answer(asker, Message::GetConfigReply(config), out);
            }
            Message::SetConfig(c) => {
                // How fragments are treated is the switch's affair, and everybody's. 1.0 has no error to say so.
                match c.fragments {
                    Fragments::Normal => {}
                    _ if self.version == Version::V10 => {}
                    Fragments::Unknown(_) => return Err(ErrorCode::ConfigBadFlags),
                    _ => return Err(ErrorCode::ConfigEperm),
                }
                self.slice_mut(asker)?.config.miss_send_len = c.miss_send_len;
            }
            Message::FlowMod(m) => self.flow_mod(asker, m, out)?,
            Message::PacketOut(p) => self.packet_out(asker, p, out)?,
            Message::GroupMod(m) => self.group_mod(asker, m, out)?,
            Message::MeterMod(m) => self.meter_mod(asker, m, out)?,
            Message::PortMod(m) => self.port_mod(asker, &m)?,
            Message::TableMod { .. } => return Err(ErrorCode::TableEperm),
            Message::StatsRequest { body, .. } => self.ask(asker, body, out)?,
            Message::BarrierRequest => {
                let before = self.slice(asker)?.taken_back;
                let what = What::Barrier(asker.clone(), before);
                self.pass(asker, what, Message::BarrierRequest, out);
            }
            Message::QueueConfigRequest(port) => {
                if port != Port::ANY && !self.slice(asker)?.has(port) {
                    return Err(ErrorCode::QueueBadPort);
                }
                let what = What::Asked(asker.clone(), Ask::Queues);
                self.pass(asker, what, Message::QueueConfigRequest(port), out);
            }
            Message::RoleRequest(r) => self.role_request(asker, r, out)?,
            Message::GetAsyncRequest => {
                let wants = self.controllers.get(&asker.conn).map(|c| c.wants);
                let wants = wants.ok_or(ErrorCode::RequestEperm)?;
                self.answer(asker, Message::GetAsyncReply(wants), out);
            }
            Message::SetAsync(wants) => {
                if let Some(c) = self.controllers.get_mut(&asker.conn) {
                    c.wants = wants;
                }
            }
            Message::EchoRequest(data) => self.answer(asker, Message::EchoReply(data), out),
            // Greetings and answers to what was not asked.
            Message::Hello { .. } | Message::EchoReply(_) | Message::Error(_) => {}
            // Whose meaning is not known can't be kept within a slice.
            Message::Experimenter { .. } => return Err(ErrorCode::BadExperimenter),
            _ => return Err(ErrorCode::BadType),
        }
        let _ = now;
        Ok(())
    }

    /// Sends a message in a slice's name.
    pub(super) fn pass(&mut self, asker: &Asker, what: What, body: Message, out: &mut Out) {
        self.ledger.send(Some(asker.slice), what, body, &mut out.to_switch);
    }

    pub(super) fn slice(&self, asker: &Asker) -> Result<&super::slice::Slice, ErrorCode> {
        self.slices.get(usize::from(asker.slice.0)).ok_or(ErrorCode::RequestEperm)
    }
    pub(super) fn slice_mut(
        &mut self,
        asker: &Asker,
    ) -> Result<&mut super::slice::Slice, ErrorCode> {
        self.slices.get_mut(usize::from(asker.slice.0)).ok_or(ErrorCode::RequestEperm)
    }

    fn role_of(&self, conn: ConnId) -> Role {
        self.controllers.get(&conn).map_or(Role::Slave, |c| c.role)
    }

    fn features_for(&self, asker: &Asker) -> Option<Features> {
        let slice = self.slice(asker).ok()?;
        let mut f = self.features()?.clone();
        f.buffers = f.buffers.min(super::buffers::MOST as u32);
        f.tables = f.tables.min(slice.tables(self.version));
        f.ports = match self.version {
            Version::V10 => slice.sees(&self.ports),
            Version::V13 => Vec::new(),
        };
        Some(f)
    }

    /// A port belongs to all who see it: what a slice alone feels is kept for it, nothing else is done.
    fn port_mod(&mut self, asker: &Asker, m: &PortMod) -> Result<(), ErrorCode> {
        let (no, own) = (m.port, PortConfig::NO_FLOOD);
        let known = self.ports.get(&no).filter(|_| self.slice(asker).is_ok_and(|s| s.has(no)));
        let known = known.ok_or(ErrorCode::PortBadPort)?;
        if known.mac != m.mac {
            return Err(ErrorCode::PortBadHwAddr);
        }
        if m.mask.0 & !own.0 != 0 || m.advertise.0 != 0 {
            return Err(ErrorCode::PortEperm);
        }
        if m.mask.has(own) {
            let floods = if m.config.has(own) { Floods::No } else { Floods::Yes };
            self.slice_mut(asker)?.set_floods(no, floods);
        }
        Ok(())
    }

    fn role_request(&mut self, asker: &Asker, r: RoleMsg, out: &mut Out) -> Result<(), ErrorCode> {
        let known = self.version == Version::V13;
        let s = self.slice_mut(asker)?;
        if known {
            role::admit(&r, &mut s.generation)?;
        }
        let generation = s.generation.unwrap_or(u64::MAX);
        if r.role == Role::Master {
            let others = self.controllers.iter_mut().filter(|(id, c)| {
                **id != asker.conn && c.slice == asker.slice && c.role == Role::Master
            });
            others.for_each(|(_, c)| c.role = Role::Slave);
        }
        let Some(c) = self.controllers.get_mut(&asker.conn) else { return Ok(()) };
        if r.role != Role::NoChange {
            c.role = r.role;
        }
        let role = c.role;
        self.answer(asker, Message::RoleReply(RoleMsg { role, generation }), out);
        Ok(())
    }
}

/// What a slave may not send (1.3 §6.3.4).
fn changes(body: &Message) -> bool {
    matches!(
        body,
        Message::FlowMod(_)
            | Message::PacketOut(_)
            | Message::GroupMod(_)
            | Message::MeterMod(_)
            | Message::PortMod(_)
            | Message::TableMod { .. }
            | Message::SetConfig(_)
    )
}
