//! Frames of many kinds, matches and actions, for tests that judge one way through the data plane by another.
#![allow(dead_code)]

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use weir_classify::{Field, Match};
use weir_dataplane::flowtext::{NoNames, parse_flows};
use weir_dataplane::{
    Action, Captured, DataPlane, Fragments, Layer, PortFlags, PortNo, TapPoint, UserField,
    UserFields, Vid,
};
use weir_io::replay::{Arena, Collect, Collected, Passes, Replay};
use weir_packet::PortId;

pub const MATCHES: [&str; 12] = [
    "in_port=1",
    "in_port=2",
    "priority=1",
    "dl_dst=02:00:00:00:00:01",
    "dl_dst=02:00:00:00:00:02",
    "dl_vlan=1",
    "ip",
    "dl_type=0x8847",
    "udp,tp_dst=2",
    "ip,nw_ttl=1",
    "ipv6",
    "arp",
];

/// Actions, and frames that they are for; here they meet any.
pub const ACTIONS: [(&str, &str); 16] = [
    ("ip", "output:2"),
    ("ip", "output:3"),
    ("ip", "output:1"),
    ("ip", "drop"),
    ("ip", "dec_ttl,output:2"),
    ("ip", "mod_dl_src:02:00:00:00:00:0a,mod_dl_dst:02:00:00:00:00:0b,dec_ttl,output:3"),
    ("ip", "mod_dl_src:02:00:00:00:00:0a,output:2"),
    ("ip", "mod_dl_dst:02:00:00:00:00:0a,output:2"),
    ("dl_type=0x8847", "set_field:77->mpls_label,dec_mpls_ttl,output:2"),
    ("ip", "push_vlan:0x8100,set_field:4101->vlan_vid,output:2"),
    ("dl_vlan=1", "strip_vlan,output:3"),
    ("ip", "push_mpls:0x8847,output:2"),
    ("ip", "dec_ttl,output:2,output:3"),
    ("ip", "all"),
    ("ip", "in_port"),
    ("ip", "set_field:10.9.8.7->ip_dst,dec_ttl,output:2"),
];

/// What a frame is made of: destination, tags, what it carries, TTL, bytes cut off its end.
pub fn frame((dst, tags, kind, ttl, cut): (u8, u8, u8, u8, usize)) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, dst, 2, 0, 0, 0, 1, 1];
    if kind == 6 && dst == 3 {
        // Between bridges.
        f[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, 0]);
    }
    for _ in 0..tags {
        f.extend([0x81, 0, 0, tags]);
    }
    match kind {
        0 | 1 => {
            // Half of them of a class with drop precedences; some are fragments.
            f.extend([
                8,
                0,
                0x45,
                0x28 * kind,
                0,
                28,
                0,
                0,
                0x20 * u8::from(dst == 3),
                0,
                ttl,
                17,
                0,
                0,
                10,
                0,
                0,
                1,
                10,
                0,
                0,
                2,
            ]);
            f.extend([0, 1, 0, dst, 0, 8, 0, 0]);
        }
        // With options, or shorter than it says.
        2 => {
            f.extend([8, 0, 0x46, 0, 0, 24, 0, 0, 0, 0, ttl, 1, 0, 0, 9, 9, 9, 9, 8, 8, 8, 8, 1, 1])
        }
        3 => f.extend([8, 0, 0x45, 0, 0, 9, 0, 0, 0, 0, ttl, 1, 0, 0, 9, 9, 9, 9, 8, 8, 8, 8]),
        4 => f.extend([0x88, 0x47, 0, 1, 1, ttl, 0x45, 0]),
        5 => {
            f.extend([0x86, 0xdd, 0x62, 0x80, 0, 0, 0, 0, 59, ttl]);
            f.extend([3; 32]);
        }
        6 => f.extend([0, 38, 0xaa, 0xaa, 3, 0, 0, 0, 8, 6]),
        _ => f.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, ttl]),
    }
    let length = if cut == 0 { 60 } else { 60 - cut };
    f.resize(60.max(f.len()), 0);
    f.truncate(length);
    f
}

pub fn matcher(m: usize) -> Match {
    matching(MATCHES[m])
}

pub fn matching(text: &str) -> Match {
    parse_flows(&format!("{text},actions=drop"), &NoNames).unwrap()[0].matcher
}

pub fn actions(a: usize) -> Vec<Action> {
    let (of, list) = ACTIONS[a];
    parse_flows(&format!("{of},actions={list}"), &NoNames).unwrap()[0].actions.clone()
}

/// Port 1 of a VDP, by which these frames come once, ports 2 and 3, and what leaves by those.
pub fn ports(plane: &mut DataPlane, frames: &[Vec<u8>]) -> (Vec<(PortNo, PortId)>, Vec<Collected>) {
    let mut ports = vec![(PortNo(1), source(plane, "in", frames))];
    let mut out = Vec::new();
    for no in 2..=3 {
        let (device, kept) = Collect::new("out", usize::MAX);
        ports.push((PortNo(no), plane.add_port(&format!("out{no}"), Box::new(device)).unwrap()));
        out.push(kept);
    }
    (ports, out)
}

/// A port by which these frames come once.
pub fn source(plane: &mut DataPlane, name: &str, frames: &[Vec<u8>]) -> PortId {
    source_of(plane, name, frames, Passes::Times(1))
}

/// A port by which these frames come so often.
pub fn source_of(plane: &mut DataPlane, name: &str, frames: &[Vec<u8>], passes: Passes) -> PortId {
    let mut arena = Arena::new();
    frames.iter().for_each(|f| assert!(arena.push(f, None, 1)));
    let source = Replay::new(name, Arc::new(arena), passes);
    plane.add_port(name, Box::new(source)).unwrap()
}

/// A field of a VDP's own: the last byte of a frame's destination.
pub fn own() -> UserFields {
    UserFields::new(vec![UserField::new("own", Layer::Ethernet, 5, 0, 8, None).unwrap()]).unwrap()
}

/// A capture of no frame: for as long as there is its other end, frames are looked at one by one.
pub fn one_by_one(plane: &mut DataPlane) -> Receiver<Captured> {
    plane.add_tap(TapPoint::default(), Match::any().with(Field::InPort, 99), 1).1
}

/// What a VDP may ask of its ports, and of frames as they come; the first is nothing.
pub const GUARDS: [&str; 9] = [
    "none",
    "no flooding by 2",
    "nothing out by 2",
    "3 is down",
    "3 was taken away",
    "1 is down",
    "no bridges' frames in by 1",
    "no fragments",
    "1 tells no controller of misses",
];

/// Has a VDP with ports 1 to 3 at least ask for one of those.
pub fn guard(plane: &mut DataPlane, vid: Vid, how: usize) {
    let (no, flags) = match how {
        1 => (2, PortFlags::NO_FLOOD),
        2 => (2, PortFlags::NO_FWD),
        3 => (3, PortFlags::DOWN),
        4 => {
            let mut left = plane.vdp_view(vid).unwrap().ports;
            left.retain(|(no, _)| *no != PortNo(3));
            return plane.set_ports(vid, left).unwrap();
        }
        5 => (1, PortFlags::DOWN),
        6 => (1, PortFlags::NO_RECV_STP),
        7 => return plane.set_fragments(vid, Fragments::Drop).unwrap(),
        8 => (1, PortFlags::NO_PACKET_IN),
        _ => return,
    };
    plane.set_port_config(vid, PortNo(no), flags).unwrap();
}
