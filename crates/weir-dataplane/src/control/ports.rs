//! Ports: added, removed, their links.

use super::*;
use crate::action::{PortNo, Vid};
use crate::counters::PortCounters;
use crate::edge;
use crate::forwarding::{PortShare, TxPort};
use crate::plane::{DataPlane, Port};
use crate::shortcut::Ways;
use std::collections::VecDeque;
use weir_packet::{Device, DropReason, LinkState, Pool, PortId};

impl DataPlane {
    /// Adds a port. Its number is never used again, so that nothing that still names it can reach
    /// another port.
    ///
    /// # Errors
    /// A name that is taken; the device is handed back inside nothing: it is closed and dropped.
    pub fn add_port(
        &mut self,
        name: &str,
        device: Box<dyn Device>,
    ) -> Result<PortId, ControlError> {
        self.add_port_at(name, device, 0)
    }

    /// Adds a port whose device takes its frames from the region of worker `home` ([`DataPlane::at_home`]), which deals out
    /// what comes. Where there is one worker it has them all.
    ///
    /// # Errors
    /// As [`DataPlane::add_port`].
    pub fn add_port_at(
        &mut self,
        name: &str,
        device: Box<dyn Device>,
        home: usize,
    ) -> Result<PortId, ControlError> {
        if let Some(mut desk) = self.desk.take() {
            let added = desk.add_port(self, name, device, home);
            self.desk = Some(desk);
            return added;
        }
        if self.present().any(|p| p.name == name) {
            return Err(ControlError::PortName(name.to_owned()));
        }
        let id = u16::try_from(self.ports.len()).map_err(|_| ControlError::NoPortNumber)?;
        let id = PortId(id);
        if id >= edge::RESERVED {
            return Err(ControlError::NoPortNumber);
        }
        self.changes.layout();
        let feed = device.caps().feed;
        let mut tx = TxPort::new(device, self.config.queue_frames);
        // The default VDP may send by every port.
        tx.set_share(Vid(0), PortShare::default(), self.now);
        self.ports.push(Some(Box::new(Port {
            id,
            name: name.to_owned(),
            tx,
            counters: PortCounters::default(),
            feed,
            parked: VecDeque::with_capacity(4 * weir_packet::BURST),
            back_by: None,
            stands_for: None,
        })));
        self.polled.push(id);
        let mut ports = self.vdp(Vid(0))?.ports.to_vec();
        ports.push((PortNo(id.0.into()), id));
        let no = PortNo(id.0.into());
        self.vdp_mut(Vid(0))?.set_ports(ports);
        let change = PortChange::Added;
        self.subscribers.port(PortEvent { vid: Vid(0), no, port: id, change });
        self.tell_ports(Vid(0))?;
        Ok(id)
    }

    /// Adds a port of which each worker has a queue: a device for each, in their order, which takes its frames from that
    /// worker's region.
    ///
    /// # Errors
    /// As [`DataPlane::add_port`]; devices that are not one for each.
    pub fn add_port_queues(
        &mut self,
        name: &str,
        mut devices: Vec<Box<dyn Device>>,
    ) -> Result<PortId, ControlError> {
        if let Some(mut desk) = self.desk.take() {
            let added = desk.add_queues(self, name, devices);
            self.desk = Some(desk);
            return added;
        }
        match (devices.pop(), devices.len()) {
            (Some(one), 0) => self.add_port(name, one),
            (_, more) => {
                let why = "a data plane alone has one";
                Err(ControlError::Size { what: "queues", value: more + 1, why })
            }
        }
    }

    /// Takes a port away from the default VDP, which has every port otherwise: one that is somebody's own.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn withhold(&mut self, id: PortId) -> Result<(), ControlError> {
        let ports = self.vdp(Vid(0))?.ports.iter().copied();
        let rest = ports.filter(|(_, p)| *p != id).collect();
        self.set_ports(Vid(0), rest)
    }

    /// Removes a port: what waits there is dropped and counted, its device gets closed.
    ///
    /// # Errors
    /// No such port.
    pub fn remove_port(&mut self, id: PortId) -> Result<PortCounters, ControlError> {
        if let Some(mut desk) = self.desk.take() {
            let here = self.remove_port(id);
            let all = here.map(|here| desk.remove_port(id).unwrap_or(here));
            self.desk = Some(desk);
            return all;
        }
        self.changes.layout();
        self.shorten_not(Ways::All);
        self.with_tx(id, |tx, _, a| tx.drop_all(DropReason::NoSuchPort, a))
            .ok_or(ControlError::NoPort(id))?;
        let slot = self.ports.get_mut(usize::from(id.0)).ok_or(ControlError::NoPort(id))?;
        let mut port = slot.take().ok_or(ControlError::NoPort(id))?;
        self.polled.retain(|p| *p != id);
        for f in port.parked.drain(..) {
            match self.vdps.get_mut(usize::from(f.vid.0)).and_then(Option::as_deref_mut) {
                Some(v) => v.counters.dropped.add(DropReason::NoSuchPort),
                None => self.retired.dropped.add(DropReason::NoSuchPort),
            }
            self.pool.free(f.frame);
        }
        port.tx.device.close(&mut self.pool);
        let mut told = Vec::new();
        for v in self.vdps.iter_mut().flatten() {
            if let Some(a) = v.away.as_mut().filter(|a| a.pairs.iter().any(|(_, far)| *far == id)) {
                a.gone.sent += port.counters.tx.frames;
                a.gone.came += port.counters.rx.frames;
            }
            if let Some(&(no, _)) = v.ports.iter().find(|(_, p)| *p == id) {
                let rest = v.ports.iter().copied().filter(|(_, p)| *p != id).collect();
                v.set_ports(rest);
                let (vid, change) = (v.vid, PortChange::Removed);
                self.subscribers.port(PortEvent { vid, no, port: id, change });
                told.push(vid);
            }
        }
        for vid in told {
            // One that is being deleted has no slow path any more that could be told.
            let _ = self.tell_ports(vid);
        }
        let (mut gone, mut devices) = self.removed_ports.take().unwrap_or_default();
        devices.merge(port.tx.device.counters());
        gone.rx.merge(port.counters.rx);
        gone.tx.merge(port.counters.tx);
        gone.tx_dropped.merge(&port.counters.tx_dropped);
        self.removed_ports = Some((gone, devices));
        Ok(port.counters)
    }

    /// Asks every device for its link and tells VDPs what changed. To be called a few times a
    /// second. Says which ports changed, and to what.
    pub fn check_links(&mut self) -> Vec<(PortId, LinkState)> {
        let mut changed = Vec::new();
        // What a device forwarded by itself before it went is counted.
        self.count_shortcuts();
        let (mut differs, mut resized) = (false, false);
        for i in 0..self.polled.len() {
            let Some(&id) = self.polled.get(i) else { break };
            let state = self.with_tx(id, |tx, pool, a| {
                let before = (tx.device.caps(), tx.device.exit());
                let link = tx.device.link(pool);
                resized |= tx.note_caps();
                differs |= before != (tx.device.caps(), tx.device.exit());
                let up = link == LinkState::Up;
                (up != tx.is_up()).then(|| {
                    tx.set_up(up, a);
                    link
                })
            });
            changed.extend(state.flatten().map(|l| (id, l)));
        }
        self.tell_far_ends();
        if differs || !changed.is_empty() {
            self.shorten_not(Ways::All);
        }
        self.reconsider_shortcuts();
        for &(port, link) in &changed {
            let up = link == LinkState::Up;
            self.subscribers.link(LinkEvent { port, up });
            let change = if up { PortChange::Up } else { PortChange::Down };
            for v in self.vdps.iter().flatten() {
                for (no, _) in v.ports.iter().filter(|(_, id)| *id == port) {
                    self.subscribers.port(PortEvent { vid: v.vid, no: *no, port, change });
                }
            }
        }
        // How long frames may be is told, too.
        if resized || !changed.is_empty() {
            let vids: Vec<Vid> = self.vdps.iter().flatten().map(|v| v.vid).collect();
            for vid in vids {
                // The VDP exists: it was just listed.
                let _ = self.tell_ports(vid);
            }
        }
        changed
    }

    /// Says to the other ends of ports that stand for others here what links these have.
    fn tell_far_ends(&mut self) {
        for i in 0..self.polled.len() {
            let Some(&id) = self.polled.get(i) else { break };
            let port = |id: PortId| self.ports.get(usize::from(id.0))?.as_deref();
            let Some(near) = port(id).and_then(|p| p.back_by.or(p.stands_for)) else { continue };
            // One that has gone takes frames no more than one that is down.
            let up = port(near).is_some_and(|p| p.tx.is_up());
            self.with_tx(id, |tx, _, _| tx.device.stand_for(up.into()));
        }
    }

    /// Has the other end of a port be told the link of another port here, by which what comes there goes on, and whose that is what
    /// comes here; or of none.
    ///
    /// # Errors
    /// No such port.
    pub fn stand_for(&mut self, id: PortId, of: Option<PortId>) -> Result<(), ControlError> {
        if self.desk.is_some() {
            return self.everywhere(move |p| p.stand_for(id, of));
        }
        let port = self.ports.get_mut(usize::from(id.0)).and_then(Option::as_mut);
        port.ok_or(ControlError::NoPort(id))?.stands_for = of;
        Ok(())
    }

    /// The worker's frames, for opening devices that are then added as ports.
    pub fn pool_mut(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// The port called `name`.
    pub fn port_named(&self, name: &str) -> Option<PortId> {
        self.present().find(|p| p.name == name).map(|p| p.id)
    }
}
