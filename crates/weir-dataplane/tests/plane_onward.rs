//! Rules that send frames on through several tables, judged by the long way: a data plane with a capture, which takes every
//! frame through the stages one by one, beside one without. Frames are changed on their way, so that later tables see what
//! earlier ones made, and come to meters; what tables do beside that (groups, copies, action sets, controllers) is mixed in. The same
//! bytes come out in the same order, with the same counters, and controllers hear the same of the same tables.

mod plane_frames;

use plane_frames::{GUARDS, MATCHES, frame, guard, matching, one_by_one, own, ports};
use proptest::prelude::*;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use weir_classify::{Field, Match};
use weir_dataplane::flowtext::{NoNames, parse_flows};
use weir_dataplane::*;
use weir_io::replay::Collected;
use weir_packet::*;

/// What matches look at beside [`MATCHES`]: what travels with a frame, and what changes make of it.
const MORE: [&str; 7] = [
    "metadata=1/1",
    "metadata=2",
    "tun_id=5",
    "dl_dst=02:00:00:00:00:0a",
    "ip,nw_dst=10.9.8.7",
    "dl_type=0x8847,mpls_label=77",
    "ip,nw_tos=48",
];

/// What frames a rule is for (here it meets any), what it does to them, and which instructions stand behind that.
const BEFORE: [(&str, &str, &str); 44] = [
    ("ip", "", ""),
    ("ip", "", ""),
    ("ip", "", ""),
    ("ip", "", "write_metadata:1/1"),
    ("ip", "", "write_metadata:2"),
    ("ip", "set_field:5->tun_id", ""),
    ("ip", "mod_dl_dst:02:00:00:00:00:0a", ""),
    ("ip", "dec_ttl", ""),
    ("ip", "set_field:10.9.8.7->ip_dst", ""),
    ("ip", "push_vlan:0x8100,set_field:4097->vlan_vid", ""),
    ("dl_vlan=1", "strip_vlan", ""),
    ("ip", "push_mpls:0x8847,set_field:77->mpls_label", ""),
    ("dl_type=0x8847", "pop_mpls:0x0800", ""),
    ("ip", "mod_dl_dst:02:00:00:00:00:02", "write_metadata:3/3"),
    ("ip", "meter:1", ""),
    ("ip", "meter:2", ""),
    ("ip", "meter:3", ""),
    ("ip", "meter:4", ""),
    ("ip", "meter:2", "write_metadata:1/1"),
    ("ip", "meter:3,mod_dl_dst:02:00:00:00:00:0a", ""),
    ("ip", "meter:4,dec_ttl", ""),
    ("ip", "meter:4,set_field:10.9.8.7->ip_dst", "write_metadata:2"),
    ("ip", "meter:1,push_vlan:0x8100,set_field:4097->vlan_vid", ""),
    ("ip", TWO_METERS, ""),
    ("ip", "output:2", ""),
    ("ip", "", "write_actions(output:3)"),
    ("ip", "dec_ttl", "write_actions(output:2),write_metadata:1"),
    ("ip", "", "clear_actions"),
    ("ip", "", "write_actions(output:2)"),
    ("ip", "", "write_actions(output:1)"),
    ("ip", "", "clear_actions,write_actions(output:2)"),
    ("ip", "", "clear_actions,write_actions(dec_ttl,output:3),write_metadata:1/1"),
    ("ip", "", "write_actions(set_field:10.9.8.7->ip_dst,dec_ttl,output:2)"),
    ("ip", "mod_dl_dst:02:00:00:00:00:0a", "write_actions(push_vlan:0x8100,output:3)"),
    ("ip", "", "write_actions(group:1)"),
    ("ip", "", "write_actions(mod_dl_dst:02:00:00:00:00:0b)"),
    ("ip", "", "write_actions(mod_dl_dst:02:00:00:00:00:0b,output:3)"),
    ("ip", "", "write_actions(group:1,output:3)"),
    ("ip", "", "write_actions(group:2)"),
    ("ip", "", "write_actions(group:3,output:2)"),
    ("ip", "meter:1", "write_actions(group:3)"),
    ("ip", "", "write_actions(dec_ttl,group:4)"),
    ("ip", "meter:1", "write_actions(output:2)"),
    ("ip", "meter:4,dec_ttl", "clear_actions,write_actions(dec_ttl,output:3)"),
];

/// What the texts of rules can't say: the first of two meters, of which 3 is the second.
const TWO_METERS: &str = "meter:2,dec_ttl";

/// What becomes of frames without a rule, beside [`AFTER`].
const DEFAULT: &str = "meter:1,output:2";

const AFTER: [&str; 16] = [
    "output:2",
    "output:3",
    "output:2",
    "output:1",
    "drop",
    "CONTROLLER:100",
    "group:1",
    "output:2,output:3",
    NOTHING,
    NOTHING,
    "group:2",
    "group:3",
    "group:4",
    "group:5",
    "group:6",
    "group:7",
];

/// No instruction: where no table follows it's the action set's turn.
const NOTHING: &str = "";

/// Table, match, what is done before, and how it ends: [`AFTER`], or so many tables further.
type Line = (u8, usize, usize, usize);
const TABLES: u8 = 5;

/// All of those, one for a field of the VDP's own, and one for extension headers.
const ALL_MATCHES: usize = MATCHES.len() + MORE.len() + 2;

fn matcher(m: usize) -> Match {
    if m == ALL_MATCHES - 2 {
        return UserFields::demand(Match::any(), Field::User0, 2, 0xff);
    }
    if m == ALL_MATCHES - 1 {
        return Match::any().with(Field::EthType, 0x86dd).with(Field::Ipv6Exthdr, 1);
    }
    matching(MATCHES.get(m).or_else(|| MORE.get(m - MATCHES.len())).unwrap())
}

fn actions(table: u8, before: usize, end: usize) -> Vec<Action> {
    let (of, does, then) = BEFORE[before];
    let (last, goto) = match end.checked_sub(AFTER.len()) {
        Some(further) => ("", format!("goto_table:{}", usize::from(table) + further % 3 + 1)),
        None => (AFTER[end], String::new()),
    };
    let list = match last {
        "drop" => last.to_owned(),
        _ => [does, last, then, &goto]
            .iter()
            .filter(|p| !p.is_empty())
            .copied()
            .collect::<Vec<_>>()
            .join(","),
    };
    if list.is_empty() {
        return Vec::new();
    }
    let text = format!("table={table},{of},actions={list}");
    let rules = parse_flows(&text, &NoNames).unwrap_or_else(|e| panic!("{text}: {e}"));
    let mut actions = rules[0].actions.clone();
    if does == TWO_METERS && actions.len() > 1 {
        actions.insert(1, Action::Meter(3));
    }
    actions
}

type Heard = Arc<Mutex<Vec<String>>>;

struct Hear(Heard);

impl PuntSink for Hear {
    fn punt(&mut self, p: Punted<'_>) {
        self.0.lock().unwrap().push(format!("{p:?}"));
    }
}

struct Case {
    plane: DataPlane,
    out: Vec<Collected>,
    heard: Heard,
    /// While it is there, frames are looked at one by one.
    _capture: Option<Receiver<Captured>>,
}

/// What is the same of both.
#[derive(Debug)]
struct Told {
    frames: Vec<Vec<u8>>,
    lines: Vec<Line>,
    /// Whether the VDP is one among others, by its frames' VLAN, or has all of a port.
    lan: bool,
    default: usize,
    told: bool,
    /// What is done when rules are there, a bit each: meters put again, rules given their ports again, another default, groups put
    /// again, many of them.
    stirred: u8,
    /// Of [`GUARDS`], none if there are not so many.
    guards: usize,
}

impl Told {
    /// Of the rule in this line; the last ones are table-miss entries.
    /// The rules of a VDP, with their lines: one among others has not the first.
    fn rules(&self, vid: Vid) -> impl Iterator<Item = (usize, &Line)> {
        let first = usize::from(vid.0 > 1 && self.lines.len() > 1);
        self.lines.iter().enumerate().skip(first)
    }
    fn priority(&self, line: usize) -> u32 {
        if line + TABLES as usize > self.lines.len() && self.lines.len() > TABLES as usize {
            0
        } else {
            100 - line as u32
        }
    }
}

fn by_port(no: u32) -> Action {
    Action::Output(Out::Port(PortNo(no)))
}

/// More than are asked for in turn.
const MANY: u32 = 300;

/// Of each kind: copies, one way for all, one for each flow, the first that is up, one behind another; most with changes.
fn put_groups(plane: &mut DataPlane, vid: Vid) {
    let does = |text: &str| {
        Bucket::new(
            parse_flows(&format!("ip,actions={text}"), &NoNames).unwrap()[0].actions.clone(),
        )
    };
    let weighted = |weight, bucket| Bucket { weight, ..bucket };
    let ports = plane.vdp_view(vid).unwrap().ports;
    let watching = |no: u32, bucket| Bucket {
        watch_port: ports.iter().find(|(n, _)| n.0 == no).map(|(_, id)| id.0.into()),
        ..bucket
    };
    let changed = "mod_dl_dst:02:00:00:00:00:0a,dec_ttl,output:3";
    let groups = [
        (GroupKind::All, vec![does("output:2"), does("dec_ttl,output:3")]),
        (GroupKind::Indirect, vec![does(changed)]),
        (
            GroupKind::Select,
            vec![does("output:2"), does(changed), does("push_vlan:0x8100,output:2")],
        ),
        (
            GroupKind::FastFailover,
            vec![watching(3, does("output:3")), watching(2, does("output:2"))],
        ),
        (GroupKind::All, vec![does("output:1")]),
        (GroupKind::Indirect, vec![does("group:2")]),
        (
            GroupKind::Select,
            vec![weighted(3, does("set_field:10.9.8.7->ip_dst,output:2")), does("drop")],
        ),
    ];
    for (id, (kind, buckets)) in (1..).zip(groups) {
        plane.put_group(vid, id, Group::new(kind, buckets).unwrap()).unwrap();
    }
}

fn case(t: &Told, long: bool) -> Case {
    let mut plane = DataPlane::new(Config::default()).unwrap();
    let (ports, out) = ports(&mut plane, &t.frames);
    let mappings = match t.lan {
        true => vec![matching("dl_vlan=1"), matching("vlan_tci=0/0x1fff")],
        false => vec![Match::any().with(Field::InPort, ports[0].1.0.into())],
    };
    let heard = Heard::default();
    for (vid, mapping) in (1..).map(Vid).zip(mappings) {
        let mut spec = VdpSpec::new(vid, &format!("lan{}", vid.0));
        spec.mapping = vec![MappingRule { matcher: mapping, priority: 1 }];
        (spec.ports, spec.fields) = (ports.clone(), own());
        spec.default = match AFTER.get(t.default).unwrap_or(&DEFAULT) {
            group if group.starts_with("group") => vec![Action::ToChannel],
            &NOTHING => Vec::new(),
            end => parse_flows(&format!("ip,actions={end}"), &NoNames).unwrap()[0].actions.clone(),
        };
        plane.create_vdp(spec).unwrap();
        plane.set_punt_sink(vid, Some(Box::new(Hear(Arc::clone(&heard))))).unwrap();
        let band = |kind, burst| Band { kind, rate: 1, burst };
        let (drop, remark) = (BandKind::Drop, BandKind::DscpRemark(1));
        let of = [
            vec![band(drop, 7)],
            vec![band(drop, 12)],
            vec![band(remark, 3)],
            vec![band(remark, 1), band(drop, 20)],
        ];
        let put_meters = |plane: &mut DataPlane| {
            for (id, bands) in (1..).zip(&of) {
                plane.put_meter(vid, id, Meter::new(Unit::Packets, bands).unwrap()).unwrap();
            }
        };
        put_meters(&mut plane);
        put_groups(&mut plane, vid);
        for (n, &(table, m, before, end)) in t.rules(vid) {
            let (matcher, priority) = (matcher(m), t.priority(n));
            let actions = actions(table, before, end).into();
            let rule = RuleSpec { matcher, priority, cookie: n as u64, actions };
            plane.add_rule(vid, table, &rule, Placement::Fast).unwrap();
        }
        if t.stirred & 1 > 0 {
            // Places change.
            plane.put_meter(vid, 9, Meter::new(Unit::Packets, &[]).unwrap()).unwrap();
            put_meters(&mut plane);
        }
        if t.stirred & 8 > 0 {
            // Places change, and some have gone.
            (1..=7).for_each(|id| plane.remove_group(vid, id).unwrap());
            let bucket = Bucket::new(vec![by_port(2)]);
            plane.put_group(vid, 8, Group::new(GroupKind::All, vec![bucket]).unwrap()).unwrap();
            put_groups(&mut plane, vid);
            plane.remove_group(vid, 5).unwrap();
        }
        if t.stirred & 16 > 0 {
            for id in 100..100 + MANY {
                let bucket = Bucket::new(vec![by_port(2)]);
                let group = Group::new(GroupKind::Indirect, vec![bucket]).unwrap();
                plane.put_group(vid, id, group).unwrap();
            }
        }
        if t.stirred & 2 > 0 {
            plane.relink(vid).unwrap();
        }
        if t.stirred & 4 > 0 {
            let default = parse_flows(&format!("ip,actions={DEFAULT}"), &NoNames).unwrap();
            plane.set_default(vid, &default[0].actions).unwrap();
        }
        guard(&mut plane, vid, t.guards);
        if t.told {
            plane.set_invalid_ttl(vid, InvalidTtl::Controller(128)).unwrap();
        }
    }
    let _capture = long.then(|| one_by_one(&mut plane));
    Case { plane, out, heard, _capture }
}

/// All that is to be equal.
fn seen(c: &mut Case, t: &Told) -> String {
    for i in 1..20 {
        c.plane.poll(Nanos(i * 300_000));
    }
    let s = c.plane.snapshot();
    s.check().unwrap();
    let mut told = format!("{:?}\n", s.unmapped);
    s.ports.iter().for_each(|p| told += &format!("{:?}\n", p.counters));
    for vid in [1, 2].map(Vid).into_iter().take(if t.lan { 2 } else { 1 }) {
        let v = c.plane.vdp_view(vid).unwrap();
        told += &format!("{:?} {:?} {:?} {}\n", v.counters, v.port_counters, v.elsewhere, v.work);
        told += &format!("{:?}\n", c.plane.table_counters(vid).unwrap());
        for meter in 1..=4 {
            told += &format!("{:?}\n", c.plane.meter_counters(vid, meter).unwrap());
        }
        for group in 1..=7 {
            told += &format!("{:?}\n", c.plane.group_counters(vid, group));
        }
        for (n, &(table, m, ..)) in t.rules(vid) {
            let rule = c.plane.rule_ref(vid, table, &matcher(m), t.priority(n)).unwrap();
            let mut usage = Vec::new();
            c.plane.usage(vid, &[rule], &mut usage).unwrap();
            told += &format!("{n} {usage:?}\n");
        }
    }
    c.heard.lock().unwrap().iter().for_each(|h| told += &format!("{h}\n"));
    c.out.iter().for_each(|o| told += &format!("{:?}\n", o.take()));
    told
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn what_goes_on_at_once_is_what_goes_on_one_by_one(
        frames in prop::collection::vec((1u8..4, 0u8..3, 0u8..8, 0u8..4, 0usize..50), 1..100),
        whole in any::<bool>(),
        lines in prop::collection::vec((
            0..TABLES,
            0..ALL_MATCHES,
            0..BEFORE.len(),
            0..3 * AFTER.len(),
        ), 1..16),
        (lan, default, told) in (any::<bool>(), 0..AFTER.len(), prop::sample::select(vec![true, false, false])),
        guards in 0..2 * GUARDS.len(),
    ) {
        let cut = |f: (u8, u8, u8, u8, usize)| if whole { (f.0, f.1, f.2, f.3, 0) } else { f };
        let frames: Vec<_> = frames.into_iter().map(|f| frame(cut(f))).collect();
        let mut told = Told { frames, lines, lan, default, told, stirred: 0, guards };
        // Some rules that most frames meet, so that ways are long.
        told.lines.extend((0..TABLES - 1).map(|table| (table, 2, usize::from(table), AFTER.len())));
        judge(&told)?;
    }

    /// More meters than usual: shared between tables and not, where ways are equally long and where they are not, and beside frames
    /// that are done one by one.
    #[test]
    fn meters_take_frames_in_their_order(
        frames in prop::collection::vec((1u8..3, 0u8..3, 0u8..6, 0u8..4), 20..100),
        lines in prop::collection::vec((
            0..3u8,
            prop::sample::select(vec![0, 3, 4, 5, 6, 8, 9, 10, ALL_MATCHES - 3, ALL_MATCHES - 2]),
            prop::sample::select((0..BEFORE.len()).filter(|b| b % 7 == 0 || BEFORE[*b].1.starts_with("meter")).collect::<Vec<_>>()),
            prop::sample::select(vec![0, 0, 1, 3, 6, 8, 11, AFTER.len(), AFTER.len(), AFTER.len() + 1, AFTER.len() + 1]),
        ), 2..14),
        (lan, default, told) in (any::<bool>(), 0..AFTER.len() + 3, prop::sample::select(vec![true, false, false, false])),
        stirred in 0u8..16,
        guards in 0..2 * GUARDS.len(),
    ) {
        let frames = frames.into_iter().map(|f| frame((f.0, f.1, f.2, f.3, 0))).collect();
        judge(&Told { frames, lines, lan, default, told, stirred, guards })?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// More action sets than usual, beside meters, and what ends with them.
    #[test]
    fn action_sets_are_carried_as_far_as_one_by_one(
        frames in prop::collection::vec((1u8..3, 0u8..3, 0u8..6, 0u8..4), 20..100),
        lines in prop::collection::vec((
            0..3u8,
            prop::sample::select(vec![0, 3, 4, 5, 6, 8, 9, 10, ALL_MATCHES - 3, ALL_MATCHES - 2]),
            prop::sample::select((0..BEFORE.len()).filter(|b| b % 7 == 0 || *b == 6 || BEFORE[*b].2.contains("actions")).collect::<Vec<_>>()),
            prop::sample::select(vec![0, 3, 4, 8, 8, 8, 8, 10, 11, AFTER.len(), AFTER.len(), AFTER.len() + 1]),
        ), 2..14),
        (lan, told) in (any::<bool>(), prop::sample::select(vec![true, false, false, false])),
        guards in 0..3 * GUARDS.len(),
        stirred in prop::sample::select(vec![0, 0, 2, 8, 10, 16, 24]),
    ) {
        let frames = frames.into_iter().map(|f| frame((f.0, f.1, f.2, f.3, 0))).collect();
        let mut told = Told { frames, lines, lan, default: 0, told, stirred, guards };
        // Most frames carry a set, and come to an end.
        told.lines.push((0, 2, BEFORE.len() - 16, AFTER.len()));
        told.lines.extend((1..TABLES).map(|table| (table, 2, 0, 8)));
        judge(&told)?;
    }
}

/// What chance comes to seldom.
#[test]
fn ways_to_meters_and_groups() {
    let any = 2;
    let to = |dst: usize| 2 + dst;
    let does = |text: &str| BEFORE.iter().position(|b| b.1 == text).unwrap();
    let marked = ALL_MATCHES - 3;
    let (out, other, next, over_next) = (0, 1, AFTER.len(), AFTER.len() + 1);
    let meter = does("meter:1");
    let writes = |text: &str| BEFORE.iter().position(|b| b.2 == text).unwrap();
    let (set, more) = (writes("write_actions(output:2)"), writes("write_actions(output:1)"));
    let group = writes("write_actions(group:2)");
    let nothing = AFTER.iter().position(|a| *a == NOTHING).unwrap();
    let cases: [&[Line]; 10] = [
        // One meter at the end of ways of two lengths.
        &[(0, to(1), 0, over_next), (0, to(2), 0, next), (1, any, 0, next), (2, any, meter, out)],
        // Whoever goes to the meter by itself, and whoever comes to it behind others.
        &[(0, to(1), meter, next), (0, to(2), 0, next), (1, any, meter, out)],
        &[(0, to(1), meter, out), (0, to(2), meter, 7)],
        // In a later table beside others that want more there.
        &[(0, any, 0, next), (1, to(1), meter, 6), (1, to(2), meter, out)],
        // Behind those whose action sets are merged one by one.
        &[
            (0, to(1), set, next),
            (0, to(2), 0, next),
            (1, to(1), more, next),
            (1, to(2), 0, next),
            (2, any, meter, out),
        ],
        // Copies of frames of which no table has looked at headers.
        &[(0, to(1), 0, next), (0, to(2), 0, next), (1, any, 0, 6)],
        // Changed at the end, before the group of their action set.
        &[(0, any, group, next), (1, any, does("dec_ttl"), nothing)],
        // What a remark made, seen by the next table.
        &[(0, any, does("meter:3"), next), (1, marked, 0, out), (1, any, 0, other)],
        // Headers that no table has looked for.
        &[(0, any, does("meter:4,dec_ttl"), out)],
        &[(0, to(1), does("meter:1,push_vlan:0x8100,set_field:4097->vlan_vid"), out)],
    ];
    let frames: Vec<_> = (0..70).map(|i| frame((1 + i % 2, 0, i % 6, i % 4, 0))).collect();
    for lines in cases {
        let miss = AFTER.len();
        for (lan, default, told) in [(false, 0, false), (true, miss, false), (false, miss, true)] {
            let (lines, frames) = (lines.to_vec(), frames.clone());
            judge(&Told { frames, lines, lan, default, told, stirred: 0, guards: 0 }).unwrap();
        }
    }
}

fn judge(told: &Told) -> Result<(), TestCaseError> {
    let (mut short, mut long) = (case(told, false), case(told, true));
    let (short, long) = (seen(&mut short, told), seen(&mut long, told));
    prop_assert_eq!(short, long, "under {:?}", told);
    Ok(())
}
