//! All virtual routers of a `weir run`: made exactly what is asked for, changed, deleted, reported.
//!
//! Room: above the other files of this folder. Called by the handler of requests, one request at a time, and
//! when the process begins and ends. Lock order: routers, then the plan.

use super::called::Called;
use super::carrier::Carriers;
use super::cgroup::Group;
use super::follow::Follower;
use super::kinds::{self, Begun};
use super::one::{One, limits, prepared, start, words};
use super::programs::{Place, Programs, Text, end, inside};
use super::shape::Pushed;
use super::wires::{Names, Wires};
use crate::config::diff::Step;
use crate::config::plan::VdpPlan;
use crate::config::read::vdp_from;
use crate::namespace;
use crate::socket::handler::bad;
use crate::socket::items::RouterItem;
use crate::socket::live::{Live, NotDone};
use crate::socket::protocol::{Addresses, Done};
use anyhow::Result;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;
use weir_dataplane::Vid;
use weir_supervisor::model::Kind;
use weir_supervisor::model::router::{DataPlane, Router, check, has_cpus};
use weir_supervisor::refusal::Way;
use weir_supervisor::section::digest;
use weir_wire::MacAddr;

/// All routers of a process.
#[derive(Debug)]
pub struct Routers {
    called: Called,
    all: Mutex<BTreeMap<u16, One>>,
    /// What was last known of them: who looks while one is made, which takes seconds with FRR inside, is told this.
    known: Mutex<BTreeMap<u16, RouterItem>>,
    carriers: Carriers,
}

/// Whether the VDP that a router's node is goes with the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    Goes,
    /// It was there before, or will be afterwards.
    Stays,
}

/// All routers, for a change. Whoever looks meanwhile is told how they were before, and when it is answered what came of it.
struct Changing<'r> {
    routers: &'r Routers,
    all: MutexGuard<'r, BTreeMap<u16, One>>,
}

impl Deref for Changing<'_> {
    type Target = BTreeMap<u16, One>;
    fn deref(&self) -> &Self::Target {
        &self.all
    }
}
impl DerefMut for Changing<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.all
    }
}
impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.routers.look(&self.all);
    }
}

impl Routers {
    /// None yet, of the data plane whose control socket this is. What one before it has left is taken away.
    pub fn new(socket: &Path) -> Self {
        let called = Called::after(socket);
        if rustix::process::geteuid().is_root() {
            called.sweep();
        }
        Self { called, ..Self::none() }
    }

    /// None, and none will be: of a data plane that nobody asks for any.
    pub fn none() -> Self {
        let (all, known) = (Mutex::default(), Mutex::default());
        Self { called: Called::default(), all, known, carriers: Carriers::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u16, One>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// All of them, to change them.
    fn begin(&self) -> Changing<'_> {
        self.begin_with(self.lock())
    }
    fn begin_with<'r>(&'r self, all: MutexGuard<'r, BTreeMap<u16, One>>) -> Changing<'r> {
        self.look(&all);
        Changing { routers: self, all }
    }
    fn look(&self, all: &BTreeMap<u16, One>) -> BTreeMap<u16, RouterItem> {
        let items: BTreeMap<_, _> = all.iter().map(|(vid, o)| (*vid, o.item())).collect();
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&items);
        items
    }

    /// Makes a router exactly what is asked for: `toml` is its VDP's section. A VDP that is there becomes it,
    /// frames flowing.
    ///
    /// # Errors
    /// It can't be; then a new one leaves nothing, and what was there is as before in what was not reached.
    pub fn put(
        &self,
        live: &Live,
        toml: &str,
        router: Router,
        addresses: Addresses,
    ) -> Result<Done, NotDone> {
        let mut all = self.begin();
        let v = read(live, &all, toml)?;
        let ports: Vec<&str> = v.ports.iter().map(|(n, _)| n.as_str()).collect();
        check(&router, &ports, &Way::default()).map_err(|e| bad(format!("{}: {e}", e.at)))?;
        if let (Some(asked), Some(there)) = (&router.cpus, &live.own().processors)
            && !has_cpus(there, asked)
        {
            let text = format!("router '{}' wants processors {asked}, there are {there}", v.name);
            return Err(bad(text));
        }
        let before = match all.contains_key(&v.vid.0) {
            true => None,
            false => live.look(|m| kinds::before(m, &v))??,
        };
        if !rustix::process::geteuid().is_root() {
            return Err(bad(
                "virtual routers need root: run 'weir run' as root, or leave them out",
            ));
        }
        if let Some(o) = all.get_mut(&v.vid.0) {
            return self.change(live, o, v, router).map(noted);
        }
        let (vid, name) = (v.vid.0, v.name.clone());
        let (own, addresses) = match before {
            Some(_) => (Own::Stays, Addresses::Kept),
            None => (Own::Goes, addresses),
        };
        let begun = Begun::now(live, v.vid)?;
        match self.make(live, v, router, own, addresses) {
            Ok((one, told, pause)) => {
                all.insert(vid, one);
                let became = before.map(|_| begun.ended(live, name, Kind::Router, pause));
                Ok(Done { became: became.transpose()?.map(Box::new), ..noted(told) })
            }
            Err(e) => {
                self.take_away(live, vid, &name, None, own);
                before.map_or(Ok(()), |old| kinds::back(live, old))?;
                Err(e)
            }
        }
    }

    /// Makes all of a router; when it is there, frames go to it.
    fn make(
        &self,
        live: &Live,
        v: VdpPlan,
        router: Router,
        own: Own,
        addresses: Addresses,
    ) -> Result<(One, Vec<String>, Duration), NotDone> {
        let taken: Vec<u16> = live.look(|m| m.plan.vdps.keys().copied().collect())?;
        let mut free = (1..u16::MAX).rev().filter(|n| !taken.contains(n) && *n != v.vid.0);
        let plane = free.next().ok_or_else(|| bad("no number is left for a router's VDP"))?;
        let called = self.called.namespace(&v.name);
        let folder = self.called.make_folder(&v.name).map_err(work)?;
        let interfaces = self.called.interfaces_of(v.vid.0);
        let ports = format!("_r{}.", v.vid);
        let names = Names { namespace: &called, interfaces: &interfaces, ports: &ports };
        let tail = digest(called.as_bytes()).to_be_bytes();
        let made = [0x02, tail[0], tail[1], tail[2], tail[3], tail[4]];
        let mac = MacAddr(router.mac().unwrap_or(made));
        let wires = Wires::make(names, &v, &router, mac, addresses).map_err(work)?;
        let group = Group::make(&called).map_err(work)?;
        group.limit(&limits(&router)).map_err(bad_anyhow)?;
        let door = wires.namespace.door().map_err(work)?;
        let place = Arc::new(Place { router: v.name.clone(), door, group, folder });
        let bridges = match router.data_plane {
            DataPlane::Bridged => free.take(v.ports.len()).collect(),
            _ => Vec::new(),
        };
        let (asked, follower, programs) = (v, None, Programs::none(Arc::clone(&place)));
        let mut one = One { router, asked, follower, programs, wires, plane, bridges, place };
        let (parts, mut steps) = (one.parts(&one.asked, &one.router)?, one.ports(&interfaces));
        let idle = |p: &VdpPlan| match own {
            Own::Goes => VdpPlan { mapping: Vec::new(), ..p.clone() },
            // What it is promised is promised to the VDP that it takes the place of, until it does.
            Own::Stays => kinds::idle(p),
        };
        steps.extend(parts.iter().map(|p| Step::CreateVdp(Box::new(idle(p)))));
        if own == Own::Goes {
            steps.push(Step::CreateVdp(Box::new(kinds::shell(&one.asked))));
        }
        let mut told = live.change(move |_| Ok(steps))?;
        // Before programs look: some ask for the longest packet once.
        self.carriers.follow(live.handle(), one.led(&interfaces)).map_err(work)?;
        if let Some(whole) = parts.last() {
            one.follower = self.follow(live, &one.router, whole, &one.wires).map_err(work)?;
        }
        let started = prepared(&one.place, &one.router)
            .and_then(|p| start(&mut one.programs, p, Text::Other));
        let started = started.and_then(|()| match addresses {
            Addresses::New => Ok(()),
            Addresses::Kept => one.wires.settle(),
        });
        let started =
            started.map_err(bad_anyhow).and_then(|()| kinds::take_place(live, &one.asked, parts));
        let started = started.and_then(|s| one.wires.ask_for_others().map_err(work).map(|()| s));
        let pause = match started {
            Ok((more, pause)) => {
                told.extend(more);
                pause
            }
            Err(e) => {
                one.leave();
                return Err(e);
            }
        };
        told.push(format!("router {}: {}", one.asked.name, words(&one.router)));
        Ok((one, told, pause))
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
            (v.name.clone(), v.ports.clone(), r.data_plane, (r.channel, r.wire), wires)
        };
        if nature(&v, &router) != nature(&o.asked, &o.router) {
            let text = "its name, ports, interface, mac, data_plane, wire, channel and vlan are made with it";
            return Err(bad(format!("{}: {text}; delete it first", o.asked.called())));
        }
        let what = |r: &Router| (r.frr.clone(), r.daemons.clone(), r.run.clone());
        let others = what(&router) != what(&o.router);
        // What can't be run is told before anything is touched.
        let new = others.then(|| prepared(&o.place, &router)).transpose().map_err(bad_anyhow)?;
        o.place.group.limit(&limits(&router)).map_err(bad_anyhow)?;
        o.wires.set_addresses(&router).map_err(work)?;
        let mut all = o.parts(&v, &router)?;
        let label = v.label.clone();
        let vid = v.vid;
        let mut told = live.change(move |m| {
            // What stands for it has its mark, and nothing else that may have changed.
            all.extend(m.plan.vdps.get(&vid.0).map(|n| VdpPlan { label, ..n.clone() }));
            kinds::steps_to(m, all)
        })?;
        if let Some(new) = new {
            let text = if router.frr == o.router.frr { Text::Same } else { Text::Other };
            if let Err(e) = start(&mut o.programs, new, text) {
                // Whoever puts the change back finds what it had.
                let old = prepared(&o.place, &o.router).map_err(work)?;
                start(&mut o.programs, old, text).map_err(work)?;
                return Err(bad_anyhow(e));
            }
            told.push(format!("router {}: its programs that changed were started again", v.name));
        }
        (o.router, o.asked) = (router, v);
        Ok(told)
    }

    /// Makes a router the VDP that a section says, frames flowing; `None` if it is no router's.
    ///
    /// # Errors
    /// It can't be; then it is a router still.
    pub fn end_as_vdp(&self, live: &Live, toml: &str) -> Option<Result<Done, NotDone>> {
        let all = self.lock();
        if all.is_empty() {
            return None;
        }
        // What can't be read is refused by whoever would do it else.
        let v = read(live, &all, toml).ok().filter(|v| all.contains_key(&v.vid.0))?;
        let mut all = self.begin_with(all);
        let one = all.remove(&v.vid.0)?;
        let (vid, name) = (v.vid, v.name.clone());
        Some(match becomes_vdp(live, &one, v) {
            Err(e) => {
                all.insert(vid.0, one);
                Err(e)
            }
            Ok((begun, told, pause)) => {
                self.take_away(live, vid.0, &name, Some(one), Own::Stays);
                let became = begun.ended(live, name, Kind::Vdp, pause);
                became.map(|b| Done { became: Some(Box::new(b)), ..noted(told) })
            }
        })
    }

    /// Deletes a router, with its VDP; nothing is left.
    ///
    /// # Errors
    /// There is none of this number or name.
    pub fn delete(&self, live: &Live, which: &str) -> Result<Vec<String>, NotDone> {
        let mut all = self.begin();
        let is = |(vid, o): &(&u16, &One)| vid.to_string() == which || o.asked.name == which;
        let Some(vid) = all.iter().find(is).map(|(vid, _)| *vid) else {
            let which: String = which.chars().take(64).collect();
            return Err(bad(format!("there is no virtual router '{which}'")));
        };
        let Some(one) = all.remove(&vid) else { return Ok(Vec::new()) };
        let name = one.asked.name.clone();
        self.take_away(live, vid, &name, Some(one), Own::Goes);
        Ok(vec![format!("router {name}: deleted")])
    }

    fn take_away(&self, live: &Live, vid: u16, name: &str, one: Option<One>, own: Own) {
        let called = self.called.namespace(name);
        let mut one = one;
        one.iter_mut().for_each(One::leave);
        if let Ok(file) = File::open(format!("/run/netns/{called}")) {
            end(|| inside(&file));
        }
        // A worker that has ended has none of it any more.
        let _ = live.change(|m| {
            let kept = m.plan.ports.iter().filter(|p| p.router() == Some(name));
            let kept: Vec<&String> = kept.map(|p| &p.name).collect();
            let is_own = |v: &VdpPlan| v.vid.0 == vid && v.name == name;
            let its = |v: &&VdpPlan| {
                let part = v.part_of == Some(Vid(vid));
                part || is_own(v) || v.ports.iter().any(|(p, _)| kept.contains(&p))
            };
            let mut steps = Vec::new();
            for v in m.plan.vdps.values().filter(|v| v.vid.0 != 0).filter(its) {
                if own == Own::Stays && is_own(v) {
                    continue;
                }
                if own == Own::Stays && v.part_of == Some(Vid(vid)) {
                    steps.push(Step::Bequeath(v.vid, Vid(vid)));
                }
                steps.push(Step::DeleteVdp(v.vid));
            }
            steps.extend(kept.into_iter().map(|p| Step::RemovePort(p.clone())));
            Ok(steps)
        });
        self.carriers.leave(&self.called.interfaces_of(vid));
        // The kernel would do so with the namespace, but in its own time.
        let _ = Wires::unplug(&self.called.interfaces_of(vid));
        drop(one);
        namespace::delete(&called);
        let group = Group::left(&called);
        end(|| group.processes());
        group.remove();
        self.called.remove_folder(name);
    }

    /// Deletes all.
    pub fn clear(&self, live: &Live) {
        let all = std::mem::take(&mut *self.begin());
        for (vid, one) in all {
            let name = one.asked.name.clone();
            self.take_away(live, vid, &name, Some(one), Own::Goes);
        }
    }

    /// How they do, by their VDPs' numbers; as it was last looked at, while somebody changes them or looks.
    pub fn status(&self) -> BTreeMap<u16, RouterItem> {
        match self.all.try_lock() {
            Ok(all) => self.look(&all),
            Err(TryLockError::Poisoned(e)) => self.look(&e.into_inner()),
            Err(TryLockError::WouldBlock) => {
                self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
            }
        }
    }
}

/// Gives a router's frames to a VDP.
fn becomes_vdp(
    live: &Live,
    one: &One,
    v: VdpPlan,
) -> Result<(Begun, Vec<String>, Duration), NotDone> {
    let begun = Begun::now(live, v.vid)?;
    let parts = one.parts(&one.asked, &one.router)?;
    let outside: Vec<String> = one.asked.ports.iter().map(|(n, _)| n.clone()).collect();
    let (told, pause) = kinds::give_place(live, v, parts, &outside)?;
    Ok((begun, told, pause))
}

fn noted(notes: Vec<String>) -> Done {
    Done { notes, ..Done::default() }
}

/// Reads a section; ports that lead to routers are nobody's to name.
fn read(live: &Live, all: &BTreeMap<u16, One>, toml: &str) -> Result<VdpPlan, NotDone> {
    let own =
        |n: &String| all.values().any(|o| o.wires.wires.iter().any(|w| w.near.as_ref() == Some(n)));
    let known = live.look(|m| {
        let names = m.plan.ports.iter().map(|p| p.name.clone());
        names.filter(|n| !own(n)).collect::<Vec<_>>()
    })?;
    Ok(VdpPlan { place: None, ..vdp_from(toml, None, &known, None)? })
}

/// The machine is to blame.
fn work(e: anyhow::Error) -> NotDone {
    NotDone::System(e)
}

fn bad_anyhow(e: anyhow::Error) -> NotDone {
    bad(format!("{e:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever looks while a router is made does not wait until it is there.
    #[test]
    fn who_looks_does_not_wait_for_a_change() {
        let routers = Routers::none();
        let change = routers.begin();
        assert!(routers.status().is_empty());
        drop(change);
    }
}
