//! The capture through the fast path and through the slow path, one frame after the other in the
//! capture's own time, and what came of each frame.

use super::report::{Fate, Forwarding, VdpReport};
use super::tenants::{self, Capture, ROUTER, ROUTING, TENANTS};
use anyhow::{Result, ensure};
use std::collections::BTreeMap;
use std::io::BufWriter;
use weir_dataplane::{Path, Snapshot, VdpView};
use weir_io::capture_file::{Direction, Format, Writer};
use weir_packet::{Nanos, PortId};

/// What one frame came to: the frames that left, with their ports, in the order of the ports.
type Outcome = Vec<(PortId, Vec<u8>)>;

/// One path.
pub struct Played {
    outcomes: Vec<Outcome>,
    end: Snapshot,
}

/// Both.
pub struct Both {
    /// The fast path.
    pub fast: Played,
    /// The slow path.
    pub slow: Played,
}

/// Rounds that a single frame may take: far more than a copy for each port needs.
const ROUNDS: usize = 10_000;
/// Different frames that are listed.
const LISTED: usize = 10;

/// Plays the capture by both paths and compares.
pub fn run(capture: &Capture) -> Result<(Forwarding, Both)> {
    let both = Both { fast: play(capture, Path::Fast)?, slow: play(capture, Path::Slow)? };
    let (fast, slow) = (&both.fast, &both.slow);
    let pairs = fast.outcomes.iter().zip(&slow.outcomes);
    let different = pairs.zip(1..).filter(|((a, b), _)| a != b).map(|(_, n)| n);
    let different = different.take(LISTED).collect();
    let imbalances = [("fast", &fast.end), ("slow", &slow.end)]
        .into_iter()
        .filter_map(|(name, s)| Some(format!("{name} path: {}", s.check().err()?)))
        .collect();
    let (routed, routed_as_kernel) = compare_routers(capture, &fast.outcomes);
    let report = Forwarding {
        vdps: vdps(&fast.end, &slow.end),
        imbalances,
        compared: fast.outcomes.len(),
        different,
        routed,
        routed_as_kernel,
    };
    Ok((report, both))
}

fn play(capture: &Capture, path: Path) -> Result<Played> {
    let (mut plane, mut peers) = tenants::data_plane(path)?;
    let begin = capture.iter().next().map_or(Nanos(0), |f| f.at);
    let mut outcomes = Vec::new();
    for f in capture.iter() {
        if let Some(p) = peers.get_mut(usize::from(f.port.0) - 1) {
            p.send(f.bytes)?;
        }
        // A round that moves nothing: every frame has left or found its end.
        let at = f.at.since(begin);
        ensure!(
            (0..ROUNDS).any(|_| plane.poll(at) == 0),
            "frame {}: still on its way after {ROUNDS} rounds",
            outcomes.len() + 1
        );
        let mut outcome = Vec::new();
        for (p, id) in peers.iter_mut().zip(1..) {
            let mut bytes = Vec::new();
            while p.recv(&mut bytes) {
                outcome.push((PortId(id), std::mem::take(&mut bytes)));
            }
        }
        outcomes.push(outcome);
    }
    Ok(Played { outcomes, end: plane.snapshot() })
}

/// Frames that the routing VDP sent to hosts, and how many of them the kernel's router sent, too.
fn compare_routers(capture: &Capture, outcomes: &[Outcome]) -> (usize, usize) {
    let mut kernel: BTreeMap<&[u8], usize> = BTreeMap::new();
    for f in capture.iter().filter(|f| f.port == ROUTER) {
        *kernel.entry(f.bytes).or_default() += 1;
    }
    let hosts = TENANTS.iter().find(|t| t.vid == ROUTING).map_or(&[][..], |t| t.ports);
    let (mut routed, mut same) = (0, 0);
    for (port, bytes) in outcomes.iter().flatten() {
        if *port == ROUTER || !hosts.contains(&port.0) {
            continue;
        }
        routed += 1;
        if let Some(n) = kernel.get_mut(bytes.as_slice()).filter(|n| **n > 0) {
            *n -= 1;
            same += 1;
        }
    }
    (routed, same)
}

fn vdps(fast: &Snapshot, slow: &Snapshot) -> Vec<VdpReport> {
    let fate = |s: &Snapshot, vid| s.vdps.iter().find(|v| v.vid == vid).map(fate);
    let mut out: Vec<VdpReport> = TENANTS
        .iter()
        .map(|t| VdpReport {
            vid: t.vid.0,
            name: t.name.to_owned(),
            mapped_by: t.mapped_by,
            mapping: t.mapping.iter().map(|m| (*m).to_owned()).collect(),
            rules: t.rules.iter().map(|r| (*r).to_owned()).collect(),
            program: t.program,
            fast: fate(fast, t.vid).unwrap_or_default(),
            slow: fate(slow, t.vid).unwrap_or_default(),
        })
        .collect();
    let default = weir_dataplane::Vid(0);
    out.push(VdpReport {
        vid: 0,
        name: "default".to_owned(),
        mapped_by: "no rule",
        mapping: Vec::new(),
        rules: Vec::new(),
        program: None,
        fast: fate(fast, default).unwrap_or_default(),
        slow: fate(slow, default).unwrap_or_default(),
    });
    out
}

fn fate(v: &VdpView) -> Fate {
    let c = &v.counters;
    Fate {
        received: c.received.frames,
        through_software: c.slow,
        cloned: c.cloned,
        generated: c.generated,
        forwarded: c.forwarded.frames,
        consumed: c.consumed,
        dropped: c.dropped.iter().map(|(why, n)| (why.label(), n)).collect(),
        held: v.held as u64,
    }
}

/// Writes what a path sent, an interface for each port, stamped as what came in.
pub fn write(to: &std::path::Path, capture: &Capture, played: &Played) -> std::io::Result<()> {
    let file = BufWriter::new(std::fs::File::create(to)?);
    let mut w = Writer::new(file, Format::Pcapng, 65535)?;
    for id in 1..=capture.facts().ports {
        w.add_interface(tenants::port_name(PortId(id as u16)))?;
    }
    for (f, outcome) in capture.iter().zip(&played.outcomes) {
        for (port, bytes) in outcome {
            w.write(u32::from(port.0) - 1, f.at, Some(Direction::Out), bytes)?;
        }
    }
    w.flush()
}
