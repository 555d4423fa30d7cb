//! What a VDP costs in memory: everything that a data plane allocates for one more, counted by the
//! allocator itself.

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use weir_dataplane::flowtext::{NoNames, parse_flows};
use weir_dataplane::*;
use weir_io::replay::Null;
use weir_packet::Nanos;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const RULES: usize = 16;
/// Tables of what all VDPs share double: from one power of two to the next they have doubled once.
const VDPS: u16 = 512;

/// Makes VDPs `from..to`: two ports, mapped by their VLAN, a rule for each of sixteen stations.
fn fill(p: &mut DataPlane, ports: [weir_packet::PortId; 2], from: u16, to: u16) {
    for vid in from..to {
        let text: String = (0..RULES)
            .map(|i| {
                format!(
                    "dl_dst=02:00:00:{:02x}:{:02x}:{i:02x},actions=output:2\n",
                    vid >> 8,
                    vid & 255
                )
            })
            .collect();
        let by_vlan =
            parse_flows(&format!("dl_vlan={vid},actions=drop"), &NoNames).expect("a match");
        let mut spec = VdpSpec::new(Vid(vid), &format!("vdp{vid}"));
        spec.ports = vec![(PortNo(1), ports[0]), (PortNo(2), ports[1])];
        spec.mapping = vec![MappingRule { matcher: by_vlan[0].matcher, priority: 1 }];
        spec.default = vec![Action::Drop];
        p.create_vdp(spec).expect("a VDP");
        for f in parse_flows(&text, &NoNames).expect("rules") {
            let (priority, cookie) = (f.priority.into(), 0);
            let rule = RuleSpec { matcher: f.matcher, priority, cookie, actions: f.actions.into() };
            p.add_rule(Vid(vid), 0, &rule, Placement::Fast).expect("a rule");
        }
    }
    (0..64).for_each(|i| _ = p.poll(Nanos(3000 * i)));
}

#[test]
fn a_vdp_of_sixteen_rules_takes_at_most_4_kib() {
    let mut p = DataPlane::new(Config::default()).expect("a data plane");
    let ports = ["in", "out"].map(|n| p.add_port(n, Box::new(Null::new(n))).expect("a port"));
    fill(&mut p, ports, 1, VDPS);
    let region = Region::new(ALLOCATOR);
    fill(&mut p, ports, VDPS, 2 * VDPS);
    let c = region.change();
    let live = c.bytes_allocated as isize - c.bytes_deallocated as isize;
    let each = live / VDPS as isize;
    println!("{each} bytes");
    assert!(each <= 4096, "{each} bytes: {c:?}");
}
