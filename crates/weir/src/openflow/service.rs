//! The switches' thread, for the rest of the process: started when the first switch is wanted.
//!
//! Room: between the main thread and the control socket's (which call) and `hub` (which answers).

use super::clock::Clock;
use super::hub::{self, Command};
use super::status::SwitchItem;
use super::vdp::Common;
use super::wanted::Wanted;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use weir_agent::Link;
use weir_dataplane::Handle;

/// How long the thread may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// All switches of a process.
#[derive(Debug)]
pub struct Switches {
    plane: Handle,
    thread: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    to: UnboundedSender<Command>,
    thread: JoinHandle<()>,
}

impl Switches {
    /// None yet.
    pub fn new(plane: Handle) -> Self {
        Self { plane, thread: Mutex::new(None) }
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the switches these. Says what could not be had, a line each; it is tried again.
    pub fn update(&self, wanted: Vec<Wanted>) -> Vec<String> {
        let mut running = self.running();
        if running.is_none() {
            if wanted.is_empty() {
                return Vec::new();
            }
            match start(self.plane.clone()) {
                Ok(r) => *running = Some(r),
                Err(e) => return vec![format!("no thread for OpenFlow switches: {e}")],
            }
        }
        let asked = running.as_ref().and_then(|r| ask(r, |a| Command::Update(wanted, a)));
        asked.unwrap_or_else(|| vec!["the thread of the OpenFlow switches has ended".to_owned()])
    }

    /// The link of a port came or went.
    pub fn link(&self, port: &str, link: Link) {
        if let Some(r) = &*self.running() {
            // Without the thread there is nobody to tell.
            let _ = r.to.send(Command::Link(port.to_owned(), link));
        }
    }

    /// What there is, by VID.
    pub fn status(&self) -> BTreeMap<u16, SwitchItem> {
        self.running().as_ref().and_then(|r| ask(r, Command::Status)).unwrap_or_default()
    }

    /// Ends all connections and the thread.
    pub fn stop(&self) {
        if let Some(r) = self.running().take() {
            let _ = r.to.send(Command::Stop);
            // One that panicked has said so.
            let _ = r.thread.join();
        }
    }
}

fn ask<T>(r: &Running, command: impl FnOnce(SyncSender<T>) -> Command) -> Option<T> {
    let (to, from) = sync_channel(1);
    r.to.send(command(to)).ok()?;
    from.recv_timeout(PATIENCE).ok()
}

fn start(plane: Handle) -> std::io::Result<Running> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let now = plane.call(|p| p.snapshot().at).map_err(std::io::Error::other)?;
    let clock = Clock::showing(now);
    let (to, commands) = unbounded_channel();
    let run = move || {
        let tasks = tokio::task::LocalSet::new();
        let common = Rc::new(Common::new(plane, clock));
        tasks.block_on(&runtime, hub::serve(common, commands));
    };
    let thread = std::thread::Builder::new().name("weir-openflow".to_owned()).spawn(run)?;
    Ok(Running { to, thread })
}
