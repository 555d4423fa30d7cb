//! Two tenants and a guest network by `weir apply` of a LAB file: one attacked, one moved, isolation proved, the
//! guest deleted; and what the tenants noticed of it.
//!
//! Room: a data plane in this process with a control socket of its own in a temporary folder, and the same
//! supervisor, store and requests that `weir apply`, `weir net migrate` and `weir net verify` use. The tenants' frames
//! are numbered; they are sent and read here while the operator's thread does its deeds.

use super::report::{Noticed, Proof, Shared};
use crate::commands::style::Progress;
use crate::config::apply::{self, Devices, Model};
use crate::config::diff::diff;
use crate::config::read;
use crate::net::change::{Keeper, Verify};
use crate::net::lab::LabFile;
use crate::net::nodes::Nodes;
use crate::router::node::Routers;
use crate::socket::live::Live;
use crate::socket::server::{self, Server};
use anyhow::{Context, Result, anyhow, ensure};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};
use weir_dataplane::{DataPlane, Runner, Serving, WhenIdle};
use weir_io::memory::{Memory, MemoryPeer, WireSize};
use weir_supervisor::model::{Lab, Path as NodePath};

/// The LAB file, as it is shipped.
const LAB: &str = include_str!("../../../../../labs/demo.toml");
/// The node's ports: each network's own, in the order of the networks, and the uplink.
const PORTS: [&str; 4] = ["red", "blue", "guest", "uplink"];
/// The tenants, by place in [`PORTS`], with the VLAN of each.
const TENANTS: [(usize, &str, u16); 2] = [(0, "red", 10), (1, "blue", 20)];
/// The guest's place.
const GUEST: usize = 2;
/// Frames of a tenant that its ring may hold at once: it sends at its own pace, however busy the data plane is.
const AHEAD: u64 = 64;
/// Bytes of a frame without FCS.
const FRAME: usize = 60;
/// Something is broken when a step takes longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// There are no networks yet, and nobody sends.
const BEFORE: u8 = 0;
/// What the guest does while the tenants talk.
const CALM: u8 = 1;
const FLOODING: u8 = 2;
/// And the end of all.
const OVER: u8 = 3;

/// How long the guest floods.
pub fn run(flood: Duration, progress: &mut Progress) -> Result<Shared> {
    let begin = Instant::now();
    crate::openflow::log::hush();
    let folder = Folder::new()?;
    let lab = folder.0.join("demo.toml");
    std::fs::write(&lab, LAB).with_context(|| lab.display().to_string())?;
    let (live, runner, peers) = node()?;
    let socket = folder.0.join("node.sock");
    let mut server = Server::start(server::bind(&socket)?, Arc::clone(&live))?;
    let mut shared = Shared::default();
    let stage = AtomicU8::new(BEFORE);
    progress.say("applying labs/demo.toml, attacking one tenant, moving the other");
    let traffic = std::thread::scope(|scope| {
        let hosts = scope.spawn(|| Traffic::new(peers).run(&stage));
        let done = operate(&folder.0, flood, &stage, &mut shared);
        stage.store(OVER, Ordering::Release);
        let traffic = hosts.join().map_err(|_| anyhow!("the hosts ended early"))?;
        done.map(|()| traffic)
    });
    live.switches().stop();
    server.stop();
    drop(server);
    drop(live);
    let mut end = runner.stop()?;
    shared.imbalance = end.snapshot().check().err().map(|e| format!("among shared networks: {e}"));
    for p in end.snapshot().ports {
        // The port was just listed; the snapshot's line for removed ports has none.
        let _ = end.remove_port(p.id);
    }
    traffic?.tell(&mut shared);
    shared.seconds = begin.elapsed().as_secs_f64();
    Ok(shared)
}

/// A folder among temporary files, gone when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("weir-demo-{}.lab", std::process::id()));
        std::fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A physical node: ports, and no VDP but the default one.
fn node() -> Result<(Arc<Live>, Runner, Vec<MemoryPeer>)> {
    let ports: String =
        PORTS.iter().map(|p| format!("[[port]]\nname = \"{p}\"\ndevice = \"memory\"\n")).collect();
    let text = format!("[dataplane]\nserving = {{ threads = 1 }}\n{ports}");
    let plan = read::from_text(&text, "the demo's node").map_err(|e| anyhow!("{e}"))?;
    let mut plane = DataPlane::new(plan.fixed.config.clone())?;
    let mut model = Model::new(&plan, Devices::Real);
    let mut peers = Vec::new();
    for name in PORTS {
        let (device, peer) = Memory::with_peer(name, WireSize::default());
        model.supplied.insert(name.to_owned(), device);
        peers.push(peer);
    }
    let steps = diff(&model.plan, &plan).map_err(|e| anyhow!("{e}"))?;
    apply::run_here(&mut plane, &mut model, steps).map_err(|e| anyhow!("{e}"))?;
    let runner = Runner::start(plane, Serving::Threads(1), WhenIdle::Rest)?;
    let live = Arc::new(Live::new(runner.handle(), model, Routers::none())?);
    Ok((live, runner, peers))
}

/// What the operator does while hosts talk.
fn operate(folder: &Path, flood: Duration, stage: &AtomicU8, shared: &mut Shared) -> Result<()> {
    let mut keeper = Keeper::open(&folder.join("net.redb"))?;
    let file = LabFile::load(&folder.join("demo.toml"))?;
    let begin = Instant::now();
    let prepared = keeper.prepare(file.lab.clone(), Some(&file), Verify::AsTheLabSays)?;
    shared.steps = prepared.steps.iter().map(ToString::to_string).collect();
    keeper.make(prepared)?;
    shared.applied_ms = begin.elapsed().as_secs_f64() * 1e3;
    stage.store(CALM, Ordering::Release);
    shared.networks = file.lab.network.iter().map(|n| n.name.clone()).collect();
    shared.proofs.push(proof(&keeper.saved.state.lab)?);
    stage.store(FLOODING, Ordering::Release);
    std::thread::sleep(flood);
    for path in [NodePath::Slow, NodePath::Fast] {
        let begin = Instant::now();
        change(&mut keeper, |lab| {
            let blue = lab.network.iter_mut().find(|n| n.name == "blue");
            for node in blue.into_iter().flat_map(|n| &mut n.node) {
                node.path = path;
            }
        })?;
        shared.moves_ms.push(begin.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(flood / 4);
    }
    shared.proofs.push(proof(&keeper.saved.state.lab)?);
    // The guest has had its day: the file without it.
    change(&mut keeper, |lab| lab.network.retain(|n| n.name != "guest"))?;
    shared.proofs.push(proof(&keeper.saved.state.lab)?);
    stage.store(CALM, Ordering::Release);
    std::thread::sleep(flood / 4);
    Ok(())
}

/// Makes a change of what holds.
fn change(keeper: &mut Keeper, edit: impl FnOnce(&mut Lab)) -> Result<()> {
    let mut lab = keeper.saved.state.lab.clone();
    edit(&mut lab);
    let prepared = keeper.prepare(lab, None, Verify::AsTheLabSays)?;
    ensure!(!prepared.steps.is_empty(), "a change of networks changes nothing");
    keeper.make(prepared)
}

/// What `weir net verify` says of the node.
fn proof(lab: &Lab) -> Result<Proof> {
    let proved = Nodes::connect([lab])?.verify(&[])?;
    let of = proved.values().next().context("no node was asked whether networks are isolated")?;
    let v = &of.verified;
    Ok(Proof {
        isolated: v.isolated,
        networks: v.networks,
        rules: v.rules,
        decided_us: v.read_us + v.decide_us,
    })
}

/// A tenant's numbered frames.
#[derive(Default)]
struct Tenant {
    sent: u64,
    next: u64,
    lost: u64,
    again: u64,
    arrived: u64,
}

/// The hosts: numbered frames of the tenants, the guest's flood, and who gets what.
struct Traffic {
    peers: Vec<MemoryPeer>,
    tenants: [Tenant; 2],
    flooded: u64,
    spoofed: u64,
    guest: u64,
    strange: u64,
}

impl Traffic {
    fn new(peers: Vec<MemoryPeer>) -> Self {
        Self { peers, tenants: Default::default(), flooded: 0, spoofed: 0, guest: 0, strange: 0 }
    }

    /// Until the end, and until everything that was sent has come or nothing comes any more.
    fn run(mut self, stage: &AtomicU8) -> Self {
        let mut ended: Option<Instant> = None;
        loop {
            match stage.load(Ordering::Acquire) {
                OVER => {
                    let since = *ended.get_or_insert_with(Instant::now);
                    let all = self.tenants.iter().all(|t| t.next == t.sent);
                    if all || since.elapsed() > PATIENCE {
                        self.receive();
                        return self;
                    }
                }
                BEFORE => {}
                now => {
                    self.talk();
                    if now == FLOODING {
                        self.flood();
                    }
                }
            }
            if self.receive() == 0 {
                std::thread::yield_now();
            }
        }
    }

    /// A frame of each tenant whose last ones have not all come yet, but nearly.
    fn talk(&mut self) {
        for (t, (port, _, vlan)) in self.tenants.iter_mut().zip(TENANTS) {
            if t.sent - t.next >= AHEAD {
                continue;
            }
            let f = frame(Some(vlan), port as u8, t.sent);
            if self.peers.get_mut(port).is_some_and(|p| p.send(&f).is_ok()) {
                t.sent += 1;
            }
        }
    }

    /// As many of the guest's as there is room for; every fourth says that it is a tenant's.
    fn flood(&mut self) {
        let Some(peer) = self.peers.get_mut(GUEST) else { return };
        for n in 0..64 {
            let (vlan, count) = match n % 4 {
                0 => (Some(TENANTS[0].2), &mut self.spoofed),
                _ => (None, &mut self.flooded),
            };
            if peer.send(&frame(vlan, GUEST as u8, 0)).is_err() {
                break;
            }
            *count += 1;
        }
    }

    /// Takes what has come; how many frames.
    fn receive(&mut self) -> usize {
        let Self { peers, tenants, guest, strange, .. } = self;
        let (mut n, mut bytes) = (0, Vec::new());
        for (port, peer) in peers.iter_mut().enumerate() {
            while peer.recv(&mut bytes) {
                n += 1;
                let whose = whose(&bytes);
                // By a network's own port nothing comes here: every rule sends by the uplink.
                match whose.filter(|_| PORTS.get(port) == Some(&"uplink")) {
                    Some((Some(vlan), of, number)) => {
                        let tenant = TENANTS.iter().position(|t| (t.0, t.2) == (of, vlan));
                        match tenant.and_then(|at| tenants.get_mut(at)) {
                            Some(t) => t.take(number),
                            None => *strange += 1,
                        }
                    }
                    Some((None, GUEST, _)) => *guest += 1,
                    _ => *strange += 1,
                }
            }
        }
        n
    }

    fn tell(&self, shared: &mut Shared) {
        shared.flooded = self.flooded;
        shared.spoofed = self.spoofed;
        shared.guest_arrived = self.guest;
        shared.strange = self.strange;
        shared.tenants = TENANTS
            .iter()
            .zip(&self.tenants)
            .map(|((_, name, _), t)| Noticed {
                network: (*name).to_owned(),
                sent: t.sent,
                arrived: t.arrived,
                lost: t.lost + (t.sent - t.next),
                again: t.again,
            })
            .collect();
    }
}

impl Tenant {
    fn take(&mut self, number: u64) {
        self.arrived += 1;
        if number < self.next || number >= self.sent {
            // Twice, behind a later one, or never sent.
            self.again += 1;
        } else {
            self.lost += number - self.next;
            self.next = number + 1;
        }
    }
}

/// A frame of the network at a place, of a type for experiments (IEEE 802, 0x88b5).
fn frame(vlan: Option<u16>, of: u8, number: u64) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 9, of, 2, 0, 0, 0, 8, of];
    if let Some(v) = vlan {
        f.extend([0x81, 0]);
        f.extend(v.to_be_bytes());
    }
    f.extend([0x88, 0xb5, of]);
    f.extend(number.to_be_bytes());
    f.resize(FRAME, 0);
    f
}

/// VLAN, network and number of a frame that was made here.
fn whose(f: &[u8]) -> Option<(Option<u16>, usize, u64)> {
    let (vlan, rest) = match f.get(12..)? {
        [0x81, 0, a, b, rest @ ..] => (Some(u16::from_be_bytes([*a, *b])), rest),
        rest => (None, rest),
    };
    let [0x88, 0xb5, of, number @ ..] = rest else { return None };
    Some((vlan, usize::from(*of), u64::from_be_bytes(*number.first_chunk()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_say_whose_they_are() {
        assert_eq!(whose(&frame(Some(10), 0, 7)), Some((Some(10), 0, 7)));
        assert_eq!(whose(&frame(None, 2, 0)), Some((None, 2, 0)));
        assert_eq!(whose(&[0; 60]), None);
    }

    #[test]
    fn a_tenant_notices() {
        let mut t = Tenant { sent: 5, ..Tenant::default() };
        [0, 2, 1, 2, 9].into_iter().for_each(|n| t.take(n));
        assert_eq!((t.arrived, t.lost, t.again, t.next), (5, 1, 3, 3));
    }
}
