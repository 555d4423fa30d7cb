//! VDPs that move between the paths while all of them carry numbered frames at full rate.
//!
//! The worker and the software stage run on threads of their own, as in service. The source waits
//! while the data plane is full, so nothing has an excuse for being lost.

use super::load::{Book, Sink, Source};
use super::report::Moving;
use crate::commands::style::Progress;
use anyhow::{Context, Result, bail};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir_dataplane::flowtext::{NoNames, parse_actions, parse_match};
use weir_dataplane::{
    Config, DataPlane, Handle, MappingRule, MigrationReport, Path, Phase, Placement, PortNo,
    RuleSpec, Runner, Serving, Snapshot, VdpSpec, Vid, WhenIdle,
};
use weir_packet::{Nanos, PortId};

const VDPS: u16 = 4;
const FLOWS: u16 = 64;
/// Frames that must have taken the slow path before a VDP goes back.
const ON_SLOW: u64 = 256;
/// Something is broken when a step takes longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Moves VDPs to the slow path and back, `round_trips` times.
pub fn run(round_trips: u32, progress: &mut Progress) -> Result<Moving> {
    let book = Book::new(FLOWS.into());
    let (source, stop) = Source::new(FLOWS, VDPS, &book);
    let runner = Runner::start(plane(source, &book)?, Serving::Threads(1), WhenIdle::Rest)
        .context("no thread for the data plane")?;
    let handle = runner.handle();
    let begin = Instant::now();
    let mut m = Moving { vdps: VDPS.into(), flows: FLOWS.into(), ..Moving::default() };
    let mut drains = Vec::new();
    for i in 0..round_trips {
        progress.tick(format_args!("moving VDPs under load, {i} of {round_trips} round trips"));
        let vid = Vid((i % u32::from(VDPS)) as u16 + 1);
        let report = round_trip(&handle, vid, &mut m.given_up)?;
        m.round_trips += 1;
        m.held += report.held;
        m.most_held = m.most_held.max(report.held);
        drains.push(report.drain_ns as f64 / 1e3);
    }
    m.seconds = begin.elapsed().as_secs_f64();
    stop.store(true, Ordering::Release);
    settle(&handle)?;
    let end = runner.stop()?.snapshot();
    m.imbalance = end.check().err().map(|e| format!("while VDPs moved: {e}"));
    m.through_software = end.vdps.iter().map(|v| v.counters.slow).sum();
    drains.sort_by(f64::total_cmp);
    m.drain_median_us = drains.get(drains.len() / 2).copied().unwrap_or(0.0);
    m.drain_longest_us = drains.last().copied().unwrap_or(0.0);
    let ledger = book.open();
    let sums = ledger.sums();
    (m.sent, m.arrived, m.lost) = (sums.sent, sums.arrived, sums.lost);
    (m.duplicated, m.reordered, m.damaged) = (sums.duplicated, sums.reordered, ledger.damaged);
    m.mpps = m.arrived as f64 / m.seconds / 1e6;
    Ok(m)
}

/// Four VDPs by VLAN; each sends its frames on with other MAC addresses.
fn plane(source: Source, book: &Book) -> Result<DataPlane> {
    // A thread that the system keeps waiting must not end a move.
    let config = Config { drain_limit: Nanos::from_secs(1), ..Config::default() };
    let mut plane = DataPlane::new(config)?;
    let from = plane.add_port("source", Box::new(source))?;
    let to = plane.add_port("sink", Box::new(Sink::new(book)))?;
    for vid in 1..=VDPS {
        let mut spec = VdpSpec::new(Vid(vid), &format!("mover {vid}"));
        spec.ports = ports(from, to);
        let matcher = parse_match(&format!("dl_vlan={vid}"), &NoNames)?;
        spec.mapping = vec![MappingRule { matcher, priority: 1 }];
        plane.create_vdp(spec)?;
        let matcher = parse_match("in_port=1", &NoNames)?;
        let text = format!("mod_dl_src:02:00:00:00:00:0{vid},output:2");
        let actions = parse_actions(&text, &NoNames, 0, &matcher)?.into();
        let rule = RuleSpec { matcher, priority: 1, cookie: 0, actions };
        plane.add_rule(Vid(vid), 0, &rule, Placement::Fast)?;
    }
    Ok(plane)
}

fn ports(from: PortId, to: PortId) -> Vec<(PortNo, PortId)> {
    vec![(PortNo(1), from), (PortNo(2), to)]
}

/// Asks until `done` answers.
fn wait<R: Send + 'static>(
    handle: &Handle,
    what: &str,
    done: impl Fn(&mut DataPlane) -> Option<R> + Send + Clone + 'static,
) -> Result<R> {
    let begin = Instant::now();
    loop {
        if let Some(r) = handle.call(done.clone())? {
            return Ok(r);
        }
        if begin.elapsed() > PATIENCE {
            bail!("{what}: nothing came of it within {} s", PATIENCE.as_secs());
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

fn round_trip(handle: &Handle, vid: Vid, given_up: &mut u64) -> Result<MigrationReport> {
    let slow = move |p: &mut DataPlane| view(&p.snapshot(), vid).map(|v| v.0);
    let before = handle.call(slow)?.context("the VDP has gone")?;
    handle.call(move |p| p.migrate(vid, Path::Slow))??;
    wait(handle, "frames on the slow path", move |p| slow(p).filter(|n| n - before >= ON_SLOW))?;
    loop {
        handle.call(move |p| p.migrate(vid, Path::Fast))??;
        let arrived = wait(handle, "a move to the fast path", move |p| match p.phase(vid) {
            Ok(Phase::On(path)) => Some(path),
            _ => None,
        })?;
        if arrived == Path::Fast {
            let report = handle.call(move |p| view(&p.snapshot(), vid).map(|v| v.1))?;
            return report.context("the VDP has gone");
        }
        *given_up += 1;
    }
}

fn view(s: &Snapshot, vid: Vid) -> Option<(u64, MigrationReport)> {
    s.vdps.iter().find(|v| v.vid == vid).map(|v| (v.counters.slow, v.migration))
}

/// Waits until every frame has left.
fn settle(handle: &Handle) -> Result<()> {
    wait(handle, "the last frames", |p| {
        let s = p.snapshot();
        let inside: usize = s.vdps.iter().map(|v| v.held).sum();
        (inside == 0).then_some(())
    })
}
