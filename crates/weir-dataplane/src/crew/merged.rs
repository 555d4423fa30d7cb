//! What several workers counted, as if one had.
//!
//! Room: crew. Snapshots of workers are of different moments, each between two bursts of its own. Each adds up by itself, so
//! their sum does; frames between workers are lent by one region and no data plane's.

use crate::control::{Imbalance, PortView, Snapshot, VdpView};
use crate::counters::{TableCounters, Usage};
use crate::vdp::Phase;

/// Snapshots of all workers.
#[derive(Clone, Debug)]
pub struct CrewSnapshot {
    /// Of each, in order.
    pub workers: Vec<Snapshot>,
}

impl CrewSnapshot {
    /// Conservation at each worker, and in their sum.
    ///
    /// # Errors
    /// The first that does not add up.
    pub fn check(&self) -> Result<(), Imbalance> {
        self.workers.iter().try_for_each(Snapshot::check)?;
        self.merged().map_or(Ok(()), |s| s.check())
    }
    /// One snapshot: counters, frames and memory added up; what replicas share as worker 0 has it. `None`: no worker.
    pub fn merged(&self) -> Option<Snapshot> {
        let (first, others) = self.workers.split_first()?;
        let mut all = first.clone();
        for s in others {
            all.at = all.at.max(s.at);
            add_ports(&mut all.ports, &s.ports);
            for v in &s.vdps {
                match all.vdps.iter_mut().find(|a| a.vid == v.vid) {
                    Some(a) => add_vdp(a, v),
                    // Deleted, and not gone yet at this worker alone.
                    None => all.vdps.push(v.clone()),
                }
            }
            all.retired.merge(&s.retired);
            all.unmapped.merge(&s.unmapped);
            let (f, o) = (&mut all.frames, s.frames);
            f.count += o.count;
            f.free += o.free;
            f.lent += o.lent;
            f.held += o.held;
            f.spares += o.spares;
        }
        Some(all)
    }
}

/// Adds one worker's ports to others'.
pub(super) fn add_ports(all: &mut Vec<PortView>, ports: &[PortView]) {
    for (i, p) in ports.iter().enumerate() {
        // Workers have the same ones, in the same order.
        let at = match all.get(i) {
            Some(a) if a.id == p.id => Some(i),
            _ => all.iter().position(|a| a.id == p.id),
        };
        match at.and_then(|i| all.get_mut(i)) {
            Some(a) => add_port(a, p),
            // Ports that one removed stand in a view of their own.
            None => all.push(p.clone()),
        }
    }
}

fn add_port(a: &mut PortView, p: &PortView) {
    a.up &= p.up;
    // Who is not at home there knows of frames alone.
    a.max_frame_bytes = a.max_frame_bytes.min(p.max_frame_bytes);
    a.mtu = a.mtu.min(p.mtu);
    a.counters.rx.merge(p.counters.rx);
    a.counters.tx.merge(p.counters.tx);
    a.counters.tx_dropped.merge(&p.counters.tx_dropped);
    a.device_counters.merge(p.device_counters);
    a.backlog += p.backlog;
    a.ways.extend(p.ways.iter().cloned());
    a.fault = a.fault.take().or_else(|| p.fault.clone());
    a.caveat = a.caveat.take().or_else(|| p.caveat.clone());
    a.exhausted &= p.exhausted;
    a.quiet &= p.quiet;
}

/// Adds what a VDP does at one worker to what it does at others: who is on its way anywhere is on its way.
pub(super) fn add_phase(a: &mut Phase, phase: Phase) {
    if matches!(a, Phase::On(_)) {
        *a = phase;
    }
}

/// Adds one worker's view to another's.
pub(super) fn add_vdp(a: &mut VdpView, v: &VdpView) {
    add_phase(&mut a.phase, v.phase);
    a.counters.merge(&v.counters);
    if let (Some(a), Some(v)) = (&mut a.everywhere, &v.everywhere) {
        a.merge(v);
    }
    for (no, c) in &v.port_counters {
        match a.port_counters.iter_mut().find(|(n, _)| n == no) {
            Some((_, all)) => all.merge(c),
            None => a.port_counters.push((*no, *c)),
        }
    }
    a.elsewhere.merge(&v.elsewhere);
    a.held += v.held;
    a.memory_bytes += v.memory_bytes;
    a.indexed_tables = a.indexed_tables.max(v.indexed_tables);
    a.work += v.work;
    a.packet_outs_lost += v.packet_outs_lost;
    let (m, o) = (&mut a.migration, v.migration);
    m.completed = m.completed.min(o.completed);
    m.given_up = m.given_up.saturating_add(o.given_up);
    m.spilled = m.spilled.max(o.spilled);
    m.held += o.held;
    m.drain_ns = m.drain_ns.max(o.drain_ns);
}

/// What rules were used for, of each worker in the same order.
pub(super) fn usage(each: Vec<Vec<Usage>>) -> Vec<Usage> {
    let add = |a: Usage, b: &Usage| Usage {
        frames: a.frames + b.frames,
        bytes: a.bytes + b.bytes,
        last_used: a.last_used.max(b.last_used),
    };
    each.into_iter()
        .reduce(|a, b| a.into_iter().zip(&b).map(|(a, b)| add(a, b)).collect())
        .unwrap_or_default()
}

/// Tables, of each worker in the same order; one that only some have had frames in is among them.
pub(super) fn tables(each: Vec<Vec<TableCounters>>) -> Vec<TableCounters> {
    let mut all: Vec<TableCounters> = Vec::new();
    for t in each.into_iter().flatten() {
        match all.iter_mut().find(|a| a.table == t.table) {
            Some(a) => (a.lookups, a.matched) = (a.lookups + t.lookups, a.matched + t.matched),
            None => all.push(t),
        }
    }
    all.sort_by_key(|t| t.table);
    all
}
