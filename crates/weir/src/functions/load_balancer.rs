//! `load-balancer`: an L4 load balancer, weir's program `balancer`: Maglev's consistent hashing
//! (Eisenbud et al., NSDI 2016) behind a table of connections. An entry is a connection; they are
//! begun before.

use super::{At, Function, Job, Oracle};
use anyhow::Result;
use std::net::{Ipv4Addr, SocketAddrV4};
use weir_dataplane::PortNo;
use weir_dataplane::programs::balancer::{Backend, Balancer, BalancerConfig, Service};
use weir_dataplane::programs::{Endpoint, Kind};
use weir_wire::MacAddr;
use weir_wire::build::Frame;
use weir_wire::tcp::Flags;

/// The load balancer.
pub struct LoadBalancer;

const OURS: MacAddr = MacAddr([2, 0, 0, 0, 3, 1]);
const SERVICE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(198, 51, 100, 1), 443);
const BACKENDS: u8 = 8;

fn mac(backend: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 4, backend])
}
fn name(backend: u8) -> String {
    format!("backend-{backend}")
}

fn segment(entry: u32, flags: Flags, len: usize) -> At {
    let client = Ipv4Addr::from_bits(0x0b00_0001 + entry / 16);
    let src = SocketAddrV4::new(client, 3000 + (entry % 16) as u16);
    let payload = vec![0; len.saturating_sub(54)];
    let f = Frame::tcp_v4(src, SERVICE, flags, &payload).macs(mac(200), OURS);
    let mut bytes = vec![0; f.len()];
    // As long as it says.
    let _ = f.emit(&mut bytes);
    bytes.resize(len, 0);
    At { port: 1, bytes }
}

/// Maglev's table by the paper's own pseudocode: whole permutations, then turns.
fn owners() -> Vec<u8> {
    const M: u64 = 65_537;
    let hash = |name: &str, basis: u64| {
        let start = 14_695_981_039_346_656_037 ^ basis;
        let fnv = |h: u64, b: u8| (h ^ u64::from(b)).wrapping_mul(1_099_511_628_211);
        let h = name.bytes().fold(start, fnv);
        let h = (h ^ (h >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        let h = (h ^ (h >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        h ^ (h >> 33)
    };
    let permutation = |b: u8| {
        let (offset, skip) =
            (hash(&name(b), 0) % M, hash(&name(b), 0x9e37_79b9_7f4a_7c15) % (M - 1) + 1);
        (0..M).map(move |j| ((offset + j * skip) % M) as usize)
    };
    let mut all: Vec<_> = (0..BACKENDS).map(permutation).collect();
    let mut entry = vec![None; M as usize];
    let mut left = M;
    for b in (0..BACKENDS).cycle() {
        if left == 0 {
            break;
        }
        let Some(p) = all.get_mut(usize::from(b)) else { break };
        if let Some(c) = p.find(|c| entry[*c].is_none()) {
            entry[c] = Some(b);
            left -= 1;
        }
    }
    entry.into_iter().flatten().collect()
}

impl Function for LoadBalancer {
    fn name(&self) -> &'static str {
        "load-balancer"
    }
    fn about(&self) -> &'static str {
        "L4 load balancer: connections remembered, new ones by Maglev's consistent hashing"
    }
    fn paper_entries(&self) -> u32 {
        1_048_576
    }
    fn most_entries(&self) -> u32 {
        1 << 22
    }
    fn job(&self, entries: u32) -> Result<Job> {
        let backend = |b| Backend { name: name(b), port: PortNo(2), mac: mac(b) };
        let service = Service {
            at: Endpoint::new(*SERVICE.ip(), SERVICE.port()),
            protocol: Kind::Tcp,
            backends: (0..BACKENDS).map(backend).collect(),
        };
        let mut config = BalancerConfig::new(OURS, vec![service]);
        config.max_connections = entries as usize;
        Ok(Job::program(Balancer::new(&config)?, &[1, 2]))
    }
    fn warm(&self, entries: u32, i: u32) -> Option<At> {
        (i < entries).then(|| segment(i, Flags::SYN, 60))
    }
    fn frame(&self, _: u32, _: u32, entry: u32, len: usize) -> At {
        segment(entry, Flags::ACK, len)
    }
    /// The place that a connection has in the table by its five fields, and who owns it.
    fn oracle(&self, _: u32) -> Oracle {
        let owners = owners();
        Box::new(move |_, input| {
            let b = &input.bytes;
            let tcp = b.len() >= 54 && b[12..15] == [8, 0, 0x45] && b[23] == 6;
            let to_service = tcp && b[30..34] == SERVICE.ip().octets() && b[36..38] == [1, 187];
            if !to_service || b[..6] != OURS.octets() {
                return Vec::new();
            }
            // Client, service, protocol (TCP is 0), as one number of 104 bits.
            let fields = [&b[26..30], &b[34..36], &b[30..34], &b[36..38], &[0]].concat();
            let key = fields.iter().fold(0u128, |k, x| k << 8 | u128::from(*x));
            let fold = |word: u64, seed: u64| {
                let wide = u128::from(word ^ seed) * 0x9e37_79b9_7f4a_7c15;
                wide as u64 ^ (wide >> 64) as u64
            };
            let hash = fold(fold(key as u64, 0) ^ (key >> 64) as u64, u64::MAX);
            let Some(owner) = owners.get((hash % owners.len() as u64) as usize) else {
                return Vec::new();
            };
            let mut bytes = b.clone();
            bytes[..6].copy_from_slice(&mac(*owner).octets());
            bytes[6..12].copy_from_slice(&OURS.octets());
            vec![At { port: 2, bytes }]
        })
    }
}
