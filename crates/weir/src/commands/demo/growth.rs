//! From few VDPs to many: the same load in all, 16 rules each.
//!
//! Each step plays the same number of frames of the same size from memory, at full rate, spread
//! evenly over all rules of all VDPs; only the number of VDPs differs. The rate counts the CPU time
//! of the worker, with the source's copy of each frame in it.

use super::load;
use super::report::{Growth, Step};
use super::{Amounts, tcam};
use crate::commands::style::Progress;
use anyhow::{Result, bail};
use std::sync::Arc;
use std::time::Instant;
use weir_classify::{Field, Match, VLAN_PRESENT};
use weir_dataplane::{
    Action, Config, DataPlane, MappingRule, Out, Placement, PortNo, RuleSpec, VdpSpec, Vid,
};
use weir_io::replay::{Arena, Null, Passes, Replay};
use weir_io::thread_cpu_time;
use weir_packet::{Nanos, PortId};

const RULES: usize = 16;
/// Frames that are played over and over: one for each rule of the largest step.
const FRAMES: usize = 16 * 1024;
/// What the worker's clock is moved on by in each round.
const ROUND: u64 = 3000;

/// Takes all steps.
pub fn run(a: &Amounts, progress: &mut Progress) -> Result<Growth> {
    let mut steps = Vec::with_capacity(a.vdps.len());
    for &n in a.vdps {
        progress.say(format_args!("{n} VDPs"));
        steps.push(step(n, a)?);
    }
    Ok(Growth {
        rules_per_vdp: RULES,
        frame_bytes: load::FRAME + 4,
        runs: a.runs,
        run_seconds: a.run.as_secs_f64(),
        steps,
    })
}

fn step(vdps: usize, a: &Amounts) -> Result<Step> {
    let arena = arena(vdps);
    let mut plane = DataPlane::new(Config::default())?;
    let source = Replay::new("load", Arc::new(arena), Passes::Forever);
    let ports = vec![
        (PortNo(1), plane.add_port("load", Box::new(source))?),
        (PortNo(2), plane.add_port("sink", Box::new(Null::new("sink")))?),
    ];
    let begin = Instant::now();
    for vid in 1..=vdps {
        create(&mut plane, u16::try_from(vid)?, &ports)?;
    }
    let created_ms = begin.elapsed().as_secs_f64() * 1e3;
    let resident_mib = resident_mib();

    let mut clock = 0;
    measure(&mut plane, a, &mut clock)?;
    let mut rates = Vec::with_capacity(a.runs);
    for _ in 0..a.runs {
        rates.push(measure(&mut plane, a, &mut clock)?);
    }
    let mut sorted = rates.clone();
    sorted.sort_by(f64::total_cmp);
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);
    let s = plane.snapshot();
    let tables: usize = s.vdps.iter().map(|v| v.memory_bytes).sum();
    let sums = s.vdps.iter().fold((0, 0), |(r, f), v| {
        (r + v.counters.received.frames, f + v.counters.forwarded.frames)
    });
    Ok(Step {
        vdps,
        rules: plane.rule_counts().1,
        created_ms,
        tables_mib: tables as f64 / f64::from(1 << 20),
        resident_mib,
        mpps_per_cpu_s: median,
        ns_per_frame: 1e3 / median,
        runs_mpps_per_cpu_s: rates,
        received: sums.0,
        forwarded: sums.1,
        imbalance: s.check().err().map(|e| e.to_string()),
        tcam: tcam::of(&plane, vdps),
    })
}

/// The load: VDP, rule and order without a pattern that a cache could like.
fn arena(vdps: usize) -> Arena {
    let mut arena = Arena::new();
    let rules = vdps * RULES;
    let mut order: Vec<usize> = (0..FRAMES).map(|i| i % rules).collect();
    // Fisher and Yates' shuffle by Marsaglia's xorshift: the same order in every run.
    let mut x = 0x9e37_79b9_7f4a_7c15u64;
    for i in (1..order.len()).rev() {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        order.swap(i, (x % (i as u64 + 1)) as usize);
    }
    for nth in order {
        let f = load::frame((nth / RULES + 1) as u16, (nth % RULES) as u16);
        arena.push(&f, None, 0);
    }
    arena
}

/// A VDP by its VLAN, with a rule for each of its hosts.
fn create(plane: &mut DataPlane, vid: u16, ports: &[(PortNo, PortId)]) -> Result<()> {
    let mut spec = VdpSpec::new(Vid(vid), &format!("vdp{vid}"));
    spec.ports = ports.to_vec();
    let matcher = Match::any().with(Field::VlanVid, (VLAN_PRESENT | vid).into());
    spec.mapping = vec![MappingRule { matcher, priority: 1 }];
    spec.default = vec![Action::Drop];
    spec.action_entries = RULES;
    plane.create_vdp(spec)?;
    for host in 0..RULES {
        let mac = 0x0200_0000_0000 | host as u128;
        let rule = RuleSpec {
            matcher: Match::any().with(Field::EthDst, mac),
            priority: 1,
            cookie: 0,
            actions: [Action::Output(Out::Port(PortNo(2)))].into(),
        };
        plane.add_rule(Vid(vid), 0, &rule, Placement::Fast)?;
    }
    Ok(())
}

/// Million frames per CPU-second.
fn measure(plane: &mut DataPlane, a: &Amounts, clock: &mut u64) -> Result<f64> {
    let (begin, cpu) = (Instant::now(), thread_cpu_time());
    let mut frames = 0;
    loop {
        for _ in 0..256 {
            *clock += ROUND;
            frames += plane.poll(Nanos(*clock));
        }
        if begin.elapsed() >= a.run {
            break;
        }
    }
    let cpu_s = (thread_cpu_time() - cpu).as_secs_f64();
    if frames == 0 || cpu_s <= 0.0 {
        bail!("no frame moved: the data plane stands still");
    }
    Ok(frames as f64 / cpu_s / 1e6)
}

/// What the process has in memory now.
fn resident_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmRSS:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_load_is_even_over_all_rules() {
        for vdps in [4, 16, 64, 256, 1024] {
            let mut seen: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
            for f in arena(vdps).iter() {
                // Destination MAC and tag: what the rules look at.
                *seen.entry([&f.bytes[..6], &f.bytes[14..16]].concat()).or_default() += 1;
            }
            assert_eq!(seen.len(), vdps * RULES);
            assert!(seen.values().all(|n| *n == FRAMES / (vdps * RULES)));
        }
    }
}
