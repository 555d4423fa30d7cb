//! A crew of data planes without threads: each is polled when a test says so, in virtual time.

use crate::plane_common::*;
use std::sync::Arc;
use weir_classify::Match;
use weir_dataplane::crew::*;
use weir_dataplane::flowtext::{NoNames, parse_flows};
use weir_dataplane::*;
use weir_io::replay::{Arena, Collect, Collected, Passes, Replay};
use weir_packet::*;

pub const WIDTH: u64 = 3_000;

/// Replicas, their ports with one queue, and what left by each port.
pub struct Rig {
    pub planes: Vec<DataPlane>,
    pub spreads: Vec<Spread>,
    pub ports: Vec<(PortNo, PortId)>,
    pub clock: u64,
}

pub fn config(workers: usize) -> Config {
    Config { frames: 2048, channel_frames: 64, workers, ..Config::default() }
}

impl Rig {
    /// Ports in this order, from 1 on; port `i`'s home is worker `i` modulo their number.
    pub fn new(workers: usize, devices: Vec<Box<dyn Device>>) -> Self {
        let mut planes: Vec<_> =
            (0..workers).map(|_| DataPlane::new(config(workers)).unwrap()).collect();
        let (mut spreads, mut ports) = (Vec::new(), Vec::new());
        for (i, device) in devices.into_iter().enumerate() {
            let (each, control) = spread(device, i % workers, workers).unwrap();
            let name = format!("p{}", i + 1);
            let mut ids = Vec::new();
            for (p, d) in planes.iter_mut().zip(each) {
                ids.push(p.add_port(&name, d).unwrap());
            }
            assert!(ids.iter().all(|id| *id == ids[0]));
            spreads.push(control);
            ports.push((PortNo(i as u32 + 1), ids[0]));
        }
        Self { planes, spreads, ports, clock: 0 }
    }
    /// The same change for each.
    pub fn change(&mut self, f: impl Fn(&mut DataPlane)) {
        self.planes.iter_mut().for_each(f);
    }
    pub fn vdp(&mut self, default: &[Action]) {
        let (ports, default) = (self.ports.clone(), default.to_vec());
        self.change(move |p| {
            let mut s = VdpSpec::new(Vid(1), "shared");
            s.ports = ports.clone();
            s.mapping = vec![MappingRule { matcher: Match::any(), priority: 1 }];
            s.default = default.clone();
            p.create_vdp(s).unwrap();
        });
    }
    /// A round of one worker's; every worker's frames add up before and after.
    pub fn poll(&mut self, worker: usize) -> usize {
        self.clock += WIDTH;
        let moved = self.planes[worker].poll(Nanos(self.clock));
        self.planes[worker].snapshot().check().unwrap();
        moved
    }
    /// Until nothing moves for a while.
    pub fn settle(&mut self) {
        self.settle_without(usize::MAX);
    }
    /// The same, but for one worker that stands still.
    pub fn settle_without(&mut self, still: usize) {
        let mut idle = 0;
        while idle < 8 {
            let moving = (0..self.planes.len()).filter(|w| *w != still);
            let moved: usize = moving.collect::<Vec<_>>().into_iter().map(|w| self.poll(w)).sum();
            idle = if moved == 0 { idle + 1 } else { 0 };
        }
    }
    pub fn snapshot(&self) -> Snapshot {
        let s = snapshot_of(&self.planes);
        s.check().unwrap();
        s.merged().unwrap()
    }
}

impl Drop for Rig {
    /// Each region has its own again.
    fn drop(&mut self) {
        disband(&mut self.planes, &self.spreads);
        if !std::thread::panicking() {
            for p in &self.planes {
                let f = p.snapshot().frames;
                assert_eq!(f.free + f.held + f.spares, f.count, "frames are abroad: {f:?}");
            }
        }
    }
}

/// A rule in the syntax of flows.
pub fn rule_of(text: &str) -> RuleSpec {
    let f = &parse_flows(text, &NoNames).unwrap()[0];
    let (matcher, priority) = (f.matcher, f.priority.into());
    RuleSpec { matcher, priority, cookie: 0, actions: f.actions.clone().into() }
}

/// Frames of flows, numbered within each.
pub fn frames(flows: &[u32]) -> Vec<Vec<u8>> {
    let mut next = std::collections::HashMap::new();
    let one = |flow: &u32| {
        let n: &mut u64 = next.entry(*flow).or_default();
        *n += 1;
        frame(0, (*flow % 5) as u16, *flow, *n - 1)
    };
    flows.iter().map(one).collect()
}

pub fn source(frames: &[Vec<u8>]) -> Box<dyn Device> {
    let mut arena = Arena::new();
    frames.iter().for_each(|f| assert!(arena.push(f, None, 1)));
    Box::new(Replay::new("in", Arc::new(arena), Passes::Times(1)))
}

pub fn sink(name: &str) -> (Box<dyn Device>, Collected) {
    let (d, kept) = Collect::new(name, usize::MAX);
    (Box::new(d), kept)
}

/// What left by a port, flow by flow, in order.
pub fn by_flow(kept: &Collected) -> std::collections::BTreeMap<u32, Vec<Vec<u8>>> {
    let mut all = std::collections::BTreeMap::<_, Vec<_>>::new();
    for f in kept.take() {
        all.entry(read_seq(&f.bytes).0).or_default().push(f.bytes);
    }
    all
}

/// A source of what it is sent; its frames wait.
pub struct Fed {
    from: std::sync::mpsc::Receiver<Vec<u8>>,
    feed: Feed,
}

impl Fed {
    pub fn new(from: std::sync::mpsc::Receiver<Vec<u8>>) -> Self {
        Self { from, feed: Feed::Waits }
    }
    /// As a network: what is not taken is lost.
    pub fn overflowing(self) -> Self {
        Self { feed: Feed::Overflows, ..self }
    }
}

impl Device for Fed {
    fn name(&self) -> &str {
        "fed"
    }
    fn caps(&self) -> Caps {
        Caps::new(1600, self.feed)
    }
    fn link(&mut self, _: &mut Pool) -> LinkState {
        LinkState::Up
    }
    fn rx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let before = burst.len();
        while burst.room() > 0
            && pool.available() > 0
            && let Ok(bytes) = self.from.try_recv()
        {
            let mut f = pool.alloc().unwrap();
            f.copy_from(&bytes).unwrap();
            burst.push(f).unwrap();
        }
        burst.len() - before
    }
    /// Swallows.
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let n = burst.len();
        burst.drain().for_each(|f| pool.free(f));
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
