//! `weir bench callgrind`: fixed amounts of work, for counting instructions.
//!
//! Run under `valgrind --tool=callgrind` with two counts of frames; the difference is what the
//! frames cost. Captures and rules are made here, so that a baseline depends on nothing else.

use super::rig::{Output, Rig};
use crate::commands::say::say;
use crate::fault::bad_input;
use crate::functions;
use anyhow::Result;
use clap::ValueEnum;
use std::sync::Arc;
use weir_dataplane::flowtext::{NoNames, parse_flows};
use weir_dataplane::{Path, Vid};
use weir_io::replay::{Arena, Passes};
use weir_packet::{BURST, Nanos};

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this case
    #[arg(long, value_name = "CASE")]
    case: Option<Case>,
    /// Only this network function, as 'weir bench functions' plays it
    #[arg(long, value_name = "NF", conflicts_with = "case")]
    function: Option<String>,
    /// Entries of the function's table
    #[arg(long, value_name = "N", default_value_t = 1024, requires = "function")]
    entries: u32,
    /// Bytes of the function's frames, without FCS
    #[arg(long, value_name = "BYTES", default_value_t = 60, requires = "function")]
    length: usize,
    /// Frames to forward, rounded up to a whole burst
    #[arg(long, value_name = "N", default_value_t = 4096)]
    frames: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Case {
    /// Four VDPs by VLAN, a MAC rewrite each, fast path
    RewriteFast,
    /// The same by the slow path
    RewriteSlow,
    /// 4096 destination MACs, a rule each
    Macs,
    /// Five-tuple rules with prefixes
    Acl,
    /// 256 VDPs by VLAN with 16 rules each
    Vdps,
    /// Label swap
    Mpls,
}

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

/// Runs it.
pub fn run(a: &Args) -> Result<()> {
    if let Some(name) = &a.function {
        return function(a, name);
    }
    let cases = match a.case {
        Some(c) => vec![c],
        None => Case::value_variants().to_vec(),
    };
    for case in cases {
        let mut arena = Arena::new();
        for f in case.frames() {
            arena.push(&f, None, 1);
        }
        let rules = parse_flows(&case.rules(), &NoNames)?;
        let mut rig =
            Rig::new(&Arc::new(arena), &rules, 1, case.vdps(), Passes::Forever, Output::Swallow)?;
        if case == Case::RewriteSlow {
            for vid in 1..=rig.vdps {
                rig.plane.migrate(Vid(vid as u16), Path::Slow)?;
            }
        }
        let mut clock = 0;
        for _ in 0..a.frames.div_ceil(BURST) {
            clock += 3000;
            rig.plane.poll(Nanos(clock));
        }
        let s = rig.plane.snapshot();
        s.check()?;
        let n: u64 = s.ports.iter().map(|p| p.counters.rx.frames).sum();
        let name = case.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned());
        say(format_args!("{name} {n}"))?;
    }
    Ok(())
}

/// A network function's frames.
fn function(a: &Args, name: &str) -> Result<()> {
    let unknown = || bad_input(format!("--function {name}: there is no such function"));
    let f = functions::named(name).ok_or_else(unknown)?;
    if !(1..=f.most_entries()).contains(&a.entries) {
        return Err(bad_input(format!("--entries: {name} takes 1 to {}", f.most_entries())));
    }
    if !(f.least_frame()..=1514).contains(&a.length) {
        return Err(bad_input(format!("--length: {name} takes {} to 1514", f.least_frame())));
    }
    let order: Vec<u32> = (0..a.entries).collect();
    let mut plane = functions::playing(f, a.entries, &order, a.length)?.plane;
    let mut clock = 0;
    for _ in 0..a.frames.div_ceil(BURST) {
        clock += 3000;
        plane.poll(Nanos(clock));
    }
    let s = plane.snapshot();
    s.check()?;
    let n: u64 = s.ports.iter().map(|p| p.counters.rx.frames).sum();
    say(format_args!("{name} {n}"))?;
    Ok(())
}
