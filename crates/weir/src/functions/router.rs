//! `ipv4-router`, `ipv6-router`: the slow-path program `router` with static routes and neighbours known
//! beforehand. An entry is a route: of 24 bits (IPv4), of 48 (IPv6), to one of sixteen gateways.

use super::plain::{hop, ipv4, udp};
use super::{At, Function, Job, Oracle};
use anyhow::Result;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_dataplane::PortNo;
use weir_dataplane::programs::router::{
    Interface, NextHop, Permanent, Prefix, Route, Router as Program, RouterConfig,
};
use weir_wire::MacAddr;

/// The router, by what it routes.
pub enum Router {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

const IN: u32 = 1;
const OUT: u32 = 2;
const GATEWAYS: u32 = 16;

fn us(port: u32) -> [u8; 6] {
    [2, 0, 0, 0, 0, port as u8]
}
fn gateway_mac(n: u32) -> [u8; 6] {
    [2, 0, 0, 0, 1, n as u8]
}
/// A route's network.
fn network4(e: u32) -> u32 {
    20 << 24 | e << 8
}
fn network6(e: u32) -> u128 {
    0x2a00 << 112 | u128::from(e) << 80
}

impl Router {
    fn own(&self, port: u32) -> Prefix {
        match self {
            Router::V4 => Prefix::new(Ipv4Addr::new(192, 168, port as u8, 1).into(), 24),
            Router::V6 => {
                Prefix::new(Ipv6Addr::new(0xfd00, port as u16, 0, 0, 0, 0, 0, 1).into(), 64)
            }
        }
    }
    fn gateway(&self, n: u32) -> IpAddr {
        match self {
            Router::V4 => Ipv4Addr::new(192, 168, OUT as u8, 10 + n as u8).into(),
            Router::V6 => Ipv6Addr::new(0xfd00, OUT as u16, 0, 0, 0, 0, 0, 10 + n as u16).into(),
        }
    }
    fn network(&self, e: u32) -> Prefix {
        match self {
            Router::V4 => Prefix::new(Ipv4Addr::from_bits(network4(e)).into(), 24),
            Router::V6 => Prefix::new(Ipv6Addr::from_bits(network6(e)).into(), 48),
        }
    }
}

impl Function for Router {
    fn name(&self) -> &'static str {
        match self {
            Router::V4 => "ipv4-router",
            Router::V6 => "ipv6-router",
        }
    }
    fn about(&self) -> &'static str {
        match self {
            Router::V4 => "IPv4 router",
            Router::V6 => "IPv6 router",
        }
    }
    fn paper_entries(&self) -> u32 {
        8192
    }
    fn most_entries(&self) -> u32 {
        1 << 18
    }
    fn measured_entries(&self) -> &'static [u32] {
        &[1024, 8192, 65_536]
    }
    fn job(&self, entries: u32) -> Result<Job> {
        let interface = |port| Interface {
            port: PortNo(port),
            mac: MacAddr(us(port)),
            addresses: vec![self.own(port)],
            mtu: None,
        };
        let route =
            |e| Route { to: self.network(e), via: NextHop::Gateway(self.gateway(e % GATEWAYS)) };
        let known = |n| Permanent {
            port: PortNo(OUT),
            addr: self.gateway(n),
            mac: MacAddr(gateway_mac(n)),
        };
        let config = RouterConfig {
            interfaces: vec![interface(IN), interface(OUT)],
            routes: (0..entries).map(route).collect(),
            permanent: (0..GATEWAYS).map(known).collect(),
            ..RouterConfig::default()
        };
        Ok(Job::program(Program::new(&config)?, &[IN, OUT]))
    }
    fn frame(&self, _: u32, i: u32, entry: u32, len: usize) -> At {
        let mut bytes = [us(IN), [2, 0, 0, 0, 2, 9]].concat();
        // A host of the network, and one of ours, both any.
        let host = i.wrapping_mul(0x9e37_79b1) >> 24 | 1;
        match self {
            Router::V4 => {
                bytes.extend([8, 0]);
                let src = (0xc0a8_0002 | IN << 8) + i % 200;
                bytes.extend(ipv4(src, network4(entry) | host, 64, 17, &udp(1000, 53, len - 34)));
            }
            Router::V6 => {
                bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                bytes.extend(((len - 54) as u16).to_be_bytes());
                bytes.extend([59, 64]);
                let src = 0xfd00u128 << 112 | u128::from(IN) << 96 | u128::from(2 + i % 200);
                bytes.extend(src.to_be_bytes());
                bytes.extend((network6(entry) | u128::from(host) << 64 | 7).to_be_bytes());
                bytes.resize(len, 0);
            }
        }
        At { port: IN, bytes }
    }
    fn oracle(&self, entries: u32) -> Oracle {
        let v4 = matches!(self, Router::V4);
        Box::new(move |_, input| {
            let b = &input.bytes;
            let of = |range: std::ops::Range<usize>| {
                b[range].iter().fold(0u128, |w, x| w << 8 | u128::from(*x))
            };
            let route = (0..entries).find(|e| match v4 {
                true => of(30..33) << 8 == u128::from(network4(*e)),
                false => of(38..44) << 80 == network6(*e),
            });
            let packet = match v4 {
                true => hop(&b[14..]),
                false => {
                    let mut p = b[14..].to_vec();
                    p[7] -= 1;
                    (p[7] > 0).then_some(p)
                }
            };
            let (Some(e), Some(packet)) = (route, packet) else { return Vec::new() };
            let front = [&gateway_mac(e % GATEWAYS)[..], &us(OUT), &b[12..14]];
            vec![At { port: OUT, bytes: [&front.concat()[..], &packet].concat() }]
        })
    }
    fn ovs(&self, entries: u32) -> Option<String> {
        let kind = match self {
            Router::V4 => ("ip", "nw_dst"),
            Router::V6 => ("ipv6", "ipv6_dst"),
        };
        let text = |mac: [u8; 6]| mac.map(|b| format!("{b:02x}")).join(":");
        let line = |e: u32| {
            format!(
                "in_port={IN},dl_dst={},{},{}={},actions=dec_ttl,set_field:{}->eth_src,\
                 set_field:{}->eth_dst,output:{OUT}\n",
                text(us(IN)),
                kind.0,
                kind.1,
                self.network(e),
                text(us(OUT)),
                text(gateway_mac(e % GATEWAYS)),
            )
        };
        Some((0..entries).map(line).collect())
    }
    fn settings(&self, entries: u32) -> Vec<(String, f64)> {
        vec![("routes".into(), f64::from(entries))]
    }
}
