//! A frame for a set of headers: what `weir net verify` shows, and `weir trace` takes.
//!
//! Room: pure. What it makes is checked by extracting its key; a set that no such frame is in gets
//! none.

use super::header;
use weir_classify::{Field, FlowKey};
use weir_dataplane::extract;
use weir_supervisor::verify::{Bits, Match};
use weir_wire::checksum::internet;

/// The shortest frame, without FCS.
const SHORTEST: usize = 60;

/// What is put where a set leaves it open and it must be something.
const USUAL: &[(Field, u128)] = &[
    (Field::EthDst, 0x0200_0000_000b),
    (Field::EthSrc, 0x0200_0000_000a),
    // Local experiments (IEEE 802, 9.2.4).
    (Field::EthType, 0x88b5),
    (Field::IpTtl, 64),
    (Field::Ipv4Src, 0x0a00_000a),
    (Field::Ipv4Dst, 0x0a00_000b),
    (Field::TpSrc, 1024),
    (Field::TpDst, 1025),
];

/// A frame whose key is one of `set`, if one can be made.
pub fn frame(set: &Match, in_port: u32) -> Option<Vec<u8>> {
    // Usual values first; where they do not fit what is behind them, none.
    [true, false].into_iter().find_map(|usual| {
        let key = fill(set, usual);
        let mut bytes = bytes(&key)?;
        if bytes.len() < SHORTEST {
            bytes.resize(SHORTEST, 0);
        }
        let mut is = FlowKey::default();
        extract(&bytes, in_port, &mut is).ok()?;
        set.has(&is.0).then_some(bytes)
    })
}

/// One header of a set.
fn fill(set: &Match, usual: bool) -> FlowKey {
    let mut key = FlowKey::default();
    let ip = |k: &FlowKey| matches!(k.get(Field::EthType), 0x0800 | 0x86dd);
    for (f, v) in USUAL.iter().filter(|_| usual) {
        let wanted = FlowKey(set.value);
        let is_ip = set.mask_of(Field::EthType) && ip(&wanted);
        let fits = match f {
            Field::EthDst | Field::EthSrc | Field::EthType => true,
            Field::Ipv4Src | Field::Ipv4Dst => is_ip && wanted.get(Field::EthType) == 0x0800,
            Field::TpSrc | Field::TpDst => {
                is_ip && matches!(wanted.get(Field::IpProto), 6 | 17 | 132)
            }
            _ => is_ip,
        };
        if fits {
            key.set(*f, *v);
        }
    }
    let merged: Bits = std::array::from_fn(|w| {
        let get = |bits: &Bits| bits.get(w).copied().unwrap_or(0);
        get(&key.0) & !get(&set.mask) | get(&set.value)
    });
    FlowKey(merged)
}

/// Whether a set says all of a field.
trait MaskOf {
    fn mask_of(&self, f: Field) -> bool;
}

impl MaskOf for Match {
    fn mask_of(&self, f: Field) -> bool {
        header::exactly(f, 0).mask.iter().zip(self.mask).all(|(want, is)| want & !is == 0)
    }
}

fn bytes(key: &FlowKey) -> Option<Vec<u8>> {
    let get = |f| key.get(f);
    let mac = |f| get(f).to_be_bytes().into_iter().skip(10);
    let mut b: Vec<u8> = mac(Field::EthDst).chain(mac(Field::EthSrc)).collect();
    let (outer, inner) = (get(Field::VlanTci) as u16, get(Field::InnerTci) as u16);
    let mut tag = |tpid: u16, tci: u16| {
        b.extend(tpid.to_be_bytes());
        b.extend((tci & !weir_classify::VLAN_PRESENT).to_be_bytes());
    };
    match (outer, inner) {
        (0, _) => {}
        (o, 0) => tag(0x8100, o),
        (o, i) => {
            tag(0x88a8, o);
            tag(0x8100, i);
        }
    }
    let ethertype = get(Field::EthType) as u16;
    if ethertype == 0x05ff {
        // 802.3 with LLC that is not SNAP's.
        b.extend([0, 46, 0xfe, 0xfe, 3]);
        return Some(b);
    }
    b.extend(ethertype.to_be_bytes());
    match ethertype {
        0x0800 => b.extend(ipv4(key)),
        0x86dd => b.extend(ipv6(key)),
        0x0806 | 0x8035 => {
            b.extend([0, 1, 8, 0, 6, 4]);
            b.extend((get(Field::ArpOp) as u16).to_be_bytes());
            b.extend(mac(Field::ArpSha));
            b.extend((get(Field::ArpSpa) as u32).to_be_bytes());
            b.extend(mac(Field::ArpTha));
            b.extend((get(Field::ArpTpa) as u32).to_be_bytes());
        }
        0x8847 | 0x8848 => {
            let entry = get(Field::MplsLabel) << 12
                | get(Field::MplsTc) << 9
                | get(Field::MplsBos) << 8
                | get(Field::MplsTtl);
            b.extend((entry as u32).to_be_bytes());
        }
        0x88e7 => b.extend((get(Field::PbbIsid) as u32).to_be_bytes()),
        _ => {}
    }
    Some(b)
}

/// What follows an IP header.
fn transport(key: &FlowKey) -> Vec<u8> {
    let get = |f| key.get(f);
    let ports = (get(Field::TpSrc) as u16, get(Field::TpDst) as u16);
    if get(Field::IpFrag) & 2 != 0 {
        return vec![0; 8];
    }
    let mut b = Vec::new();
    match get(Field::IpProto) {
        proto @ (6 | 17 | 132) => {
            b.extend(ports.0.to_be_bytes());
            b.extend(ports.1.to_be_bytes());
            match proto {
                17 => b.extend([0, 8, 0, 0]),
                6 => {
                    b.extend([0; 8]);
                    b.extend((0x5000 | get(Field::TcpFlags) as u16).to_be_bytes());
                    b.extend([0; 6]);
                }
                _ => b.extend([0; 8]),
            }
        }
        proto @ (1 | 58) => {
            b.extend([ports.0 as u8, ports.1 as u8, 0, 0, 0, 0, 0, 0]);
            if proto == 58 && matches!(ports.0, 135 | 136) {
                b.extend(get(Field::NdTarget).to_be_bytes());
                let (kind, mac) = match ports.0 {
                    135 => (1, get(Field::NdSll)),
                    _ => (2, get(Field::NdTll)),
                };
                b.extend([kind, 1]);
                b.extend(mac.to_be_bytes().into_iter().skip(10));
            }
        }
        _ => {}
    }
    b
}

fn ipv4(key: &FlowKey) -> Vec<u8> {
    let get = |f| key.get(f);
    let inside = transport(key);
    let total = (20 + inside.len()) as u16;
    let fragment: u16 = match get(Field::IpFrag) {
        0 => 0,
        1 => 0x2000,
        _ => 0x2001,
    };
    let mut h = vec![0x45, get(Field::IpTos) as u8];
    h.extend(total.to_be_bytes());
    h.extend([0, 0]);
    h.extend(fragment.to_be_bytes());
    h.extend([get(Field::IpTtl) as u8, get(Field::IpProto) as u8, 0, 0]);
    h.extend((get(Field::Ipv4Src) as u32).to_be_bytes());
    h.extend((get(Field::Ipv4Dst) as u32).to_be_bytes());
    let sum = internet(&h).to_be_bytes();
    h.iter_mut().skip(10).zip(sum).for_each(|(to, b)| *to = b);
    h.extend(inside);
    h
}

fn ipv6(key: &FlowKey) -> Vec<u8> {
    let get = |f| key.get(f);
    let mut inside = transport(key);
    let mut next = get(Field::IpProto) as u8;
    if get(Field::IpFrag) != 0 {
        let offset: u16 = if get(Field::IpFrag) & 2 == 0 { 1 } else { 8 | 1 };
        let [hi, lo] = offset.to_be_bytes();
        inside.splice(..0, [next, 0, hi, lo, 0, 0, 0, 0]);
        next = 44;
    }
    let word = 6 << 28 | (get(Field::IpTos) as u32) << 20 | get(Field::Ipv6Label) as u32;
    let mut h = word.to_be_bytes().to_vec();
    h.extend((inside.len() as u16).to_be_bytes());
    h.extend([next, get(Field::IpTtl) as u8]);
    h.extend(get(Field::Ipv6Src).to_be_bytes());
    h.extend(get(Field::Ipv6Dst).to_be_bytes());
    h.extend(inside);
    h
}
