//! The worker's thread: it owns the data plane, runs what is asked of it between bursts, and polls.
//!
//! Room: the only place of this crate that knows threads and the system's monotonic clock. A
//! [`Handle`] sends closures; each runs between two rounds, alone with the data plane, and its
//! answer comes back when it has happened. Nothing is shared, so nothing is locked.

use crate::plane::DataPlane;
use crate::software::Server;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use thiserror::Error;
use weir_packet::Nanos;

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
    /// Sleeps a little, longer the longer it has been idle, up to half a millisecond.
    Rest,
}

/// Asks a running data plane. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    to: Sender<Request>,
}

impl Handle {
    /// Runs `f` between two bursts and waits for its answer. What it changed holds for every frame
    /// that is received afterwards.
    ///
    /// # Errors
    /// [`WorkerGone`].
    pub fn call<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut DataPlane) -> R + Send + 'static,
    ) -> Result<R, WorkerGone> {
        let (tx, rx) = channel();
        let request: Request = Box::new(move |p| {
            // The caller has gone: its answer is nobody's.
            let _ = tx.send(f(p));
        });
        self.to.send(request).map_err(|_| WorkerGone)?;
        rx.recv().map_err(|_| WorkerGone)
    }
}

/// A data plane on its own thread.
#[derive(Debug)]
pub struct Runner {
    handle: Handle,
    stop: Arc<AtomicBool>,
    worker: Option<JoinHandle<DataPlane>>,
    servers: Vec<JoinHandle<Vec<(u8, Server)>>>,
}

impl Runner {
    /// Starts `plane`.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn start(mut plane: DataPlane, serving: Serving, idle: WhenIdle) -> std::io::Result<Self> {
        let (to, from) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let epoch = Instant::now();
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
                let name = format!("weir-soft-{i}");
                let run = move || serve(mine, &stop, idle, epoch);
                servers.push(thread::Builder::new().name(name).spawn(run)?);
            }
        }
        let flag = Arc::clone(&stop);
        let worker = thread::Builder::new()
            .name("weir-worker".to_owned())
            .spawn(move || work(plane, &from, &flag, idle, epoch))?;
        Ok(Self { handle: Handle { to }, stop, worker: Some(worker), servers })
    }
    /// For asking.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }
    /// Ends the threads and gives the data plane back, its servers inside it.
    ///
    /// # Errors
    /// [`WorkerGone`] when the worker had panicked.
    pub fn stop(mut self) -> Result<DataPlane, WorkerGone> {
        self.stop.store(true, Ordering::Release);
        let worker = self.worker.take().ok_or(WorkerGone)?;
        let mut plane = worker.join().map_err(|_| WorkerGone)?;
        for s in self.servers.drain(..) {
            for (c, server) in s.join().map_err(|_| WorkerGone)? {
                plane.put_server(c, server);
            }
        }
        Ok(plane)
    }
}

fn since(epoch: Instant) -> Nanos {
    Nanos(u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// How long a thread has found nothing to do.
struct Idle {
    mode: WhenIdle,
    rounds: u32,
}

impl Idle {
    fn found(&mut self, moved: usize) {
        if moved > 0 {
            self.rounds = 0;
            return;
        }
        self.rounds = self.rounds.saturating_add(1);
        match (self.mode, self.rounds) {
            (_, 0..=64) => std::hint::spin_loop(),
            (WhenIdle::Spin, _) => {
                // Other threads of this machine may be what it waits for.
                if self.rounds.is_multiple_of(1024) {
                    thread::yield_now();
                }
            }
            (WhenIdle::Rest, 65..=256) => thread::yield_now(),
            (WhenIdle::Rest, n) => {
                thread::sleep(Duration::from_micros(u64::from((n - 256).min(500))));
            }
        }
    }
}

/// Links are looked at this often.
const LINKS: Nanos = Nanos(250_000_000);

fn work(
    mut plane: DataPlane,
    from: &Receiver<Request>,
    stop: &AtomicBool,
    mode: WhenIdle,
    epoch: Instant,
) -> DataPlane {
    let mut idle = Idle { mode, rounds: 0 };
    let mut links = Nanos(0);
    loop {
        loop {
            match from.try_recv() {
                Ok(request) => request(&mut plane),
                Err(TryRecvError::Empty) => break,
                // Without a handle nobody can ask; the runner still can stop it.
                Err(TryRecvError::Disconnected) => break,
            }
        }
        let now = since(epoch);
        let moved = plane.poll(now);
        if now.since(links) >= LINKS {
            links = now;
            plane.check_links();
        }
        if stop.load(Ordering::Acquire) {
            return plane;
        }
        idle.found(moved);
    }
}

fn serve(
    mut mine: Vec<(u8, Server)>,
    stop: &AtomicBool,
    mode: WhenIdle,
    epoch: Instant,
) -> Vec<(u8, Server)> {
    let mut idle = Idle { mode, rounds: 0 };
    while !stop.load(Ordering::Acquire) {
        let now = since(epoch);
        let n = mine.iter_mut().map(|(_, s)| s.serve(now)).sum();
        idle.found(n);
    }
    mine
}
