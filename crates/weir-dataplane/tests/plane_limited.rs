//! VDPs whose worker has promised a part of itself, judged by the long way: a data plane with a capture, which asks for every
//! frame by itself, beside one without, which may grant a burst at once. What was promised makes limits, which change with
//! every interval; frames meet rules of all prices, in one table or several, behind lookups that are charged for and ones that are not. The same
//! frames come out, the same are dropped, and everybody is charged the same.

mod plane_frames;

use plane_frames::{ACTIONS, MATCHES, actions, frame, matcher, matching, one_by_one, source_of};
use proptest::prelude::*;
use std::sync::mpsc::Receiver;
use weir_classify::{Field, Match};
use weir_dataplane::flowtext::{NoNames, parse_flows};
use weir_dataplane::*;
use weir_io::replay::{Collect, Collected, Passes};
use weir_packet::*;

/// What rules do that cost more than [`ACTIONS`].
const DEAR: [&str; 4] = [
    "goto_table:1",
    "dec_ttl,goto_table:1",
    "meter:1,output:3",
    "set_field:1->nw_ecn,set_field:5->ip_dscp,mod_dl_dst:02:00:00:00:00:0c,dec_ttl,output:4",
];

/// Matches that no frame fits, under masks that lookups have to go through one by one.
const STRANGE: [&str; 12] = [
    "udp,tp_src=N",
    "tcp,tp_dst=N",
    "ip,nw_src=203.0.N.0/24",
    "ip,nw_dst=203.0.113.N",
    "ip,nw_src=198.51.N.1,nw_dst=203.0.0.0/16",
    "ipv6,ipv6_dst=2001:db8:N::/48",
    "ipv6,ipv6_src=2001:db8::N",
    "dl_src=fe:00:00:00:00:N",
    "dl_dst=fe:N:00:00:00:00/ff:ff:00:00:00:00",
    "metadata=N",
    "tun_id=N",
    "tcp,tp_src=N,nw_dst=203.0.113.0/24",
];

/// A VDP: its promise, whether its lookups are dear, its rules and its default.
#[derive(Clone, Debug)]
struct Lan {
    permille: u16,
    dear: bool,
    rules: Vec<(u8, usize, usize)>,
    default: usize,
}

struct Case {
    plane: DataPlane,
    out: Vec<Collected>,
    /// While it is there, frames are looked at one by one.
    _capture: Option<Receiver<Captured>>,
}

fn does(n: usize) -> Vec<Action> {
    match DEAR.get(n) {
        Some(list) => {
            parse_flows(&format!("ip,actions={list}"), &NoNames).unwrap()[0].actions.clone()
        }
        None => actions((n - DEAR.len()) % ACTIONS.len()),
    }
}

/// Two ports whose frames come over and over, which are a VDP's each, or two VDPs' by their VLAN.
fn case(frames: &[Vec<u8>], lans: &[Lan], by_port: bool, long: bool) -> Case {
    let mut plane = DataPlane::new(Config::default()).unwrap();
    let mut ids = Vec::new();
    for name in ["in", "in2"] {
        ids.push(source_of(&mut plane, name, frames, Passes::Forever));
    }
    let mut out = Vec::new();
    for name in ["out", "out2"] {
        let (device, kept) = Collect::new(name, usize::MAX);
        ids.push(plane.add_port(name, Box::new(device)).unwrap());
        out.push(kept);
    }
    for (i, lan) in lans.iter().enumerate() {
        let vid = Vid(i as u16 + 1);
        let mut spec = VdpSpec::new(vid, &format!("lan{i}"));
        spec.ports = (1..).map(PortNo).zip(ids.iter().copied()).collect();
        let takes = match by_port {
            true => Match::any().with(Field::InPort, ids[i].0.into()),
            false => matching(["dl_vlan=1", "vlan_tci=0/0x1000"][i]),
        };
        spec.mapping = vec![MappingRule { matcher: takes, priority: 1 }];
        spec.cpu_permille = lan.permille;
        spec.default = does(DEAR.len() + lan.default);
        plane.create_vdp(spec).unwrap();
        let band = Band { kind: BandKind::Drop, rate: 1, burst: 40 };
        plane.put_meter(vid, 1, Meter::new(Unit::Packets, &[band]).unwrap()).unwrap();
        let mut put = |table, matcher, priority, actions: Vec<Action>| {
            let rule = RuleSpec { matcher, priority, cookie: 0, actions: actions.into() };
            plane.add_rule(vid, table, &rule, Placement::Fast).unwrap();
        };
        for (n, &(table, m, a)) in lan.rules.iter().enumerate() {
            let list = if table > 0 { does(DEAR.len() + a) } else { does(a) };
            put(table, matcher(m), 1000 - n as u32, list);
        }
        for n in 0..if lan.dear { 12 * STRANGE.len() } else { 0 } {
            let value = (20 + n / STRANGE.len()).to_string();
            put(
                0,
                matching(&STRANGE[n % STRANGE.len()].replace('N', &value)),
                1,
                vec![Action::Drop],
            );
        }
    }
    let _capture = long.then(|| one_by_one(&mut plane));
    Case { plane, out, _capture }
}

/// All that is to be equal, and how many frames were too many for somebody's part.
fn seen(c: &mut Case, lans: usize) -> (String, u64) {
    for i in 1..60 {
        c.plane.poll(Nanos(i * 70_000));
    }
    let s = c.plane.snapshot();
    s.check().unwrap();
    let (mut told, mut exceeded) = (format!("{:?}\n", s.unmapped), 0);
    s.ports.iter().for_each(|p| told += &format!("{:?}\n", p.counters));
    for vid in (1..=lans as u16).map(Vid) {
        let v = c.plane.vdp_view(vid).unwrap();
        exceeded += v.counters.dropped.get(DropReason::CpuShare);
        told += &format!("{:?} {:?} work {}\n", v.counters, v.port_counters, v.work);
        told += &format!("{:?}\n", c.plane.table_counters(vid).unwrap());
        told += &format!("{:?}\n", c.plane.meter_counters(vid, 1).unwrap());
    }
    c.out.iter().for_each(|o| told += &format!("{:?}\n", o.take()));
    (told, exceeded)
}

fn judge(frames: &[Vec<u8>], lans: &[Lan], by_port: bool) -> Result<u64, TestCaseError> {
    let (short, n) = seen(&mut case(frames, lans, by_port, false), lans.len());
    let (long, _) = seen(&mut case(frames, lans, by_port, true), lans.len());
    prop_assert_eq!(short, long, "{:?} by port: {}", lans, by_port);
    Ok(n)
}

/// Where half of the worker is promised to who has less to do, the other is held to the rest, and both are charged for lookups.
#[test]
fn a_promise_makes_limits() {
    let flood = |dear| Lan { permille: 0, dear, rules: vec![(0, 2, 5)], default: 0 };
    let promised = Lan { permille: 700, dear: false, rules: vec![(0, 2, 4)], default: 0 };
    let frames: Vec<_> = (0..100).map(|i| frame((1, u8::from(i % 5 > 0), 0, 9, 0))).collect();
    let mut exceeded = [0, 0];
    for (n, dear) in exceeded.iter_mut().zip([false, true]) {
        *n = judge(&frames, &[flood(dear), promised.clone()], false).unwrap();
    }
    // Where half of the frames meet the default, which costs more than any rule, it is what bursts must have room for.
    let half = Lan { permille: 0, dear: false, rules: vec![(0, 3, 4)], default: ACTIONS.len() - 1 };
    let frames: Vec<_> =
        (0..97).map(|i| frame((1 + i % 2, u8::from(i % 5 > 0), 0, 9, 0))).collect();
    assert!(judge(&frames, &[half, promised], false).unwrap() > 100);
    assert!(exceeded[0] > 100, "{exceeded:?} frames were too many");
    assert!(exceeded[1] > exceeded[0], "{exceeded:?}: dear lookups are charged for");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn what_is_granted_at_once_is_what_is_granted_one_by_one(
        frames in prop::collection::vec((1u8..4, 0u8..3, 0u8..8, 0u8..4, prop::sample::select(vec![0usize, 0, 0, 50])), 1..90),
        lans in prop::collection::vec((
            prop::sample::select(vec![0u16, 100, 400, 800]),
            any::<bool>(),
            prop::collection::vec((0u8..2, 0..MATCHES.len(), 0..DEAR.len() + ACTIONS.len()), 0..8),
            0..ACTIONS.len(),
        ), 2),
        by_port in any::<bool>(),
    ) {
        let mut left = 1000;
        let frames: Vec<_> = frames.into_iter().map(frame).collect();
        let lans: Vec<_> = lans
            .into_iter()
            .map(|(permille, dear, rules, default)| {
                let permille = permille.min(left);
                left -= permille;
                Lan { permille, dear, rules, default }
            })
            .collect();
        judge(&frames, &lans, by_port)?;
    }
}
