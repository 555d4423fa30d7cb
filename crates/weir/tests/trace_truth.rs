//! The trace against the truth: random VDPs, real frames; what the trace says is what the data plane
//! then does, and tracing itself leaves everything as it was.

use std::collections::BTreeMap;
use std::path::Path as FilePath;
use weir_dataplane::flowtext::{NoNames, parse_actions, parse_flow};
use weir_dataplane::programs::by_name;
use weir_dataplane::trace::Step;
use weir_dataplane::{
    Action, Band, BandKind, Bucket, Config, DataPlane, Group, GroupKind, MappingRule, Meter, Path,
    Placement, PortNo, RuleSpec, Unit, VdpCounters, VdpSpec, Vid,
};
use weir_io::memory::{Memory, MemoryPeer, WireSize};
use weir_io::replay::Arena;
use weir_packet::{DropReason, Nanos, PortId};

/// Random data planes, and frames for each.
const PLANES: u64 = 150;
const FRAMES: u64 = 40;

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    fn of<'a>(&mut self, these: &[&'a str]) -> &'a str {
        these[self.below(these.len() as u64) as usize]
    }
}

const MATCHES: &[&str] = &[
    "",
    "ip",
    "ipv6",
    "arp",
    "tcp",
    "udp",
    "icmp6",
    "in_port=1",
    "in_port=2",
    "dl_vlan=20",
    "dl_vlan=200",
    "dl_vlan_pcp=0",
    "ip,nw_dst=10.4.0.0/16",
    "ip,nw_ttl=63",
    "tcp,tp_dst=80",
    "udp,tp_dst=5202",
    "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00",
    "ip,nw_frag=later",
    "metadata=7",
    "ip,nw_tos=184",
    "ip,nw_tos=0",
];
/// Anything goes after these.
const CHANGES: &[&str] = &[
    "mod_dl_src:02:00:00:00:aa:01",
    "mod_dl_dst:02:00:00:00:aa:02",
    "push_vlan:0x8100",
    "set_queue:3",
    "output:1",
    "output:2",
    "output:3",
    "in_port",
    "flood",
    "group:1",
    "group:2",
    "group:3",
    "group:4",
    "mirror:3",
    "channel",
    "controller:64",
    "normal",
    "local",
    "output:4",
];
/// What may be in an action set; of two of a kind the later stays.
const SET: &[&str] = &[
    "mod_dl_src:02:00:00:00:bb:01",
    "push_vlan:0x8100",
    "set_queue:3",
    "output:1",
    "output:3",
    "in_port",
    "group:1",
    "controller:64",
    "normal",
    "channel",
];
/// These need an IP match.
const IP_CHANGES: &[&str] =
    &["dec_ttl", "mod_nw_tos:184", "set_field:1->nw_ttl", "set_field:10.9.9.9->nw_dst"];
const LAST: &[&str] = &["output:2", "output:3", "flood", "normal", "channel", "group:1"];

fn rule(r: &mut Random, table: u8) -> String {
    let matcher = r.of(MATCHES);
    let mut actions: Vec<&str> = Vec::new();
    if r.below(4) == 0 {
        actions.push(r.of(&["meter:1", "meter:2"]));
    }
    for _ in 0..r.below(4) {
        actions.push(match matcher.starts_with("ip,") {
            true if r.below(2) == 0 => r.of(IP_CHANGES),
            _ => r.of(CHANGES),
        });
    }
    let set = format!("write_actions({},{})", r.of(SET), r.of(SET));
    let (clears, writes) = (r.below(6) == 0, r.below(3) == 0);
    if clears {
        actions.push("clear_actions");
    }
    if writes {
        actions.push(&set);
    }
    if table < 2 && r.below(2) == 0 {
        if r.below(2) == 0 {
            actions.push("write_metadata:7");
        }
        actions.push(if table == 0 && r.below(2) == 0 { "goto_table:1" } else { "goto_table:2" });
    } else if !(clears || writes) {
        actions.push(r.of(LAST));
    }
    if r.below(10) == 0 {
        actions = vec!["drop"];
    }
    let matcher = if matcher.is_empty() { String::new() } else { format!(",{matcher}") };
    let priority = r.below(5);
    format!("table={table},priority={priority}{matcher} actions={}", actions.join(","))
}

fn bucket(text: &str) -> Bucket<Vec<Action>> {
    let any = weir_classify::Match::any();
    Bucket::new(parse_actions(text, &NoNames, 0, &any).expect("actions"))
}

fn groups() -> [Group<Vec<Action>>; 4] {
    let group = |kind, buckets| Group::new(kind, buckets).expect("a group");
    let mut down = bucket("output:2");
    down.watch_port = Some(77);
    [
        group(GroupKind::All, vec![bucket("output:2"), bucket("push_vlan:0x88a8,output:3")]),
        group(GroupKind::Select, vec![bucket("output:2"), bucket("output:3"), bucket("drop")]),
        group(GroupKind::FastFailover, vec![down, bucket("mod_dl_src:02:00:00:00:bb:01,flood")]),
        group(GroupKind::All, vec![]),
    ]
}

struct Rig {
    plane: DataPlane,
    peers: Vec<MemoryPeer>,
    rules: Vec<String>,
}

fn rig(r: &mut Random) -> Rig {
    let mut plane = DataPlane::new(Config { frames: 2048, ..Config::default() }).expect("sizes");
    let mut peers = Vec::new();
    for i in 0..4 {
        // The last port takes no long frames.
        let max_frame_bytes = if i == 3 { 100 } else { 1600 };
        let name = format!("p{i}");
        let (d, peer) = Memory::with_peer(&name, WireSize { slots: 64, max_frame_bytes });
        plane.add_port(&name, Box::new(d)).expect("a port");
        peers.push(peer);
    }
    let mut spec = VdpSpec::new(Vid(1), "random");
    // Numbered backwards, so that the two numberings can't be taken for each other.
    spec.ports = (1..=4).map(|n| (PortNo(n), PortId(5 - n as u16))).collect();
    let everything = weir_classify::Match::any();
    spec.mapping = vec![MappingRule { matcher: everything, priority: 0 }];
    spec.path = if r.below(4) == 0 { Path::Slow } else { Path::Fast };
    if r.below(2) == 0 {
        spec.default = vec![Action::Drop];
    }
    if r.below(2) == 0 {
        spec.program = Some(by_name("learning").expect("it is there"));
    }
    plane.create_vdp(spec).expect("a VDP");
    for (id, band) in [(1, BandKind::Drop), (2, BandKind::DscpRemark(1))] {
        let bands = [Band { kind: band, rate: 1, burst: 3 }];
        let meter = Meter::new(Unit::Packets, &bands).expect("a meter");
        plane.put_meter(Vid(1), id, meter).expect("a meter");
    }
    for (id, group) in (1..).zip(groups()) {
        plane.put_group(Vid(1), id, group).expect("a group");
    }
    let mut rules = Vec::new();
    // With several tables, a rule on the slow path takes the others along.
    let mixed = r.below(4) == 0;
    for table in [0, 0, 0, 0, 1, 1, 1, 2, 2] {
        let text = rule(r, table);
        let f = parse_flow(&text, &NoNames).unwrap_or_else(|e| panic!("{text}: {e}"));
        let spec = RuleSpec {
            matcher: f.matcher,
            priority: f.priority.into(),
            cookie: 0,
            actions: f.actions.into(),
        };
        let place = if mixed && r.below(6) == 0 { Placement::Slow } else { Placement::Fast };
        plane.add_rule(Vid(1), f.table, &spec, place).unwrap_or_else(|e| panic!("{text}: {e}"));
        rules.push(text);
    }
    Rig { plane, peers, rules }
}

/// Everything that counts.
fn state(plane: &mut DataPlane, now: Nanos) -> String {
    let (fast, slow) = plane.rules(Vid(1)).expect("the VDP");
    plane.poll(now);
    let slow: Vec<_> = slow.try_iter().collect();
    let s = plane.snapshot();
    let v = s.vdps.iter().map(|v| (&v.counters, v.held)).collect::<Vec<_>>();
    s.check().expect("every frame accounted for");
    format!("{fast:?} {slow:?} {v:?}")
}

fn counters(plane: &DataPlane) -> VdpCounters {
    plane.snapshot().vdps.iter().find(|v| v.vid == Vid(1)).expect("it").counters.clone()
}

/// What ended where, and why, by the trace.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ends {
    out: BTreeMap<PortId, Vec<Vec<u8>>>,
    dropped: BTreeMap<&'static str, u64>,
    consumed: u64,
}

#[test]
fn what_is_said_is_what_is_done() {
    let capture = FilePath::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/real.pcap"));
    let capture = Arena::load(capture).expect("the capture");
    let mut seen = BTreeMap::<&str, u64>::new();
    for seed in 1..=PLANES {
        let mut r = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut rig = rig(&mut r);
        for i in 0..FRAMES {
            let now = Nanos(i * 20_000_000);
            let nth = r.below(capture.len() as u64) as usize;
            let frame = capture.get(nth).expect("a frame").bytes;
            let port = r.below(3) as usize;
            let in_port = PortId(port as u16 + 1);
            let context = || format!("seed {seed}, frame {nth}, port {in_port}, {:#?}", rig.rules);

            rig.plane.poll(now);
            let before = state(&mut rig.plane, now);
            let traced = rig.plane.trace(in_port, frame).expect("a trace");
            let again = rig.plane.trace(in_port, frame).expect("a trace");
            assert_eq!(traced.steps, again.steps, "twice the same: {}", context());
            rig.plane.poll(now);
            assert_eq!(state(&mut rig.plane, now), before, "nothing changes: {}", context());
            let mut steps = traced.steps;
            steps.extend(traced.software.iter().flat_map(|s| s.try_iter().flatten()));

            let mut said = Ends::default();
            let mut program = false;
            for s in &steps {
                match s {
                    Step::Output { port, frame, refused: None, .. } => {
                        said.out.entry(*port).or_default().push(frame.clone());
                    }
                    Step::Output { refused: Some(why), .. } | Step::Dropped(why) => {
                        *said.dropped.entry(why.label()).or_default() += 1;
                    }
                    Step::Consumed(_) => said.consumed += 1,
                    Step::Program { .. } => program = true,
                    Step::Changed { before, after, .. } => {
                        *seen.entry("changed").or_default() += u64::from(before != after);
                    }
                    Step::Table { table, rule: Some(_) } if *table > 0 => {
                        *seen.entry("later table").or_default() += 1;
                    }
                    Step::Group(..) => *seen.entry("group").or_default() += 1,
                    _ => {}
                }
            }
            let was = counters(&rig.plane);
            rig.peers[port].send(frame).expect("room");
            rig.plane.poll(now);
            rig.plane.poll(now);
            let is = counters(&rig.plane);
            let mut done = Ends { consumed: is.consumed - was.consumed, ..Ends::default() };
            for (id, peer) in (1..).zip(&mut rig.peers) {
                let mut bytes = Vec::new();
                while peer.recv(&mut bytes) {
                    done.out.entry(PortId(id)).or_default().push(bytes.clone());
                }
            }
            for why in DropReason::ALL {
                let n = is.dropped.get(*why) - was.dropped.get(*why);
                if n > 0 {
                    done.dropped.insert(why.label(), n);
                }
            }
            if program {
                *seen.entry("program").or_default() += 1;
                for (port, frames) in &said.out {
                    let left = done.out.get(port).cloned().unwrap_or_default();
                    let missing = frames.iter().find(|f| !left.contains(f));
                    assert_eq!(missing, None, "port {port}: {}", context());
                }
                continue;
            }
            // The fast path's frames overtake those that take the channel.
            for frames in said.out.values_mut().chain(done.out.values_mut()) {
                frames.sort();
            }
            assert_eq!(said, done, "{steps:#?} {}", context());
            *seen.entry("to the end").or_default() += 1;
        }
    }
    for (what, least) in [
        ("to the end", 2000),
        ("program", 500),
        ("changed", 500),
        ("later table", 500),
        ("group", 500),
    ] {
        let n = seen.get(what).copied().unwrap_or(0);
        assert!(n >= least, "{what}: {n} of {seen:?}: too few to say anything");
    }
}
