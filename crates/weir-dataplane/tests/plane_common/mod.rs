//! Ports and frames for the tests of the whole data plane: sources that carry sequence numbers,
//! sinks that check them, a wire of limited speed.
#![allow(dead_code, reason = "each test program uses its part")]

pub mod keeper;

use std::sync::{Arc, Mutex};
use weir_classify::{Field, Match};
use weir_dataplane::*;
use weir_packet::*;

/// A 60-byte frame of `flow` with sequence number `seq`: MAC destination by `dst`, VLAN by `vlan`.
pub fn frame(vlan: u16, dst: u16, flow: u32, seq: u64) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, (dst >> 8) as u8, dst as u8, 2, 0, 0, 0, 1, 1];
    if vlan != 0 {
        f.extend([0x81, 0, (vlan >> 8) as u8, vlan as u8]);
    }
    f.extend([8, 0]);
    let at = f.len();
    let total = (60 - at) as u8;
    f.extend([0x45, 0, 0, total, 0, 0, 0, 0, 64, 253, 0, 0]);
    f.extend([10, 0, (flow >> 8) as u8, flow as u8, 10, 1, 0, 1]);
    let sum: u32 = f[at..at + 20].chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
    let folded = !((sum & 0xffff) + (sum >> 16)) as u16;
    f[at + 10..at + 12].copy_from_slice(&folded.to_be_bytes());
    f.extend(flow.to_be_bytes());
    f.extend(seq.to_be_bytes());
    f.resize(60, 0);
    f
}

/// Flow and sequence number of a frame made by [`frame`], wherever its VLAN tags are now.
pub fn read_seq(f: &[u8]) -> (u32, u64) {
    let mut at = 12;
    while f[at..at + 2] != [8, 0] {
        at += 4;
    }
    at += 22;
    (
        u32::from_be_bytes(f[at..at + 4].try_into().unwrap()),
        u64::from_be_bytes(f[at + 4..at + 12].try_into().unwrap()),
    )
}

/// A source of frames with sequence numbers, round robin over flows. Waits, or offers so many
/// frames a round at most and loses what is not taken.
pub struct Sequencer {
    pub vlan: u16,
    pub dst: u16,
    pub flows: u32,
    pub next: Vec<u64>,
    turn: usize,
    left: u64,
    feed: Feed,
    per_round: usize,
}

impl Sequencer {
    pub fn new(vlan: u16, flows: u32, total: u64) -> Self {
        let next = vec![0; flows as usize];
        Self { vlan, dst: 1, flows, next, turn: 0, left: total, feed: Feed::Waits, per_round: 64 }
    }
    pub fn overflowing(mut self, per_round: usize) -> Self {
        (self.feed, self.per_round) = (Feed::Overflows, per_round);
        self
    }
}

impl Device for Sequencer {
    fn name(&self) -> &str {
        "sequencer"
    }
    fn caps(&self) -> Caps {
        Caps::new(1600, self.feed)
    }
    fn link(&mut self, _: &mut Pool) -> LinkState {
        LinkState::Up
    }
    fn rx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let mut n = 0;
        while n < self.per_round && burst.room() > 0 && self.left > 0 {
            let Some(mut f) = pool.alloc() else { break };
            let flow = self.turn as u32;
            let bytes = frame(self.vlan, self.dst, flow, self.next[self.turn]);
            f.copy_from(&bytes).unwrap();
            burst.push(f).unwrap();
            self.next[self.turn] += 1;
            self.turn = (self.turn + 1) % self.next.len();
            self.left -= 1;
            n += 1;
        }
        n
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let n = burst.len();
        burst.drain().for_each(|f| pool.free(f));
        n
    }
    fn flush(&mut self, _: &mut Pool) {}
    fn held(&self) -> usize {
        0
    }
    fn exhausted(&self) -> bool {
        self.left == 0
    }
    fn counters(&self) -> DeviceCounters {
        DeviceCounters::default()
    }
    fn close(&mut self, _: &mut Pool) {}
}

/// What a [`Checker`] has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub frames: u64,
    pub next: Vec<u64>,
    pub lost: u64,
    pub reordered_or_duplicated: u64,
}

/// A sink that looks at sequence numbers: within a flow each must be the last one plus one.
pub struct Checker(Arc<Mutex<Seen>>);

impl Checker {
    pub fn new(flows: usize) -> (Self, Arc<Mutex<Seen>>) {
        let seen = Seen { next: vec![0; flows], ..Seen::default() };
        let seen = Arc::new(Mutex::new(seen));
        (Self(Arc::clone(&seen)), seen)
    }
}

impl Device for Checker {
    fn name(&self) -> &str {
        "checker"
    }
    fn caps(&self) -> Caps {
        Caps::new(1600, Feed::Waits)
    }
    fn link(&mut self, _: &mut Pool) -> LinkState {
        LinkState::Up
    }
    fn rx(&mut self, _: &mut Pool, _: &mut Burst) -> usize {
        0
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let mut s = self.0.lock().unwrap();
        let n = burst.len();
        for f in burst.drain() {
            let (flow, seq) = read_seq(f.bytes());
            let next = &mut s.next[flow as usize];
            let (mut lost, mut wrong) = (0, 0);
            if seq < *next {
                wrong = 1;
            } else {
                lost = seq - *next;
                *next = seq + 1;
            }
            s.lost += lost;
            s.reordered_or_duplicated += wrong;
            s.frames += 1;
            pool.free(f);
        }
        n
    }
    fn flush(&mut self, _: &mut Pool) {}
    fn held(&self) -> usize {
        0
    }
    fn counters(&self) -> DeviceCounters {
        DeviceCounters::default()
    }
    fn close(&mut self, _: &mut Pool) {}
}

/// A wire that takes so many frames between two flushes and keeps what it took.
pub struct SlowWire {
    pub taken: Arc<Mutex<Vec<Vec<u8>>>>,
    per_flush: usize,
    left: usize,
}

impl SlowWire {
    pub fn new(per_flush: usize) -> (Self, Arc<Mutex<Vec<Vec<u8>>>>) {
        let taken = Arc::new(Mutex::new(Vec::new()));
        (Self { taken: Arc::clone(&taken), per_flush, left: per_flush }, taken)
    }
}

impl Device for SlowWire {
    fn name(&self) -> &str {
        "slow-wire"
    }
    fn caps(&self) -> Caps {
        Caps::new(1514, Feed::Overflows)
    }
    fn link(&mut self, _: &mut Pool) -> LinkState {
        LinkState::Up
    }
    fn rx(&mut self, _: &mut Pool, _: &mut Burst) -> usize {
        0
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let n = self.left.min(burst.len());
        self.left -= n;
        let mut taken = self.taken.lock().unwrap();
        for f in burst.drain_front(n) {
            taken.push(f.bytes().to_vec());
            pool.free(f);
        }
        n
    }
    fn flush(&mut self, _: &mut Pool) {
        self.left = self.per_flush;
    }
    fn held(&self) -> usize {
        0
    }
    fn counters(&self) -> DeviceCounters {
        DeviceCounters::default()
    }
    fn close(&mut self, _: &mut Pool) {}
}

/// A mapping rule by VLAN id.
pub fn by_vlan(vlan: u16) -> MappingRule {
    let matcher = Match::any().with(Field::VlanVid, u128::from(vlan | 0x1000));
    MappingRule { matcher, priority: 10 }
}

/// A VDP by VLAN with port 1 in and port 2 out.
pub fn vlan_vdp(vid: u16, vlan: u16, input: PortId, output: PortId) -> VdpSpec {
    let mut s = VdpSpec::new(Vid(vid), &format!("v{vid}"));
    s.ports = vec![(PortNo(1), input), (PortNo(2), output)];
    s.mapping = vec![by_vlan(vlan)];
    s
}

/// A rule for `matcher` with `actions`.
pub fn rule(matcher: Match, priority: u32, actions: &[Action]) -> RuleSpec {
    RuleSpec { matcher, priority, cookie: 0, actions: actions.into() }
}

/// Output by port `n`.
pub fn out(n: u32) -> Action {
    Action::Output(Out::Port(PortNo(n)))
}

/// Polls in virtual time until nothing moves for a while; checks conservation after every round.
pub fn settle(p: &mut DataPlane, clock: &mut u64) {
    let mut idle = 0;
    while idle < 50 {
        *clock += 20_000;
        idle = if p.poll(Nanos(*clock)) == 0 { idle + 1 } else { 0 };
        p.snapshot().check().unwrap();
    }
}
