//! A crew asked by its desk, on threads: what one data plane would answer, whoever has the frames.

use crate::plane_common::*;
use crate::rig::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use weir_classify::{Field, Match};
use weir_dataplane::crew::*;
use weir_dataplane::flowtext::{NoNames, parse_flows};
use weir_dataplane::*;
use weir_packet::*;

const V: Vid = Vid(1);

pub struct Asked {
    pub crew: Crew,
    pub desk: Runner,
    pub h: Handle,
}

impl Asked {
    pub fn new(workers: usize) -> Self {
        let planes = (0..workers).map(|_| DataPlane::new(config(workers)).unwrap()).collect();
        let crew = Crew::start(planes, Vec::new(), Serving::Worker, WhenIdle::Rest).unwrap();
        let desk = crew.run_desk(crew.desk(config(workers)).unwrap()).unwrap();
        let h = desk.handle();
        Self { crew, desk, h }
    }
    /// Ports in this order, homes in turn, all of them VDP 1's, which drops.
    pub fn with(workers: usize, devices: Vec<Box<dyn Device>>) -> Self {
        let a = Self::new(workers);
        for (i, d) in devices.into_iter().enumerate() {
            a.port(i + 1, d, i % workers);
        }
        a.vdp(V);
        a
    }
    pub fn port(&self, no: usize, device: Box<dyn Device>, home: usize) -> PortId {
        let add = move |p: &mut DataPlane| p.add_port_at(&format!("p{no}"), device, home);
        self.h.call(add).unwrap().unwrap()
    }
    pub fn vdp(&self, vid: Vid) {
        self.h.call(move |p| p.create_vdp(Self::spec(vid, p))).unwrap().unwrap();
    }
    pub fn spec(vid: Vid, p: &DataPlane) -> VdpSpec {
        let mut s = VdpSpec::new(vid, "shared");
        let ports = p.snapshot().ports.into_iter().filter(|p| p.id != PortId(0));
        s.ports = ports.enumerate().map(|(i, p)| (PortNo(i as u32 + 1), p.id)).collect();
        s.mapping = vec![MappingRule { matcher: Match::any(), priority: 1 }];
        s.default = vec![Action::Drop];
        s
    }
    pub fn rule(&self, text: &str) -> RuleRef {
        let rule = rule_of(text);
        self.h.call(move |p| p.place_rule(V, 0, &rule, Placement::Fast)).unwrap().unwrap().1
    }
    pub fn snapshot(&self) -> Snapshot {
        let s = self.h.call(|p| p.snapshot()).unwrap();
        s.check().unwrap();
        s
    }
    pub fn until(&self, mut done: impl FnMut(&Snapshot) -> bool) {
        until(|| done(&self.snapshot()));
    }
    /// Every frame is home and accounted for.
    pub fn stop(self) {
        self.desk.stop().unwrap();
        let planes = self.crew.stop().unwrap();
        snapshot_of(&planes).check().unwrap();
        for p in &planes {
            let f = p.snapshot().frames;
            assert_eq!(f.free + f.held + f.spares, f.count, "frames are abroad: {f:?}");
        }
    }
}

pub fn until(mut done: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if done() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("a minute has passed");
}

pub fn fed() -> (Box<dyn Device>, Sender<Vec<u8>>) {
    let (to, from) = channel();
    (Box::new(Fed::new(from)), to)
}

fn flow_matches(flow: u32) -> String {
    format!("ip,nw_src=10.0.{}.{}", flow >> 8, flow & 255)
}

#[test]
fn what_all_workers_counted_is_read_as_one() {
    let (source, to) = fed();
    let (wire, kept) = sink("out");
    let a = Asked::with(3, vec![source, wire]);
    let group = Group::new(GroupKind::Indirect, vec![Bucket::new(vec![out(2)])]).unwrap();
    a.h.call(move |p| p.put_group(V, 7, group)).unwrap().unwrap();
    let rules: Vec<RuleRef> =
        (0..40).map(|n| a.rule(&format!("{},actions=group:7", flow_matches(n)))).collect();
    let flows: Vec<u32> = (0..4000).map(|n| n % 40).collect();
    frames(&flows).into_iter().for_each(|f| to.send(f).unwrap());
    a.until(|s| s.ports[1].counters.tx.frames == 4000);
    // What another worker has sent may be on its way to the port's home.
    until(|| kept.len() == 4000);
    let s = a.snapshot();
    assert_eq!((s.ports[0].counters.rx.frames, s.vdps[1].counters.received.frames), (4000, 4000));
    // No flow is reordered, and more than one worker had some.
    by_flow(&kept).iter().for_each(|(f, all)| {
        let order: Vec<u64> = all.iter().map(|f| read_seq(f).1).collect();
        assert_eq!(order, (0..100).collect::<Vec<_>>(), "flow {f}");
    });
    let by = a.crew.handle().snapshot().unwrap().workers;
    assert!(by.iter().all(|w| w.vdps[1].counters.received.frames > 0));
    let all = rules.clone();
    let used = a.h.call(move |p| {
        let mut used = Vec::new();
        p.usage(V, &all, &mut used).map(|()| used)
    });
    let used = used.unwrap().unwrap();
    assert!(used.iter().all(|u| (u.frames, u.bytes) == (100, 6000) && u.last_used > Nanos(0)));
    let (tallies, tables, views, ports, group, queues) =
        a.h.call(|p| {
            let mut t = Vec::new();
            p.tallies(V, 0, 0..100, &mut t).unwrap();
            let views = p.rules(V).unwrap().0;
            let group = p.group_counters(V, 7).unwrap();
            let (ports, queues) = (p.vdp_port_counters(V).unwrap(), p.queue_counters(V).unwrap());
            (t, p.table_counters(V).unwrap(), views, ports, group, queues)
        })
        .unwrap();
    assert_eq!(tallies.len(), 40);
    assert!(tallies.iter().all(|(_, t)| t.frames == 100));
    assert_eq!((tables[0].lookups, tables[0].matched), (4000, 4000));
    assert!(views.len() == 40 && views.iter().all(|r| r.hits.frames == 100));
    assert_eq!((ports[0].1.rx.frames, ports[1].1.tx.frames), (4000, 4000));
    assert_eq!((group.counted.frames, group.buckets[0].frames), (4000, 4000));
    assert_eq!(queues.iter().map(|q| q.sent.frames).sum::<u64>(), 4000);
    // Who takes a rule out is told everything that it was used for.
    let (at, rule) = (rules[3], rule_of(&format!("{},actions=drop", flow_matches(3))));
    let last = a.h.call(move |p| p.take_rule(V, at, &rule.matcher, rule.priority));
    assert_eq!(last.unwrap().unwrap().frames, 100);
    assert_eq!(a.snapshot().vdps[1].rules, 39);
    let each = a.crew.handle().snapshot().unwrap().workers;
    assert!(each.iter().all(|w| w.vdps[1].rules == 39));
    a.stop();
}

/// The rule that a frame meets is the one that was there, or the one before, when it was sent: never one of before that.
#[test]
fn what_is_answered_holds_for_every_frame_that_follows() {
    let (source, to) = fed();
    let (left, right) = (sink("left"), sink("right"));
    let a = Asked::with(2, vec![source, left.0, right.0]);
    for n in 0..300u64 {
        a.rule(&format!("actions=output:{}", 2 + n % 2));
        // Flows of both workers.
        (0..8).for_each(|f| to.send(frame(0, 1, f, n)).unwrap());
        a.until(|s| s.vdps[1].counters.forwarded.frames == 8 * (n + 1));
    }
    for (kept, odd) in [(left.1, 0), (right.1, 1)] {
        until(|| kept.len() == 1200);
        let all = kept.take();
        assert!(all.iter().all(|f| read_seq(&f.bytes).1 % 2 == odd));
    }
    a.stop();
}

#[test]
fn a_packet_out_leaves_once_and_a_punt_and_a_copy_come_once() {
    #[derive(Clone, Default)]
    struct Keep(Arc<Mutex<Vec<Vec<u8>>>>);
    impl PuntSink for Keep {
        fn punt(&mut self, p: Punted<'_>) {
            self.0.lock().unwrap().push(p.frame.to_vec());
        }
        fn another(&self) -> Option<Box<dyn PuntSink>> {
            Some(Box::new(self.clone()))
        }
    }
    struct Alone;
    impl PuntSink for Alone {
        fn punt(&mut self, _: Punted<'_>) {}
    }
    let (source, to) = fed();
    let (wire, kept) = sink("out");
    let a = Asked::with(2, vec![source, wire]);
    let told = a.h.call(|p| p.set_punt_sink(V, Some(Box::new(Alone)))).unwrap().unwrap_err();
    assert!(matches!(told, ControlError::OneWorker { workers: 2, .. }), "{told}");
    let keep = Keep::default();
    let sink = keep.clone();
    a.h.call(move |p| p.set_punt_sink(V, Some(Box::new(sink)))).unwrap().unwrap();
    let point = TapPoint { vid: Some(V), stage: Some(Stage::Mapping), ..TapPoint::default() };
    let (tap, copies) = a.h.call(move |p| p.add_tap(point, Match::any(), 1000)).unwrap();
    a.rule("actions=controller");
    for n in 0..200u64 {
        to.send(frame(0, 1, (n % 20) as u32, n)).unwrap();
    }
    until(|| keep.0.lock().unwrap().len() >= 200);
    let sent = a.h.call(|p| {
        let bytes = frame(0, 1, 1, 1);
        let actions = [out(2)];
        let one = || PacketOut { in_port: PortIn::None, frame: &bytes, actions: &actions };
        let bad = PacketOut { frame: &[1, 2], ..one() };
        p.packet_outs(V, [one(), bad, one()])
    });
    let refused = sent.unwrap();
    assert!(matches!(&refused[..], [(1, ControlError::Size { .. })]), "{refused:?}");
    a.until(|s| s.ports[1].counters.tx.frames == 2);
    until(|| kept.len() == 2);
    assert_eq!((kept.take().len(), keep.0.lock().unwrap().len()), (2, 200));
    assert_eq!(copies.try_iter().count(), 200);
    assert_eq!(a.h.call(move |p| p.remove_tap(tap)).unwrap(), Some(0));
    assert!(copies.recv().is_err(), "somebody still holds the capture's queue");
    a.stop();
}

/// A worker that stands still keeps who asks waiting, and nobody's frames but its own.
#[test]
fn who_asks_waits_for_a_worker_that_stands_still_and_no_others_frames_do() {
    let (source, to) = fed();
    let (wire, kept) = sink("out");
    let a = Asked::new(2);
    a.port(1, source, 0);
    a.port(2, wire, 0);
    a.vdp(V);
    a.rule("actions=output:2");
    let port = a.crew.handle().spreads()[0].clone();
    let is_first = |f: &u32| port.owner(flow::bucket(&frame(0, 1, *f, 0))) == Some(0);
    let flows: Vec<u32> = (0..100).filter(is_first).take(10).collect();
    assert_eq!(flows.len(), 10);
    let (let_go, stays) = channel::<()>();
    let (began, stands) = channel();
    let still = move |_: &mut DataPlane| {
        began.send(()).unwrap();
        let _ = stays.recv();
    };
    a.crew.handle().worker(1).unwrap().post(still).unwrap();
    stands.recv().unwrap();
    thread::scope(|s| {
        let changed = s.spawn(|| a.rule("priority=9,arp,actions=drop"));
        let read = s.spawn(|| a.snapshot());
        for n in 0..1000 {
            to.send(frame(0, 1, flows[n % 10], n as u64)).unwrap();
        }
        until(|| kept.len() == 1000);
        assert!(!changed.is_finished() && !read.is_finished());
        let_go.send(()).unwrap();
        changed.join().unwrap();
        // Each worker's part is of when it was asked.
        read.join().unwrap();
    });
    assert_eq!(a.snapshot().ports[1].counters.tx.frames, 1000);
    a.stop();
}

/// Ports and VDPs come, go and come again while frames flow; links are told once.
#[test]
fn ports_and_vdps_come_and_go_under_load() {
    let source = Box::new(Sequencer::new(0, 40, u64::MAX));
    let (checker, _) = Checker::new(40);
    let a = Asked::with(3, vec![source, Box::new(checker)]);
    a.rule("actions=output:2");
    let (to, events) = channel();
    a.h.call(move |p| p.subscribe_ports(Vid(0), to)).unwrap();
    let mut counted = 0;
    for n in 0..30u64 {
        let (checker, _) = Checker::new(40);
        let port = a.port(3 + n as usize, Box::new(checker), n as usize % 3);
        a.h.call(move |p| {
            let mut ports = p.vdp_view(V).unwrap().ports;
            ports.push((PortNo(3), port));
            p.set_ports(V, ports)
        })
        .unwrap()
        .unwrap();
        a.rule("actions=output:2,output:3");
        let before = a.snapshot().ports.iter().find(|p| p.id == port).unwrap().counters.tx.frames;
        a.until(|s| {
            let now = s.ports.iter().find(|p| p.id == port).unwrap();
            now.counters.tx.frames > before + 1000
        });
        a.rule("actions=output:2");
        let gone = a.h.call(move |p| p.remove_port(port)).unwrap().unwrap();
        assert!(gone.tx.frames > 1000);
        counted += gone.tx.frames;
        let s = a.snapshot();
        assert_eq!(s.ports.iter().find(|p| p.id == PortId(0)).unwrap().counters.tx.frames, counted);
        // The VDP with everything that it has, by the same number.
        a.h.call(|p| p.delete_vdp(V)).unwrap().unwrap();
        until(|| match a.h.call(|p| p.create_vdp(Asked::spec(V, p))).unwrap() {
            Ok(()) => true,
            Err(ControlError::VdpExists(_)) => false,
            Err(e) => panic!("{e}"),
        });
        a.rule("actions=output:2");
    }
    let changes: Vec<PortChange> = events.try_iter().map(|e| e.change).collect();
    assert_eq!(changes, [PortChange::Added, PortChange::Removed].repeat(30));
    assert_eq!(a.crew.fault(), None);
    a.stop();
}

/// A desk answers as a data plane alone does, whatever is asked of it, and its workers have what it has.
#[test]
fn a_desk_answers_as_one_data_plane() {
    let a = Asked::with(2, vec![sink("one").0, sink("two").0]);
    let mut alone = DataPlane::new(Config { frames: 2048, ..Config::default() }).unwrap();
    for n in 1..3 {
        alone.add_port(&format!("p{n}"), sink("x").0).unwrap();
    }
    alone.create_vdp(Asked::spec(V, &alone)).unwrap();
    type Op = Arc<dyn Fn(&mut DataPlane) -> String + Send + Sync>;
    fn said<T: std::fmt::Debug>(r: Result<T, ControlError>) -> String {
        r.map_or_else(|e| e.to_string(), |t| format!("{t:?}"))
    }
    let mut n = 7u64;
    let mut random = move |below: u64| {
        n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (n >> 33) % below
    };
    for _ in 0..3000 {
        let (x, y) = (random(60), 1 + random(4));
        let vid = Vid(1 + random(2) as u16);
        let text = format!("priority={},ip,nw_src=10.0.0.{x},actions=output:{y}", 5 + y);
        let spec = parse_flows(&text, &NoNames).unwrap()[0].clone();
        let spec = RuleSpec {
            matcher: spec.matcher,
            priority: spec.priority.into(),
            cookie: x,
            actions: spec.actions.into(),
        };
        let mapping = MappingRule {
            matcher: Match::any().with(Field::EthType, 0x800 + u128::from(y)),
            priority: 3,
        };
        let bucket = vec![Bucket::new(vec![out(y as u32)])];
        let group = Group::new(GroupKind::Indirect, bucket).unwrap();
        let op: Op = match random(14) {
            0..5 => {
                Arc::new(move |p| said(p.place_rule(vid, (y % 2) as u8, &spec, Placement::Fast)))
            }
            5 | 6 => Arc::new(move |p| {
                said(p.remove_rule(vid, (y % 2) as u8, &spec.matcher, spec.priority))
            }),
            7 => Arc::new(move |p| said(p.reset_rule(vid, 0, &spec.matcher, spec.priority))),
            8 => Arc::new(move |p| said(p.put_group(vid, x as u32 % 5, group.clone()))),
            9 => Arc::new(move |p| said(p.remove_group(vid, x as u32 % 5))),
            10 => Arc::new(move |p| said(p.add_mapping(vid, &mapping))),
            11 => Arc::new(move |p| said(p.remove_mapping(vid, &mapping))),
            12 if x < 4 => Arc::new(move |p| {
                let rules = p.vdp_view(vid).map_or(0, |v| v.rules);
                format!("{:?}", p.take_table(vid, 0, rules).map(|t| t.len()))
            }),
            12 => Arc::new(move |p| said(p.set_name(vid, &format!("n{x}")))),
            _ => Arc::new(move |p| said(p.set_default(vid, &[out(y as u32)]))),
        };
        let there = Arc::clone(&op);
        assert_eq!(a.h.call(move |p| there(p)).unwrap(), op(&mut alone));
    }
    let state = |p: &mut DataPlane| {
        let i = p.installed(V).unwrap();
        // In which order a table names its rules is its own affair.
        let mut all: Vec<String> = i.rules.iter().map(|r| format!("{r:?}")).collect();
        all.extend(p.mapping_rules().iter().map(|m| format!("{m:?}")));
        all.sort();
        all.push(format!("{} {:?} {:?}", i.name, i.default, i.groups));
        all
    };
    let here = state(&mut alone);
    assert!(here.len() >= 60, "{} rules are no trial", here.len());
    assert!(a.h.call(state).unwrap() == here, "the desk differs");
    assert!(a.crew.handle().read(state).unwrap().iter().all(|s| *s == here));
    a.stop();
}

#[test]
fn a_worker_that_differs_ends_all_answers_and_says_why() {
    let a = Asked::with(2, vec![sink("one").0, sink("two").0]);
    a.rule("priority=3,actions=output:2");
    let rule = rule_of("priority=3,actions=drop");
    let (there, again) = (rule.clone(), rule);
    let behind = a.crew.handle().worker(1).unwrap().clone();
    behind.call(move |p| p.remove_rule(V, 0, &there.matcher, there.priority)).unwrap().unwrap();
    assert_eq!(a.crew.fault(), None);
    assert!(a.h.call(move |p| p.remove_rule(V, 0, &again.matcher, again.priority)).is_err());
    assert!(a.h.call(|p| p.now()).is_err());
    let why = a.crew.fault().unwrap();
    assert!(why.contains("worker 1") && why.contains("a defect of weir"), "{why}");
}

/// What changes a data plane and is not made everywhere, nor read from everywhere, nor refused, has a reason here.
#[test]
fn every_method_of_control_says_what_a_desk_does_with_it() {
    let known = [
        // By one that does.
        "add_port",
        "add_rule",
        "place_rule",
        "withhold",
        // Where there are several workers no VDP is away.
        "hold_for_return",
        "bring_back",
        "leave_away",
        "end_away",
        "clear_away",
        "replace_partner",
        "hand_on_anew",
        "add_gauge",
        // The desk's own: its frames, its slices, its servers, who is told of its ports.
        "pool_mut",
        "tcam_mut",
        "take_server",
        "put_server",
        "check_links",
        "subscribe_links",
        "subscribe_ports",
    ];
    let says = ["self.desk", "takes_one_worker(", "refuse_"];
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/control");
    let (mut seen, mut mute) = (0, Vec::new());
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let own = text.split("\nimpl ").filter(|part| part.starts_with("DataPlane {"));
        for method in own.flat_map(|part| part.split("\n    pub fn ").skip(1)) {
            let body = method.split("\n    }\n").next().unwrap();
            let (head, _) = body.split_once('{').unwrap();
            let name = head.split(['(', '<']).next().unwrap();
            if !head.contains("&mut self") {
                continue;
            }
            seen += 1;
            if !known.contains(&name) && !says.iter().any(|s| body.contains(s)) {
                mute.push(name.to_owned());
            }
        }
    }
    assert!(seen > 50, "{seen} methods are not all");
    assert_eq!(mute, Vec::<String>::new(), "say what a desk does");
}

/// A port that takes nothing until it is opened.
pub struct Gate(pub Arc<AtomicBool>);

impl Device for Gate {
    fn name(&self) -> &str {
        "gate"
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
        if !self.0.load(Ordering::SeqCst) {
            return 0;
        }
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

/// A deleted VDP is there until its last frame has gone: when the snapshot no longer has it, its number is free.
#[test]
fn a_number_that_no_snapshot_has_is_free() {
    let a = Asked::new(2);
    let open = Arc::new(AtomicBool::new(false));
    let port = a.port(1, Box::new(Gate(Arc::clone(&open))), 0);
    let v = Vid(6);
    let spec = move || {
        let mut s = VdpSpec::new(v, "comes and goes");
        s.ports = vec![(PortNo(1), port)];
        s.default = vec![Action::Drop];
        s
    };
    for n in 0..300 {
        open.store(false, Ordering::SeqCst);
        let made = a.h.call(move |p| p.create_vdp(spec())).unwrap();
        made.unwrap_or_else(|e| panic!("round {n}: {e}"));
        let send = move |p: &mut DataPlane| {
            let of =
                PacketOut { in_port: PortIn::None, frame: &frame(0, 1, 1, n), actions: &[out(1)] };
            p.packet_out(v, of)
        };
        a.h.call(send).unwrap().unwrap();
        a.h.call(move |p| p.delete_vdp(v)).unwrap().unwrap();
        thread::scope(|s| {
            s.spawn(|| {
                thread::sleep(Duration::from_micros(200 + n % 1000));
                open.store(true, Ordering::SeqCst);
            });
            while a.h.call(move |p| p.snapshot().vdps.iter().any(|s| s.vid == v)).unwrap() {}
        });
    }
    a.stop();
}

/// Who asks for ports or phases alone is told what a snapshot says.
#[test]
fn ports_and_phases_alone_are_as_in_a_snapshot() {
    for workers in [1, 2] {
        let a = Asked::new(workers);
        let gate = || Box::new(Gate(Arc::new(AtomicBool::new(true))));
        let gone = a.port(1, gate(), 0);
        a.port(2, gate(), workers - 1);
        a.h.call(move |p| p.remove_port(gone)).unwrap().unwrap();
        for vid in [V, Vid(2)] {
            let made = move |p: &mut DataPlane| {
                p.create_vdp(VdpSpec { mapping: Vec::new(), ..Asked::spec(vid, p) })
            };
            a.h.call(made).unwrap().unwrap();
        }
        let all = |p: &mut DataPlane| (p.snapshot(), p.port_views(), p.phases());
        let (s, ports, phases) = a.h.call(all).unwrap();
        assert_eq!(format!("{ports:?}"), format!("{:?}", s.ports));
        assert_eq!(ports.len(), 2, "what is there, and the sum of what is not");
        let of: Vec<(Vid, Phase)> = s.vdps.iter().map(|v| (v.vid, v.phase)).collect();
        assert_eq!(phases, of);
        let paths = [Path::Slow, Path::Fast, Path::Fast].map(Phase::On);
        assert_eq!(phases.iter().map(|(_, p)| *p).collect::<Vec<_>>(), paths);
        a.stop();
    }
}
