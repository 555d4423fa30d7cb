//! Four networks on one data plane in virtual time: three that keep to what they were promised, and one that
//! does not. Every run is the same.
//!
//! Room: from memory, without a clock. The time moves on by what the data plane did: each frame has its
//! price, and so have a look into the tables and an interruption by control. Called by the study.

use super::attack::Attack;
use super::control::{Control, Manner, flows, to_host};
use super::frames::{Pattern, SMALL};
use super::wire::{Line, Shared, Source, Tally, Time, Uplink, Window, on_the_wire};
use anyhow::{Result, ensure};
use weir_classify::{Field, Geometry, Match, VLAN_PRESENT};
use weir_dataplane::{
    Action, Config, DataPlane, MappingRule, Path, PortNo, PortShare, VdpSpec, Vid,
};
use weir_openflow::model::{FlowCommand, FlowMod, Message};
use weir_packet::{BURST, DropReason, Nanos, PortId};

/// What a frame costs the worker, in nanoseconds: a slow worker, so that a run has few frames.
pub const FRAME: u64 = 1000;
/// What it costs beside that if it is dropped as beyond its network's part of the worker.
pub const EARLY: u64 = 100;
/// What each further hash table costs that a lookup asks.
pub const PROBE: u64 = 200;
/// What each rule costs that a lookup scans.
pub const SCAN: u64 = 20;
/// What a closure between two bursts costs.
pub const CALL: u64 = 1000;
/// What a change of a flow, a group or a meter costs: as many frames as it takes on a real worker.
pub const CHANGE: u64 = 12 * FRAME;
/// Bits a second of the uplink.
pub const UPLINK: u64 = 10_000_000_000;
/// Frames a second that each network is promised, and that those who keep to it send.
pub const PROMISED: u64 = 100_000;
/// Packets a second of each network that no rule takes, for its controller.
const TO_CONTROLLER: u64 = 1000;
/// How long a round takes that finds nothing.
const IDLE: u64 = 1000;
/// Between two turns of control, in nanoseconds.
const TURN: u64 = 100_000;
/// Turns between two questions of a controller that keeps to its part.
const QUESTION: u64 = 10;
/// When the first frame comes: until then controllers install their flows, in nanoseconds.
const START: u64 = 50_000_000;
/// Turns between two crashes of a controller.
const CRASH: u64 = 36;
/// Time to let an attack get under way, in nanoseconds.
const WARM: u64 = 20_000_000;
/// Time for what is on its way to arrive.
const DRAIN: u64 = 10_000_000;

/// A network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Its number: VDP and VLAN.
    pub id: u16,
    /// What it is called.
    pub name: &'static str,
    /// Bytes of its frames, FCS included.
    pub bytes: usize,
    /// Where its frames are processed.
    pub path: Path,
    /// Its promised part of the worker, in thousandths.
    pub permille: u16,
}

/// Those that keep to what they were promised.
pub const VICTIMS: [Network; 3] = [
    Network { id: 1, name: "small", bytes: SMALL, path: Path::Fast, permille: 150 },
    Network { id: 2, name: "slow", bytes: SMALL, path: Path::Slow, permille: 300 },
    Network { id: 3, name: "large", bytes: 1518, path: Path::Fast, permille: 150 },
];
/// The one that does not.
pub const ATTACKER: Network =
    Network { id: 4, name: "attacker", bytes: SMALL, path: Path::Fast, permille: 150 };
/// A VDP that comes and goes.
const GUEST: Vid = Vid(9);

/// Who is there, and what happens.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Networks that send, by number.
    pub active: [bool; 5],
    /// What the attacker does.
    pub attack: Option<Attack>,
    /// How long it is measured, in nanoseconds.
    pub time: u64,
}

/// What became of a network.
#[derive(Clone, Debug)]
pub struct Fate {
    /// Its frames.
    pub frames: Tally,
    /// What its controllers heard.
    pub heard: super::control::Heard,
}

/// What became of all.
#[derive(Clone, Debug)]
pub struct Fates {
    /// By number; 0 is nobody.
    pub of: Vec<Fate>,
    /// Frames that came out where or as they must not.
    pub leaked: u64,
    /// The data plane's accounts.
    pub accounts: crate::study::report::Accounts,
}

/// The time that a burst of a network takes the worker and the uplink, in nanoseconds.
pub fn burst(n: &Network, attack: Option<Attack>) -> u64 {
    let flood = attack.filter(|_| n.id == ATTACKER.id).and_then(|a| a.source(n.id));
    let bytes = flood.map_or(n.bytes, |s| s.bytes.max(n.bytes));
    let channel = [Attack::SlowPath, Attack::PacketIns, Attack::Buffers].map(Some);
    let slow = n.path == Path::Slow || flood.is_some() && channel.contains(&attack);
    let frame = if slow { 2 * FRAME } else { FRAME };
    let look = attack.filter(|_| n.id == ATTACKER.id).map_or(0, lookup);
    BURST as u64 * (frame + look + on_the_wire(bytes, UPLINK))
}

/// What a lookup of the attacker's frames costs beyond that in one hash table.
fn lookup(attack: Attack) -> u64 {
    let (tuples, scanned) = attack.lookup();
    tuples.saturating_sub(1) as u64 * PROBE + scanned as u64 * SCAN
}

/// The data plane with what is around it.
struct World {
    plane: DataPlane,
    time: Time,
    window: Window,
    book: Shared,
    controls: Vec<Control>,
    lines: Vec<PortId>,
    uplink: PortId,
    cell: Cell,
    look: u64,
    /// Lookups in the attacker's tables.
    lookups: u64,
    /// By VDP: received, dropped early, through software, generated.
    seen: Vec<[u64; 4]>,
    /// Connections of each network that stay.
    conns: Vec<u64>,
    turns: u64,
    messages: u64,
}

/// Runs it.
///
/// # Errors
/// Frames that do not add up.
pub fn run(cell: Cell) -> Result<Fates> {
    let mut w = World::new(cell)?;
    let end = w.window.until + DRAIN;
    let mut next = 0;
    let mut measuring = false;
    while w.time.now() < end {
        let now = w.time.now();
        if !measuring && now >= w.window.from {
            measuring = true;
            w.controls.iter_mut().for_each(Control::forget);
        }
        if now >= next {
            next = now + TURN;
            w.control()?;
        }
        w.round()?;
    }
    let s = w.plane.snapshot();
    s.check()?;
    let mut accounts = crate::study::report::Accounts::default();
    accounts.add(&s);
    let book = w.book.open();
    let frames = book.networks.iter().cloned();
    let heard = std::iter::once(super::control::Heard::default());
    let heard = heard.chain(w.controls.iter().map(|c| c.heard.clone()));
    let of = frames.zip(heard).map(|(frames, heard)| Fate { frames, heard }).collect();
    Ok(Fates { of, leaked: book.leaked, accounts })
}

fn all() -> impl Iterator<Item = Network> {
    VICTIMS.into_iter().chain([ATTACKER])
}

impl World {
    fn new(cell: Cell) -> Result<Self> {
        let time = Time::default();
        let window = Window { start: START, from: START + WARM, until: START + WARM + cell.time };
        let book = Shared::new(1 + VICTIMS.len() + 1);
        let tcam = Geometry {
            mapping_entries: 256,
            action_entries: 1024,
            slice_entries: 16,
            block_slices: 16,
        };
        let mut plane = DataPlane::new(Config { frames: 8192, tcam, ..Config::default() })?;
        let mut lines = Vec::new();
        for n in all() {
            let sources = sources(&n, &cell);
            let line = Line::new(n.id, &sources, &time, window, &book);
            lines.push(plane.add_port(n.name, Box::new(line))?);
        }
        let uplink = plane.add_port("uplink", Box::new(Uplink::new(UPLINK, &time, &book)))?;
        let mut controls = Vec::new();
        for (n, line) in all().zip(&lines) {
            plane.create_vdp(spec(&n, *line, uplink))?;
            let guarantee_bps = PROMISED * n.bytes as u64 * 8;
            let share = PortShare { guarantee_bps, ..PortShare::default() };
            plane.set_share(Vid(n.id), uplink, share)?;
            controls.push(Control::new(&mut plane, Vid(n.id))?);
        }
        let look = cell.attack.map_or(0, lookup);
        let mut w = Self {
            plane,
            time,
            window,
            book,
            controls,
            lines,
            uplink,
            cell,
            look,
            lookups: 0,
            seen: Vec::new(),
            conns: Vec::new(),
            turns: 0,
            messages: 0,
        };
        w.set_up()?;
        Ok(w)
    }

    /// Everybody's controller connects and installs its flows, before the first frame is looked at.
    fn set_up(&mut self) -> Result<()> {
        for (c, n) in self.controls.iter_mut().zip(all()) {
            let conn = c.connect(0, Manner::Polite);
            self.conns.push(conn);
            let attack = self.cell.attack.filter(|_| n.id == ATTACKER.id);
            let more = attack.map_or_else(Vec::new, |a| a.prepared(n.id));
            let mut left = flows(n.id).into_iter().chain(more);
            for step in 0..START / TURN {
                c.turn(step * TURN, &mut self.plane)?;
                // The first turns are the greeting's.
                if step > 2 {
                    for m in left.by_ref().take(4) {
                        c.tell(conn, m);
                    }
                }
            }
            ensure!(c.heard.errors == 0, "{}: a flow was refused", n.name);
            c.forget();
        }
        self.time.pass(START);
        if self.cell.attack == Some(Attack::SlowPath) {
            self.plane.migrate(Vid(ATTACKER.id), Path::Slow)?;
        }
        Ok(())
    }

    fn round(&mut self) -> Result<()> {
        let begin = self.time.now();
        let moved = self.plane.poll(Nanos(begin));
        let ns = if moved == 0 { IDLE } else { self.price() };
        self.time.pass_round(ns);
        self.book.settle(begin, ns, self.window);
        Ok(())
    }

    /// What the last round cost.
    fn price(&mut self) -> u64 {
        let s = self.plane.snapshot();
        let mut ns = 0;
        for v in &s.vdps {
            let at = usize::from(v.vid.0);
            if self.seen.len() <= at {
                self.seen.resize(at + 1, [0; 4]);
            }
            let c = &v.counters;
            let now = [c.received.frames, c.dropped.get(DropReason::CpuShare), c.slow, c.generated];
            let Some(before) = self.seen.get_mut(at) else { continue };
            let [received, early, slow, generated] =
                std::array::from_fn(|i| now[i].saturating_sub(before[i]));
            *before = now;
            ns += (received.saturating_sub(early) + slow + generated) * FRAME + early * EARLY;
        }
        if self.look > 0 {
            let tables = self.plane.table_counters(Vid(ATTACKER.id)).unwrap_or_default();
            let lookups = tables.iter().map(|t| t.lookups).sum::<u64>();
            ns += lookups.saturating_sub(std::mem::replace(&mut self.lookups, lookups)) * self.look;
        }
        ns.max(EARLY)
    }

    /// A turn of every controller and every switch.
    fn control(&mut self) -> Result<()> {
        let now = self.time.now();
        self.turns += 1;
        if now < self.window.until {
            self.ask();
            self.attack(now)?;
        }
        let mut ns = 0;
        for c in &mut self.controls {
            let work = c.turn(now, &mut self.plane)?;
            ns += work.calls * CALL + work.changes * CHANGE;
        }
        self.time.pass(ns);
        Ok(())
    }

    /// Those that keep to their part change a flow and wait for the barrier.
    fn ask(&mut self) {
        let nth = self.turns / QUESTION;
        for ((c, n), conn) in self.controls.iter_mut().zip(VICTIMS).zip(&self.conns) {
            let active = self.cell.active.get(usize::from(n.id)) == Some(&true);
            if !active || !self.turns.is_multiple_of(QUESTION) {
                continue;
            }
            // A flow of its own, and away with the one before.
            for (nth, command) in
                [(nth, FlowCommand::Add), (nth.wrapping_sub(1), FlowCommand::DeleteStrict)]
            {
                let Message::FlowMod(f) = to_host(n.id, (nth % 8) as u16) else { continue };
                c.tell(*conn, Message::FlowMod(FlowMod { priority: 11, command, ..f }));
            }
            c.barrier(*conn);
        }
    }

    /// What the attacker's controllers do.
    fn attack(&mut self, now: u64) -> Result<()> {
        let Some(attack) = self.cell.attack else { return Ok(()) };
        let (Some(c), Some(conn)) = (self.controls.last_mut(), self.conns.last_mut()) else {
            return Ok(());
        };
        let id = ATTACKER.id;
        match attack {
            Attack::Malformed => {
                let mut bytes = Vec::new();
                for n in 0..8 {
                    bytes.extend(super::frames::random(self.turns * 8 + n).to_be_bytes());
                }
                let other = c.connect(now, Manner::Polite);
                c.garbage(other, &bytes, now);
            }
            // As many as a switch's listener takes; `crate::openflow` turns away what is beyond.
            Attack::HalfOpen if c.connections() < 64 => {
                c.connect(now, Manner::Silent);
            }
            // As often as its messages a second let it install its flows. The greeting takes turns; then it
            // changes flows, and is gone before the answers come.
            Attack::CrashLoop if self.turns.is_multiple_of(CRASH) => {
                c.vanish(*conn, now, &mut self.plane)?;
                *conn = c.connect(now, Manner::Polite);
            }
            Attack::CrashLoop if self.turns % CRASH == 6 => {
                for m in flows(id) {
                    c.tell(*conn, m);
                }
            }
            Attack::SlowReader if self.turns == 1 => *conn = c.connect(now, Manner::Deaf),
            Attack::Reconfigure => {
                reconfigure(&mut self.plane, self.turns, &self.lines, self.uplink)?
            }
            _ => {}
        }
        for _ in 0..64 {
            let Some(m) = attack.message(id, self.messages) else { break };
            let nth = (self.messages & 0xff_ffff) as u32;
            let sent = match attack {
                Attack::Xids => c.tell_as(*conn, 1 << 24 | nth, m),
                _ => c.tell(*conn, m),
            };
            if sent.is_none() {
                break;
            }
            self.messages += 1;
        }
        Ok(())
    }
}

/// Frames that come by a network's line.
fn sources(n: &Network, cell: &Cell) -> Vec<Source> {
    if cell.active.get(usize::from(n.id)) != Some(&true) {
        return Vec::new();
    }
    let of = |per_second, pattern| Source { network: n.id, bytes: n.bytes, per_second, pattern };
    let mut all = vec![of(PROMISED, Pattern::Hosts), of(TO_CONTROLLER, Pattern::Nobody)];
    let attack = cell.attack.filter(|_| n.id == ATTACKER.id);
    all.extend(attack.and_then(|a| a.source(n.id)));
    all
}

fn spec(n: &Network, line: PortId, uplink: PortId) -> VdpSpec {
    let mut spec = VdpSpec::new(Vid(n.id), n.name);
    spec.ports = vec![(PortNo(1), line), (PortNo(2), uplink)];
    let vlan = u128::from(VLAN_PRESENT | n.id);
    spec.mapping =
        vec![MappingRule { matcher: Match::any().with(Field::VlanVid, vlan), priority: 1 }];
    spec.path = n.path;
    // 004 §4.2: a channel of its own for whom it matters to, the shared one for the others.
    spec.channel = (n.path == Path::Slow).then_some(0);
    spec.cpu_permille = n.permille;
    spec.action_entries = 64;
    spec
}

/// What an operator does to the attacker's VDP, and to one beside it.
fn reconfigure(plane: &mut DataPlane, turn: u64, lines: &[PortId], uplink: PortId) -> Result<()> {
    let of = Vid(ATTACKER.id);
    match turn % 8 {
        0 => plane.set_share(
            of,
            uplink,
            PortShare { weight: 1 + (turn / 8 % 7) as u16, ..PortShare::default() },
        )?,
        // Where it is already, or on its way, there is nothing to do.
        2 => drop(plane.migrate(of, Path::Slow)),
        4 => drop(plane.migrate(of, Path::Fast)),
        5 if plane.vids().contains(&GUEST) => plane.delete_vdp(GUEST)?,
        7 if !plane.vids().contains(&GUEST) => {
            let line = lines.last().copied().unwrap_or(uplink);
            let guest = Network { id: GUEST.0, name: "guest", permille: 0, ..ATTACKER };
            let mut spec = spec(&guest, line, uplink);
            spec.default = vec![Action::Drop];
            plane.create_vdp(spec)?;
        }
        _ => {}
    }
    ensure!(plane.vids().contains(&of), "the attacker's VDP has gone");
    Ok(())
}
