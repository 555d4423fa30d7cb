//! From a checked configuration to what frames are looked up in: interfaces and the two routing
//! tables. Called once, by `Router::new`.

use super::config::{
    Interface, MIN_MTU_V4, MIN_MTU_V6, NextHop, Permanent, Prefix, Route, RouterConfig,
    RouterError, bits, is_link_local, not_a_host, not_an_interfaces,
};
use super::mld::Listener;
use super::neighbour::Key;
use super::routes::{Prefixes, Routes};
use super::{Hop, Iface, IfaceId, Target};
use crate::action::PortNo;
use std::net::{IpAddr, Ipv6Addr};
use weir_packet::LinkState;
use weir_wire::MacAddr;

/// A link-local address from a MAC: the modified EUI-64 of RFC 4291 appendix A.
fn link_local_of(mac: MacAddr) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.octets();
    Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

fn is_v6_link_local(addr: IpAddr) -> bool {
    matches!(addr, IpAddr::V6(a) if is_link_local(a))
}

/// Checks a configuration and builds from it. Interfaces come sorted by port.
pub(super) fn build(config: &RouterConfig) -> Result<(Vec<Iface>, Routes), RouterError> {
    limits(config)?;
    let mut given: Vec<&Interface> = config.interfaces.iter().collect();
    given.sort_by_key(|i| i.port);
    if given.is_empty() {
        return Err(RouterError::NoInterfaces);
    }
    if given.len() >= usize::from(IfaceId::MAX) {
        return Err(RouterError::TooManyInterfaces(given.len()));
    }
    for (a, b) in given.iter().zip(given.iter().skip(1)) {
        if a.port == b.port {
            return Err(RouterError::PortTwice(a.port));
        }
    }
    let mut ifaces = Vec::with_capacity(given.len());
    for i in &given {
        ifaces.push(interface(i)?);
    }
    let mut routes = Prefixes::new();
    connected(&ifaces, &mut routes)?;
    for r in &config.routes {
        let target = target(r, &ifaces, &routes)?;
        let table = routes.table(r.to.addr);
        if table.get(bits(r.to.addr), r.to.len).is_some() {
            return Err(RouterError::RouteTwice(r.to));
        }
        table.insert(bits(r.to.addr), r.to.len, target);
    }
    let routes =
        Routes::new(routes).map_err(|_| RouterError::TooManyRoutes(config.routes.len()))?;
    Ok((ifaces, routes))
}

/// The neighbours that are known beforehand.
pub(super) fn permanent(
    config: &RouterConfig,
    ifaces: &[Iface],
) -> Result<Vec<(Key, MacAddr)>, RouterError> {
    let mut all = Vec::with_capacity(config.permanent.len());
    for &Permanent { port, addr, mac } in &config.permanent {
        let error = |what| Err(RouterError::Permanent { port, addr, what });
        let Some(iface) = ifaces.iter().position(|i| i.port == port && i.speaks(addr)) else {
            return error("the port has no interface with an address of that family");
        };
        if not_a_host(addr).is_some() || !mac.is_unicast() {
            return error("give a host's address, and a unicast MAC");
        }
        if ifaces.iter().any(|i| i.is_own(addr)) {
            return error("is the router itself; give who is behind the port");
        }
        let routed = |r: &Route| match r.via {
            NextHop::OnLink(by) => by == port && r.to.contains(addr),
            NextHop::GatewayOn(next, by) => (next, by) == (addr, port),
            NextHop::Gateway(_) | NextHop::Discard => false,
        };
        let on_link = ifaces.get(iface).is_some_and(|i| i.is_on_link(addr));
        if !on_link && !config.routes.iter().any(routed) {
            return error(
                "is in none of that port's networks, and no route leads to it by the port",
            );
        }
        all.push((Key { iface: iface as IfaceId, addr }, mac));
    }
    all.sort_unstable_by_key(|p| p.0);
    if let Some(w) = all.windows(2).find(|w| w[0].0 == w[1].0) {
        let Key { iface, addr } = w[0].0;
        let port = ifaces.get(usize::from(iface)).map_or(PortNo(0), |i| i.port);
        return Err(RouterError::Permanent { port, addr, what: "is given twice" });
    }
    // The other half is left to be found.
    if let Some(p) = config.permanent.get(config.neighbours.entries / 2) {
        let what = "more than half of neighbours.entries; raise that";
        return Err(RouterError::Permanent { port: p.port, addr: p.addr, what });
    }
    Ok(all)
}

fn limits(config: &RouterConfig) -> Result<(), RouterError> {
    let n = &config.neighbours;
    // By the keys and in the units of a configuration file.
    for (name, have, least) in [
        ("neighbours.entries", n.entries as u64, 16),
        ("neighbours.queue_frames", n.queue as u64, 1),
        ("neighbours.held_frames", n.held as u64, 1),
        ("neighbours.tries", n.tries.into(), 1),
        ("neighbours.retry_ms", n.retry.0 / 1_000_000, 10),
        ("neighbours.reachable_s", n.reachable.0 / 1_000_000_000, 1),
        ("neighbours.idle_s", n.idle.0 / 1_000_000_000, 1),
        ("icmp.burst", config.icmp.burst.into(), 1),
    ] {
        if have < least {
            return Err(RouterError::Limit(name, least));
        }
    }
    // What is due is found by a look at all of them, and frames that wait stand in the places of the software stage's channel.
    for (name, have, most) in
        [("neighbours.entries", n.entries, 65_536), ("neighbours.held_frames", n.held, 256)]
    {
        if have > most {
            return Err(RouterError::TooMany(name, most));
        }
    }
    Ok(())
}

fn interface(given: &Interface) -> Result<Iface, RouterError> {
    let Interface { port, mac, ref addresses, mtu } = *given;
    if !mac.is_unicast() {
        return Err(RouterError::Mac { port, mac });
    }
    let (v4, v6, link) = (Vec::new(), Vec::new(), LinkState::Up);
    let listener = Listener::new(mac, std::iter::empty());
    let mut iface = Iface { port, mac, mtu, v4, v6, link_local: None, link, listener };
    for &address in addresses {
        if address.len > address.width() {
            return Err(RouterError::PrefixLength(address));
        }
        if let Some(what) = not_an_interfaces(address) {
            return Err(RouterError::Address { port, address, what });
        }
        match address.addr {
            IpAddr::V4(a) => iface.v4.push((a, address)),
            IpAddr::V6(a) if is_link_local(a) => {
                if iface.link_local.replace(a).is_some() {
                    return Err(RouterError::LinkLocalTwice(port));
                }
            }
            IpAddr::V6(a) => iface.v6.push((a, address)),
        }
    }
    if !iface.v6.is_empty() {
        iface.link_local.get_or_insert_with(|| link_local_of(mac));
    }
    iface.listen();
    if iface.v4.is_empty() && iface.link_local.is_none() {
        return Err(RouterError::NoAddress(port));
    }
    let least = if iface.link_local.is_some() { MIN_MTU_V6 } else { MIN_MTU_V4 };
    match mtu {
        Some(mtu) if mtu < least => Err(RouterError::Mtu { port, mtu, least }),
        _ => Ok(iface),
    }
}

/// Enters the interfaces' networks and addresses.
fn connected(ifaces: &[Iface], routes: &mut Prefixes) -> Result<(), RouterError> {
    let all = || {
        ifaces.iter().zip(0..).flat_map(|(i, id)| {
            let global = i.v4.iter().map(|a| a.1).chain(i.v6.iter().map(|a| a.1));
            global.map(move |p| (i.port, id, p))
        })
    };
    for (port, id, p) in all() {
        if p.len == p.width() {
            continue;
        }
        let network = bits(p.network());
        let table = routes.table(p.addr);
        if let Some(Target::Connected(other)) = table.insert(network, p.len, Target::Connected(id))
            && other != id
        {
            let first = ifaces.get(usize::from(other)).map_or(port, |i| i.port);
            let network = Prefix::new(p.network(), p.len);
            return Err(RouterError::NetworkTwice { first, second: port, network });
        }
    }
    for (_, id, p) in all() {
        let table = routes.table(p.addr);
        match p.addr {
            // The old all-zeros form is a broadcast too (RFC 1812 §4.2.3.1).
            IpAddr::V4(_) if p.len < 31 => {
                for addr in [p.network(), p.last()] {
                    table.insert(bits(addr), 32, Target::Broadcast(id));
                }
            }
            // The subnet-router anycast address (RFC 4291 §2.6.1).
            IpAddr::V6(_) if p.len < 127 => {
                table.insert(bits(p.network()), 128, Target::Local);
            }
            _ => {}
        }
    }
    let mut own: Vec<IpAddr> = all().map(|(_, _, p)| p.addr).collect();
    own.sort_unstable();
    for (a, b) in own.iter().zip(own.iter().skip(1)) {
        if a == b {
            return Err(RouterError::AddressTwice(*a));
        }
    }
    for (_, _, p) in all() {
        routes.table(p.addr).insert(bits(p.addr), p.width(), Target::Local);
    }
    Ok(())
}

/// Where a static route leads.
fn target(r: &Route, ifaces: &[Iface], routes: &Prefixes) -> Result<Target, RouterError> {
    let to = r.to;
    if to.len > to.width() {
        return Err(RouterError::PrefixLength(to));
    }
    let meant = Prefix::new(to.network(), to.len);
    if meant != to {
        return Err(RouterError::HostBits { to, meant });
    }
    if to.len > 0 && not_a_host(to.addr).is_some() || is_v6_link_local(to.addr) {
        return Err(RouterError::NotUnicast(to));
    }
    let by_port = |port: PortNo| {
        let found = ifaces.iter().position(|i| i.port == port && i.speaks(to.addr));
        found.map(|i| i as IfaceId).ok_or(RouterError::NoInterface { to, port })
    };
    let gateway = |next: IpAddr| {
        let error = |what| Err(RouterError::Gateway { to, gateway: next, what });
        if next.is_ipv4() != to.addr.is_ipv4() {
            return error("of the other family");
        }
        if let Some(what) = not_a_host(next) {
            return error(what);
        }
        match routes.lookup(next) {
            Some(Target::Local) => error("the router itself"),
            Some(Target::Broadcast(_)) => error("a broadcast address"),
            _ => Ok(next),
        }
    };
    match r.via {
        NextHop::Discard => Ok(Target::Discard),
        NextHop::OnLink(port) => Ok(Target::Connected(by_port(port)?)),
        NextHop::GatewayOn(next, port) => {
            let (iface, next) = (by_port(port)?, gateway(next)?);
            let own = ifaces.get(usize::from(iface)).and_then(|i| i.link_local);
            if own.map(IpAddr::V6) == Some(next) {
                let what = "the router itself";
                return Err(RouterError::Gateway { to, gateway: next, what });
            }
            Ok(Target::Gateway(Hop { iface, next }))
        }
        NextHop::Gateway(next) if is_v6_link_local(next) => {
            let what = "link-local: say by which port it is reached";
            Err(RouterError::Gateway { to, gateway: next, what })
        }
        NextHop::Gateway(next) => {
            let next = gateway(next)?;
            // Only the interfaces' own networks count, whatever routes came before this one.
            let networks = ifaces.iter().zip(0..).flat_map(|(i, id)| {
                let global = i.v4.iter().map(|a| a.1).chain(i.v6.iter().map(|a| a.1));
                global.map(move |p| (id, p))
            });
            let best = networks.filter(|n| n.1.contains(next)).max_by_key(|n| n.1.len);
            let off = RouterError::GatewayOffLink { to, gateway: next };
            best.map(|(iface, _)| Target::Gateway(Hop { iface, next })).ok_or(off)
        }
    }
}
