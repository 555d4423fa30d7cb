//! How long does a frame take? Frames from memory through a data plane into a port that swallows them.
//!
//! `forwarding_rate [CASE] [SECONDS]` · `forwarding_rate CASE frames N`
//!
//! The first prints nanoseconds per frame and CPU time of this thread, and where they go; the second forwards a
//! fixed number of frames, to be run under `valgrind --tool=callgrind` with two of them. `io` only moves frames
//! from the source to the sink: what every other case contains. The cases are those of `./run bench-peers`; `tenants`:
//! 128 VDPs, with 256 rules of many kinds each; `tenants-24`, `tenants-40`: 1,024 of 24 or 40 rules, `sites-40`: without IPv6, so that flows may be cached; `acl-promised`: `acl` with half of the worker promised; `subscribers`: 65,536 rules by source address that change a frame's addresses, with
//! `meters` each with a meter of its own, which in `policed` a table of stations stands behind, with `tunnels` each with a tunnel's headers; `learning`: a table of
//! stations that may send, and one of where they are; `written`: a table that writes where they are to the action set, and one of
//! which may send; `hops`: 10,000 addresses by way of 1,000 indirect groups, which change MACs, `ecmp`: by way of a select group with eight of such buckets; `services`: 5,000 of an address and a port and 5,000 addresses,
//! `services-behind`: in a table that the first one's only rule leads to; `kinds`: 10,000 rules of six kinds, most by whom a frame is sent to, the others by what
//! it asks for and where; and `sources-N`: N VDPs by source MAC, with 16 rules each, `sources-grown`: 10,300, for which the hash table of mapping rules has grown. Of a case
//! with `-configured` behind it every VDP has a third port, which is down, with `-missed` a table-miss entry that asks the controller, as most have,
//! with `-lldp` a rule for frames that find links, as most have, too, and with `-others` one for all IPv4, of a priority below all.

use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_classify::{Field, Geometry, Match};
use weir_dataplane::flowtext::{NoNames, parse_flows};
use weir_dataplane::{
    Action, Band, BandKind, Bucket, Config, DataPlane, Group, GroupKind, MappingRule, Meter, Out,
    Placement, PortFlags, PortNo, RuleSpec, Stage, StageTimer, Unit, VdpSpec, Vid,
};
use weir_io::replay::{Arena, Null, Passes, Replay};
use weir_packet::{BURST, Burst, Device, Nanos, Pool};

const CASES: [&str; 35] = [
    "io",
    "port",
    "mac-1",
    "mac-10k",
    "mac-grown",
    "mac-10k-one",
    "mac-1m",
    "learning",
    "learning-1m",
    "written",
    "hops",
    "ecmp",
    "services",
    "services-behind",
    "kinds",
    "set-fields",
    "networks-4",
    "networks",
    "sources-4",
    "sources-1k",
    "sources-8k",
    "sources-grown",
    "tenants",
    "tenants-24",
    "tenants-40",
    "sites-40",
    "mpls",
    "mpls-100k",
    "subscribers",
    "meters",
    "policed",
    "tunnels",
    "vxlan",
    "acl",
    "acl-promised",
];

type Failed = Box<dyn std::error::Error>;

/// Numbers without an order that a cache could like, the same every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0 ^ self.0 >> 29) * n as u128) >> 64) as usize
    }
}

fn mac(n: usize) -> [u8; 6] {
    let [.., a, b, c, d] = (n as u64).wrapping_mul(0x9e37_79b1).to_be_bytes();
    [2, (n >> 32) as u8, a, b, c, d]
}

fn text(mac: [u8; 6]) -> String {
    mac.map(|b| format!("{b:02x}")).join(":")
}

/// 60 bytes of UDP; the IPv4 header checksum is right.
fn frame(dst: [u8; 6], tags: &[u8], flow: usize) -> Vec<u8> {
    let mut f = [dst, mac(7)].concat();
    f.extend_from_slice(tags);
    let at = f.len();
    let total = 60 - at;
    f.extend([0x45, 0, 0, total as u8, 0, 0, 0, 0, 64, 17, 0, 0]);
    f.extend([10, (flow >> 16) as u8, (flow >> 8) as u8, flow as u8]);
    f.extend([11, (flow >> 16) as u8, (flow >> 8) as u8, flow as u8]);
    let sum: u32 = f[at..].chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
    f[at + 10..at + 12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    f.extend([4, flow as u8, 8, (flow >> 3) as u8, 0, (total - 20) as u8, 0, 0]);
    f.resize(60, 0);
    f
}

/// Rules, in some cases with a meter each.
const SUBSCRIBERS: usize = 65_536;

/// Indirect groups.
const HOPS: usize = 1000;

/// Whose frames are a VDP's.
fn source(vdp: usize) -> [u8; 6] {
    mac(2_000_000 + vdp)
}

/// Frames and rules, and how many VDPs there are, mapped by VLAN or by source MAC; none: one takes all.
fn case(name: &str) -> Option<(Vec<Vec<u8>>, String, usize)> {
    let mut pick = Numbers(1);
    let ip = [8, 0];
    let lines = |n: usize, line: &dyn Fn(usize) -> String| -> String {
        (0..n).map(|i| line(i) + "\n").collect()
    };
    let macs = |n: usize, frames: usize, pick: &mut Numbers| -> Vec<Vec<u8>> {
        (0..frames).map(|i| frame(mac(1000 + pick.below(n)), &ip, i % 10_000)).collect()
    };
    let mac_rules = |n| lines(n, &|i| format!("dl_dst={},actions=output:2", text(mac(1000 + i))));
    Some(match name {
        "io" | "port" => (macs(10_000, 50_000, &mut pick), "in_port=1,actions=output:2".into(), 0),
        "mac-1" => (macs(1, 1024, &mut pick), mac_rules(1), 0),
        "mac-10k" => (macs(10_000, 50_000, &mut pick), mac_rules(10_000), 0),
        // Which a hash table has just grown for.
        "mac-grown" => (macs(10_300, 50_000, &mut pick), mac_rules(10_300), 0),
        // One rule more, which asks what the others do and the port.
        "mac-10k-one" => {
            let one = format!("priority=40000,in_port=1,dl_dst={},actions=drop\n", text(mac(1)));
            (macs(10_000, 50_000, &mut pick), mac_rules(10_000) + &one, 0)
        }
        "mac-1m" => (macs(1_000_000, 200_000, &mut pick), mac_rules(1_000_000), 0),
        "learning" | "learning-1m" | "written" => {
            let stations = if name == "learning-1m" { 1_000_000 } else { 10_000 };
            let of = |i: usize| mac(1000 + i);
            let rule = |i: usize| {
                let it = text(of(i));
                if name == "written" {
                    return format!(
                        "dl_dst={it},actions=write_actions(output:2),goto_table:1\ntable=1,dl_src={it},actions=drop"
                    );
                }
                format!("dl_src={it},actions=goto_table:1\ntable=1,dl_dst={it},actions=output:2")
            };
            let frames = (0..200_000).map(|i| {
                let mut f = frame(of(pick.below(stations)), &ip, i % 10_000);
                f[6..12].copy_from_slice(&of(pick.below(stations)));
                f
            });
            (frames.collect(), lines(stations, &rule), 0)
        }
        "hops" | "ecmp" => {
            let group = |i| if name == "hops" { i % HOPS } else { 0 };
            let rule = |i: usize| {
                let to = format!("11.{}.{}.{}", i >> 16, i >> 8 & 255, i & 255);
                format!("ip,nw_dst={to},actions=group:{}", 1 + group(i))
            };
            let frames = (0..50_000).map(|_| frame(mac(1), &ip, pick.below(10_000)));
            (frames.collect(), lines(10_000, &rule), 0)
        }
        "services" | "services-behind" => {
            let (table, first) = match name {
                "services" => (0, ""),
                _ => (1, "in_port=1,actions=goto_table:1\n"),
            };
            let rule = |i: usize| {
                let to = format!("nw_dst=11.{}.{}.{}", i >> 16, i >> 8 & 255, i & 255);
                let port = 2048 + (i >> 3 & 255);
                match i % 2 {
                    0 => {
                        format!("table={table},priority=9,udp,{to},tp_dst={port},actions=output:2")
                    }
                    _ => format!("table={table},priority=5,ip,{to},actions=output:2"),
                }
            };
            let frames = (0..50_000).map(|_| frame(mac(1), &ip, pick.below(10_000)));
            (frames.collect(), first.to_owned() + &lines(10_000, &rule), 0)
        }
        "kinds" => {
            let rule = |i: usize| {
                let to = format!("nw_dst=11.{}.{}.{}", i >> 16, i >> 8 & 255, i & 255);
                let station = format!("dl_dst={}", text(mac(i)));
                let port = 2048 + (i >> 3 & 255);
                let (priority, what) = match i % 60 {
                    0..3 => (7, format!("udp,{to},tp_dst={port}")),
                    3 => (6, format!("ip,{to}")),
                    4 => (5, format!("udp,nw_src=10.0.{}.{},tp_dst={port}", i >> 8 & 255, i & 255)),
                    5..20 => (3, station),
                    20..40 => (4, format!("ip,{station},{to}")),
                    _ => (8, format!("udp,{station},{to},tp_dst={port}")),
                };
                format!("priority={priority},{what},actions=output:2")
            };
            let frames = (0..50_000).map(|_| {
                let i = pick.below(10_000);
                frame(mac(i), &ip, i)
            });
            (frames.collect(), lines(10_000, &rule), 0)
        }
        "set-fields" => {
            let actions =
                "mod_dl_src:02:00:00:00:00:0a,mod_dl_dst:02:00:00:00:00:0b,dec_ttl,output:2";
            (macs(1, 50_000, &mut pick), format!("ip,actions={actions}"), 0)
        }
        "networks" | "networks-4" => {
            let networks = if name == "networks" { 1024 } else { 4 };
            let of = |i: usize| mac(1000 + i);
            let rule = |i: usize| {
                format!("dl_vlan={},dl_dst={},actions=output:2", i / 16 + 1, text(of(i)))
            };
            let frames = (0..50_000).map(|_| {
                let i = pick.below(16 * networks);
                let [hi, lo] = (i as u16 / 16 + 1).to_be_bytes();
                frame(of(i), &[0x81, 0, hi, lo, 8, 0], i)
            });
            (frames.collect(), lines(16 * networks, &rule), networks)
        }
        "sources-4" | "sources-1k" | "sources-8k" | "sources-grown" => {
            let networks = match name {
                "sources-4" => 4,
                "sources-1k" => 1024,
                "sources-grown" => 10_300,
                _ => 8192,
            };
            let of = |i: usize| mac(1000 + i);
            let rule = |i: usize| format!("dl_dst={},actions=output:2", text(of(i)));
            let frames = (0..200_000).map(|_| {
                let i = pick.below(16 * networks);
                let mut f = frame(of(i), &ip, i);
                f[6..12].copy_from_slice(&source(i / 16 + 1));
                f
            });
            (frames.collect(), lines(16 * networks, &rule), networks)
        }
        // Each with a table of rules of twelve kinds, IPv6 among them: they look at more words than flows are cached by.
        "tenants" | "tenants-24" | "tenants-40" | "sites-40" => {
            let (tenants, each) = match name {
                "tenants" => (128, 256),
                "tenants-24" => (1024, 24),
                _ => (1024, 40),
            };
            let kinds = if name == "sites-40" { 11 } else { 12 };
            let of = |i: usize| i / each + 1;
            let rule = |i: usize| {
                let (vid, n) = (of(i), i % each);
                let (dst, src) = (text(mac(n)), text(mac(7)));
                let (b, c) = (n, vid & 255);
                let what = match n % kinds {
                    0 => format!("ip,nw_dst=11.{b}.0.0/16"),
                    1 => format!("ip,nw_dst=11.{b}.{c}.0/24"),
                    2 => format!("dl_dst={dst}"),
                    3 => format!("in_port=1,dl_src={src},dl_dst={dst}"),
                    4 => format!("udp,nw_src=10.{b}.0.0/16"),
                    5 => format!("udp,nw_dst=11.{b}.{c}.{b},tp_dst=2048/0xff00"),
                    6 => format!("ip,nw_src=10.{b}.{c}.0/24,nw_dst=11.{b}.{c}.0/24"),
                    7 => format!("ip,nw_tos=0,nw_dst=11.{b}.0.0/20"),
                    8 => format!("dl_src={src},dl_dst={dst},dl_type=0x800"),
                    9 => format!("udp,nw_src=10.{b}.{c}.{b},tp_src={}", 1024 + b),
                    10 => format!("ip,nw_dst=11.{b}.{c}.{}/28", b & 0xf0),
                    _ => format!("ipv6,ipv6_dst=2001:db8:{c:x}:{n:x}::/64"),
                };
                format!("dl_vlan={vid},priority={},{what},actions=output:2", 1 + n)
            };
            let frames = (0..50_000).map(|_| {
                let i = pick.below(each * tenants);
                let [hi, lo] = (of(i) as u16).to_be_bytes();
                let n = i % each;
                frame(mac(n), &[0x81, 0, hi, lo, 8, 0], n << 16 | (of(i) & 255) << 8 | n)
            });
            (frames.collect(), lines(each * tenants, &rule), tenants)
        }
        "mpls" | "mpls-100k" => {
            let labels = if name == "mpls" { 1000 } else { 131_072 };
            let rule = |i: usize| {
                let swap = format!("set_field:{}->mpls_label,dec_mpls_ttl", 5000 + i % 1_000_000);
                format!("dl_type=0x8847,mpls_label={},actions={swap},output:2", 16 + i)
            };
            let frames = (0..50 * labels.min(4000)).map(|_| {
                let i = pick.below(labels);
                let label = ((16 + i as u32) << 12 | 1 << 8 | 64).to_be_bytes();
                frame(mac(1), &[&[0x88, 0x47], label.as_slice()].concat(), i)
            });
            (frames.collect(), lines(labels, &rule), 0)
        }
        "subscribers" | "meters" | "policed" | "tunnels" => {
            let rule = |i: usize| {
                let does = match name {
                    "meters" => format!("meter:{},output:2", i + 1),
                    "policed" => format!("meter:{},goto_table:1", i + 1),
                    "tunnels" => "output:2".to_owned(),
                    _ => format!("mod_nw_src:192.0.2.1,mod_tp_src:{},output:2", i % 65_536),
                };
                format!("udp,nw_src=10.{}.{}.{},actions={does}", i >> 16, i >> 8 & 255, i & 255)
            };
            let station = |i| mac(1000 + i);
            let frames = (0..200_000).map(|_| {
                let to = station(pick.below(10_000));
                frame(to, &ip, pick.below(SUBSCRIBERS))
            });
            let frames = frames.collect();
            let mut rules: String = lines(SUBSCRIBERS, &rule);
            if name == "policed" {
                rules += &lines(10_000, &|i| {
                    format!("table=1,dl_dst={},actions=output:2", text(station(i)))
                });
            }
            (frames, rules, 0)
        }
        "vxlan" => (macs(1, 50_000, &mut pick), "ip,actions=output:2".into(), 0),
        "acl" | "acl-promised" => {
            let rule = |i: usize| {
                let (net, bits) = (i % 256, 18 + i % 7);
                format!(
                    "priority={},udp,nw_src=10.0.{net}.0/{bits},nw_dst=11.0.0.0/12,tp_dst={:#x}/0xff00,actions=output:2",
                    100 + i,
                    2048
                )
            };
            ((0..50_000).map(|i| frame(mac(1), &ip, i % 10_000)).collect(), lines(128, &rule), 0)
        }
        _ => return None,
    })
}

fn plane(name: &str) -> Result<DataPlane, Failed> {
    let without = |name: &'_ str, ending: &str| match name.strip_suffix(ending) {
        Some(rest) => (rest.to_owned(), true),
        None => (name.to_owned(), false),
    };
    let (name, missed) = without(name, "-missed");
    let (name, lldp) = without(&name, "-lldp");
    let (name, others) = without(&name, "-others");
    let (name, configured) = without(&name, "-configured");
    let name = name.as_str();
    let (frames, rules, vlans) =
        case(name).ok_or_else(|| format!("no case '{name}': {CASES:?}"))?;
    let mut arena = Arena::new();
    frames.iter().for_each(|f| _ = arena.push(f, None, 1));
    let tcam =
        Geometry { mapping_entries: 1 << 20, action_entries: 1 << 22, ..Config::default().tcam };
    let mut p = DataPlane::new(Config { tcam, ..Config::default() })?;
    let input = p.add_port("in", Box::new(Replay::new("in", Arc::new(arena), Passes::Forever)))?;
    let out = p.add_port("out", Box::new(Null::new("out")))?;
    let third = match configured {
        true => Some((PortNo(3), p.add_port("third", Box::new(Null::new("third")))?)),
        false => None,
    };
    let encap = weir_dataplane::Outer {
        eth_src: [2; 6],
        eth_dst: [4; 6],
        ip: weir_dataplane::TunnelAddrs::V4([192, 0, 2, 1].into(), [192, 0, 2, 2].into()),
        ttl: 64,
        tos: 0,
    };
    for vid in 1..=vlans.max(1) as u16 {
        let mut spec = VdpSpec::new(Vid(vid), &format!("vdp{vid}"));
        spec.ports = vec![(PortNo(1), input), (PortNo(2), out)];
        spec.ports.extend(third);
        let matcher = match vlans {
            0 => Match::any(),
            _ if name.starts_with("sources") => {
                let of = text(source(vid.into()));
                parse_flows(&format!("dl_src={of},actions=drop"), &NoNames)?[0].matcher
            }
            _ => parse_flows(&format!("dl_vlan={vid},actions=drop"), &NoNames)?[0].matcher,
        };
        spec.mapping = vec![MappingRule { matcher, priority: 1 }];
        spec.default = vec![Action::Drop];
        spec.cpu_permille = if name == "acl-promised" { 500 } else { 0 };
        p.create_vdp(spec)?;
        let of = |eth_type: u128| Match::any().with(Field::EthType, eth_type);
        let all = [(Match::any(), 0, missed), (of(0x88cc), 65_000, lldp), (of(0x800), 1, others)];
        for (matcher, priority, _) in all.iter().filter(|m| m.2) {
            let actions = Arc::new([Action::Output(Out::Controller(128))]);
            let rule = RuleSpec { matcher: *matcher, priority: *priority, cookie: 0, actions };
            p.add_rule(Vid(vid), 0, &rule, Placement::Fast)?;
        }
        if let Some((no, _)) = third {
            p.set_port_config(Vid(vid), no, PortFlags::DOWN)?;
        }
    }
    if name == "meters" || name == "policed" {
        // More than can be sent: none drops.
        let band = Band { kind: BandKind::Drop, rate: u32::MAX, burst: u32::MAX };
        for id in 1..=SUBSCRIBERS as u32 {
            p.put_meter(Vid(1), id, Meter::new(Unit::Kilobits, &[band])?)?;
        }
    }
    let bucket = |i: usize| {
        let set = |field, mac: [u8; 6]| {
            let value = mac.iter().fold(0, |v, b| v << 8 | u128::from(*b));
            Action::SetField { field, value, mask: (1 << 48) - 1 }
        };
        let changes = [set(Field::EthSrc, mac(7)), set(Field::EthDst, mac(i)), Action::DecTtl];
        Bucket::new([changes.as_slice(), &[Action::Output(Out::Port(PortNo(2)))]].concat())
    };
    if name == "hops" {
        for i in 0..HOPS {
            let group = Group::new(GroupKind::Indirect, vec![bucket(i)])?;
            p.put_group(Vid(1), 1 + i as u32, group)?;
        }
    } else if name == "ecmp" {
        let group = Group::new(GroupKind::Select, (0..8).map(bucket).collect())?;
        p.put_group(Vid(1), 1, group)?;
    }
    let encapsulates = name == "vxlan" || name == "tunnels";
    let flows = parse_flows(&rules, &NoNames)?;
    let each = flows.len() / vlans.max(1);
    for (i, f) in flows.into_iter().enumerate() {
        let vid = Vid(if vlans > 0 { (i / each.max(1) + 1) as u16 } else { 1 });
        let mut actions = f.actions;
        if name == "written" && f.table == 1 {
            // No instruction: the action set is carried out.
            actions.clear();
        }
        if encapsulates {
            actions.insert(0, Action::EncapVxlan { outer: encap, vni: 7 + i as u32, port: 4789 });
        }
        let (priority, cookie) = (f.priority.into(), 0);
        let rule = RuleSpec { matcher: f.matcher, priority, cookie, actions: actions.into() };
        p.add_rule(vid, f.table, &rule, Placement::Fast)?;
    }
    Ok(p)
}

/// What moves bursts: a data plane, or nothing but its source and sink.
enum Mover {
    Plane(Box<DataPlane>, u64),
    Io(Pool, Box<dyn Device>, Box<dyn Device>, Burst),
}

impl Mover {
    fn new(name: &str) -> Result<Self, Failed> {
        if name != "io" {
            return Ok(Self::Plane(Box::new(plane(name)?), 0));
        }
        let mut arena = Arena::new();
        let frames = case(name).map(|c| c.0).unwrap_or_default();
        frames.iter().for_each(|f| _ = arena.push(f, None, 1));
        let source = Box::new(Replay::new("in", Arc::new(arena), Passes::Forever));
        Ok(Self::Io(Pool::new(4096, 2048)?, source, Box::new(Null::new("out")), Burst::new()))
    }
    /// A burst; says how many frames.
    fn burst(&mut self) -> usize {
        match self {
            Self::Plane(p, clock) => {
                *clock += 3000;
                p.poll(Nanos(*clock))
            }
            Self::Io(pool, source, sink, burst) => {
                source.rx(pool, burst);
                sink.tx(pool, burst)
            }
        }
    }
}

/// Adds up the time between the ends of stages.
struct Stopwatch {
    last: Instant,
    ns: [u64; Stage::ALL.len()],
    frames: u64,
}

impl StageTimer for Stopwatch {
    fn begin(&mut self) {
        self.last = Instant::now();
    }
    fn end(&mut self, stage: Stage, frames: usize) {
        let now = Instant::now();
        let at = Stage::ALL.iter().position(|s| *s == stage).unwrap_or(0);
        self.ns[at] += now.duration_since(self.last).as_nanos() as u64;
        self.frames += if stage == Stage::Receive { frames as u64 } else { 0 };
        self.last = now;
    }
}

fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    v.get(v.len() / 2).copied().unwrap_or(0.0)
}

fn measure(name: &str, seconds: f64) -> Result<(), Failed> {
    let mut m = Mover::new(name)?;
    let end = Instant::now() + Duration::from_secs_f64(0.1 * seconds);
    while Instant::now() < end {
        (0..256).for_each(|_| _ = m.burst());
    }
    let mut each = Vec::new();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < end {
        let (start, mut n) = (weir_io::thread_cpu_time(), 0);
        (0..1000).for_each(|_| n += m.burst());
        let passed = weir_io::thread_cpu_time() - start;
        each.push(passed.as_nanos() as f64 / n as f64);
    }
    let ns = median(each);
    print!("{name:<11} {ns:6.2} ns  {:6.2} M/s ", 1e3 / ns);
    if let Mover::Plane(p, clock) = &mut m {
        let mut samples: [Vec<f64>; Stage::ALL.len()] = Default::default();
        for _ in 0..2000 {
            let mut w = Stopwatch { last: Instant::now(), ns: Default::default(), frames: 0 };
            for _ in 0..16 {
                *clock += 3000;
                p.poll_timed(Nanos(*clock), &mut w);
            }
            samples.iter_mut().zip(w.ns).for_each(|(s, ns)| s.push(ns as f64 / w.frames as f64));
        }
        for (stage, s) in Stage::ALL.iter().zip(samples) {
            print!(" {} {:.1}", stage.name(), median(s));
        }
        let s = p.snapshot();
        s.check()?;
        let (rx, tx) = (s.ports[0].counters.rx.frames, s.ports[1].counters.tx.frames);
        print!("; {:.1} % out", 100.0 * tx as f64 / rx as f64);
    }
    println!();
    Ok(())
}

fn main() -> Result<(), Failed> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let name = args.first().map_or("all", String::as_str);
    if let (Some("frames"), Some(n)) = (args.get(1).map(String::as_str), args.get(2)) {
        let n: usize = n.parse()?;
        let mut m = Mover::new(name)?;
        let moved: usize = (0..n.div_ceil(BURST)).map(|_| m.burst()).sum();
        println!("{name} {moved}");
        return Ok(());
    }
    let seconds = args.get(1).map_or(Ok(0.5), |s| s.parse())?;
    let all: Vec<&str> = if name == "all" { CASES.to_vec() } else { vec![name] };
    all.into_iter().try_for_each(|name| measure(name, seconds))
}
