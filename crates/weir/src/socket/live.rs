//! A running data plane with the plan of what runs: the one place from which it is changed.
//!
//! Room: between those who ask (signals, the control socket) and the worker. Changes are made one
//! after the other; each runs between two bursts.

use super::moves::Plain;
use super::turns::Turns;
use crate::config::apply::{self, Model, Work};
use crate::config::diff::{Step, diff};
use crate::config::error::ConfigError;
use crate::config::failed::Failed;
use crate::config::openflow::read_again;
use crate::config::plan::{PortPlan, VdpPlan};
use crate::config::read;
use crate::openflow::service::Switches;
use crate::openflow::tls::{Current, Identity};
use crate::openflow::wanted;
use crate::router::cgroup::processors;
use crate::router::node::Routers;
use crate::verify::Kept;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_dataplane::{DataPlane, Handle, Path, Phase, Vid, WorkerGone};

/// Why a change was not made.
#[derive(Debug)]
pub enum NotDone {
    /// What was asked can't be.
    Config(ConfigError),
    /// A step failed.
    Step(Failed),
    /// The machine refuses.
    System(anyhow::Error),
    /// The worker has ended.
    Gone(WorkerGone),
}

impl fmt::Display for NotDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(e) => e.fmt(f),
            Self::Step(e) => e.fmt(f),
            Self::System(e) => write!(f, "{e:#}"),
            Self::Gone(e) => e.fmt(f),
        }
    }
}

impl NotDone {
    /// The same of what no file says: lines of the file that the data plane was started with are not what was asked.
    #[must_use]
    pub fn unplaced(self) -> Self {
        match self {
            Self::Step(f) => Self::Step(Failed { place: None, ..f }),
            other => other,
        }
    }
    /// What became of the data plane, to be said behind the error.
    pub fn aftermath(&self) -> String {
        match self {
            Self::Step(f) if f.after > 0 => {
                format!("; {} changes were made before: mend it and reload again", f.after)
            }
            Self::Gone(_) => String::new(),
            _ => "; nothing has changed".to_owned(),
        }
    }
}

impl From<WorkerGone> for NotDone {
    fn from(e: WorkerGone) -> Self {
        Self::Gone(e)
    }
}
impl From<ConfigError> for NotDone {
    fn from(e: ConfigError) -> Self {
        Self::Config(e)
    }
}
impl From<Failed> for NotDone {
    fn from(e: Failed) -> Self {
        Self::Step(e)
    }
}

/// A running data plane.
#[derive(Debug)]
pub struct Live {
    handle: Handle,
    /// Taken out while the worker has it.
    model: Mutex<Option<Model>>,
    /// Held by who changes something, also while it waits; who only looks need not wait with it.
    changing: Mutex<()>,
    /// VDPs as OpenFlow switches; they follow the plan.
    switches: Switches,
    /// Virtual routers.
    routers: Routers,
    /// Moves of VDPs that are none.
    plain: Plain,
    /// Whose turn it is to change networks.
    turns: Turns,
    /// What was proved of it last.
    proof: Kept,
    /// Unix time of the worker's time zero, in nanoseconds.
    epoch_ns: u64,
    /// What it is known by.
    own: Own,
    /// What the node API shows, if there is one.
    identity: Option<Current>,
}

/// What a data plane is known by, and what its machine has: for as long as it runs.
#[derive(Clone, Debug, Default)]
pub struct Own {
    /// What no other has.
    pub instance: String,
    /// Processors that programs of virtual routers may run on, as the kernel lists them.
    pub processors: Option<String>,
}

impl Own {
    /// Of one that starts.
    fn drawn() -> Self {
        // Drawn by the system for hash maps.
        let one = || RandomState::new().hash_one(Instant::now());
        Self { instance: format!("{:016x}{:016x}", one(), one()), processors: processors() }
    }
}

/// How long VDPs that are being deleted, or are between two paths, are waited for.
const SETTLING: Duration = Duration::from_secs(2);

/// On which thread something is done between two bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// On that of the first worker, or on the caller's while the worker rests.
    Anybody,
    /// On that of the first worker.
    Worker,
}

impl Live {
    /// Of a data plane that was just started.
    ///
    /// # Errors
    /// The worker has ended.
    pub fn new(handle: Handle, model: Model, routers: Routers) -> Result<Self, WorkerGone> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = handle.call(|p| p.now())?;
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let epoch_ns = now.saturating_sub(at.0);
        let api = model.plan.fixed.api.as_ref();
        let identity = api.map(|a| Current::new(a.tls.clone()));
        let beside = api.map(|a| a.listen.ip()).zip(identity.clone());
        let switches = Switches::new(handle.clone(), beside);
        let plain = Plain::default();
        let (model, turns) = (Mutex::new(Some(model)), Turns::default());
        let proof = Kept::default();
        let own = Own::drawn();
        let changing = Mutex::new(());
        Ok(Self {
            handle,
            model,
            changing,
            switches,
            routers,
            plain,
            turns,
            proof,
            epoch_ns,
            own,
            identity,
        })
    }

    /// VDPs as OpenFlow switches.
    pub fn switches(&self) -> &Switches {
        &self.switches
    }

    /// Virtual routers.
    pub fn routers(&self) -> &Routers {
        &self.routers
    }

    /// What it is known by.
    pub fn own(&self) -> &Own {
        &self.own
    }

    /// What the node API shows, if there is one.
    pub fn identity(&self) -> Option<&Current> {
        self.identity.as_ref()
    }

    /// Whose turn it is to change networks.
    pub fn turns(&self) -> &Turns {
        &self.turns
    }

    /// What was proved of it last.
    pub fn proof(&self) -> &Kept {
        &self.proof
    }

    /// Moves of VDPs that are no switches.
    pub fn plain(&self) -> &Plain {
        &self.plain
    }

    /// Makes the switches those of the plan, and the node API's identity. Says what could not be had, a line each.
    ///
    /// # Errors
    /// The worker has ended.
    pub fn follow(&self) -> Result<Vec<String>, WorkerGone> {
        let model = self.lock();
        let plan = &model.as_ref().ok_or(WorkerGone)?.plan;
        if let (Some(held), Some(api)) = (&self.identity, &plan.fixed.api) {
            held.renew(api.tls.clone());
        }
        let ports = self.handle.call(|p| p.port_views())?;
        let links = ports.into_iter().map(|p| (p.name, p.up)).collect();
        Ok(self.switches.update(wanted::all(plan, &links)))
    }

    /// For asking the worker.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The worker's time as Unix time, in nanoseconds.
    pub fn unix_ns(&self, worker: weir_packet::Nanos) -> u64 {
        self.epoch_ns.saturating_add(worker.0)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Model>> {
        // A thread that panicked with the model in its hands has taken it with it.
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the plan of what runs.
    ///
    /// # Errors
    /// The worker has ended and the plan with it.
    pub fn look<R>(&self, f: impl FnOnce(&Model) -> R) -> Result<R, WorkerGone> {
        self.lock().as_ref().map(f).ok_or(WorkerGone)
    }

    /// The same, with the data plane, between two bursts.
    ///
    /// # Errors
    /// The worker has ended.
    pub fn observe<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut DataPlane, &Model) -> R + Send + 'static,
    ) -> Result<R, WorkerGone> {
        self.between_bursts(By::Anybody, |p, m| f(p, m))
    }

    /// Runs `f` with the data plane and the plan, between two bursts, when nobody else is about to change anything.
    ///
    /// # Errors
    /// The worker has ended.
    pub fn with<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut DataPlane, &mut Model) -> R + Send + 'static,
    ) -> Result<R, WorkerGone> {
        let _turn = self.turn();
        self.between_bursts(By::Anybody, f)
    }

    fn between_bursts<R: Send + 'static>(
        &self,
        by: By,
        f: impl FnOnce(&mut DataPlane, &mut Model) -> R + Send + 'static,
    ) -> Result<R, WorkerGone> {
        let mut guard = self.lock();
        let mut model = guard.take().ok_or(WorkerGone)?;
        let f = move |p: &mut DataPlane| {
            let r = f(p, &mut model);
            (model, r)
        };
        let (model, r) = match by {
            By::Anybody => self.handle.call(f)?,
            By::Worker => self.handle.call_there(f)?,
        };
        *guard = Some(model);
        Ok(r)
    }

    fn turn(&self) -> Turn<'_> {
        Turn(self.changing.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Works out steps from the plan of what runs, and carries them out; nobody else changes
    /// anything in between. Returns what happened, in words.
    ///
    /// # Errors
    /// [`NotDone`].
    pub fn change(
        &self,
        steps: impl FnOnce(&Model) -> Result<Vec<Step>, NotDone>,
    ) -> Result<Vec<String>, NotDone> {
        self.change_each([steps]).map_err(|(_, e)| e)
    }

    /// The same for several changes in order, each worked out when those before it are done. Ends at the
    /// first that can't be; those before it stay.
    ///
    /// # Errors
    /// How many were done, and why the next was not.
    pub fn change_each<F>(
        &self,
        all: impl IntoIterator<Item = F>,
    ) -> Result<Vec<String>, (usize, NotDone)>
    where
        F: FnOnce(&Model) -> Result<Vec<Step>, NotDone>,
    {
        let turn = self.turn();
        self.settle(&turn).map_err(|e| (0, e.into()))?;
        let mut told = Vec::new();
        let mut leaving = Leaving::Nobody;
        let mut failed = None;
        for (before, steps) in all.into_iter().enumerate() {
            if let Err(e) = self.one(&turn, steps, &mut leaving, &mut told) {
                failed = Some((before, e));
                break;
            }
        }
        // Who has asked for VDPs to go finds them gone.
        if leaving == Leaving::Some && failed.is_none() {
            self.settle(&turn).map_err(|e| (0, e.into()))?;
        }
        // Whatever was changed before a step failed is what there is now.
        let followed = self.follow();
        if let Some(failed) = failed {
            return Err(failed);
        }
        told.extend(followed.map_err(|e| (0, e.into()))?);
        Ok(told)
    }

    /// Makes one change, and says how long the data plane took no frames for it.
    ///
    /// # Errors
    /// [`NotDone`].
    pub fn swap(
        &self,
        steps: impl FnOnce(&Model) -> Result<Vec<Step>, NotDone>,
    ) -> Result<(Vec<String>, Duration), NotDone> {
        let turn = self.turn();
        // What goes has gone.
        self.settle(&turn)?;
        let steps = self.look(steps)??;
        let mut told = Vec::new();
        let done = self.carry_out(&turn, steps, &mut told);
        // Whatever was done before a step failed is what controllers see.
        told.extend(self.follow()?);
        Ok((told, done?))
    }

    fn one(
        &self,
        turn: &Turn<'_>,
        steps: impl FnOnce(&Model) -> Result<Vec<Step>, NotDone>,
        leaving: &mut Leaving,
        told: &mut Vec<String>,
    ) -> Result<(), NotDone> {
        let steps = self.look(steps)??;
        let makes = steps.iter().any(|s| matches!(s, Step::CreateVdp(_)));
        if *leaving == Leaving::Some && makes {
            self.settle(turn)?;
            *leaving = Leaving::Nobody;
        }
        if steps.iter().any(|s| matches!(s, Step::DeleteVdp(_))) {
            *leaving = Leaving::Some;
        }
        self.carry_out(turn, steps, told).map(drop)
    }

    /// Carries out steps, and says how long the data plane took no frames for them.
    fn carry_out(
        &self,
        _: &Turn<'_>,
        steps: Vec<Step>,
        told: &mut Vec<String>,
    ) -> Result<Duration, NotDone> {
        told.extend(steps.iter().map(Step::told));
        // Memory of ports that have gone stays with the heap of the thread that made them: that of one, not of each
        // thread that ever served a request.
        let by = match steps.iter().any(|s| matches!(s, Step::AddPort(_))) {
            true => By::Worker,
            false => By::Anybody,
        };
        let (mut left, mut paused) = (Some(Work::new(steps)), Duration::ZERO);
        while let Some(work) = left {
            work.wait();
            let (done, notes, pause) = self.between_bursts(by, move |p, m| {
                let begun = Instant::now();
                let done = apply::run(p, m, work);
                (done, std::mem::take(&mut m.notes), begun.elapsed())
            })?;
            told.extend(notes);
            paused += pause;
            left = done?;
        }
        Ok(paused)
    }

    /// Makes the data plane what the file says; a file that can't be changes nothing.
    ///
    /// # Errors
    /// [`NotDone`].
    pub fn reload(
        &self,
        path: &std::path::Path,
        socket_given: SocketGiven,
    ) -> Result<Vec<String>, NotDone> {
        let mut plan = read::load(path)?;
        apply::rehearse(&plan)?;
        let paths: Vec<(Vid, Path)> =
            plan.vdps.values().filter(|v| v.vid.0 != 0).map(|v| (v.vid, v.path)).collect();
        // Files are read while nobody waits for the model.
        let again: BTreeMap<u16, Renewal> = self
            .look(shown_by_requests)?
            .into_iter()
            .filter_map(|(vid, held)| Some((vid, Renewal { new: read_again(&held)?, held })))
            .collect();
        let mut stale = Vec::new();
        let mut told = self.change(|m| {
            if socket_given == SocketGiven::OnTheCommandLine {
                plan.fixed.socket.clone_from(&m.plan.fixed.socket);
            }
            // What somebody keeps here by requests is not the file's to take away.
            let kept = |v: &&VdpPlan| (v.label.is_some() || m.is_routers(v)) && v.place.is_none();
            for v in m.plan.vdps.values().filter(kept) {
                let kept = plan.vdps.entry(v.vid.0).or_insert_with(|| v.clone());
                if let Some(r) = again.get(&v.vid.0).filter(|_| kept.place.is_none()) {
                    stale.extend(renewed(kept, r));
                }
            }
            let named = |name: &str, all: &[PortPlan]| all.iter().any(|p| p.name == name);
            for p in m.plan.ports.iter().filter(|p| p.label.is_some()) {
                if !named(&p.name, &plan.ports) {
                    plan.ports.push(p.clone());
                }
            }
            Ok(diff(&m.plan, &plan)?)
        })?;
        told.extend(stale);
        let arrived = self.settle(&self.turn())?;
        for (vid, wanted) in paths {
            if arrived.get(&vid).is_some_and(|at| *at != wanted) {
                told.push(format!(
                    "VDP {vid}: still on its old path, since its channel did not become empty in \
                     time; reload to try again"
                ));
            }
        }
        Ok(told)
    }

    /// Waits until no VDP is being deleted or is between two paths, so that numbers, TCAM slices and
    /// paths are free again; gives up after a while, since a frame may be held by a program for as
    /// long as it likes. Returns on which path each VDP is, and notes it in the plan.
    fn settle(&self, _: &Turn<'_>) -> Result<BTreeMap<Vid, Path>, WorkerGone> {
        let until = Instant::now() + SETTLING;
        loop {
            let phases: Vec<(Vid, Phase)> = self.handle.call(|p| p.phases())?;
            let on = |(vid, phase): &(Vid, Phase)| match phase {
                Phase::On(path) => Some((*vid, *path)),
                _ => None,
            };
            let paths: BTreeMap<Vid, Path> = phases.iter().filter_map(on).collect();
            // Who is away stays so until somebody fetches it.
            let rests = |(_, p): &(Vid, Phase)| matches!(p, Phase::On(_) | Phase::Away);
            if !phases.iter().all(rests) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            for v in self.lock().iter_mut().flat_map(|m| m.plan.vdps.values_mut()) {
                v.path = paths.get(&v.vid).copied().unwrap_or(v.path);
            }
            return Ok(paths);
        }
    }

    /// Waits until a VDP is on one path; `None` when that takes too long.
    ///
    /// # Errors
    /// The worker has ended.
    pub fn arrived(&self, vid: Vid) -> Result<Option<weir_dataplane::VdpView>, WorkerGone> {
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until {
            match self.handle.call(move |p| p.vdp_view(vid))? {
                Some(v) if matches!(v.phase, Phase::On(_)) => return Ok(Some(v)),
                Some(_) => std::thread::sleep(Duration::from_millis(1)),
                None => return Ok(None),
            }
        }
        Ok(None)
    }
}

/// What a VDP showed, and what the files of its certificate have now.
struct Renewal {
    held: Identity,
    new: Result<Identity, String>,
}

/// What VDPs show to controllers that no file describes.
fn shown_by_requests(m: &Model) -> Vec<(u16, Identity)> {
    let kept = m.plan.vdps.values().filter(|v| v.label.is_some() || m.is_routers(v));
    kept.filter_map(|v| Some((v.vid.0, v.openflow.as_ref()?.tls.clone()?))).collect()
}

/// Has a VDP that no file describes show what its certificate's files have now. Why it goes on with what it showed, if
/// that can't be.
fn renewed(v: &mut VdpPlan, r: &Renewal) -> Option<String> {
    let shown = v.openflow.as_mut()?.tls.as_mut().filter(|s| **s == r.held)?;
    match &r.new {
        Ok(new) => {
            *shown = new.clone();
            None
        }
        Err(e) => Some(format!("{}: {e}; its certificate stays what it was", v.called())),
    }
}

/// What who changes something has.
struct Turn<'a>(#[expect(dead_code, reason = "held, not read")] MutexGuard<'a, ()>);

/// Whether VDPs are on their way out: numbers, names and slices are theirs until they have gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    Nobody,
    Some,
}

/// Where the control socket's path comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketGiven {
    /// `--socket`: what the file says does not count.
    OnTheCommandLine,
    /// The file, or the default.
    InTheFile,
}
