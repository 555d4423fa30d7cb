//! Routers of several VDPs on one channel: what some keep for neighbours that do not answer is no other's affair.

mod plane_common;

use plane_common::*;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use weir_classify::{Field, Match};
use weir_dataplane::programs::router::{Interface, Router, RouterConfig};
use weir_dataplane::*;
use weir_packet::*;
use weir_wire::MacAddr;

/// Sends so many packets a round to so many addresses of 10.2.0.0/16, one after the other.
struct Scan {
    per_round: usize,
    addresses: u32,
    next: u32,
    left: u64,
}
/// A link: a host that scans, and others that answer ARP requests or do not.
struct Link {
    scan: Scan,
    answers: bool,
    replies: VecDeque<Vec<u8>>,
    mtu: Arc<AtomicUsize>,
    caps: Caps,
}

impl Link {
    fn new(scan: Scan, answers: bool) -> Self {
        let (mtu, caps) = (Arc::new(AtomicUsize::new(1500)), Caps::new(0, Feed::Overflows));
        let mut link = Self { scan, answers, replies: VecDeque::new(), mtu, caps };
        link.measure();
        link
    }
    fn measure(&mut self) {
        self.caps.measure(self.mtu.load(Ordering::Relaxed), 2000);
    }
}

impl Scan {
    const NONE: Self = Self { per_round: 0, addresses: 1, next: 0, left: 0 };
}

fn packet(n: u32) -> Vec<u8> {
    let src = SocketAddrV4::new(Ipv4Addr::new(10, 1, 0, 2), 1000);
    let dst = SocketAddrV4::new(Ipv4Addr::from_bits(0x0a02_1000 + n), 9);
    let f = weir_wire::build::Frame::udp_v4(src, dst, &[0; 20])
        .macs(MacAddr([2, 0, 0, 1, 0, 2]), MacAddr([2, 0, 0, 0, 0xa, 1]));
    let mut out = vec![0; f.len()];
    f.emit(&mut out).unwrap();
    out
}
fn put(pool: &mut Pool, burst: &mut Burst, bytes: &[u8]) -> bool {
    let Some(mut f) = pool.alloc() else { return false };
    f.copy_from(bytes).unwrap();
    burst.push(f).unwrap();
    true
}

impl Device for Link {
    fn name(&self) -> &str {
        "link"
    }
    fn caps(&self) -> Caps {
        self.caps
    }
    fn link(&mut self, _: &mut Pool) -> LinkState {
        self.measure();
        LinkState::Up
    }
    fn rx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let mut n = 0;
        while burst.room() > 0
            && let Some(r) = self.replies.pop_front()
        {
            put(pool, burst, &r);
            n += 1;
        }
        let s = &mut self.scan;
        let most = n + s.per_round;
        while n < most && s.left > 0 && burst.room() > 0 {
            if !put(pool, burst, &packet(s.next % s.addresses)) {
                break;
            }
            (s.next, s.left, n) = (s.next + 1, s.left - 1, n + 1);
        }
        n
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let n = burst.len();
        for f in burst.drain() {
            let b = f.bytes();
            if self.answers && b[12..14] == [8, 6] && b[21] == 1 {
                let mac = [2, 0, 0, 2, b[40], b[41]];
                let mut r = b[6..12].to_vec();
                r.extend(mac);
                r.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
                r.extend(mac);
                r.extend(&b[38..42]);
                r.extend(&b[22..32]);
                r.resize(60, 0);
                self.replies.push_back(r);
            }
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

fn router(p: &mut DataPlane, vid: u16, scan: Scan, answers: bool) {
    let links = [("a", scan, false), ("b", Scan::NONE, answers)];
    let [a, b] = links.map(|(name, scan, answers)| {
        p.add_port(&format!("{name}{vid}"), Box::new(Link::new(scan, answers))).unwrap()
    });
    let interface = |p: u8| Interface {
        port: PortNo(p.into()),
        mac: MacAddr([2, 0, 0, 0, 0xa, p]),
        addresses: vec![format!("10.{p}.0.1/16").parse().unwrap()],
        mtu: None,
    };
    let config =
        RouterConfig { interfaces: vec![interface(1), interface(2)], ..RouterConfig::default() };
    let mut s = VdpSpec::new(Vid(vid), &format!("v{vid}"));
    s.ports = vec![(PortNo(1), a), (PortNo(2), b)];
    s.mapping = [a, b]
        .map(|id| MappingRule {
            matcher: Match::any().with(Field::InPort, id.0.into()),
            priority: 1,
        })
        .into();
    s.program = Some(Box::new(Router::new(&config).unwrap()));
    p.create_vdp(s).unwrap();
}

/// Router 1 has 32 packets a round for 256 neighbours that answer, beside so many routers that wait for neighbours which nobody
/// is. What became of its packets; what each of the others keeps.
fn of_first(others: u16) -> (VdpView, Vec<usize>) {
    let mut p = DataPlane::new(Config::default()).unwrap();
    for vid in 2..2 + others {
        router(&mut p, vid, Scan { per_round: 1, addresses: 2000, next: 0, left: 300 }, false);
    }
    let mut clock = 0;
    let mut poll = |p: &mut DataPlane, n: u64| {
        for _ in 0..n {
            clock += 50_000;
            p.poll(Nanos(clock));
        }
    };
    // They keep what they may before the first begins.
    poll(&mut p, 2000);
    router(&mut p, 1, Scan { per_round: 32, addresses: 256, next: 0, left: 16_000 }, true);
    poll(&mut p, 1000);
    let s = p.snapshot();
    s.check().unwrap();
    let kept = s.vdps.iter().filter(|v| v.vid.0 > 1).map(|v| v.held).collect();
    (s.vdps.into_iter().find(|v| v.vid == Vid(1)).unwrap(), kept)
}

#[test]
fn what_routers_keep_takes_no_places_from_others() {
    let (alone, _) = of_first(0);
    assert_eq!((alone.counters.dropped.total(), alone.counters.consumed), (0, 256));
    for others in [1, 10, 50] {
        let (first, kept) = of_first(others);
        let (received, d) = (first.counters.received.frames, &first.counters.dropped);
        let why: Vec<_> = d.iter().filter(|(_, n)| *n > 0).collect();
        assert_eq!(d.get(DropReason::ChannelFull), 0, "of {received} beside {others}: {why:?}");
        // What it may keep until its neighbours have answered is its part, too.
        assert!(d.total() < 256, "of {received} beside {others}: {why:?}");
        // All of them have something to keep, and leave as much.
        let all: usize = kept.iter().sum();
        assert!(kept.iter().all(|k| (16..=128).contains(k)) && all <= 1024 + 64, "{kept:?}");
    }
}

/// Keeps frames of its own making.
struct Maker {
    want: usize,
    kept: Vec<Frame>,
}
impl Program for Maker {
    fn name(&self) -> &'static str {
        "maker"
    }
    fn frame(&mut self, rx: SlowFrame, cx: &mut ProgramCx<'_>) {
        cx.consume(rx.frame);
    }
    fn tick(&mut self, cx: &mut ProgramCx<'_>) {
        while self.kept.len() < self.want
            && let Some(f) = cx.alloc()
        {
            self.kept.push(f);
        }
    }
    fn held(&self) -> usize {
        self.kept.len()
    }
    fn release(&mut self, cx: &mut ProgramCx<'_>) {
        self.kept.drain(..).for_each(|f| cx.unused(f));
    }
}

/// Frames of VDP 3, four a round, beside a flood of VDP 2's and a program that keeps so many frames of its own making; received and dropped.
fn beside_maker(want: usize) -> (u64, u64) {
    let mut p = DataPlane::new(Config::default()).unwrap();
    let (w, _) = SlowWire::new(usize::MAX);
    let o = p.add_port("o", Box::new(w)).unwrap();
    let m = p.add_port("m", Box::new(Sequencer::new(1, 1, 10).overflowing(1))).unwrap();
    let mut s = vlan_vdp(1, 1, m, o);
    s.program = Some(Box::new(Maker { want, kept: Vec::new() }));
    s.path = Path::Slow;
    p.create_vdp(s).unwrap();
    let a = p.add_port("a", Box::new(Sequencer::new(2, 1, u64::MAX).overflowing(64))).unwrap();
    let b = p.add_port("b", Box::new(Sequencer::new(2, 1, u64::MAX).overflowing(64))).unwrap();
    let (w, _) = SlowWire::new(usize::MAX);
    let o2 = p.add_port("o2", Box::new(w)).unwrap();
    let c = p.add_port("c", Box::new(Sequencer::new(3, 1, u64::MAX).overflowing(4))).unwrap();
    let (w, _) = SlowWire::new(usize::MAX);
    let o3 = p.add_port("o3", Box::new(w)).unwrap();
    let mut s = vlan_vdp(2, 2, a, o2);
    s.ports.push((PortNo(3), b));
    (s.program, s.path) = (programs::by_name("forward").ok(), Path::Slow);
    p.create_vdp(s).unwrap();
    let mut s = vlan_vdp(3, 3, c, o3);
    (s.program, s.path) = (programs::by_name("forward").ok(), Path::Slow);
    p.create_vdp(s).unwrap();
    for r in 1..=5000u64 {
        p.poll(Nanos(r * 20_000));
    }
    p.snapshot().check().unwrap();
    let v = p.snapshot().vdps.into_iter().find(|v| v.vid == Vid(3)).unwrap();
    (v.counters.received.frames, v.counters.dropped.total())
}
#[test]
fn what_programs_make_and_keep_lets_nobody_have_more() {
    for want in [0, 128, 500, 1000] {
        assert_eq!(beside_maker(want), (20_000, 0), "{want}");
    }
}

/// Says how long IP packets its ports take.
struct Sizes(Arc<Mutex<Vec<usize>>>);
impl Program for Sizes {
    fn name(&self) -> &'static str {
        "sizes"
    }
    fn frame(&mut self, rx: SlowFrame, cx: &mut ProgramCx<'_>) {
        cx.consume(rx.frame);
    }
    fn tick(&mut self, cx: &mut ProgramCx<'_>) {
        *self.0.lock().unwrap() = cx.ports().iter().map(|p| p.ip_bytes as usize).collect();
    }
}

/// An interface's MTU is what its frames carry of IP without tags, and one that changes is told: whoever forwards to a link that has become
/// shorter says so to who sends (RFC 1191 §4).
#[test]
fn a_program_knows_the_mtu_of_its_ports_as_it_is() {
    let mut p = DataPlane::new(Config::default()).unwrap();
    let links = [Link::new(Scan::NONE, false), Link::new(Scan::NONE, false)];
    let mtu = Arc::clone(&links[1].mtu);
    let mut names = ["a", "b"].into_iter();
    let [a, b] = links.map(|l| p.add_port(names.next().unwrap(), Box::new(l)).unwrap());
    let mut s = VdpSpec::new(Vid(1), "v");
    s.ports = vec![(PortNo(1), a), (PortNo(2), b)];
    let seen = Arc::default();
    s.program = Some(Box::new(Sizes(Arc::clone(&seen))));
    p.create_vdp(s).unwrap();
    let mut clock = 0;
    let mut now = |p: &mut DataPlane| {
        p.check_links();
        for _ in 0..1000 {
            clock += 50_000;
            p.poll(Nanos(clock));
        }
        seen.lock().unwrap().clone()
    };
    assert_eq!(now(&mut p), [1500, 1500]);
    mtu.store(1400, Ordering::Relaxed);
    assert_eq!(now(&mut p), [1500, 1400]);
}
