//! Four virtual networks with a controller each: hosts of one network reach each other, and nobody
//! else's.
//!
//! The controllers are ordinary os-ken applications where os-ken is to be had (`./run demo` sees
//! to it and says so by `WEIR_OSKEN_MANAGER`), and weir's own small ones elsewhere. All of them speak
//! OpenFlow over TCP on loopback; the hosts are stacks in this process behind memory ports.

use super::hosts::{Host, ping};
use super::report::{Network, Networks};
use crate::commands::style::Progress;
use crate::config::apply::{self, Devices, Model};
use crate::config::diff::diff;
use crate::config::read;
use crate::controller::apps::{App, Running};
use crate::router::node::Routers;
use crate::socket::live::Live;
use anyhow::{Context, Result, anyhow, bail};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_dataplane::{DataPlane, Runner, Serving, WhenIdle};
use weir_io::memory::{Memory, WireSize};
use weir_wire::MacAddr;

/// Networks, and controllers.
const NETWORKS: u8 = 4;
/// Hosts of each network.
const HOSTS: u8 = 3;
/// Something is broken when a controller takes longer to come.
const PATIENCE: Duration = Duration::from_secs(20);
/// A ping inside a network may take so long, its controller's thinking included.
const ANSWER: Duration = Duration::from_secs(3);
/// A ping into another network is waited for so long.
const SILENCE: Duration = Duration::from_millis(300);

/// os-ken's applications, unlike one another, with the version of OpenFlow that each speaks.
const OSKEN: [(&str, &str); 4] = [
    ("os_ken.app.simple_switch_13", "1.3"),
    ("os_ken.app.simple_switch", "1.0"),
    ("os_ken.app.example_switch_13", "1.3"),
    ("os_ken.app.simple_switch_igmp_13", "1.3"),
];
/// weir's own in their place.
const OWN: [(App, &str); 4] = [
    (App::Learning13, "1.3"),
    (App::Learning10, "1.0"),
    (App::Hub, "1.3"),
    (App::EveryPacket, "1.3"),
];

/// A controller with its name and the version that it speaks.
type Named = (String, String, Controller);

/// A controller that runs, until it is dropped.
enum Controller {
    Own(Running),
    Process { child: Child, at: SocketAddr },
}

impl Controller {
    fn at(&self) -> SocketAddr {
        match self {
            Self::Own(r) => r.at,
            Self::Process { at, .. } => *at,
        }
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if let Self::Process { child, .. } = self {
            // One that has ended by itself needs no end.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// os-ken's controllers if they can be had, else weir's own.
fn controllers(progress: &mut Progress) -> Result<(String, Vec<Named>)> {
    let manager = std::env::var_os("WEIR_OSKEN_MANAGER").map(PathBuf::from);
    let why = match manager.filter(|p| p.exists()) {
        Some(manager) => {
            progress.say("starting four os-ken controllers");
            let all: Result<Vec<_>> = OSKEN.iter().map(|(a, v)| osken(&manager, a, v)).collect();
            match all {
                Ok(all) => return Ok(("os-ken's applications".to_owned(), all)),
                Err(e) => format!("os-ken's did not start ({e})"),
            }
        }
        None => "os-ken is not here".to_owned(),
    };
    let own = OWN.iter().map(|(app, v)| {
        let c = Controller::Own(Running::start(*app)?);
        Ok((app.name().to_owned(), (*v).to_owned(), c))
    });
    let kind = format!("weir's own small controllers, since {why}");
    Ok((kind, own.collect::<Result<_>>()?))
}

fn osken(manager: &PathBuf, app: &str, version: &str) -> Result<Named> {
    // A port that is free now; nobody else on this machine is expected to take it at once.
    let at = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let child = Command::new(manager)
        .args(["--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port"])
        .args([&at.port().to_string(), app])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("starting {app}"))?;
    let mut c = Controller::Process { child, at };
    let begin = Instant::now();
    while TcpStream::connect_timeout(&at, Duration::from_millis(200)).is_err() {
        let ended = match &mut c {
            Controller::Process { child, .. } => child.try_wait()?,
            Controller::Own(_) => None,
        };
        if ended.is_some() || begin.elapsed() > PATIENCE {
            bail!("{app} does not come up");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let name = app.rsplit('.').next().unwrap_or(app).to_owned();
    Ok((name, version.to_owned(), c))
}

fn port(network: u8, host: u8) -> String {
    format!("n{network}h{host}")
}

/// The configuration, as `weir run` would read it.
fn config(controllers: &[Named]) -> String {
    let mut text = String::from("[dataplane]\nserving = { threads = 1 }\n");
    for (n, (_, version, controller)) in (1..=NETWORKS).zip(controllers) {
        let names: Vec<String> = (1..=HOSTS).map(|h| port(n, h)).collect();
        for name in &names {
            // Writing to a String can't fail.
            let _ = writeln!(text, "[[port]]\nname = \"{name}\"\ndevice = \"memory\"");
        }
        let ports: Vec<String> = names.iter().map(|p| format!("\"{p}\"")).collect();
        let mapping: Vec<String> = names.iter().map(|p| format!("\"in_port={p}\"")).collect();
        let _ = writeln!(
            text,
            "[[vdp]]\nvid = {n}\nname = \"net{n}\"\nports = [{}]\nmapping = [{}]\n\
             [vdp.openflow]\nversions = [\"{version}\"]\ncontrollers = [\"tcp:{}\"]",
            ports.join(", "),
            mapping.join(", "),
            controller.at(),
        );
    }
    text
}

/// Starts it all, lets everybody ping everybody.
pub fn run(progress: &mut Progress) -> Result<Networks> {
    let begin = Instant::now();
    crate::openflow::log::hush();
    let (kind, controllers) = controllers(progress)?;
    let text = config(&controllers);
    let plan = read::from_text(&text, "the demo's networks").map_err(|e| anyhow!("{e}"))?;
    let mut plane = DataPlane::new(plan.fixed.config.clone())?;
    let mut model = Model::new(&plan, Devices::Real);
    let mut hosts = Vec::new();
    for n in 1..=NETWORKS {
        for h in 1..=HOSTS {
            let (device, wire) = Memory::with_peer(&port(n, h), WireSize::default());
            model.supplied.insert(port(n, h), device);
            // The same addresses in every network: tenants need not agree on any.
            let ip = Ipv4Addr::new(10, 0, 0, h);
            hosts.push(Host::new(MacAddr([2, 0, 0, 0, 0, h]), ip, wire));
        }
    }
    let steps = diff(&model.plan, &plan).map_err(|e| anyhow!("{e}"))?;
    apply::run_here(&mut plane, &mut model, steps).map_err(|e| anyhow!("{e}"))?;
    let runner = Runner::start(plane, Serving::Threads(1), WhenIdle::Rest)?;
    let live = Live::new(runner.handle(), model, Routers::none())?;
    if let Some(why) = live.follow()?.into_iter().next() {
        bail!(why);
    }
    let found = attend(&live, &mut hosts, &controllers, progress);
    live.switches().stop();
    let mut end = runner.stop()?;
    let imbalance = end.snapshot().check().err().map(|e| format!("among the networks: {e}"));
    for p in end.snapshot().ports {
        // The port was just listed; the snapshot's line for removed ports has none.
        let _ = end.remove_port(p.id);
    }
    let mut networks = found?;
    networks.controllers = kind;
    networks.imbalance = imbalance;
    networks.seconds = begin.elapsed().as_secs_f64();
    Ok(networks)
}

fn attend(
    live: &Live,
    hosts: &mut [Host],
    controllers: &[Named],
    progress: &mut Progress,
) -> Result<Networks> {
    connected(live, progress)?;
    let mut out = Networks::default();
    let per = usize::from(HOSTS);
    for (n, (name, version, _)) in controllers.iter().enumerate() {
        progress.say(format!("hosts of network {} ping each other", n + 1));
        let (mut sent, mut answered, mut first, mut second) = (0, 0, Vec::new(), Vec::new());
        for from in 0..per {
            for to in (0..per).filter(|to| *to != from) {
                let ip = hosts[n * per + to].ip;
                for times in [&mut first, &mut second] {
                    sent += 1;
                    if let Some(t) = ping(hosts, n * per + from, ip, ANSWER)? {
                        answered += 1;
                        times.push(t.as_secs_f64() * 1e6);
                    }
                }
            }
        }
        let flows = live.switches().status().get(&(n as u16 + 1)).map_or(0, |s| s.flows);
        out.networks.push(Network {
            vid: n as u16 + 1,
            controller: name.clone(),
            version: version.clone(),
            hosts: per,
            pings: sent,
            answered,
            first_us: median(first),
            later_us: median(second),
            flows,
        });
    }
    // A question that a whole network hears: not one frame of it may come to another network. Each asks for an address
    // of its own, so that one that comes late is still known for whose it is.
    let nobody = |n: usize| Ipv4Addr::new(10, 0, 0, 200 + n as u8);
    for n in 0..usize::from(NETWORKS) {
        progress.say(format!("network {} asks for a host that only others could have", n + 1));
        out.strange_pings += 1;
        out.strange_answers += u64::from(ping(hosts, n * per, nobody(n), SILENCE)?.is_some());
    }
    for n in 0..usize::from(NETWORKS) {
        for (i, h) in hosts.iter().enumerate() {
            let frames = h.questions.get(&nobody(n)).copied().unwrap_or(0);
            match i / per == n {
                true => out.heard_at_home += u64::from(frames > 0),
                false => out.strange_frames += frames,
            }
        }
    }
    Ok(out)
}

/// Waits until every switch has its controller.
fn connected(live: &Live, progress: &mut Progress) -> Result<()> {
    let begin = Instant::now();
    loop {
        let status = live.switches().status();
        let ready = |s: &crate::openflow::status::SwitchItem| {
            s.controllers.iter().any(|c| c.connections.iter().any(|c| c.version.is_some()))
        };
        let n = status.values().filter(|s| ready(s)).count();
        if n == usize::from(NETWORKS) {
            // A controller installs its first flow right after the greeting.
            std::thread::sleep(Duration::from_millis(200));
            return Ok(());
        }
        progress.tick(format_args!("{n} of {NETWORKS} controllers are connected"));
        if begin.elapsed() > PATIENCE {
            bail!("only {n} of {NETWORKS} controllers have come within {} s", PATIENCE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    v.get(v.len() / 2).copied().unwrap_or(0.0)
}
