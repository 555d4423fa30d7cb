//! Arguments of `encap_vxlan` and `encap_gre`.
//!
//! Room: text to an encapsulation. Every argument by name, in any order, once.

use super::error::FlowErrorKind;
use super::value::{ipv4, ipv6, mac, number};
use crate::action::{Action, GreChecksum, Outer, TunnelAddrs};
use std::net::IpAddr;

type Read<T> = Result<T, FlowErrorKind>;

/// VXLAN's UDP port (RFC 7348, §5).
pub(super) const VXLAN_PORT: u16 = 4789;
/// TTL of the outer header unless one is given.
pub(super) const OUTER_TTL: u8 = 64;

#[derive(Default)]
struct Args {
    src: Option<IpAddr>,
    dst: Option<IpAddr>,
    eth_src: Option<u64>,
    eth_dst: Option<u64>,
    ttl: Option<u64>,
    tos: Option<u64>,
    vni: Option<u64>,
    port: Option<u64>,
    key: Option<u64>,
    seq: Option<u64>,
    csum: Option<GreChecksum>,
}

fn once<T>(slot: &mut Option<T>, v: T) -> Read<()> {
    slot.replace(v).map_or(Ok(()), |_| Err(FlowErrorKind::Twice))
}

fn ip(s: &str) -> Read<IpAddr> {
    if s.contains(':') { ipv6(s).map(IpAddr::V6) } else { ipv4(s).map(IpAddr::V4) }
}

fn args(text: &str, usage: &'static str) -> Read<Args> {
    let mut a = Args::default();
    for part in text.split([',', ' ', '\t']).filter(|p| !p.is_empty()) {
        let usage = FlowErrorKind::BadValue { expected: usage };
        let Some((name, v)) = part.split_once('=') else { return Err(usage) };
        match name {
            "src" => once(&mut a.src, ip(v)?)?,
            "dst" => once(&mut a.dst, ip(v)?)?,
            "eth_src" => once(&mut a.eth_src, mac(v)?)?,
            "eth_dst" => once(&mut a.eth_dst, mac(v)?)?,
            "ttl" => once(&mut a.ttl, number(v, 0xff)?)?,
            "tos" => once(&mut a.tos, number(v, 0xff)?)?,
            "vni" => once(&mut a.vni, number(v, 0xff_ffff)?)?,
            "port" => once(&mut a.port, number(v, 0xffff)?)?,
            "key" => once(&mut a.key, number(v, 0xffff_ffff)?)?,
            "seq" => once(&mut a.seq, number(v, 0xffff_ffff)?)?,
            "csum" if v == "yes" => once(&mut a.csum, GreChecksum::Present)?,
            "csum" if v == "no" => once(&mut a.csum, GreChecksum::Absent)?,
            _ => return Err(usage),
        }
    }
    Ok(a)
}

impl Args {
    fn outer(&self, usage: &'static str) -> Read<Outer> {
        let usage = FlowErrorKind::MissingValue { expected: usage };
        let ip = match (self.src, self.dst) {
            (Some(IpAddr::V4(s)), Some(IpAddr::V4(d))) => TunnelAddrs::V4(s, d),
            (Some(IpAddr::V6(s)), Some(IpAddr::V6(d))) => TunnelAddrs::V6(s, d),
            (Some(_), Some(_)) => {
                let expected = "two addresses of the same kind: src and dst both IPv4 or both IPv6";
                return Err(FlowErrorKind::BadValue { expected });
            }
            _ => return Err(usage),
        };
        let (Some(src), Some(dst)) = (self.eth_src, self.eth_dst) else { return Err(usage) };
        let octets = |m: u64| {
            let [_, _, a, b, c, d, e, f] = m.to_be_bytes();
            [a, b, c, d, e, f]
        };
        Ok(Outer {
            eth_src: octets(src),
            eth_dst: octets(dst),
            ip,
            ttl: self.ttl.map_or(OUTER_TTL, |v| v as u8),
            tos: self.tos.map_or(0, |v| v as u8),
        })
    }
}

/// VXLAN, and the outer addresses.
pub(super) fn vxlan(text: &str) -> Read<(Action, TunnelAddrs)> {
    const USAGE: &str =
        "encap_vxlan(vni=N,src=IP,dst=IP,eth_src=MAC,eth_dst=MAC[,ttl=N][,tos=N][,port=N])";
    let a = args(text, USAGE)?;
    if a.key.is_some() || a.seq.is_some() || a.csum.is_some() {
        return Err(FlowErrorKind::BadValue { expected: USAGE });
    }
    let outer = a.outer(USAGE)?;
    let vni = a.vni.ok_or(FlowErrorKind::MissingValue { expected: USAGE })? as u32;
    let port = a.port.map_or(VXLAN_PORT, |p| p as u16);
    Ok((Action::EncapVxlan { outer, vni, port }, outer.ip))
}

/// GRE, and the outer addresses.
pub(super) fn gre(text: &str) -> Read<(Action, TunnelAddrs)> {
    const USAGE: &str = "encap_gre(src=IP,dst=IP,eth_src=MAC,eth_dst=MAC\
                         [,key=N][,seq=N][,csum=no|yes][,ttl=N][,tos=N])";
    let a = args(text, USAGE)?;
    if a.vni.is_some() || a.port.is_some() {
        return Err(FlowErrorKind::BadValue { expected: USAGE });
    }
    let outer = a.outer(USAGE)?;
    let encap = Action::EncapGre {
        outer,
        key: a.key.map(|k| k as u32),
        sequence: a.seq.map(|s| s as u32),
        checksum: a.csum.unwrap_or(GreChecksum::Absent),
    };
    Ok((encap, outer.ip))
}
