//! Fixed amounts of work, for counting instructions: `instructions [CASE [FRAMES]]`.
//!
//! Run under `valgrind --tool=callgrind --toggle-collect=*carry_frames*` with two counts of frames; the difference is
//! what the frames cost (`scripts/callgrind.sh` does). Captures and rules are made here, so that a baseline depends on
//! nothing else; making them is not counted, as tables are hashed by seeds of each process.
//! Each case is printed with the frames that it took.

use std::error::Error;
use std::sync::Arc;
use weir_classify::Match;
use weir_dataplane::flowtext::{NoNames, parse_flows};
use weir_dataplane::{
    Config, DataPlane, MappingRule, Path, Placement, PortNo, RuleSpec, VdpSpec, Vid,
};
use weir_io::replay::{Arena, Null, Passes, Replay};
use weir_packet::{BURST, Nanos};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// Four VDPs by VLAN, a MAC rewrite each, fast path.
    RewriteFast,
    /// The same by the slow path.
    RewriteSlow,
    /// 4096 destination MACs, a rule each.
    Macs,
    /// Five-tuple rules with prefixes.
    Acl,
    /// 256 VDPs by VLAN with 16 rules each.
    Vdps,
    /// Label swap.
    Mpls,
}

/// All, with their names.
const CASES: [(&str, Case); 6] = [
    ("rewrite-fast", Case::RewriteFast),
    ("rewrite-slow", Case::RewriteSlow),
    ("macs", Case::Macs),
    ("acl", Case::Acl),
    ("vdps", Case::Vdps),
    ("mpls", Case::Mpls),
];
/// Frames without an argument.
const FRAMES: usize = 4096;

fn mac(n: usize) -> String {
    format!("02:00:00:00:{:02x}:{:02x}", n >> 8 & 0xff, n & 0xff)
}

/// A 60-byte UDP frame; the IPv4 header checksum is right.
fn frame(dst: usize, vlan: Option<u16>, mpls: Option<u32>, flow: usize) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, (dst >> 8) as u8, dst as u8, 2, 0, 0, 1, 0, 1];
    if let Some(v) = vlan {
        f.extend([0x81, 0, (v >> 8) as u8, v as u8]);
    }
    match mpls {
        Some(label) => {
            f.extend([0x88, 0x47]);
            f.extend((label << 12 | 1 << 8 | 64).to_be_bytes());
        }
        None => f.extend([8, 0]),
    }
    let at = f.len();
    let total = (60 - at) as u8;
    f.extend([0x45, 0, 0, total, 0, 0, 0, 0, 64, 17, 0, 0]);
    f.extend([10, 0, (flow >> 8) as u8, flow as u8, 10, 1, (flow >> 8) as u8, flow as u8]);
    let sum: u32 = f[at..at + 20].chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
    let folded = !((sum & 0xffff) + (sum >> 16)) as u16;
    f[at + 10..at + 12].copy_from_slice(&folded.to_be_bytes());
    f.extend([4, flow as u8, 8, 0, 0, total - 20, 0, 0]);
    f.resize(60, 0);
    f
}

impl Case {
    fn frames(self) -> Vec<Vec<u8>> {
        // A fixed walk through the rules, in no order that a cache could like.
        let nth = |i: usize, n: usize| i.wrapping_mul(2_654_435_761) >> 7 & (n - 1);
        (0..4096)
            .map(|i| match self {
                Case::RewriteFast | Case::RewriteSlow => {
                    frame(1, Some(1 + nth(i, 4) as u16), None, i)
                }
                Case::Macs => frame(nth(i, 4096), None, None, i),
                Case::Acl => frame(1, None, None, i),
                Case::Vdps => frame(nth(i, 16), Some(1 + nth(i / 3, 256) as u16), None, i),
                Case::Mpls => frame(1, None, Some(16 + nth(i, 1024) as u32), i),
            })
            .collect()
    }
    fn rules(self) -> String {
        let line = |i: usize| match self {
            Case::RewriteFast | Case::RewriteSlow => format!(
                "dl_vlan={},actions=mod_dl_src:{},mod_dl_dst:{},output:2",
                i + 1,
                mac(9),
                mac(10)
            ),
            Case::Macs => format!("dl_dst={},actions=output:2", mac(i)),
            Case::Acl => format!(
                "priority={},udp,nw_src=10.0.{i}.0/{},nw_dst=10.1.0.0/16,actions=output:2",
                100 + i,
                18 + i % 7
            ),
            Case::Vdps => {
                format!("dl_vlan={},dl_dst={},actions=output:2", i / 16 + 1, mac(i % 16))
            }
            Case::Mpls => format!(
                "dl_type=0x8847,mpls_label={},actions=set_field:{}->mpls_label,dec_mpls_ttl,output:2",
                16 + i,
                5000 + i
            ),
        };
        let n = match self {
            Case::RewriteFast | Case::RewriteSlow => 4,
            Case::Macs | Case::Vdps => 4096,
            Case::Acl => 128,
            Case::Mpls => 1024,
        };
        (0..n).map(|i| line(i) + "\n").collect()
    }
    fn vdps(self) -> usize {
        match self {
            Case::RewriteFast | Case::RewriteSlow => 4,
            Case::Vdps => 256,
            Case::Macs | Case::Acl | Case::Mpls => 1,
        }
    }
}

/// A data plane with the case's frames, rules and VDPs, which swallows what comes out.
fn plane(case: Case) -> Result<DataPlane, Box<dyn Error>> {
    let mut arena = Arena::new();
    case.frames().iter().for_each(|f| _ = arena.push(f, None, 1));
    let mut plane = DataPlane::new(Config::default())?;
    let source = Replay::new("trace", Arc::new(arena), Passes::Forever);
    let source = plane.add_port("trace", Box::new(source))?;
    let out = plane.add_port("out2", Box::new(Null::new("out2")))?;
    let rules = parse_flows(&case.rules(), &NoNames)?;
    let vdps = case.vdps();
    for vid in 1..=vdps as u16 {
        let mut spec = VdpSpec::new(Vid(vid), &format!("vdp{vid}"));
        spec.ports = vec![(PortNo(1), source), (PortNo(2), out)];
        let matcher = match vdps {
            1 => Match::any(),
            _ => parse_flows(&format!("dl_vlan={vid},actions=drop"), &NoNames)?[0].matcher,
        };
        spec.mapping = vec![MappingRule { matcher, priority: 1 }];
        plane.create_vdp(spec)?;
    }
    let each = rules.len() / vdps;
    for (i, f) in rules.into_iter().enumerate() {
        let (priority, actions) = (f.priority.into(), f.actions.into());
        let rule = RuleSpec { matcher: f.matcher, priority, cookie: 0, actions };
        plane.add_rule(Vid((i / each + 1) as u16), 0, &rule, Placement::Fast)?;
    }
    if case == Case::RewriteSlow {
        for vid in 1..=vdps {
            plane.migrate(Vid(vid as u16), Path::Slow)?;
        }
    }
    Ok(plane)
}

/// Takes at least so many frames: what is counted, by this name.
#[inline(never)]
fn carry_frames(plane: &mut DataPlane, frames: usize) {
    let mut clock = 0;
    for _ in 0..frames.div_ceil(BURST) {
        clock += 3000;
        plane.poll(Nanos(clock));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let wanted = args.next();
    let frames = args.next().map_or(Ok(FRAMES), |n| n.parse())?;
    let is_wanted = |name: &str| wanted.as_deref().is_none_or(|w| w == name);
    let cases: Vec<_> = CASES.into_iter().filter(|(name, _)| is_wanted(name)).collect();
    if cases.is_empty() {
        return Err(format!("no such case: take one of {:?}", CASES.map(|c| c.0)).into());
    }
    for (name, case) in cases {
        let mut plane = plane(case)?;
        carry_frames(&mut plane, frames);
        let s = plane.snapshot();
        s.check()?;
        println!("{name} {}", s.ports.iter().map(|p| p.counters.rx.frames).sum::<u64>());
    }
    Ok(())
}
