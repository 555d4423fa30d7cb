//! `bng-access`, `bng-access-plain`, `bng-core`, `bng-plain`: a broadband network gateway (002 §3.2), each
//! direction and both, with GRE's checksum and without. An entry is a subscriber on a circuit of its
//! own; there are 8192 routes.

use super::plain::{checksum, hop, ipv4, udp};
use super::{At, Function, Job, Oracle};
use anyhow::Result;
use std::collections::HashMap;
use weir_dataplane::PortNo;
use weir_dataplane::programs::bng::{
    AccessPort, Bng as Program, BngConfig, BngRoute, Circuits, CorePort, GreSum,
};
use weir_dataplane::programs::router::Prefix;
use weir_wire::MacAddr;

/// The gateway, as it is loaded.
pub enum Bng {
    /// From subscribers, GRE with a checksum.
    Access,
    /// From subscribers, GRE without one.
    AccessPlain,
    /// From the core.
    Core,
    /// Both, in turns.
    Plain,
}

const ACCESS: u32 = 1;
const CORE: u32 = 2;
const US_ACCESS: [u8; 6] = [2, 0, 0, 0, 0, 1];
const US_CORE: [u8; 6] = [2, 0, 0, 0, 0, 2];
const TUNNEL: u32 = 0xc000_0201;
const ROUTES: u32 = 8192;

/// A subscriber's tags, GRE key, address and MAC address.
fn tags(e: u32) -> (u16, u16) {
    ((e >> 12) as u16, (e & 0xfff) as u16)
}
fn key(e: u32) -> u32 {
    e + 1000
}
fn addr(e: u32) -> u32 {
    10 << 24 | e
}
fn mac(e: u32) -> [u8; 6] {
    let [_, b, c, d] = e.to_be_bytes();
    [2, 1, 0, b, c, d]
}

/// A route's network of 64 addresses, label, tunnel end and next hop.
fn network(r: u32) -> u32 {
    20 << 24 | r << 6
}
fn label(r: u32) -> u32 {
    16 + r
}
fn remote(r: u32) -> u32 {
    0xc633_6401 + r % 200
}
fn next_hop(r: u32) -> [u8; 6] {
    [2, 2, 0, 0, 0, (r % 16) as u8]
}

/// The route that a subscriber's frames take, who speaks to one network: any, in no order. A flow has one entry of each
/// table, as the estimate is told.
fn route_of(e: u32) -> u32 {
    e.wrapping_mul(0x9e37_79b1) >> 19
}

fn access_frame(e: u32, len: usize) -> At {
    let (outer, inner) = tags(e);
    let mut bytes = US_ACCESS.to_vec();
    bytes.extend(mac(e));
    bytes.extend([0x88, 0xa8]);
    bytes.extend(outer.to_be_bytes());
    bytes.extend([0x81, 0]);
    bytes.extend(inner.to_be_bytes());
    bytes.extend([8, 0]);
    let datagram = udp(1000, 53, len - bytes.len() - 20);
    bytes.extend(ipv4(addr(e), network(route_of(e)) + 7, 64, 17, &datagram));
    At { port: ACCESS, bytes }
}

fn core_frame(e: u32, len: usize) -> At {
    let mut bytes = US_CORE.to_vec();
    bytes.extend(next_hop(0));
    bytes.extend([0x88, 0x47]);
    bytes.extend((99 << 12 | 1 << 8 | 60u32).to_be_bytes());
    let mut gre = vec![0x20, 0, 8, 0];
    gre.extend(key(e).to_be_bytes());
    let datagram = udp(53, 1000, len - bytes.len() - 20 - gre.len() - 20);
    gre.extend(ipv4(network(5) + 7, addr(e), 60, 17, &datagram));
    bytes.extend(ipv4(remote(0), TUNNEL, 60, 47, &gre));
    At { port: CORE, bytes }
}

impl Bng {
    fn sum(&self) -> GreSum {
        match self {
            Bng::Access => GreSum::Present,
            _ => GreSum::Absent,
        }
    }
}

impl Function for Bng {
    fn name(&self) -> &'static str {
        match self {
            Bng::Access => "bng-access",
            Bng::AccessPlain => "bng-access-plain",
            Bng::Core => "bng-core",
            Bng::Plain => "bng-plain",
        }
    }
    fn about(&self) -> &'static str {
        match self {
            Bng::Access => "Broadband network gateway, subscribers to core, GRE with checksum",
            Bng::AccessPlain => "Broadband network gateway, subscribers to core",
            Bng::Core => "Broadband network gateway, core to subscribers",
            Bng::Plain => "Broadband network gateway, both directions loaded alike",
        }
    }
    fn paper_entries(&self) -> u32 {
        65_536
    }
    fn most_entries(&self) -> u32 {
        // What two tags can name; subscribers' addresses are as many.
        match self {
            Bng::Access | Bng::AccessPlain => 1 << 24,
            Bng::Core | Bng::Plain => 1 << 22,
        }
    }
    fn measured_entries(&self) -> &'static [u32] {
        &[1024, 16_384, 65_536]
    }
    fn least_frame(&self) -> usize {
        match self {
            Bng::Access | Bng::AccessPlain => 60,
            // Ethernet, MPLS, IPv4, GRE, IPv4, UDP: 78 bytes on the wire, as 002 §4.2 has it.
            Bng::Core | Bng::Plain => 74,
        }
    }
    fn job(&self, entries: u32) -> Result<Job> {
        let of_outer = |outer: u32| {
            let last = (entries - (outer << 12)).min(4096) - 1;
            Circuits { outer: outer as u16, first: 0, last: last as u16, key: key(outer << 12) }
        };
        let route = |r| BngRoute {
            to: Prefix::new(std::net::Ipv4Addr::from_bits(network(r)).into(), 26),
            port: PortNo(CORE),
            next_hop: MacAddr(next_hop(r)),
            label: label(r),
            remote: remote(r).into(),
        };
        let config = BngConfig {
            access: vec![AccessPort { port: PortNo(ACCESS), mac: MacAddr(US_ACCESS) }],
            core: vec![CorePort { port: PortNo(CORE), mac: MacAddr(US_CORE) }],
            tunnel: TUNNEL.into(),
            circuits: (0..entries.div_ceil(4096)).map(of_outer).collect(),
            routes: (0..ROUTES).map(route).collect(),
            subscribers: entries.clamp(1, 1 << 22) as usize,
            checksum: self.sum(),
            ..BngConfig::default()
        };
        Ok(Job::program(Program::new(&config)?, &[ACCESS, CORE]))
    }
    fn warm(&self, entries: u32, i: u32) -> Option<At> {
        let back = matches!(self, Bng::Core | Bng::Plain);
        (back && i < entries).then(|| access_frame(i, 60))
    }
    fn frame(&self, _: u32, i: u32, entry: u32, len: usize) -> At {
        match self {
            Bng::Access | Bng::AccessPlain => access_frame(entry, len),
            Bng::Plain if i.is_multiple_of(2) => access_frame(entry, len),
            Bng::Core | Bng::Plain => core_frame(entry, len),
        }
    }
    fn oracle(&self, entries: u32) -> Oracle {
        let with_sum = matches!(self, Bng::Access);
        // (Key, address) to the front of frames to it.
        let mut learned: HashMap<(u32, u32), Vec<u8>> = HashMap::new();
        let word = |b: &[u8]| b.iter().fold(0u32, |w, x| w << 8 | u32::from(*x));
        Box::new(move |_, input| {
            let b = &input.bytes;
            if input.port == CORE {
                let (key, ip) = (word(&b[42..46]), &b[46..]);
                let out = learned.get(&(key, word(&ip[16..20]))).and_then(|front| {
                    let mut bytes = front.clone();
                    bytes.extend(hop(ip)?);
                    Some(At { port: ACCESS, bytes })
                });
                return out.into_iter().collect();
            }
            let ip = &b[22..];
            let (e, dst) = (word(&b[14..16]) << 12 | word(&b[18..20]), word(&ip[16..20]));
            let route = (0..ROUTES).find(|r| dst & !63 == network(*r));
            let (Some(r), Some(inner)) = (route.filter(|_| e < entries), hop(ip)) else {
                return Vec::new();
            };
            let front = [&b[6..12], &US_ACCESS, &b[12..22]].concat();
            learned.insert((key(e), word(&ip[12..16])), front);
            let mut gre =
                if with_sum { vec![0xa0, 0, 8, 0, 0, 0, 0, 0] } else { vec![0x20, 0, 8, 0] };
            gre.extend(key(e).to_be_bytes());
            gre.extend(inner);
            if with_sum {
                let sum = checksum(&gre);
                gre[4..6].copy_from_slice(&sum);
            }
            let mut outer = ipv4(TUNNEL, remote(r), 64, 47, &gre);
            outer[6] = 0x40;
            outer[10..12].fill(0);
            let sum = checksum(&outer[..20]);
            outer[10..12].copy_from_slice(&sum);
            let mut bytes = [&next_hop(r)[..], &US_CORE, &[0x88, 0x47]].concat();
            bytes.extend((label(r) << 12 | 1 << 8 | 64).to_be_bytes());
            bytes.extend(outer);
            vec![At { port: CORE, bytes }]
        })
    }
    fn settings(&self, entries: u32) -> Vec<(String, f64)> {
        let n = f64::from(entries);
        match self {
            Bng::Core => vec![("subscribers".into(), n)],
            _ => vec![
                ("circuits".into(), n),
                ("subscribers".into(), n),
                ("routes".into(), f64::from(ROUTES)),
            ],
        }
    }
}
