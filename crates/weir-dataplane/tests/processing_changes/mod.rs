//! Every action that changes frames, with and without masks, and the way of a frame through a list of
//! them.
#![allow(dead_code, reason = "each test program uses its part")]

use weir_classify::{Field, FlowKey};
use weir_dataplane::processing::{Change, apply, compile};
use weir_dataplane::{Action, GreChecksum, Layers, Outer, Packet, Stale, TunnelAddrs, extract};
use weir_packet::{DropReason, Pool};

/// Fields that can be set, with the value used in tests and a mask of part of it. Types of ICMP
/// are taken from those of the same shape.
const FIELDS: &[(Field, u128, u128)] = &[
    (Field::EthDst, 0x0a0b_0c0d_0e0f, 0x00ff_ff00_00ff),
    (Field::EthSrc, 0x0233_4455_6677, 0x0000_00ff_f00f),
    (Field::VlanVid, 0x1fed, 0x10f0),
    (Field::VlanTci, 0xf234, 0x30ff),
    (Field::VlanPcp, 6, 5),
    (Field::InnerTci, 0x7abc, 0x5f00),
    (Field::Ipv4Src, 0xcb00_7109, 0x0000_00ff),
    (Field::Ipv4Dst, 0xffff_0000, 0x00ff_ff00),
    (Field::IpTos, 0x47, 0xf1),
    (Field::IpDscp, 0x2e, 0x15),
    (Field::IpEcn, 2, 1),
    (Field::IpTtl, 201, 0x81),
    (Field::TpSrc, 0xcafe, 0x00f0),
    (Field::TpDst, 0xfff0, 0xff00),
    (Field::IcmpType, 0, 0x07),
    (Field::IcmpCode, 0x0d, 0x09),
    (Field::ArpOp, 2, 3),
    (Field::ArpSha, 0x0200_0000_00aa, 0xffff),
    (Field::ArpSpa, 0x0a09_0807, 0x00ff_00ff),
    (Field::ArpTha, 0x0200_0000_00bb, 0xff_0000),
    (Field::ArpTpa, 0x0102_0304, 0xff00_0000),
    (Field::MplsLabel, 0xabcde, 0x0f0f0),
    (Field::MplsTc, 6, 4),
    (Field::MplsTtl, 99, 0x0f),
    (Field::Ipv6Label, 0xfedcb, 0x00ff0),
    (Field::Ipv6Src, 0x2001_0db8_ffff_0000_0000_0000_1234_5678, 0xffff),
    (Field::Ipv6Dst, 0xfd00_0000_0000_0001_0203_0405_0607_0809, 0xff << 64 | 0xf0f0),
    (Field::NdTarget, 0xfe80_0000_0000_0000_aaaa_bbbb_cccc_dddd, 0xffff << 40),
    (Field::NdSll, 0x0200_0000_0cc1, 0x0000_ffff_0000),
    (Field::NdTll, 0x0200_0000_0dd1, 0xff00_0000_00ff),
    (Field::PbbIsid, 0xabcdef, 0x0ff0ff),
    (Field::TunnelId, 0x1_0000_0002, 0xffff),
    (Field::Metadata, 77, 0xff00),
];

/// Whether VXLAN or GRE is over IPv4 or IPv6 here.
fn outers() -> [Outer; 2] {
    let (eth_src, eth_dst) = ([2, 0xaa, 0, 0, 0, 1], [2, 0xaa, 0, 0, 0, 2]);
    let v4 = TunnelAddrs::V4([203, 0, 113, 1].into(), [203, 0, 113, 2].into());
    let v6 = TunnelAddrs::V6("2001:db8:f::1".parse().unwrap(), "2001:db8:f::2".parse().unwrap());
    [
        Outer { eth_src, eth_dst, ip: v4, ttl: 63, tos: 0xb8 },
        Outer { eth_src, eth_dst, ip: v6, ttl: 5, tos: 0x2e },
    ]
}

/// Every action that changes frames; fields whole and under masks.
pub fn actions() -> Vec<Action> {
    let mut out = Vec::new();
    for &(field, value, part) in FIELDS {
        let full = match field {
            Field::IcmpType | Field::IcmpCode => 0xff,
            f => f.full(),
        };
        let present = matches!(field, Field::VlanVid | Field::VlanTci | Field::InnerTci);
        for mask in [full, part, full & !part] {
            // Without its present bit, a value may not touch it.
            let mask = if present && value & 0x1000 == 0 { mask & !0x1000 } else { mask };
            out.push(Action::SetField { field, value: value & mask, mask });
        }
    }
    out.extend([Action::DecTtl, Action::CopyTtlOut, Action::CopyTtlIn, Action::DecMplsTtl]);
    out.extend([Action::PushVlan(0x8100), Action::PushVlan(0x88a8), Action::PopVlan]);
    out.extend([Action::PushMpls(0x8847), Action::PushMpls(0x8848)]);
    out.extend([0x0800, 0x86dd, 0x8847, 0x88b5].map(Action::PopMpls));
    out.extend([Action::PushPbb(0x88e7), Action::PopPbb]);
    for outer in outers() {
        out.push(Action::EncapVxlan { outer, vni: 0xabcdef, port: 4789 });
        for bits in 0..8u32 {
            out.push(Action::EncapGre {
                outer,
                key: (bits & 1 != 0).then_some(0xdead_beef),
                sequence: (bits & 2 != 0).then_some(u32::MAX),
                checksum: if bits & 4 == 0 { GreChecksum::Absent } else { GreChecksum::Present },
            });
        }
    }
    out.extend([Action::DecapVxlan, Action::DecapGre]);
    out
}

/// What became of a frame.
#[derive(Debug)]
pub struct Changed {
    /// Dropped, and why, by which change.
    pub dropped: Option<(DropReason, usize)>,
    /// Its bytes now.
    pub bytes: Vec<u8>,
    /// Its bytes after each change that was carried out.
    pub steps: Vec<Vec<u8>>,
    /// Its key, made anew.
    pub key: FlowKey,
    /// Where its headers are, as the modules left it.
    pub layers: Layers,
}

/// Compiles what can be compiled; a refusal is none of these tests' business.
pub fn compiled(actions: &[Action]) -> Vec<Change> {
    actions.iter().filter_map(|a| compile(a).ok().flatten()).collect()
}

/// Takes `bytes` through `changes` with `headroom` in front. After every change the layers are what
/// a fresh look finds, and a key that is not stale is too. `None`: a runt.
pub fn run(bytes: &[u8], headroom: usize, changes: &[Change]) -> Option<Changed> {
    let mut pool = Pool::new(1, 4096).unwrap();
    let mut frame = pool.alloc().unwrap();
    frame.set_len(0).unwrap();
    let spare = frame.headroom();
    match headroom.checked_sub(spare) {
        Some(0) => {}
        Some(more) => {
            frame.set_len(more).unwrap();
            frame.pull_front(more).unwrap();
        }
        None => frame.push_front(spare - headroom).unwrap(),
    }
    frame.set_len(0).unwrap();
    assert_eq!(frame.headroom(), headroom);
    frame.copy_from(bytes).unwrap();
    let mut key = FlowKey::default();
    let Ok(layers) = extract(frame.bytes(), 7, &mut key) else {
        pool.free(frame);
        return None;
    };
    key.set(Field::Metadata, 0x55);
    let (mut dropped, mut steps) = (None, Vec::new());
    let mut p = Packet { frame: &mut frame, key: &mut key, layers, stale: Stale::No };
    for (i, c) in changes.iter().enumerate() {
        let before = p.frame.bytes().to_vec();
        if let Err(why) = apply(c, &mut p) {
            dropped = Some((why, i));
            assert_eq!(p.frame.bytes(), before, "{c:?} failed and changed the frame");
        }
        let mut fresh = FlowKey::default();
        let seen = extract(p.frame.bytes(), 7, &mut fresh);
        assert_eq!(seen, Ok(p.layers), "layers after {c:?} on {before:02x?}");
        if p.stale == Stale::No {
            let wire = |k: &FlowKey| {
                let mut k = *k;
                k.set(Field::Metadata, 0);
                k.set(Field::TunnelId, 0);
                k
            };
            assert_eq!(wire(p.key), wire(&fresh), "key after {c:?}");
        }
        if dropped.is_some() {
            break;
        }
        steps.push(p.frame.bytes().to_vec());
    }
    p.refresh().expect("no change makes a runt");
    let layers = p.layers;
    let bytes = frame.bytes().to_vec();
    pool.free(frame);
    Some(Changed { dropped, bytes, steps, key, layers })
}
