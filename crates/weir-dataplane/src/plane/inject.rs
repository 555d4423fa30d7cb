//! Frames that control puts in: packet-outs on their way through the executor.
//!
//! Room: called by `control::packet_out` between bursts. What it makes goes the way of received frames
//! from stage 3 on; a call leaves nothing staged, so that every snapshot adds up.

use super::*;
use crate::action::Vid;
use crate::compile::ActionResult;
use crate::execute::{self, ChannelTo, Subject};
use crate::packet::Layers;
use crate::program::Punt;
use crate::vdp::{Held, Path, Phase};
use weir_packet::{Frame, PortId};

/// A frame to be put in.
pub(crate) struct Injected {
    pub frame: Frame,
    pub in_port: PortId,
    pub key: FlowKey,
    pub layers: Layers,
}

impl DataPlane {
    /// Carries out `r` on a frame of `vid`'s own, which counts as generated.
    pub(crate) fn inject(&mut self, vid: Vid, r: &ActionResult, mut it: Injected) {
        let w = &mut self.work;
        let Some(v) = vdp_mut(&mut self.vdps, vid) else { return self.pool.free(it.frame) };
        v.counters.generated += 1;
        if v.cpu.first_seen() {
            self.seen.push(vid);
        }
        // It counts as the VDP's work, but is not refused for what its other frames have used.
        let units = u64::from(r.cost);
        let _ = v.cpu.ask(units);
        self.interval_units += units;
        // Off the fast path, what goes to the tables goes where received frames go: it misses in
        // empty ones here, and joins them.
        let fast = v.phase == Phase::On(Path::Fast);
        let aside = (!fast).then(|| std::mem::take(&mut v.fast.tables));
        let to_channel = ActionResult::to_channel();
        let default = if fast { &v.miss } else { &to_channel };
        let mut e = FastEgress {
            vid,
            now: self.now,
            pool: &mut self.pool,
            ports: &self.ports,
            vdp_ports: &v.all_ids,
            edge: &mut v.edge,
            counters: &mut v.counters,
            out: &mut w.out,
            soft: &mut w.soft,
            grave: &mut w.grave,
        };
        let in_port = it.in_port;
        let mut s =
            Subject { vid, in_port, key: &mut it.key, layers: it.layers, fields: &v.fields };
        execute::packet_out(r, it.frame, &mut s, &mut v.fast, default, &mut e);
        if let Some(tables) = aside {
            v.fast.tables = tables;
        }
        if matches!(v.phase, Phase::Draining { .. } | Phase::Returning) {
            let waits = |f: &mut ToServer| f.to == ChannelTo::Program(Punt::Default);
            for f in w.soft.extract_if(.., waits) {
                if v.hold.len() < HOLD_FRAMES {
                    v.hold.push_back(Held { frame: f.frame, in_port });
                } else {
                    v.counters.dropped.add(DropReason::HoldFull);
                    w.grave.push(f.frame);
                }
            }
        }
        self.hand_to_software(in_port);
    }

    /// Hands what was put in to the forwarding stage, and sends it.
    pub(crate) fn send_injected(&mut self) {
        let mut ports: Vec<PortId> = self.work.out.iter().map(|o| o.port).collect();
        ports.sort_unstable();
        ports.dedup();
        self.hand_to_forwarding();
        for at in ports {
            let port = self.ports.get_mut(usize::from(at.0)).and_then(Option::as_deref_mut);
            let Some(p) = port else { continue };
            let mut a = Accounts {
                at,
                vdps: &mut self.vdps,
                retired: &mut self.retired,
                port: &mut p.counters,
                grave: &mut self.work.grave,
            };
            p.tx.flush(self.now, &mut self.pool, &mut a);
        }
        self.bury();
    }
}
