//! The other columns of a comparison: the same functions over veth, and Open vSwitch with the same job.
//!
//! Room: between rows that were measured from memory and the two places that measure the rest (`veth`,
//! `peer`). What can't be measured here is said, and its cells stay empty.

use super::veth::Veth;
use crate::functions::{At, Frames, arena};
use crate::study::peer::{self, Switch};
use crate::study::report::Report;
use crate::study::{Plan, Watch};
use crate::validate::{Asker, Case, FCS, Found, Locality, Row, order};
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Rules that are no function's: sources of frames, so many.
const SOURCES: u32 = 256;
/// Cases that may fail in a place before it is left alone.
const MOST_FAILED: u32 = 3;
/// Frames that Open vSwitch takes at once (NETDEV_MAX_BURST).
const TAKEN: usize = 32;

/// What any frame costs Open vSwitch, in cycles, and what it costs besides when it begins a flow of its own
/// in a burst: frames of a flow that came together are sent together.
#[derive(Clone, Copy, Debug)]
struct Bare {
    frame: f64,
    flow: f64,
}

/// What is measured besides.
pub struct Beside {
    veth: Option<Veth>,
    peer: bool,
    /// How long Open vSwitch is measured.
    time: Duration,
    /// What any frame costs it, by frames' length.
    bare: BTreeMap<u32, Bare>,
    /// The switch, while cases have the same rules.
    switch: Option<(&'static str, u32, Switch)>,
    /// How often it failed over veth, and on Open vSwitch.
    failed: (u32, u32),
}

impl Beside {
    /// What the plan asks for and can be had here; says in the report what can't.
    pub fn new(plan: &Plan, report: &mut Report) -> Self {
        let root = rustix::process::geteuid().is_root();
        let mut veth = None;
        if plan.veth() && root {
            let (rounds, ms) = plan.depth.of((1, 10), (5, 60));
            let made = Veth::new(rounds, Duration::from_millis(ms));
            report.condition("over veth", match &made {
                Err(e) => format!("not measured: {e:#}"),
                Ok(_) => format!("AF_XDP in copy mode, native; one thread sends bursts and polls weir, what a wire costs is taken off; median of {rounds} rounds of {ms} ms. Its estimate: that from memory, and what a VDP that is no function costs more over veth than from memory"),
            });
            veth = made.ok();
        } else if plan.veth() {
            report.condition("over veth", "not measured: it takes root");
        }
        let missing = peer::missing();
        if let (true, Some(what)) = (plan.peer(), missing) {
            report.condition("Open vSwitch", format!("not measured: it takes {what}"));
        } else if plan.peer() {
            report.condition("Open vSwitch", "in user space with DPDK, frames from memory (net_pcap) into nothing, one core: cycles of the CPU time of its forwarding thread, its caches filled. Its estimate: what frames of rules that are no function cost it, of one flow and of many, and the function's model behind 'ovs-rules'");
        }
        let time = Duration::from_millis(plan.depth.of(100, 1500));
        let peer = plan.peer() && missing.is_none();
        Self { veth, peer, time, bare: BTreeMap::new(), switch: None, failed: (0, 0) }
    }

    /// Measures what was asked for of a case that was measured from memory. Where that fails, its cell stays
    /// empty and the report says why; a place that fails over and over is not asked again.
    ///
    /// # Errors
    /// It was stopped.
    pub fn fill(
        &mut self,
        case: &Case,
        row: &mut Row,
        asker: &Asker,
        watch: &mut Watch<'_>,
        report: &mut Report,
    ) -> Result<()> {
        let about = format!("{}, {} entries, {} bytes", row.function, row.entries, case.frame);
        // Longer ones have no room for what functions put in front.
        if let Some(veth) = self.veth.as_mut().filter(|_| case.frame <= 1280) {
            watch.next(&format!("{about}: over veth"))?;
            match veth.found(case, row.estimate) {
                Ok(found) => row.veth = Some(found),
                Err(e) => {
                    report.remark(&format!("{about}: not measured over veth: {e:#}"));
                    self.failed.0 += 1;
                }
            }
            if self.failed.0 >= MOST_FAILED {
                self.veth = None;
            }
        }
        if self.peer
            && let Some(rules) = case.function.ovs(case.entries)
        {
            watch.next(&format!("{about}: Open vSwitch"))?;
            match self.ovs(case, &rules, asker) {
                Ok(found) => row.ovs = Some(found),
                Err(e) => {
                    report.remark(&format!("{about}: not measured on Open vSwitch: {e:#}"));
                    // Whatever state it is in: the next one is a new one.
                    self.switch = None;
                    self.failed.1 += 1;
                    self.peer = self.failed.1 < MOST_FAILED;
                }
            }
        }
        Ok(())
    }

    fn ovs(&mut self, case: &Case, rules: &str, asker: &Asker) -> Result<Found> {
        let bare = match self.bare.get(&case.frame) {
            Some(b) => *b,
            None => {
                // One at a time: each has its memory and its processor.
                self.switch = None;
                let b = bare(case.frame as usize - FCS, self.time)?;
                self.bare.insert(case.frame, b);
                b
            }
        };
        let name = case.function.name();
        let same = |s: &(&str, u32, Switch)| s.0 == name && s.1 == case.entries;
        if !self.switch.as_ref().is_some_and(same) {
            self.switch = None;
            self.switch = Some((name, case.entries, Switch::new(rules)?));
        }
        let order = order(case.entries, case.locality);
        let len = case.frame as usize - FCS;
        let frames = Frames::of(case.function, case.entries, &order, len)?;
        let estimate = bare.frame + bare.flow * begun(&order) + asker.ovs(case, rules, &order)?;
        let Some((.., switch)) = &mut self.switch else {
            return Ok(Found { measured: 0.0, estimate });
        };
        Ok(Found { measured: switch.cycles(&frames.rest, self.time)?, estimate })
    }
}

/// Measures what frames cost that are no function's: of one flow, and of many.
fn bare(len: usize, time: Duration) -> Result<Bare> {
    let rule = |n: u32| format!("dl_src=06:00:00:09:00:{n:02x},dl_type=0x88b6,actions=output:2\n");
    let mut switch = Switch::new(&(0..SOURCES).map(rule).collect::<String>())?;
    let order = order(SOURCES, Locality::Uniform);
    let one = switch.cycles(&*arena((0..SOURCES).map(|_| frame(0, len)))?, time)?;
    let many = switch.cycles(&*arena(order.iter().map(|n| frame(*n, len)))?, time)?;
    let (once, often) = (1.0 / TAKEN as f64, begun(&order));
    let flow = ((many - one) / (often - once)).max(0.0);
    Ok(Bare { frame: one - flow * once, flow })
}

/// The part of frames in this order that are the first of their flow in a burst.
fn begun(order: &[u32]) -> f64 {
    let distinct = |burst: &[u32]| burst.iter().collect::<BTreeSet<_>>().len();
    let all: usize = order.chunks(TAKEN).map(distinct).sum();
    all as f64 / order.len().max(1) as f64
}

/// A frame of one of the sources.
fn frame(source: u32, len: usize) -> At {
    let mut bytes = vec![6, 0, 0, 7, 0, 1, 6, 0, 0, 9, 0, source as u8, 0x88, 0xb6];
    bytes.resize(len, 0);
    At { port: 1, bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_begins_once_in_a_burst() {
        assert_eq!(begun(&[7; 64]), 2.0 / 64.0);
        assert_eq!(begun(&(0..64).collect::<Vec<u32>>()), 1.0);
        assert_eq!(begun(&[]), 0.0);
    }
}
