//! The barrier under load: another VDP carries traffic as fast as the worker goes, another connection
//! reads all flows without end, and still no frame that is sent after the reply meets an old rule; nor
//! one that is sent after a flow was told of as removed, or a group or meter was deleted.

mod rig;
use rig::*;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_agent::{ConnId, Outbox, Purpose, Switch};
use weir_classify::{Field as Key, Match as Keys};
use weir_dataplane::{
    Action as Act, Handle, MappingRule, Out, Placement, PortNo, RuleSpec, Runner, Serving, VdpSpec,
    Vid, WhenIdle,
};
use weir_io::memory::MemoryPeer;
use weir_io::replay::{Arena, Null, Passes, Replay};
use weir_openflow::model::*;
use weir_packet::Nanos;

/// How long to wait for a frame that must come.
const PATIENCE: Duration = Duration::from_secs(60);
/// The VDP that makes the load.
const BUSY: Vid = Vid(2);
/// The connection that reads flows.
const READER: ConnId = ConnId(15);
/// Flows that no frame meets, so that reading all takes many parts.
const OTHERS: u32 = 2000;
/// A station whose frames always come through, by port 2.
const SENTINEL: u8 = 9;
/// Stations whose flows change.
const STATIONS: usize = 4;

/// How often: in full under WEIR_SOAK.
fn count(reduced: u32, full: u32, what: &str) -> u32 {
    let n = if std::env::var_os("WEIR_SOAK").is_some() { full } else { reduced };
    println!("soak: {n} {what}");
    n
}

struct Loaded {
    switch: Switch,
    out: Outbox,
    now: Nanos,
    peers: Vec<MemoryPeer>,
    handle: Handle,
    runner: Runner,
    xid: u32,
    seed: u32,
    /// Parts of flow statistics that the reader got.
    parts: u64,
    /// What the controller was told of itself.
    told: Vec<FlowRemoved>,
}

impl Loaded {
    fn new() -> Self {
        let mut rig = Rig::new();
        rig.connect(READER, Version::V13, Purpose::Management);
        let p = &mut rig.plane;
        let mut arena = Arena::new();
        for n in 0..64 {
            assert!(arena.push(&frame(n), None, 1));
        }
        let source = Replay::new("load", Arc::new(arena), Passes::Forever);
        let from = p.add_port("load", Box::new(source)).unwrap();
        let away = p.add_port("away", Box::new(Null::new("away"))).unwrap();
        let mut spec = VdpSpec::new(BUSY, "busy");
        spec.ports = vec![(PortNo(1), from), (PortNo(2), away)];
        let matcher = Keys::any().with(Key::InPort, from.0.into());
        spec.mapping = vec![MappingRule { matcher, priority: 2 }];
        p.create_vdp(spec).unwrap();
        let actions = Arc::from([Act::Output(Out::Port(PortNo(2)))]);
        let all = RuleSpec { matcher: Keys::any(), priority: 1, cookie: 0, actions };
        p.add_rule(BUSY, 0, &all, Placement::Fast).unwrap();
        let Rig { plane, switch, out, now, peers, .. } = rig;
        let runner = Runner::start(plane, Serving::Worker, WhenIdle::Rest).unwrap();
        let handle = runner.handle();
        let (xid, seed, parts, told) = (0, 1, 0, Vec::new());
        let mut l = Self { switch, out, now, peers, handle, runner, xid, seed, parts, told };
        for n in 0..OTHERS {
            let other = any().with(Field::EthDst, 0x0600_0000_0000 + u128::from(n));
            l.give(NEW, Message::FlowMod(flow(other, 3, to(3))));
        }
        l.give(NEW, Message::FlowMod(flow(dst(SENTINEL), 5, to(2))));
        l.barrier();
        l
    }
    fn give(&mut self, conn: ConnId, body: Message) -> u32 {
        self.xid += 1;
        let msg = Msg { xid: self.xid, body };
        let Self { switch, handle, out, now, .. } = self;
        switch.handle(conn, msg, &RAW, *now, handle, out).unwrap();
        self.xid
    }
    /// Reads on, a part, or begins again.
    fn read(&mut self) {
        if self.switch.owes(READER) {
            let Self { switch, handle, out, now, .. } = self;
            switch.tell_part_to(READER, *now, handle, out).unwrap();
            return;
        }
        let all = FlowFilter {
            table: TABLE_ALL,
            out_port: Port::ANY,
            out_group: GROUP_ANY,
            cookie: 0,
            cookie_mask: 0,
            matcher: any(),
        };
        let body = StatsRequest::Flow(all);
        self.give(READER, Message::StatsRequest { more: Part::Last, body });
    }
    /// Takes what was said; whether this barrier was answered.
    fn hear(&mut self, barrier: u32) -> bool {
        let mut answered = false;
        for s in self.out.take() {
            match s.msg.body {
                Message::BarrierReply => answered |= s.msg.xid == barrier,
                Message::FlowRemoved(r) if s.to == NEW => self.told.push(r),
                Message::StatsReply { .. } if s.to == READER => self.parts += 1,
                Message::FlowRemoved(_) => {}
                m => panic!("{:?} got {m:?}", s.to),
            }
        }
        answered
    }
    fn barrier(&mut self) {
        let xid = self.give(NEW, Message::BarrierRequest);
        assert!(self.hear(xid), "no reply");
    }
    fn random(&mut self) -> u32 {
        self.seed = self.seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.seed >> 8
    }
    /// Where a frame for this station comes out, sent now.
    fn through(&mut self, station: u8) -> Option<u32> {
        let sentinel = frame(SENTINEL);
        self.peers[0].send(&frame(station)).unwrap();
        let (mut seen, mut got) = (None, Vec::new());
        let began = Instant::now();
        // Twice: in the round of the second, what the first round sent is out by every port.
        for _ in 0..2 {
            self.peers[0].send(&sentinel).unwrap();
            let mut done = false;
            while !done {
                for (i, p) in self.peers.iter_mut().enumerate() {
                    while p.recv(&mut got) {
                        if got == sentinel {
                            done = true;
                            continue;
                        }
                        assert_eq!(got, frame(station));
                        assert_eq!(seen.replace(i as u32 + 1), None, "twice");
                    }
                }
                assert!(began.elapsed() < PATIENCE, "the sentinel is lost");
                std::thread::yield_now();
            }
        }
        seen
    }
    /// Ends it; there was load, and every frame of it is accounted for.
    fn end(self) {
        assert!(self.parts > 0, "nobody has read flows");
        let s = self.runner.stop().unwrap().snapshot();
        s.check().unwrap();
        let busy = s.vdps.iter().find(|v| v.vid == BUSY).unwrap();
        assert!(busy.counters.forwarded.frames > 10_000, "{:?}", busy.counters);
        println!(
            "soak: {} frames of load, {} parts read",
            busy.counters.forwarded.frames, self.parts
        );
    }
}

fn delete(mut f: FlowMod) -> Message {
    (f.command, f.instructions) = (FlowCommand::DeleteStrict, vec![]);
    Message::FlowMod(f)
}

#[test]
fn soak_barrier_of_random_updates_under_load() {
    let mut l = Loaded::new();
    let mut was = [None; STATIONS];
    for round in 0..count(200, 10_000, "random updates") {
        // A pseudo-random station gets a pseudo-random port, or loses its flow.
        let r = l.random() as usize;
        let (station, port) = (r % STATIONS, 1 + (r >> 8) as u32 % 4);
        let f = flow(dst(station as u8), 5, to(port));
        was[station] = (port != 1).then_some(port);
        let update = if port == 1 { delete(f) } else { Message::FlowMod(f) };
        l.give(NEW, update);
        l.read();
        l.barrier();
        assert_eq!(l.through(station as u8), was[station], "round {round}");
    }
    l.end();
}

#[test]
fn soak_barrier_no_frame_meets_a_flow_that_was_told_of_as_removed() {
    let mut l = Loaded::new();
    for round in 0..count(60, 10_000, "removed flows") {
        let station = (l.random() % STATIONS as u32) as u8;
        let mut f = flow(dst(station), 5, to(3));
        f.flags = FlowFlags::SEND_FLOW_REM;
        l.give(NEW, Message::FlowMod(f.clone()));
        l.barrier();
        let before = l.random() % 3;
        for _ in 0..before {
            assert_eq!(l.through(station), Some(3), "round {round}");
        }
        l.read();
        // Not a barrier: the message itself is the promise.
        l.give(NEW, delete(f));
        while l.told.is_empty() {
            l.switch.settle(l.now, &mut l.handle, &mut l.out).unwrap();
            l.hear(0);
        }
        assert_eq!(l.through(station), None, "round {round}");
        let told = l.told.pop().unwrap();
        assert_eq!((told.packets, told.bytes), (before.into(), u64::from(before) * 64));
    }
    l.end();
}

fn group(command: GroupCommand, port: u32) -> Message {
    let bucket = Bucket {
        weight: 0,
        watch_port: Port::ANY,
        watch_group: GROUP_ANY,
        actions: vec![output(port)],
    };
    let buckets = if command == GroupCommand::Delete { vec![] } else { vec![bucket] };
    Message::GroupMod(GroupMod { command, kind: GroupKind::All, id: 1, buckets })
}

#[test]
fn soak_barrier_no_frame_takes_a_group_that_was_changed_or_deleted() {
    let mut l = Loaded::new();
    for round in 0..count(60, 10_000, "groups") {
        let station = (l.random() % STATIONS as u32) as u8;
        l.give(NEW, group(GroupCommand::Add, 2));
        let by_group = vec![Instruction::Apply(vec![Action::Group(1)])];
        l.give(NEW, Message::FlowMod(flow(dst(station), 5, by_group)));
        l.barrier();
        assert_eq!(l.through(station), Some(2), "round {round}");
        let port = 3 + l.random() % 2;
        l.give(NEW, group(GroupCommand::Modify, port));
        l.read();
        l.barrier();
        assert_eq!(l.through(station), Some(port), "round {round}");
        // The flow goes with it (1.3 §6.4).
        l.give(NEW, group(GroupCommand::Delete, 0));
        l.read();
        l.barrier();
        assert_eq!(l.through(station), None, "round {round}");
    }
    l.end();
}

fn meter(command: MeterCommand, rate: u32) -> Message {
    let bands = vec![Band { rate, burst: 1, kind: BandKind::Drop }];
    let flags = MeterFlags::PKTPS | MeterFlags::BURST;
    Message::MeterMod(MeterMod { command, flags, id: 1, bands })
}

#[test]
fn soak_barrier_no_frame_passes_a_meter_that_was_deleted() {
    let mut l = Loaded::new();
    for round in 0..count(60, 10_000, "meters") {
        let station = (l.random() % STATIONS as u32) as u8;
        // It lets everything pass that comes here.
        l.give(NEW, meter(MeterCommand::Add, 1_000_000));
        let metered = [vec![Instruction::Meter(1)], to(4)].concat();
        l.give(NEW, Message::FlowMod(flow(dst(station), 5, metered)));
        l.barrier();
        assert_eq!(l.through(station), Some(4), "round {round}");
        // The flow goes with it (1.3 §6.4).
        l.give(NEW, meter(MeterCommand::Delete, 0));
        l.read();
        l.barrier();
        assert_eq!(l.through(station), None, "round {round}");
    }
    l.end();
}
