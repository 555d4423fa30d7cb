//! The end of a VXLAN tunnel as a port (RFC 7348): whole frames in UDP datagrams, a network identifier in
//! front of each.
//!
//! Room: ports. No privilege is needed, and nothing of the kernel's but UDP; the other end may be a
//! kernel's VXLAN device. Ends of one worker with the same local address share a socket
//! (`endpoint`), told apart by their identifiers, so tenants' addresses may overlap as they like; what
//! comes with an identifier must come from the address that it belongs to. `settings` is what an end is
//! told, `header` the eight bytes, `liveness` which of several ways is alive, `quality` how good each is.
//!
//! Where this differs from section 5 of the RFC, or it leaves a choice:
//! - The outer source port is the local one, not a hash of the inner frame: a socket has one port, and
//!   as many sockets as values would cut every batch to pieces. Between two ends equal-cost paths
//!   below are therefore not used side by side; several ways of an end are.
//! - The outer checksum is zero over IPv4 and computed over IPv6.
//! - Nothing is flooded by multicast: an end has one other end. VLAN tags inside stay where they are.
//! - Datagrams are never fragmented: a frame that does not fit the way is told as too long before.

mod endpoint;
pub mod header;
mod liveness;
mod quality;
mod settings;

pub use settings::{MAX_WAYS, Settings, UDP_PORT, Way};

use crate::sys::udp::{self, Address};
use endpoint::{Endpoint, Guest, clock};
use header::HEADER_BYTES;
use liveness::{Liveness, Probe, Said};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use weir_packet::{
    Arrival, Burst, Caps, Device, DeviceCounters, DeviceError, Feed, LinkState, Nanos, Pool,
    WayQuality,
};

/// An IPv4 and an IPv6 header without options.
const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;

/// A tunnel's end.
#[derive(Debug)]
pub struct Vxlan {
    name: String,
    settings: Settings,
    endpoint: Option<Arc<Endpoint>>,
    /// Its place at the endpoint.
    at: usize,
    ways: Vec<udp::Way>,
    caps: Caps,
    up: LinkState,
    fault: Option<String>,
    liveness: Option<Liveness>,
    /// The link of what this end stands for, and of what the other does.
    stands: LinkState,
    theirs: LinkState,
    /// Probes sent on each way.
    probes: u64,
    /// Who it is in its own probes.
    me: u64,
    /// Its own, and what its endpoint had counted for it when it was closed.
    counters: DeviceCounters,
}

impl Vxlan {
    /// Opens an end, called `name` by people.
    ///
    /// # Errors
    /// [`DeviceError`]: the local address is not of this machine or in use, another port of this data
    /// plane has the network identifier.
    pub fn open(name: &str, settings: Settings, pool: &Pool) -> Result<Self, DeviceError> {
        let local = settings.local;
        let setting = |problem| DeviceError::Setting { name: name.to_owned(), problem };
        let endpoint = Endpoint::at(local, pool).map_err(|e| match e.kind() {
            io::ErrorKind::AddrInUse => setting(format!(
                "UDP {local} is in use, by another program or data plane: give local=ADDRESS"
            )),
            io::ErrorKind::AddrNotAvailable => setting(format!(
                "{} is no address of this machine: see 'ip address', and give local=ADDRESS",
                local.ip()
            )),
            _ => DeviceError::System {
                what: "opening a UDP socket",
                name: local.to_string(),
                source: e,
            },
        })?;
        let me = RandomState::new().build_hasher().finish();
        let key = settings.key.or(settings.probe.map(|_| 0));
        let at = endpoint.state().sit(&Guest { ways: &settings.ways, key, me }).map_err(|vni| {
            setting(format!("network identifier {vni} is another port's at {local}: give another"))
        })?;
        // A port that has not been told of yet may not be there at all.
        let stands = LinkState::from(settings.link.is_none());
        let way = |w: &Way| udp::Way { header: header::header(w.vni), to: Address::new(w.remote) };
        let mut port = Self {
            name: name.to_owned(),
            ways: settings.ways.iter().map(way).collect(),
            liveness: settings.probe.map(|t| Liveness::new(settings.ways.len(), t)),
            settings,
            endpoint: Some(endpoint),
            at,
            caps: Caps::new(0, Feed::Overflows),
            up: LinkState::Up,
            fault: None,
            stands,
            theirs: LinkState::Up,
            probes: 0,
            me,
            counters: DeviceCounters::default(),
        };
        port.look(pool);
        Ok(port)
    }

    /// The longest frame, Ethernet header included, in a network of this MTU.
    fn room(local: SocketAddr, mtu: usize) -> usize {
        let ip = if local.is_ipv4() { IPV4 } else { IPV6 };
        mtu.saturating_sub(ip + UDP + HEADER_BYTES)
    }

    /// Asks the kernel what it knows of the ways: whether there is a route, and how long packets may be.
    fn look(&mut self, pool: &Pool) {
        let local = self.settings.local;
        let mut mtu = self.settings.mtu;
        let mut trouble = None;
        for w in &self.settings.ways {
            match udp::path_mtu(local, w.remote) {
                // What is said counts, unless less is known to fit.
                Ok(found) => mtu = Some(mtu.map_or(found, |m| m.min(found))),
                Err(e) => trouble = Some(format!("no way to {}: {e}", w.remote.ip())),
            }
        }
        if let Some(mtu) = mtu {
            let most = pool.max_frame_bytes().min(Self::room(local, mtu));
            self.caps = Caps::new(most, self.caps.feed);
        }
        let reachable = trouble.is_none() || self.ways.len() > 1;
        let silent = self.liveness.as_ref().and_then(|l| {
            let down = self.settings.ways.iter().enumerate().filter(|(i, _)| !l.is_up(*i));
            let list: Vec<String> =
                down.map(|(_, w)| format!("{} of {}", w.vni, w.remote.ip())).collect();
            let taken = self.settings.ways.get(l.taken()).map_or(0, |w| w.vni);
            (!list.is_empty()).then(|| format!("silent: {}; {taken} is taken", list.join(", ")))
        });
        let alive = self.liveness.as_ref().is_none_or(Liveness::any_up);
        let leads_on = self.theirs == LinkState::Up;
        self.up = (reachable && alive && leads_on).into();
        let beyond = || (!leads_on).then(|| "the port at its other end is down".to_owned());
        self.fault = trouble.or(silent).or_else(beyond);
    }

    /// What the other end has said of the link that it stands for.
    fn hear(&mut self) {
        let Some(e) = &self.endpoint else { return };
        self.theirs = e.state().theirs(self.at);
    }

    /// Sends probes when they are due, and looks which way is to be taken.
    fn probe(&mut self) {
        let (Some(l), Some(e)) = (&mut self.liveness, &self.endpoint) else { return };
        let now = clock();
        let mut state = e.state();
        state.heard(self.at, |way, hears| l.heard(way, hears, now));
        if l.tick(now) {
            drop(state);
            self.say(now);
        }
    }

    /// Sends a probe on each way.
    fn say(&mut self, now: Nanos) {
        let Some(e) = &self.endpoint else { return };
        let mut state = e.state();
        for (i, w) in self.ways.iter().enumerate() {
            let hears = self.liveness.as_ref().is_some_and(|l| l.hears(i, now));
            let (says, echo) = (Said { hears, link: self.stands }, state.echo(self.at, i, now));
            let probe = Probe { sender: self.me, says, number: self.probes, sent: now.0, echo };
            let frame = probe.frame(self.settings.key.unwrap_or(0));
            // One that is lost is what probes are for.
            let _ = state.tx.send(&e.socket, w, [&frame[..]].into_iter());
        }
        self.probes += 1;
    }
}

impl Device for Vxlan {
    fn name(&self) -> &str {
        &self.name
    }
    fn caps(&self) -> Caps {
        self.caps
    }
    /// Down without a route, and, where ways are probed, while none of them is alive; and while what the other end stands for is.
    fn link(&mut self, pool: &mut Pool) -> LinkState {
        self.hear();
        self.look(pool);
        self.up
    }
    fn stand_for(&mut self, link: LinkState) {
        let changes = std::mem::replace(&mut self.stands, link) != link;
        match &mut self.liveness {
            // Each probe says it.
            Some(l) if changes => l.hurry(),
            Some(_) => {}
            // One that is lost is followed by the next time that it is said.
            None if self.settings.key.is_some() => self.say(clock()),
            None => {}
        }
    }
    fn rx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let Some(e) = &self.endpoint else { return 0 };
        let mut state = e.state();
        if state.reads(self.at) {
            state.receive(&e.socket, self.at, pool);
        }
        state.take(self.at, burst)
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let Some(e) = &self.endpoint else { return 0 };
        let taken_way = self.liveness.as_ref().map_or(0, Liveness::taken);
        let Some(way) = self.ways.get(taken_way) else { return 0 };
        let mut state = e.state();
        let mut taken = 0;
        while let Some(rest) = burst.as_slice().get(taken..).filter(|r| !r.is_empty()) {
            match state.tx.send(&e.socket, way, rest.iter().map(weir_packet::Frame::bytes)) {
                Ok(0) => break,
                Ok(n) => taken += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // An error that an earlier datagram has met is told once, by whichever call comes next;
                // that there is no way, or the frame does not fit it, by each.
                Err(_) => {
                    self.counters.tx_errors += 1;
                    taken += 1;
                }
            }
        }
        drop(state);
        for frame in burst.drain_front(taken) {
            pool.free(frame);
        }
        taken
    }
    fn flush(&mut self, _pool: &mut Pool) {
        if self.liveness.is_some() {
            self.probe();
        }
    }
    fn held(&self) -> usize {
        self.endpoint.as_ref().map_or(0, |e| e.state().held(self.at))
    }
    fn arrival(&self) -> Arrival<'_> {
        match &self.endpoint {
            None => Arrival::Never,
            Some(e) if e.state().waiting(self.at) > 0 => Arrival::Polled,
            Some(e) => Arrival::Told(e.socket.descriptor()),
        }
    }
    fn patience(&self) -> Nanos {
        self.liveness.as_ref().map_or(Nanos(u64::MAX), Liveness::patience)
    }
    fn fault(&self) -> Option<String> {
        self.fault.clone()
    }
    fn counters(&self) -> DeviceCounters {
        let mut c = self.counters;
        let Some(e) = &self.endpoint else { return c };
        let state = e.state();
        let own = state.counts(self.at);
        (c.rx_missed, c.rx_errors) = (own.missed, own.too_long);
        c.csum_completed = own.completed;
        (c.rx_unknown, c.rx_malformed) = (own.unknown, own.malformed);
        if state.reads(self.at) {
            c.rx_missed += e.socket.drops();
        }
        c.way_changes = self.liveness.as_ref().map_or(0, Liveness::changes);
        c
    }
    fn ways(&self) -> Vec<WayQuality> {
        let (Some(l), Some(e)) = (&self.liveness, &self.endpoint) else { return Vec::new() };
        let state = e.state();
        let way = |(i, w): (usize, &Way)| {
            let q = state.quality(self.at, i);
            WayQuality {
                name: format!("{} of {}", w.vni, w.remote.ip()),
                up: l.is_up(i),
                taken: l.taken() == i,
                sent: self.probes,
                heard: q.heard,
                lost: q.lost,
                late: q.late,
                delay: q.delay,
                jitter_ns: q.jitter_ns,
            }
        };
        self.settings.ways.iter().enumerate().map(way).collect()
    }
    fn close(&mut self, pool: &mut Pool) {
        let mut counted = self.counters();
        let Some(e) = self.endpoint.take() else { return };
        let mut state = e.state();
        let read = state.reads(self.at);
        state.leave(self.at, pool);
        if read && !state.is_empty() {
            // Who reads the socket from now on tells of what it has lost, from its beginning.
            counted.rx_missed = counted.rx_missed.saturating_sub(e.socket.drops());
        }
        self.counters = counted;
    }
}
