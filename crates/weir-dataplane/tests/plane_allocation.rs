//! No allocation on the fast path, counted by the allocator itself.

mod plane_common;

use plane_common::*;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::sync::Arc;
use weir_classify::{Field, Match};
use weir_dataplane::*;
use weir_io::replay::{Arena, Null, Passes, Replay};
use weir_packet::Nanos;

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
}
