//! A data plane of memory ports whose far ends the test holds, in virtual time.

use super::plane_common::*;
use weir_dataplane::*;
use weir_io::memory::{Memory, MemoryPeer, WireSize};
use weir_packet::{Nanos, PortId};

pub struct Rig {
    pub p: DataPlane,
    pub clock: u64,
    pub ids: Vec<PortId>,
    pub peers: Vec<Option<MemoryPeer>>,
}

impl Rig {
    /// So many ports, no VDP but the default one.
    pub fn new(ports: usize) -> Self {
        Self::with(ports, Config::default())
    }
    pub fn with(ports: usize, config: Config) -> Self {
        let mut p = DataPlane::new(config).unwrap();
        let (mut ids, mut peers) = (Vec::new(), Vec::new());
        for i in 0..ports {
            let (port, peer) = Memory::with_peer(&format!("p{i}"), WireSize::default());
            ids.push(p.add_port(&format!("p{i}"), Box::new(port)).unwrap());
            peers.push(Some(peer));
        }
        Self { p, clock: 0, ids, peers }
    }
    /// A VDP that takes this VLAN, with all ports, numbered from 11.
    pub fn vdp(&mut self, vlan: u16) -> Vid {
        let mut s = VdpSpec::new(Vid(vlan), &format!("v{vlan}"));
        s.ports = self.ids.iter().enumerate().map(|(i, id)| (no(i), *id)).collect();
        s.mapping = vec![by_vlan(vlan)];
        s.program = programs::by_name("learning").ok();
        self.p.create_vdp(s).unwrap();
        Vid(vlan)
    }
    /// A rule for all frames of a VDP.
    pub fn all(&mut self, vid: Vid, actions: &[Action]) {
        let r = rule(weir_classify::Match::any(), 1, actions);
        self.p.add_rule(vid, 0, &r, Placement::Fast).unwrap();
    }
    /// Puts a frame on a port's wire.
    pub fn send(&mut self, port: usize, frame: &[u8]) {
        self.peers[port].as_mut().unwrap().send(frame).unwrap();
    }
    /// Lets everything come to rest; conservation is checked after each round.
    pub fn settle(&mut self) {
        settle(&mut self.p, &mut self.clock);
    }
    pub fn poll(&mut self) {
        self.clock += 20_000;
        self.p.poll(Nanos(self.clock));
        self.p.snapshot().check().unwrap();
    }
    /// What a port has sent since the last call.
    pub fn got(&mut self, port: usize) -> Vec<Vec<u8>> {
        let (mut all, mut f) = (Vec::new(), Vec::new());
        while self.peers[port].as_mut().unwrap().recv(&mut f) {
            all.push(f.clone());
        }
        all
    }
    /// How many frames each port has sent since the last call.
    pub fn counts(&mut self) -> Vec<usize> {
        (0..self.peers.len()).map(|i| self.got(i).len()).collect()
    }
    /// Sends one frame of a VLAN into a port and says how many came out of each.
    pub fn through(&mut self, port: usize, vlan: u16) -> Vec<usize> {
        self.send(port, &frame(vlan, 1, 0, 0));
        self.settle();
        self.counts()
    }
    pub fn view(&self, vid: Vid) -> VdpView {
        self.p.snapshot().vdps.into_iter().find(|v| v.vid == vid).unwrap()
    }
    pub fn at(&self, vid: Vid, port: usize) -> VdpPortCounters {
        let of = self.p.vdp_port_counters(vid).unwrap();
        of.into_iter().find(|(n, _)| *n == no(port)).unwrap().1
    }
}

/// A VDP's number for the rig's n-th port.
pub fn no(port: usize) -> PortNo {
    PortNo(11 + port as u32)
}

/// Output by the rig's n-th port.
pub fn by(port: usize) -> Action {
    Action::Output(Out::Port(no(port)))
}
