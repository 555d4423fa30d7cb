//! What forwards, and the namespaces around it. A new element is a variant here and what sets it up.
//!
//! Room: `ip`, `bridge`, Open vSwitch's programs, AF_XDP. Needs root. Everything is gone when a [`Bed`] is dropped.
//!
//! ```text
//!  tester   e1 (generator)      e2 (receiver: 198.19.1.2)
//!            │                   │
//!  device   p1 ──── element ─── p2
//! ```

use crate::commands::measure::lab;
use crate::left;
use crate::namespace::{Namespace, QUIET, batch};
use crate::socket::items::RouterItem;
use crate::socket::protocol::{Addresses, Item, Request};
use crate::study::load::{dut_mac, host_mac, tester_mac};
use crate::study::process::Process;
use anyhow::{Context, Result, anyhow, ensure};
use std::fs::File;
use std::io::{Read, Seek};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use weir_calibrate::cpus::allowed;
use weir_classify::{Field, Match, VLAN_PRESENT};
use weir_dataplane::{
    Action, Config, DataPlane, MappingRule, Out, Path, Placement, PortNo, RuleSpec, VdpSpec, Vid,
};
use weir_io::af_xdp::{AfXdp, Mode, Options, Umem};
use weir_openflow::model::Version;
use weir_packet::PortId;
use weir_supervisor::model::router as wanted;
use weir_wire::MacAddr;

/// The receiver's address.
pub const RECEIVER: Ipv4Addr = Ipv4Addr::new(198, 19, 1, 2);
/// The generator's.
pub const GENERATOR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

/// How long a router may take to be ready.
const PATIENCE: Duration = Duration::from_secs(10);
/// For what it still learns of its neighbours then.
const SETTLE: Duration = Duration::from_millis(200);

/// A forwarding element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// Nothing: the generator is joined to the receiver.
    PointToPoint,
    /// Linux's IPv4 router.
    NativeRouter,
    /// Linux's bridge.
    NativeBridge,
    /// Linux's router between two of its bridges.
    NativeHybrid,
    /// A VDP of weir.
    Vdp,
    /// A virtual router on a `weir run`.
    Router(Arrangement),
    /// Open vSwitch.
    OpenVSwitch,
}

/// Who forwards a virtual router's frames, and where (003 §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// Its own kernel, on the worker's processor: XenVM-1.
    OwnSame,
    /// Its own kernel, on another processor: XenVM-2.
    OwnOther,
    /// The shared data plane, by its routes: Xen-Router.
    Routed,
    /// The same behind bridges: Xen-Bridge.
    Bridged,
    /// The shared data plane, with the namespace as its slow path (004 §4.4).
    Pearl,
}

impl Arrangement {
    fn data_plane(self) -> wanted::DataPlane {
        match self {
            Self::OwnSame | Self::OwnOther => wanted::DataPlane::Own,
            Self::Routed => wanted::DataPlane::Routed,
            Self::Bridged => wanted::DataPlane::Bridged,
            Self::Pearl => wanted::DataPlane::Pearl,
        }
    }
}

/// By what an element decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// MAC addresses, which it leaves as they are.
    Two,
    /// IPv4 addresses: frames are sent to it.
    Three,
}

impl Element {
    /// All, in the order of the tables.
    pub const ALL: [Element; 11] = [
        Element::PointToPoint,
        Element::NativeRouter,
        Element::NativeBridge,
        Element::NativeHybrid,
        Element::Vdp,
        Element::Router(Arrangement::OwnSame),
        Element::Router(Arrangement::OwnOther),
        Element::Router(Arrangement::Routed),
        Element::Router(Arrangement::Bridged),
        Element::Router(Arrangement::Pearl),
        Element::OpenVSwitch,
    ];
    /// Its name, the paper's where it has one.
    pub const fn name(self) -> &'static str {
        match self {
            Element::PointToPoint => "Point-To-Point",
            Element::NativeRouter => "Native-Router",
            Element::NativeBridge => "Native-Bridge",
            Element::NativeHybrid => "Native-Hybrid",
            Element::Vdp => "weir VDP",
            Element::Router(a) => match a {
                Arrangement::OwnSame => "router, own, same CPU (XenVM-1)",
                Arrangement::OwnOther => "router, own, other CPU (XenVM-2)",
                Arrangement::Routed => "router, routed (Xen-Router)",
                Arrangement::Bridged => "router, bridged (Xen-Bridge)",
                Arrangement::Pearl => "router, pearl",
            },
            Element::OpenVSwitch => "Open vSwitch",
        }
    }
    /// By what it decides.
    pub const fn layer(self) -> Layer {
        match self {
            Element::NativeRouter | Element::NativeHybrid | Element::Router(_) => Layer::Three,
            _ => Layer::Two,
        }
    }
    /// What is missing for it here.
    pub fn missing(self) -> Option<&'static str> {
        let there = |p: &str| {
            let mut c = Command::new(p);
            c.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
            c.status().is_ok_and(|s| s.success())
        };
        if self == Element::OpenVSwitch && !(there("ovs-vswitchd") && there("ovs-ofctl")) {
            return Some("it is not installed (Debian's openvswitch-switch)");
        }
        if self == Element::Router(Arrangement::OwnOther) && allowed().len() < 2 {
            return Some("there is one processor");
        }
        None
    }
}

/// Where the worker of a virtual router's `weir run` runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worker {
    /// On the last processor, which is its own.
    Own,
    /// Wherever this thread may.
    Free,
}

/// How many VDPs weir has, and where they process.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// One by every frame, or so many by VLAN, from 1 up.
    pub vdps: Option<u16>,
    /// Where.
    pub path: Path,
    /// A virtual router's.
    pub worker: Worker,
}

impl Shape {
    /// One VDP on the fast path.
    pub const ONE: Shape = Shape { vdps: None, path: Path::Fast, worker: Worker::Own };
}

enum Device {
    /// The wire, or the kernel's own forwarding.
    Kernel(#[allow(dead_code, reason = "it lives as long as the bed")] Option<Namespace>),
    Weir(#[allow(dead_code, reason = "as above")] Namespace, Option<Box<DataPlane>>),
    Lab(Box<lab::Lab>),
    /// The process goes before the namespace.
    Run(
        #[allow(dead_code, reason = "as above")] Box<Process>,
        #[allow(dead_code, reason = "as above")] Namespace,
    ),
}

/// An element with a generator's and a receiver's interface.
pub struct Bed {
    /// What forwards.
    pub element: Element,
    own: Option<Namespace>,
    device: Device,
}

const NO_NETFILTER: &[(&str, &str)] = &[
    ("bridge/bridge-nf-call-iptables", "0"),
    ("bridge/bridge-nf-call-ip6tables", "0"),
    ("bridge/bridge-nf-call-arptables", "0"),
];
const FORWARD: &[(&str, &str)] = &[("ipv4/ip_forward", "1")];

impl Bed {
    /// Makes it.
    ///
    /// # Errors
    /// No rights, no iproute2, something that does not come up.
    pub fn new(element: Element, shape: Shape) -> Result<Self> {
        let bed = match element {
            Element::OpenVSwitch => Self::by_lab(element, lab::Kind::Ovs)?,
            _ => Self::in_namespaces(element, shape)?,
        };
        bed.address()?;
        if let Device::Lab(l) = &bed.device {
            let to = |mac: MacAddr, port| (mac, port);
            let (t1, t2, s2) = (tester_mac(0), tester_mac(1), host_mac(1));
            ovs_flows(l, &[to(t1, 1), to(t2, 2), to(s2, 2)])?;
        }
        Ok(bed)
    }

    /// A switch of a lab, without flows.
    pub fn by_lab(element: Element, kind: lab::Kind) -> Result<Self> {
        let lab = Box::new(lab::Lab::start(kind)?);
        Ok(Self { element, own: None, device: Device::Lab(lab) })
    }

    fn in_namespaces(element: Element, shape: Shape) -> Result<Self> {
        left::sweep();
        let tester = Namespace::new(left::STUDY, "t")?;
        tester.set(QUIET)?;
        if element == Element::PointToPoint {
            tester
                .ip("link add name e1 type veth peer name e2\nlink set e1 up\nlink set e2 up\n")?;
            return Ok(Self { element, own: Some(tester), device: Device::Kernel(None) });
        }
        let device = Namespace::new(left::STUDY, "d")?;
        device.set(QUIET)?;
        let (mut lines, mut up) = (String::new(), String::new());
        for n in 1..=2u16 {
            let (mac, of) = (dut_mac(n - 1), device.name());
            lines += &format!(
                "link add name e{n} type veth peer name p{n} address {mac} netns {of}\nlink set e{n} up\n"
            );
            up += &format!("link set p{n} up\n");
        }
        tester.ip(&lines)?;
        device.ip(&up)?;
        let device = match element {
            Element::Vdp => {
                let plane = device.within(|| plane(shape))?;
                Device::Weir(device, Some(Box::new(plane)))
            }
            Element::Router(a) => Device::Run(Box::new(router(&device, a, shape.worker)?), device),
            _ => {
                forward(element, &device)?;
                Device::Kernel(Some(device))
            }
        };
        Ok(Self { element, own: Some(tester), device })
    }

    /// Where the tester is.
    pub fn tester(&self) -> Result<&Namespace> {
        match (&self.own, &self.device) {
            (Some(t), _) => Ok(t),
            (None, Device::Lab(l)) => Ok(l.namespaces().0),
            _ => Err(anyhow!("a bed without a tester")),
        }
    }

    /// The lab that it is made of, if it is.
    pub fn lab(&self) -> Option<&lab::Lab> {
        match &self.device {
            Device::Lab(l) => Some(l),
            _ => None,
        }
    }

    /// weir's data plane, where it is the element and not running.
    pub fn plane(&mut self) -> Option<&mut Option<Box<DataPlane>>> {
        match &mut self.device {
            Device::Weir(_, plane) => Some(plane),
            _ => None,
        }
    }

    /// Addresses of generator and receiver, and the way back.
    fn address(&self) -> Result<()> {
        let back = match self.element {
            // One address at all its interfaces.
            Element::Router(_) => dut_mac(0),
            Element::NativeRouter | Element::NativeHybrid => dut_mac(1),
            _ => tester_mac(0),
        };
        self.tester()?.ip(&format!(
            "link set e1 address {}\nlink set e2 address {}\naddr add {RECEIVER}/24 dev e2\n\
             neigh replace 198.19.1.1 lladdr {back} dev e2 nud permanent\n\
             route add 198.18.0.0/16 via 198.19.1.1 dev e2\n",
            tester_mac(0),
            tester_mac(1)
        ))
    }

    /// Whom frames for the host behind the receiver are addressed to.
    pub fn to_host(&self) -> MacAddr {
        match self.element.layer() {
            Layer::Two => host_mac(1),
            Layer::Three => dut_mac(0),
        }
    }

    /// Whom frames for the receiver itself are addressed to.
    pub fn to_receiver(&self) -> MacAddr {
        match self.element.layer() {
            Layer::Two => tester_mac(1),
            Layer::Three => dut_mac(0),
        }
    }

    /// The kernel's count of what arrives at the receiver.
    ///
    /// # Errors
    /// The file can't be opened.
    pub fn arrivals(&self) -> Result<Arrivals> {
        let path = "/proc/thread-self/net/dev";
        // The file stays that of the namespace in which it was opened.
        Ok(Arrivals(self.tester()?.within(|| File::open(path).context(path))?))
    }
}

/// Frames that arrived at e2.
pub struct Arrivals(File);

impl Arrivals {
    /// Until now.
    ///
    /// # Errors
    /// The interface has gone.
    pub fn frames(&mut self) -> Result<u64> {
        let mut text = String::new();
        self.0.rewind()?;
        self.0.read_to_string(&mut text)?;
        let line = text.lines().find_map(|l| l.trim_start().strip_prefix("e2:"));
        let count = line.and_then(|l| l.split_whitespace().nth(1)?.parse().ok());
        count.ok_or_else(|| anyhow!("no count of what arrives at e2"))
    }
}

/// A `weir run` with a virtual router, which has a route for the frames and knows their next hops.
fn router(device: &Namespace, of: Arrangement, worker: Worker) -> Result<Process> {
    let cpus = allowed();
    let own = cpus.last().filter(|_| worker == Worker::Own);
    let own = own.map_or_else(String::new, |c| format!("cpu = {c}"));
    let ports: String =
        [1, 2].map(|n| format!("[[port]]\nname = \"p{n}\"\ndevice = \"xdp:p{n}\"\n")).concat();
    let process = Process::start(device, &format!("frames = 16384\n{own}"), &ports)?;
    let vdp = "[[vdp]]\nvid = 1\nname = \"r\"\nports = [\"p1\", \"p2\"]\n\
               mapping = [\"in_port=p1\", \"in_port=p2\"]\n";
    let address = |port: &str, address: &str| (port.to_owned(), vec![address.to_owned()]);
    let router = wanted::Router {
        data_plane: of.data_plane(),
        mac: Some(dut_mac(0).to_string()),
        address: [address("p1", "198.18.0.1/24"), address("p2", "198.19.1.1/24")].into(),
        ..wanted::Router::default()
    };
    let addresses = Addresses::New;
    process.ask(&Request::RouterPut { toml: vdp.to_owned(), router, addresses })?;
    let inside = shown(&process)?.namespace;
    let (t1, t2, s2) = (tester_mac(0), tester_mac(1), host_mac(1));
    let lines = format!(
        "neigh replace {GENERATOR} lladdr {t1} dev p1 nud permanent\n\
         neigh replace {RECEIVER} lladdr {t2} dev p2 nud permanent\n\
         neigh replace 198.19.1.100 lladdr {s2} dev p2 nud permanent\n\
         route add 198.20.0.0/16 via 198.19.1.100\n"
    );
    batch("ip", &["-n", &inside], &lines)?;
    if of == Arrangement::OwnOther {
        let first = cpus.first().copied().unwrap_or(0);
        for port in ["p1", "p2"] {
            let to = format!("/sys/class/net/{port}/queues/rx-0/rps_cpus");
            let set = format!("echo {:x} > {to}", 1u64 << (first % 64));
            let done =
                Command::new("ip").args(["netns", "exec", &inside, "sh", "-c", &set]).status();
            ensure!(done.is_ok_and(|s| s.success()), "{to} of the router can't be set");
        }
    }
    // Where the data plane follows the routes: until it has them.
    let begin = Instant::now();
    while shown(&process)?.route_rules.is_some_and(|n| n < 1) {
        ensure!(begin.elapsed() < PATIENCE, "the router's routes do not become rules");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(SETTLE);
    Ok(process)
}

/// The router as its data plane tells it.
fn shown(process: &Process) -> Result<RouterItem> {
    let items = process.ask(&Request::RouterShow {})?;
    let found = items.into_iter().find_map(|i| match i {
        Item::Router(r) => Some(*r),
        _ => None,
    });
    found.context("the data plane does not show its router")
}

/// The kernel's own forwarding.
fn forward(element: Element, device: &Namespace) -> Result<()> {
    let (t1, t2, s2) = (tester_mac(0), tester_mac(1), host_mac(1));
    let (d1, d2) = (dut_mac(0), dut_mac(1));
    let mut lines = String::new();
    let mut hosts = String::new();
    let (in_by, out_by) = match element {
        Element::NativeBridge => {
            lines += "link add br1 type bridge\nlink set br1 up\nlink set p1 master br1\nlink set p2 master br1\n";
            hosts += &format!("fdb replace {t1} dev p1 master static\n");
            hosts += &format!(
                "fdb replace {t2} dev p2 master static\nfdb replace {s2} dev p2 master static\n"
            );
            ("", "")
        }
        Element::NativeHybrid => {
            lines += "link add br1 type bridge\nlink add br2 type bridge\n";
            lines += "link set p1 master br1\nlink set p2 master br2\n";
            lines += &format!("link set br1 address {d1}\nlink set br2 address {d2}\n");
            lines += "link set br1 up\nlink set br2 up\n";
            hosts += &format!("fdb replace {t1} dev p1 master static\n");
            hosts += &format!(
                "fdb replace {t2} dev p2 master static\nfdb replace {s2} dev p2 master static\n"
            );
            ("br1", "br2")
        }
        _ => ("p1", "p2"),
    };
    if !in_by.is_empty() {
        lines +=
            &format!("addr add 198.18.0.1/24 dev {in_by}\naddr add 198.19.1.1/24 dev {out_by}\n");
        lines += &format!("neigh replace {GENERATOR} lladdr {t1} dev {in_by} nud permanent\n");
        lines += &format!("neigh replace {RECEIVER} lladdr {t2} dev {out_by} nud permanent\n");
        lines += &format!("neigh replace 198.19.1.100 lladdr {s2} dev {out_by} nud permanent\n");
        lines += "route add 198.20.0.0/16 via 198.19.1.100\n";
    }
    device.ip(&lines)?;
    if !hosts.is_empty() {
        batch("bridge", &["-n", device.name()], &hosts)?;
        device.set(NO_NETFILTER)?;
    }
    if in_by.is_empty() { Ok(()) } else { device.set(FORWARD) }
}

/// A data plane with both ports, and VDPs that switch by destination.
fn plane(shape: Shape) -> Result<DataPlane> {
    let mut plane = DataPlane::new(Config::default())?;
    let umem = Umem::new();
    let mut ports = Vec::new();
    for (no, name) in [(1, "p1"), (2, "p2")] {
        let options = Options { mode: Mode::Native, ..Options::default() };
        let device = AfXdp::open(name, options, &umem, plane.pool_mut())?;
        ports.push((PortNo(no), plane.add_port(name, Box::new(device))?));
    }
    match shape.vdps {
        None => vdp(&mut plane, Vid(1), Match::any(), &ports, shape.path)?,
        Some(n) => {
            for vlan in 1..=n {
                let matcher = Match::any().with(Field::VlanVid, u128::from(VLAN_PRESENT | vlan));
                vdp(&mut plane, Vid(vlan), matcher, &ports, shape.path)?;
            }
        }
    }
    Ok(plane)
}

fn vdp(
    plane: &mut DataPlane,
    vid: Vid,
    matcher: Match,
    ports: &[(PortNo, PortId)],
    path: Path,
) -> Result<()> {
    let mut spec = VdpSpec::new(vid, &format!("net{vid}"));
    spec.ports = ports.to_vec();
    spec.mapping = vec![MappingRule { matcher, priority: 1 }];
    spec.default = vec![Action::Drop];
    spec.path = path;
    plane.create_vdp(spec)?;
    for (MacAddr(mac), port) in [(tester_mac(0), 1), (tester_mac(1), 2), (host_mac(1), 2)] {
        let mac = mac.iter().fold(0, |v, b| v << 8 | u128::from(*b));
        let matcher = Match::any().with(Field::EthDst, mac);
        let actions = [Action::Output(Out::Port(PortNo(port)))].into();
        let rule = RuleSpec { matcher, priority: 1, cookie: 0, actions };
        plane.add_rule(vid, 0, &rule, Placement::Fast)?;
    }
    Ok(())
}

/// Flows by destination in a lab's switch.
fn ovs_flows(lab: &lab::Lab, to: &[(MacAddr, u32)]) -> Result<()> {
    use crate::controller::{flows::add, link::Link};
    use weir_openflow::model as of;
    let at = lab.at;
    let stream = lab.device()?.within(|| Ok(std::net::TcpStream::connect(at)?))?;
    let mut link = Link::greet(stream, Version::V13)?;
    for (MacAddr(mac), port) in to {
        let mac = mac.iter().fold(0, |v, b| v << 8 | u128::from(*b));
        let matcher = of::Match::default().with(of::Field::EthDst, mac);
        let to = of::Action::Output { port: of::Port(*port), max_len: 0 };
        link.send(of::Message::FlowMod(add(1, matcher, to)))?;
    }
    link.barrier().map(drop)
}
