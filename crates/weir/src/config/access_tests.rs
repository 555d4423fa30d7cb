//! `labs/access-ports.toml`, by frames: who is in which VLAN, and what leaves with a tag.

use super::apply::{self, Devices, Model};
use super::diff::diff;
use super::read;
use std::collections::BTreeMap;
use std::path::Path;
use weir_dataplane::DataPlane;
use weir_io::memory::{Memory, MemoryPeer, WireSize};
use weir_packet::Nanos;

const OUTSIDE: [&str; 4] = ["lan1", "lan2", "lan3", "trunk"];

struct Lab {
    plane: DataPlane,
    peers: BTreeMap<&'static str, MemoryPeer>,
    now: Nanos,
}

impl Lab {
    fn new() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/access-ports.toml");
        let plan = read::load(&path).unwrap();
        let mut plane = DataPlane::new(plan.fixed.config.clone()).unwrap();
        let mut model = Model::new(&plan, Devices::Real);
        let mut peers = BTreeMap::new();
        for name in OUTSIDE {
            let (device, peer) = Memory::with_peer(name, WireSize::default());
            model.supplied.insert(name.to_owned(), device);
            peers.insert(name, peer);
        }
        let steps = diff(&model.plan, &plan).unwrap();
        apply::run_here(&mut plane, &mut model, steps).unwrap();
        Self { plane, peers, now: Nanos(0) }
    }
    /// What comes out where, of a frame that comes in by one of the ports.
    fn pass(&mut self, by: &str, frame: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
        self.peers.get_mut(by).unwrap().send(frame).unwrap();
        for _ in 0..64 {
            self.now = Nanos(self.now.0 + 1_000_000);
            self.plane.poll(self.now);
        }
        let mut out = Vec::new();
        for (name, peer) in &mut self.peers {
            let mut got = Vec::new();
            while peer.recv(&mut got) {
                out.push((*name, got.clone()));
            }
        }
        out
    }
}

/// A frame from one station to another, with a tag if any.
fn frame(to: u8, from: u8, tag: Option<u16>) -> Vec<u8> {
    let station = |n: u8| if n == 0xff { [0xff; 6] } else { [2, 0, 0, 0, 0, n] };
    let mut f = [station(to), station(from)].concat();
    if let Some(tci) = tag {
        f.extend([0x81, 0x00]);
        f.extend(tci.to_be_bytes());
    }
    f.extend([0x88, 0xb5]);
    f.extend([0; 60]);
    f
}

#[test]
fn access_ports_are_of_their_vlan_and_the_trunk_has_tags() {
    let mut lab = Lab::new();
    let (all, plain) = (0xff, None);
    // By everybody in the VLAN, and by the trunk with its tag.
    assert_eq!(
        lab.pass("lan1", &frame(all, 1, plain)),
        [("lan2", frame(all, 1, plain)), ("trunk", frame(all, 1, Some(10)))]
    );
    assert_eq!(lab.pass("trunk", &frame(1, 4, Some(10))), [("lan1", frame(1, 4, plain))]);
    assert_eq!(lab.pass("lan2", &frame(4, 2, plain)), [("trunk", frame(4, 2, Some(10)))]);
    // The other VLAN, with a station of the same address.
    assert_eq!(lab.pass("trunk", &frame(all, 1, Some(20))), [("lan3", frame(all, 1, plain))]);
    assert_eq!(lab.pass("lan3", &frame(1, 3, plain)), [("trunk", frame(1, 3, Some(20)))]);
    assert_eq!(lab.pass("trunk", &frame(1, 4, Some(10))), [("lan1", frame(1, 4, plain))]);
    // A priority alone is kept on the trunk; other tags do not come in by an access port, nor other VLANs by the trunk.
    assert_eq!(
        lab.pass("lan1", &frame(4, 1, Some(5 << 13))),
        [("trunk", frame(4, 1, Some(5 << 13 | 10)))]
    );
    for (by, tag) in [("lan1", Some(20)), ("lan1", Some(10)), ("trunk", Some(30)), ("trunk", plain)]
    {
        assert_eq!(lab.pass(by, &frame(all, 9, tag)), []);
    }
}
