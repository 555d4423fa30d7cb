//! A network's control channel in virtual time, both ends of it: its switch as the service runs it, and a
//! controller that watches whether anything comes that is not its own.
//!
//! Room: sans-I/O. What sockets do in [`crate::openflow`] is done by handing bytes from one channel to the
//! other; the switch, its budget and the bounds on both are the same. Called by [`super::world`].

use super::frames;
use crate::openflow::punts::{self, Punts};
use std::collections::BTreeSet;
use std::time::Duration;
use weir_agent::{Config, ConnId, Outbox, Plane, PlaneGone, Purpose, Switch};
use weir_dataplane::{DataPlane, Vid};
use weir_openflow::channel::{self, Budget, Channel, Event, Gate, Rate, Side, Versions};
use weir_openflow::model::{
    Action, FlowCommand, FlowMod, Instruction, Match, Message, Msg, NO_MAX_LEN, Port, PortConfig,
    PortDesc, PortFeatures, PortState, StatsReply, Version,
};
use weir_packet::Nanos;

/// Messages that one connection may have handled in a turn, as the service has it.
const BATCH: usize = 256;
/// Packets for controllers that are handled in a turn.
const PACKETS: usize = 64;
/// Messages a second that a network may send its switch: what `labs/networks.toml` gives a tenant.
pub const MESSAGES: u32 = 5000;

/// A data plane that says how often it was interrupted.
struct Counted<'a> {
    plane: &'a mut DataPlane,
    calls: u64,
}

impl Plane for Counted<'_> {
    fn with<R: Send + 'static>(
        &mut self,
        f: impl FnOnce(&mut DataPlane) -> R + Send + 'static,
    ) -> Result<R, PlaneGone> {
        self.calls += 1;
        Ok(f(self.plane))
    }
}

/// What a turn asked of the data plane.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Closures between two bursts.
    pub calls: u64,
    /// Changes of flows, groups and meters among them.
    pub changes: u64,
}

/// What the controllers of a network heard.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    /// Barriers sent.
    pub asked: u64,
    /// Barriers answered.
    pub answered: u64,
    /// Packets of their own network.
    pub packets: u64,
    /// Messages about what is another network's, and replies to what they did not ask.
    pub strange: u64,
    /// Errors.
    pub errors: u64,
    /// Connections that the switch ended.
    pub closed: u64,
}

/// How a controller behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It greets, and reads at once what it is sent.
    Polite,
    /// It reads nothing once it has been greeted.
    Deaf,
    /// It says nothing at all.
    Silent,
}

struct Conn {
    id: ConnId,
    switch: Channel,
    controller: Channel,
    up: bool,
    manner: Manner,
}

/// A network's switch and its controllers.
pub struct Control {
    vid: Vid,
    switch: Switch,
    out: Outbox,
    budget: Budget,
    conns: Vec<Conn>,
    next: u64,
    xid: u32,
    punts: Punts,
    waiting: BTreeSet<u32>,
    /// Barriers that were sent without waiting for them, and one.
    barriers: u64,
    changes: u64,
    /// What they heard.
    pub heard: Heard,
}

fn since(now: u64) -> Duration {
    Duration::from_nanos(now)
}

fn port(no: u32) -> PortDesc {
    PortDesc {
        no: Port(no),
        mac: [2, 0, 0, 0, 1, no as u8],
        name: format!("p{no}"),
        config: PortConfig::default(),
        state: PortState::LIVE,
        current: PortFeatures::default(),
        advertised: PortFeatures::default(),
        supported: PortFeatures::default(),
        peer: PortFeatures::default(),
        current_kbps: 0,
        max_kbps: 0,
    }
}

impl Control {
    /// The switch of a VDP with two ports, and nobody connected.
    ///
    /// # Errors
    /// The VDP is not there.
    pub fn new(plane: &mut DataPlane, vid: Vid) -> anyhow::Result<Self> {
        let mut config = Config::new(vid, vid.0.into());
        config.ports = [1, 2].map(port).into();
        let (sink, punts) = punts::ring();
        plane.set_punt_sink(vid, Some(Box::new(sink)))?;
        let mut switch = Switch::new(config, Nanos(0));
        let mut out = Outbox::default();
        switch.tick(Nanos(0), plane, &mut out)?;
        Ok(Self {
            vid,
            switch,
            out,
            budget: Budget::default(),
            conns: Vec::new(),
            next: 0,
            xid: u32::from(vid.0) << 24,
            punts,
            waiting: BTreeSet::new(),
            barriers: 1,
            changes: 0,
            heard: Heard::default(),
        })
    }

    /// A controller connects; its number.
    pub fn connect(&mut self, now: u64, manner: Manner) -> u64 {
        self.next += 1;
        let end = |side| {
            let versions = Versions::only(Version::V13);
            let config = channel::Config { versions, ..channel::Config::new(side) };
            Channel::new(config, since(now))
        };
        let (switch, controller) = (end(Side::Switch), end(Side::Controller));
        self.conns.push(Conn { id: ConnId(self.next), switch, controller, up: false, manner });
        self.next
    }

    /// Controllers that are connected.
    pub fn connections(&self) -> usize {
        self.conns.len()
    }

    /// A controller goes without a word.
    pub fn vanish(&mut self, conn: u64, now: u64, plane: &mut DataPlane) -> Result<(), PlaneGone> {
        let Some(at) = self.conns.iter().position(|c| c.id.0 == conn) else { return Ok(()) };
        let c = self.conns.swap_remove(at);
        self.budget.of(c.id.0).rest();
        if c.up {
            self.switch.disconnected(c.id, Nanos(now), plane, &mut self.out)?;
        }
        Ok(())
    }

    /// A controller sends bytes that are no message.
    pub fn garbage(&mut self, conn: u64, bytes: &[u8], now: u64) {
        if let Some(c) = self.conns.iter_mut().find(|c| c.id.0 == conn) {
            let room = c.switch.input_room().min(bytes.len());
            c.switch.receive(bytes.get(..room).unwrap_or_default(), since(now));
        }
    }

    /// A controller sends a message, if it has room for it; its xid.
    pub fn tell(&mut self, conn: u64, body: Message) -> Option<u32> {
        self.xid += 1;
        self.tell_as(conn, self.xid, body)
    }

    /// A controller sends a message with an xid of its choice.
    pub fn tell_as(&mut self, conn: u64, xid: u32, body: Message) -> Option<u32> {
        let c = self.conns.iter_mut().find(|c| c.id.0 == conn)?;
        // As much as a socket would hold.
        if c.controller.outgoing().len() > 64 * 1024 {
            return None;
        }
        self.barriers += u64::from(body == Message::BarrierRequest);
        c.controller.send(&Msg { xid, body }).ok().map(|_| xid)
    }

    /// A barrier whose reply is waited for.
    pub fn barrier(&mut self, conn: u64) {
        if let Some(xid) = self.tell(conn, Message::BarrierRequest) {
            self.barriers -= 1;
            self.waiting.insert(xid);
            self.heard.asked += 1;
        }
    }

    /// Forgets what was heard.
    pub fn forget(&mut self) {
        self.heard = Heard { asked: self.waiting.len() as u64, ..Heard::default() };
    }

    /// One turn of everything.
    ///
    /// # Errors
    /// [`PlaneGone`].
    pub fn turn(&mut self, now: u64, plane: &mut DataPlane) -> Result<Work, PlaneGone> {
        let mut plane = Counted { plane, calls: 0 };
        self.changes = 0;
        let rate = Rate { per_second: MESSAGES, burst: MESSAGES / 10 };
        self.budget.set(Some(rate), None, since(now));
        for _ in 0..PACKETS {
            let Some(a) = self.punts.pop() else { break };
            self.switch.punted(a, Nanos(now), &mut self.out);
            distribute(&mut self.out, &mut self.conns);
        }
        let mut closed = Vec::new();
        for at in 0..self.conns.len() {
            if self.serve(at, now, &mut plane)? {
                closed.extend(self.conns.get(at).map(|c| c.id.0));
            }
        }
        self.switch.tick(Nanos(now), &mut plane, &mut self.out)?;
        distribute(&mut self.out, &mut self.conns);
        self.listen(now);
        self.heard.closed += closed.len() as u64;
        let Counted { plane, calls } = plane;
        for conn in closed {
            self.vanish(conn, now, plane)?;
        }
        Ok(Work { calls, changes: self.changes })
    }

    /// What a connection has brought, up to a batch; whether it is over.
    fn serve(&mut self, at: usize, now: u64, plane: &mut Counted<'_>) -> Result<bool, PlaneGone> {
        let Some(c) = self.conns.get_mut(at) else { return Ok(false) };
        let id = c.id;
        c.switch.tick(since(now));
        c.controller.tick(since(now));
        let said = match c.manner {
            Manner::Silent => 0,
            _ => c.controller.outgoing().len(),
        };
        let room = c.switch.input_room().min(said);
        let bytes = c.controller.outgoing().get(..room).unwrap_or_default();
        let taken = c.switch.receive(bytes, since(now));
        c.controller.advance(taken);
        let mut over = false;
        for _ in 0..BATCH {
            let Some(c) = self.conns.get_mut(at) else { break };
            if self.switch.owes(id) {
                if c.switch.output_room() == 0 {
                    break;
                }
                self.switch.tell_part_to(id, Nanos(now), plane, &mut self.out)?;
                distribute(&mut self.out, &mut self.conns);
                continue;
            }
            match c.switch.next_event_by(&mut self.budget.of(id.0), since(now)) {
                None => break,
                Some(Event::Up(version)) => {
                    c.up = true;
                    let of = Purpose::Controller;
                    self.switch.connected(id, version, of, Nanos(now), plane, &mut self.out)?;
                }
                Some(Event::Message(r)) => {
                    let changes = matches!(
                        r.msg.body,
                        Message::FlowMod(_) | Message::GroupMod(_) | Message::MeterMod(_)
                    );
                    self.changes += u64::from(changes);
                    let (raw, at) = (r.head.as_bytes(), Nanos(now));
                    self.switch.handle(id, r.msg, raw, at, plane, &mut self.out)?;
                }
                // A controller's alone.
                Some(Event::Misread(_)) => {}
                Some(Event::Closed(_)) => {
                    over = true;
                    break;
                }
            }
            distribute(&mut self.out, &mut self.conns);
        }
        self.switch.settle(Nanos(now), plane, &mut self.out)?;
        Ok(over)
    }

    /// What the controllers hear.
    fn listen(&mut self, now: u64) {
        let mut heard = Vec::new();
        for c in &mut self.conns {
            let reads = match c.manner {
                Manner::Polite => true,
                Manner::Deaf => c.controller.version().is_none(),
                Manner::Silent => false,
            };
            if !reads {
                continue;
            }
            let room = c.controller.input_room().min(c.switch.outgoing().len());
            let bytes = c.switch.outgoing().get(..room).unwrap_or_default();
            let taken = c.controller.receive(bytes, since(now));
            c.switch.advance(taken);
            while let Some(e) = c.controller.next_event(since(now)) {
                if let Event::Message(r) = e {
                    heard.push(r.msg);
                }
            }
        }
        heard.into_iter().for_each(|m| self.hear(m));
    }

    fn hear(&mut self, m: Msg) {
        let own = self.vid.0;
        let strange = match m.body {
            Message::PacketIn(p) => {
                let of = frames::read(&p.data).map(|(network, _)| network);
                self.heard.packets += u64::from(of == Some(own));
                of != Some(own)
            }
            Message::BarrierReply => match self.waiting.remove(&m.xid) {
                true => {
                    self.heard.answered += 1;
                    false
                }
                // Floods send barriers that nobody waits for; nobody gets more replies than it asked.
                false => {
                    self.barriers = self.barriers.saturating_sub(1);
                    self.barriers == 0
                }
            },
            Message::StatsReply { body: StatsReply::Flow(flows), .. } => {
                flows.iter().any(|f| f.cookie != u64::from(own))
            }
            Message::FlowRemoved(f) => f.cookie != u64::from(own),
            Message::Error(_) => {
                self.heard.errors += 1;
                false
            }
            _ => false,
        };
        self.heard.strange += u64::from(strange);
    }
}

fn distribute(out: &mut Outbox, conns: &mut [Conn]) {
    for sent in out.sent.drain(..) {
        let Some(c) = conns.iter_mut().find(|c| c.id == sent.to) else { continue };
        // What has no form in 1.3 does not exist here.
        let _ = c.switch.send(&sent.msg);
    }
}

/// What sends frames on, marked as the network's own.
pub fn onward(network: u16) -> Vec<Instruction> {
    let set = Action::SetField(
        weir_openflow::model::Field::EthSrc,
        frames::number(frames::mark(network)),
    );
    vec![Instruction::Apply(vec![set, Action::Output { port: Port(2), max_len: NO_MAX_LEN }])]
}

/// A flow_mod that adds a flow of a network.
pub fn add(network: u16, priority: u16, matcher: Match, instructions: Vec<Instruction>) -> Message {
    let cookie = network.into();
    let new = FlowMod::new(FlowCommand::Add);
    Message::FlowMod(FlowMod { cookie, priority, matcher, instructions, ..new })
}

/// What every network's controller installs: a flow for each host, and the rest to the controller.
pub fn flows(network: u16) -> Vec<Message> {
    let all = Action::Output { port: Port::CONTROLLER, max_len: NO_MAX_LEN };
    let mut flows = vec![add(network, 0, Match::default(), vec![Instruction::Apply(vec![all])])];
    flows.extend((0..frames::HOSTS).map(|n| to_host(network, n)));
    flows
}

/// The flow to a host.
pub fn to_host(network: u16, n: u16) -> Message {
    let field = weir_openflow::model::Field::EthDst;
    let matcher = Match::default().with(field, frames::number(frames::host(n)));
    add(network, 10, matcher, onward(network))
}
