//! `nat44`: network address and port translation, weir's program `nat`, outwards and inwards by
//! turns. An entry is a mapping of an internal endpoint; mappings are made before, and ports given
//! out in ascending order, so that frames from outside can name them.

use super::{At, Function, Job, Oracle};
use anyhow::Result;
use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use weir_dataplane::PortNo;
use weir_dataplane::programs::nat::{Nat, NatConfig, NatSide, PortOrder};
use weir_wire::MacAddr;
use weir_wire::build::Frame;

/// The NAT.
pub struct Nat44;

const INSIDE: u32 = 1;
const OUTSIDE: u32 = 2;
const HOST: MacAddr = MacAddr([2, 0, 0, 0, 1, 1]);
const GATEWAY: MacAddr = MacAddr([2, 0, 0, 0, 1, 2]);
const FIRST_PORT: u16 = 1024;
/// Endpoints of a host.
const PER_HOST: u32 = 32;
/// The first host; its address is a multiple of any number of external ones.
const HOSTS: u32 = 0x0a00_0000 + (1 << 20);

fn ours(port: u32) -> MacAddr {
    MacAddr([2, 0, 0, 0, 2, port as u8])
}

/// External addresses: of a number that is a power of two, with a port for each mapping.
fn addresses(entries: u32) -> Vec<Ipv4Addr> {
    let hosts = entries.div_ceil(PER_HOST);
    let hosts_of_one = (65_536 - u32::from(FIRST_PORT)) / PER_HOST;
    let n = hosts.div_ceil(hosts_of_one).max(1).next_power_of_two();
    (0..n).map(|i| Ipv4Addr::from_bits(0xc633_6400 + i)).collect()
}

fn internal(entry: u32) -> SocketAddrV4 {
    let host = Ipv4Addr::from_bits(HOSTS + entry / PER_HOST);
    SocketAddrV4::new(host, 4000 + (entry % PER_HOST) as u16)
}

/// Neighbours have other addresses, each gives out its ports from the first on.
fn external(entries: u32, entry: u32) -> SocketAddrV4 {
    let (all, host) = (addresses(entries), entry / PER_HOST);
    let n = all.len() as u32;
    let port = u32::from(FIRST_PORT) + host / n * PER_HOST + entry % PER_HOST;
    SocketAddrV4::new(
        all.get((host % n) as usize).copied().unwrap_or(Ipv4Addr::BROADCAST),
        port as u16,
    )
}

fn peer() -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(203, 0, 113, 1), 53)
}

fn datagram(
    macs: (MacAddr, MacAddr),
    src: SocketAddrV4,
    dst: SocketAddrV4,
    ttl: u8,
    payload: &[u8],
) -> Vec<u8> {
    let f = Frame::udp_v4(src, dst, payload).macs(macs.0, macs.1).ttl(ttl);
    let mut bytes = vec![0; f.len()];
    // As long as it says.
    let _ = f.emit(&mut bytes);
    bytes
}

fn outwards(entry: u32, len: usize) -> At {
    let payload = vec![7; len.saturating_sub(42)];
    let bytes = datagram((HOST, ours(INSIDE)), internal(entry), peer(), 64, &payload);
    At { port: INSIDE, bytes }
}

impl Function for Nat44 {
    fn name(&self) -> &'static str {
        "nat44"
    }
    fn about(&self) -> &'static str {
        "NAT44: endpoint-independent mappings, both directions by turns"
    }
    fn paper_entries(&self) -> u32 {
        1_048_576
    }
    fn most_entries(&self) -> u32 {
        1 << 20
    }
    fn job(&self, entries: u32) -> Result<Job> {
        let side = |port| NatSide { port: PortNo(port), mac: ours(port) };
        let mut config = NatConfig::new(side(INSIDE), side(OUTSIDE), GATEWAY, addresses(entries));
        config.port_order = PortOrder::Ascending;
        config.max_mappings = entries as usize;
        Ok(Job::program(Nat::new(&config)?, &[INSIDE, OUTSIDE]))
    }
    fn warm(&self, entries: u32, i: u32) -> Option<At> {
        (i < entries).then(|| outwards(i, 60))
    }
    fn frame(&self, entries: u32, i: u32, entry: u32, len: usize) -> At {
        if i.is_multiple_of(2) {
            return outwards(entry, len);
        }
        let payload = vec![9; len.saturating_sub(42)];
        let macs = (GATEWAY, ours(OUTSIDE));
        let bytes = datagram(macs, peer(), external(entries, entry), 64, &payload);
        At { port: OUTSIDE, bytes }
    }
    /// Frames made anew from a map that is filled as frames come.
    fn oracle(&self, entries: u32) -> Oracle {
        let pool = addresses(entries);
        let mut next: HashMap<Ipv4Addr, u16> = HashMap::new();
        let mut there: HashMap<SocketAddrV4, SocketAddrV4> = HashMap::new();
        Box::new(move |_, input| {
            let b = &input.bytes;
            let socket = |ip: usize, port: usize| {
                let addr = Ipv4Addr::new(b[ip], b[ip + 1], b[ip + 2], b[ip + 3]);
                SocketAddrV4::new(addr, u16::from_be_bytes([b[port], b[port + 1]]))
            };
            if b.len() < 42 || b[12..15] != [8, 0, 0x45] || b[23] != 17 {
                return Vec::new();
            }
            let (src, dst, ttl, payload) = (socket(26, 34), socket(30, 36), b[22] - 1, &b[42..]);
            if input.port == INSIDE {
                let own = pool.get(src.ip().to_bits() as usize % pool.len()).copied();
                let Some(own) = own else { return Vec::new() };
                let src = *there.entry(src).or_insert_with(|| {
                    let port = next.entry(own).or_insert(FIRST_PORT);
                    *port += 1;
                    SocketAddrV4::new(own, *port - 1)
                });
                let bytes = datagram((ours(OUTSIDE), GATEWAY), src, dst, ttl, payload);
                return vec![At { port: OUTSIDE, bytes }];
            }
            let Some((inside, _)) = there.iter().find(|(_, e)| **e == dst) else {
                return Vec::new();
            };
            let bytes = datagram((ours(INSIDE), HOST), src, *inside, ttl, payload);
            vec![At { port: INSIDE, bytes }]
        })
    }
}
