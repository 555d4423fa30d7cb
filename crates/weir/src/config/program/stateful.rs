//! Programs that remember connections, in a configuration: balancer, firewall, nat.
//!
//! Room: options of `schema.rs` to configurations of `weir_dataplane::programs`. Called by the file
//! above, which asks the program itself whether they can be.

use super::{ProgramPlan, Resolve, mac, prefix, timeouts};
use crate::config::error::{ConfigError, Source, one_of};
use crate::config::schema::ProgramSection;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use toml::Spanned;
use weir_dataplane::programs::balancer::{Backend, BalancerConfig, Service};
use weir_dataplane::programs::firewall::{Allow, FirewallConfig, Midstream};
use weir_dataplane::programs::nat::{NatConfig, NatSide};
use weir_dataplane::programs::{Endpoint, Kind};

/// An option that there must be.
fn needed<'t, T>(
    source: &Source<'_>,
    t: &ProgramSection,
    key: &str,
    value: &'t Option<T>,
) -> Result<&'t T, ConfigError> {
    value.as_ref().ok_or_else(|| {
        let text = format!("program '{}' needs {key}", t.name.get_ref());
        source.error(&t.name.span(), text)
    })
}

fn protocol(source: &Source<'_>, text: &Spanned<String>) -> Result<Kind, ConfigError> {
    match text.get_ref().as_str() {
        "tcp" => Ok(Kind::Tcp),
        "udp" => Ok(Kind::Udp),
        "icmp" => Ok(Kind::Query),
        other => {
            let what = format!("protocol '{other}': \"tcp\", \"udp\" or \"icmp\"");
            Err(source.error(&text.span(), what))
        }
    }
}

/// "80", or "80-90".
fn ports(source: &Source<'_>, text: &Spanned<String>) -> Result<RangeInclusive<u16>, ConfigError> {
    let given = text.get_ref();
    let (first, last) = given.split_once('-').unwrap_or((given, given));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(0), Ok(_)) => {
            let what = format!("ports = '{given}': ports are 1 to 65535");
            Err(source.error(&text.span(), what))
        }
        (Ok(first), Ok(last)) => Ok(first..=last),
        _ => {
            let what = format!("ports = '{given}': a port or a range of them, as in \"80-90\"");
            Err(source.error(&text.span(), what))
        }
    }
}

pub(super) fn firewall(
    source: &Source<'_>,
    t: &ProgramSection,
    port: Resolve<'_>,
) -> Result<ProgramPlan, ConfigError> {
    let inside = port(needed(source, t, "inside = PORT", &t.inside)?)?;
    let outside = port(needed(source, t, "outside = PORT", &t.outside)?)?;
    let mut c = FirewallConfig::between(inside, outside);
    for a in &t.allow {
        let a = a.get_ref();
        if let (Some(p), "icmp") = (&a.ports, a.protocol.get_ref().as_str()) {
            let what = "protocol = 'icmp' has no ports: leave 'ports' out";
            return Err(source.error(&p.span(), what));
        }
        let range = a.ports.as_ref().map(|p| ports(source, p)).transpose()?;
        c.allow.push(Allow {
            protocol: protocol(source, &a.protocol)?,
            to: prefix(source, &a.to)?,
            ports: range.unwrap_or(0..=u16::MAX),
        });
    }
    c.max_connections = t.max_connections.unwrap_or(c.max_connections);
    if let Some(m) = &t.midstream {
        let ways = [("refuse", Midstream::Refuse), ("follow", Midstream::Follow)];
        c.midstream = one_of(source, m, "midstream", &ways)?;
    }
    let times = &mut c.timeouts;
    timeouts::read(
        source,
        t,
        [
            ("tcp_opening_s", &mut times.tcp_opening),
            ("tcp_open_s", &mut times.tcp_open),
            ("tcp_closing_s", &mut times.tcp_closing),
            ("udp_one_way_s", &mut times.udp_one_way),
            ("udp_both_ways_s", &mut times.udp_both_ways),
            ("query_s", &mut times.query),
        ],
    )?;
    Ok(ProgramPlan::Firewall(Box::new(c)))
}

pub(super) fn nat(
    source: &Source<'_>,
    t: &ProgramSection,
    port: Resolve<'_>,
) -> Result<ProgramPlan, ConfigError> {
    let inside = NatSide {
        port: port(needed(source, t, "inside = PORT", &t.inside)?)?,
        mac: mac(source, needed(source, t, "inside_mac = MAC", &t.inside_mac)?)?,
    };
    let outside = NatSide {
        port: port(needed(source, t, "outside = PORT", &t.outside)?)?,
        mac: mac(source, needed(source, t, "outside_mac = MAC", &t.outside_mac)?)?,
    };
    let gateway = mac(source, needed(source, t, "gateway_mac = MAC", &t.gateway_mac)?)?;
    let mut c = NatConfig::new(inside, outside, gateway, t.addresses.clone());
    c.inside_addresses.clone_from(&t.inside_addresses);
    if let Some(p) = &t.ports {
        c.ports = ports(source, p)?;
    }
    let most = c.addresses.len() * c.ports.len() * Kind::ALL.len();
    c.max_mappings = t.max_mappings.unwrap_or(c.max_mappings.min(most.max(1)));
    let times = &mut c.timeouts;
    timeouts::read(
        source,
        t,
        [
            ("udp_s", &mut times.udp),
            ("tcp_open_s", &mut times.tcp_open),
            ("tcp_transitory_s", &mut times.tcp_transitory),
            ("query_s", &mut times.query),
        ],
    )?;
    Ok(ProgramPlan::Nat(Box::new(c)))
}

fn service_address(source: &Source<'_>, text: &Spanned<String>) -> Result<Ipv4Addr, ConfigError> {
    let given = text.get_ref();
    given.parse().map_err(|_| {
        let what = match given.parse::<Ipv6Addr>() {
            Ok(_) => format!("address '{given}' is of IPv6: a balancer's services are of IPv4"),
            Err(_) => format!("address '{given}' is not an IPv4 address, as in 192.0.2.1"),
        };
        source.error(&text.span(), what)
    })
}

pub(super) fn balancer(
    source: &Source<'_>,
    t: &ProgramSection,
    port: Resolve<'_>,
) -> Result<ProgramPlan, ConfigError> {
    let own = mac(source, needed(source, t, "mac = MAC", &t.mac)?)?;
    let mut services = Vec::new();
    for s in &t.service {
        let s = s.get_ref();
        let mut backends = Vec::new();
        for b in &s.backend {
            let b = b.get_ref();
            let mac = mac(source, &b.mac)?;
            backends.push(Backend { name: b.name.clone(), port: port(&b.port)?, mac });
        }
        let protocol = protocol(source, &s.protocol)?;
        let at = Endpoint::new(service_address(source, &s.address)?, s.port);
        services.push(Service { at, protocol, backends });
    }
    let mut c = BalancerConfig::new(own, services);
    c.max_connections = t.max_connections.unwrap_or(c.max_connections);
    c.seed = t.seed.unwrap_or(c.seed);
    Ok(ProgramPlan::Balancer(Box::new(c)))
}
