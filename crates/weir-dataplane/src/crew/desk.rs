//! The desk: where a crew is asked. A replica that has no frames, on a thread of its own, so nobody's frames wait while it does
//! what it was asked.
//!
//! ```text
//!  Handle::call(closure) ─► desk: done here first, or refused ─► journal ─► worker 0, 1, … carry out the same, in this order
//!                             ▲ answered when the last has        readings ◄─ each worker's, added up
//! ```
//! Room: crew. `control` asks it: what changes a data plane is noted here where that is a desk's, what reads it is read
//! from the workers. Whoever asks a desk need not know that there are several. What a worker does otherwise than the desk is a
//! defect: then nobody is answered any more, and [`Crew::fault`](super::Crew::fault) says why.

use super::spread::{Spread, queues, spread};
use super::{CrewError, CrewHandle, Moved, merged};
use crate::action::{PortNo, Vid};
use crate::control::{
    ControlError, GroupCounters, PacketOut, Pins, PortView, QueueCounters, RuleRef, RuleView,
    Snapshot, VdpView,
};
use crate::counters::{PortCounters, TableCounters, Tally, Usage};
use crate::edge::VdpPortCounters;
use crate::plane::DataPlane;
use crate::punt::PuntSink;
use crate::runner::{Waker, WorkerGone};
use crate::tap::{Captured, TapId, TapPoint};
use crate::vdp::Phase;
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use weir_classify::Match;
use weir_packet::{Device, Pool, PortId};

/// What a worker carries out, and what is wrong with it then.
type Change = Box<dyn Fn(&mut DataPlane) -> Result<(), String> + Send + Sync>;

/// Changes that workers get at once, at most: what one request changes is seen whole or not at all by each frame, and takes no more
/// memory than this.
const TOGETHER: usize = 16_384;

/// How long frames may take to leave workers before a port is one worker's, or before ports rest.
const LEAVING: Duration = Duration::from_millis(50);

/// Why a port can't be one worker's whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhyNot {
    /// Others have frames of it that do not leave.
    Busy,
    /// Each has a queue of it.
    Queues,
}

/// What a desk's data plane has beside its replica.
pub(crate) struct Desk {
    crew: CrewHandle,
    wakers: Option<Box<[Waker]>>,
    /// What workers have not been told yet. Locked by one thread: the one that has the desk.
    journal: Mutex<Vec<Change>>,
    /// Why nobody is answered any more.
    broken: Arc<OnceLock<String>>,
    ports: Vec<(PortId, Spread)>,
}

impl Desk {
    pub(super) fn new(
        crew: CrewHandle,
        wakers: Option<Box<[Waker]>>,
        broken: Arc<OnceLock<String>>,
    ) -> Self {
        Self { crew, wakers, journal: Mutex::default(), broken, ports: Vec::new() }
    }
    fn journal(&self) -> MutexGuard<'_, Vec<Change>> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn breaks(&self, why: String) {
        // The first reason is the one.
        let _ = self.broken.set(why);
    }
    fn answered<T>(&self, answer: Result<T, impl std::fmt::Display>) -> Option<T> {
        answer.map_err(|e| self.breaks(e.to_string())).ok()
    }

    /// Notes what the desk has done with this answer, for every worker to do, too.
    pub(crate) fn note<T: PartialEq + Send + Sync + 'static>(
        &self,
        here: T,
        change: impl Fn(&mut DataPlane) -> Result<T, ControlError> + Send + Sync + 'static,
    ) {
        let again = move |p: &mut DataPlane| match change(p) {
            Ok(there) if there == here => Ok(()),
            Ok(_) => Err("done otherwise".to_owned()),
            Err(e) => Err(e.to_string()),
        };
        let full = {
            let mut journal = self.journal();
            journal.push(Box::new(again));
            journal.len() >= TOGETHER
        };
        if full {
            self.settle();
        }
    }

    /// Has every worker do what was noted, and waits for the last. `false`: the crew is broken.
    pub(crate) fn settle(&self) -> bool {
        if self.broken.get().is_some() {
            return false;
        }
        let noted = std::mem::take(&mut *self.journal());
        if noted.is_empty() {
            return true;
        }
        let noted: Arc<[Change]> = noted.into();
        let each = self.crew.read(move |p| noted.iter().try_for_each(|change| change(p)));
        for (worker, done) in self.answered(each).into_iter().flatten().enumerate() {
            if let Err(there) = done {
                let first = "done".to_owned();
                self.breaks(CrewError::Diverged { worker, first, here: there }.to_string());
            }
        }
        self.broken.get().is_none()
    }

    /// What each worker says, after everything that was noted before.
    pub(crate) fn all<R: Send + 'static>(
        &self,
        f: impl Fn(&mut DataPlane) -> R + Clone + Send + 'static,
    ) -> Option<Vec<R>> {
        self.settle().then(|| self.crew.read(f)).and_then(|each| self.answered(each))
    }
    /// The same, where each may refuse; none does what the desk does not.
    pub(crate) fn each<R: Send + 'static>(
        &self,
        f: impl Fn(&mut DataPlane) -> Result<R, ControlError> + Clone + Send + 'static,
    ) -> Option<Vec<R>> {
        let all: Result<Vec<R>, ControlError> = self.all(f)?.into_iter().collect();
        self.answered(all)
    }
    /// What one worker says.
    pub(crate) fn one<R: Send + 'static>(
        &self,
        worker: usize,
        f: impl FnOnce(&mut DataPlane) -> R + Send + 'static,
    ) -> Option<R> {
        let ask = || self.crew.worker(worker).ok_or(WorkerGone).and_then(|w| w.call(f));
        self.settle().then(ask).and_then(|said| self.answered(said))
    }
    /// Gives each worker something of its own, and has it say something.
    pub(crate) fn deal<T: Send + 'static, R: Send + 'static>(
        &self,
        parts: Vec<T>,
        f: impl Fn(&mut DataPlane, T) -> R + Clone + Send + 'static,
    ) -> Option<Vec<R>> {
        let one = |(worker, part)| {
            let f = f.clone();
            self.one(worker, move |p| f(p, part))
        };
        parts.into_iter().enumerate().map(one).collect()
    }
    pub(crate) fn workers(&self) -> usize {
        self.crew.workers()
    }

    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        self.settle();
        self.answered(self.crew.snapshot())?.merged()
    }
    pub(crate) fn port_views(&self) -> Option<Vec<PortView>> {
        let mut all = Vec::new();
        self.all(|p| p.port_views())?.iter().for_each(|each| merged::add_ports(&mut all, each));
        Some(all)
    }
    pub(crate) fn phases(&self) -> Option<Vec<(Vid, Phase)>> {
        let mut all = BTreeMap::new();
        for (vid, phase) in self.all(|p| p.phases())?.into_iter().flatten() {
            merged::add_phase(all.entry(vid).or_insert(phase), phase);
        }
        Some(all.into_iter().collect())
    }
    pub(crate) fn vdp_view(&self, vid: Vid) -> Option<VdpView> {
        self.all(move |p| p.vdp_view(vid))?.into_iter().flatten().reduce(|mut a, v| {
            merged::add_vdp(&mut a, &v);
            a
        })
    }
    /// Whether no worker has anything left of a deleted VDP.
    pub(crate) fn is_gone(&self, vid: Vid) -> bool {
        let there = self.all(move |p| p.vdps.get(usize::from(vid.0)).is_some_and(Option::is_some));
        there.is_some_and(|all| !all.contains(&true))
    }
    pub(crate) fn tallies(
        &self,
        vid: Vid,
        table: u8,
        slots: std::ops::Range<u32>,
    ) -> Vec<(u32, Tally)> {
        let each = self.each(move |p| {
            let mut out = Vec::new();
            p.tallies(vid, table, slots.clone(), &mut out).map(|()| out)
        });
        let mut sum = BTreeMap::<u32, Tally>::new();
        for (slot, n) in each.into_iter().flatten().flatten() {
            sum.entry(slot).or_default().merge(n);
        }
        sum.into_iter().collect()
    }

    /// Adds a port whose device takes its frames from the region of worker `home`. `desk` is the data plane without this.
    pub(crate) fn add_port(
        &mut self,
        desk: &mut DataPlane,
        name: &str,
        device: Box<dyn Device>,
        home: usize,
    ) -> Result<PortId, ControlError> {
        let Ok((devices, port)) = spread(device, home, self.workers()) else {
            let why = "a worker that there is has a port's device";
            return Err(ControlError::Size { what: "home", value: home, why });
        };
        self.add(desk, name, devices, port)
    }
    /// Adds a port of which each worker has a queue, whose device takes its frames from that worker's region.
    pub(crate) fn add_queues(
        &mut self,
        desk: &mut DataPlane,
        name: &str,
        devices: Vec<Box<dyn Device>>,
    ) -> Result<PortId, ControlError> {
        let (value, why) = (devices.len(), "a port has one, or one for each worker");
        match queues(devices) {
            Ok((devices, port)) if value == self.workers() => self.add(desk, name, devices, port),
            _ => Err(ControlError::Size { what: "queues", value, why }),
        }
    }
    fn add(
        &mut self,
        desk: &mut DataPlane,
        name: &str,
        devices: Vec<Box<dyn Device>>,
        port: Spread,
    ) -> Result<PortId, ControlError> {
        if let Some(w) = &self.wakers {
            port.set_wakers(w);
        }
        let id = match desk.add_port(name, port.watch()) {
            Ok(id) => id,
            Err(e) => {
                self.deal(devices, |p, mut d| d.close(p.pool_mut()));
                return Err(e);
            }
        };
        let called = name.to_owned();
        let added = self.deal(devices, move |p, d| p.add_port(&called, d));
        if !added.into_iter().flatten().all(|a| a.is_ok_and(|there| there == id)) {
            self.breaks(format!("port {name}: workers did not add it as port {id}"));
        }
        self.crew.watch_over(|all| all.push(port.clone()));
        self.ports.push((id, port));
        Ok(id)
    }
    /// Has workers keep ports whole, when all that was noted before has been done; says which port could not be, and the others
    /// are as they were found.
    pub(crate) fn keep_whole(&self, pins: &Pins) -> Result<(), (PortId, usize, WhyNot)> {
        if !pins.is_empty() && !self.settle() {
            return Ok(());
        }
        for (id, (worker, _)) in pins {
            let Some((_, port)) = self.ports.iter().find(|(i, _)| i == id) else { continue };
            if port.has_queues() {
                return Err((*id, *worker, WhyNot::Queues));
            }
            let kept = self.crew.keep_whole(port, Some(*worker), LEAVING);
            if self.answered(kept) == Some(Moved::Stayed) {
                return Err((*id, *worker, WhyNot::Busy));
            }
        }
        Ok(())
    }
    /// Has ports dealt out again that are not among these, when all that was noted before has been done.
    pub(crate) fn let_go(&self, pins: &Pins) {
        let needless = |(id, s): &&(PortId, Spread)| s.whole().is_some() && !pins.contains_key(id);
        for (_, port) in self.ports.iter().filter(needless) {
            if self.settle() {
                self.answered(self.crew.keep_whole(port, None, LEAVING));
            }
        }
    }
    /// Leaves frames in the devices, or takes them again. What was dealt out before goes on until it has left, for a while.
    pub(crate) fn rest_ports(&self, rest: bool) {
        if rest {
            self.settle();
            self.answered(self.crew.pause(LEAVING));
        }
        self.all(move |p| p.rest_ports(rest));
        if !rest {
            self.crew.resume();
        }
    }

    /// Removes a port that the desk has; its counters, of all workers.
    pub(crate) fn remove_port(&mut self, id: PortId) -> Option<PortCounters> {
        let at = self.ports.iter().position(|(i, _)| *i == id)?;
        let (_, port) = self.ports.remove(at);
        // No bucket of it is on its way meanwhile, and none will be.
        self.crew.watch_over(|all| all.retain(|s| !s.is(&port)));
        port.close();
        // First everybody gives back, then everybody takes.
        self.all(|p| p.recall())?;
        self.all(|p| p.recall())?;
        self.each(move |p| p.remove_port(id))?.into_iter().reduce(|mut a, c| {
            a.rx.merge(c.rx);
            a.tx.merge(c.tx);
            a.tx_dropped.merge(&c.tx_dropped);
            a
        })
    }
}

/// Readings and what happens once, asked for by `control`'s methods of the same names.
impl Desk {
    pub(crate) fn usage(&self, vid: Vid, rules: &[RuleRef]) -> Vec<Usage> {
        self.settle();
        let used = self.answered(self.crew.usage(vid, rules));
        used.unwrap_or_else(|| vec![Usage::default(); rules.len()])
    }
    pub(crate) fn table_counters(&self, vid: Vid) -> Vec<TableCounters> {
        self.settle();
        self.answered(self.crew.table_counters(vid)).unwrap_or_default()
    }
    /// Gives views of rules the hits that they have at the workers.
    pub(crate) fn count_hits(&self, vid: Vid, rules: &mut [RuleView]) {
        let mut hits = HashMap::<_, Tally>::with_capacity(rules.len());
        for r in self.each(move |p| Ok(p.rules(vid)?.0)).into_iter().flatten().flatten() {
            hits.entry((r.table, r.spec.matcher, r.spec.priority)).or_default().merge(r.hits);
        }
        for r in rules {
            let here = (r.table, r.spec.matcher, r.spec.priority);
            r.hits = hits.get(&here).copied().unwrap_or_default();
        }
    }
    pub(crate) fn take_rule(&self, vid: Vid, at: RuleRef, matcher: Match, priority: u32) -> Usage {
        let each = self.each(move |p| p.take_rule(vid, at, &matcher, priority).map(|u| vec![u]));
        merged::usage(each.unwrap_or_default()).pop().unwrap_or_default()
    }
    /// Takes what the desk took of each worker, too; lets go of it here.
    pub(crate) fn take_table(&self, vid: Vid, table: u8, rules: usize) {
        let taken = self.all(move |p| p.take_table(vid, table, rules));
        if taken.is_some_and(|all| all.iter().any(Option::is_none)) {
            self.breaks(format!("VDP {vid}: a worker has other rules in table {table}"));
        }
    }
    pub(crate) fn group_counters(&self, vid: Vid, id: u32) -> GroupCounters {
        let each = self.each(move |p| p.group_counters(vid, id)).into_iter().flatten();
        let sum = each.reduce(|mut a, g| {
            a.counted.merge(g.counted);
            a.buckets.iter_mut().zip(g.buckets).for_each(|(a, b)| a.merge(b));
            a
        });
        sum.unwrap_or_default()
    }
    pub(crate) fn vdp_port_counters(&self, vid: Vid) -> Vec<(PortNo, VdpPortCounters)> {
        let each = self.each(move |p| p.vdp_port_counters(vid)).into_iter().flatten();
        let sum = each.reduce(|mut a, all| {
            a.iter_mut().zip(all).for_each(|((_, a), (_, c))| a.merge(&c));
            a
        });
        sum.unwrap_or_default()
    }
    pub(crate) fn queue_counters(&self, vid: Vid) -> Vec<QueueCounters> {
        let each = self.each(move |p| p.queue_counters(vid)).into_iter().flatten();
        let sum = each.reduce(|mut a, all| {
            for (a, q) in a.iter_mut().zip(all) {
                a.sent.merge(q.sent);
                a.dropped += q.dropped;
                a.strays += q.strays;
                a.since = a.since.min(q.since);
            }
            a
        });
        sum.unwrap_or_default()
    }
    /// A VDP's frames of this kind are all sent by one worker, so that they keep their order.
    pub(crate) fn packet_outs<'a>(
        &self,
        worker: Option<usize>,
        vid: Vid,
        outs: impl IntoIterator<Item = PacketOut<'a>>,
    ) -> Vec<(usize, ControlError)> {
        let own = |o: PacketOut<'_>| (o.in_port, o.frame.to_vec(), o.actions.to_vec());
        let outs: Vec<_> = outs.into_iter().map(own).collect();
        let worker = worker.unwrap_or(usize::from(vid.0) % self.workers());
        let sent = self.one(worker, move |p| {
            let lent: Vec<PacketOut<'_>> = outs
                .iter()
                .map(|(in_port, frame, actions)| PacketOut { in_port: *in_port, frame, actions })
                .collect();
            p.packet_outs(vid, lent)
        });
        sent.unwrap_or_default()
    }
    /// An end for each worker; `None`: it has one alone.
    pub(crate) fn for_each(
        &self,
        sink: Option<Box<dyn PuntSink>>,
    ) -> Option<Vec<Option<Box<dyn PuntSink>>>> {
        let Some(sink) = sink else { return Some((0..self.workers()).map(|_| None).collect()) };
        let others = (1..self.workers()).map(|_| sink.another().map(Some));
        let mut all = others.collect::<Option<Vec<_>>>()?;
        all.push(Some(sink));
        Some(all)
    }
    pub(crate) fn set_punt_sinks(
        &self,
        vid: Vid,
        sinks: Vec<Option<Box<dyn PuntSink>>>,
    ) -> Result<(), ControlError> {
        let set = self.deal(sinks, move |p, sink| p.set_punt_sink(vid, sink));
        set.into_iter().flatten().collect()
    }
    pub(crate) fn add_tap(&self, point: TapPoint, filter: Match, to: SyncSender<Captured>) {
        // Taps come and go by the desk, so they have the same numbers at each.
        self.all(move |p| p.taps.add_to(point, filter, to.clone()));
    }
    /// How many frames did not fit, of all workers.
    pub(crate) fn remove_tap(&self, id: TapId) -> u64 {
        self.all(move |p| p.taps.remove(id)).into_iter().flatten().flatten().sum()
    }
}

impl DataPlane {
    /// Whether all that was changed holds at every worker, where this is a desk; otherwise it does.
    #[inline]
    pub(crate) fn settle(&self) -> bool {
        self.desk.as_ref().is_none_or(|d| d.settle())
    }
    /// Runs `f` with the frames of the worker that is to have a port's device: opens it, or closes one that became no port. There
    /// is one region where there is one worker. `None`: that worker has ended.
    pub fn at_home<R: Send + 'static>(
        &mut self,
        home: usize,
        f: impl FnOnce(&mut Pool) -> R + Send + 'static,
    ) -> Option<R> {
        match &self.desk {
            Some(desk) => desk.one(home, move |p| f(p.pool_mut())),
            None => Some(f(self.pool_mut())),
        }
    }
}
