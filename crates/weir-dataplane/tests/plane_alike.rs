//! Bursts that are one VDP's, judged by the long way: a data plane with a capture, which takes every frame through
//! the stages one by one, beside one without. The same frames under the same rules bring out the same bytes in the
//! same order and the same counters.

mod plane_frames;

use plane_frames::{ACTIONS, GUARDS, MATCHES, actions, frame, guard, matcher, one_by_one, ports};
use proptest::prelude::*;
use std::sync::mpsc::Receiver;
use weir_classify::{Field, Match};
use weir_dataplane::*;
use weir_io::replay::Collected;
use weir_packet::*;

struct Case {
    plane: DataPlane,
    out: Vec<Collected>,
    /// While it is there, frames are looked at one by one.
    _capture: Option<Receiver<Captured>>,
}

/// Two ports by which frames come, one of them the VDP's by a mapping rule that looks at no frame.
fn case(
    frames: &[Vec<u8>],
    rules: &[(usize, usize)],
    default: usize,
    told: bool,
    guards: usize,
    long: bool,
) -> Case {
    let mut plane = DataPlane::new(Config::default()).unwrap();
    let (ports, out) = ports(&mut plane, frames);
    let mut spec = VdpSpec::new(Vid(1), "one");
    let by_port = Match::any().with(Field::InPort, ports[0].1.0.into());
    (spec.mapping, spec.ports) = (vec![MappingRule { matcher: by_port, priority: 1 }], ports);
    spec.default = actions(default);
    plane.create_vdp(spec).unwrap();
    for (i, &(m, a)) in rules.iter().enumerate() {
        let (matcher, priority) = (matcher(m), 100 - i as u32);
        let rule = RuleSpec { matcher, priority, cookie: 0, actions: actions(a).into() };
        plane.add_rule(Vid(1), 0, &rule, Placement::Fast).unwrap();
    }
    if told {
        plane.set_invalid_ttl(Vid(1), InvalidTtl::Controller(128)).unwrap();
    }
    guard(&mut plane, Vid(1), guards);
    let _capture = long.then(|| one_by_one(&mut plane));
    Case { plane, out, _capture }
}

/// All that is to be equal.
fn seen(c: &mut Case, rules: &[(usize, usize)]) -> String {
    for i in 1..20 {
        c.plane.poll(Nanos(i * 300_000));
    }
    let s = c.plane.snapshot();
    s.check().unwrap();
    let v = c.plane.vdp_view(Vid(1)).unwrap();
    let mut told = format!("{:?} {:?} {:?}\n", v.counters, v.port_counters, v.elsewhere);
    told += &format!("{:?} {:?}\n", s.unmapped, c.plane.table_counters(Vid(1)).unwrap());
    s.ports.iter().for_each(|p| told += &format!("{:?}\n", p.counters));
    for (i, &(m, _)) in rules.iter().enumerate() {
        let rule = c.plane.rule_ref(Vid(1), 0, &matcher(m), 100 - i as u32).unwrap();
        let mut usage = Vec::new();
        c.plane.usage(Vid(1), &[rule], &mut usage).unwrap();
        told += &format!("{usage:?}\n");
    }
    c.out.iter().for_each(|o| told += &format!("{:?}\n", o.take()));
    told
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn what_is_done_at_once_is_what_is_done_one_by_one(
        frames in prop::collection::vec((1u8..4, 0u8..3, 0u8..8, 0u8..4, 0usize..50), 1..150),
        whole in any::<bool>(),
        rules in prop::collection::vec((0..MATCHES.len(), 0..ACTIONS.len()), 0..5),
        default in 0..ACTIONS.len(),
        told in any::<bool>(),
        guards in 0..2 * GUARDS.len(),
    ) {
        let cut = |f: (u8, u8, u8, u8, usize)| if whole { (f.0, f.1, f.2, f.3, 0) } else { f };
        let frames: Vec<_> = frames.into_iter().map(|f| frame(cut(f))).collect();
        let mut short = case(&frames, &rules, default, told, guards, false);
        let mut long = case(&frames, &rules, default, told, guards, true);
        let (short, long) = (seen(&mut short, &rules), seen(&mut long, &rules));
        prop_assert_eq!(short, long, "under {:?}, {:?}", rules, GUARDS.get(guards));
    }
}

/// What chance comes to seldom: one rule for all frames, which look at nothing.
#[test]
fn ports_hold_what_looks_at_nothing() {
    let frames: Vec<_> = (0..70).map(|i| frame((1 + i % 3, 0, i % 8, i % 4, 0))).collect();
    for (guards, asked) in GUARDS.iter().enumerate() {
        for (action, does) in ACTIONS.iter().enumerate() {
            let rules = [(2, action)];
            let [short, long] = [false, true]
                .map(|long| seen(&mut case(&frames, &rules, 3, false, guards, long), &rules));
            assert_eq!(short, long, "under {does:?}, {asked}");
        }
    }
}
