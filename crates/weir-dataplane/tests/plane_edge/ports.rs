//! Port configuration, fragments, counters by VDP and port, events.

use super::plane_common::*;
use super::rig::*;
use std::sync::mpsc::channel;
use weir_classify::{Field, Match};
use weir_dataplane::*;
use weir_packet::DropReason;

const DOWN: PortFlags = PortFlags::DOWN;

#[test]
fn a_port_that_does_not_receive_drops_for_its_vdp_alone() {
    for (flags, why) in [(PortFlags::NO_RECV, DropReason::PortConfig), (DOWN, DropReason::PortDown)]
    {
        let mut r = Rig::new(2);
        let (one, two) = (r.vdp(1), r.vdp(2));
        r.all(one, &[by(1)]);
        r.all(two, &[by(1)]);
        r.p.set_port_config(one, no(0), flags).unwrap();
        assert_eq!(r.through(0, 1), [0, 0]);
        assert_eq!(r.through(0, 2), [0, 1], "another VDP on the same port goes on");
        assert_eq!(r.view(one).counters.dropped.get(why), 1);
        let c = r.at(one, 0);
        assert_eq!((c.rx.frames, c.rx_dropped), (1, 1));
        assert_eq!(r.at(two, 0).rx_dropped, 0);
        r.p.set_port_config(one, no(0), PortFlags::NONE).unwrap();
        assert_eq!(r.through(0, 1), [0, 1], "and it comes back");
    }
}

#[test]
fn a_port_that_does_not_forward_sends_nothing_whoever_asks() {
    for (flags, why) in [(PortFlags::NO_FWD, DropReason::PortConfig), (DOWN, DropReason::PortDown)]
    {
        let lists: [&[Action]; 4] = [
            &[by(1)],
            &[Action::DecTtl, by(1)],
            &[Action::PushVlan(0x8100), by(1)],
            &[Action::ToChannel],
        ];
        for (n, list) in lists.iter().enumerate() {
            let mut r = Rig::new(2);
            let one = r.vdp(1);
            // A program that sends from neighbour to neighbour: port 0 to port 1.
            struct To(PortNo);
            impl Program for To {
                fn name(&self) -> &'static str {
                    "to"
                }
                fn frame(&mut self, rx: SlowFrame, cx: &mut ProgramCx<'_>) {
                    cx.output(rx.frame, self.0);
                }
            }
            r.p.set_program(one, Some(Box::new(To(no(1))))).unwrap();
            r.all(one, list);
            assert_eq!(r.through(0, 1), [0, 1], "{list:?}");
            r.p.set_port_config(one, no(1), flags).unwrap();
            assert_eq!(r.through(0, 1), [0, 0], "list {n}: {list:?}");
            assert_eq!(r.view(one).counters.dropped.get(why), 1);
            let c = r.at(one, 1);
            assert_eq!((c.tx.frames, c.tx_dropped), (1, 1));
        }
    }
}

#[test]
fn all_and_normal_leave_out_ports_that_may_not_send() {
    for to in [Out::All, Out::Normal] {
        let mut r = Rig::new(4);
        let one = r.vdp(1);
        r.all(one, &[Action::Output(to)]);
        assert_eq!(r.through(0, 1), [0, 1, 1, 1]);
        r.p.set_port_config(one, no(2), DOWN).unwrap();
        r.p.set_port_config(one, no(3), PortFlags::NO_FWD).unwrap();
        assert_eq!(r.through(0, 1), [0, 1, 0, 0], "{to:?}");
        assert_eq!(r.view(one).counters.dropped.total(), 0, "no copy is made to be dropped");
    }
}

#[test]
fn a_port_that_is_down_for_a_vdp_is_not_live_for_its_groups() {
    let mut r = Rig::new(3);
    let (one, two) = (r.vdp(1), r.vdp(2));
    for v in [one, two] {
        let watch = |i: usize, id| {
            let mut b = Bucket::new(vec![by(i)]);
            b.watch_port = Some(id);
            b
        };
        let (a, b) = (u32::from(r.ids[1].0), u32::from(r.ids[2].0));
        let g = Group::new(GroupKind::FastFailover, vec![watch(1, a), watch(2, b)]).unwrap();
        r.p.put_group(v, 1, g).unwrap();
        r.all(v, &[Action::Group(1)]);
    }
    r.p.set_port_config(one, no(1), DOWN).unwrap();
    assert_eq!(r.through(0, 1), [0, 0, 1]);
    assert_eq!(r.through(0, 2), [0, 1, 0]);
    // On the slow path, too.
    r.p.migrate(one, Path::Slow).unwrap();
    assert_eq!(r.through(0, 1), [0, 0, 1]);
}

#[test]
fn a_watched_group_is_as_live_as_what_it_watches() {
    let mut r = Rig::new(3);
    let v = r.vdp(1);
    let watched = Bucket { watch_port: Some(u32::from(r.ids[1].0)), ..Bucket::new(vec![by(1)]) };
    r.p.put_group(v, 2, Group::new(GroupKind::FastFailover, vec![watched]).unwrap()).unwrap();
    let first = Bucket { watch_group: Some(2), ..Bucket::new(vec![by(1)]) };
    let buckets = vec![first, Bucket::new(vec![by(2)])];
    r.p.put_group(v, 1, Group::new(GroupKind::FastFailover, buckets).unwrap()).unwrap();
    r.all(v, &[Action::Group(1)]);
    for path in [Path::Fast, Path::Slow] {
        r.p.migrate(v, path).unwrap();
        r.settle();
        assert_eq!(r.through(0, 1), [0, 1, 0], "{path:?}");
        r.p.set_port_config(v, no(1), DOWN).unwrap();
        assert_eq!(r.through(0, 1), [0, 0, 1], "{path:?}");
        r.p.set_port_config(v, no(1), PortFlags::NONE).unwrap();
    }
}

/// An IPv4 fragment with this offset field.
fn fragment(vlan: u16, field: u16) -> Vec<u8> {
    let mut f = frame(vlan, 1, 0, 0);
    f[18 + 6..18 + 8].copy_from_slice(&field.to_be_bytes());
    f
}

#[test]
fn fragments_are_dropped_where_asked() {
    for path in [Path::Fast, Path::Slow] {
        let mut r = Rig::new(2);
        let (one, two) = (r.vdp(1), r.vdp(2));
        for v in [one, two] {
            r.all(v, &[by(1)]);
            r.p.migrate(v, path).unwrap();
        }
        r.settle();
        r.p.set_fragments(one, Fragments::Drop).unwrap();
        assert_eq!(r.p.fragments(one).unwrap(), Fragments::Drop);
        for (vlan, field, out) in
            [(1, 0x2000, 0), (1, 0x0005, 0), (1, 0x4000, 1), (2, 0x2000, 1), (2, 0x0005, 1)]
        {
            r.send(0, &fragment(vlan, field));
            r.settle();
            assert_eq!(r.counts(), [0, out], "VLAN {vlan}, fragment field {field:#x}");
        }
        assert_eq!(r.view(one).counters.dropped.get(DropReason::Fragment), 2);
        r.p.set_fragments(one, Fragments::Normal).unwrap();
        r.send(0, &fragment(1, 0x2000));
        r.settle();
        assert_eq!(r.counts(), [0, 1]);
    }
}

#[test]
fn counters_by_port_are_exact_and_a_vdps_own() {
    let mut r = Rig::new(3);
    let (one, two) = (r.vdp(1), r.vdp(2));
    r.all(one, &[by(1)]);
    r.all(two, &[Action::Output(Out::All)]);
    let long = |vlan, n: usize| {
        let mut f = frame(vlan, 1, 0, 0);
        f.resize(n, 0);
        f
    };
    for i in 0..40 {
        r.send(0, &long(1, 60 + i));
        r.send(2, &long(2, 100 + i));
        r.poll();
        if i == 20 {
            r.p.migrate(one, Path::Slow).unwrap();
        }
        if i == 30 {
            r.p.migrate(one, Path::Fast).unwrap();
        }
    }
    r.settle();
    let sum = |from: u64| (0..40).map(|i| from + i).sum::<u64>();
    let t = |frames, bytes| Tally { frames, bytes };
    let none = Tally::default();
    let of = |vid, i| {
        let c = r.at(vid, i);
        assert_eq!((c.rx_dropped, c.tx_dropped), (0, 0));
        (c.rx, c.tx)
    };
    assert_eq!(of(one, 0), (t(40, sum(60)), none));
    assert_eq!(of(one, 1), (none, t(40, sum(60))));
    assert_eq!(of(one, 2), (none, none));
    assert_eq!(of(two, 0), (none, t(40, sum(100))));
    assert_eq!(of(two, 1), (none, t(40, sum(100))));
    assert_eq!(of(two, 2), (t(40, sum(100)), none));
    assert_eq!(r.view(one).counters.received, t(40, sum(60)));
    assert_eq!(r.view(two).counters.forwarded, t(80, 2 * sum(100)));
}

#[test]
fn a_port_keeps_its_counters_while_others_come_and_go() {
    let mut r = Rig::new(3);
    let one = r.vdp(1);
    r.all(one, &[by(1)]);
    r.through(0, 1);
    let (a, b, c) = (r.ids[0], r.ids[1], r.ids[2]);
    r.p.set_port_config(one, no(0), PortFlags::NO_FLOOD).unwrap();
    r.p.set_ports(one, vec![(no(0), a), (PortNo(77), c)]).unwrap();
    assert_eq!(r.at(one, 0).rx.frames, 1);
    assert_eq!(r.p.port_config(one, no(0)).unwrap(), PortFlags::NO_FLOOD);
    assert_eq!(r.view(one).elsewhere.tx.frames, 1, "what a former port did is not lost");
    assert_eq!(r.through(0, 1), [0, 0, 0], "a rule's frames can't leave by a former port");
    assert_eq!(r.view(one).counters.dropped.get(DropReason::NoSuchPort), 1);
    r.p.set_ports(one, vec![(no(0), a), (no(1), b)]).unwrap();
    assert_eq!(r.at(one, 1), VdpPortCounters::default(), "one that is back begins at zero");
    assert_eq!(r.through(0, 1), [0, 1, 0]);
    let v = r.view(one);
    assert_eq!((v.counters.received.frames, v.counters.forwarded.frames), (3, 2));
    // A deleted VDP's frames are not forgotten either: the sums are checked at every round.
    r.p.delete_vdp(one).unwrap();
    r.settle();
    assert_eq!(r.p.snapshot().retired.forwarded.frames, 2);
}

#[test]
fn the_ingress_port_is_the_vdps_number_or_none() {
    let mut r = Rig::new(3);
    let one = r.vdp(1);
    let (a, b) = (r.ids[0], r.ids[1]);
    r.p.set_ports(one, vec![(PortNo(2), a), (PortNo(1), b)]).unwrap();
    let from = |n: u32| Match::any().with(Field::InPort, n.into());
    let out = |n| Action::Output(Out::Port(PortNo(n)));
    for (m, list) in
        [(from(2), vec![out(1)]), (from(1), vec![Action::Drop]), (from(0), vec![out(2)])]
    {
        r.p.add_rule(one, 0, &rule(m, 1, &list), Placement::Fast).unwrap();
    }
    assert_eq!(r.through(0, 1), [0, 1, 0]);
    assert_eq!(r.through(2, 1), [1, 0, 0], "frames of the VDP may come by ports it has not");
    assert_eq!(r.view(one).elsewhere.rx.frames, 1);
}

#[test]
fn changes_of_ports_and_links_are_told() {
    let mut r = Rig::new(3);
    let (one, two) = (r.vdp(1), r.vdp(2));
    let (links, on_link) = channel();
    let (of_one, on_one) = channel();
    let (of_two, on_two) = channel();
    r.p.subscribe_links(links);
    r.p.subscribe_ports(one, of_one);
    r.p.subscribe_ports(two, of_two);
    let (a, b) = (r.ids[0], r.ids[1]);
    let e = |vid, no, port, change| PortEvent { vid, no, port, change };
    r.p.set_ports(one, vec![(no(0), a), (PortNo(50), b)]).unwrap();
    let told: Vec<_> = on_one.try_iter().collect();
    assert_eq!(
        told,
        [
            e(one, no(1), b, PortChange::Removed),
            e(one, no(2), r.ids[2], PortChange::Removed),
            e(one, PortNo(50), b, PortChange::Added),
        ]
    );
    assert_eq!(on_two.try_iter().count(), 0, "nobody else's");
    assert_eq!((r.p.check_links().len(), on_link.try_iter().count()), (0, 0));
    r.peers[1] = None;
    r.p.check_links();
    let up = false;
    assert_eq!(on_link.try_iter().collect::<Vec<_>>(), [LinkEvent { port: b, up }]);
    assert_eq!(on_one.try_iter().collect::<Vec<_>>(), [e(one, PortNo(50), b, PortChange::Down)]);
    assert_eq!(on_two.try_iter().collect::<Vec<_>>(), [e(two, no(1), b, PortChange::Down)]);
    r.p.remove_port(b).unwrap();
    assert_eq!(on_two.try_iter().collect::<Vec<_>>(), [e(two, no(1), b, PortChange::Removed)]);
    // A VDP that is gone, and one who has stopped listening.
    r.p.delete_vdp(two).unwrap();
    assert!(on_two.recv().is_err(), "its subscribers hear of the end");
    drop(on_one);
    r.p.set_ports(one, vec![]).unwrap();
    r.settle();
}

#[test]
fn what_can_t_be_configured_is_refused() {
    let mut r = Rig::new(1);
    let one = r.vdp(1);
    let e = r.p.set_port_config(one, PortNo(99), DOWN).unwrap_err();
    assert!(e.to_string().contains("no port 99"), "{e}");
    assert!(r.p.set_port_config(Vid(9), no(0), DOWN).is_err());
    assert!(r.p.set_fragments(Vid(9), Fragments::Drop).is_err());
    assert!(r.p.vdp_port_counters(Vid(9)).is_err());
}

/// A receiver drops numbers that it has seen (RFC 2890 §2.2), whatever happened to the sender's ports meanwhile.
#[test]
fn a_gre_sequence_counts_on_while_ports_come_and_go() {
    let mut r = Rig::new(2);
    let v = r.vdp(1);
    let ip = TunnelAddrs::V4([192, 0, 2, 1].into(), [198, 51, 100, 2].into());
    let outer = Outer { eth_src: [2; 6], eth_dst: [4; 6], ip, ttl: 64, tos: 0 };
    let (sequence, checksum) = (Some(1), GreChecksum::Absent);
    let encap = Action::EncapGre { outer, key: None, sequence, checksum };
    let bucket = Bucket::new(vec![encap.clone(), by(1)]);
    let group = Group::new(GroupKind::Indirect, vec![bucket]).unwrap();
    r.p.put_own_group(v, 1, group, Absent::Refused).unwrap();
    let to = |n: u128| Match::any().with(Field::EthDst, 0x0200_0000_0000 + n);
    let rules = [
        (1, vec![encap.clone(), by(1)], Placement::Fast),
        (2, vec![Action::WriteActions(vec![encap.clone(), by(1)])], Placement::Fast),
        (3, vec![Action::Group(1)], Placement::Fast),
        (4, vec![encap, by(1)], Placement::Slow),
    ];
    for (n, actions, placement) in &rules {
        r.p.add_rule(v, 0, &rule(to(*n), 5, actions), *placement).unwrap();
    }
    let number = |r: &mut Rig, n: u128| {
        let mut f = frame(1, 1, 0, 0);
        f[..6].copy_from_slice(&[2, 0, 0, 0, 0, n as u8]);
        r.send(0, &f);
        r.settle();
        let [out] = &r.got(1)[..] else { panic!("rule {n}") };
        u32::from_be_bytes(out[38..42].try_into().unwrap())
    };
    for round in 1..=3 {
        for (n, ..) in &rules {
            assert_eq!(number(&mut r, *n), round, "rule {n}");
        }
        r.p.relink(v).unwrap();
        r.settle();
    }
}

/// `drop` is a list without actions: what tables before have written is carried out behind it (1.3.5 §5.10), unless it is
/// cleared; in table 0 there is nothing before.
#[test]
fn a_drop_leaves_the_action_set() {
    let write = || Action::WriteActions(vec![by(1)]);
    for place in [Placement::Fast, Placement::Slow] {
        let lists: [(&[Action], usize); 4] =
            [(&[Action::Drop], 1), (&[], 1), (&[Action::ClearActions], 0), (&[by(2)], 1)];
        for (list, left) in lists {
            let mut r = Rig::new(3);
            let v = r.vdp(1);
            r.p.add_rule(v, 0, &rule(Match::any(), 5, &[write(), Action::Goto(1)]), place).unwrap();
            r.p.add_rule(v, 1, &rule(Match::any(), 5, list), place).unwrap();
            r.send(0, &frame(1, 1, 0, 0));
            r.settle();
            assert_eq!(r.got(1).len(), left, "{place:?} {list:?}");
        }
        let mut r = Rig::new(3);
        let v = r.vdp(1);
        r.p.add_rule(v, 0, &rule(Match::any(), 5, &[Action::Drop, write()]), place).unwrap();
        r.send(0, &frame(1, 1, 0, 0));
        r.settle();
        assert!(r.got(1).is_empty());
    }
}

/// Rules that name a port straight, by groups, and on the slow path, while the port goes and returns.
fn port_1_comes_back(path: Path) {
    let mut r = Rig::new(3);
    let v = r.vdp(1);
    let bucket = |actions: &[Action]| Bucket::new(actions.to_vec());
    let group = |kind, buckets| Group::new(kind, buckets).unwrap();
    r.p.put_own_group(v, 1, group(GroupKind::All, vec![bucket(&[by(1)])]), Absent::Refused)
        .unwrap();
    let mut first = bucket(&[by(1)]);
    first.watch_port = Some(no(1).0);
    let failover = group(GroupKind::FastFailover, vec![first, bucket(&[by(2)])]);
    r.p.put_own_group(v, 2, failover, Absent::Refused).unwrap();
    // Station 1: straight; 2: by a group; 3: by a group that falls over; 4: on the slow path.
    let to = |n: u8| Match::any().with(Field::EthDst, 0x0200_0000_0000 + u128::from(n));
    let rules = [
        (1, vec![by(1)], Placement::Fast),
        (2, vec![Action::Group(1)], Placement::Fast),
        (3, vec![Action::Group(2)], Placement::Fast),
        (4, vec![Action::SetQueue(0), by(1)], Placement::Slow),
    ];
    for (n, actions, placement) in &rules {
        r.p.add_rule(v, 0, &rule(to(*n), 5, actions), *placement).unwrap();
    }
    r.p.migrate(v, path).unwrap();
    r.settle();
    let through = |r: &mut Rig| -> Vec<Vec<usize>> {
        let one = |n| {
            let mut f = frame(1, 1, 0, 0);
            f[..6].copy_from_slice(&[2, 0, 0, 0, 0, n]);
            r.send(0, &f);
            r.settle();
            r.counts()[1..].to_vec()
        };
        (1..=4).map(one).collect()
    };
    let there = [[1, 0], [1, 0], [1, 0], [1, 0]];
    assert_eq!(through(&mut r), there);
    r.p.remove_port(r.ids[1]).unwrap();
    assert_eq!(through(&mut r), [[0, 0], [0, 0], [0, 1], [0, 0]], "the group falls over");
    // While it is away nothing is changed by looking again.
    r.p.relink(v).unwrap();
    assert_eq!(through(&mut r), [[0, 0], [0, 0], [0, 1], [0, 0]]);
    let (port, peer) = weir_io::memory::Memory::with_peer("p1", Default::default());
    let id = r.p.add_port("p1", Box::new(port)).unwrap();
    assert_ne!(id, r.ids[1]);
    (r.ids[1], r.peers[1]) = (id, Some(peer));
    let ports = r.ids.iter().enumerate().map(|(i, id)| (no(i), *id)).collect();
    r.p.set_ports(v, ports).unwrap();
    r.p.relink(v).unwrap();
    assert_eq!(through(&mut r), there);
    // Four times each, on whichever path, without a break.
    for (n, ..) in &rules {
        let at = r.p.rule_ref(v, 0, &to(*n), 5).unwrap();
        let mut usage = Vec::new();
        r.p.usage(v, &[at], &mut usage).unwrap();
        assert_eq!(usage[0].frames, 4, "rule {n}");
    }
    let g = r.p.group_counters(v, 2).unwrap();
    let buckets: Vec<u64> = g.buckets.iter().map(|b| b.frames).collect();
    assert_eq!((g.counted.frames, buckets), (4, vec![2, 2]));
    assert_eq!(r.view(v).slow_rules, 1);
    // A group that is deleted and one that is put there otherwise do not come back by it.
    r.p.remove_group(v, 1).unwrap();
    r.p.put_group(v, 2, group(GroupKind::All, vec![bucket(&[by(2)])])).unwrap();
    r.p.relink(v).unwrap();
    assert_eq!(through(&mut r), [[1, 0], [0, 0], [0, 1], [1, 0]]);
}

#[test]
fn rules_and_groups_follow_a_port_that_comes_back() {
    port_1_comes_back(Path::Fast);
    port_1_comes_back(Path::Slow);
}
