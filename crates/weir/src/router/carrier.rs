//! Tells the interfaces inside virtual routers what their ports are: whose port is down, or not there any more, has no carrier, so
//! that routes and routing protocols find out at once; and no packet is longer than the port takes.
//!
//! Room: one thread for all routers of a process, as long as any has wires. Called by [`super::node`]. An interface inside is one
//! end of a veth pair; it has a carrier while this end is up. (That of a TAP device is told by [`super::container`].)

use super::netlink::Netlink;
use super::programs::Place;
use crate::commands::say::tell;
use anyhow::Result;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weir_dataplane::{Handle, PortView};
use weir_packet::LinkState;

/// How often ports are looked at.
const LOOK: Duration = Duration::from_millis(250);
const ETHERNET_BYTES: usize = 14;
const TAG_BYTES: usize = 4;
/// What interfaces have when they are made.
const USUAL_MTU: usize = 1500;

/// Wires of all routers.
#[derive(Debug, Default)]
pub struct Carriers(Arc<Mutex<Watched>>);

#[derive(Debug, Default)]
struct Watched {
    /// By a name of their own: this end's interface, where there is one.
    wires: BTreeMap<String, Watch>,
    runs: bool,
}

/// A wire of a router.
#[derive(Debug)]
pub struct Led {
    /// The port that it follows.
    pub port: String,
    /// Its interface inside.
    pub inside: String,
    /// The router.
    pub place: Arc<Place>,
    /// Whether there is an interface at this end.
    pub ends_here: bool,
    /// Whether its frames have a VLAN tag at the port that they do not have inside.
    pub tagged: bool,
}

#[derive(Debug)]
struct Watch {
    led: Led,
    told: LinkState,
    mtu: usize,
}

impl Carriers {
    /// Has these interfaces follow these ports. When it returns they are told how those are now.
    ///
    /// # Errors
    /// The system has no thread left, or nobody serves the data plane any more.
    pub fn follow(
        &self,
        handle: &Handle,
        wires: impl IntoIterator<Item = (String, Led)>,
    ) -> Result<()> {
        let ports = handle.call(|p| p.port_views())?;
        let mut all = lock(&self.0);
        for (interface, led) in wires {
            let mut w = Watch { led, told: LinkState::Up, mtu: USUAL_MTU };
            w.look(&interface, &ports);
            all.wires.insert(interface, w);
        }
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
            w.look(interface, &ports);
        }
    }
}

impl Watch {
    /// Tells once for each change: what is refused now is refused again.
    fn look(&mut self, interface: &str, ports: &[PortView]) {
        let port = ports.iter().find(|p| p.name == self.led.port);
        // One that is not there any more is not up.
        let now = port.is_some_and(|p| p.up).into();
        if self.led.ends_here && now != self.told {
            self.told = now;
            self.say(Netlink::new().and_then(|mut n| n.set(interface, now)));
        }
        let Some(mtu) = port.map(|p| self.led.mtu(p)).filter(|m| *m != self.mtu) else { return };
        self.mtu = mtu;
        let inside = &self.led.inside;
        self.say(self.led.place.door.within(|| Netlink::new()?.set_mtu(inside, mtu)));
        if self.led.ends_here {
            // A pair drops what is longer than its receiving end would send.
            self.say(Netlink::new().and_then(|mut n| n.set_mtu(interface, mtu)));
        }
    }

    fn say(&self, done: Result<()>) {
        if let Err(e) = done {
            tell(format_args!("port {}: {e:#}", self.led.port));
        }
    }
}

impl Led {
    /// The longest packet that leaves by the port.
    fn mtu(&self, port: &PortView) -> usize {
        let tag = if self.tagged { TAG_BYTES } else { 0 };
        port.mtu.min(port.max_frame_bytes.saturating_sub(ETHERNET_BYTES + tag))
    }
}
