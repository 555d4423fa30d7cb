//! ARCHITECTURE.md's invariants on the whole data plane: conservation, isolation, order.

mod plane_common;

use plane_common::*;
use proptest::prelude::*;
use std::sync::Arc;
use weir_classify::{Field, Match};
use weir_dataplane::*;
use weir_io::replay::{Arena, Collect, Passes, Replay};
use weir_packet::{DropReason, Nanos, PortId};

/// A frame of one of a few kinds: what rules below can tell apart.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => (0u16..5, 0u16..4, 0u32..8, any::<u64>()).prop_map(|(v, d, f, s)| frame(v, d, f, s)),
        1 => prop::collection::vec(any::<u8>(), 0..120),
    ]
}

fn any_action() -> impl Strategy<Value = Action> {
    let mac = |v: u16| u128::from(0x0200_0000_0000u64 | u64::from(v));
    prop_oneof![
        6 => (1u32..4).prop_map(out),
        1 => Just(Action::Output(Out::All)),
        1 => Just(Action::Output(Out::InPort)),
        1 => Just(Action::Output(Out::Normal)),
        1 => Just(Action::Output(Out::Flood)),
        1 => Just(Action::Output(Out::Controller(64))),
        1 => Just(Action::Output(Out::Local)),
        1 => Just(Action::ToChannel),
        1 => Just(Action::Drop),
        1 => Just(Action::DecTtl),
        1 => Just(Action::PushVlan(0x8100)),
        1 => Just(Action::PopVlan),
        1 => Just(Action::PushMpls(0x8847)),
        1 => (1u32..4).prop_map(|n| Action::Mirror(PortNo(n))),
        1 => Just(Action::Group(1)),
        1 => Just(Action::Meter(1)),
        2 => (0u16..9).prop_map(move |v| Action::SetField {
            field: Field::EthDst, value: mac(v), mask: Field::EthDst.full()
        }),
        1 => (1u128..255).prop_map(|v| Action::SetField {
            field: Field::IpTtl, value: v, mask: 0xff
        }),
    ]
}

fn any_match() -> impl Strategy<Value = Match> {
    (prop::option::of(0u16..4), prop::option::of(0u8..8), prop::option::of(1u32..4)).prop_map(
        |(dst, src, port)| {
            let mut m = Match::any();
            if let Some(d) = dst {
                m = m.with(Field::EthDst, u128::from(0x0200_0000_0000u64 | u64::from(d)));
            }
            if let Some(s) = src {
                m = m.with(Field::EthType, 0x800).with_masked(Field::Ipv4Src, s.into(), 7);
            }
            if let Some(p) = port {
                m = m.with(Field::InPort, p.into());
            }
            m
        },
    )
}

/// What somebody does to a VDP while frames pass.
#[derive(Clone, Debug)]
enum Step {
    Rule(Match, u8, Vec<Action>, bool),
    Remove(Match, u8),
    Migrate(bool),
    Delete,
    Create,
    Port,
    Default(Vec<Action>),
    Flags(u32, u8),
    Fragments(bool),
    PacketOut(u8, Vec<u8>, Vec<Action>),
    Poll(u8),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (any_match(), 0u8..4, prop::collection::vec(any_action(), 0..5), any::<bool>())
            .prop_map(|(m, p, a, f)| Step::Rule(m, p, a, f)),
        2 => (any_match(), 0u8..4).prop_map(|(m, p)| Step::Remove(m, p)),
        2 => any::<bool>().prop_map(Step::Migrate),
        1 => Just(Step::Delete),
        2 => Just(Step::Create),
        1 => Just(Step::Port),
        1 => prop::collection::vec(any_action(), 0..4).prop_map(Step::Default),
        1 => (1u32..4, 0u8..32).prop_map(|(n, f)| Step::Flags(n, f)),
        1 => any::<bool>().prop_map(Step::Fragments),
        3 => (0u8..6, any_frame(), prop::collection::vec(
            prop_oneof![5 => any_action(), 1 => Just(Action::Output(Out::Table))], 0..5))
            .prop_map(|(p, f, a)| Step::PacketOut(p, f, a)),
        8 => (1u8..6).prop_map(Step::Poll),
    ]
}

fn apply(p: &mut DataPlane, vid: u16, ports: &[PortId], s: &Step, clock: &mut u64) {
    let v = Vid(vid);
    match s {
        // Refusals are fine here: they must leave everything in order.
        Step::Rule(m, prio, a, fast) => {
            let at = if *fast { Placement::Fast } else { Placement::Spill };
            let _ = p.add_rule(v, 0, &rule(*m, (*prio).into(), a), at);
        }
        Step::Remove(m, prio) => {
            let _ = p.remove_rule(v, 0, m, (*prio).into());
        }
        Step::Migrate(fast) => {
            let _ = p.migrate(v, if *fast { Path::Fast } else { Path::Slow });
        }
        Step::Delete => {
            let _ = p.delete_vdp(v);
        }
        Step::Create => {
            let mut spec = VdpSpec::new(v, &format!("v{vid}"));
            spec.ports =
                ports.iter().enumerate().map(|(i, id)| (PortNo(i as u32 + 1), *id)).collect();
            spec.mapping = vec![by_vlan(vid)];
            spec.program = programs::by_name("learning").ok();
            if p.create_vdp(spec).is_ok() {
                let bucket = |n| Bucket::new(vec![Action::DecTtl, out(n)]);
                let g = Group::new(GroupKind::All, vec![bucket(1), bucket(2)]).unwrap();
                p.put_group(v, 1, g).unwrap();
                let band = Band { kind: BandKind::Drop, rate: 1000, burst: 5 };
                p.put_meter(v, 1, Meter::new(Unit::Packets, &[band]).unwrap()).unwrap();
            }
        }
        Step::Port => {
            let _ = p.set_ports(v, vec![(PortNo(1), ports[0]), (PortNo(3), ports[2])]);
        }
        Step::Default(a) => {
            let _ = p.set_default(v, a);
        }
        Step::Flags(n, bits) => {
            use PortFlags as F;
            let all = [F::DOWN, F::NO_RECV, F::NO_FWD, F::NO_FLOOD, F::NO_PACKET_IN];
            let set = all.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1);
            let flags = set.fold(F::NONE, |f, (_, more)| f.with(*more));
            let _ = p.set_port_config(v, PortNo(*n), flags);
        }
        Step::Fragments(drop) => {
            let f = if *drop { Fragments::Drop } else { Fragments::Normal };
            let _ = p.set_fragments(v, f);
        }
        Step::PacketOut(n, frame, actions) => {
            let in_port = match n {
                0 => PortIn::None,
                4 => PortIn::Controller,
                n => PortIn::Port(PortNo((*n).into())),
            };
            let _ = p.packet_out(v, PacketOut { in_port, frame, actions });
            p.snapshot().check().unwrap();
        }
        Step::Poll(n) => {
            for _ in 0..*n {
                *clock += 100_000;
                p.poll(Nanos(*clock));
                p.snapshot().check().unwrap();
            }
        }
    }
}

/// Three ports that play `frames` (each its third) and keep what they are given.
fn ports(p: &mut DataPlane, frames: &[Vec<u8>]) -> (Vec<PortId>, Vec<weir_io::replay::Collected>) {
    let mut kept = Vec::new();
    let ids = (0..3)
        .map(|i| {
            let mut a = Arena::new();
            for f in frames.iter().skip(i).step_by(3) {
                a.push(f, None, 1);
            }
            let name = format!("p{i}");
            let source = Replay::new(&name, Arc::new(a), Passes::Times(20));
            let (sink, k) = Collect::new(&name, usize::MAX);
            kept.push(k);
            p.add_port(&name, Box::new(Both(source, sink))).unwrap()
        })
        .collect();
    (ids, kept)
}

/// Receives from one device and sends to another.
struct Both(Replay, Collect);

impl weir_packet::Device for Both {
    fn name(&self) -> &str {
        "both"
    }
    fn caps(&self) -> weir_packet::Caps {
        self.0.caps()
    }
    fn link(&mut self, pool: &mut weir_packet::Pool) -> weir_packet::LinkState {
        self.0.link(pool)
    }
    fn rx(&mut self, pool: &mut weir_packet::Pool, b: &mut weir_packet::Burst) -> usize {
        self.0.rx(pool, b)
    }
    fn tx(&mut self, pool: &mut weir_packet::Pool, b: &mut weir_packet::Burst) -> usize {
        self.1.tx(pool, b)
    }
    fn flush(&mut self, _: &mut weir_packet::Pool) {}
    fn held(&self) -> usize {
        0
    }
    fn counters(&self) -> weir_packet::DeviceCounters {
        self.0.counters()
    }
    fn close(&mut self, pool: &mut weir_packet::Pool) {
        self.0.close(pool);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Whatever is asked of VDPs while whatever frames pass: after every round, every frame is
    /// accounted for once, per VDP, per port and in the region; at the end none is left inside.
    #[test]
    fn frames_are_conserved(
        frames in prop::collection::vec(any_frame(), 1..40),
        steps in prop::collection::vec((1u16..4, any_step()), 1..60),
    ) {
        let mut p = DataPlane::new(Config { frames: 4096, ..Config::default() }).unwrap();
        let (ids, _) = ports(&mut p, &frames);
        let mut clock = 0;
        for (vid, s) in &steps {
            apply(&mut p, *vid, &ids, s, &mut clock);
        }
        settle(&mut p, &mut clock);
        clock += 50_000_000;
        settle(&mut p, &mut clock);
        let s = p.snapshot();
        prop_assert_eq!(s.frames.held, 0);
        for id in ids {
            p.remove_port(id).unwrap();
        }
        settle(&mut p, &mut clock);
    }

    /// Random rules in VDP 1 never change what VDP 2's frames get, byte for byte.
    #[test]
    fn a_vdp_does_not_see_another(
        frames in prop::collection::vec(any_frame(), 1..40),
        of_two in prop::collection::vec(
            (any_match(), 0u8..4, prop::collection::vec(any_action(), 1..4)), 0..8),
        steps in prop::collection::vec(any_step(), 1..40),
    ) {
        // Meters and clocks aside: what VDP 2 does must not depend on when it is polled.
        let still = |a: &Vec<Action>| !a.contains(&Action::Meter(1));
        let of_two: Vec<_> = of_two.into_iter().filter(|r| still(&r.2)).collect();
        let run = |steps: &[Step]| {
            let mut p = DataPlane::new(Config { frames: 8192, ..Config::default() }).unwrap();
            let (ids, kept) = ports(&mut p, &frames);
            let mut clock = 0;
            apply(&mut p, 2, &ids, &Step::Create, &mut clock);
            p.set_program(Vid(2), programs::by_name("forward").ok()).unwrap();
            for (m, prio, a) in &of_two {
                let _ = p.add_rule(Vid(2), 0, &rule(*m, (*prio).into(), a), Placement::Fast);
            }
            for s in steps {
                apply(&mut p, 1, &ids, s, &mut clock);
            }
            settle(&mut p, &mut clock);
            let v = p.snapshot().vdps.iter().find(|v| v.vid == Vid(2)).unwrap().counters.clone();
            let (rules, _) = p.rules(Vid(2)).unwrap();
            let mut hits: Vec<_> =
                rules.iter().map(|r| (r.spec.priority, format!("{:?}", r.spec.matcher), r.hits)).collect();
            hits.sort_by_key(|h| (h.0, h.1.clone()));
            // VDP 2's frames came in with VLAN 2 and keep their flow and number; those of VLAN 1
            // are not looked at, since VDP 1 may send them anywhere.
            let mine = |f: &weir_io::replay::Kept| f.bytes.get(22..).is_some();
            let frames: Vec<Vec<Vec<u8>>> = kept
                .iter()
                .map(|k| k.take().into_iter().filter(mine).map(|f| f.bytes).collect())
                .collect();
            (v, hits, frames)
        };
        let alone = run(&[]);
        let beside = run(&steps);
        prop_assert_eq!(&alone.0, &beside.0, "counters");
        prop_assert_eq!(&alone.1, &beside.1, "rule counters");
        // Alone, VLAN 1 belongs to the default VDP, which drops: every frame that left is VDP 2's.
        // Which of two ports is polled first may change; order within a flow has tests of its own.
        for (a, b) in alone.2.iter().zip(&beside.2) {
            let mut left = std::collections::BTreeMap::<&Vec<u8>, i64>::new();
            b.iter().for_each(|f| *left.entry(f).or_default() += 1);
            for f in a {
                let n = left.entry(f).or_default();
                *n -= 1;
                prop_assert!(*n >= 0, "a frame of VDP 2 is missing or changed");
            }
        }
    }
}

/// What a VDP cuts out of frames for itself: one byte of the transport layer, here the last of the
/// flow or of the number.
fn own(at: u16) -> UserFields {
    let f = UserField::new("own", Layer::Transport, at, 0, 8, None).unwrap();
    UserFields::new(vec![f]).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Fields of VDPs' own in mapping and action rules, the same slot meaning another place of the
    /// frame to each VDP: every frame goes where a plain reading of the rules says, on either path.
    #[test]
    fn fields_of_a_vdps_own_map_and_match_by_its_own_definition(
        frames in prop::collection::vec(prop_oneof![
            6 => (0u16..3, 0u32..4, 0u64..4).prop_map(|(d, f, s)| frame(0, d, f, s)),
            // Cut short, so that one field or both are missing.
            2 => (34usize..48, 0u64..4).prop_map(|(n, s)| {
                let mut f = frame(0, 1, 0, s);
                f[16..18].copy_from_slice(&(n as u16 - 14).to_be_bytes());
                f
            }),
            1 => prop::collection::vec(any::<u8>(), 14..60),
        ], 1..60),
        mapping in prop::collection::vec((1u16..4, 0u32..4, 0u32..3), 1..8),
        rules in prop::collection::vec((1u16..4, 0u32..4, 0u32..3, 2u32..4), 0..10),
        slow in any::<bool>(),
    ) {
        // The third VDP has no field; its rules are by MAC and share priorities with the others'.
        const AT: [u16; 2] = [3, 11];
        let value = |vid: u16, f: &[u8]| -> Option<u32> {
            let at = usize::from(*AT.get(usize::from(vid) - 1)?);
            // IPv4 in the frames above has no options; what else there is is noise.
            let ip = f.get(14..)?;
            if f[12..14] != [8, 0] || *ip.first()? != 0x45 || ip.len() < 20 {
                return None;
            }
            let end = usize::from(u16::from_be_bytes([ip[2], ip[3]])).min(ip.len());
            ip.get(..end)?.get(20 + at).map(|b| u32::from(*b))
        };
        let takes = |vid: u16, want: u32, f: &[u8]| match vid {
            3 => f[..6] == [2, 0, 0, 0, 0, want as u8],
            vid => value(vid, f) == Some(want),
        };
        let noise = |f: &&Vec<u8>| f[12..14] == [8, 0] && f.get(14) != Some(&0x45);
        prop_assume!(!frames.iter().any(|f| noise(&f)));
        let matcher = |vid: u16, want: u32| match vid {
            3 => Match::any().with(Field::EthDst, u128::from(0x0200_0000_0000u64 | u64::from(want))),
            _ => UserFields::demand(Match::any(), Field::User0, want, 0xff),
        };

        let mut p = DataPlane::new(Config::default()).unwrap();
        let mut a = Arena::new();
        frames.iter().for_each(|f| assert!(a.push(f, None, 1)));
        let source = Replay::new("in", Arc::new(a), Passes::Times(1));
        let i = p.add_port("in", Box::new(source)).unwrap();
        let mut kept = Vec::new();
        let mut ports = vec![(PortNo(1), i)];
        for n in 2..4 {
            let (sink, k) = Collect::new("out", usize::MAX);
            ports.push((PortNo(n), p.add_port(&format!("out{n}"), Box::new(sink)).unwrap()));
            kept.push(k);
        }
        for vid in 1..4u16 {
            let mut s = VdpSpec::new(Vid(vid), &format!("v{vid}"));
            s.ports = ports.clone();
            s.fields = AT.get(usize::from(vid) - 1).map_or_else(UserFields::default, |at| own(*at));
            s.default = vec![Action::Drop];
            s.path = if slow { Path::Slow } else { Path::Fast };
            p.create_vdp(s).unwrap();
        }
        // As they are installed: the first of equals is kept.
        let mut mapped: Vec<(u16, u32, u32)> = Vec::new();
        for (vid, want, priority) in mapping {
            let rule = MappingRule { matcher: matcher(vid, want), priority };
            p.add_mapping(Vid(vid), &rule).unwrap();
            if !mapped.contains(&(vid, want, priority)) {
                mapped.push((vid, want, priority));
            }
        }
        let mut installed: Vec<(u16, u32, u32, u32)> = Vec::new();
        for (vid, want, priority, to) in rules {
            let r = rule(matcher(vid, want), priority, &[out(to)]);
            p.add_rule(Vid(vid), 0, &r, Placement::Fast).unwrap();
            installed.retain(|o| (o.0, o.1, o.2) != (vid, want, priority));
            installed.push((vid, want, priority, to));
        }
        let mut clock = 0;
        settle(&mut p, &mut clock);

        let mut expected: [Vec<Vec<u8>>; 2] = Default::default();
        let mut received = [0u64; 4];
        for f in &frames {
            let best = |most: Option<(u16, u32)>, m: &(u16, u32, u32)| {
                let better = takes(m.0, m.1, f) && most.is_none_or(|(_, p)| m.2 > p);
                if better { Some((m.0, m.2)) } else { most }
            };
            let vid = mapped.iter().fold(None, best).map_or(0, |(vid, _)| vid);
            received[usize::from(vid)] += 1;
            // Two rules of a VDP never take the same frame here but with the same value.
            let hit = installed.iter().filter(|r| r.0 == vid && takes(vid, r.1, f));
            if let Some(r) = hit.max_by_key(|r| r.2) {
                expected[r.3 as usize - 2].push(f.clone());
            }
        }
        let s = p.snapshot();
        for (vid, n) in received.iter().enumerate() {
            let v = s.vdps.iter().find(|v| usize::from(v.vid.0) == vid).unwrap();
            prop_assert_eq!(v.counters.received.frames, *n, "VDP {}", vid);
        }
        for (k, e) in kept.iter().zip(&expected) {
            let got: Vec<Vec<u8>> = k.take().into_iter().map(|f| f.bytes).collect();
            let mut sorted = (got, e.clone());
            // Each VDP has a channel's turn of its own.
            sorted.0.sort();
            sorted.1.sort();
            prop_assert_eq!(&sorted.0, &sorted.1);
        }
    }
}

#[test]
fn frames_of_a_flow_keep_their_order_while_rules_change() {
    let mut p = DataPlane::new(Config::default()).unwrap();
    let i = p.add_port("in", Box::new(Sequencer::new(5, 8, 200_000))).unwrap();
    let (sink, seen) = Checker::new(8);
    let o = p.add_port("out", Box::new(sink)).unwrap();
    p.create_vdp(vlan_vdp(1, 5, i, o)).unwrap();
    let mut clock = 0;
    let any = |prio, a: &[Action]| rule(Match::any(), prio, a);
    p.add_rule(Vid(1), 0, &any(1, &[out(2)]), Placement::Fast).unwrap();
    for n in 0..2000u32 {
        clock += 10_000;
        p.poll(Nanos(clock));
        let more = [Action::DecTtl, out(2)];
        if n.is_multiple_of(2) {
            p.add_rule(Vid(1), 0, &any(2 + n % 5, &more), Placement::Fast).unwrap();
        } else {
            p.remove_rule(Vid(1), 0, &Match::any(), 2 + (n - 1) % 5).unwrap();
        }
    }
    settle(&mut p, &mut clock);
    let s = seen.lock().unwrap();
    assert_eq!((s.lost, s.reordered_or_duplicated), (0, 0));
    assert_eq!(s.frames, p.snapshot().ports[0].counters.rx.frames);
}

#[test]
fn a_rule_on_the_slow_path_is_not_overtaken_by_a_lower_one() {
    let mut p = DataPlane::new(Config::default()).unwrap();
    let i = p.add_port("in", Box::new(Sequencer::new(5, 4, 400))).unwrap();
    let (sink, seen) = Checker::new(4);
    let o = p.add_port("out", Box::new(sink)).unwrap();
    p.create_vdp(vlan_vdp(1, 5, i, o)).unwrap();
    let low = rule(Match::any(), 1, &[Action::Drop]);
    assert_eq!(p.add_rule(Vid(1), 0, &low, Placement::Fast).unwrap(), Placed::Fast);
    let high = rule(Match::any().with(Field::EthType, 0x800), 5, &[out(2)]);
    assert_eq!(p.add_rule(Vid(1), 0, &high, Placement::Slow).unwrap(), Placed::Slow);
    settle(&mut p, &mut 0);
    assert_eq!(seen.lock().unwrap().frames, 400);
    let v = &p.snapshot().vdps[1];
    assert_eq!((v.rules, v.slow_rules), (0, 2), "the lower rule went to the slow path, too");
}

/// A waiting source's frames that wait for room in a channel end with their VDP: they stay accounted
/// for, and a new VDP of the same id gets none of them.
#[test]
fn frames_that_wait_for_a_channel_end_with_their_vdp() {
    let config = Config { channel_frames: 64, ..Config::default() };
    let mut p = DataPlane::new(config).unwrap();
    let i = p.add_port("in", Box::new(Sequencer::new(5, 1, 64))).unwrap();
    let o = p.add_port("out", Box::new(Checker::new(1).0)).unwrap();
    let spec = || {
        let mut s = vlan_vdp(1, 5, i, o);
        s.default = vec![Action::Output(Out::Normal); 4];
        s
    };
    p.create_vdp(spec()).unwrap();
    p.poll(Nanos(1));
    let v = p.snapshot().vdps[1].clone();
    assert!(v.held > 64, "more than the channel holds: {}", v.held);
    p.delete_vdp(Vid(1)).unwrap();
    p.snapshot().check().unwrap();
    let mut clock = 1;
    while p.create_vdp(spec()).is_err() {
        clock += 1;
        assert!(clock < 100, "the VDP does not go");
        p.poll(Nanos(clock));
        p.snapshot().check().unwrap();
    }
    settle(&mut p, &mut clock);
    let s = p.snapshot();
    s.check().unwrap();
    assert!(s.retired.dropped.get(DropReason::VdpGone) > 0, "{:?}", s.retired);
    assert_eq!((s.vdps[1].counters.slow, s.vdps[1].held), (0, 0));
}
