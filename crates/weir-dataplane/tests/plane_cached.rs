//! Winners of flows that are remembered, judged by a data plane that remembers none: rules of many masks, few flows,
//! rules that come, change and go while frames flow. The same frames come out, and the same is counted, where rules
//! are the first table's and where they are a later one's.

use proptest::prelude::*;
use std::sync::Arc;
use weir_classify::{FlowCaching, Match};
use weir_dataplane::flowtext::{NoNames, parse_flows};
use weir_dataplane::*;
use weir_io::replay::{Arena, Collect, Collected, Passes, Replay};
use weir_packet::*;

/// A rule's match, and whether it sends by one port or the other.
type Written = (u8, u8, u8, u8, bool);

fn matcher(&(from, to, wide, port, _): &Written) -> Match {
    let (a, b) = (24 + wide % 9, 24 + wide / 9 % 9);
    let text = match port {
        0..3 => format!(
            "udp,nw_src=10.0.0.{from}/{a},nw_dst=11.0.0.{to}/{b},tp_dst={port},actions=drop"
        ),
        _ => format!("ip,nw_src=10.0.0.{from}/{a},nw_dst=11.0.0.{to}/{b},actions=drop"),
    };
    parse_flows(&text, &NoNames).unwrap().remove(0).matcher
}

fn actions(&(.., other): &Written) -> Arc<[Action]> {
    let no = PortNo(if other { 3 } else { 2 });
    Arc::new([Action::Output(Out::Port(no))])
}

fn frame((from, to, port): (u8, u8, u8)) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    f.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, from, 11, 0, 0, to]);
    f.extend([0, 9, 0, port, 0, 8, 0, 0]);
    f.resize(60, 0);
    f
}

struct Case {
    plane: DataPlane,
    out: Vec<Collected>,
    /// The rules'.
    table: u8,
}

impl Case {
    fn new(frames: &[(u8, u8, u8)], vlans: bool, table: u8, flow_caching: FlowCaching) -> Self {
        let mut plane = DataPlane::new(Config { flow_caching, ..Config::default() }).unwrap();
        let mut arena = Arena::new();
        frames.iter().for_each(|f| assert!(arena.push(&frame(*f), None, 1)));
        let source = Replay::new("in", Arc::new(arena), Passes::Forever);
        let mut ids = vec![plane.add_port("in", Box::new(source)).unwrap()];
        let mut out = Vec::new();
        for name in ["out", "out2"] {
            let (device, kept) = Collect::new(name, usize::MAX);
            ids.push(plane.add_port(name, Box::new(device)).unwrap());
            out.push(kept);
        }
        let mut spec = VdpSpec::new(Vid(1), "cached");
        spec.ports = (1..).map(PortNo).zip(ids.iter().copied()).collect();
        // By the port: a burst is one VDP's. By more: it may be several'.
        let text = if vlans { "vlan_tci=0/0x1000,actions=drop" } else { "in_port=1,actions=drop" };
        let matcher = parse_flows(text, &NoNames).unwrap().remove(0).matcher;
        spec.mapping = vec![MappingRule { matcher, priority: 1 }];
        spec.default = vec![Action::Output(Out::Port(PortNo(2)))];
        plane.create_vdp(spec).unwrap();
        if table > 0 {
            let actions = Arc::new([Action::Goto(table)]);
            let all = RuleSpec { matcher: Match::any(), priority: 1, cookie: 0, actions };
            plane.add_rule(Vid(1), 0, &all, Placement::Fast).unwrap();
        }
        Self { plane, out, table }
    }
    fn put(&mut self, w: &Written, priority: u32) {
        let rule = RuleSpec { matcher: matcher(w), priority, cookie: 0, actions: actions(w) };
        self.plane.add_rule(Vid(1), self.table, &rule, Placement::Fast).unwrap();
    }
    fn seen(&mut self, rules: &[Written]) -> String {
        let s = self.plane.snapshot();
        s.check().unwrap();
        let mut told = format!("{:?}", self.plane.table_counters(Vid(1)).unwrap());
        for (n, w) in rules.iter().enumerate() {
            if let Some(rule) = self.plane.rule_ref(Vid(1), self.table, &matcher(w), n as u32 % 7) {
                let mut usage = Vec::new();
                self.plane.usage(Vid(1), &[rule], &mut usage).unwrap();
                told += &format!("{usage:?}\n");
            }
        }
        self.out.iter().for_each(|o| told += &format!("{:?}\n", o.take()));
        told
    }
}

fn written() -> impl Strategy<Value = Written> {
    (0u8..8, 0u8..8, 0u8..81, 0u8..4, any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn what_is_remembered_is_what_is_looked_up(
        rules in prop::collection::vec(written(), 0..200),
        frames in prop::collection::vec((0u8..8, 0u8..8, 0u8..4), 1..200),
        changes in prop::collection::vec((any::<bool>(), written(), 0usize..400, 1u8..60), 1..8),
        vlans in any::<bool>(),
        table in 0u8..2,
    ) {
        let mut with = Case::new(&frames, vlans, table, FlowCaching::After(1));
        let mut without = Case::new(&frames, vlans, table, FlowCaching::Never);
        // Of many masks in any case, so that lookups are dear.
        let many = (0..180u8).map(|i| (i % 8, i / 8 % 8, i.wrapping_mul(5) % 81, i % 4, i % 2 == 0));
        let mut rules: Vec<Written> = many.chain(rules).collect();
        for c in [&mut with, &mut without] {
            rules.iter().enumerate().for_each(|(n, w)| c.put(w, n as u32 % 7));
        }
        let mut at = 0;
        for (add, w, n, rounds) in changes {
            for c in [&mut with, &mut without] {
                (0..u64::from(rounds)).for_each(|i| _ = c.plane.poll(Nanos(at + i * 3000)));
            }
            at += u64::from(rounds) * 3000;
            let held = |c: &Case| c.plane.vdp_view(Vid(1)).unwrap().memory_bytes;
            // A line for each of thousands of flows; the tables' own memory differs a little by their seeds.
            prop_assert!(held(&with) > held(&without) + 60 * 4096, "nothing is remembered");
            prop_assert_eq!(with.seen(&rules), without.seen(&rules));
            let gone = rules[n % rules.len()];
            for c in [&mut with, &mut without] {
                if add {
                    c.put(&w, rules.len() as u32 % 7);
                } else {
                    let priority = (n % rules.len()) as u32 % 7;
                    let _ = c.plane.remove_rule(Vid(1), table, &matcher(&gone), priority);
                }
            }
            if add {
                rules.push(w);
            }
        }
    }
}
