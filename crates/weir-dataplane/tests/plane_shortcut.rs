//! Shortcuts, judged by the data plane itself: one whose ports forward by themselves whatever they were
//! told to, beside one whose ports do not. The same frames and the same changes, whatever they are,
//! bring out the same bytes and the same counters.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use weir_classify::{Field, Match};
use weir_dataplane::*;
use weir_packet::*;

const PORTS: u16 = 3;

/// What is shared by a port and the wire before it.
#[derive(Debug, Default)]
struct Inside {
    received: VecDeque<Vec<u8>>,
    sent: Vec<Vec<u8>>,
    ways: Option<Ways>,
    taken: std::collections::BTreeMap<u32, Taken>,
    up: bool,
}

#[derive(Debug)]
struct Port {
    exit: u32,
    offers: bool,
    inside: Arc<Mutex<Inside>>,
}

impl Shortcut for Port {
    fn start(&mut self, ways: &Ways) -> Result<(), String> {
        let mut inside = self.inside.lock().unwrap();
        assert!(inside.ways.is_none(), "started twice");
        assert!(ways.by_mac.len() <= WAYS);
        inside.ways = Some(ways.clone());
        Ok(())
    }
    fn stop(&mut self) {
        self.inside.lock().unwrap().ways = None;
    }
    fn taken(&self, counter: u32) -> Taken {
        self.inside.lock().unwrap().taken.get(&counter).copied().unwrap_or_default()
    }
}

impl Device for Port {
    fn name(&self) -> &str {
        "port"
    }
    fn caps(&self) -> Caps {
        Caps::new(1518, Feed::Overflows)
    }
    fn link(&mut self, _: &mut Pool) -> LinkState {
        if self.inside.lock().unwrap().up { LinkState::Up } else { LinkState::Down }
    }
    fn rx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let before = burst.len();
        let mut inside = self.inside.lock().unwrap();
        while burst.room() > 0 && !inside.received.is_empty() {
            let mut f = pool.alloc().unwrap();
            f.copy_from(&inside.received.pop_front().unwrap()).unwrap();
            burst.push(f).unwrap();
        }
        burst.len() - before
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let n = burst.len();
        let mut inside = self.inside.lock().unwrap();
        for f in burst.drain() {
            inside.sent.push(f.bytes().to_vec());
            pool.free(f);
        }
        n
    }
    fn flush(&mut self, _: &mut Pool) {}
    fn held(&self) -> usize {
        0
    }
    fn shortcut(&mut self) -> Option<&mut dyn Shortcut> {
        self.offers.then_some(self)
    }
    fn offers_shortcut(&self) -> bool {
        self.offers
    }
    fn exit(&self) -> Option<u32> {
        self.offers.then_some(self.exit)
    }
    fn counters(&self) -> DeviceCounters {
        DeviceCounters::default()
    }
    fn close(&mut self, _: &mut Pool) {}
}

/// Frames that went a way, in all tests: without any they prove nothing.
static SHORT: AtomicU64 = AtomicU64::new(0);

struct Side {
    plane: DataPlane,
    ports: Vec<Arc<Mutex<Inside>>>,
    clock: u64,
    tap: Option<(TapId, std::sync::mpsc::Receiver<Captured>)>,
}

impl Side {
    fn new(offers: bool) -> Self {
        let mut plane = DataPlane::new(Config { frames: 512, ..Config::default() }).unwrap();
        let mut ports = Vec::new();
        for exit in 1..=u32::from(PORTS) {
            let inside = Arc::new(Mutex::new(Inside { up: true, ..Inside::default() }));
            let port = Port { exit, offers, inside: Arc::clone(&inside) };
            plane.add_port(&format!("p{exit}"), Box::new(port)).unwrap();
            ports.push(inside);
        }
        Self { plane, ports, clock: 0, tap: None }
    }
    /// A frame arrives at a port: its device forwards it or has it for the data plane.
    fn arrives(&mut self, port: usize, mut frame: Vec<u8>) {
        let mut inside = self.ports[port].lock().unwrap();
        let way = inside.ways.as_ref().and_then(|w| w.of(&frame)).copied();
        let Some(w) = way else { return inside.received.push_back(frame) };
        SHORT.fetch_add(1, Ordering::Relaxed);
        let t = inside.taken.entry(w.counter).or_default();
        (t.frames, t.bytes) = (t.frames + 1, t.bytes + frame.len() as u64);
        drop(inside);
        w.eth_dst.iter().for_each(|m| frame[..6].copy_from_slice(m));
        w.eth_src.iter().for_each(|m| frame[6..12].copy_from_slice(m));
        self.ports[w.exit as usize - 1].lock().unwrap().sent.push(frame);
    }
    fn polls(&mut self, times: usize, step: u64) {
        for _ in 0..times {
            self.clock += step;
            self.plane.poll(Nanos(self.clock));
        }
    }
    fn sent(&self) -> Vec<Vec<Vec<u8>>> {
        self.ports.iter().map(|p| std::mem::take(&mut p.lock().unwrap().sent)).collect()
    }
    /// What can be read of it.
    fn counted(&mut self) -> String {
        self.plane.count_shortcuts();
        let s = self.plane.snapshot();
        s.check().unwrap();
        let ports: Vec<_> = s.ports.iter().map(|p| (p.id, p.counters.clone())).collect();
        let mut out = format!("{ports:?}");
        for v in &s.vdps {
            out += &format!("\n{:?} {:?} {:?}", v.vid, v.counters, v.port_counters);
            // One that is on its way out has none.
            let Ok((rules, _)) = self.plane.rules(v.vid) else { continue };
            let mut hits: Vec<_> =
                rules.iter().map(|r| format!("{:?} {:?}", r.spec, r.hits)).collect();
            hits.sort();
            out += &format!(" {hits:?} {:?}", self.plane.table_counters(v.vid));
        }
        out
    }
    fn change(&mut self, c: &Change) -> bool {
        let all: Vec<(PortNo, PortId)> =
            (1..=PORTS).map(|p| (PortNo(u32::from(p) + 10), PortId(p))).collect();
        let p = &mut self.plane;
        match c {
            Change::Vdp(vid) => {
                let mut spec = VdpSpec::new(Vid(*vid), "v");
                spec.ports = all;
                p.create_vdp(spec).is_ok()
            }
            Change::NoVdp(vid) => p.delete_vdp(Vid(*vid)).is_ok(),
            Change::Map(vid, m) => p.add_mapping(Vid(*vid), &m.mapping()).is_ok(),
            Change::Unmap(vid, m) => p.remove_mapping(Vid(*vid), &m.mapping()).is_ok(),
            Change::Rule(vid, m, a) => {
                let spec = RuleSpec {
                    matcher: m.matcher(10),
                    priority: m.priority,
                    cookie: 0,
                    actions: a.actions().into(),
                };
                p.add_rule(Vid(*vid), 0, &spec, Placement::Fast).is_ok()
            }
            Change::NoRule(vid, m) => {
                p.remove_rule(Vid(*vid), 0, &m.matcher(10), m.priority).is_ok()
            }
            Change::Path(vid, to) => p.migrate(Vid(*vid), *to).is_ok(),
            Change::Flags(vid, port, flags) => {
                let flags = if *flags { PortFlags::NO_FWD } else { PortFlags::NONE };
                p.set_port_config(Vid(*vid), PortNo(u32::from(*port) + 10), flags).is_ok()
            }
            Change::Share(vid, port, ceiling) => {
                let ceiling_bps = ceiling.then_some(1_000_000_000_000);
                let share = PortShare { ceiling_bps, ..PortShare::default() };
                p.set_share(Vid(*vid), PortId(*port), share).is_ok()
            }
            Change::Tap => {
                match self.tap.take() {
                    Some((id, _)) => drop(p.remove_tap(id)),
                    None => self.tap = Some(p.add_tap(TapPoint::default(), Match::any(), 4)),
                }
                true
            }
            Change::Link(port, up) => {
                self.ports[usize::from(*port) - 1].lock().unwrap().up = *up;
                !p.check_links().is_empty()
            }
        }
    }
}

/// A match of few kinds, so that they meet.
#[derive(Clone, Debug)]
struct Asked {
    port: Option<u16>,
    dst: Option<u8>,
    ipv4: bool,
    priority: u32,
}

impl Asked {
    fn matcher(&self, first: u32) -> Match {
        let mut m = Match::any();
        if let Some(p) = self.port {
            m = m.with(Field::InPort, (u32::from(p) + first).into());
        }
        if let Some(d) = self.dst {
            m = m.with(Field::EthDst, 0x0200_0000_0000 | u128::from(d));
        }
        if self.ipv4 { m.with(Field::EthType, 0x800) } else { m }
    }
    fn mapping(&self) -> MappingRule {
        MappingRule { matcher: self.matcher(0), priority: self.priority }
    }
}

#[derive(Clone, Debug)]
enum Does {
    Out(u16),
    New(u16, Option<u8>, Option<u8>),
    Ttl(u16),
    Two,
    Drop,
    Back,
}

impl Does {
    fn actions(&self) -> Vec<Action> {
        let out = |p: u16| Action::Output(Out::Port(PortNo(u32::from(p) + 10)));
        let set = |field, v: u8| {
            let value = 0x0200_0000_0900 | u128::from(v);
            Action::SetField { field, value, mask: (1 << 48) - 1 }
        };
        match self {
            Does::Out(p) => vec![out(*p)],
            Does::New(p, dst, src) => {
                let dst = dst.map(|v| set(Field::EthDst, v));
                let src = src.map(|v| set(Field::EthSrc, v));
                dst.into_iter().chain(src).chain([out(*p)]).collect()
            }
            Does::Ttl(p) => vec![Action::DecTtl, out(*p)],
            Does::Two => vec![out(1), out(2)],
            Does::Drop => vec![Action::Drop],
            Does::Back => vec![Action::Output(Out::InPort)],
        }
    }
}

#[derive(Clone, Debug)]
enum Change {
    Vdp(u16),
    NoVdp(u16),
    Map(u16, Asked),
    Unmap(u16, Asked),
    Rule(u16, Asked, Does),
    NoRule(u16, Asked),
    Path(u16, Path),
    Flags(u16, u16, bool),
    Share(u16, u16, bool),
    Tap,
    Link(u16, bool),
}

#[derive(Clone, Debug)]
enum Step {
    Change(Change),
    Frame {
        port: usize,
        dst: u8,
        ipv4: bool,
        len: usize,
    },
    /// Long enough for ways to be started.
    Pause,
}

fn asked() -> impl Strategy<Value = Asked> {
    let (port, dst) = (prop::option::of(1..=PORTS), prop::option::of(1..4u8));
    (port, dst, prop::bool::weighted(0.1), 1..4u32).prop_map(|(port, dst, ipv4, priority)| Asked {
        port,
        dst,
        ipv4,
        priority,
    })
}

fn does() -> impl Strategy<Value = Does> {
    let mac = || prop::option::of(1..4u8);
    prop_oneof![
        6 => (1..=PORTS).prop_map(Does::Out),
        4 => (1..=PORTS, mac(), mac()).prop_map(|(p, d, s)| Does::New(p, d, s)),
        1 => (1..=PORTS).prop_map(Does::Ttl),
        1 => Just(Does::Two),
        1 => Just(Does::Drop),
        1 => Just(Does::Back),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let vid = || 1..3u16;
    let change = prop_oneof![
        4 => vid().prop_map(Change::Vdp),
        1 => vid().prop_map(Change::NoVdp),
        6 => (vid(), asked()).prop_map(|(v, a)| Change::Map(v, a)),
        2 => (vid(), asked()).prop_map(|(v, a)| Change::Unmap(v, a)),
        12 => (vid(), asked(), does()).prop_map(|(v, a, d)| Change::Rule(v, a, d)),
        3 => (vid(), asked()).prop_map(|(v, a)| Change::NoRule(v, a)),
        1 => vid().prop_map(|v| Change::Path(v, Path::Slow)),
        2 => vid().prop_map(|v| Change::Path(v, Path::Fast)),
        1 => (vid(), 1..=PORTS, any::<bool>()).prop_map(|(v, p, f)| Change::Flags(v, p, f)),
        1 => (vid(), 1..=PORTS, any::<bool>()).prop_map(|(v, p, c)| Change::Share(v, p, c)),
        1 => Just(Change::Tap),
        1 => (1..=PORTS, any::<bool>()).prop_map(|(p, up)| Change::Link(p, up)),
    ];
    let frame = (0..usize::from(PORTS), 0..4u8, any::<bool>(), 60..80usize);
    prop_oneof![
        3 => change.prop_map(Step::Change),
        6 => frame.prop_map(|(port, dst, ipv4, len)| Step::Frame { port, dst, ipv4, len }),
        2 => Just(Step::Pause),
    ]
}

fn bytes(dst: u8, ipv4: bool, len: usize, n: u8) -> Vec<u8> {
    let mut f = vec![0; len];
    f[..6].copy_from_slice(&[2, 0, 0, 0, 0, dst]);
    f[6..12].copy_from_slice(&[2, 0, 0, 0, 1, n]);
    f[12..14].copy_from_slice(if ipv4 { &[8, 0] } else { &[0x88, 0xb5] });
    if ipv4 {
        f[14..24].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 9, 17]);
    }
    f
}

#[test]
fn the_same_with_and_without() {
    let mut runner = TestRunner::new(ProptestConfig::with_cases(192));
    let all = prop::collection::vec(step(), 1..80);
    if let Err(e) = runner.run(&all, |steps| same(&steps)) {
        panic!("{e}");
    }
    let short = SHORT.load(Ordering::Relaxed);
    assert!(short > 100, "only {short} frames went a way");
}

fn same(steps: &[Step]) -> Result<(), TestCaseError> {
    let mut sides = [Side::new(true), Side::new(false)];
    // Most sequences shall have something to forward.
    let any = Asked { port: None, dst: None, ipv4: false, priority: 1 };
    let start = [
        Change::Vdp(1),
        Change::Vdp(2),
        Change::Map(1, Asked { port: Some(1), ..any.clone() }),
        Change::Map(2, Asked { dst: Some(1), priority: 2, ..any.clone() }),
        Change::Rule(1, any, Does::Out(2)),
    ];
    let start = start.map(Step::Change);
    for (n, step) in start.iter().chain(steps).enumerate() {
        match step {
            Step::Change(c) => {
                let done = sides.each_mut().map(|s| s.change(c));
                prop_assert_eq!(done[0], done[1], "{:?}", c);
            }
            Step::Frame { port, dst, ipv4, len } => {
                let f = bytes(*dst, *ipv4, *len, n as u8);
                sides.iter_mut().for_each(|s| s.arrives(*port, f.clone()));
            }
            Step::Pause => sides.iter_mut().for_each(|s| s.polls(3, 11_000_000)),
        }
        sides.iter_mut().for_each(|s| s.polls(2, 1000));
        prop_assert_eq!(sides[0].sent(), sides[1].sent(), "after {:?}", step);
        let counted = sides.each_mut().map(Side::counted);
        prop_assert_eq!(&counted[0], &counted[1], "after {:?}", step);
    }
    Ok(())
}

#[test]
fn a_way_is_taken_and_a_change_stops_it() {
    let mut s = Side::new(true);
    let by_port = Asked { port: Some(1), dst: None, ipv4: false, priority: 1 };
    assert!(s.change(&Change::Vdp(1)));
    assert!(s.change(&Change::Map(1, by_port.clone())));
    assert!(s.change(&Change::Rule(1, by_port.clone(), Does::Out(2))));
    s.polls(3, 11_000_000);
    let before = SHORT.load(Ordering::Relaxed);
    let view = |s: &Side| s.plane.snapshot().ports.first().map(|p| p.shortcut.clone());
    let on = ShortcutView::On { vids: vec![Vid(1)], macs: 0, why_not: None };
    assert_eq!(view(&s), Some(on.clone()));
    s.arrives(0, bytes(1, true, 60, 1));
    assert!(SHORT.load(Ordering::Relaxed) > before);
    assert!(s.ports[0].lock().unwrap().received.is_empty());
    let port = s.plane.snapshot().ports[0].counters.rx;
    assert_eq!(port, Tally::default(), "counted when asked, or after a while");
    // Another VDP's rules are nothing to it; its own stop it, and it is counted.
    assert!(s.change(&Change::Vdp(2)));
    s.polls(3, 11_000_000);
    assert_eq!(view(&s), Some(on));
    assert!(s.change(&Change::Rule(2, by_port.clone(), Does::Out(3))));
    assert!(s.ports[0].lock().unwrap().ways.is_some());
    assert!(s.change(&Change::Rule(1, by_port, Does::Ttl(2))));
    assert!(s.ports[0].lock().unwrap().ways.is_none());
    assert_eq!(s.plane.snapshot().ports[0].counters.rx, Tally { frames: 1, bytes: 60 });
    s.polls(3, 11_000_000);
    let Some(ShortcutView::Off(why)) = view(&s) else { panic!("{:?}", view(&s)) };
    assert!(why.contains("no rule sends its frames"), "{why}");
}
