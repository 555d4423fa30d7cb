//! A router that is there, and what it comes to: ports, the VDPs that forward for it, programs to run.
//!
//! Room: one router; what it holds is made and changed by [`super::node`], its only caller.

use super::carrier::Led;
use super::cgroup::Limits;
use super::follow::Follower;
use super::frr::Frr;
use super::programs::{Place, Program, Programs, Text, end, inside};
use super::shape::{Wire as Joined, bridged_end, bridges, compose};
use super::wires::Wires;
use crate::config::diff::Step;
use crate::config::plan::{PortPlan, VdpPlan};
use crate::config::program::ProgramPlan;
use crate::socket::handler::bad;
use crate::socket::items::{ProgramItem, RouterItem};
use crate::socket::live::NotDone;
use anyhow::{Result, anyhow};
use std::path::Path;
use std::sync::Arc;
use weir_dataplane::Vid;
use weir_io::open::{self, PortSpec};
use weir_supervisor::model::router::{DataPlane, Router, Wire};

/// A router that is there.
#[derive(Debug)]
pub struct One {
    /// As it was asked for.
    pub router: Router,
    /// Its VDP without wires, as it was asked for.
    pub asked: VdpPlan,
    /// Keeps rules as its routes are.
    pub follower: Option<Follower>,
    /// What runs inside.
    pub programs: Programs,
    /// Its namespace, and what leads there.
    pub wires: Wires,
    /// The VDP that forwards for it.
    pub plane: u16,
    /// Its bridges' VDPs, in its ports' order.
    pub bridges: Vec<u16>,
    /// Where programs run.
    pub place: Arc<Place>,
}

impl One {
    /// The ports between the data plane and its namespace.
    pub fn ports(&self, interfaces: &str) -> Vec<Step> {
        let keep = |name: String, kind, target| {
            let spec = PortSpec { kind, target };
            let label = Some(PortPlan::routers_label(&self.asked.name));
            Step::AddPort(PortPlan { name, spec, label, place: None })
        };
        let mut steps = Vec::new();
        for ((_, no), w) in self.asked.ports.iter().zip(&self.wires.wires) {
            if let Some(near) = &w.near {
                let kind = match self.router.wire {
                    Wire::AfPacket => open::Kind::AfPacket,
                    Wire::AfXdp => open::Kind::Xdp,
                };
                steps.push(keep(near.clone(), kind, format!("{interfaces}{no}")));
            }
            if w.outer != w.port {
                for end in [w.outer.clone(), bridged_end(&w.outer)] {
                    steps.push(keep(end, open::Kind::Memory, w.outer.clone()));
                }
            }
        }
        steps
    }

    /// Its wires, by this end's interface, and what each follows.
    pub fn led(&self, interfaces: &str) -> Vec<(String, Led)> {
        let wires = self.asked.ports.iter().zip(&self.wires.wires);
        let led = |w: &Joined| Led {
            port: w.port.clone(),
            inside: w.inside.clone(),
            place: Arc::clone(&self.place),
            ends_here: w.near.is_some(),
            tagged: self.router.vlan.is_some(),
        };
        wires.map(|((_, no), w)| (format!("{interfaces}{no}"), led(w))).collect()
    }

    /// The VDPs that forward for it, for what was asked: its bridges, and last its own.
    pub fn parts(&self, v: &VdpPlan, router: &Router) -> Result<Vec<VdpPlan>, NotDone> {
        let plane = Vid(self.plane);
        let part = |of: Vid, p: VdpPlan| VdpPlan { part_of: Some(of), label: v.label.clone(), ..p };
        let bridges = bridges(v, &self.wires.wires, self.bridges.iter().copied());
        let mut all: Vec<VdpPlan> = bridges.into_iter().map(|b| part(plane, b)).collect();
        let own = VdpPlan { vid: plane, name: format!("_router.{}", v.vid), ..v.clone() };
        let mut own = part(v.vid, compose(own, router, &self.wires.wires).map_err(bad)?);
        if let Some(taps) = &self.wires.taps {
            own.program = Some(ProgramPlan::Container(taps.clone()));
        }
        all.push(own);
        Ok(all)
    }

    /// Ends what runs for it.
    pub fn leave(&mut self) {
        drop(self.follower.take());
        self.programs.leave();
        end(|| inside(self.wires.namespace.file()));
    }

    pub fn item(&self) -> RouterItem {
        let programs = self.programs.status().into_iter();
        let follow = self.follower.as_ref().map(Follower::status);
        RouterItem {
            name: self.asked.name.clone(),
            vid: self.asked.vid.0,
            forwards: self.plane,
            data_plane: self.router.data_plane.name().to_owned(),
            namespace: self.wires.namespace.name().to_owned(),
            folder: self.place.folder.display().to_string(),
            mac: self.wires.mac.to_string(),
            programs: programs
                .map(|p| ProgramItem { name: p.name, pid: p.pid, ended: p.ended })
                .collect(),
            processes: inside(self.wires.namespace.file()).len(),
            cpu_us: self.place.group.cpu_us(),
            memory_bytes: self.place.group.memory_bytes(),
            routes: follow.as_ref().map(|f| f.routes),
            route_rules: follow.as_ref().map(|f| f.rules),
            route_rules_slow: follow.as_ref().map(|f| f.slow),
            fault: follow.and_then(|f| f.fault),
        }
    }
}

pub fn limits(r: &Router) -> Limits {
    Limits {
        cpu_permille: r.cpu_quota_permille,
        cpus: r.cpus.clone(),
        memory_bytes: r.memory_bytes,
    }
}

pub fn words(r: &Router) -> String {
    match r.data_plane {
        DataPlane::Own => "forwards by itself".to_owned(),
        other => format!("the shared data plane forwards by its routes, {}", other.name()),
    }
}

/// What a router runs: its programs, and FRR if it has that.
pub type Prepared = (Vec<Program>, Option<Frr>);

/// What is to run, with its files in place.
pub fn prepared(place: &Place, r: &Router) -> Result<Prepared> {
    let (mut all, mut frr) = (Vec::new(), None);
    if r.frr.is_some() || !r.daemons.is_empty() {
        let text = r.frr.clone().unwrap_or_default();
        let (f, programs) = Frr::prepare(&place.folder, &r.running(), &text)?;
        (all, frr) = (programs, Some(f));
    }
    for words in &r.run {
        let path = words.first().ok_or_else(|| anyhow!("run: an empty program"))?;
        if !Path::new(path).exists() {
            return Err(anyhow!("run: {path} is not there: install it, or take it away"));
        }
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        all.push(Program { name, words: words.clone() });
    }
    Ok((all, frr))
}

/// Has what was prepared run.
pub fn start(programs: &mut Programs, (all, frr): Prepared, text: Text) -> Result<()> {
    if let Some(frr) = &frr {
        frr.take_up()?;
    }
    programs.exchange(all, frr, text)
}
