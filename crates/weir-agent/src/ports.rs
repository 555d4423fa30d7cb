//! Ports: what the switch says of them, what controllers change, whom changes are told
//! (1.3 §7.3.4.3, §7.4.3; 1.0 §5.3.3, §5.4.3).

use crate::dp;
use crate::outbox::Outbox;
use crate::plane::Plane;
use crate::request::{Asker, Cx, Stop};
use crate::roles::Conn;
use crate::stats::has_number_for;
use crate::switch::Switch;
use weir_openflow::model::{
    ErrorCode, Message, Port, PortConfig, PortDesc, PortMod, PortReason, PortState, PortStatus,
    QueueDesc, Version,
};
use weir_packet::Nanos;

/// Something happened to a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortUpdate {
    /// It is there, as described: a new one, or one that changed. What controllers have set of it
    /// stays.
    Is(PortDesc),
    /// It is gone.
    Gone(Port),
    /// Its link came or went.
    Link(Port, Link),
}

/// A link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// It is there.
    Up,
    /// It is not.
    Down,
}

/// What a controller may set of a port here. There is no spanning tree for NO_STP to keep off
/// (1.0.1 §5.2.1; OFPC_STP is not among the capabilities).
const SETTABLE: PortConfig = PortConfig(
    PortConfig::DOWN.0
        | PortConfig::NO_RECV.0
        | PortConfig::NO_RECV_STP.0
        | PortConfig::NO_FLOOD.0
        | PortConfig::NO_FWD.0
        | PortConfig::NO_PACKET_IN.0,
);

impl Switch {
    /// The queues that there are from now on; controllers see them when they ask.
    pub fn set_queues(&mut self, queues: Vec<QueueDesc>) {
        self.state.queues = queues;
    }

    /// Something happened to a port.
    pub fn port_changed(&mut self, change: PortUpdate, now: Nanos, out: &mut Outbox) {
        let (reason, desc) = match change {
            PortUpdate::Is(mut desc) => {
                if let Some((mac, name)) = self.faces.get(&desc.no) {
                    (desc.mac, desc.name) = (*mac, name.clone());
                }
                self.state.since.entry(desc.no).or_insert(now);
                let old = self.state.ports.get(&desc.no).cloned();
                desc.config = old.as_ref().map_or(desc.config, |o| o.config);
                settle_live(&mut desc);
                if old.as_ref() == Some(&desc) {
                    return;
                }
                self.state.ports.insert(desc.no, desc.clone());
                (old.map_or(PortReason::Add, |_| PortReason::Modify), desc)
            }
            PortUpdate::Gone(no) => {
                let Some(desc) = self.state.ports.remove(&no) else { return };
                self.state.since.remove(&no);
                self.state.queues.retain(|q| q.port != no);
                (PortReason::Delete, desc)
            }
            PortUpdate::Link(no, link) => {
                let Some(desc) = self.state.ports.get_mut(&no) else { return };
                let before = desc.state;
                desc.state.0 &= !PortState::LINK_DOWN.0;
                if link == Link::Down {
                    desc.state = desc.state | PortState::LINK_DOWN;
                }
                settle_live(desc);
                if desc.state == before {
                    return;
                }
                (PortReason::Modify, desc.clone())
            }
        };
        self.tell_port(reason, desc, out);
    }

    fn tell_port(&self, reason: PortReason, desc: PortDesc, out: &mut Outbox) {
        let wants = |c: &Conn| c.wants_port(reason) && has_number_for(c.version, desc.no);
        for (id, _) in self.conns.all.iter().filter(|(_, c)| wants(c)) {
            out.tell(*id, Message::PortStatus(PortStatus { reason, desc: desc.clone() }));
        }
    }

    pub(crate) fn port_mod<P: Plane>(
        &mut self,
        who: &Asker,
        mut m: PortMod,
        cx: &mut Cx<'_, P>,
    ) -> Result<(), Stop> {
        self.flush(cx)?;
        let desc = self.state.ports.get_mut(&m.port).ok_or(ErrorCode::PortBadPort)?;
        if desc.mac != m.mac {
            return Err(ErrorCode::PortBadHwAddr.into());
        }
        if m.mask.0 & !PortConfig::KNOWN.0 != 0 {
            return Err(ErrorCode::PortBadConfig.into());
        }
        // 1.0 has no number of its own for this.
        if m.mask.0 & m.config.0 & PortConfig::NO_STP.0 != 0 {
            return Err(ErrorCode::PortEperm.into());
        }
        // 1.3's "drop all packets received by port" (§7.2.1) is two flags in 1.0.
        if who.version != Version::V10 && m.mask.has(PortConfig::NO_RECV) {
            m.mask = m.mask | PortConfig::NO_RECV_STP;
            m.config.0 &= !PortConfig::NO_RECV_STP.0;
            if m.config.has(PortConfig::NO_RECV) {
                m.config = m.config | PortConfig::NO_RECV_STP;
            }
        }
        if m.advertise.0 & !desc.supported.0 != 0 {
            return Err(ErrorCode::PortBadAdvertise.into());
        }
        let mask = m.mask.0 & SETTABLE.0;
        let config = PortConfig(desc.config.0 & !mask | m.config.0 & mask);
        let (vid, port) = (self.config.vid, m.port);
        cx.plane.with(move |plane| dp::set_port_config(plane, vid, port, config))?;
        let before = desc.clone();
        desc.config = config;
        if m.advertise.0 != 0 {
            desc.advertised = m.advertise;
        }
        settle_live(desc);
        if *desc != before {
            let desc = desc.clone();
            self.tell_port(PortReason::Modify, desc, cx.out);
        }
        Ok(())
    }

    /// The queues of a port, or of all.
    pub(crate) fn queues_of(&self, port: Port) -> Result<Vec<QueueDesc>, ErrorCode> {
        if port != Port::ANY && !self.state.ports.contains_key(&port) {
            return Err(ErrorCode::QueueBadPort);
        }
        let of = |q: &&QueueDesc| port == Port::ANY || q.port == port;
        Ok(self.state.queues.iter().filter(of).cloned().collect())
    }
}

/// A port is live when it is up by all accounts (1.3 §7.2.1, OFPPS_LIVE).
pub(crate) fn settle_live(desc: &mut PortDesc) {
    let up = !desc.state.has(PortState::LINK_DOWN) && !desc.config.has(PortConfig::DOWN);
    desc.state.0 &= !PortState::LIVE.0;
    if up {
        desc.state = desc.state | PortState::LIVE;
    }
}

/// Puts a port among those of a new switch.
pub(crate) fn first(mut desc: PortDesc) -> PortDesc {
    settle_live(&mut desc);
    desc
}
