//! The programs that look no further than Ethernet: learning, reflector, sink, forward; and those
//! that remember connections (`programs_stateful/`). Each frame is checked for where it leaves, and
//! every frame is accounted for after every step (`Rig`).

mod programs_rig;
mod programs_stateful;

use programs_rig::{Rig, port};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use weir_dataplane::programs::by_name;
use weir_dataplane::programs::forward::Forward;
use weir_dataplane::programs::learning::{
    LearnedStation, LearningConfig, LearningSwitch, StaticEntryError,
};
use weir_dataplane::{Origin, PortNo};
use weir_packet::{DropReason, Nanos};
use weir_wire::{EtherType, MacAddr, VlanRepr, build};

fn mac(n: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, n])
}

fn frame(src: MacAddr, dst: MacAddr, tags: &[VlanRepr]) -> Vec<u8> {
    let mut out = vec![0; 128];
    let n = build::Frame::udp_v4(
        "10.0.0.1:1000".parse().unwrap(),
        "10.0.0.2:53".parse().unwrap(),
        b"payload of a datagram",
    )
    .macs(src, dst)
    .tags(tags)
    .emit(&mut out)
    .unwrap();
    out.truncate(n);
    out
}

fn plain(src: u8, dst: u8) -> Vec<u8> {
    frame(mac(src), mac(dst), &[])
}

#[test]
fn floods_then_knows() {
    let mut r = Rig::new(LearningSwitch::default(), 4);
    let ask = plain(1, 2);
    let o = r.rx(1, &ask);
    assert_eq!(o.ports(), [2, 3, 4]);
    assert!(o.sent.iter().all(|s| s.bytes == ask));
    // One is the frame itself, the others are copies.
    assert_eq!(o.sent.iter().filter(|s| s.origin == Origin::Received).count(), 1);
    assert_eq!(r.rx(3, &plain(2, 1)).one().port, 1);
    assert_eq!(r.rx(1, &ask).one().port, 3);
}

#[test]
fn never_back_to_where_it_came_from() {
    let mut r = Rig::new(LearningSwitch::default(), 2);
    r.rx(1, &plain(1, 9));
    assert_eq!(r.rx(1, &plain(2, 1)).only_drop(), DropReason::Program);
    // The only port there is: nowhere to flood to.
    r.ports.truncate(1);
    assert_eq!(r.rx(1, &plain(1, 9)).only_drop(), DropReason::NoSuchPort);
}

#[test]
fn a_port_that_is_down_is_not_flooded() {
    let mut r = Rig::new(LearningSwitch::default(), 4);
    r.ports[1].up = false;
    assert_eq!(r.rx(1, &plain(1, 2)).ports(), [3, 4]);
}

#[test]
fn groups_are_flooded_and_never_learned() {
    let mut r = Rig::new(LearningSwitch::default(), 3);
    let group = MacAddr([1, 0, 0x5e, 0, 0, 1]);
    for dst in [group, MacAddr::BROADCAST, MacAddr([0x33, 0x33, 0, 0, 0, 1])] {
        assert_eq!(r.rx(1, &frame(mac(1), dst, &[])).ports(), [2, 3]);
    }
    // A group as source: forwarded, not learned.
    assert_eq!(r.rx(2, &frame(group, mac(1), &[])).one().port, 1);
    assert_eq!(r.rx(1, &frame(mac(1), group, &[])).ports(), [2, 3]);
}

#[test]
fn reserved_addresses_stop_here() {
    let mut r = Rig::new(LearningSwitch::default(), 3);
    for last in 0..=0x0f {
        let dst = MacAddr([1, 0x80, 0xc2, 0, 0, last]);
        assert_eq!(r.rx(1, &frame(mac(1), dst, &[])).only_drop(), DropReason::Program);
    }
    // Not learned from either; and the next address is a group like others.
    assert_eq!(r.rx(2, &plain(2, 1)).ports(), [1, 3]);
    let dst = MacAddr([1, 0x80, 0xc2, 0, 0, 0x10]);
    assert_eq!(r.rx(1, &frame(mac(1), dst, &[])).ports(), [2, 3]);
}

#[test]
fn vlans_are_apart() {
    let mut r = Rig::new(LearningSwitch::default(), 3);
    let in_vlan = |src, dst, tag| frame(mac(src), mac(dst), &[tag]);
    r.rx(1, &in_vlan(1, 9, VlanRepr::dot1q(10)));
    assert_eq!(r.rx(2, &in_vlan(2, 1, VlanRepr::dot1q(10))).one().port, 1);
    assert_eq!(r.rx(2, &in_vlan(2, 1, VlanRepr::dot1q(11))).ports(), [1, 3]);
    assert_eq!(r.rx(2, &plain(2, 1)).ports(), [1, 3]);
    // Priority bits and DEI are no part of the VLAN; a service tag's VLAN counts as well.
    let tag = VlanRepr { pcp: 7, dei: true, ..VlanRepr::dot1ad(10) };
    assert_eq!(r.rx(2, &in_vlan(2, 1, tag)).one().port, 1);
    // The outer tag says where; a priority tag is VLAN 0, as no tag is.
    let tags = [VlanRepr::dot1ad(10), VlanRepr::dot1q(11)];
    assert_eq!(r.rx(2, &frame(mac(2), mac(1), &tags)).one().port, 1);
    assert_eq!(r.rx(3, &in_vlan(1, 2, VlanRepr::dot1q(0))).one().port, 2);
}

#[test]
fn a_station_moves() {
    let mut r = Rig::new(LearningSwitch::default(), 3);
    r.rx(1, &plain(1, 9));
    r.rx(2, &plain(2, 9));
    assert_eq!(r.rx(2, &plain(2, 1)).one().port, 1);
    r.rx(3, &plain(1, 9));
    assert_eq!(r.rx(2, &plain(2, 1)).one().port, 3);
    let status = r.program.status();
    let of = |name| status.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
    assert_eq!(of("moved"), Some("1"));
    assert_eq!(of("last move"), Some("02:00:00:00:00:01 in VLAN 0 from port 1 to 3"));
}

#[test]
fn static_entries_stay() {
    let mut s = LearningSwitch::default();
    s.add_static(0, mac(1), PortNo(3)).unwrap();
    let mut r = Rig::new(s, 3);
    // Seen elsewhere, and for longer than anything is kept.
    r.rx(1, &plain(1, 9));
    assert_eq!(r.rx(2, &plain(2, 1)).one().port, 3);
    r.pass(Nanos::from_secs(1000), Nanos::from_secs(1));
    assert_eq!(r.rx(2, &plain(2, 1)).one().port, 3);
}

#[test]
fn static_entries_are_checked() {
    let mut s = LearningSwitch::new(LearningConfig { max_entries: 2, ..Default::default() });
    let group = MacAddr::BROADCAST;
    assert_eq!(s.add_static(0, group, PortNo(1)), Err(StaticEntryError::Group(group)));
    assert_eq!(s.add_static(4096, mac(1), PortNo(1)), Err(StaticEntryError::Vlan(4096)));
    s.add_static(5, mac(1), PortNo(1)).unwrap();
    s.add_static(5, mac(2), PortNo(1)).unwrap();
    s.add_static(5, mac(2), PortNo(2)).unwrap();
    assert_eq!(s.add_static(5, mac(3), PortNo(1)), Err(StaticEntryError::Full(2)));
    let row = |m, p| LearnedStation { vlan: 5, mac: mac(m), port: PortNo(p), age: None };
    assert_eq!(s.stations(Nanos(0)), [row(1, 1), row(2, 2)]);
    s.flush();
    assert!(s.forget(5, mac(1)) && !s.forget(5, mac(1)));
    assert_eq!(s.stations(Nanos(0)), [row(2, 2)]);
}

#[test]
fn ageing_forgets_who_is_silent() {
    let ageing = Nanos::from_secs(20);
    let mut r = Rig::new(LearningSwitch::new(LearningConfig { ageing, ..Default::default() }), 3);
    r.rx(1, &plain(1, 9));
    r.rx(2, &plain(2, 9));
    for _ in 0..4 {
        r.pass_ms(5_000);
        // 2 keeps talking; that 1 is talked to does not keep it.
        let o = r.rx(2, &plain(2, 1));
        if r.now < Nanos::from_secs(20) {
            assert_eq!(o.one().port, 1);
        }
    }
    r.pass_ms(2_000);
    assert_eq!(r.rx(3, &plain(3, 1)).ports(), [1, 2]);
    assert_eq!(r.rx(3, &plain(3, 2)).one().port, 2);
}

#[test]
fn a_lost_port_is_forgotten() {
    let mut r = Rig::new(LearningSwitch::default(), 3);
    r.rx(3, &plain(1, 9));
    r.ports.pop();
    r.pass_ms(200);
    assert_eq!(r.rx(1, &plain(2, 1)).ports(), [2]);
}

#[test]
fn the_table_is_bounded() {
    let config = LearningConfig { max_entries: 16, ..Default::default() };
    let mut r = Rig::new(LearningSwitch::new(config), 2);
    for n in 0..200 {
        r.now = r.now + Nanos::from_secs(1);
        r.rx(1, &plain(n, 255));
    }
    // The last sixteen are known, those before are not.
    for n in 0..200 {
        let o = r.rx(2, &frame(MacAddr([1, 0, 0, 0, 0, 1]), mac(n), &[]));
        assert_eq!(o.sent.len(), 1);
    }
    let status = r.program.status();
    assert!(status.contains(&("entries".into(), "16 of 16".into())), "{status:?}");
    assert!(status.contains(&("known".into(), "16".into())), "{status:?}");
}

#[test]
fn without_spares_one_copy_still_leaves() {
    let mut r = Rig::new(LearningSwitch::default(), 4);
    r.spares(1);
    let o = r.rx_as_is(1, &plain(1, 2));
    assert_eq!(o.sent.len(), 2);
    assert_eq!(r.refused, 1);
}

#[test]
fn broken_frames() {
    let mut r = Rig::new(LearningSwitch::default(), 2);
    let tagged = frame(mac(1), mac(2), &[VlanRepr::dot1q(5)]);
    for n in 0..14 {
        assert_eq!(r.rx(1, &tagged[..n]).only_drop(), DropReason::Runt, "{n} bytes");
    }
    for n in 14..18 {
        assert_eq!(r.rx(1, &tagged[..n]).only_drop(), DropReason::Malformed, "{n} bytes");
    }
    assert_eq!(r.rx(1, &tagged[..18]).one().port, 2);
    assert_eq!(r.rx(1, &plain(1, 2)[..14]).one().port, 2);
}

#[test]
fn the_reflector_swaps_addresses() {
    let mut r = Rig::with_frames(by_name("reflector").unwrap(), 2, 16);
    let there = plain(1, 2);
    let back = r.rx_as_is(2, &there).one();
    assert_eq!((back.port, back.origin), (2, Origin::Received));
    assert_eq!(back.bytes, plain(2, 1));
    assert_eq!(r.rx_as_is(2, &there[..13]).only_drop(), DropReason::Runt);
    assert_eq!(r.rx_as_is(2, &there[..14]).one().bytes.len(), 14);
}

#[test]
fn the_sink_takes_everything() {
    let mut r = Rig::with_frames(by_name("sink").unwrap(), 1, 16);
    for n in [0, 1, 60] {
        let o = r.rx_as_is(1, &plain(1, 2)[..n]);
        assert_eq!((o.consumed, o.sent.len(), o.dropped.len()), (1, 0, 0));
    }
    let status = r.program.status();
    assert_eq!(status, [("frames".into(), "3".into()), ("bytes".into(), "61".into())]);
}

#[test]
fn forward_sends_to_the_neighbour() {
    let mut r = Rig::with_frames(by_name("forward").unwrap(), 5, 16);
    for (from, to) in [(1, 2), (2, 1), (3, 4), (4, 3)] {
        let s = r.rx_as_is(from, &plain(1, 2)).one();
        assert_eq!((s.port, s.bytes), (to, plain(1, 2)));
    }
    assert_eq!(r.rx_as_is(5, &plain(1, 2)).only_drop(), DropReason::NoSuchPort);
}

#[test]
fn forward_by_a_map() {
    let p = PortNo;
    let e = Forward::by_map(&[(p(1), p(2)), (p(3), p(1)), (p(1), p(3))]).unwrap_err();
    assert_eq!((e.from, e.first, e.second), (p(1), p(2), p(3)));
    let f = Forward::by_map(&[(p(3), p(1)), (p(1), p(3)), (p(1), p(3)), (p(2), p(9))]).unwrap();
    let mut r = Rig::new(f, 4);
    assert_eq!(r.rx(1, &plain(1, 2)).one().port, 3);
    assert_eq!(r.rx(3, &plain(1, 2)).one().port, 1);
    // To a port that is not there; from one that is not in the map.
    assert_eq!(r.rx(2, &plain(1, 2)).only_drop(), DropReason::NoSuchPort);
    assert_eq!(r.rx(4, &plain(1, 2)).only_drop(), DropReason::NoSuchPort);
    r.ports.push(port(9));
    assert_eq!(r.rx(2, &plain(1, 2)).one().port, 9);
}

/// A switch as the textbook has it, without bounds or ageing.
#[derive(Default)]
struct Textbook(BTreeMap<(u16, MacAddr), u32>);

impl Textbook {
    fn forward(&mut self, from: u32, vlan: u16, src: MacAddr, dst: MacAddr) -> BTreeSet<u32> {
        self.0.insert((vlan, src), from);
        let all = (1..=4).filter(|p| *p != from).collect();
        if dst.is_multicast() {
            return all;
        }
        self.0.get(&(vlan, dst)).map_or(all, |p| [*p].into_iter().filter(|p| *p != from).collect())
    }
}

proptest! {
    #[test]
    fn learning_equals_the_textbook(
        steps in prop::collection::vec((1u32..5, 0u16..3, 0u8..6, 0u8..7), 1..200),
    ) {
        let mut r = Rig::new(LearningSwitch::default(), 4);
        let mut book = Textbook::default();
        for (from, vlan, src, dst) in steps {
            let dst = if dst == 6 { MacAddr::BROADCAST } else { mac(dst) };
            let tag = [VlanRepr::dot1q(vlan)];
            let bytes = frame(mac(src), dst, if vlan == 0 { &[] } else { &tag });
            let o = r.rx(from, &bytes);
            prop_assert!(o.sent.iter().all(|s| s.bytes == bytes));
            let ports: BTreeSet<u32> = o.sent.iter().map(|s| s.port).collect();
            prop_assert_eq!(ports.len(), o.sent.len());
            prop_assert_eq!(ports, book.forward(from, vlan, mac(src), dst));
        }
    }

    #[test]
    fn any_bytes_end_once(
        name in prop::sample::select(vec!["learning", "reflector", "sink", "forward"]),
        frames in prop::collection::vec(
            (1u32..7, prop::collection::vec(any::<u8>(), 0..40), 0usize..3), 0..30),
    ) {
        let mut r = Rig::with_frames(by_name(name).unwrap(), 4, 256);
        for (port, bytes, spares) in frames {
            r.spares(spares);
            let o = r.rx_as_is(port, &bytes);
            let own = |x: &Origin| *x == Origin::Received;
            let ends = o.consumed
                + o.sent.iter().filter(|s| own(&s.origin)).count()
                + o.dropped.iter().filter(|d| own(&d.1)).count();
            prop_assert_eq!(ends, 1);
        }
    }
}

#[test]
fn ethertypes_do_not_matter() {
    let mut r = Rig::new(LearningSwitch::default(), 2);
    for t in [0x0800, 0x88cc, 0x0026, 0xffff] {
        let mut out = vec![0; 64];
        let f = build::Frame::ethernet(EtherType::from(t), &[0; 46]).macs(mac(1), mac(2));
        let n = f.emit(&mut out).unwrap();
        assert_eq!(r.rx(1, &out[..n]).one().port, 2);
    }
}

/// A switch that is told something else knows who is where, as far as it has room; static entries are its own.
#[test]
fn stations_outlive_a_change_of_static_entries() {
    let mut first = LearningSwitch::default();
    first.add_static(0, mac(99), PortNo(4)).unwrap();
    let mut r = Rig::new(first, 4);
    for n in 1..=20 {
        r.now = Nanos::from_secs(n.into());
        assert_eq!(r.rx(2, &plain(n, 77)).ports(), [1, 3, 4]);
    }
    let mut next = LearningSwitch::new(LearningConfig { max_entries: 6, ..Default::default() });
    next.add_static(0, mac(98), PortNo(3)).unwrap();
    next.add_static(0, mac(20), PortNo(1)).unwrap();
    r.replace(next);
    assert_eq!(r.rx(1, &plain(50, 99)).ports(), [2, 3, 4], "no static entry any more");
    assert_eq!(r.rx(4, &plain(50, 98)).ports(), [3]);
    assert_eq!(r.rx(4, &plain(50, 20)).ports(), [1], "static, wherever it was seen");
    // The last ones; one of them made room for 50.
    assert_eq!((17..20).map(|n| r.rx(4, &plain(50, n)).ports()).collect::<Vec<_>>(), [[2]; 3]);
    assert_eq!(r.rx(4, &plain(50, 15)).ports(), [1, 2, 3]);
}

/// What was seen at a number that is another port's now was seen elsewhere.
#[test]
fn a_number_that_is_another_ports_has_learned_nothing() {
    let mut r = Rig::new(LearningSwitch::default(), 3);
    r.rx(1, &plain(1, 77));
    r.rx(2, &plain(2, 77));
    r.program.forget_port(PortNo(2));
    assert_eq!(r.rx(3, &plain(3, 2)).ports(), [1, 2]);
    assert_eq!(r.rx(3, &plain(3, 1)).ports(), [1]);
}

/// All addresses of a scan age in one moment, and are forgotten a part at each tick.
#[test]
fn a_tick_forgets_a_part_of_what_has_aged() {
    const N: u32 = 5000;
    let mut r = Rig::new(LearningSwitch::default(), 2);
    for n in 0..N {
        let [a, b, c, d] = n.to_be_bytes();
        r.rx(1, &frame(MacAddr([2, 1, a, b, c, d]), mac(1), &[]));
    }
    let expired = |r: &Rig| {
        let lines = r.program.status();
        lines.into_iter().find(|l| l.0 == "expired").unwrap().1.parse::<u32>().unwrap()
    };
    r.now = r.now + Nanos::from_secs(400);
    let parts: Vec<u32> = (0..6)
        .map(|_| {
            let before = expired(&r);
            r.pass(Nanos::from_millis(1), Nanos::from_millis(1));
            expired(&r) - before
        })
        .collect();
    assert!(parts.iter().all(|p| *p <= 1024) && parts.iter().sum::<u32>() == N, "{parts:?}");
}
