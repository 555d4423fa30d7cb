//! A crew brings out what one worker brings out, whoever is polled when.

use crate::rig::*;
use proptest::prelude::*;
use weir_dataplane::*;

const RULES: [&str; 10] = [
    "dl_dst=02:00:00:00:00:00,actions=output:2",
    "dl_dst=02:00:00:00:00:01,actions=output:3",
    "dl_dst=02:00:00:00:00:02,actions=drop",
    "priority=7,ip,nw_src=10.0.0.0/30,actions=dec_ttl,output:2",
    "priority=9,ip,nw_src=10.0.0.5,actions=mod_dl_src:02:00:00:00:00:aa,output:3",
    "priority=3,ip,actions=output:2,output:3",
    "priority=2,in_port=1,actions=output:3",
    "priority=4,ip,nw_proto=253,actions=all",
    "priority=8,ip,nw_src=10.0.0.8/29,actions=push_vlan:0x8100,set_field:4101->vlan_vid,output:2",
    "priority=1,actions=in_port",
];

/// What came out by the two ports, and what was counted, rule by rule.
struct Seen {
    out: [std::collections::BTreeMap<u32, Vec<Vec<u8>>>; 2],
    counted: String,
}

/// Frames in portions; before each portion but the first a rule is added, or removed if it is there. `turns` says who is
/// polled before everything settles.
fn seen(workers: usize, portions: &[(Vec<u32>, usize)], turns: &[usize]) -> Seen {
    let mut arena = Vec::new();
    let all: Vec<u32> = portions.iter().flat_map(|(f, _)| f.clone()).collect();
    let frames = frames(&all);
    // A source that gives a portion when it is asked for.
    let mut at = 0;
    for (flows, _) in portions {
        arena.push(frames[at..at + flows.len()].to_vec());
        at += flows.len();
    }
    let (out2, kept2) = sink("out2");
    let (out3, kept3) = sink("out3");
    let (feed, source) = std::sync::mpsc::channel();
    let mut rig = Rig::new(workers, vec![Box::new(Fed::new(source)), out2, out3]);
    rig.vdp(&[Action::Drop]);
    let mut there: Vec<usize> = Vec::new();
    let mut used = String::new();
    for ((_, change), frames) in portions.iter().zip(arena) {
        let rule = rule_of(RULES[*change]);
        if let Some(i) = there.iter().position(|r| r == change) {
            there.remove(i);
            // Who counted for a rule that goes has told before.
            used += &usage(&rig, *change);
            rig.change(|p| {
                p.remove_rule(Vid(1), 0, &rule.matcher, rule.priority).unwrap();
            });
        } else {
            there.push(*change);
            rig.change(|p| {
                p.add_rule(Vid(1), 0, &rule, Placement::Fast).unwrap();
            });
        }
        frames.into_iter().for_each(|f| feed.send(f).unwrap());
        turns.iter().for_each(|t| _ = rig.poll(t % workers));
        rig.settle();
    }
    there.iter().for_each(|r| used += &usage(&rig, *r));
    let s = rig.snapshot();
    let v = s.vdps.iter().find(|v| v.vid == Vid(1)).unwrap();
    let mut counted =
        format!("{:?} {:?} {:?} {}\n", v.counters, v.port_counters, v.elsewhere, v.rules);
    s.ports.iter().for_each(|p| counted += &format!("{:?} {:?}\n", p.counters, p.device_counters));
    let tables: Vec<_> =
        rig.planes.iter().flat_map(|p| p.table_counters(Vid(1)).unwrap()).collect();
    let sum = |f: &dyn Fn(&TableCounters) -> u64| tables.iter().map(f).sum::<u64>();
    counted += &format!("{} {} {used}", sum(&|t| t.lookups), sum(&|t| t.matched));
    Seen { out: [by_flow(&kept2), by_flow(&kept3)], counted }
}

fn usage(rig: &Rig, rule: usize) -> String {
    let r = rule_of(RULES[rule]);
    let mut sum = Tally::default();
    let mut refs = Vec::new();
    for p in &rig.planes {
        let at = p.rule_ref(Vid(1), 0, &r.matcher, r.priority).unwrap();
        let mut used = Vec::new();
        p.usage(Vid(1), &[at], &mut used).unwrap();
        sum.merge(used[0].tally());
        refs.push(at);
    }
    // Replicas keep a rule at the same place: one name does for all.
    assert!(refs.iter().all(|r| *r == refs[0]));
    format!("{rule}: {sum:?}\n")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn a_crew_does_what_one_worker_does(
        workers in 2usize..5,
        portions in prop::collection::vec(
            (prop::collection::vec(0u32..40, 1..200), 0..RULES.len()), 1..6),
        turns in prop::collection::vec(0usize..4, 0..30),
    ) {
        let one = seen(1, &portions, &turns);
        let crew = seen(workers, &portions, &turns);
        for (o, c) in one.out.iter().zip(&crew.out) {
            prop_assert_eq!(o, c);
        }
        prop_assert_eq!(one.counted, crew.counted);
    }
}

#[test]
fn frames_of_many_flows_are_every_workers() {
    let flows: Vec<u32> = (0..4000).map(|n| n % 500).collect();
    let (out, kept) = sink("out");
    let mut rig = Rig::new(4, vec![source(&frames(&flows)), out]);
    rig.vdp(&[Action::Output(Out::Port(PortNo(2)))]);
    rig.change(|p| {
        let rule = rule_of("priority=1,actions=output:2");
        p.add_rule(Vid(1), 0, &rule, Placement::Fast).unwrap();
    });
    rig.settle();
    for p in &rig.planes {
        let got = p.vdp_view(Vid(1)).unwrap().counters.received.frames;
        assert!((600..=1400).contains(&got), "{got} of 4000");
    }
    assert_eq!(kept.len(), 4000);
}
