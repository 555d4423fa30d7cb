//! The worker's thread: it owns the data plane, runs what is asked of it between bursts, and polls.
//!
//! Room: the only place of this crate that knows threads and the system's monotonic clock. A
//! [`Handle`] sends closures; each runs between two rounds, alone with the data plane, and its
//! answer comes back when it has happened. One thread has it at a time, so nothing of it is locked;
//! while the worker rests, who waits for an answer carries out what was asked itself (`lend`).
//!
//! A thread that finds nothing to do rests, and is woken by whoever has something for it: a request
//! wakes the worker, frames and jobs wake a server, what a server gives back wakes the worker. Where
//! every port can tell when frames come, and a [`Waiter`] was given, the worker sleeps until one
//! does; else a rest is short, since frames in those ports' rings wake nobody.

mod idle;
mod kept;
mod lend;
mod patience;
mod sleep;
mod waker;

use crate::plane::DataPlane;
use crate::software::Server;
use idle::{Idle, Pause, Rests};
use kept::{Kept, own_time};
use lend::{Ends, Left, Lending, Rest, Seat};
use patience::Patience;
use sleep::Sleep;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use thiserror::Error;
pub use waker::Waker;
use weir_packet::{Nanos, Waiter};

type Request = Box<dyn FnOnce(&mut DataPlane) + Send>;

/// The worker has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the data plane's worker has ended")]
pub struct WorkerGone;

/// Who serves the channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serving {
    /// The worker, between its bursts.
    Worker,
    /// Threads of their own, the channels dealt out among this many.
    Threads(usize),
}

/// What a worker does when a round found nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenIdle {
    /// Polls on: lowest latency, a whole core.
    Spin,
    /// Sleeps until frames come or something is asked, where every port can tell
    /// ([`Runner::start_waiting`]); else a little, longer the longer it has been idle, up to half a
    /// millisecond or forty times as long as asking every port takes. A request wakes it at once.
    Rest,
}

/// Asks a running data plane. Cheap to clone.
///
/// Requests of one handle are carried out in the order in which they were made, whichever method
/// made them. So are those of several handles where one was made after another had returned.
#[derive(Clone, Debug)]
pub struct Handle {
    to: Sender<Request>,
    worker: Waker,
    lending: Arc<Lending>,
    patience: Arc<Patience>,
}

impl Handle {
    /// Runs `f` between two bursts and waits for its answer. What it changed holds for every frame
    /// that is received afterwards. While the worker rests, the calling thread runs `f` itself, and
    /// what others asked before.
    ///
    /// # Errors
    /// [`WorkerGone`].
    pub fn call<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut DataPlane) -> R + Send + 'static,
    ) -> Result<R, WorkerGone> {
        let asked = self.ask(f)?;
        asked.begin();
        asked.wait()
    }
    /// The two halves of [`Handle::call`], for who asks several workers: nobody is woken yet.
    pub(crate) fn ask<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut DataPlane) -> R + Send + 'static,
    ) -> Result<Asked<'_, R>, WorkerGone> {
        // Room for the answer is made here, not by the worker.
        let (tx, rx) = sync_channel(1);
        let here = self.worker.is_here();
        self.request(move |p| {
            let answer = f(p);
            if p.settle() {
                // The caller has gone: its answer is nobody's.
                let _ = tx.send(answer);
            }
        })?;
        Ok(Asked { of: self, here, rx })
    }
    pub(crate) fn waker(&self) -> Waker {
        self.worker.clone()
    }
    /// Has `f` run between two bursts, and returns at once. Should the worker end before, `f` is
    /// dropped without having run.
    ///
    /// # Errors
    /// [`WorkerGone`].
    pub fn post(&self, f: impl FnOnce(&mut DataPlane) + Send + 'static) -> Result<(), WorkerGone> {
        self.request(f)?;
        self.worker.wake();
        Ok(())
    }
    fn request(&self, f: impl FnOnce(&mut DataPlane) + Send + 'static) -> Result<(), WorkerGone> {
        self.to.send(Box::new(f)).map_err(|_| WorkerGone)
    }
    /// As [`Handle::call`], on the worker's own thread in any case: for what is that thread's, such
    /// as the processors on which it may run.
    ///
    /// # Errors
    /// [`WorkerGone`].
    pub fn call_there<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut DataPlane) -> R + Send + 'static,
    ) -> Result<R, WorkerGone> {
        self.lending.close();
        let (tx, rx) = sync_channel(1);
        let answer = self.post(move |p| {
            let answer = f(p);
            if p.settle() {
                let _ = tx.send(answer);
            }
        });
        let answer = answer.and_then(|()| rx.recv().map_err(|_| WorkerGone));
        self.lending.open();
        answer
    }
    /// As [`Handle::call`], for callers that must not wait: `done` gets the answer, on the worker's
    /// thread and between two bursts, so it must be short and never block: a channel's `send`, a
    /// waker. Should the worker end before, `done` is dropped, which whoever waits at the other
    /// end of its channel sees.
    ///
    /// # Errors
    /// [`WorkerGone`].
    pub fn send<R>(
        &self,
        f: impl FnOnce(&mut DataPlane) -> R + Send + 'static,
        done: impl FnOnce(R) + Send + 'static,
    ) -> Result<(), WorkerGone> {
        self.post(move |p| {
            let answer = f(p);
            if p.settle() {
                done(answer);
            }
        })
    }
}

/// Something that a worker was asked.
#[derive(Debug)]
pub(crate) struct Asked<'a, R> {
    of: &'a Handle,
    here: bool,
    rx: Receiver<R>,
}

impl<R> Asked<'_, R> {
    /// Whether the worker was seen last on the calling thread's processor.
    pub(crate) fn is_here(&self) -> bool {
        self.here
    }
    /// Carries it out while the worker rests; else wakes the worker.
    pub(crate) fn begin(&self) {
        if self.of.lending.carry_out() == Left::Work {
            self.of.worker.wake();
        }
    }
    /// The answer.
    pub(crate) fn wait(self) -> Result<R, WorkerGone> {
        let Self { of, here, rx } = self;
        if let Ok(answer) = rx.try_recv() {
            return Ok(answer);
        }
        // Where the worker can't run meanwhile, nobody polls.
        let awaits = if here { Duration::ZERO } else { of.patience.now() };
        let began = Instant::now();
        while began.elapsed() < awaits {
            match rx.try_recv() {
                Ok(answer) => {
                    of.patience.took(began.elapsed());
                    return Ok(answer);
                }
                Err(TryRecvError::Disconnected) => return Err(WorkerGone),
                Err(TryRecvError::Empty) => std::hint::spin_loop(),
            }
        }
        let answer = rx.recv().map_err(|_| WorkerGone)?;
        if !here {
            of.patience.took(began.elapsed());
        }
        Ok(answer)
    }
}

/// A data plane on its own thread.
#[derive(Debug)]
pub struct Runner {
    handle: Handle,
    stop: Arc<AtomicBool>,
    worker: Option<JoinHandle<Option<DataPlane>>>,
    servers: Vec<JoinHandle<Vec<(u8, Server)>>>,
}

impl Runner {
    /// Starts `plane`.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn start(plane: DataPlane, serving: Serving, idle: WhenIdle) -> std::io::Result<Self> {
        Self::start_resting(plane, serving, idle, None, Rested::DEFAULT)
    }
    /// As [`Runner::start`] with [`WhenIdle::Rest`]; the worker sleeps by `waiter` where every port
    /// can tell when frames come.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn start_waiting(
        plane: DataPlane,
        serving: Serving,
        waiter: Box<dyn Waiter>,
    ) -> std::io::Result<Self> {
        Self::start_resting(plane, serving, WhenIdle::Rest, Some(waiter), Rested::DEFAULT)
    }
    /// One worker of several, whose clocks begin together.
    pub(crate) fn start_member(
        plane: DataPlane,
        serving: Serving,
        idle: WhenIdle,
        waiter: Option<Box<dyn Waiter>>,
        epoch: Instant,
    ) -> std::io::Result<Self> {
        Self::start_at(plane, serving, idle, waiter, Rested::DEFAULT, epoch)
    }
    /// The desk of a crew: no frames come to it.
    pub(crate) fn start_desk(plane: DataPlane, epoch: Instant) -> std::io::Result<Self> {
        let rests = Rested { worker: idle::DESK, ..Rested::DEFAULT };
        Self::start_at(plane, Serving::Worker, WhenIdle::Rest, None, rests, epoch)
    }
    fn start_resting(
        plane: DataPlane,
        serving: Serving,
        mode: WhenIdle,
        waiter: Option<Box<dyn Waiter>>,
        rests: Rested,
    ) -> std::io::Result<Self> {
        Self::start_at(plane, serving, mode, waiter, rests, Instant::now())
    }
    fn start_at(
        mut plane: DataPlane,
        serving: Serving,
        mode: WhenIdle,
        waiter: Option<Box<dyn Waiter>>,
        rests: Rested,
        epoch: Instant,
    ) -> std::io::Result<Self> {
        let (to, from) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let ends = StopUnlessKept(Some(Arc::clone(&stop)));
        let mut servers = Vec::new();
        if let Serving::Threads(n) = serving {
            let n = n.clamp(1, plane.channels().max(1));
            let mut dealt: Vec<Vec<(u8, Server)>> = (0..n).map(|_| Vec::new()).collect();
            for c in 0..plane.channels() {
                if let Some(s) = plane.take_server(c as u8) {
                    dealt[c % n].push((c as u8, s));
                }
            }
            for (i, mine) in dealt.into_iter().enumerate() {
                let stop = Arc::clone(&stop);
                let idle = Idle::new(mode, rests.server);
                let name = format!("weir-soft-{i}");
                let run = move || serve(mine, &stop, idle, epoch);
                servers.push(thread::Builder::new().name(name).spawn(run)?);
            }
            for (c, ch) in plane.channels.iter_mut().enumerate() {
                ch.ring.server = servers.get(c % n).map(|s| s.thread().clone());
            }
        }
        let flag = Arc::clone(&stop);
        let (tell, told) = channel();
        let lending = Arc::new(Lending::default());
        let lends = Arc::clone(&lending);
        let worker = thread::Builder::new().name("weir-worker".to_owned()).spawn(move || {
            let sleep = Sleep::new(waiter);
            let waker = sleep.waker();
            // The runner waits for it.
            let _ = tell.send(waker.clone());
            let idle = Idle::new(mode, rests.worker);
            let seat = Box::new(Seat { plane, from, epoch });
            Worker { lends, stop: flag, idle, epoch, sleep, kept: Kept::default() }
                .work(seat, &waker)
        })?;
        let waker = told.recv().map_err(std::io::Error::other)?;
        ends.keep();
        let handle = Handle { to, worker: waker, lending, patience: Arc::default() };
        Ok(Self { handle, stop, worker: Some(worker), servers })
    }
    /// For asking.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }
    /// Ends the threads and gives the data plane back, its servers inside it. What was asked before
    /// is carried out, up to a tenth of a second of it.
    ///
    /// # Errors
    /// [`WorkerGone`] when the worker had panicked, or a request on the thread of who asked.
    pub fn stop(mut self) -> Result<DataPlane, WorkerGone> {
        self.stop.store(true, Ordering::Release);
        let worker = self.worker.take().ok_or(WorkerGone)?;
        self.handle.worker.wake();
        self.servers.iter().for_each(|s| s.thread().unpark());
        let mut plane = worker.join().ok().flatten().ok_or(WorkerGone)?;
        for s in self.servers.drain(..) {
            for (c, server) in s.join().map_err(|_| WorkerGone)? {
                plane.put_server(c, server);
            }
        }
        Ok(plane)
    }
}

/// Ends the threads that a start has made already when it fails half way.
struct StopUnlessKept(Option<Arc<AtomicBool>>);

impl StopUnlessKept {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for StopUnlessKept {
    fn drop(&mut self) {
        if let Some(stop) = &self.0 {
            stop.store(true, Ordering::Release);
        }
    }
}

fn since(epoch: Instant) -> Nanos {
    nanos(epoch.elapsed())
}

fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// How long each kind of thread rests.
#[derive(Clone, Copy, Debug)]
struct Rested {
    worker: Rests,
    server: Rests,
}

impl Rested {
    const DEFAULT: Self = Self { worker: idle::WORKER, server: idle::SERVER };
}

/// Links are looked at this often.
const LINKS: Nanos = Nanos(250_000_000);
/// Requests of one round: none is begun later than this after the first.
const ASKED: Duration = Duration::from_micros(50);
/// The same for those that are left when the worker is stopped.
const ASKED_AT_THE_END: Duration = Duration::from_millis(100);

/// Carries out what was asked, in order, for about `limit`. Says how many requests.
fn carry_out(plane: &mut DataPlane, from: &Receiver<Request>, limit: Duration) -> usize {
    let mut done = 0;
    let mut began = None;
    // Without a handle nobody can ask; the runner still can stop it.
    while let Ok(request) = from.try_recv() {
        let began = *began.get_or_insert_with(|| {
            plane.count_shortcuts();
            Instant::now()
        });
        request(plane);
        // What was asked by nobody who waits.
        plane.settle();
        done += 1;
        if began.elapsed() >= limit {
            break;
        }
    }
    done
}

/// What the worker's thread has beside the data plane.
struct Worker {
    lends: Arc<Lending>,
    stop: Arc<AtomicBool>,
    idle: Idle,
    epoch: Instant,
    sleep: Sleep,
    kept: Kept,
}

impl Worker {
    /// Until it is stopped; None when the data plane was lost.
    fn work(mut self, mut seat: Box<Seat>, me: &Waker) -> Option<DataPlane> {
        for c in seat.plane.channels.iter().filter(|c| c.inline.is_none()) {
            let me = me.clone();
            c.ring.post(Box::new(move |s| s.worker = Some(me)));
        }
        let mut links = Nanos(0);
        loop {
            let (began, moved) = self.round(&mut seat);
            let now = since(self.epoch);
            if now.since(links) >= LINKS {
                links = now;
                self.sleep.place.note();
                seat.plane.check_links();
                self.sleep.stale = true;
            }
            if self.stop.load(Ordering::Acquire) {
                let Seat { mut plane, from, .. } = *seat;
                carry_out(&mut plane, &from, ASKED_AT_THE_END);
                plane.count_shortcuts();
                return Some(plane);
            }
            if moved > 0 {
                self.sleep.found();
            }
            match self.idle.after(moved, began, now) {
                Pause::Spin => std::hint::spin_loop(),
                Pause::Yield => thread::yield_now(),
                Pause::Rest(rest) => {
                    self.sleep.place.note();
                    seat = self.rest(seat, rest)?;
                    self.sleep.place.note();
                }
            }
        }
    }

    /// What was asked, then every port once. When it began, and how many frames it moved.
    fn round(&mut self, seat: &mut Seat) -> (Nanos, usize) {
        let Seat { plane, from, .. } = seat;
        let now = since(self.epoch);
        // Requests look at it: it may be long since the last round.
        plane.now = now;
        if plane.is_promised() && self.kept.look(now, own_time) {
            plane.was_kept_from_work();
        }
        if carry_out(plane, from, ASKED) > 0 {
            self.idle.asked(now);
            return (now, plane.poll(since(self.epoch)));
        }
        (now, plane.poll(now))
    }

    /// The data plane afterwards; who asks something meanwhile has it.
    fn rest(&mut self, mut seat: Box<Seat>, rest: Duration) -> Option<Box<Seat>> {
        let Rests { doze, sleep, .. } = self.idle.rests;
        let rests =
            |rest, ends| Rest { until: since(self.epoch) + nanos(rest), doze: nanos(doze), ends };
        if !self.sleep.can(&seat.plane) {
            // Whoever woke it since it last looked has left a token: then it does not rest.
            self.lends.put(seat, rests(rest, Ends::ByItself));
            thread::park_timeout(rest);
            return self.lends.take();
        }
        self.sleep.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        // Whoever found it awake until now has left what it would have rung for.
        let asked = carry_out(&mut seat.plane, &seat.from, ASKED);
        // So has another worker of its crew that gave it frames.
        let told = seat.plane.is_told_of_all() && !seat.plane.has_back();
        if asked == 0 && told && !self.stop.load(Ordering::Acquire) {
            let patience = Duration::from_nanos(seat.plane.patience().0);
            let time = patience.clamp(doze, sleep);
            self.lends.put(seat, rests(time, Ends::Told));
            self.sleep.sleep(time);
            seat = self.lends.take()?;
        }
        self.sleep.asleep.store(false, Ordering::Relaxed);
        if asked > 0 {
            self.idle.asked(since(self.epoch));
        }
        Some(seat)
    }
}

fn serve(
    mut mine: Vec<(u8, Server)>,
    stop: &AtomicBool,
    mut idle: Idle,
    epoch: Instant,
) -> Vec<(u8, Server)> {
    while !stop.load(Ordering::Acquire) {
        let began = since(epoch);
        let n = mine.iter_mut().map(|(_, s)| s.serve(began)).sum();
        match idle.after(n, began, since(epoch)) {
            Pause::Spin => std::hint::spin_loop(),
            Pause::Yield => thread::yield_now(),
            Pause::Rest(rest) => thread::park_timeout(rest),
        }
    }
    mine
}

#[cfg(test)]
mod tests;
