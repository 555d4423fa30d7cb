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
use anyhow::{Context, Result, anyhow, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// What forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: adjacent ports of the tester are joined. What the tester itself costs.
    Wire,
    /// weir, VDPs on the fast path.
    Fast,
    /// weir, VDPs on the slow path.
    Slow,
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
            Kind::Slow => "slow path",
            Kind::Bridge => "Linux bridge",
            Kind::Router => "Linux router",
        }
    }
    /// Whom frames are addressed to.
    pub const fn to(self) -> To {
        match self {
            Kind::Wire | Kind::Bridge => To::Host,
            Kind::Fast | Kind::Slow | Kind::Router => To::Device,
        }
    }
}

/// A network namespace, deleted when dropped.
struct Namespace {
    name: String,
    file: File,
}

impl Namespace {
    fn new(role: &str) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-study-{}-{n}{role}", std::process::id());
        ip(&[], &format!("netns add {name}\n"))?;
        let path = format!("/run/netns/{name}");
        match File::open(&path) {
            Ok(file) => Ok(Self { name, file }),
            Err(e) => {
                delete(&name);
                Err(anyhow!("{path}: {e}"))
            }
        }
    }

    /// Does something inside, on a thread of its own.
    fn within<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))
                    .with_context(|| format!("entering the namespace {}", self.name))?;
                work()
            });
            thread.join().unwrap_or_else(|_| Err(anyhow!("a thread of the study ended early")))
        })
    }

    /// Runs the lines of a batch of `ip` inside.
    fn ip(&self, lines: &str) -> Result<()> {
        ip(&["-n", &self.name], lines)
    }

    /// Sets what stands under `/proc/sys/net`. What is not there is left out: a kernel without IPv6
    /// needs none of it switched off.
    fn set(&self, settings: &'static [(&'static str, &'static str)]) -> Result<()> {
        self.within(|| {
            for (name, value) in settings {
                match std::fs::write(format!("/proc/sys/net/{name}"), value) {
                    Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                        return Err(anyhow!("/proc/sys/net/{name}: {e}"));
                    }
                    _ => {}
                }
            }
            Ok(())
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        delete(&self.name);
    }
}

fn delete(name: &str) {
    // One that has gone already needs nothing.
    let _ = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
}

/// Runs the lines of a batch of `ip`.
fn ip(options: &[&str], lines: &str) -> Result<()> {
    batch("ip", options, lines)
}

fn batch(tool: &str, options: &[&str], lines: &str) -> Result<()> {
    let mut child = Command::new(tool)
        .args(options)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("'{tool}' can't be run: install iproute2"))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(lines.as_bytes()).with_context(|| format!("talking to '{tool}'"))?;
    }
    let done = child.wait_with_output()?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    bail!("'{tool}' refused: {}", said.lines().next().unwrap_or("no reason given"))
}

/// Settings that keep the kernel's own frames off the wires.
const QUIET: &[(&str, &str)] = &[
    ("ipv6/conf/all/disable_ipv6", "1"),
    ("ipv6/conf/default/disable_ipv6", "1"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
];
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
        let tester = Namespace::new("t")?;
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
            let device = Namespace::new("d")?;
            device.set(QUIET)?;
            for port in 0..PORTS {
                let _ = writeln!(
                    lines,
                    "link add name e{0} address {1} type veth peer name p{0} address {2} netns {3}",
                    port + 1,
                    tester_mac(port),
                    dut_mac(port),
                    device.name
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
                Kind::Wire | Kind::Fast | Kind::Slow => {}
            }
        }
        device.ip(&lines)?;
        match self.kind {
            Kind::Bridge => {
                batch("bridge", &["-n", &device.name], &hosts)?;
                device.set(NO_NETFILTER)
            }
            Kind::Router => device.set(FORWARD),
            Kind::Wire | Kind::Fast | Kind::Slow => Ok(()),
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
