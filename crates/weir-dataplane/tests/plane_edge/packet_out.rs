//! Packet-outs: to every port there is, refused, counted, in order, fast.

use super::plane_common::*;
use super::rig::*;
use std::time::Instant;
use weir_classify::{Field, Match};
use weir_dataplane::*;
use weir_packet::{DropReason, Nanos};

impl Rig {
    fn out(&mut self, vid: Vid, in_port: PortIn, actions: &[Action]) -> Result<(), ControlError> {
        let f = frame(vid.0, 1, 0, 0);
        let sent = self.p.packet_out(vid, PacketOut { in_port, frame: &f, actions });
        self.p.snapshot().check().unwrap();
        sent
    }
}

fn to(out: Out) -> Action {
    Action::Output(out)
}

fn from(port: usize) -> PortIn {
    PortIn::Port(no(port))
}

#[test]
fn a_packet_out_reaches_every_reserved_port() {
    use Out::*;
    for path in [Path::Fast, Path::Slow] {
        let mut r = Rig::new(4);
        let one = r.vdp(1);
        let told = r.sink(one);
        r.all(one, &[by(3)]);
        r.p.set_port_config(one, no(2), PortFlags::NO_FLOOD).unwrap();
        r.p.migrate(one, path).unwrap();
        r.settle();
        let cases: &[(PortIn, &[Action], [usize; 4])] = &[
            (PortIn::Controller, &[by(1)], [0, 1, 0, 0]),
            (PortIn::None, &[by(1), by(2)], [0, 1, 1, 0]),
            (PortIn::Controller, &[to(All)], [1, 1, 1, 1]),
            (from(1), &[to(All)], [1, 0, 1, 1]),
            (PortIn::Controller, &[to(Flood)], [1, 1, 0, 1]),
            (from(0), &[to(Flood)], [0, 1, 0, 1]),
            (from(1), &[to(InPort)], [0, 1, 0, 0]),
            (from(1), &[by(1)], [0, 0, 0, 0]),
            (PortIn::Controller, &[to(Table)], [0, 0, 0, 1]),
            (from(0), &[to(Table), by(1)], [0, 1, 0, 1]),
            // A learning switch with nothing learnt floods.
            (from(0), &[to(Normal)], [0, 1, 0, 1]),
            (from(0), &[to(Controller(20)), by(1)], [0, 1, 0, 0]),
            (from(0), &[to(Local)], [0, 0, 0, 0]),
            (from(0), &[], [0, 0, 0, 0]),
        ];
        for (in_port, actions, expected) in cases {
            r.out(one, *in_port, actions).unwrap();
            r.settle();
            assert_eq!(r.counts(), expected, "{in_port:?} {actions:?} {path:?}");
        }
        let told = told.lock().unwrap();
        assert_eq!(told.len(), 1);
        let t = &told[0];
        assert_eq!((t.in_port, t.reason, t.max_len), (no(0), PuntReason::Action, 20));
        assert_eq!(t.frame, frame(1, 1, 0, 0));
        let c = r.view(one).counters;
        assert_eq!((c.generated, c.received.frames), (cases.len() as u64, 0));
    }
}

#[test]
fn the_tables_see_where_a_packet_out_came_in() {
    for path in [Path::Fast, Path::Slow] {
        let mut r = Rig::new(4);
        let one = r.vdp(1);
        for (from, port) in [(11u32, 1), (0xffff_fffd, 2), (0xffff_fffe, 3)] {
            let m = Match::any().with(Field::InPort, from.into());
            r.p.add_rule(one, 0, &rule(m, 1, &[by(port)]), Placement::Fast).unwrap();
        }
        r.p.migrate(one, path).unwrap();
        r.settle();
        for (in_port, port) in
            [(from(0), 1), (PortIn::Controller, 2), (PortIn::Port(PortNo(0xffff_fffe)), 3)]
        {
            r.out(one, in_port, &[to(Out::Table)]).unwrap();
            r.settle();
            let mut expected = [0; 4];
            expected[port] = 1;
            assert_eq!(r.counts(), expected, "{in_port:?} {path:?}");
        }
    }
}

#[test]
fn what_can_t_be_sent_is_refused_and_nothing_of_it_happens() {
    let mut r = Rig::with(2, Config { frames: 1024, ..Config::default() });
    let one = r.vdp(1);
    let f = frame(1, 1, 0, 0);
    let mut refused = |in_port, frame: &[u8], actions: &[Action], word: &str| {
        let e = r.p.packet_out(one, PacketOut { in_port, frame, actions }).unwrap_err();
        assert!(e.to_string().contains(word), "{e}");
        r.p.snapshot().check().unwrap();
        assert_eq!(r.view(one).counters.generated, 0);
    };
    let c = PortIn::Controller;
    refused(PortIn::Port(PortNo(99)), &f, &[by(0)], "no port 99");
    refused(c, &f, &[to(Out::Port(PortNo(99)))], "no port 99");
    refused(c, &f, &[Action::Group(5)], "no group 5");
    refused(c, &f, &[by(0), Action::Meter(6)], "no meter 6");
    refused(c, &f, &[Action::Goto(1)], "goto");
    refused(c, &f[..13], &[by(0)], "Ethernet header");
    refused(c, &vec![0; 5000], &[by(0)], "raise chunk_bytes");
    // Too many for the channel: it takes its part, the others end there.
    let normal = [to(Out::Normal)];
    let outs = vec![PacketOut { in_port: c, frame: &f, actions: &normal }; 2000];
    assert!(r.p.packet_outs(one, outs).is_empty());
    r.p.snapshot().check().unwrap();
    let c = r.view(one).counters;
    assert_eq!(c.generated, 2000);
    assert!(c.dropped.get(DropReason::ChannelFull) > 0, "{c:?}");
    r.settle();
    assert_eq!(r.p.snapshot().frames.held, 0);
}

#[test]
fn packet_outs_leave_frames_for_others() {
    // A wire that takes nothing: everything queues, and the queue is long.
    let mut p = DataPlane::new(Config { frames: 1024, ..Config::default() }).unwrap();
    let i = p.add_port("in", Box::new(Sequencer::new(20, 1, 100).overflowing(64))).unwrap();
    let stuck = p.add_port("stuck", Box::new(SlowWire::new(0).0)).unwrap();
    let (sink, seen) = Checker::new(1);
    let o = p.add_port("out", Box::new(sink)).unwrap();
    p.create_vdp(vlan_vdp(20, 20, i, o)).unwrap();
    p.add_rule(Vid(20), 0, &rule(Match::any(), 1, &[out(2)]), Placement::Fast).unwrap();
    let f = frame(1, 1, 0, 0);
    let one = PacketOut { in_port: PortIn::Controller, frame: &f, actions: &[out(2)] };
    let mut free = 1024;
    for vid in 1..=12 {
        p.create_vdp(vlan_vdp(vid, vid, i, stuck)).unwrap();
        assert!(p.packet_outs(Vid(vid), vec![one; 5000]).is_empty());
        p.snapshot().check().unwrap();
        let v = p.snapshot().vdps.into_iter().find(|v| v.vid == Vid(vid)).unwrap();
        assert_eq!(v.counters.generated, 5000);
        // A VDP lets as many wait as it leaves, but for a quarter that nobody may and a burst.
        let left = p.snapshot().frames.free;
        let waits = free - left;
        assert!((waits + 256).abs_diff(left) <= 64, "{vid}: {left} of {free}");
        assert_eq!(v.counters.dropped.get(DropReason::QueueFull), 5000 - waits as u64);
        free = left;
    }
    settle(&mut p, &mut 0);
    assert_eq!(seen.lock().unwrap().frames, 100);
}

#[test]
fn packet_outs_that_find_no_frame_came_into_being() {
    // Fewer frames than a burst has.
    let mut p = DataPlane::new(Config { frames: 32, ..Config::default() }).unwrap();
    let i = p.add_port("in", Box::new(Sequencer::new(2, 1, 0))).unwrap();
    let o = p.add_port("out", Box::new(SlowWire::new(100).0)).unwrap();
    p.create_vdp(vlan_vdp(1, 1, i, o)).unwrap();
    let f = frame(1, 1, 0, 0);
    let one = PacketOut { in_port: PortIn::Controller, frame: &f, actions: &[out(2)] };
    let refused = p.packet_outs(Vid(1), vec![one; 64]);
    // The last sixteenth is for reception.
    assert_eq!((refused.len(), refused[0].0), (64 - 30, 30));
    assert!(refused.iter().all(|(_, e)| matches!(e, ControlError::NoFrame)));
    p.snapshot().check().unwrap();
    let v = p.snapshot().vdps.into_iter().find(|v| v.vid == Vid(1)).unwrap();
    assert_eq!((v.counters.generated, v.packet_outs_lost), (64, 34));
    assert_eq!(v.counters.dropped.get(DropReason::NoFrame), 34);
}

#[test]
fn packet_outs_to_the_tables_keep_their_order_while_the_vdp_migrates() {
    let mut p = DataPlane::new(Config::default()).unwrap();
    let i = p.add_port("in", Box::new(Sequencer::new(6, 1, 0))).unwrap();
    let (sink, seen) = Checker::new(1);
    let o = p.add_port("out", Box::new(sink)).unwrap();
    p.create_vdp(vlan_vdp(1, 5, i, o)).unwrap();
    p.add_rule(Vid(1), 0, &rule(Match::any(), 1, &[out(2)]), Placement::Fast).unwrap();
    let (mut clock, mut next) = (0, 0u64);
    let actions = [to(Out::Table)];
    for n in 0..3000u64 {
        let frames: Vec<_> = (0..20).map(|k| frame(5, 1, 0, next + k)).collect();
        next += 20;
        let in_port = PortIn::Port(PortNo(1));
        let one = |f| PacketOut { in_port, frame: f, actions: &actions };
        let outs = frames.iter().map(|f: &Vec<u8>| one(f.as_slice()));
        assert!(p.packet_outs(Vid(1), outs).is_empty());
        p.snapshot().check().unwrap();
        if n % 3 > 0 {
            clock += 5000;
            p.poll(Nanos(clock));
        }
        if n % 7 == 0
            && let Phase::On(at) = p.phase(Vid(1)).unwrap()
        {
            p.migrate(Vid(1), if at == Path::Fast { Path::Slow } else { Path::Fast }).unwrap();
        }
    }
    settle(&mut p, &mut clock);
    let s = seen.lock().unwrap();
    assert_eq!((s.frames, s.lost, s.reordered_or_duplicated), (next, 0, 0));
    let v = p.snapshot().vdps[1].clone();
    assert!(v.migration.completed > 50 && v.counters.slow > 1000, "{v:?}");
    assert_eq!((v.counters.generated, v.counters.forwarded.frames), (next, next));
}

#[test]
fn a_flood_of_packet_outs_and_packet_ins_adds_up() {
    let mut r = Rig::new(3);
    let (one, two) = (r.vdp(1), r.vdp(2));
    let told = [r.sink(one), r.sink(two)];
    for v in [one, two] {
        r.all(v, &[to(Out::Controller(0)), by(1)]);
    }
    let f = frame(1, 1, 0, 0);
    let lists: Vec<Vec<Action>> = vec![
        vec![to(Out::Table)],
        vec![to(Out::Flood), to(Out::Controller(1))],
        vec![to(Out::Normal), to(Out::InPort), to(Out::Local)],
        vec![Action::PushVlan(0x88a8), to(Out::All), Action::PopVlan, to(Out::Table)],
    ];
    for n in 0..300usize {
        for k in 0..30 {
            let _ = r.peers[k % 3].as_mut().unwrap().send(&frame(1 + (k as u16 & 1), 1, 0, 0));
        }
        let outs = (0..n % 90).map(|k| PacketOut {
            in_port: from(k % 3),
            frame: &f,
            actions: &lists[(n + k) % 4],
        });
        let _ = r.p.packet_outs(one, outs);
        r.p.snapshot().check().unwrap();
        r.poll();
        r.counts();
        match n % 50 {
            // One that is still on its way refuses to turn round.
            10 => drop(r.p.migrate(one, Path::Slow)),
            20 => drop(r.p.migrate(one, Path::Fast)),
            30 => r.p.set_port_config(one, no(1), PortFlags::NO_FWD).unwrap(),
            40 => r.p.set_port_config(one, no(1), PortFlags::NONE).unwrap(),
            _ => {}
        }
    }
    r.settle();
    let c = r.view(two).counters;
    assert_eq!(told[1].lock().unwrap().len() as u64, c.consumed);
    assert_eq!(c.consumed, c.received.frames, "VDP 2 has lost no packet-in");
    assert_eq!(r.view(one).counters.dropped.get(DropReason::Runt), 0);
}

#[test]
fn batches_are_sent_through_a_handle() {
    let mut p = DataPlane::new(Config::default()).unwrap();
    let i = p.add_port("in", Box::new(Sequencer::new(6, 1, 0))).unwrap();
    let (sink, seen) = Checker::new(1);
    let o = p.add_port("out", Box::new(sink)).unwrap();
    p.create_vdp(vlan_vdp(1, 5, i, o)).unwrap();
    let runner = Runner::start(p, Serving::Worker, WhenIdle::Rest).unwrap();
    let h = runner.handle();
    let (batch, batches) = (100u64, 1000u64);
    let begin = Instant::now();
    for b in 0..batches {
        let frames: Vec<_> = (0..batch).map(|k| frame(5, 1, 0, b * batch + k)).collect();
        let refused = h.call(move |p| {
            let actions = [out(2)];
            let one = |f| PacketOut { in_port: PortIn::Controller, frame: f, actions: &actions };
            p.packet_outs(Vid(1), frames.iter().map(|f| one(f.as_slice()))).len()
        });
        assert_eq!(refused.unwrap(), 0);
    }
    let rate = (batch * batches) as f64 / begin.elapsed().as_secs_f64();
    println!("{rate:.0} packet-outs a second, frames made and batches awaited one by one");
    let plane = runner.stop().unwrap();
    plane.snapshot().check().unwrap();
    let s = seen.lock().unwrap();
    assert_eq!((s.frames, s.lost, s.reordered_or_duplicated), (batch * batches, 0, 0));
}
