//! Who is told when a link or a VDP's set of ports changes.
//!
//! Room: subscribers are channels; one whose receiver is gone is forgotten at the next event. Told
//! by `ports` and `vdps`, between bursts.

use crate::action::{PortNo, Vid};
use crate::plane::DataPlane;
use std::sync::mpsc::Sender;
use weir_packet::PortId;

/// The link of a port has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkEvent {
    /// Which port.
    pub port: PortId,
    /// Whether frames can leave by it now.
    pub up: bool,
}

/// What happened to a VDP's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortChange {
    /// The VDP got it.
    Added,
    /// The VDP lost it.
    Removed,
    /// Its link came up.
    Up,
    /// Its link went down.
    Down,
}

/// A port of a VDP has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortEvent {
    /// Whose port.
    pub vid: Vid,
    /// Its number there.
    pub no: PortNo,
    /// The port of the data plane behind it.
    pub port: PortId,
    /// What happened.
    pub change: PortChange,
}

/// All subscribers.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    links: Vec<Sender<LinkEvent>>,
    ports: Vec<(Vid, Sender<PortEvent>)>,
}

impl Subscribers {
    /// Tells of a link.
    pub fn link(&mut self, e: LinkEvent) {
        self.links.retain(|s| s.send(e).is_ok());
    }
    /// Tells of a VDP's port.
    pub fn port(&mut self, e: PortEvent) {
        self.ports.retain(|(vid, s)| *vid != e.vid || s.send(e).is_ok());
    }
    /// Tells what made `new` out of `old`; a port with another number is another port.
    pub fn ports(&mut self, vid: Vid, old: &[(PortNo, PortId)], new: &[(PortNo, PortId)]) {
        for &(no, port) in old.iter().filter(|p| !new.contains(p)) {
            self.port(PortEvent { vid, no, port, change: PortChange::Removed });
        }
        for &(no, port) in new.iter().filter(|p| !old.contains(p)) {
            self.port(PortEvent { vid, no, port, change: PortChange::Added });
        }
    }
    /// Forgets those of a VDP.
    pub fn forget(&mut self, vid: Vid) {
        self.ports.retain(|(v, _)| *v != vid);
    }
}

impl DataPlane {
    /// Tells `to` of every link that changes from now on.
    pub fn subscribe_links(&mut self, to: Sender<LinkEvent>) {
        self.subscribers.links.push(to);
    }
    /// Tells `to` of everything that happens to a VDP's ports from now on, until it is deleted.
    pub fn subscribe_ports(&mut self, vid: Vid, to: Sender<PortEvent>) {
        self.subscribers.ports.push((vid, to));
    }
}
