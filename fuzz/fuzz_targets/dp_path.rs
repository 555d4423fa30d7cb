//! A whole data plane under any sequence of control and traffic: VDPs that come and go, rules of
//! every kind, groups that loop, meters, shares, migrations, ports that disappear, any frames, time
//! that passes. After each round every frame is accounted for. Seeds: one of each kind of step.
//!
//! Input: a step's byte, then what that step reads; a byte that is not there is zero.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use weir_classify::{Field, Geometry, Match, ones};
use weir_dataplane::programs::by_name;
use weir_dataplane::*;
use weir_packet::*;

/// What remains of the input.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }
    fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n
    }
    fn number(&mut self, bytes: usize) -> u128 {
        (0..bytes).fold(0, |n, _| n << 8 | u128::from(self.byte()))
    }
}

/// A port that hands over what is queued and loses what it sends, up to a limit a round.
struct Wire {
    queue: Arc<Mutex<VecDeque<Vec<u8>>>>,
    feed: Feed,
    sends: usize,
    left: usize,
}

impl Device for Wire {
    fn name(&self) -> &str {
        "wire"
    }
    fn caps(&self) -> Caps {
        Caps::new(1514, self.feed)
    }
    fn link(&mut self, _: &mut Pool) -> LinkState {
        LinkState::Up
    }
    fn rx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let mut queue = self.queue.lock().expect("one thread");
        let before = burst.len();
        while burst.room() > 0 && !queue.is_empty() {
            let Some(mut f) = pool.alloc() else { break };
            let fits = queue.pop_front().is_some_and(|b| f.copy_from(&b).is_ok());
            if !fits {
                pool.free(f);
            } else if let Err(f) = burst.push(f) {
                pool.free(f);
            }
        }
        burst.len() - before
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let n = self.left.min(burst.len());
        self.left -= n;
        burst.drain_front(n).for_each(|f| pool.free(f));
        n
    }
    fn flush(&mut self, _: &mut Pool) {
        self.left = self.sends;
    }
    fn held(&self) -> usize {
        0
    }
    fn counters(&self) -> DeviceCounters {
        DeviceCounters::default()
    }
    fn close(&mut self, _: &mut Pool) {}
}

fn config() -> Config {
    Config {
        frames: 512,
        channel_frames: 64,
        queue_frames: 64,
        tcam: Geometry {
            mapping_entries: 32,
            action_entries: 64,
            slice_entries: 4,
            block_slices: 2,
        },
        ..Config::default()
    }
}

fn field(i: &mut Input<'_>) -> (Field, u128, u128) {
    let f = Field::ALL[i.below(Field::ALL.len())];
    let bytes = f.info().width.div_ceil(8) as usize;
    let value = i.number(bytes) & ones(f.info().width);
    let mask = if i.byte() & 1 == 0 { f.full() } else { i.number(bytes) & ones(f.info().width) };
    (f, value, mask)
}

/// A match with what its fields need, most of the time.
fn matcher(i: &mut Input<'_>) -> Match {
    let mut m = Match::any();
    let n = i.byte();
    if n & 0x10 != 0 {
        m = m.with(Field::EthType, if n & 0x20 == 0 { 0x0800 } else { 0x86dd });
    }
    if n & 0x40 != 0 {
        m = m.with(Field::IpProto, if n & 0x80 == 0 { 17 } else { 6 });
    }
    for _ in 0..n % 4 {
        let (f, value, mask) = field(i);
        m = m.with_masked(f, value & mask, mask);
    }
    m
}

/// Up to four fields of a VDP's own, wherever they are.
fn own_fields(i: &mut Input<'_>) -> UserFields {
    let layers = [Layer::Ethernet, Layer::Network, Layer::Transport, Layer::Payload];
    let fields = (0..i.below(5)).filter_map(|n| {
        let (layer, at, width) = (layers[i.below(4)], i.byte().into(), i.byte() % 33);
        UserField::new(&format!("own{n}"), layer, at, i.byte() % 8, width, None).ok()
    });
    UserFields::new(fields.collect()).unwrap_or_default()
}

fn outer(i: &mut Input<'_>) -> Outer {
    let n = i.byte();
    let ip = match n & 1 {
        0 => TunnelAddrs::V4([192, 0, 2, 1].into(), [198, 51, 100, n].into()),
        _ => TunnelAddrs::V6([0x20; 16].into(), [n; 16].into()),
    };
    Outer { eth_src: [2; 6], eth_dst: [4; 6], ip, ttl: 64, tos: n }
}

fn action(i: &mut Input<'_>) -> Action {
    let n = i.byte();
    match n % 32 {
        0..=4 => Action::Output(Out::Port(PortNo(i.below(4) as u32))),
        5 => Action::Output(Out::InPort),
        6 => Action::Output(Out::All),
        7 => Action::Output(Out::Flood),
        8 => Action::Output(Out::Normal),
        9 => Action::Output(Out::Controller(64)),
        10 => Action::ToChannel,
        11 => Action::Drop,
        12..=14 => Action::Group(i.below(4) as u32),
        15 => Action::Meter(i.below(3) as u32),
        16 => Action::Mirror(PortNo(i.below(4) as u32)),
        17 => Action::Goto(i.below(4) as u8),
        18 => Action::WriteMetadata { value: i.byte().into(), mask: i.byte().into() },
        19 => Action::SetQueue(i.byte().into()),
        20 => Action::DecTtl,
        21 => Action::PushVlan(0x8100),
        22 => Action::PopVlan,
        23 => Action::PushMpls(0x8847),
        24 => Action::PopMpls(i.number(2) as u16),
        25 => Action::EncapVxlan { outer: outer(i), vni: 7, port: 4789 },
        26 => Action::DecapVxlan,
        27 => Action::EncapGre {
            outer: outer(i),
            key: Some(7),
            sequence: None,
            checksum: GreChecksum::Present,
        },
        28 => Action::DecapGre,
        29 => [Action::PushPbb(0x88e7), Action::PopPbb][i.below(2)].clone(),
        _ => {
            let (field, value, mask) = field(i);
            Action::SetField { field, value: value & mask, mask }
        }
    }
}

fn actions(i: &mut Input<'_>) -> Vec<Action> {
    (0..i.below(6)).map(|_| action(i)).collect()
}

/// The data plane and what was put into it.
struct Rig {
    plane: DataPlane,
    ports: Vec<PortId>,
    queues: Vec<Arc<Mutex<VecDeque<Vec<u8>>>>>,
    rules: Vec<(Vid, u8, Match, u32)>,
    now: u64,
}

impl Rig {
    fn new() -> Self {
        let plane = DataPlane::new(config()).expect("sound sizes");
        let mut rig = Self { plane, ports: vec![], queues: vec![], rules: vec![], now: 0 };
        for n in 0..3 {
            rig.add_port(n);
        }
        rig
    }
    fn add_port(&mut self, kind: u8) {
        let queue = Arc::default();
        let feed = if kind & 1 == 0 { Feed::Waits } else { Feed::Overflows };
        let sends = [64, 1, 8][usize::from(kind) % 3];
        let wire = Wire { queue: Arc::clone(&queue), feed, sends, left: sends };
        // Port numbers are never used again: not too many.
        if self.ports.len() < 8
            && let Ok(id) = self.plane.add_port(&format!("p{}", self.ports.len()), Box::new(wire))
        {
            self.ports.push(id);
            self.queues.push(queue);
        }
    }
    fn port(&self, i: &mut Input<'_>) -> PortId {
        self.ports[i.below(self.ports.len())]
    }
    fn vid(i: &mut Input<'_>) -> Vid {
        Vid(i.below(5) as u16)
    }
    fn local_ports(&self, i: &mut Input<'_>) -> Vec<(PortNo, PortId)> {
        (1..=i.below(4) as u32).map(|n| (PortNo(n), self.port(i))).collect()
    }

    /// One step. A refusal is an answer as good as any: it must only leave everything in order.
    fn step(&mut self, i: &mut Input<'_>) {
        let what = i.byte();
        let vid = Self::vid(i);
        match what % 20 {
            0 => {
                let mut s = VdpSpec::new(vid, &format!("v{vid}"));
                s.ports = self.local_ports(i);
                let rule = |i: &mut Input<'_>| MappingRule { matcher: matcher(i), priority: 5 };
                s.mapping = (0..i.below(3)).map(|_| rule(i)).collect();
                s.default = actions(i);
                let n = i.byte();
                s.path = if n & 1 == 0 { Path::Fast } else { Path::Slow };
                s.channel = (n & 2 != 0).then_some(n >> 5);
                s.action_entries = usize::from(n >> 4);
                let name = ["forward", "learning", "reflector", "sink"][usize::from(n >> 2) % 4];
                s.program = by_name(name).ok();
                if what >= 100 {
                    s.fields = own_fields(i);
                }
                let _ = self.plane.create_vdp(s);
            }
            1 => {
                let _ = self.plane.delete_vdp(vid);
            }
            2..=4 => {
                let (table, priority) = (i.below(3) as u8, i.below(4) as u32);
                let spec = RuleSpec {
                    matcher: matcher(i),
                    priority,
                    cookie: 0,
                    actions: actions(i).into(),
                };
                let placement = [Placement::Fast, Placement::Slow, Placement::Spill][i.below(3)];
                if self.plane.add_rule(vid, table, &spec, placement).is_ok() {
                    self.rules.push((vid, table, spec.matcher, priority));
                }
            }
            5 if !self.rules.is_empty() => {
                let (vid, table, matcher, priority) =
                    self.rules.swap_remove(i.below(self.rules.len()));
                let _ = self.plane.remove_rule(vid, table, &matcher, priority);
            }
            6 | 7 => {
                use GroupKind::{All, FastFailover, Indirect, Select};
                let kind = [All, Select, Indirect, FastFailover][i.below(4)];
                let bucket = |i: &mut Input<'_>| Bucket {
                    weight: i.byte().into(),
                    watch_port: Some(u32::from(i.byte())).filter(|n| *n > 0),
                    ..Bucket::new(actions(i))
                };
                let buckets = (0..i.below(5)).map(|_| bucket(i)).collect();
                let id = i.below(4) as u32;
                if let Ok(g) = Group::new(kind, buckets) {
                    let _ = self.plane.put_group(vid, id, g);
                }
            }
            8 => {
                let _ = self.plane.remove_group(vid, i.below(4) as u32);
            }
            9 => {
                let kind = if i.byte() & 1 == 0 { BandKind::Drop } else { BandKind::DscpRemark(1) };
                let band = Band { kind, rate: i.number(2) as u32, burst: i.byte().into() };
                let unit = if i.byte() & 1 == 0 { Unit::Packets } else { Unit::Kilobits };
                if let Ok(m) = Meter::new(unit, &[band]) {
                    let _ = self.plane.put_meter(vid, i.below(3) as u32, m);
                }
            }
            10 => {
                let _ = self.plane.remove_meter(vid, i.below(3) as u32);
            }
            11 => {
                let share = PortShare {
                    guarantee_bps: i.number(4) as u64,
                    ceiling_bps: Some(i.number(4) as u64).filter(|n| n & 1 == 0),
                    weight: i.byte().into(),
                    queue_frames: i.byte().into(),
                };
                let port = self.port(i);
                let _ = self.plane.set_share(vid, port, share);
            }
            12 => {
                let to = if i.byte() & 1 == 0 { Path::Fast } else { Path::Slow };
                let _ = self.plane.migrate(vid, to);
            }
            13 => {
                let ports = self.local_ports(i);
                let _ = self.plane.set_ports(vid, ports);
            }
            14 => {
                let _ = self.plane.set_cpu(vid, i.number(2) as u16 % 1200);
            }
            15 => {
                let actions = actions(i);
                let _ = self.plane.set_default(vid, &actions);
            }
            16 => {
                if i.byte() & 1 == 0 {
                    self.add_port(i.byte());
                } else {
                    let port = self.port(i);
                    let _ = self.plane.remove_port(port);
                }
            }
            17 => {
                let rule = MappingRule { matcher: matcher(i), priority: i.below(8) as u32 };
                if i.byte() & 1 == 0 {
                    let _ = self.plane.add_mapping(vid, &rule);
                } else {
                    let _ = self.plane.remove_mapping(vid, &rule);
                }
            }
            _ => self.traffic(i),
        }
    }

    fn traffic(&mut self, i: &mut Input<'_>) {
        let at = i.below(self.queues.len());
        let (copies, len) = (i.below(80), usize::from(i.byte()));
        let (frame, rest) = i.0.split_at(len.min(i.0.len()));
        i.0 = rest;
        let mut queue = self.queues[at].lock().expect("one thread");
        for n in 0..copies {
            // Flows differ in what may be a port or an address.
            let mut f = frame.to_vec();
            if let Some(b) = f.get_mut(35) {
                *b ^= n as u8;
            }
            queue.push_back(f);
        }
    }

    fn round(&mut self, pass: u64) {
        self.now += pass;
        self.plane.poll(Nanos(self.now));
        self.plane.snapshot().check().expect("every frame is accounted for");
    }
}

fuzz_target!(|data: &[u8]| {
    let mut i = Input(data);
    let mut rig = Rig::new();
    while !i.0.is_empty() {
        rig.step(&mut i);
        let pass = u64::from(i.byte());
        rig.round(pass * pass * pass);
    }
    // Nothing more comes in, so everything comes to rest.
    rig.queues.iter().for_each(|q| q.lock().expect("one thread").clear());
    for _ in 0..40 {
        rig.round(20_000_000);
    }
});
