//! A place to measure over veth: a namespace for the tester and one for the device under test, four
//! wires between them, and the kernel's own forwarding where that is the device.
//!
//! Needs root and iproute2. Everything is gone when the [`Lab`] is dropped.
//!
//! ```text
//!  tester   e1      e2      e3      e4
//!            │       │       │       │
//!  device   p1 ◄──► p2      p3 ◄──► p4        adjacent ports forward to each other
//! ```

use super::load::{PORTS, To, adjacent, dut_mac, host_mac, tester_mac};
use crate::left;
use crate::namespace::{Namespace, QUIET, batch};
use anyhow::{Context, Result, anyhow};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Seek};

/// What forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: adjacent ports of the tester are joined. What the tester itself costs.
    Wire,
    /// weir, VDPs on the fast path.
    Fast,
    /// weir, whose VDPs the kernel carries out by itself.
    Shortcut,
    /// weir, VDPs on the slow path.
    Slow,
    /// Nothing but a loop over AF_XDP ports like weir's.
    Bare,
    /// The kernel's bridge, without netfilter.
    Bridge,
    /// The kernel's IPv4 router.
    Router,
}

impl Kind {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Wire => "wire alone",
            Kind::Fast => "fast path",
            Kind::Shortcut => "shortcut",
            Kind::Slow => "slow path",
            Kind::Bare => "bare AF_XDP",
            Kind::Bridge => "Linux bridge",
            Kind::Router => "Linux router",
        }
    }
    /// Whom frames are addressed to.
    pub const fn to(self) -> To {
        match self {
            Kind::Wire | Kind::Bridge => To::Host,
            Kind::Fast | Kind::Shortcut | Kind::Slow | Kind::Bare | Kind::Router => To::Device,
        }
    }
}

const NO_NETFILTER: &[(&str, &str)] = &[
    ("bridge/bridge-nf-call-iptables", "0"),
    ("bridge/bridge-nf-call-ip6tables", "0"),
    ("bridge/bridge-nf-call-arptables", "0"),
];
const FORWARD: &[(&str, &str)] = &[("ipv4/ip_forward", "1")];

/// Both namespaces and what is in them.
pub struct Lab {
    /// What forwards.
    pub kind: Kind,
    tester: Namespace,
    device: Option<Namespace>,
}

impl Lab {
    /// Builds it; for weir the ports are there and nothing serves them yet.
    ///
    /// # Errors
    /// No rights, no iproute2, no bridge in the kernel.
    pub fn new(kind: Kind) -> Result<Self> {
        left::sweep();
        let tester = Namespace::new(left::STUDY, "t")?;
        tester.set(QUIET)?;
        let mut lines = String::new();
        let device = if kind == Kind::Wire {
            for port in (0..PORTS).step_by(2) {
                let other = adjacent(port);
                let _ = writeln!(
                    lines,
                    "link add name e{} address {} type veth peer name e{} address {}",
                    port + 1,
                    tester_mac(port),
                    other + 1,
                    tester_mac(other)
                );
            }
            None
        } else {
            let device = Namespace::new(left::STUDY, "d")?;
            device.set(QUIET)?;
            for port in 0..PORTS {
                let _ = writeln!(
                    lines,
                    "link add name e{0} address {1} type veth peer name p{0} address {2} netns {3}",
                    port + 1,
                    tester_mac(port),
                    dut_mac(port),
                    device.name()
                );
            }
            Some(device)
        };
        for port in 1..=PORTS {
            let _ = writeln!(lines, "link set e{port} up");
        }
        tester.ip(&lines)?;
        let lab = Self { kind, tester, device };
        if let Some(device) = &lab.device {
            lab.set_up(device)?;
        }
        Ok(lab)
    }

    fn set_up(&self, device: &Namespace) -> Result<()> {
        let mut lines = String::new();
        let mut hosts = String::new();
        if self.kind == Kind::Bridge {
            lines += "link add br1 type bridge\nlink add br3 type bridge\n";
            lines += "link set br1 up\nlink set br3 up\n";
        }
        for port in 0..PORTS {
            let n = port + 1;
            let _ = writeln!(lines, "link set p{n} up");
            let host = host_mac(port);
            match self.kind {
                Kind::Bridge => {
                    let _ = writeln!(lines, "link set p{n} master br{}", (port & !1) + 1);
                    let _ = writeln!(hosts, "fdb replace {host} dev p{n} master static");
                }
                Kind::Router => {
                    let _ = writeln!(lines, "addr add 10.0.{port}.1/24 dev p{n}");
                    let _ = writeln!(lines, "route add 198.19.{port}.0/24 via 10.0.{port}.2");
                    let _ = writeln!(
                        lines,
                        "neigh replace 10.0.{port}.2 lladdr {host} dev p{n} nud permanent"
                    );
                }
                Kind::Wire | Kind::Fast | Kind::Shortcut | Kind::Slow | Kind::Bare => {}
            }
        }
        device.ip(&lines)?;
        match self.kind {
            Kind::Bridge => {
                batch("bridge", &["-n", device.name()], &hosts)?;
                device.set(NO_NETFILTER)
            }
            Kind::Router => device.set(FORWARD),
            Kind::Wire | Kind::Fast | Kind::Shortcut | Kind::Slow | Kind::Bare => Ok(()),
        }
    }

    /// Does something where the tester is.
    ///
    /// # Errors
    /// That of the work.
    pub fn at_tester<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.tester.within(work)
    }

    /// Does something where the device under test is; for a wire that is where the tester is.
    ///
    /// # Errors
    /// That of the work.
    pub fn at_device<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.device.as_ref().unwrap_or(&self.tester).within(work)
    }

    /// The kernel's count of what arrives at the tester's `port`, counted from 0.
    ///
    /// # Errors
    /// The file can't be opened.
    pub fn arrivals(&self, port: u16) -> Result<Arrivals> {
        let path = "/proc/thread-self/net/dev";
        // The file stays that of the namespace in which it was opened.
        let file = self.at_tester(|| File::open(path).context(path))?;
        Ok(Arrivals { file, interface: format!("e{}:", port + 1) })
    }
}

/// The kernel's count of frames that arrived at an interface.
pub struct Arrivals {
    file: File,
    interface: String,
}

impl Arrivals {
    /// Frames until now.
    ///
    /// # Errors
    /// The interface has gone.
    pub fn frames(&mut self) -> Result<u64> {
        let mut text = String::new();
        self.file.rewind()?;
        self.file.read_to_string(&mut text)?;
        text.lines()
            .find_map(|l| l.trim_start().strip_prefix(&self.interface))
            .and_then(|l| l.split_whitespace().nth(1)?.parse().ok())
            .ok_or_else(|| anyhow!("no count of what arrives at {}", self.interface))
    }
}
