//! No allocation on the fast path, nor by programs that remember connections: counted by the
//! allocator itself.

mod plane_common;

use plane_common::*;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use weir_classify::{Field, Match};
use weir_dataplane::programs::balancer::{Backend, Balancer, BalancerConfig, Service};
use weir_dataplane::programs::firewall::{Firewall, FirewallConfig};
use weir_dataplane::programs::nat::{Nat, NatConfig, NatSide};
use weir_dataplane::programs::{Endpoint, Kind};
use weir_dataplane::*;
use weir_io::replay::{Arena, Null, Passes, Replay};
use weir_packet::{Nanos, Pool};
use weir_wire::MacAddr;
use weir_wire::tcp::Flags;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

// One test only: the counter counts the whole process.
#[test]
fn a_million_frames_allocate_nothing() {
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
        let mac = |v: u32| u128::from(0x0200_0000_0000u64 | u64::from(v));
        for d in 0..8u32 {
            let set = Action::SetField { field: Field::EthSrc, value: mac(d), mask: (1 << 48) - 1 };
            let lists: [&[Action]; 4] = [
                &[out(2)],
                &[set, Action::DecTtl, out(2)],
                &[Action::PushVlan(0x88a8), out(2), Action::PopVlan, out(2)],
                &[Action::Meter(1), Action::Group(1)],
            ];
            let band = Band { kind: BandKind::Drop, rate: 1_000_000, burst: 0 };
            p.put_meter(Vid(vid), 1, Meter::new(Unit::Packets, &[band]).unwrap()).unwrap();
            let buckets =
                vec![Bucket::new(vec![out(2)]), Bucket::new(vec![Action::DecTtl, out(2)])];
            p.put_group(Vid(vid), 1, Group::new(GroupKind::Select, buckets).unwrap()).unwrap();
            let m = Match::any().with(Field::EthDst, mac(d));
            let r = rule(m, 1, lists[(d % 4) as usize]);
            p.add_rule(Vid(vid), 0, &r, Placement::Fast).unwrap();
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
    assert_eq!(
        (used.allocations, used.reallocations, used.deallocations),
        (0, 0, 0),
        "frames that miss went through the channel, too: {} of them",
        s.vdps.iter().map(|v| v.counters.slow).sum::<u64>()
    );
    programs_allocate_nothing();
}

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 80);

/// Connections come, find the table full, are forgotten.
fn programs_allocate_nothing() {
    let firewall = FirewallConfig::between(PortNo(1), PortNo(2));
    let side = |n| NatSide { port: PortNo(n), mac: MAC };
    let nat = NatConfig::new(side(1), side(2), MAC, vec![Ipv4Addr::new(198, 51, 100, 1)]);
    let backends = vec![Backend { name: "b".to_owned(), port: PortNo(2), mac: MAC }];
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
