//! The switches' thread, for the rest of the process: started when the first switch is wanted.
//!
//! Room: between the main thread and the control socket's (which call) and `hub` (which answers).

use super::clock::Clock;
use super::hub::{self, Command};
use super::moves::{Ask, Reception, Stage};
use super::status::SwitchItem;
use super::tls::{Current, Identity};
use super::vdp::Common;
use super::wanted::Wanted;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc::{self, UnboundedSender, unbounded_channel};
use weir_agent::Link;
use weir_dataplane::Handle;

/// How long the thread may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// All switches of a process.
#[derive(Debug)]
pub struct Switches {
    plane: Handle,
    /// Where the node API is, and who answers there.
    api: Option<(IpAddr, Current)>,
    thread: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    to: UnboundedSender<Command>,
    thread: JoinHandle<()>,
}

impl Switches {
    /// None yet. Connections from other nodes come where the node API is, and by TLS as that.
    pub fn new(plane: Handle, api: Option<(IpAddr, Current)>) -> Self {
        Self { plane, api, thread: Mutex::new(None) }
    }

    /// Who we are to other nodes.
    pub fn identity(&self) -> Option<Identity> {
        self.api.as_ref().map(|(_, i)| i.now())
    }

    /// Asks something of a switch that moves. `None`: there is no such switch, or no answer.
    pub fn moving<T>(&self, vid: u16, ask: impl FnOnce(SyncSender<T>) -> Ask) -> Option<T> {
        let to = self.running().as_ref()?.to.clone();
        let (answer, from) = sync_channel(1);
        to.send(Command::Move(vid, ask(answer))).ok()?;
        from.recv_timeout(PATIENCE).ok()
    }

    /// Asks a switch that moves for pieces, and hands each on.
    ///
    /// # Errors
    /// What `each` says.
    pub fn pieces<E>(
        &self,
        vid: u16,
        ask: impl FnOnce(mpsc::Sender<Vec<u8>>) -> Ask,
        mut each: impl FnMut(Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(to) = self.running().as_ref().map(|r| r.to.clone()) else { return Ok(()) };
        let (pieces, mut from) = mpsc::channel(4);
        // Without the thread nothing comes.
        let _ = to.send(Command::Move(vid, ask(pieces)));
        while let Some(piece) = from.blocking_recv() {
            each(piece)?;
        }
        Ok(())
    }

    /// How each switch's move stands.
    pub fn stages(&self) -> BTreeMap<u16, Stage> {
        self.running().as_ref().and_then(|r| ask(r, Command::Stages)).unwrap_or_default()
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
            match start(self.plane.clone(), self.api.clone()) {
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

    /// Messages that came from controllers, and that went to them, by VID.
    pub fn messages(&self) -> BTreeMap<u16, (u64, u64)> {
        self.running().as_ref().and_then(|r| ask(r, Command::Messages)).unwrap_or_default()
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

fn start(plane: Handle, beside: Option<(IpAddr, Current)>) -> std::io::Result<Running> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let now = plane.call(|p| p.now()).map_err(std::io::Error::other)?;
    let clock = Clock::showing(now);
    let (to, commands) = unbounded_channel();
    let run = move || {
        let tasks = tokio::task::LocalSet::new();
        let common = Rc::new(Common::new(plane, clock));
        let reception = Reception::new(beside);
        tasks.block_on(&runtime, hub::serve(common, reception, commands));
    };
    let thread = std::thread::Builder::new().name("weir-openflow".to_owned()).spawn(run)?;
    Ok(Running { to, thread })
}
