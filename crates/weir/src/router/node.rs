//! All virtual routers of a `weir run`: made exactly what is asked for, changed, deleted, reported.
//!
//! Room: above the other files of this folder. Called by the handler of requests, one request at a time, and
//! when the process begins and ends. Lock order: routers, then the plan.
//!
//! Everything that a router has outside this process is called after it and after this data plane's control
//! socket: its namespace `weir-ID-NAME`, its groups likewise, its interfaces at this end `wID…`, its folder
//! `/run/weir-routers/ID/NAME`. So the next process at the same socket knows what one that was killed has
//! left, and takes it away.

use super::cgroup::{Group, Limits};
use super::follow::Follower;
use super::frr::Frr;
use super::programs::{Place, Program, Programs, end, inside};
use super::shape::{Pushed, bridged_end, bridges, compose};
use super::wires::{Names, Wires};
use crate::config::diff::{Step, diff_vdp};
use crate::config::plan::{PortPlan, VdpPlan};
use crate::config::program::ProgramPlan;
use crate::config::read::vdp_from;
use crate::namespace;
use crate::socket::handler::bad;
use crate::socket::live::{Live, NotDone};
use crate::socket::protocol::{ProgramItem, RouterItem};
use anyhow::{Context, Result, anyhow};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_io::open::{Kind, PortSpec};
use weir_supervisor::model::router::{DataPlane, Router, check};
use weir_supervisor::refusal::Way;
use weir_wire::MacAddr;

/// Where routers keep their files. Not among the control sockets: FRR's daemons, which are another user,
/// must come through.
const FILES: &str = "/run/weir-routers";

/// All routers of a process.
#[derive(Debug)]
pub struct Routers {
    /// Tells this data plane from others of the machine.
    id: String,
    all: Mutex<BTreeMap<u16, One>>,
}

#[derive(Debug)]
struct One {
    router: Router,
    /// Its VDP without wires, as it was asked for.
    asked: VdpPlan,
    follower: Option<Follower>,
    programs: Option<Programs>,
    wires: Wires,
    /// Its bridges' VDPs, in its ports' order.
    bridges: Vec<u16>,
    place: Arc<Place>,
}

/// FNV-1a with 64 bits.
fn digest(bytes: &[u8]) -> u64 {
    let step = |h: u64, b: &u8| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

impl Routers {
    /// None yet, of the data plane whose control socket this is. What one before it has left is taken away.
    pub fn new(socket: &Path) -> Self {
        let whole = std::path::absolute(socket).unwrap_or_else(|_| socket.to_owned());
        let id = digest(whole.as_os_str().as_encoded_bytes());
        let routers = Self { id: format!("{:08x}", id >> 32), all: Mutex::default() };
        if rustix::process::geteuid().is_root() {
            routers.sweep();
        }
        routers
    }

    /// None, and none will be: of a data plane that nobody asks for any.
    pub fn none() -> Self {
        Self { id: String::new(), all: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u16, One>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What all of a router's things are called.
    fn called(&self, name: &str) -> String {
        format!("weir-{}-{name}", self.id)
    }
    /// What interfaces at this end begin with: of all routers, and of one. A name has 15 letters.
    fn interfaces(&self) -> String {
        format!("w{}", self.id.get(..6).unwrap_or_default())
    }
    fn interfaces_of(&self, vid: u16) -> String {
        format!("{}{vid:04x}p", self.interfaces())
    }
    fn files(&self) -> PathBuf {
        Path::new(FILES).join(&self.id)
    }

    /// Takes away what is called after this data plane and is nobody's any more.
    fn sweep(&self) {
        let prefix = self.called("");
        let names = fs::read_dir("/run/netns").into_iter().flatten().flatten();
        let names = names.filter_map(|e| e.file_name().into_string().ok());
        for name in names.filter(|n| n.starts_with(&prefix)) {
            if let Ok(file) = File::open(format!("/run/netns/{name}")) {
                end(|| inside(&file));
            }
            namespace::delete(&name);
        }
        // Nobody is there to be told what the kernel does not give back.
        let _ = Wires::unplug(&self.interfaces());
        for name in Group::beginning(&prefix) {
            let group = Group::left(&name);
            end(|| group.processes());
            group.remove();
        }
        let _ = fs::remove_dir_all(self.files());
        self.forget_folders();
    }

    /// A router's folder, and those that it is in: theirs to come through, whatever the umask.
    fn make_folder(&self, folder: &Path) -> Result<()> {
        for path in [Path::new(FILES), &self.files(), folder] {
            fs::create_dir_all(path)
                .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o711)))
                .with_context(|| format!("making {}", path.display()))?;
        }
        Ok(())
    }

    /// Folders that no router is left in.
    fn forget_folders(&self) {
        for path in [self.files(), PathBuf::from(FILES)] {
            // One that somebody else's routers are in stays.
            let _ = fs::remove_dir(path);
        }
    }

    /// Makes a router exactly what is asked for: `toml` is its VDP's section.
    ///
    /// # Errors
    /// It can't be; then a new one leaves nothing, and one that was there is as before in what was not
    /// reached.
    pub fn put(&self, live: &Live, toml: &str, router: Router) -> Result<Vec<String>, NotDone> {
        let mut all = self.lock();
        let own: Vec<String> = all
            .values()
            .flat_map(|o| o.wires.wires.iter().filter_map(|w| w.near.clone()))
            .collect();
        let known = live.look(|m| {
            let names = m.plan.ports.iter().map(|p| p.name.clone());
            names.filter(|n| !own.contains(n)).collect::<Vec<_>>()
        })?;
        let v = VdpPlan { place: None, ..vdp_from(toml, None, &known, None)? };
        let ports: Vec<&str> = v.ports.iter().map(|(n, _)| n.as_str()).collect();
        check(&router, &ports, &Way::default()).map_err(|e| bad(format!("{}: {e}", e.at)))?;
        if !rustix::process::geteuid().is_root() {
            return Err(bad(
                "virtual routers need root: run 'weir run' as root, or leave them out",
            ));
        }
        if let Some(o) = all.get_mut(&v.vid.0) {
            return self.change(live, o, v, router);
        }
        let there = live.look(|m| {
            let same = |o: &&VdpPlan| o.vid == v.vid || o.name == v.name;
            m.plan.vdps.values().find(same).map(VdpPlan::called)
        })?;
        if let Some(called) = there {
            return Err(bad(format!("{called} is there already: delete it first")));
        }
        let (vid, name) = (v.vid.0, v.name.clone());
        match self.make(live, v, router) {
            Ok((one, told)) => {
                all.insert(vid, one);
                Ok(told)
            }
            Err(e) => {
                self.take_away(live, vid, &name, None);
                Err(e)
            }
        }
    }

    fn make(&self, live: &Live, v: VdpPlan, router: Router) -> Result<(One, Vec<String>), NotDone> {
        let called = self.called(&v.name);
        let folder = self.files().join(&v.name);
        self.make_folder(&folder).map_err(work)?;
        let interfaces = self.interfaces_of(v.vid.0);
        let ports = format!("_r{}.", v.vid);
        let names = Names { namespace: &called, interfaces: &interfaces, ports: &ports };
        let tail = digest(called.as_bytes()).to_be_bytes();
        let own = [0x02, tail[0], tail[1], tail[2], tail[3], tail[4]];
        let mac = MacAddr(router.mac().unwrap_or(own));
        let wires = Wires::make(names, &v, &router, mac).map_err(work)?;
        let group = Group::make(&called).map_err(work)?;
        group.limit(&limits(&router)).map_err(bad_anyhow)?;
        let mut whole = compose(v.clone(), &router, &wires.wires).map_err(bad)?;
        if let Some(taps) = &wires.taps {
            whole.program = Some(ProgramPlan::Container(taps.clone()));
        }
        let keep = |name: String, kind, target| {
            let spec = PortSpec { kind, target };
            let label = Some(PortPlan::routers_label(&v.name));
            Step::AddPort(PortPlan { name, spec, label, place: None })
        };
        let mut steps = Vec::new();
        for ((_, no), w) in v.ports.iter().zip(&wires.wires) {
            if let Some(near) = &w.near {
                steps.push(keep(near.clone(), Kind::AfPacket, format!("{interfaces}{no}")));
            }
            if w.outer != w.port {
                for end in [w.outer.clone(), bridged_end(&w.outer)] {
                    steps.push(keep(end, Kind::Memory, w.outer.clone()));
                }
            }
        }
        let mut numbers = Vec::new();
        if router.data_plane == DataPlane::Bridged {
            let taken: Vec<u16> = live.look(|m| m.plan.vdps.keys().copied().collect())?;
            let free = (1..u16::MAX).rev().filter(|n| !taken.contains(n));
            let all = bridges(&v, &wires.wires, free);
            numbers.extend(all.iter().map(|b| b.vid.0));
            steps.extend(all.into_iter().map(|b| Step::CreateVdp(Box::new(b))));
        }
        steps.push(Step::CreateVdp(Box::new(whole.clone())));
        let mut told = live.change(move |_| Ok(steps))?;
        let door = wires.namespace.door().map_err(work)?;
        let place = Arc::new(Place { router: v.name.clone(), door, group, folder });
        let follower = self.follow(live, &router, &whole, &wires).map_err(work)?;
        let programs = start(&place, &router).map_err(|e| {
            // The namespace goes now, and who is in it could not be found any more.
            end(|| inside(wires.namespace.file()));
            bad_anyhow(e)
        })?;
        told.push(format!("router {}: {}", v.name, words(&router)));
        Ok((One { router, asked: v, follower, programs, wires, bridges: numbers, place }, told))
    }

    fn follow(
        &self,
        live: &Live,
        router: &Router,
        whole: &VdpPlan,
        wires: &Wires,
    ) -> Result<Option<Follower>> {
        if router.data_plane == DataPlane::Own {
            return Ok(None);
        }
        let pushed = Pushed {
            router: router.clone(),
            vdp: whole.clone(),
            wires: wires.wires.clone(),
            mac: wires.mac,
        };
        Follower::start(&wires.namespace.door()?, live.handle().clone(), pushed).map(Some)
    }

    fn change(
        &self,
        live: &Live,
        o: &mut One,
        v: VdpPlan,
        router: Router,
    ) -> Result<Vec<String>, NotDone> {
        let nature = |v: &VdpPlan, r: &Router| {
            let wires = (r.interface.clone(), r.mac.clone(), r.vlan);
            (v.name.clone(), v.ports.clone(), r.data_plane, r.channel, wires)
        };
        if nature(&v, &router) != nature(&o.asked, &o.router) {
            let text = "its name, ports, interface, mac, data_plane, channel and vlan are made with it";
            return Err(bad(format!("{}: {text}; delete it first", o.asked.called())));
        }
        o.place.group.limit(&limits(&router)).map_err(bad_anyhow)?;
        o.wires.set_addresses(&router).map_err(work)?;
        let mut whole = compose(v.clone(), &router, &o.wires.wires).map_err(bad)?;
        if let Some(taps) = &o.wires.taps {
            whole.program = Some(ProgramPlan::Container(taps.clone()));
        }
        let mut all = bridges(&v, &o.wires.wires, o.bridges.iter().copied());
        all.push(whole);
        let mut told = live.change(move |m| {
            let mut steps = Vec::new();
            for new in all {
                match m.plan.vdps.get(&new.vid.0) {
                    Some(old) => steps.extend(diff_vdp(old, &new)?),
                    None => steps.push(Step::CreateVdp(Box::new(new))),
                }
            }
            Ok(steps)
        })?;
        let what = |r: &Router| (r.frr.clone(), r.daemons.clone(), r.run.clone());
        if what(&router) != what(&o.router) {
            if let Some(mut p) = o.programs.take() {
                p.leave();
            }
            end(|| inside(o.wires.namespace.file()));
            o.programs = start(&o.place, &router).map_err(bad_anyhow)?;
            told.push(format!("router {}: its programs were started again", v.name));
        }
        (o.router, o.asked) = (router, v);
        Ok(told)
    }

    /// Deletes a router, with its VDP; nothing is left.
    ///
    /// # Errors
    /// There is none of this number or name.
    pub fn delete(&self, live: &Live, which: &str) -> Result<Vec<String>, NotDone> {
        let mut all = self.lock();
        let is = |(vid, o): &(&u16, &One)| vid.to_string() == which || o.asked.name == which;
        let Some(vid) = all.iter().find(is).map(|(vid, _)| *vid) else {
            let which: String = which.chars().take(64).collect();
            return Err(bad(format!("there is no virtual router '{which}'")));
        };
        let Some(one) = all.remove(&vid) else { return Ok(Vec::new()) };
        let name = one.asked.name.clone();
        self.take_away(live, vid, &name, Some(one));
        Ok(vec![format!("router {name}: deleted")])
    }

    fn take_away(&self, live: &Live, vid: u16, name: &str, one: Option<One>) {
        let called = self.called(name);
        let mut one = one;
        if let Some(o) = &mut one {
            drop(o.follower.take());
            if let Some(mut p) = o.programs.take() {
                p.leave();
            }
        }
        if let Ok(file) = File::open(format!("/run/netns/{called}")) {
            end(|| inside(&file));
        }
        // A worker that has ended has none of it any more.
        let _ = live.change(|m| {
            let kept = m.plan.ports.iter().filter(|p| p.router() == Some(name));
            let kept: Vec<&String> = kept.map(|p| &p.name).collect();
            // Its own and its bridges'.
            let its = |v: &&VdpPlan| {
                (v.vid.0 == vid && v.name == name) || v.ports.iter().any(|(p, _)| kept.contains(&p))
            };
            let gone = m.plan.vdps.values().filter(|v| v.vid.0 != 0).filter(its);
            let mut steps: Vec<Step> = gone.map(|v| Step::DeleteVdp(v.vid)).collect();
            steps.extend(kept.into_iter().map(|p| Step::RemovePort(p.clone())));
            Ok(steps)
        });
        // The kernel would do so with the namespace, but in its own time.
        let _ = Wires::unplug(&self.interfaces_of(vid));
        drop(one);
        namespace::delete(&called);
        let group = Group::left(&called);
        end(|| group.processes());
        group.remove();
        let _ = fs::remove_dir_all(self.files().join(name));
        self.forget_folders();
    }

    /// Deletes all.
    pub fn clear(&self, live: &Live) {
        let all = std::mem::take(&mut *self.lock());
        for (vid, one) in all {
            let name = one.asked.name.clone();
            self.take_away(live, vid, &name, Some(one));
        }
    }

    /// How they do, by their VDPs' numbers.
    pub fn status(&self) -> BTreeMap<u16, RouterItem> {
        self.lock().iter().map(|(vid, o)| (*vid, o.item())).collect()
    }
}

impl One {
    fn item(&self) -> RouterItem {
        let programs = self.programs.iter().flat_map(Programs::status);
        let follow = self.follower.as_ref().map(Follower::status);
        RouterItem {
            name: self.asked.name.clone(),
            vid: self.asked.vid.0,
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

fn limits(r: &Router) -> Limits {
    Limits {
        cpu_permille: r.cpu_quota_permille,
        cpus: r.cpus.clone(),
        memory_bytes: r.memory_bytes,
    }
}

fn words(r: &Router) -> String {
    match r.data_plane {
        DataPlane::Own => "forwards by itself".to_owned(),
        other => format!("the shared data plane forwards by its routes, {}", other.name()),
    }
}

fn start(place: &Arc<Place>, r: &Router) -> Result<Option<Programs>> {
    let (mut all, mut frr) = (Vec::new(), None);
    if r.frr.is_some() || !r.daemons.is_empty() {
        let text = r.frr.clone().unwrap_or_default();
        let (f, programs) = Frr::prepare(&place.folder, &r.daemons, &text)?;
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
    match all.is_empty() {
        true => Ok(None),
        false => Programs::start(Arc::clone(place), all, frr).map(Some),
    }
}

/// The machine is to blame.
fn work(e: anyhow::Error) -> NotDone {
    NotDone::System(e)
}

fn bad_anyhow(e: anyhow::Error) -> NotDone {
    bad(format!("{e:#}"))
}
