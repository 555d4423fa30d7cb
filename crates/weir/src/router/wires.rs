//! A router's namespace with its interfaces: made, given addresses, taken away.
//!
//! Room: namespaces and rtnetlink. Called by [`super::node`].

use super::container::Taps;
use super::netlink::{Netlink, Wanted};
use super::shape::Wire;
use crate::config::plan::VdpPlan;
use crate::namespace::{Namespace, setting};
use anyhow::{Context, Result, anyhow};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::AsFd;
use weir_io::tap::Outlet;
use weir_supervisor::model::router::{DataPlane, Router, address};
use weir_wire::MacAddr;

/// What a router's kernel is told: to route; to take answers by whichever way they come; to go another way where a link has no carrier; to keep addresses.
const ROUTER: &[(&str, &str)] = &[
    ("ipv4/ip_forward", "1"),
    ("ipv6/conf/all/forwarding", "1"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    // Whoever sends on is known by every interface, so addresses are answered for where they are.
    ("ipv4/conf/all/arp_ignore", "1"),
    ("ipv4/conf/all/arp_announce", "2"),
    ("ipv4/conf/all/ignore_routes_with_linkdown", "1"),
    ("ipv6/conf/all/ignore_routes_with_linkdown", "1"),
    // As IPv4's: what was configured is there when an interface comes up again.
    ("ipv6/conf/all/keep_addr_on_down", "1"),
];

/// A namespace and what leads there.
#[derive(Debug)]
pub struct Wires {
    /// The namespace.
    pub namespace: Namespace,
    /// A wire for each port.
    pub wires: Vec<Wire>,
    /// The MAC address of all its interfaces.
    pub mac: MacAddr,
    /// The interfaces of a slow path that is inside.
    pub taps: Option<Taps>,
    addresses: BTreeMap<String, Vec<(IpAddr, u8)>>,
}

/// What wires are called at this end: interfaces of this machine, and ports of the data plane.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// Interfaces begin with it, and end with the port's number.
    pub interfaces: &'a str,
    /// Ports of the data plane begin with it.
    pub ports: &'a str,
}

impl Wires {
    /// Makes a namespace with an interface for each port of `v`.
    ///
    /// # Errors
    /// No rights, or names that are taken. Nothing is left then.
    pub fn make(names: Names<'_>, v: &VdpPlan, r: &Router, mac: MacAddr) -> Result<Self> {
        let namespace = Namespace::called(names.namespace)?;
        let (wires, addresses) = (Vec::new(), BTreeMap::new());
        let mut w = Self { namespace, wires, mac, taps: None, addresses };
        w.namespace.set(ROUTER)?;
        w.namespace.within(|| Netlink::new()?.set_up("lo"))?;
        match r.data_plane {
            DataPlane::Pearl => w.make_taps(v, r)?,
            _ => w.make_veths(names, v, r)?,
        }
        w.set_addresses(r)?;
        Ok(w)
    }

    fn make_taps(&mut self, v: &VdpPlan, r: &Router) -> Result<()> {
        let mut taps = Vec::new();
        for (port, no) in &v.ports {
            let mac = self.mac;
            let inside = r.interface_of(port);
            let tap = self.namespace.within(|| {
                let tap = Outlet::make(inside)?;
                Netlink::new()?.set_mac(inside, mac)?;
                Ok(tap)
            })?;
            taps.push((*no, tap));
            let (port, inside) = (port.clone(), inside.to_owned());
            self.wires.push(Wire { outer: port.clone(), port, inside, near: None });
        }
        self.taps = Some(Taps::new(taps, r.vlan));
        Ok(())
    }

    fn make_veths(&mut self, names: Names<'_>, v: &VdpPlan, r: &Router) -> Result<()> {
        let mut here = Netlink::new()?;
        for (port, no) in &v.ports {
            let interface = format!("{}{no}", names.interfaces);
            let inside = r.interface_of(port);
            here.add_veth(&interface, inside, self.mac, self.namespace.file().as_fd())?;
            // This end is the data plane's alone: the machine's own stack neither answers nor asks there.
            setting(&format!("ipv6/conf/{interface}/disable_ipv6"), "1")?;
            setting(&format!("ipv4/conf/{interface}/arp_ignore"), "8")?;
            here.set_up(&interface)?;
            self.namespace.within(|| Netlink::new()?.set_up(inside))?;
            let near = Some(format!("{}{no}", names.ports));
            let outer = match r.data_plane {
                DataPlane::Bridged => format!("{}{no}a", names.ports),
                _ => port.clone(),
            };
            let (port, inside) = (port.clone(), inside.to_owned());
            self.wires.push(Wire { port, inside, outer, near });
        }
        Ok(())
    }

    /// Gives its interfaces the addresses that are said, and takes those away that were said before.
    ///
    /// # Errors
    /// The kernel refuses one; those of before are there again then.
    pub fn set_addresses(&mut self, r: &Router) -> Result<()> {
        let mut wanted = Addresses::new();
        for (port, all) in &r.address {
            let read = |t: &String| address(t).ok_or_else(|| anyhow!("address '{t}'"));
            wanted.insert(port.clone(), all.iter().map(read).collect::<Result<_>>()?);
        }
        let before = &self.addresses;
        self.namespace.within(|| {
            let mut n = Netlink::new()?;
            exchange(&mut n, before, &wanted).inspect_err(|_| {
                // They were there, so what refuses them now is worse than what is to be told.
                let _ = exchange(&mut n, &wanted, before);
            })
        })?;
        self.addresses = wanted;
        Ok(())
    }

    /// Takes the interfaces at this end away; the kernel does so with those inside, but later.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn unplug(interfaces: &str) -> Result<()> {
        let mut here = Netlink::new()?;
        for l in here.links()?.into_iter().filter(|l| l.name.starts_with(interfaces)) {
            here.delete(&l.name).context("taking a router's wire away")?;
        }
        Ok(())
    }
}

/// By interface.
type Addresses = BTreeMap<String, Vec<(IpAddr, u8)>>;

/// Takes away what is in the one and not in the other, and gives all of the other: in this order, as the kernel takes an
/// address's network along with the first that was of it.
fn exchange(n: &mut Netlink, before: &Addresses, wanted: &Addresses) -> Result<()> {
    for (port, all) in before {
        let kept = wanted.get(port).map(Vec::as_slice).unwrap_or_default();
        for (a, len) in all.iter().filter(|a| !kept.contains(a)) {
            // Whoever runs inside may have taken it away already.
            let _ = n.address(port, *a, *len, Wanted::Gone);
        }
    }
    for (port, all) in wanted {
        for (a, len) in all {
            n.address(port, *a, *len, Wanted::There)?;
        }
    }
    Ok(())
}
