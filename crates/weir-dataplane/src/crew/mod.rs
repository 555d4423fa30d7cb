//! A crew: several workers, each with a data plane of its own that has the same VDPs and rules. Nothing is shared.
//!
//! ```text
//!  port ─► worker 0: the five stages ─► port        a flow always comes to the same worker: by the port's queues,
//!  port ─► worker 1: the five stages ─► port        or dealt out where it has one (`spread`)
//!                 ▲ a change goes to all, and is done when the last has answered
//! ```
//! Room: around `runner` and `plane`, of which neither knows it. Changes are closures that each worker carries out on
//! its replica, in one order; readings are added up (`merged`). What several workers can't hold between them (a meter's rate,
//! a program's state) is refused by `control` where [`crate::Config::workers`] says that there are several. Reasons:
//! decision 50.

mod balance;
pub(crate) mod desk;
pub mod flow;
mod lane;
mod merged;
mod spread;

use crate::action::Vid;
use crate::control::{Config, ControlError, RuleRef, Snapshot};
use crate::counters::{TableCounters, Usage};
use crate::plane::DataPlane;
use crate::runner::{Asked, Handle, Runner, Serving, WhenIdle, WorkerGone};
pub use balance::{Balancer, next_move};
pub use flow::BUCKETS;
pub use merged::CrewSnapshot;
pub use spread::{LANE_FRAMES, MAX_WORKERS, MoveError, Moving, Spread, queues, spread};
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use thiserror::Error;
use weir_packet::Waiter;

/// Why a crew can't be started, or could not do what was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CrewError {
    /// A worker has ended.
    #[error(transparent)]
    Gone(#[from] WorkerGone),
    /// Replicas that are not a crew's.
    #[error("{what} says {said} workers, the crew has {crew}: make each for as many as there are")]
    Size {
        /// What does not fit.
        what: &'static str,
        /// Workers it was made for.
        said: usize,
        /// Workers there are.
        crew: usize,
    },
    /// Replicas answered one change differently: they are no longer the same.
    #[error(
        "worker {worker} answered a change with '{here}', worker 0 with '{first}': a defect of weir; start it anew, and \
         please report it"
    )]
    Diverged {
        /// Which worker.
        worker: usize,
        /// What worker 0 said.
        first: String,
        /// What it said.
        here: String,
    },
    /// A bucket that can't be moved.
    #[error(transparent)]
    Move(#[from] MoveError),
    /// The system has no thread.
    #[error("no thread for a worker: {0}")]
    Thread(#[from] std::io::Error),
    /// Replicas refused, all of them.
    #[error(transparent)]
    Control(#[from] ControlError),
}

/// Frames of a desk's region, none of which is ever used.
const DESK_FRAMES: usize = 64;

/// How the move of a bucket ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// The other worker has it.
    Arrived,
    /// Frames before it were not past in time: it stays where it was, and nothing was lost.
    Stayed,
}

/// Asks a running crew. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CrewHandle {
    workers: Arc<[Handle]>,
    spreads: Arc<Mutex<Arc<[Spread]>>>,
    /// Changes reach all workers in one order.
    order: Arc<Mutex<()>>,
    /// One bucket is on its way at a time.
    moves: Arc<Mutex<()>>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CrewHandle {
    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }
    /// Ports with one queue, those that there are now.
    pub fn spreads(&self) -> Arc<[Spread]> {
        Arc::clone(&lock(&self.spreads))
    }
    /// Changes which ports there are, while no bucket is on its way.
    pub(crate) fn watch_over(&self, change: impl FnOnce(&mut Vec<Spread>)) {
        let _none_moves = lock(&self.moves);
        let mut all = lock(&self.spreads);
        let mut ports = all.to_vec();
        change(&mut ports);
        *all = ports.into();
    }
    /// One of them, for what is its own: its time, its thread, a capture. What is every worker's goes by
    /// [`CrewHandle::change`].
    pub fn worker(&self, n: usize) -> Option<&Handle> {
        self.workers.get(n)
    }

    /// Has every worker carry `f` out between two bursts, and waits for the last: what it changed holds for every frame that
    /// any of them receives afterwards. Replicas are the same, so all do it or all refuse. While `f` runs, what would happen
    /// once for each worker (a packet-out) is refused.
    ///
    /// # Errors
    /// [`CrewError::Gone`]; [`CrewError::Diverged`] where replicas answered differently.
    pub fn change<T, E>(
        &self,
        f: impl Fn(&mut DataPlane) -> Result<T, E> + Clone + Send + 'static,
    ) -> Result<Result<T, E>, CrewError>
    where
        T: PartialEq + Send + 'static,
        E: Display + Send + 'static,
    {
        let guarded = move |p: &mut DataPlane| p.as_one_of_many(&f);
        let asked = {
            let _order = lock(&self.order);
            self.ask(self.workers.len(), guarded)?
        };
        let mut answers = await_all(asked)?.into_iter();
        let Some(first) = answers.next() else { return Err(WorkerGone.into()) };
        let said = |r: &Result<T, E>| match r {
            Ok(_) => "done".to_owned(),
            Err(e) => e.to_string(),
        };
        for (i, here) in answers.enumerate() {
            let same = match (&first, &here) {
                (Ok(a), Ok(b)) => a == b,
                (Err(a), Err(b)) => a.to_string() == b.to_string(),
                _ => false,
            };
            if !same {
                let (first, here) = (said(&first), said(&here));
                return Err(CrewError::Diverged { worker: i + 1, first, here });
            }
        }
        Ok(first)
    }

    /// Has every worker answer, each between two bursts of its own.
    ///
    /// # Errors
    /// [`WorkerGone`].
    pub fn read<R: Send + 'static>(
        &self,
        f: impl Fn(&mut DataPlane) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, WorkerGone> {
        self.read_first(self.workers.len(), f)
    }
    /// The same of the first `n` workers alone.
    ///
    /// # Errors
    /// [`WorkerGone`].
    pub fn read_first<R: Send + 'static>(
        &self,
        n: usize,
        f: impl Fn(&mut DataPlane) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, WorkerGone> {
        await_all(self.ask(n, f)?)
    }

    fn ask<R: Send + 'static>(
        &self,
        n: usize,
        f: impl Fn(&mut DataPlane) -> R + Clone + Send + 'static,
    ) -> Result<Vec<Asked<'_, R>>, WorkerGone> {
        self.workers.iter().take(n).map(|w| w.ask(f.clone())).collect()
    }

    /// Everything, of each worker between two bursts of its own.
    ///
    /// # Errors
    /// [`WorkerGone`].
    pub fn snapshot(&self) -> Result<CrewSnapshot, WorkerGone> {
        Ok(CrewSnapshot { workers: self.read(|p| p.snapshot())? })
    }
    /// What rules were used for, by all workers; the last use is the latest of any.
    ///
    /// # Errors
    /// No such VDP or rule.
    pub fn usage(&self, vid: Vid, rules: &[RuleRef]) -> Result<Vec<Usage>, CrewError> {
        let rules: Arc<[RuleRef]> = rules.into();
        let each = self.read(move |p| {
            let mut used = Vec::new();
            p.usage(vid, &rules, &mut used).map(|()| used)
        })?;
        Ok(merged::usage(each.into_iter().collect::<Result<_, _>>()?))
    }
    /// What happened in a VDP's tables, at all workers.
    ///
    /// # Errors
    /// No such VDP.
    pub fn table_counters(&self, vid: Vid) -> Result<Vec<TableCounters>, CrewError> {
        let each = self.read(move |p| p.table_counters(vid))?;
        Ok(merged::tables(each.into_iter().collect::<Result<_, _>>()?))
    }

    /// Moves a bucket of a port's flows to another worker while frames flow; no flow is reordered, and nothing is lost
    /// while the port's hold has room. Gives up after `limit`, during which frames of the bucket wait.
    ///
    /// # Errors
    /// [`CrewError`]; nothing has changed then.
    pub fn move_bucket(
        &self,
        port: &Spread,
        bucket: u8,
        to: usize,
        limit: Duration,
    ) -> Result<Moved, CrewError> {
        let _one = lock(&self.moves);
        // None comes or goes before this bucket has arrived.
        let all = self.spreads();
        if !all.iter().any(|s| s.is(port)) {
            return Ok(Moved::Stayed);
        }
        let worker = |n: usize| self.workers.get(n).ok_or(WorkerGone);
        let began = Instant::now();
        let home = worker(port.home())?;
        let here = port.clone();
        let mut moving = home.call(move |_| here.begin(bucket, to))??;
        let from = worker(moving.from())?;
        let past = loop {
            let (port, all) = (port.clone(), Arc::clone(&all));
            let (back, past) = from.call(move |p| {
                let past = moving.is_past(&port, p, &all);
                (moving, past)
            })?;
            moving = back;
            if past || began.elapsed() >= limit {
                break past;
            }
            std::thread::yield_now();
        };
        let (at, here) = (if past { moving.to() } else { moving.from() }, port.clone());
        home.call(move |_| here.arrive(moving, at))?;
        Ok(if past { Moved::Arrived } else { Moved::Stayed })
    }
}

/// Workers that have a port whole.
impl CrewHandle {
    /// Has one worker get all frames of a port, and keep them, or lets its flows be spread again (they stay where they are until
    /// they move). No flow is reordered: what other workers have of it leaves first, all devices being left alone meanwhile, for at most
    /// `limit`; [`Moved::Stayed`]: it has not, and all is as it was.
    ///
    /// # Errors
    /// [`CrewError`]; nothing has changed then.
    pub fn keep_whole(
        &self,
        port: &Spread,
        worker: Option<usize>,
        limit: Duration,
    ) -> Result<Moved, CrewError> {
        let _none_moves = lock(&self.moves);
        let all = self.spreads();
        if !all.iter().any(|s| s.is(port)) {
            return Ok(Moved::Stayed);
        }
        if port.has_queues() && worker.is_some() {
            return Err(MoveError::Queues.into());
        }
        if port.whole() == worker {
            return Ok(Moved::Arrived);
        }
        let home = self.workers.get(port.home()).ok_or(WorkerGone)?;
        let there = |w: usize| (0..=u8::MAX).any(|b| port.owner(b) == Some(w));
        let others: Vec<usize> = match worker {
            Some(w) if w >= self.workers() => {
                return Err(MoveError::NoWorker { worker: w, workers: self.workers() }.into());
            }
            Some(to) => (0..self.workers()).filter(|w| *w != to && there(*w)).collect(),
            None => Vec::new(),
        };
        let before: Vec<bool> = match others.is_empty() {
            true => Vec::new(),
            false => all.iter().map(|s| s.pause(true)).collect(),
        };
        let past = self.have_sent(&others, &all, limit);
        let given = past.and_then(|past| {
            let here = port.clone();
            if past {
                home.call(move |_| here.give_whole(worker))?;
            }
            Ok(past)
        });
        for (s, before) in all.iter().zip(before) {
            s.pause(before);
        }
        Ok(if given? { Moved::Arrived } else { Moved::Stayed })
    }
    /// Waits until these workers have nothing any more, while nothing is dealt out. `false`: they had, for so long.
    fn have_sent(
        &self,
        workers: &[usize],
        all: &[Spread],
        limit: Duration,
    ) -> Result<bool, WorkerGone> {
        if workers.is_empty() {
            return Ok(true);
        }
        let (began, mut asked) = (Instant::now(), 0);
        // Each home has seen by then that it deals out no more.
        self.read(|_| ())?;
        let of = |ask: fn(&Spread, usize) -> bool| {
            workers.iter().all(|w| all.iter().all(|s| ask(s, *w)))
        };
        loop {
            // In this order: what is received is inside, and what is inside is given before it is sent.
            if of(Spread::has_taken) && self.are_empty(workers)? && of(Spread::has_sent) {
                return Ok(true);
            }
            // Who is seldom given the processor is asked a few times all the same.
            asked += 1;
            if asked >= 16 && began.elapsed() >= limit {
                return Ok(false);
            }
            std::thread::yield_now();
        }
    }
    fn are_empty(&self, workers: &[usize]) -> Result<bool, WorkerGone> {
        for w in workers {
            let worker = self.workers.get(*w).ok_or(WorkerGone)?;
            if worker.call(|p| p.has_more_to_do())? {
                return Ok(false);
            }
        }
        Ok(true)
    }
    /// Leaves frames in all devices until [`CrewHandle::resume`], and waits for those that are at workers, for so long.
    pub(crate) fn pause(&self, limit: Duration) -> Result<(), WorkerGone> {
        let _none_moves = lock(&self.moves);
        let all = self.spreads();
        all.iter().for_each(|s| _ = s.pause(true));
        let workers: Vec<usize> = (0..self.workers()).collect();
        self.have_sent(&workers, &all, limit).map(|_| ())
    }
    pub(crate) fn resume(&self) {
        self.spreads().iter().for_each(|s| _ = s.pause(false));
    }
}

/// Waits for all; first for those that can't run while this thread does.
fn await_all<R>(asked: Vec<Asked<'_, R>>) -> Result<Vec<R>, WorkerGone> {
    asked.iter().for_each(Asked::begin);
    let mut answers: Vec<Option<R>> = asked.iter().map(|_| None).collect();
    let (here, there): (Vec<_>, Vec<_>) =
        asked.into_iter().zip(&mut answers).partition(|(a, _)| a.is_here());
    for (a, answer) in here.into_iter().chain(there) {
        *answer = Some(a.wait()?);
    }
    Ok(answers.into_iter().flatten().collect())
}

/// Workers that run.
#[derive(Debug)]
pub struct Crew {
    runners: Vec<Runner>,
    handle: CrewHandle,
    /// When their clocks began.
    epoch: Instant,
    rests: bool,
    /// What is wrong, as the desk found it.
    broken: Arc<OnceLock<String>>,
}

impl Crew {
    /// Starts a worker for each data plane. They are replicas: made with the same [`crate::Config`], the same ports in the same
    /// order, the same VDPs and rules.
    ///
    /// # Errors
    /// [`CrewError`]; no worker runs then.
    pub fn start(
        planes: Vec<DataPlane>,
        spreads: Vec<Spread>,
        serving: Serving,
        idle: WhenIdle,
    ) -> Result<Self, CrewError> {
        let members = planes.into_iter().map(|p| (p, None)).collect();
        Self::start_with(members, spreads, serving, idle)
    }
    /// As [`Crew::start`] with [`WhenIdle::Rest`]; a worker sleeps by its waiter where every port can tell when frames come.
    ///
    /// # Errors
    /// [`CrewError`]; no worker runs then.
    pub fn start_waiting(
        planes: Vec<(DataPlane, Box<dyn Waiter>)>,
        spreads: Vec<Spread>,
        serving: Serving,
    ) -> Result<Self, CrewError> {
        let members = planes.into_iter().map(|(p, w)| (p, Some(w))).collect();
        Self::start_with(members, spreads, serving, WhenIdle::Rest)
    }

    fn start_with(
        members: Vec<(DataPlane, Option<Box<dyn Waiter>>)>,
        spreads: Vec<Spread>,
        serving: Serving,
        idle: WhenIdle,
    ) -> Result<Self, CrewError> {
        let crew = members.len();
        let differs = |what, said| Err(CrewError::Size { what, said, crew });
        if let Some((p, _)) = members.iter().find(|(p, _)| p.workers() != crew) {
            return differs("a data plane", p.workers());
        }
        if let Some(s) = spreads.iter().find(|s| s.workers() != crew) {
            return differs("a port", s.workers());
        }
        // One clock for all: last uses of a rule can be compared.
        let epoch = Instant::now();
        let start = |(plane, waiter)| Runner::start_member(plane, serving, idle, waiter, epoch);
        let runners = members.into_iter().map(start).collect::<Result<Vec<_>, _>>()?;
        let workers: Arc<[Handle]> = runners.iter().map(Runner::handle).collect();
        // Who never rests needs no waking, which costs who gives it frames a fence a burst.
        if idle == WhenIdle::Rest {
            let wakers: Vec<_> = workers.iter().map(Handle::waker).collect();
            spreads.iter().for_each(|s| s.set_wakers(&wakers));
        }
        let (order, moves) = Default::default();
        let spreads = Arc::new(Mutex::new(spreads.into()));
        let handle = CrewHandle { workers, spreads, order, moves };
        Ok(Self { runners, handle, epoch, rests: idle == WhenIdle::Rest, broken: Arc::default() })
    }
    /// For asking.
    pub fn handle(&self) -> CrewHandle {
        self.handle.clone()
    }
    /// A data plane by which the crew is asked as if it were one: what is done to it every worker does, before who asked
    /// is answered; what is read is all of theirs, added up. It has no frames, and takes ports once it is a desk. The crew's
    /// data planes are as they were made: with their default VDP and no ports; a crew has one desk.
    ///
    /// # Errors
    /// Sizes that can't be.
    pub fn desk(&self, config: Config) -> Result<DataPlane, ControlError> {
        let workers = self.handle.workers();
        let mut plane = DataPlane::new(Config { frames: DESK_FRAMES, workers, ..config })?;
        let wakers = || self.handle.workers.iter().map(Handle::waker).collect();
        let wakers = self.rests.then(wakers);
        let desk = desk::Desk::new(self.handle(), wakers, Arc::clone(&self.broken));
        plane.desk = Some(Box::new(desk));
        Ok(plane)
    }
    /// Runs the desk on a thread of its own, by the crew's clock.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn run_desk(&self, desk: DataPlane) -> std::io::Result<Runner> {
        Runner::start_desk(desk, self.epoch)
    }
    /// Why the desk answers nobody any more.
    pub fn fault(&self) -> Option<&str> {
        self.broken.get().map(String::as_str)
    }
    /// Ends the workers and gives their data planes back, each with all of its own frames: what was on its way between
    /// workers is lost, and counted by the ports' devices.
    ///
    /// # Errors
    /// [`WorkerGone`].
    pub fn stop(self) -> Result<Vec<DataPlane>, WorkerGone> {
        let stopped: Vec<_> = self.runners.into_iter().map(Runner::stop).collect();
        let mut planes = stopped.into_iter().collect::<Result<Vec<_>, _>>()?;
        disband(&mut planes, &self.handle.spreads());
        Ok(planes)
    }
}

/// Brings every frame home to its own region, when no worker runs any more.
pub fn disband(planes: &mut [DataPlane], spreads: &[Spread]) {
    spreads.iter().for_each(Spread::close);
    // First everybody gives back, then everybody takes.
    for _ in 0..2 {
        planes.iter_mut().for_each(DataPlane::recall);
    }
}

/// What a crew's snapshot is made of, for data planes that nobody runs.
pub fn snapshot_of(planes: &[DataPlane]) -> CrewSnapshot {
    let workers: Vec<Snapshot> = planes.iter().map(DataPlane::snapshot).collect();
    CrewSnapshot { workers }
}
