//! Slow-path programs in a configuration: which options each has, and what they mean.
//!
//! Room: between `schema.rs` and `weir_dataplane::programs`. Called by `read.rs`; `apply.rs` asks for
//! the program itself.

mod stateful;
mod timeouts;

use super::error::{ConfigError, Source, nearest};
use super::schema::{ProgramSection, RouteSection};
use super::words::{PortRef, TextOr};
use crate::router::container::Taps;
use std::collections::BTreeMap;
use std::net::IpAddr;
use toml::Spanned;
use weir_dataplane::programs::balancer::{Balancer, BalancerConfig};
use weir_dataplane::programs::bng::{Bng, BngConfig};
use weir_dataplane::programs::firewall::{Firewall, FirewallConfig};
use weir_dataplane::programs::forward::Forward;
use weir_dataplane::programs::learning::{LearningConfig, LearningSwitch};
use weir_dataplane::programs::nat::{Nat, NatConfig};
use weir_dataplane::programs::reflector::Reflector;
use weir_dataplane::programs::router::{
    Interface, NextHop, Permanent, Prefix, Route, Router, RouterConfig,
};
use weir_dataplane::programs::sink::Sink;
use weir_dataplane::{PortNo, Program};
use weir_packet::Nanos;
use weir_wire::MacAddr;

/// A program with its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramPlan {
    /// A load balancer.
    Balancer(Box<BalancerConfig>),
    /// A virtual router's namespace. Not for files: it comes with the router.
    Container(Taps),
    /// A broadband network gateway.
    Bng(Box<BngConfig>),
    /// A stateful firewall.
    Firewall(Box<FirewallConfig>),
    /// From port to port; empty: between neighbours.
    Forward(Vec<(PortNo, PortNo)>),
    /// A learning switch with its static entries.
    Learning(LearningConfig, Vec<(u16, MacAddr, PortNo)>),
    /// Network address translation.
    Nat(Box<NatConfig>),
    /// Back where it came from.
    Reflector,
    /// A router.
    Router(Box<RouterConfig>),
    /// The end of every frame.
    Sink,
}

impl ProgramPlan {
    /// A learning switch as it is without options.
    pub fn learning() -> Self {
        Self::Learning(LearningConfig::default(), Vec::new())
    }
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Balancer(_) => "balancer",
            Self::Container(_) => "container",
            Self::Bng(_) => "bng",
            Self::Firewall(_) => "firewall",
            Self::Forward(_) => "forward",
            Self::Learning(..) => "learning",
            Self::Nat(_) => "nat",
            Self::Reflector => "reflector",
            Self::Router(_) => "router",
            Self::Sink => "sink",
        }
    }
    /// The program itself.
    ///
    /// # Errors
    /// One line: which option can't be.
    pub fn build(&self) -> Result<Box<dyn Program>, String> {
        Ok(match self {
            Self::Forward(map) if map.is_empty() => Box::new(Forward::neighbours()),
            Self::Forward(map) => Box::new(Forward::by_map(map).map_err(|e| e.to_string())?),
            Self::Learning(config, statics) => {
                let mut l = LearningSwitch::new(*config);
                for (vlan, mac, port) in statics {
                    l.add_static(*vlan, *mac, *port).map_err(|e| e.to_string())?;
                }
                Box::new(l)
            }
            Self::Container(taps) => taps.program(),
            Self::Balancer(config) => Box::new(Balancer::new(config).map_err(|e| e.to_string())?),
            Self::Bng(config) => Box::new(Bng::new(config).map_err(|e| e.to_string())?),
            Self::Firewall(config) => Box::new(Firewall::new(config).map_err(|e| e.to_string())?),
            Self::Nat(config) => Box::new(Nat::new(config).map_err(|e| e.to_string())?),
            Self::Reflector => Box::new(Reflector::default()),
            Self::Router(config) => Box::new(Router::new(config).map_err(|e| e.to_string())?),
            Self::Sink => Box::new(Sink::default()),
        })
    }
}

const GATEWAY: &str = "program 'bng' needs options: write [vdp.program] with name = \"bng\" and a \
                       [vdp.program.gateway] with tunnel, access and core";

const NAMES: [&str; 9] =
    ["balancer", "bng", "firewall", "forward", "learning", "nat", "reflector", "router", "sink"];

/// Finds a VDP's number for a port.
pub type Resolve<'a> = &'a dyn Fn(&Spanned<PortRef>) -> Result<PortNo, ConfigError>;

/// Reads a program of a VDP.
///
/// # Errors
/// [`ConfigError`].
pub fn read(
    source: &Source<'_>,
    given: &Spanned<super::words::Program>,
    port: Resolve<'_>,
) -> Result<ProgramPlan, ConfigError> {
    let span = given.span();
    let unknown = |name: &str, span: &std::ops::Range<usize>| {
        let near = nearest(name, NAMES.into_iter())
            .map(|n| format!("did you mean '{n}'? "))
            .unwrap_or_default();
        let text = format!("no slow-path program '{name}': {near}There are {}", NAMES.join(", "));
        source.error(span, text)
    };
    let plan = match given.get_ref() {
        TextOr::Short(name) => match name.as_str() {
            "forward" => ProgramPlan::Forward(Vec::new()),
            "learning" => ProgramPlan::learning(),
            "reflector" => ProgramPlan::Reflector,
            "sink" => ProgramPlan::Sink,
            "bng" => return Err(source.error(&span, GATEWAY)),
            "router" => {
                let text = "program 'router' needs options: write [vdp.program] with \
                            name = \"router\" and an [[vdp.program.interface]] for each link";
                return Err(source.error(&span, text));
            }
            "balancer" | "firewall" | "nat" => {
                let text = format!(
                    "program '{name}' needs options: write [vdp.program] with name = \"{name}\""
                );
                return Err(source.error(&span, text));
            }
            other => return Err(unknown(other, &span)),
        },
        TextOr::Table(t) => {
            let name = t.name.get_ref().as_str();
            if !NAMES.contains(&name) {
                return Err(unknown(name, &t.name.span()));
            }
            only_its_own(source, t, name)?;
            match name {
                "bng" => {
                    let gateway = t.gateway.as_ref();
                    let gateway = gateway.ok_or_else(|| source.error(&t.name.span(), GATEWAY))?;
                    ProgramPlan::Bng(Box::new(super::gateway::read(source, gateway, port)?))
                }
                "forward" => forward(source, t, port)?,
                "learning" => learning(source, t, port)?,
                "balancer" => stateful::balancer(source, t, port)?,
                "firewall" => stateful::firewall(source, t, port)?,
                "nat" => stateful::nat(source, t, port)?,
                "router" => router(source, t, port)?,
                "reflector" => ProgramPlan::Reflector,
                _ => ProgramPlan::Sink,
            }
        }
    };
    plan.build().map_err(|e| source.error(&span, format!("program '{}': {e}", plan.name())))?;
    Ok(plan)
}

/// Each option, the programs that know it, and whether it is given.
type ProgramOption = (&'static str, &'static [&'static str], fn(&ProgramSection) -> bool);

const SIDES: &[&str] = &["firewall", "nat"];
const TABLES: &[&str] = &["balancer", "firewall"];
const OPTIONS: [ProgramOption; 25] = [
    ("ageing_s", &["learning"], |t| t.ageing_s.is_some()),
    ("max_entries", &["learning"], |t| t.max_entries.is_some()),
    ("static", &["learning"], |t| !t.statics.is_empty()),
    ("map", &["forward"], |t| !t.map.is_empty()),
    ("interface", &["router"], |t| !t.interface.is_empty()),
    ("route", &["router"], |t| !t.route.is_empty()),
    ("neighbours", &["router"], |t| t.neighbours.is_some()),
    ("icmp", &["router"], |t| t.icmp.is_some()),
    ("gateway", &["bng"], |t| t.gateway.is_some()),
    ("inside", SIDES, |t| t.inside.is_some()),
    ("outside", SIDES, |t| t.outside.is_some()),
    ("max_connections", TABLES, |t| t.max_connections.is_some()),
    ("midstream", &["firewall"], |t| t.midstream.is_some()),
    ("timeouts", SIDES, |t| t.timeouts.is_some()),
    ("allow", &["firewall"], |t| !t.allow.is_empty()),
    ("inside_mac", &["nat"], |t| t.inside_mac.is_some()),
    ("outside_mac", &["nat"], |t| t.outside_mac.is_some()),
    ("gateway_mac", &["nat"], |t| t.gateway_mac.is_some()),
    ("inside_addresses", &["nat"], |t| !t.inside_addresses.is_empty()),
    ("addresses", &["nat"], |t| !t.addresses.is_empty()),
    ("ports", &["nat"], |t| t.ports.is_some()),
    ("max_mappings", &["nat"], |t| t.max_mappings.is_some()),
    ("mac", &["balancer"], |t| t.mac.is_some()),
    ("seed", &["balancer"], |t| t.seed.is_some()),
    ("service", &["balancer"], |t| !t.service.is_empty()),
];

/// Refuses options that belong to another program.
fn only_its_own(source: &Source<'_>, t: &ProgramSection, name: &str) -> Result<(), ConfigError> {
    match OPTIONS.into_iter().find(|(_, owners, given)| given(t) && !owners.contains(&name)) {
        Some((key, owners, _)) => {
            let owners = owners.join("' and '");
            let text = format!("'{key}' is an option of program '{owners}', not of '{name}'");
            Err(source.error(&t.name.span(), text))
        }
        None => Ok(()),
    }
}

/// The keys that the program `name` knows, of those `known` in a section of programs. `None`: they are
/// another section's, or no program is called that.
pub(super) fn own_keys(name: &str, known: &[&str]) -> Option<Vec<&'static str>> {
    let of_programs = OPTIONS.iter().all(|(key, ..)| known.contains(key));
    let own = OPTIONS.iter().filter(|(_, owners, _)| owners.contains(&name)).map(|o| o.0);
    (of_programs && NAMES.contains(&name)).then(|| std::iter::once("name").chain(own).collect())
}

pub(super) fn mac(source: &Source<'_>, text: &Spanned<String>) -> Result<MacAddr, ConfigError> {
    text.get_ref().parse().map_err(|_| {
        let what = format!("'{}' is not a MAC address, as in 02:00:00:00:00:01", text.get_ref());
        source.error(&text.span(), what)
    })
}

pub(super) fn prefix(source: &Source<'_>, text: &Spanned<String>) -> Result<Prefix, ConfigError> {
    text.get_ref().parse().map_err(|e| source.error(&text.span(), e))
}

fn forward(
    source: &Source<'_>,
    t: &ProgramSection,
    port: Resolve<'_>,
) -> Result<ProgramPlan, ConfigError> {
    let mut map = Vec::new();
    for (from, to) in &t.map {
        let (at, text) = (from.span(), from.get_ref());
        let from = match text.parse() {
            Ok(no) => PortRef::Number(no),
            Err(_) => PortRef::Name(text.clone()),
        };
        map.push((port(&Spanned::new(at, from))?, port(to)?));
    }
    if map.is_empty() {
        let text = "program 'forward': an empty table; say program = \"forward\", or give a map";
        return Err(source.error(&t.name.span(), text));
    }
    Ok(ProgramPlan::Forward(map))
}

fn learning(
    source: &Source<'_>,
    t: &ProgramSection,
    port: Resolve<'_>,
) -> Result<ProgramPlan, ConfigError> {
    let d = LearningConfig::default();
    let config = LearningConfig {
        ageing: t.ageing_s.map_or(d.ageing, Nanos::from_secs),
        max_entries: t.max_entries.unwrap_or(d.max_entries),
    };
    if config.max_entries == 0 || config.max_entries > 1 << 22 {
        let text = format!("max_entries = {}: 1 to 4194304", config.max_entries);
        return Err(source.error(&t.name.span(), text));
    }
    let (mut statics, mut at) = (Vec::new(), BTreeMap::new());
    for s in &t.statics {
        let (vlan, mac, no) = {
            let s = s.get_ref();
            (s.vlan, mac(source, &s.mac)?, port(&s.port)?)
        };
        if let Some(other) = at.insert((vlan, mac), no)
            && other != no
        {
            let text = format!(
                "static: {mac} in VLAN {vlan} is at port {other} already; leave one of them out"
            );
            return Err(source.error(&s.span(), text));
        }
        statics.push((vlan, mac, no));
    }
    Ok(ProgramPlan::Learning(config, statics))
}

fn router(
    source: &Source<'_>,
    t: &ProgramSection,
    port: Resolve<'_>,
) -> Result<ProgramPlan, ConfigError> {
    let mut c = RouterConfig::default();
    for i in &t.interface {
        let i = i.get_ref();
        let addresses = i.addresses.iter().map(|a| prefix(source, a)).collect::<Result<_, _>>()?;
        let mac = mac(source, &i.mac)?;
        c.interfaces.push(Interface { port: port(&i.port)?, mac, addresses, mtu: i.mtu_bytes });
    }
    for r in &t.route {
        c.routes.push(Route { to: prefix(source, &r.get_ref().to)?, via: via(source, r, port)? });
    }
    if let Some(n) = &t.neighbours {
        let d = c.neighbours;
        c.neighbours.reachable = n.reachable_s.map_or(d.reachable, Nanos::from_secs);
        c.neighbours.retry = n.retry_ms.map_or(d.retry, Nanos::from_millis);
        c.neighbours.tries = n.tries.unwrap_or(d.tries);
        c.neighbours.idle = n.idle_s.map_or(d.idle, Nanos::from_secs);
        c.neighbours.entries = n.entries.unwrap_or(d.entries);
        c.neighbours.queue = n.queue_frames.unwrap_or(d.queue);
        c.neighbours.held = n.held_frames.unwrap_or(d.held);
        for p in &n.permanent {
            let addr = p.address.get_ref().parse().map_err(|_| {
                let text = format!("'{}' is not an IP address", p.address.get_ref());
                source.error(&p.address.span(), text)
            })?;
            c.permanent.push(Permanent { port: port(&p.port)?, addr, mac: mac(source, &p.mac)? });
        }
    }
    if let Some(i) = &t.icmp {
        c.icmp.per_second = i.errors_per_second.unwrap_or(c.icmp.per_second);
        c.icmp.burst = i.burst.unwrap_or(c.icmp.burst);
    }
    Ok(ProgramPlan::Router(Box::new(c)))
}

fn via(
    source: &Source<'_>,
    r: &Spanned<RouteSection>,
    port: Resolve<'_>,
) -> Result<NextHop, ConfigError> {
    let route = r.get_ref();
    let by = route.port.as_ref().map(port).transpose()?;
    let Some(via) = &route.via else {
        return by.map(NextHop::OnLink).ok_or_else(|| {
            let text = "a route needs via = \"ADDRESS\", via = \"discard\" or port = PORT";
            source.error(&r.span(), text)
        });
    };
    if via.get_ref() == "discard" {
        return match by {
            None => Ok(NextHop::Discard),
            Some(_) => Err(source.error(&via.span(), "a discard route has no port: leave it out")),
        };
    }
    let gateway: IpAddr = via.get_ref().parse().map_err(|_| {
        let text = format!("via = '{}': an IP address, or \"discard\"", via.get_ref());
        source.error(&via.span(), text)
    })?;
    Ok(match by {
        Some(p) => NextHop::GatewayOn(gateway, p),
        None => NextHop::Gateway(gateway),
    })
}
