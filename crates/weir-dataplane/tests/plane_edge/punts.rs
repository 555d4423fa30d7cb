//! Frames for the controllers, for NORMAL and for LOCAL: who gets them, in which order, and what a
//! flood of them costs others.

use super::plane_common::*;
use super::rig::*;
use std::sync::{Arc, Mutex};
use weir_classify::{Field, Match};
use weir_dataplane::*;
use weir_packet::{DropReason, Frame, Nanos};

/// What a sink was told, its frame copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub in_port: PortNo,
    pub reason: PuntReason,
    pub table: u8,
    pub cookie: u64,
    pub max_len: u16,
    pub frame: Vec<u8>,
}

/// A sink that keeps everything.
#[derive(Default)]
pub struct Keep(pub Arc<Mutex<Vec<Told>>>);

impl PuntSink for Keep {
    fn punt(&mut self, p: Punted<'_>) {
        let Punted { in_port, reason, table, cookie, max_len, frame, .. } = p;
        let frame = frame.to_vec();
        self.0.lock().unwrap().push(Told { in_port, reason, table, cookie, max_len, frame });
    }
}

impl Rig {
    pub fn sink(&mut self, vid: Vid) -> Arc<Mutex<Vec<Told>>> {
        let k = Keep::default();
        let told = Arc::clone(&k.0);
        self.p.set_punt_sink(vid, Some(Box::new(k))).unwrap();
        told
    }
}

fn ctl(max_len: u16) -> Action {
    Action::Output(Out::Controller(max_len))
}

fn with_cookie(matcher: Match, priority: u32, cookie: u64, actions: &[Action]) -> RuleSpec {
    RuleSpec { cookie, ..rule(matcher, priority, actions) }
}

#[test]
fn a_sink_is_told_the_frame_and_why_it_comes() {
    for path in [Path::Fast, Path::Slow] {
        let mut r = Rig::new(2);
        let one = r.vdp(1);
        let told = r.sink(one);
        r.p.set_default(one, &[ctl(128)]).unwrap();
        let tcp = Match::any().with(Field::EthType, 0x800).with(Field::IpProto, 6);
        r.p.add_rule(one, 0, &with_cookie(tcp, 7, 0xc0, &[ctl(9)]), Placement::Fast).unwrap();
        r.p.migrate(one, path).unwrap();
        r.settle();
        let missed = frame(1, 1, 3, 4);
        let mut hit = missed.clone();
        hit[18 + 9] = 6;
        r.send(1, &missed);
        r.send(0, &hit);
        r.settle();
        let told = told.lock().unwrap();
        let of = |p: usize, reason, cookie, max_len, frame: &Vec<u8>| Told {
            in_port: no(p),
            reason,
            table: 0,
            cookie,
            max_len,
            frame: frame.clone(),
        };
        let expected = [
            of(0, PuntReason::Action, 0xc0, 9, &hit),
            of(1, PuntReason::NoMatch, u64::MAX, 128, &missed),
        ];
        assert_eq!(told.len(), 2, "{path:?}");
        expected.iter().for_each(|e| assert!(told.contains(e), "{e:?} in {told:?}"));
        let c = r.view(one).counters;
        assert_eq!((c.consumed, c.dropped.total()), (2, 0));
    }
}

#[test]
fn without_a_sink_frames_end_as_consumed() {
    let mut r = Rig::new(1);
    let one = r.vdp(1);
    r.all(one, &[ctl(0)]);
    let told = r.sink(one);
    r.through(0, 1);
    r.p.set_punt_sink(one, None).unwrap();
    r.through(0, 1);
    assert_eq!((told.lock().unwrap().len(), r.view(one).counters.consumed), (1, 2));
}

#[test]
fn normal_local_and_controller_each_get_their_frame() {
    /// Counts what comes and ends it.
    struct Count(Arc<Mutex<Vec<Punt>>>);
    impl Program for Count {
        fn name(&self) -> &'static str {
            "count"
        }
        fn frame(&mut self, rx: SlowFrame, cx: &mut ProgramCx<'_>) {
            self.0.lock().unwrap().push(rx.why);
            cx.consume(rx.frame);
        }
    }
    let to = Action::Output;
    for path in [Path::Fast, Path::Slow] {
        let mut r = Rig::new(3);
        let one = r.vdp(1);
        let told = r.sink(one);
        r.all(one, &[to(Out::Normal), ctl(7)]);
        r.p.migrate(one, path).unwrap();
        r.settle();
        assert_eq!(r.through(0, 1), [0, 1, 1], "NORMAL floods what it has not learnt, {path:?}");
        assert_eq!(told.lock().unwrap().len(), 1);
        // The other way round, the frame itself goes to the program.
        r.all(one, &[ctl(7), to(Out::Normal)]);
        assert_eq!(r.through(0, 1), [0, 1, 1]);
        assert_eq!(told.lock().unwrap().len(), 2);
        // LOCAL, without and with a stack.
        r.all(one, &[ctl(7), to(Out::Local)]);
        r.through(0, 1);
        assert_eq!(r.view(one).counters.dropped.get(DropReason::NoSuchPort), 1);
        let seen = Arc::new(Mutex::new(Vec::new()));
        r.p.set_local_program(one, Some(Box::new(Count(Arc::clone(&seen))))).unwrap();
        r.through(0, 1);
        assert_eq!(*seen.lock().unwrap(), [Punt::Local]);
        assert_eq!(told.lock().unwrap().len(), 4);
        r.all(one, &[to(Out::Local), by(2)]);
        assert_eq!(r.through(0, 1), [0, 0, 1]);
        assert_eq!(seen.lock().unwrap().len(), 2);
        assert_eq!(r.view(one).counters.dropped.total(), 1, "{path:?}");
    }
}

#[test]
fn a_program_is_asked_about_all_of_a_batch_before_its_frames() {
    /// Notes what it is asked, and sends frames nowhere.
    struct Notes(Ahead, Arc<Mutex<Vec<(&'static str, u16)>>>);
    impl Notes {
        fn note(&self, what: &'static str, in_port: PortNo) {
            self.1.lock().unwrap().push((what, in_port.0 as u16));
        }
    }
    impl Program for Notes {
        fn name(&self) -> &'static str {
            "notes"
        }
        fn expect(&self, _: &Frame, in_port: PortNo) -> Ahead {
            self.note("expect", in_port);
            self.0
        }
        fn expect_further(&self, _: &Frame, in_port: PortNo) {
            self.note("further", in_port);
        }
        fn frame(&mut self, rx: SlowFrame, cx: &mut ProgramCx<'_>) {
            self.note("frame", rx.in_port);
            cx.consume(rx.frame);
        }
    }
    // Frames of the one say that there is more, those of the other that there is not.
    let mut r = Rig::new(2);
    let [one, other] = [r.vdp(1), r.vdp(2)];
    let notes: [Arc<Mutex<Vec<_>>>; 2] = Default::default();
    for ((vid, ahead), notes) in
        [(one, Ahead::Further), (other, Ahead::All)].into_iter().zip(&notes)
    {
        r.p.set_program(vid, Some(Box::new(Notes(ahead, Arc::clone(notes))))).unwrap();
        r.all(vid, &[Action::ToChannel]);
    }
    r.settle();
    for vlan in [1, 2, 1, 2, 1] {
        r.send(0, &frame(vlan, 1, 0, 0));
    }
    r.settle();
    let of = |steps: &[&'static str], n| -> Vec<_> {
        steps.iter().flat_map(|s| vec![(*s, no(0).0 as u16); n]).collect()
    };
    assert_eq!(*notes[0].lock().unwrap(), of(&["expect", "further", "frame"], 3));
    assert_eq!(*notes[1].lock().unwrap(), of(&["expect", "frame"], 2));
    // What goes to the controllers is not the program's.
    r.all(one, &[ctl(0)]);
    r.through(0, 1);
    assert_eq!(notes[0].lock().unwrap().len(), 9);
}

#[test]
fn a_port_without_packet_ins_is_quiet_about_misses_only() {
    for path in [Path::Fast, Path::Slow] {
        let mut r = Rig::new(2);
        let one = r.vdp(1);
        let told = r.sink(one);
        r.p.set_default(one, &[ctl(0)]).unwrap();
        let dst = Match::any().with(Field::EthDst, 0x0200_0000_0002);
        r.p.add_rule(one, 0, &rule(dst, 5, &[ctl(0)]), Placement::Fast).unwrap();
        r.p.migrate(one, path).unwrap();
        r.p.set_port_config(one, no(0), PortFlags::NO_PACKET_IN).unwrap();
        r.settle();
        for (port, dst) in [(0, 1), (1, 1), (0, 2)] {
            r.send(port, &frame(1, dst, 0, 0));
            r.settle();
        }
        let told: Vec<_> = told.lock().unwrap().iter().map(|t| (t.in_port, t.reason)).collect();
        assert_eq!(told, [(no(1), PuntReason::NoMatch), (no(0), PuntReason::Action)], "{path:?}");
        assert_eq!(r.view(one).counters.dropped.get(DropReason::PortConfig), 1);
    }
}

/// A data plane where VDP 1 gets more packet-ins than its channel can carry, by several ports, and
/// VDP 2 a frame a round; what each sink saw of how many.
fn flood(flooders: u16, rounds: u64) -> (DataPlane, Vec<(u64, Vec<u64>)>) {
    let mut p = DataPlane::new(Config::default()).unwrap();
    let mut add = |vlan: u16, i: usize, n: usize| {
        let s = Sequencer::new(vlan, 1, u64::MAX).overflowing(n);
        p.add_port(&format!("in{vlan}-{i}"), Box::new(s)).unwrap()
    };
    // Three bursts a round in all; a server takes one.
    let flood: Vec<_> = (0..3 * usize::from(flooders))
        .map(|i| add(1 + i as u16 % flooders, i, 64 / usize::from(flooders)))
        .collect();
    let quiet = add(flooders + 1, 0, 1);
    let mut sinks = Vec::new();
    for vid in 1..=flooders + 1 {
        let mut s = VdpSpec::new(Vid(vid), &format!("v{vid}"));
        let ports = if vid <= flooders { &flood } else { &vec![quiet] };
        s.ports = ports.iter().map(|id| (PortNo(id.0.into()), *id)).collect();
        s.mapping = vec![by_vlan(vid)];
        s.default = vec![ctl(0)];
        p.create_vdp(s).unwrap();
        let k = Keep::default();
        sinks.push(Arc::clone(&k.0));
        p.set_punt_sink(Vid(vid), Some(Box::new(k))).unwrap();
    }
    for n in 1..=rounds {
        p.poll(Nanos(n * 1000));
        if n % 64 == 0 {
            p.snapshot().check().unwrap();
        }
    }
    let seen =
        sinks.iter().map(|s| s.lock().unwrap().iter().map(|t| read_seq(&t.frame).1).collect());
    let seen: Vec<Vec<u64>> = seen.collect();
    let of = |vid: u16| {
        p.snapshot().vdps.iter().find(|v| v.vid == Vid(vid)).unwrap().counters.received.frames
    };
    let all = (1..=flooders + 1).map(of).zip(seen).collect();
    (p, all)
}

#[test]
fn a_flood_of_packet_ins_costs_no_other_vdp_any() {
    for flooders in [1, 4, 32] {
        let (mut p, all) = flood(flooders, 2000);
        let (quiet, flooding) = all.split_last().unwrap();
        let mut clock = 1 << 40;
        let s = p.snapshot();
        let v = |vid: u16| s.vdps.iter().find(|v| v.vid == Vid(vid)).unwrap();
        assert_eq!(v(flooders + 1).counters.dropped.total(), 0, "beside {flooders}");
        assert_eq!(quiet.0, 2000);
        assert!(quiet.1.len() >= 1900, "{} of 2000 have arrived", quiet.1.len());
        assert!(quiet.1.iter().copied().eq(0..quiet.1.len() as u64), "all, in order");
        for (i, (came, seen)) in flooding.iter().enumerate() {
            let c = &v(i as u16 + 1).counters;
            assert_eq!(c.received.frames, *came);
            assert_eq!(c.consumed, seen.len() as u64);
            assert_eq!(c.dropped.get(DropReason::ChannelFull), c.dropped.total());
            assert!(c.dropped.total() > 0, "a flood of {came} is more than a channel carries");
            // Each flooder has about the same part.
            let part = 2000 * 64 / u64::from(flooders);
            assert!(seen.len() as u64 > part / 2, "{} of {part}", seen.len());
        }
        for id in s.ports.iter().map(|p| p.id).collect::<Vec<_>>() {
            p.remove_port(id).unwrap();
        }
        settle(&mut p, &mut clock);
        assert_eq!(p.snapshot().frames.held, 0);
    }
}

#[test]
fn packet_ins_of_a_flow_keep_their_order_while_the_vdp_migrates() {
    let mut p = DataPlane::new(Config::default()).unwrap();
    let i = p.add_port("in", Box::new(Sequencer::new(5, 1, 20_000).overflowing(40))).unwrap();
    let o = i_out(&mut p);
    p.create_vdp(vlan_vdp(1, 5, i, o)).unwrap();
    let any = rule(Match::any(), 1, &[ctl(0)]);
    p.add_rule(Vid(1), 0, &any, Placement::Fast).unwrap();
    let k = Keep::default();
    let told = Arc::clone(&k.0);
    p.set_punt_sink(Vid(1), Some(Box::new(k))).unwrap();
    let mut clock = 0;
    for n in 0..600u64 {
        clock += 5000;
        p.poll(Nanos(clock));
        if n % 7 == 0
            && let Phase::On(at) = p.phase(Vid(1)).unwrap()
        {
            p.migrate(Vid(1), if at == Path::Fast { Path::Slow } else { Path::Fast }).unwrap();
        }
    }
    settle(&mut p, &mut clock);
    let seqs: Vec<u64> = told.lock().unwrap().iter().map(|t| read_seq(&t.frame).1).collect();
    assert_eq!(seqs.len(), 20_000);
    assert!(seqs.iter().copied().eq(0..20_000));
    assert!(p.snapshot().vdps[1].migration.completed > 10);
}

fn i_out(p: &mut DataPlane) -> weir_packet::PortId {
    p.add_port("out", Box::new(Checker::new(1).0)).unwrap()
}
