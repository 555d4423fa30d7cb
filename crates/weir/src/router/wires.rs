//! A router's namespace with its interfaces: made, given addresses, taken away.
//!
//! Room: namespaces and rtnetlink. Called by [`super::node`].

use super::container::Taps;
use super::netlink::{Netlink, Wanted};
use super::shape::Wire;
use crate::config::plan::VdpPlan;
use crate::namespace::{Namespace, setting};
use crate::socket::protocol::Addresses;
use anyhow::{Context, Result, anyhow};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
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

/// In a line of the kernel's list of IPv6 addresses: which word its flags are, and that of one that is not used yet.
const FLAGS: usize = 4;
const TENTATIVE: u32 = 0x40;
/// How long an address is waited for that nobody is asked about; one that a program inside has given may be asked for.
const SETTLING: Duration = Duration::from_millis(300);

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
    addresses: ByInterface,
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
    pub fn make(
        names: Names<'_>,
        v: &VdpPlan,
        r: &Router,
        mac: MacAddr,
        addresses: Addresses,
    ) -> Result<Self> {
        let namespace = Namespace::called(names.namespace)?;
        let mut w =
            Self { namespace, wires: Vec::new(), mac, taps: None, addresses: ByInterface::new() };
        w.namespace.set(ROUTER)?;
        w.namespace.within(|| Netlink::new()?.set_up("lo"))?;
        match r.data_plane {
            DataPlane::Pearl => w.make_taps(v, r)?,
            _ => w.make_veths(names, v, r)?,
        }
        w.set_up(addresses)?;
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

    /// Sets its interfaces up, each with its link-local address.
    fn set_up(&self, addresses: Addresses) -> Result<()> {
        self.namespace.within(|| {
            let mut n = Netlink::new()?;
            self.wires.iter().try_for_each(|w| {
                if addresses == Addresses::Kept {
                    setting(&duplicates(&w.inside), "0")?;
                }
                n.set_up(&w.inside)
            })
        })
    }

    /// Waits until its kernel uses the addresses that it has, which it makes up its mind about on a thread of its own; not for
    /// those that it asks for.
    ///
    /// # Errors
    /// The namespace can't be entered.
    pub fn settle(&self) -> Result<()> {
        self.namespace.within(|| {
            let end = Instant::now() + SETTLING;
            let tentative = || {
                let all = std::fs::read_to_string("/proc/thread-self/net/if_inet6");
                all.unwrap_or_default().lines().any(|l| {
                    let flags = l.split_whitespace().nth(FLAGS);
                    flags.is_some_and(|f| {
                        u32::from_str_radix(f, 16).is_ok_and(|f| f & TENTATIVE != 0)
                    })
                })
            };
            while tentative() && Instant::now() < end {
                std::thread::sleep(SETTLING / 100);
            }
            Ok(())
        })
    }

    /// Has its kernel ask whether addresses are another's that come from now on, as it does where nothing else is said.
    ///
    /// # Errors
    /// It can't be set.
    pub fn ask_for_others(&self) -> Result<()> {
        self.namespace.within(|| {
            let Ok(usual) =
                std::fs::read_to_string(format!("/proc/sys/net/{}", duplicates("default")))
            else {
                // A kernel without IPv6.
                return Ok(());
            };
            self.wires.iter().try_for_each(|w| setting(&duplicates(&w.inside), usual.trim()))
        })
    }

    /// Gives its interfaces the addresses that are said, and takes those away that were said before.
    ///
    /// # Errors
    /// The kernel refuses one; those of before are there again then.
    pub fn set_addresses(&mut self, r: &Router) -> Result<()> {
        let mut wanted = ByInterface::new();
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

/// Where it is set whether an interface's addresses are asked for before they are used.
fn duplicates(interface: &str) -> String {
    format!("ipv6/conf/{interface}/accept_dad")
}

/// By interface.
type ByInterface = BTreeMap<String, Vec<(IpAddr, u8)>>;

/// Takes away what is in the one and not in the other, and gives all of the other: in this order, as the kernel takes an
/// address's network along with the first that was of it.
fn exchange(n: &mut Netlink, before: &ByInterface, wanted: &ByInterface) -> Result<()> {
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
