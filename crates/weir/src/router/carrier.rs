//! Tells the interfaces inside virtual routers whether their ports are up: whose port is down has no carrier, so that routes and
//! routing protocols find out at once.
//!
//! Room: one thread for all routers of a process, as long as any has wires. Called by [`super::node`]. An interface inside is one
//! end of a veth pair; it has a carrier while this end is up. (Routers on TAP devices are told by [`super::container`].)

use super::netlink::Netlink;
use crate::commands::say::tell;
use anyhow::Result;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weir_dataplane::Handle;
use weir_packet::LinkState;

/// How often ports are looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Wires of all routers.
#[derive(Debug, Default)]
pub struct Carriers(Arc<Mutex<Watched>>);

#[derive(Debug, Default)]
struct Watched {
    /// By this end's interface.
    wires: BTreeMap<String, Watch>,
    runs: bool,
}

#[derive(Debug)]
struct Watch {
    port: String,
    told: LinkState,
}

impl Carriers {
    /// Has these interfaces follow these ports, from up on.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn follow(
        &self,
        handle: &Handle,
        wires: impl IntoIterator<Item = (String, String)>,
    ) -> Result<()> {
        let mut all = lock(&self.0);
        let wires = wires.into_iter();
        all.wires.extend(
            wires.map(|(interface, port)| (interface, Watch { port, told: LinkState::Up })),
        );
        if all.wires.is_empty() || all.runs {
            return Ok(());
        }
        let (watched, handle) = (Arc::clone(&self.0), handle.clone());
        let thread = std::thread::Builder::new().name("weir-carriers".to_owned());
        thread.spawn(move || watch(&watched, &handle))?;
        all.runs = true;
        Ok(())
    }
    /// Lets go of the interfaces that begin so.
    pub fn leave(&self, interfaces: &str) {
        lock(&self.0).wires.retain(|i, _| !i.starts_with(interfaces));
    }
}

fn lock(watched: &Mutex<Watched>) -> MutexGuard<'_, Watched> {
    watched.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watch(watched: &Mutex<Watched>, handle: &Handle) {
    loop {
        std::thread::sleep(LOOK);
        let ports = handle.call(|p| p.port_views());
        let mut all = lock(watched);
        let (Ok(ports), false) = (ports, all.wires.is_empty()) else {
            all.runs = false;
            return;
        };
        for (interface, w) in &mut all.wires {
            // One that is not there is not told of: its router can't be either, or is about to go.
            let Some(port) = ports.iter().find(|p| p.name == w.port) else { continue };
            let now = port.up.into();
            if now == w.told {
                continue;
            }
            // Once for each change: what is refused now is refused again.
            w.told = now;
            if let Err(e) = Netlink::new().and_then(|mut n| n.set(interface, now)) {
                tell(format_args!("port {}: {e:#}", w.port));
            }
        }
    }
}
