//! No allocation on the fast path, nor by programs that remember connections: counted by the
//! allocator itself.

mod plane_common;

use plane_common::*;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::{Arc, Mutex, PoisonError};
use weir_classify::{Field, Match};
use weir_dataplane::programs::balancer::{Backend, Balancer, BalancerConfig, Service};
use weir_dataplane::programs::firewall::{Firewall, FirewallConfig};
use weir_dataplane::programs::nat::{Nat, NatConfig, NatSide};
use weir_dataplane::programs::{Endpoint, Kind};
use weir_dataplane::*;
use weir_io::replay::{Arena, Null, Passes, Replay};
use weir_packet::{Nanos, Pool, PortId};
use weir_wire::MacAddr;
use weir_wire::tcp::Flags;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The counter counts the whole process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn mac(v: u32) -> u128 {
    u128::from(0x0200_0000_0000u64 | u64::from(v))
}

fn outer() -> Outer {
    let ip = TunnelAddrs::V4([192, 0, 2, 1].into(), [198, 51, 100, 2].into());
    Outer { eth_src: [2; 6], eth_dst: [4; 6], ip, ttl: 64, tos: 0 }
}

/// What a VDP's eight rules do: every kind of change, of way out and of end.
fn lists(vid: u16) -> [Vec<Action>; 8] {
    let set = |f: Field, value: u128| Action::SetField { field: f, value, mask: f.full() };
    let vxlan = Action::EncapVxlan { outer: outer(), vni: 7, port: 4789 };
    let gre = Action::EncapGre {
        outer: outer(),
        key: Some(7),
        sequence: Some(1),
        checksum: GreChecksum::Present,
    };
    let tagged = vec![Action::PushVlan(0x88a8), out(2), Action::PopVlan, out(2)];
    match vid {
        1 => [
            vec![out(2)],
            vec![set(Field::EthSrc, mac(7)), Action::DecTtl, out(2)],
            tagged,
            vec![Action::Meter(1), Action::Group(1)],
            vec![Action::Group(2)],
            vec![Action::Group(3)],
            vec![Action::Mirror(PortNo(2)), Action::DecTtl, out(2)],
            vec![Action::Drop],
        ],
        2 => [
            vec![Action::PushMpls(0x8847), set(Field::MplsLabel, 77), out(2)],
            vec![Action::PushMpls(0x8847), Action::DecMplsTtl, Action::PopMpls(0x0800), out(2)],
            vec![vxlan.clone(), out(2)],
            vec![vxlan, Action::DecapVxlan, out(2)],
            vec![gre.clone(), out(2)],
            vec![gre, Action::DecapGre, out(2)],
            vec![Action::PushPbb(0x88e7), out(2), Action::PopPbb, out(2)],
            vec![set(Field::IpTtl, 1), Action::DecTtl, out(2)],
        ],
        3 => [
            vec![Action::WriteActions(vec![out(2), Action::DecTtl]), Action::Goto(1)],
            vec![Action::WriteMetadata { value: 5, mask: 7 }, Action::Goto(1)],
            vec![Action::WriteActions(vec![Action::Group(2)]), Action::Goto(1)],
            vec![Action::WriteActions(vec![out(2)]), Action::ClearActions, Action::Goto(2)],
            vec![Action::Output(Out::All)],
            vec![Action::Output(Out::InPort)],
            vec![out(1)],
            vec![Action::Output(Out::Flood)],
        ],
        // Through its queues, beyond its ceiling.
        _ => std::array::from_fn(|i| vec![Action::SetQueue(i as u32 % 3), out(2)]),
    }
}

fn group(kind: GroupKind, watched: PortId) -> Group<Vec<Action>> {
    let bucket = |actions: &[Action]| {
        let mut b = Bucket::new(actions.to_vec());
        b.watch_port = (kind == GroupKind::FastFailover).then_some(watched.0.into());
        b
    };
    Group::new(kind, vec![bucket(&[out(2)]), bucket(&[Action::DecTtl, out(2)])]).unwrap()
}

#[test]
fn a_million_frames_allocate_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut a = Arena::new();
    for i in 0..997u32 {
        a.push(&frame((i % 4 + 1) as u16, (i % 9) as u16, i, 0), None, 1);
    }
    let mut p = DataPlane::new(Config::default()).unwrap();
    let source = Replay::new("in", Arc::new(a), Passes::Forever);
    let i = p.add_port("in", Box::new(source)).unwrap();
    let o = p.add_port("out", Box::new(Null::new("out"))).unwrap();
    for vid in 1..=4u16 {
        let mut spec = vlan_vdp(vid, vid, i, o);
        spec.program = programs::by_name("forward").ok();
        p.create_vdp(spec).unwrap();
        let vid = Vid(vid);
        let band = Band { kind: BandKind::Drop, rate: 1_000_000, burst: 0 };
        p.put_meter(vid, 1, Meter::new(Unit::Packets, &[band]).unwrap()).unwrap();
        let kinds = [GroupKind::Select, GroupKind::All, GroupKind::FastFailover];
        for (kind, id) in kinds.into_iter().zip(1..) {
            p.put_group(vid, id, group(kind, o)).unwrap();
        }
        if vid.0 == 4 {
            let rate = QueueRate { min_bps: 1_000_000, max_bps: Some(200_000_000) };
            p.set_queue(vid, PortNo(2), 1, rate).unwrap();
            p.set_queue(vid, PortNo(2), 2, rate).unwrap();
            let ceiling_bps = Some(1_000_000_000);
            // Fewer than make sources wait.
            let share = PortShare { ceiling_bps, queue_frames: 64, ..PortShare::default() };
            p.set_share(vid, o, share).unwrap();
        }
        for (d, actions) in (0..).zip(lists(vid.0)) {
            let r = rule(Match::any().with(Field::EthDst, mac(d)), 1, &actions);
            p.add_rule(vid, 0, &r, Placement::Fast).unwrap_or_else(|e| panic!("{actions:?}: {e}"));
        }
        if vid.0 == 3 {
            let last = rule(Match::any(), 1, &[Action::DecTtl, out(2)]);
            p.add_rule(vid, 1, &last, Placement::Fast).unwrap();
        }
    }
    let mut clock = 0;
    let mut polls = |p: &mut DataPlane, n: u32| {
        for _ in 0..n {
            clock += 3000;
            p.poll(Nanos(clock));
        }
    };
    // The first rounds may still size a queue or two.
    polls(&mut p, 1000);
    let region = Region::new(ALLOCATOR);
    polls(&mut p, 16_000);
    let used = region.change();
    let s = p.snapshot();
    s.check().unwrap();
    assert!(s.ports[0].counters.rx.frames > 1_000_000);
    for v in s.vdps.iter().filter(|v| v.vid.0 != 0) {
        let c = &v.counters;
        assert!(c.forwarded.frames > 10_000 && c.slow > 1000, "{c:?}");
        assert!(c.dropped.total() > 1000, "{c:?}");
    }
    assert_eq!(
        (used.allocations, used.reallocations, used.deallocations),
        (0, 0, 0),
        "frames that miss went through the channel, too: {} of them",
        s.vdps.iter().map(|v| v.counters.slow).sum::<u64>()
    );
    programs_allocate_nothing();
}

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
/// The router outside, and who serves.
const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 80);

/// Connections come, find the table full, are forgotten.
fn programs_allocate_nothing() {
    let firewall = FirewallConfig::between(PortNo(1), PortNo(2));
    let side = |n| NatSide { port: PortNo(n), mac: MAC };
    let nat = NatConfig::new(side(1), side(2), OTHER, vec![Ipv4Addr::new(198, 51, 100, 1)]);
    let backends = vec![Backend { name: "b".to_owned(), port: PortNo(2), mac: OTHER }];
    let at = Endpoint::new(*SERVER.ip(), SERVER.port());
    let services = vec![Service { at, protocol: Kind::Tcp, backends }];
    let balancer = BalancerConfig::new(MAC, services);
    let all: [Box<dyn Program>; 3] = [
        Box::new(Firewall::new(&FirewallConfig { max_connections: 500, ..firewall }).unwrap()),
        Box::new(Nat::new(&NatConfig { max_mappings: 500, ..nat }).unwrap()),
        Box::new(Balancer::new(&BalancerConfig { max_connections: 500, ..balancer }).unwrap()),
    ];
    let mut pool = Pool::new(4, 2048).unwrap();
    let (mut done, mut spare, mut refused) = (VecDeque::with_capacity(4), Vec::new(), 0);
    for mut program in all {
        let mut left = 0;
        let region = Region::new(ALLOCATOR);
        for i in 0..20_000u64 {
            let mut bytes = [0; 64];
            let client = SocketAddrV4::new(Ipv4Addr::from_bits(0x0a00_0000 + i as u32 % 977), 999);
            let f = weir_wire::build::Frame::tcp_v4(client, SERVER, Flags::SYN, b"").macs(MAC, MAC);
            let n = f.emit(&mut bytes).unwrap();
            let mut frame = pool.alloc().unwrap();
            frame.copy_from(&bytes[..n]).unwrap();
            // 20,000 frames in an hour: connections end meanwhile.
            let now = Nanos::from_millis(i * 180);
            let mut cx = ProgramCx::new(Vid(1), now, &[], &mut done, &mut spare, &mut refused);
            program.frame(SlowFrame { frame, in_port: PortNo(1), why: Punt::Default }, &mut cx);
            program.tick(&mut cx);
            for d in done.drain(..) {
                left += u32::from(matches!(d.end, End::Output(_)));
                pool.free(d.frame);
            }
        }
        let used = region.change();
        let name = program.name();
        assert!(left > 1000, "{name}: {left} frames left");
        assert_eq!((used.allocations, used.reallocations, used.deallocations), (0, 0, 0), "{name}");
    }
}

/// What is promised of many VDPs: 1024 with 16 rules each take less than 256 MiB, frames and all.
#[test]
fn a_thousand_vdps_are_small() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let region = Region::new(ALLOCATOR);
    let mut p = DataPlane::new(Config::default()).unwrap();
    let i = p.add_port("in", Box::new(Null::new("in"))).unwrap();
    let o = p.add_port("out", Box::new(Null::new("out"))).unwrap();
    for vid in 1..=1024 {
        p.create_vdp(vlan_vdp(vid, vid, i, o)).unwrap();
        for d in 0..16 {
            let m = Match::any().with(Field::EthDst, mac(d));
            let set = Action::SetField {
                field: Field::EthSrc,
                value: mac(d),
                mask: Field::EthSrc.full(),
            };
            p.add_rule(Vid(vid), 0, &rule(m, 1, &[set, out(2)]), Placement::Fast).unwrap();
        }
    }
    let used = region.change();
    let bytes = used.bytes_allocated - used.bytes_deallocated;
    assert!(bytes < 256 << 20, "{} MiB", bytes >> 20);
    // The frames alone are a part of it: the counter counts.
    assert!(bytes > Config::default().frames * Config::default().chunk_bytes, "{bytes}");
}
