//! Carries out changes on frames for the tests of the processing stage, and checks what every
//! change promises beside its bytes: layers and key stay true.
#![allow(dead_code, reason = "each test uses its part")]

use weir_classify::{Field, FlowKey};
use weir_dataplane::processing::{Change, apply, compile};
use weir_dataplane::{Action, GreChecksum, Outer, Packet, Stale, TunnelAddrs, extract};
use weir_packet::{DropReason, Pool};

/// Ingress port of all frames.
const IN_PORT: u32 = 9;

/// A pool with one frame in use at a time.
pub struct Rig {
    pool: Pool,
}

/// What became of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub bytes: Vec<u8>,
    pub result: Result<(), DropReason>,
    pub key: FlowKey,
}

impl Rig {
    pub fn new() -> Self {
        Self { pool: Pool::new(2, 4096).unwrap() }
    }

    /// Carries out `changes` one after another, until one drops the frame. `None`: a runt.
    pub fn run(&mut self, bytes: &[u8], changes: &[Change]) -> Option<Outcome> {
        let mut frame = self.pool.alloc().unwrap();
        frame.copy_from(bytes).unwrap();
        let mut key = FlowKey::default();
        let Ok(layers) = extract(frame.bytes(), IN_PORT, &mut key) else {
            self.pool.free(frame);
            return None;
        };
        let mut p = Packet { frame: &mut frame, key: &mut key, layers, stale: Stale::No };
        let mut result = Ok(());
        for c in changes {
            let before = p.frame.bytes().to_vec();
            result = apply(c, &mut p);
            check_truth(&p, &before, c, result);
            if result.is_err() {
                break;
            }
        }
        let out = Outcome { bytes: p.frame.bytes().to_vec(), result, key };
        self.pool.free(frame);
        Some(out)
    }
}

/// Layers as a fresh look finds them; the key, too, unless it says that it is stale; nothing
/// changed where an error came.
fn check_truth(p: &Packet<'_>, before: &[u8], c: &Change, result: Result<(), DropReason>) {
    if result.is_err() {
        assert_eq!(p.frame.bytes(), before, "{c:?} failed and left another frame");
    }
    let mut fresh = FlowKey::default();
    let Ok(layers) = extract(p.frame.bytes(), IN_PORT, &mut fresh) else {
        panic!("{c:?} made a runt of {before:02x?}");
    };
    assert_eq!(p.layers, layers, "{c:?} on {before:02x?}");
    if p.stale == Stale::No {
        assert_eq!(p.frame.bytes().len(), p.frame.len());
        for f in [Field::Metadata, Field::TunnelId] {
            fresh.set(f, p.key.get(f));
        }
        assert_eq!(*p.key, fresh, "{c:?} on {before:02x?}");
    }
}

/// The outer headers of the judge's tunnels.
pub fn outer(version: &str) -> Outer {
    let ip = match version {
        "4" => TunnelAddrs::V4("192.0.2.1".parse().unwrap(), "198.51.100.2".parse().unwrap()),
        _ => TunnelAddrs::V6("2001:db8::1".parse().unwrap(), "2001:db8:1::2".parse().unwrap()),
    };
    let (eth_src, eth_dst) = ([2, 0, 0, 0, 0x0a, 0x0a], [2, 0, 0, 0, 0x0b, 0x0b]);
    Outer { eth_src, eth_dst, ip, ttl: 61, tos: 0x28 }
}

fn number(text: &str) -> u128 {
    match text.strip_prefix("0x") {
        Some(hex) => u128::from_str_radix(hex, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}

/// An action in the judge's words.
pub fn action(text: &str) -> Action {
    let w: Vec<&str> = text.split(' ').collect();
    let n = |i: usize| number(w[i]);
    let maybe = |i: usize| (w[i] != "-").then(|| n(i) as u32);
    match w[0] {
        "set" => Action::SetField { field: Field::by_name(w[1]).unwrap(), value: n(2), mask: n(3) },
        "dec_ttl" => Action::DecTtl,
        "dec_mpls_ttl" => Action::DecMplsTtl,
        "copy_ttl_in" => Action::CopyTtlIn,
        "copy_ttl_out" => Action::CopyTtlOut,
        "push_vlan" => Action::PushVlan(n(1) as u16),
        "pop_vlan" => Action::PopVlan,
        "push_mpls" => Action::PushMpls(n(1) as u16),
        "pop_mpls" => Action::PopMpls(n(1) as u16),
        "push_pbb" => Action::PushPbb(0x88e7),
        "pop_pbb" => Action::PopPbb,
        "encap_vxlan" => {
            Action::EncapVxlan { outer: outer(w[1]), vni: n(2) as u32, port: n(3) as u16 }
        }
        "decap_vxlan" => Action::DecapVxlan,
        "encap_gre" => Action::EncapGre {
            outer: outer(w[1]),
            key: maybe(2),
            sequence: maybe(3),
            checksum: if n(4) == 1 { GreChecksum::Present } else { GreChecksum::Absent },
        },
        "decap_gre" => Action::DecapGre,
        other => panic!("the judge says {other:?}"),
    }
}

/// Compiled changes, from the judge's words separated by ';'.
pub fn changes(text: &str) -> Vec<Change> {
    text.split(';').map(|t| compile(&action(t)).unwrap().unwrap()).collect()
}

/// Bytes from hex.
pub fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap()).collect()
}
