//! A device under test of our own: an OpenFlow switch whose faults are configured, and so known, by
//! which a measurement can be judged (the instrument's ground truth).
//!
//! Room: sans-I/O. Bytes of control connections and frames of ports are arguments and results, and so
//! is time: the same calls give the same answers, whatever machine they are made on. [`serve`] alone
//! has sockets, devices and a clock. Called by `weir dut`, by `weir demo`, and by tests of measurements.
//!
//! Slow and obvious on purpose: one flow table, looked up from its top; its judge is `ovs-ofctl` and
//! whoever reads it. `book` is what the agent believes, `hardware` what frames meet; between them is a
//! queue in which every change takes the time that the profile says. That gap is where switches lie.

mod abilities;
mod agent;
mod attention;
mod book;
mod conn;
mod cpu;
mod forward;
mod hardware;
mod header;
mod lateness;
mod line;
pub mod profile;
mod program;
mod random;
mod rewrite;
pub mod serve;
mod slow;
mod snmp;
mod statistics;

use book::Book;
use conn::Conn;
use cpu::Cpu;
use hardware::Hardware;
pub use lateness::Lateness;
use line::{Event, Line};
use profile::Profile;
use random::{Random, Share};
use slow::{Rated, Slow};
use statistics::Desk;
use std::collections::{BTreeMap, VecDeque};
use weir_openflow::model::{
    Fragments, Port, PortConfig, PortDesc, PortFeatures, PortStats, SwitchConfig,
};
use weir_packet::Nanos;

/// Control connections at once; more are not taken.
pub const CONNECTIONS_MAX: usize = 64;

/// Bytes of frames that may wait to be taken by whoever calls; more are dropped.
const OUT_BYTES: usize = 64 << 20;

/// A port.
struct PortState {
    desc: PortDesc,
    stats: PortStats,
}

/// The device. Times given to it must not go back; one that does counts as the latest so far.
pub struct Dut {
    profile: Profile,
    datapath_id: u64,
    config: SwitchConfig,
    ports: Vec<PortState>,
    conns: BTreeMap<u32, Conn>,
    next_conn: u32,
    book: Book,
    hardware: Hardware,
    desk: Desk,
    line: Line,
    slow: Option<Slow>,
    packet_ins: Rated,
    packet_ins_twice: Share,
    loses: Share,
    duplicates: Share,
    swaps: Share,
    /// A frame that waits for its successor to overtake it, and until when.
    swapped: Option<(u32, Vec<u8>, Nanos)>,
    packet_outs_lost: Share,
    out: VecDeque<(u32, Vec<u8>)>,
    out_bytes: usize,
    lookups: u64,
    matched: u64,
    slow_lost: u64,
    packet_ins_lost: u64,
    cpu: Cpu,
    updating: Nanos,
    answering: Nanos,
    born: Nanos,
    now: Nanos,
}

/// What the device knows of itself and tells nobody by OpenFlow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inside {
    /// Frames that the slow processor lost.
    pub slow_lost: u64,
    /// Packet-ins that found no place.
    pub packet_ins_lost: u64,
    /// Time spent on changes of the table.
    pub updating: Nanos,
    /// Time spent on statistics.
    pub answering: Nanos,
}

impl Dut {
    /// A device with these ports, numbered from 1 as they stand there.
    pub fn new(profile: Profile, ports: &[&str], now: Nanos) -> Self {
        let mut random = Random::new(profile.seed);
        let mut fork = || Random::new(random.next());
        let stale = profile.statistics.stale_us.nanos();
        let w = profile.forwarding;
        let desc = |(name, no): (&&str, u32)| PortState {
            desc: PortDesc {
                no: Port(no),
                // Locally administered, as nobody else's are.
                mac: [0x02, 0xd0, 0x7e, 0, (no >> 8) as u8, no as u8],
                name: name.chars().take(15).collect(),
                config: PortConfig::default(),
                state: Default::default(),
                current: PortFeatures::FD_10G | PortFeatures::COPPER,
                advertised: PortFeatures::default(),
                supported: PortFeatures::default(),
                peer: PortFeatures::default(),
                current_kbps: 10_000_000,
                max_kbps: 10_000_000,
            },
            stats: PortStats { port: Port(no), ..PortStats::default() },
        };
        Self {
            datapath_id: 0x0000_02d0_7e00_0000,
            config: SwitchConfig { fragments: Fragments::Normal, miss_send_len: 128 },
            ports: ports.iter().zip(1..).map(desc).collect(),
            conns: BTreeMap::new(),
            next_conn: 1,
            book: Book::new(profile.table),
            hardware: Hardware::new(profile.update, stale, fork()),
            desk: Desk::default(),
            line: Line::default(),
            slow: profile.actions.cpu.as_ref().map(|cpu| Slow::new(cpu, fork())),
            packet_ins: Rated::new(profile.packet_in.per_second, profile.packet_in.queue),
            packet_ins_twice: Share::new(profile.packet_in.duplicate_percent.part()),
            loses: Share::new(w.lose_percent.part()),
            // A frame that is overtaken is not the one that comes twice, though both be one of each hundred.
            duplicates: Share::between(w.duplicate_percent.part()),
            swaps: Share::new(w.swap_percent.part()),
            swapped: None,
            packet_outs_lost: Share::new(profile.packet_out.lose_percent.part()),
            out: VecDeque::new(),
            out_bytes: 0,
            lookups: 0,
            matched: 0,
            slow_lost: 0,
            packet_ins_lost: 0,
            cpu: Cpu::default(),
            updating: Nanos(0),
            answering: Nanos(0),
            born: now,
            now,
            profile,
        }
    }

    /// What it does wrong.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// How late its changes of the table were made.
    pub fn lateness(&self) -> Lateness {
        self.hardware.late.told()
    }

    /// What it knows of itself.
    pub fn inside(&self) -> Inside {
        Inside {
            slow_lost: self.slow_lost,
            packet_ins_lost: self.packet_ins_lost,
            updating: self.updating,
            answering: self.answering,
        }
    }

    fn port_mut(&mut self, no: u32) -> Option<&mut PortState> {
        self.ports.get_mut((no as usize).checked_sub(1)?)
    }

    /// A controller has connected; gives the connection's number. `None`: there are too many.
    pub fn connect(&mut self, now: Nanos) -> Option<u32> {
        let now = self.run(now);
        if self.conns.len() >= CONNECTIONS_MAX {
            return None;
        }
        let id = self.next_conn;
        self.next_conn += 1;
        let how = self.profile.connection;
        self.conns.insert(id, Conn::new(&how, &self.profile.echo, now));
        if !how.close_after_us.is_zero() {
            self.line.put(now + how.close_after_us.nanos(), Event::Close(id));
        }
        Some(id)
    }

    /// The connection is gone.
    pub fn disconnect(&mut self, conn: u32) {
        self.conns.remove(&conn);
    }

    /// How many bytes a connection takes now; 0 while it is held back.
    pub fn input_room(&self, conn: u32) -> usize {
        self.conns.get(&conn).map_or(0, Conn::input_room)
    }

    /// Bytes came; says how many it took. The rest is to be given again.
    pub fn receive(&mut self, conn: u32, bytes: &[u8], now: Nanos) -> usize {
        let now = self.run(now);
        let Some(c) = self.conns.get_mut(&conn) else { return bytes.len() };
        let taken = c.receive(bytes, now);
        self.read(conn, now);
        taken
    }

    /// What is to be written to a connection.
    pub fn outgoing(&mut self, conn: u32) -> &[u8] {
        match self.conns.get_mut(&conn) {
            Some(c) => c.outgoing(),
            None => &[],
        }
    }

    /// The first `n` bytes of it were written.
    pub fn advance(&mut self, conn: u32, n: usize) {
        if let Some(c) = self.conns.get_mut(&conn) {
            c.advance(n);
        }
    }

    /// Why a connection is to be closed once all is written; `None`: it goes on.
    pub fn over(&self, conn: u32) -> Option<&str> {
        self.conns.get(&conn).and_then(Conn::over)
    }

    /// The next frame that leaves, and by which port. They are kept until they are taken.
    pub fn frame_out(&mut self) -> Option<(u32, Vec<u8>)> {
        let next = self.out.pop_front()?;
        self.out_bytes -= next.1.len();
        Some(next)
    }

    /// Time has come to `now`: does all that was due.
    pub fn tick(&mut self, now: Nanos) {
        let now = self.run(now);
        let conns: Vec<u32> = self.conns.keys().copied().collect();
        for id in conns {
            if let Some(c) = self.conns.get_mut(&id).filter(|c| c.due().is_some_and(|t| t <= now)) {
                c.tick(now);
            }
            // What was held back for want of room.
            self.read(id, now);
        }
    }

    /// When a change of the table, or what the table waits for, is due.
    pub fn change_due(&self) -> Option<Nanos> {
        self.hardware.due()
    }

    /// When `tick` is due.
    pub fn wake_at(&self) -> Option<Nanos> {
        let conns = self.conns.values().filter_map(Conn::due).min();
        [self.due(), conns].into_iter().flatten().min()
    }

    fn due(&self) -> Option<Nanos> {
        let swapped = self.swapped.as_ref().map(|(_, _, until)| *until);
        [self.hardware.due(), self.desk.due(), self.line.due(), swapped].into_iter().flatten().min()
    }

    /// Does what was due up to `now`, each thing at its own time; gives the time that counts.
    fn run(&mut self, now: Nanos) -> Nanos {
        self.now = self.now.max(now);
        self.settle(self.now);
        self.now
    }

    fn settle(&mut self, now: Nanos) {
        while let Some(due) = self.due().filter(|t| *t <= now) {
            if self.hardware.due() == Some(due) {
                let done = self.hardware.step(now);
                if let Some((from, cost)) = self.hardware.begun.take() {
                    self.updating = self.updating + cost;
                    self.cpu.works(from, cost);
                }
                if let Some(Some(done)) = done {
                    self.done(done, due);
                }
            } else if self.desk.due() == Some(due) {
                self.answer(due);
            } else if let Some((at, event)) = self.line.take(now) {
                self.happens(event, at);
            } else {
                self.release_swapped(now);
            }
        }
    }

    fn happens(&mut self, event: Event, at: Nanos) {
        match event {
            Event::Leave(port, frame) => {
                let room = self.out_bytes < OUT_BYTES;
                let Some(p) = self.port_mut(port) else { return };
                if !room {
                    p.stats.tx_dropped += 1;
                    return;
                }
                p.stats.tx_packets += 1;
                p.stats.tx_bytes += frame.len() as u64;
                self.out_bytes += frame.len();
                self.out.push_back((port, frame));
            }
            Event::Tell(conn, msg) => {
                if let Some(c) = self.conns.get_mut(&conn) {
                    c.send(&msg);
                }
            }
            Event::TellAll(body) => self.conns.values_mut().for_each(|c| c.tell(body.clone())),
            Event::PacketOut(m) => self.packet_out(&m, at),
            Event::Expire(id) => self.expire(id, at),
            Event::Close(conn) => {
                if let Some(c) = self.conns.get_mut(&conn) {
                    c.end("the profile closes it after this time");
                }
            }
        }
    }
}
