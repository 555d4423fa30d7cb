//! A switch on a data plane with memory ports, driven by hand: messages, frames, time.
#![allow(dead_code, reason = "each test program uses its part")]

use std::sync::{Arc, Mutex};
use weir_agent::{
    Arrived, Config, ConnId, Kind, LONGEST_PIECE, Outbox, Packing, Purpose, Sent, Session, Switch,
    Tallying, Unpacking,
};
use weir_classify::Match as Keys;
use weir_dataplane::{
    Config as Sizes, DataPlane, MappingRule, PortNo, PuntSink, Punted, VdpSpec, Vid,
};
use weir_io::memory::{Memory, MemoryPeer, WireSize};
use weir_openflow::model::*;
use weir_packet::Nanos;

pub const VID: Vid = Vid(1);
pub const PORTS: u32 = 4;
/// Two connections that every rig has: of 1.3 and of 1.0.
pub const NEW: ConnId = ConnId(13);
pub const OLD: ConnId = ConnId(10);

/// Bytes by which tests know an offending message.
pub const RAW: [u8; 100] = [0xab; 100];

pub struct Rig {
    pub plane: DataPlane,
    pub switch: Switch,
    pub out: Outbox,
    pub now: Nanos,
    pub peers: Vec<MemoryPeer>,
    punted: Arc<Mutex<Vec<Arrived>>>,
    xid: u32,
}

struct Sink(Arc<Mutex<Vec<Arrived>>>);

impl PuntSink for Sink {
    fn punt(&mut self, p: Punted<'_>) {
        self.0.lock().unwrap().push(p.into());
    }
}

pub fn port_desc(no: u32) -> PortDesc {
    PortDesc {
        no: Port(no),
        mac: [2, 0, 0, 0, 1, no as u8],
        name: format!("p{no}"),
        config: PortConfig::default(),
        state: PortState::LIVE,
        current: PortFeatures::default(),
        advertised: PortFeatures::default(),
        supported: PortFeatures::FD_1G,
        peer: PortFeatures::default(),
        current_kbps: 1_000_000,
        max_kbps: 1_000_000,
    }
}

/// What most tests want: four tables, ports 1 to 4, queue 7 at port 2.
pub fn config() -> Config {
    let mut c = Config::new(VID, 0xda7a);
    c.tables = 4;
    c.ports = (1..=PORTS).map(port_desc).collect();
    c.queues = vec![QueueDesc { id: 7, port: Port(2), properties: vec![] }];
    c
}

impl Rig {
    pub fn new() -> Self {
        Self::with(config(), |_| {})
    }
    /// With another configuration, and changes of the VDP.
    pub fn with(config: Config, spec: impl FnOnce(&mut VdpSpec)) -> Self {
        let mut rig = Self::alone(config, spec);
        rig.connect(NEW, Version::V13, Purpose::Controller);
        rig.connect(OLD, Version::V10, Purpose::Management);
        rig
    }
    /// Nobody connected yet.
    pub fn alone(config: Config, change: impl FnOnce(&mut VdpSpec)) -> Self {
        let sizes = Sizes { frames: 4096, channels: 1, ..Sizes::default() };
        let mut plane = DataPlane::new(sizes).unwrap();
        let mut spec = VdpSpec::new(VID, "vdp");
        let mut peers = Vec::new();
        for no in 1..=PORTS {
            let (port, peer) = Memory::with_peer(&format!("p{no}"), WireSize::default());
            let id = plane.add_port(&format!("p{no}"), Box::new(port)).unwrap();
            spec.ports.push((PortNo(no), id));
            peers.push(peer);
        }
        spec.mapping = vec![MappingRule { matcher: Keys::any(), priority: 1 }];
        change(&mut spec);
        plane.create_vdp(spec).unwrap();
        let now = Nanos::from_secs(100);
        let punted = Arc::new(Mutex::new(Vec::new()));
        plane.set_punt_sink(VID, Some(Box::new(Sink(Arc::clone(&punted))))).unwrap();
        plane.poll(now);
        let switch = Switch::new(config, now);
        let mut rig = Self { plane, switch, out: Outbox::default(), now, peers, punted, xid: 0 };
        rig.tick();
        rig
    }
    /// The same switch on another data plane, whose clock shows another time.
    pub fn moved(self, conns: impl IntoIterator<Item = ConnId>) -> Self {
        let config = self.switch.config().clone();
        self.moved_to(Self::alone(config, |_| {}), conns)
    }
    /// The same on this one, where it is new.
    pub fn moved_to(mut self, mut new: Self, conns: impl IntoIterator<Item = ConnId>) -> Self {
        new.now = self.now + Nanos::from_secs(7);
        new.plane.poll(new.now);
        let mut unpacking = Unpacking::default();
        let mut packing = Packing::new(self.now);
        while let Some(piece) = self.switch.pack(&mut packing) {
            assert!(piece.len() <= LONGEST_PIECE);
            new.switch.unpack(&mut unpacking, &piece, new.now, &mut new.plane).unwrap();
        }
        assert!(unpacking.is_whole() && !unpacking.is_tallied());
        let mut tallying = Tallying::default();
        while let Some(piece) =
            self.switch.pack_tallies(&mut tallying, self.now, &mut self.plane).unwrap()
        {
            new.switch.unpack_tallies(&mut unpacking, &piece, new.now, &mut new.plane).unwrap();
        }
        assert!(unpacking.is_tallied());
        for conn in conns {
            let Some(s) = self.switch.release_session(conn) else { continue };
            new.switch.take_session(conn, &Session::from_bytes(s.as_bytes()).unwrap());
        }
        new.tick();
        assert_eq!(new.out.take(), []);
        new.xid = self.xid;
        new
    }
    pub fn connect(&mut self, conn: ConnId, version: Version, purpose: Purpose) {
        let (p, o) = (&mut self.plane, &mut self.out);
        self.switch.connected(conn, version, purpose, self.now, p, o).unwrap();
    }
    pub fn disconnect(&mut self, conn: ConnId) {
        self.switch.disconnected(conn, self.now, &mut self.plane, &mut self.out).unwrap();
    }
    /// Gives a message without carrying out what is gathered. Its xid.
    pub fn give(&mut self, conn: ConnId, body: Message) -> u32 {
        self.xid += 1;
        let msg = Msg { xid: self.xid, body };
        let (p, o) = (&mut self.plane, &mut self.out);
        self.switch.handle(conn, msg, &RAW, self.now, p, o).unwrap();
        self.xid
    }
    /// Gives a message, has it carried out, and takes everything that was said.
    pub fn tell(&mut self, conn: ConnId, body: Message) -> Vec<Sent> {
        self.give(conn, body);
        self.switch.settle(self.now, &mut self.plane, &mut self.out).unwrap();
        while self.switch.owes(conn) {
            let (now, p, o) = (self.now, &mut self.plane, &mut self.out);
            self.switch.tell_part_to(conn, now, p, o).unwrap();
        }
        self.out.take()
    }
    /// The replies to a message, without what was sent by itself.
    pub fn ask(&mut self, conn: ConnId, body: Message) -> Vec<Message> {
        let sent = self.tell(conn, body);
        let xid = self.xid;
        let mine = |s: Sent| {
            assert_eq!((s.to, s.msg.xid), (conn, xid));
            s.msg.body
        };
        sent.into_iter().filter(|s| s.kind == Kind::Reply).map(mine).collect()
    }
    /// Asks what must be done without a word.
    pub fn ok(&mut self, conn: ConnId, body: Message) {
        assert_eq!(self.ask(conn, body), vec![]);
    }
    /// Asks what must be refused.
    pub fn refused(&mut self, conn: ConnId, body: Message) -> ErrorCode {
        let got = self.ask(conn, body.clone());
        let [Message::Error(e)] = &got[..] else { panic!("{body:?} got {got:?}") };
        assert_eq!(e.data, RAW[..64], "at least 64 bytes of the message");
        e.code
    }
    /// All parts of a statistics reply.
    pub fn stats(&mut self, conn: ConnId, body: StatsRequest) -> Vec<StatsReply> {
        let got = self.ask(conn, Message::StatsRequest { more: Part::Last, body });
        let n = got.len();
        let part = |(i, m): (usize, Message)| match m {
            Message::StatsReply { more, body } => {
                assert_eq!(more == Part::Last, i + 1 == n);
                body
            }
            m => panic!("{m:?}"),
        };
        got.into_iter().enumerate().map(part).collect()
    }
    pub fn flows(&mut self, conn: ConnId) -> Vec<FlowStats> {
        let all = FlowFilter::every_flow();
        let parts = self.stats(conn, StatsRequest::Flow(all));
        parts
            .into_iter()
            .flat_map(|p| match p {
                StatsReply::Flow(f) => f,
                p => panic!("{p:?}"),
            })
            .collect()
    }
    pub fn tick(&mut self) {
        self.switch.tick(self.now, &mut self.plane, &mut self.out).unwrap();
    }
    /// Lets time pass, with the data plane and the switch looking at the clock.
    pub fn pass(&mut self, millis: u64) -> Vec<Sent> {
        self.now = self.now + Nanos::from_millis(millis);
        self.plane.poll(self.now);
        self.tick();
        self.out.take()
    }
    /// Sends a frame into a port; what came out of each port, in order.
    pub fn send(&mut self, port: u32, frame: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.peers[port as usize - 1].send(frame).unwrap();
        self.settle()
    }
    /// Lets the data plane come to rest; what came out of each port.
    pub fn settle(&mut self) -> Vec<(u32, Vec<u8>)> {
        for _ in 0..8 {
            self.plane.poll(self.now);
        }
        let mut out = Vec::new();
        for (i, p) in self.peers.iter_mut().enumerate() {
            let mut f = Vec::new();
            while p.recv(&mut f) {
                out.push((i as u32 + 1, f.clone()));
            }
        }
        self.plane.snapshot().check().unwrap();
        for a in std::mem::take(&mut *self.punted.lock().unwrap()) {
            self.switch.punted(a, self.now, &mut self.out);
        }
        out
    }
}

/// A flow_mod that adds a flow.
pub fn flow(matcher: Match, priority: u16, instructions: Vec<Instruction>) -> FlowMod {
    FlowMod {
        cookie: 0,
        cookie_mask: 0,
        table: 0,
        command: FlowCommand::Add,
        idle_timeout: 0,
        hard_timeout: 0,
        priority,
        buffer_id: NO_BUFFER,
        out_port: Port::ANY,
        out_group: GROUP_ANY,
        flags: FlowFlags::default(),
        matcher,
        instructions,
    }
}

pub fn output(port: u32) -> Action {
    Action::Output { port: Port(port), max_len: NO_MAX_LEN }
}

/// Instructions that output to a port.
pub fn to(port: u32) -> Vec<Instruction> {
    vec![Instruction::Apply(vec![output(port)])]
}

pub fn any() -> Match {
    Match::default()
}

/// A 64-byte frame to a station.
pub fn frame(dst: u8) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, dst, 2, 0, 0, 0, 0, 0xee, 0x12, 0x34];
    f.resize(64, 0);
    f
}

/// A match on the station.
pub fn dst(n: u8) -> Match {
    any().with(Field::EthDst, 0x0200_0000_0000 + u128::from(n))
}
