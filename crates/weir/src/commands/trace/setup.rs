//! A data plane for one frame: as configured, but with every port in memory.

use crate::bench::rig::{load_rules, ports_of};
use crate::config::apply::{self, Devices, Model};
use crate::config::diff::diff;
use crate::config::plan::PortPlan;
use crate::config::read;
use crate::fault::bad_input;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;
use weir_classify::{Geometry, Match};
use weir_dataplane::flowtext::Names;
use weir_dataplane::programs::by_name;
use weir_dataplane::{
    Action, Config, DataPlane, MappingRule, Placement, PortNo, RuleSpec, UserFields, VdpSpec, Vid,
};
use weir_io::Kind;
use weir_io::memory::{Memory, MemoryPeer, WireSize};
use weir_packet::{Nanos, PortId};

/// A port and its far end.
pub struct TracePort {
    /// Its number in the data plane.
    pub id: PortId,
    /// What people call it.
    pub name: String,
    /// Its far end.
    pub peer: MemoryPeer,
}

/// What a VDP calls its ports and its own fields.
#[derive(Debug, Default)]
pub struct OwnNames {
    /// Its ports.
    pub ports: Vec<(String, PortNo)>,
    /// Its fields.
    pub fields: UserFields,
}

impl Names for OwnNames {
    fn port(&self, name: &str) -> Option<PortNo> {
        self.ports.iter().find(|(n, _)| n == name).map(|(_, no)| *no)
    }
    fn port_name(&self, port: PortNo) -> Option<&str> {
        self.ports.iter().find(|(_, no)| *no == port).map(|(n, _)| n.as_str())
    }
    fn user_fields(&self) -> &UserFields {
        &self.fields
    }
}

/// Frames that may wait at a port's far end.
const SLOTS: usize = 64;
/// Rounds of a microsecond that the data plane is given.
const ROUNDS: usize = 5000;

/// A data plane that waits for its one frame.
pub struct Setup {
    /// The data plane.
    pub plane: DataPlane,
    /// Its ports.
    pub ports: Vec<TracePort>,
    /// The port by which the frame comes in.
    pub in_port: PortId,
    /// Ports that are configured with a shortcut.
    pub shortcuts: Vec<PortId>,
    /// The names that each VDP's rules are written with, by VID; without, ports are numbers.
    pub own_names: BTreeMap<u16, OwnNames>,
    now: Nanos,
}

impl Setup {
    /// What people call a port.
    pub fn name_of(&self, id: PortId) -> String {
        let port = self.ports.iter().find(|p| p.id == id);
        port.map_or_else(|| format!("#{id}"), |p| p.name.clone())
    }
    /// Lets the data plane run for some milliseconds of its own time: programs notice that time
    /// passes every millisecond.
    pub fn run(&mut self) {
        for _ in 0..ROUNDS {
            self.now = self.now + Nanos(1000);
            self.plane.poll(self.now);
        }
    }
    /// Puts the frame in; says what left, port by port.
    pub fn pass(&mut self, frame: &[u8]) -> Result<Vec<(PortId, Vec<u8>)>> {
        let from = self.in_port;
        let port = self.ports.iter_mut().find(|p| p.id == from).context("the port has gone")?;
        port.peer.send(frame)?;
        Ok(self.left())
    }
    /// Lets programs say what they say by themselves when they begin, such as a router of its groups: no frame has caused that.
    pub fn settle(&mut self) {
        self.left();
    }
    /// Lets it run; says what left, port by port.
    fn left(&mut self) -> Vec<(PortId, Vec<u8>)> {
        self.run();
        let mut out = Vec::new();
        for p in &mut self.ports {
            let mut bytes = Vec::new();
            while p.peer.recv(&mut bytes) {
                out.push((p.id, std::mem::take(&mut bytes)));
            }
        }
        out
    }
}

fn memory_port(plane: &mut DataPlane, name: &str) -> Result<TracePort> {
    let size = WireSize { slots: SLOTS, max_frame_bytes: 2048 };
    let (device, peer) = Memory::with_peer(name, size);
    Ok(TracePort { id: plane.add_port(name, Box::new(device))?, name: name.to_owned(), peer })
}

/// The data plane of a configuration. `in_port` is a port's name, or its number in the file's order.
pub fn from_config(file: &Path, in_port: &str) -> Result<Setup> {
    let plan = read::load(file).map_err(bad_input)?;
    let numbered = in_port.parse::<usize>().ok().and_then(|n| plan.ports.get(n.checked_sub(1)?));
    let named = plan.ports.iter().find(|p| p.name == in_port).or(numbered);
    let Some(entry) = named.map(|p| p.name.clone()) else {
        let names: Vec<&str> = plan.ports.iter().map(|p| p.name.as_str()).collect();
        return Err(bad_input(format!(
            "--in-port {in_port}: {} has no such port: there are {}",
            file.display(),
            names.join(", ")
        )));
    };
    let config = Config { frames: 4096, ..plan.fixed.config.clone() };
    let size = WireSize { slots: SLOTS, max_frame_bytes: config.chunk_bytes };
    let mut plane = DataPlane::new(config).map_err(bad_input)?;
    let mut model = Model::new(&plan, Devices::Scratch);
    let mut peers = Vec::with_capacity(plan.ports.len());
    for p in &plan.ports {
        let (device, peer) = Memory::with_peer(&p.name, size);
        model.supplied.insert(p.name.clone(), device);
        peers.push((p.name.clone(), peer));
    }
    let steps = diff(&model.plan, &plan).map_err(bad_input)?;
    apply::run_here(&mut plane, &mut model, steps).map_err(bad_input)?;
    let ports = peers.into_iter().filter_map(|(name, peer)| {
        let id = *model.ids.get(&name)?;
        Some(TracePort { id, name, peer })
    });
    let ports: Vec<TracePort> = ports.collect();
    let in_port = *model.ids.get(&entry).context("the port has gone")?;
    let offer = |p: &&PortPlan| p.spec.kind == Kind::XdpShortcut;
    let offering = plan.ports.iter().filter(offer);
    let shortcuts = offering.filter_map(|p| model.ids.get(&p.name).copied()).collect();
    let own = plan
        .vdps
        .iter()
        .map(|(vid, v)| (*vid, OwnNames { ports: v.ports.clone(), fields: v.fields.clone() }));
    let own_names = own.collect();
    Ok(Setup { plane, ports, in_port, shortcuts, own_names, now: Nanos(0) })
}

/// One VDP with the rules of a file, and the ports that they name.
pub fn from_rules(rules: &Path, in_port: u32, program: Option<&str>) -> Result<Setup> {
    let rules = load_rules(rules)?;
    let program = program.map(by_name).transpose().map_err(bad_input)?;
    let size = u32::try_from(2 * rules.len() + (1 << 16))?.next_power_of_two();
    let tcam = Geometry { action_entries: size, ..Config::default().tcam };
    let mut plane = DataPlane::new(Config { tcam, frames: 4096, ..Config::default() })?;
    let mut numbers = ports_of(&rules);
    if !numbers.contains(&in_port) {
        numbers.insert(0, in_port);
    }
    let mut ports = Vec::with_capacity(numbers.len());
    for no in &numbers {
        ports.push(memory_port(&mut plane, &no.to_string())?);
    }
    let id = ports.iter().zip(&numbers).find(|(_, no)| **no == in_port).map(|(p, _)| p.id);
    let mut spec = VdpSpec::new(Vid(1), "rules");
    spec.ports = numbers.iter().zip(&ports).map(|(no, p)| (PortNo(*no), p.id)).collect();
    spec.mapping = vec![MappingRule { matcher: Match::any(), priority: 0 }];
    if program.is_none() {
        spec.default = vec![Action::Drop];
    }
    spec.program = program;
    plane.create_vdp(spec)?;
    for r in &rules {
        let rule = RuleSpec {
            matcher: r.matcher,
            priority: r.priority.into(),
            cookie: r.cookie,
            actions: r.actions.clone().into(),
        };
        let added = plane.add_rule(Vid(1), r.table, &rule, Placement::Fast);
        added.map_err(|e| bad_input(format!("rule '{r}': {e}")))?;
    }
    let in_port = id.context("the port has gone")?;
    let (shortcuts, own_names) = (Vec::new(), BTreeMap::new());
    Ok(Setup { plane, ports, in_port, shortcuts, own_names, now: Nanos(0) })
}
