//! Bursts of several VDPs, judged by the long way: a data plane with a capture, which takes every frame through the
//! stages one by one, beside one without. Mapping rules look at little or at much; VDPs have own numbers for ports, own
//! fields, guards, another path. The same frames bring out the same bytes in the same order and the same counters.

mod plane_frames;

use plane_frames::{
    ACTIONS, GUARDS, MATCHES, actions, frame, guard, matcher, matching, one_by_one, own, source,
};
use proptest::prelude::*;
use std::sync::mpsc::Receiver;
use weir_classify::{Field, Match};
use weir_dataplane::*;
use weir_io::replay::{Collect, Collected};
use weir_packet::*;

/// What mapping rules of a data plane look at: rows that are looked up in different ways.
const MAPPINGS: [&[&str]; 7] = [
    &["dl_vlan=1", "dl_vlan=2", "vlan_tci=0/0x1fff"],
    &["dl_vlan=1", "vlan_tci=0x1000/0x1000", "priority=1"],
    &["in_port=1", "in_port=2", "in_port=3"],
    &["in_port=1,dl_vlan=1", "dl_vlan=2", "in_port=2"],
    &["dl_dst=02:00:00:00:00:01", "dl_dst=02:00:00:00:00:02", "dl_vlan=1"],
    &["udp,tp_dst=1", "dl_type=0x8847", "arp"],
    &["ipv6,ipv6_src=303::/16", "udp,tp_dst=1", "ip"],
];

/// What is special about a VDP, nothing and [`GUARDS`] among it.
const SPECIAL: u8 = 8 + GUARDS.len() as u8;

/// Of a VDP: its mapping rule, its rules, its default, whether it hears of TTLs, what is special about it.
type Lan = (usize, Vec<(usize, usize)>, usize, bool, u8);

struct Case {
    plane: DataPlane,
    out: Vec<Collected>,
    /// While it is there, frames are looked at one by one.
    _capture: Option<Receiver<Captured>>,
}

fn mapping(row: usize, lan: usize, which: usize) -> MappingRule {
    MappingRule { matcher: matching(MAPPINGS[row][which]), priority: 9 - lan as u32 }
}

fn case(frames: &[Vec<u8>], row: usize, lans: &[Lan], long: bool) -> Case {
    let mut plane = DataPlane::new(Config::default()).unwrap();
    let mut ids = Vec::new();
    // Two ports by which the same frames come, one after the other.
    for name in ["in", "in2"] {
        ids.push(source(&mut plane, name, frames));
    }
    let mut out = Vec::new();
    for name in ["out", "out2"] {
        let (device, kept) = Collect::new(name, usize::MAX);
        ids.push(plane.add_port(name, Box::new(device)).unwrap());
        out.push(kept);
    }
    for (i, (which, rules, default, told, special)) in lans.iter().enumerate() {
        let vid = Vid(i as u16 + 1);
        let mut spec = VdpSpec::new(vid, &format!("lan{i}"));
        // Each has other numbers for its ports.
        let no = |n: usize| PortNo((n + i) as u32 % 4 + 1);
        spec.ports = ids.iter().enumerate().map(|(n, id)| (no(n), *id)).collect();
        spec.mapping = vec![mapping(row, i, *which)];
        spec.default = actions(*default);
        if matches!(special, 4 | 5) {
            spec.fields = own();
        }
        if *special == 5 {
            let matcher = UserFields::demand(Match::any(), Field::User0, 2, 0xff);
            spec.mapping.push(MappingRule { matcher, priority: 19 - i as u32 });
        }
        plane.create_vdp(spec).unwrap();
        for (n, &(m, a)) in rules.iter().enumerate() {
            let (matcher, priority) = (matcher(m), 100 - n as u32);
            let rule = RuleSpec { matcher, priority, cookie: 0, actions: actions(a).into() };
            plane.add_rule(vid, 0, &rule, Placement::Fast).unwrap();
        }
        if *told {
            plane.set_invalid_ttl(vid, InvalidTtl::Controller(128)).unwrap();
        }
        match special {
            4 => {
                let matcher = UserFields::demand(Match::any(), Field::User0, 1, 0xff);
                let rule =
                    RuleSpec { matcher, priority: 200, cookie: 0, actions: actions(1).into() };
                plane.add_rule(vid, 0, &rule, Placement::Fast).unwrap();
            }
            6 => plane.migrate(vid, Path::Slow).unwrap(),
            7 => plane.set_cpu(vid, 300).unwrap(),
            _ => guard(&mut plane, vid, (*special).saturating_sub(8).into()),
        }
    }
    let _capture = long.then(|| one_by_one(&mut plane));
    Case { plane, out, _capture }
}

/// All that is to be equal. `moved`: after the first burst, this VDP has this mapping rule.
fn seen(c: &mut Case, row: usize, lans: &[Lan], moved: (usize, usize)) -> String {
    let mut told = String::new();
    for i in 1..20 {
        c.plane.poll(Nanos(i * 300_000));
        if i == 1 {
            let (lan, to) = (moved.0 % lans.len(), moved.1);
            let (vid, had) = (Vid(lan as u16 + 1), mapping(row, lan, lans[lan].0));
            c.plane.remove_mapping(vid, &had).unwrap();
            c.plane.add_mapping(vid, &mapping(row, lan, to)).unwrap();
        }
    }
    let s = c.plane.snapshot();
    s.check().unwrap();
    told += &format!("{:?}\n", s.unmapped);
    s.ports.iter().for_each(|p| told += &format!("{:?}\n", p.counters));
    for (i, (_, rules, ..)) in lans.iter().enumerate() {
        let vid = Vid(i as u16 + 1);
        let v = c.plane.vdp_view(vid).unwrap();
        told += &format!("{vid:?} {:?} {:?} {:?}\n", v.counters, v.port_counters, v.elsewhere);
        told += &format!("{:?}\n", c.plane.table_counters(vid).unwrap());
        for (n, &(m, _)) in rules.iter().enumerate() {
            let rule = c.plane.rule_ref(vid, 0, &matcher(m), 100 - n as u32).unwrap();
            let mut usage = Vec::new();
            c.plane.usage(vid, &[rule], &mut usage).unwrap();
            told += &format!("{usage:?}\n");
        }
    }
    c.out.iter().for_each(|o| told += &format!("{:?}\n", o.take()));
    told
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn what_is_done_in_bursts_of_many_is_what_is_done_one_by_one(
        frames in prop::collection::vec((1u8..4, 0u8..3, 0u8..8, 0u8..4, 0usize..50), 1..150),
        whole in prop::sample::select(vec![true, true, false]),
        row in 0..MAPPINGS.len(),
        lans in prop::collection::vec((
            0usize..3,
            prop::collection::vec((0..MATCHES.len(), 0..ACTIONS.len()), 0..5),
            0..ACTIONS.len(),
            prop::sample::select(vec![true, false, false, false]),
            0u8..SPECIAL,
        ), 1..4),
        alike in any::<bool>(),
        moved in (0usize..3, 0usize..3),
    ) {
        let cut = |f: (u8, u8, u8, u8, usize)| if whole { (f.0, f.1, f.2, f.3, 0) } else { f };
        let frames: Vec<_> = frames.into_iter().map(|f| frame(cut(f))).collect();
        let mut lans = lans;
        // Now and then nothing is special and everything leaves by one port, so that bursts stay whole.
        if alike {
            for (i, (_, rules, default, told, special)) in lans.iter_mut().enumerate() {
                (*default, *told, *special) = ([0, 2, 1][(i + 2) % 3], false, if *special < 8 { 0 } else { *special });
                rules.iter_mut().for_each(|(_, a)| *a = if *a % 2 == 0 { *default } else { *a });
            }
        }
        let mut short = case(&frames, row, &lans, false);
        let mut long = case(&frames, row, &lans, true);
        let (short, long) = (seen(&mut short, row, &lans, moved), seen(&mut long, row, &lans, moved));
        prop_assert_eq!(short, long, "under {:?}, mapped by {:?}", lans, MAPPINGS[row]);
    }
}

/// What chance comes to seldom: bursts of frames that would all leave by one port.
#[test]
fn ports_hold_bursts_that_stay_whole() {
    let frames: Vec<_> = (0..70).map(|i| frame((1 + i % 3, 1, i % 8, i % 4, 0))).collect();
    for (guards, asked) in GUARDS.iter().enumerate() {
        for (action, does) in ACTIONS.iter().enumerate() {
            let lans = [(0, vec![(2, action)], 3, false, 8 + guards as u8)];
            let [short, long] = [false, true]
                .map(|long| seen(&mut case(&frames, 0, &lans, long), 0, &lans, (0, 0)));
            assert_eq!(short, long, "under {does:?}, {asked}");
        }
    }
}
