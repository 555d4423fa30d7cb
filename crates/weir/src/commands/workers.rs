//! The threads of `weir run` that have the data plane: one worker, or several and a desk by which they are asked as one.
//!
//! Room: wiring. Called by `run`, which knows no more of them than how they are asked and that they end.

use super::say::tell;
use crate::config::apply::{self, Devices, Model};
use crate::config::diff::{Step, diff};
use crate::config::failed::Failed;
use crate::config::plan::{Fixed, Plan};
use crate::fault::bad_input;
use crate::processor::Own;
use anyhow::{Context, Result, anyhow};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use weir_dataplane::crew::{Balancer, Crew, CrewHandle};
use weir_dataplane::{DataPlane, Handle, Runner, WhenIdle};
use weir_io::waiting::Epoll;
use weir_packet::Waiter;

/// How often it is looked whether one worker has more to do than another.
const LOOK: Duration = Duration::from_millis(250);
/// How long frames that workers have sent may take to leave at the end.
const LEAVING: Duration = Duration::from_millis(200);

/// Whoever has the data plane.
pub enum Workers {
    /// It owns the data plane.
    One(Runner),
    /// Each has a replica; the desk is asked.
    Several {
        /// The workers.
        crew: Crew,
        /// Has a data plane without frames.
        desk: Runner,
        /// Moves flows between workers.
        balance: Balance,
    },
}

impl Workers {
    /// Makes the data plane that a plan describes, prints what it makes, and starts who has it. A worker that may rest
    /// sleeps until a port has frames. Each takes its own of the processors that were set aside, if any were.
    pub fn start(plan: &Plan, own: Vec<Own>) -> Result<(Self, Model)> {
        let Fixed { config, serving, idle, .. } = &plan.fixed;
        let made = || DataPlane::new(config.clone()).map_err(bad_input);
        let each = match config.workers {
            1 => String::new(),
            n => format!("{n} workers, each "),
        };
        let told = format!(
            "data plane: {each}{} frames of {} bytes, {} channels, TCAM of {} + {} entries",
            config.frames,
            config.chunk_bytes,
            config.channels,
            config.tcam.mapping_entries,
            config.tcam.action_entries
        );
        if config.workers == 1 {
            let mut plane = made()?;
            let model = fill(&mut plane, plan, &told)?;
            let runner = match waiter(*idle) {
                Some(epoll) => Runner::start_waiting(plane, *serving, epoll),
                None => Runner::start(plane, *serving, *idle),
            }
            .context("starting the worker")?;
            for own in own {
                runner.handle().call_there(move |_| own.take())??;
            }
            return Ok((Self::One(runner), model));
        }
        let planes = (0..config.workers).map(|_| made()).collect::<Result<Vec<_>>>()?;
        let waiters: Option<Vec<_>> = planes.iter().map(|_| waiter(*idle)).collect();
        let crew = match waiters {
            Some(w) => {
                Crew::start_waiting(planes.into_iter().zip(w).collect(), Vec::new(), *serving)
            }
            None => Crew::start(planes, Vec::new(), *serving, *idle),
        }
        .context("starting the workers")?;
        for (n, own) in own.into_iter().enumerate() {
            let worker = crew.handle().worker(n).cloned().context("a worker is missing")?;
            worker.call_there(move |_| own.take())??;
        }
        // Its ports are opened with the frames of workers that run: what comes meanwhile finds no VDP and is counted.
        let mut desk = crew.desk(config.clone()).map_err(bad_input)?;
        let model = fill(&mut desk, plan, &told)?;
        let desk = crew.run_desk(desk).context("starting the workers' desk")?;
        let balance = Balance::start(crew.handle()).context("starting the workers' balancer")?;
        Ok((Self::Several { crew, desk, balance }, model))
    }

    /// For asking.
    pub fn handle(&self) -> Handle {
        match self {
            Self::One(runner) => runner.handle(),
            Self::Several { desk, .. } => desk.handle(),
        }
    }

    /// What came of asking, and if nothing did, why nobody is answered any more.
    pub fn or_why<T>(&self, done: Result<T, impl Into<anyhow::Error>>) -> Result<T> {
        match (done, self) {
            (Ok(t), _) => Ok(t),
            (Err(e), Self::Several { crew, .. }) => Err(match crew.fault() {
                Some(why) => anyhow!(why.to_owned()),
                None => e.into(),
            }),
            (Err(e), Self::One(_)) => Err(e.into()),
        }
    }

    /// Ends all threads and gives the data planes back.
    pub fn stop(self) -> Result<Vec<DataPlane>> {
        match self {
            Self::One(runner) => Ok(vec![runner.stop()?]),
            Self::Several { crew, desk, balance } => {
                balance.stop();
                // What VDPs have sent leaves; what comes meanwhile stays where it is.
                if desk.handle().call(|p| p.rest_ports(true)).is_ok() {
                    let ports = crew.handle().spreads();
                    let until = Instant::now() + LEAVING;
                    while ports.iter().any(|p| p.unsent() > 0) && Instant::now() < until {
                        thread::sleep(Duration::from_millis(1));
                    }
                }
                drop(desk.stop());
                Ok(crew.stop()?)
            }
        }
    }
}

/// Without a descriptor for it, a worker rests by the clock.
fn waiter(idle: WhenIdle) -> Option<Box<dyn Waiter>> {
    let epoll = (idle == WhenIdle::Rest).then(Epoll::new)?.ok()?;
    Some(Box::new(epoll))
}

/// Puts everything of a plan into a data plane that has nothing yet.
fn fill(plane: &mut DataPlane, plan: &Plan, about: &str) -> Result<Model> {
    let mut model = Model::new(plan, Devices::Real);
    let steps = diff(&model.plan, plan).map_err(bad_input)?;
    let told: Vec<String> = steps.iter().map(Step::told).collect();
    apply::run_here(plane, &mut model, steps).map_err(|e: Failed| {
        if e.is_environment() { anyhow!(e.to_string()) } else { bad_input(e) }
    })?;
    tell(about);
    for line in told.into_iter().chain(std::mem::take(&mut model.notes)) {
        tell(line);
    }
    Ok(model)
}

/// The thread that moves flows from workers that have much to do to those that have little.
pub struct Balance {
    /// Dropped, it ends.
    until: Sender<()>,
    thread: JoinHandle<()>,
}

impl Balance {
    fn start(crew: CrewHandle) -> std::io::Result<Self> {
        let (until, ends) = channel::<()>();
        let run = move || {
            let mut balancer = Balancer::default();
            while ends.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if balancer.look(&crew).is_err() {
                    // Whoever asks a worker next finds it gone, and says so.
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("weir-balance".to_owned()).spawn(run)?;
        Ok(Self { until, thread })
    }
    fn stop(self) {
        drop(self.until);
        // It has nothing to say.
        let _ = self.thread.join();
    }
}
