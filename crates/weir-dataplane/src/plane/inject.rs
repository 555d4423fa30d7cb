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
        if v.spent.first_seen() {
            self.seen.push(vid);
        }
        // It counts as the VDP's work, but is not refused for what its other frames have used.
        let units = u64::from(r.cost);
        let _ = v.spent.ask(&mut v.cpu, units);
        self.interval_units += units;
        // Off the fast path, what goes to the tables goes where received frames go: it misses in
        // empty ones here, and joins them.
        let fast = v.phase == Phase::On(Path::Fast);
        let to_channel = ActionResult::to_channel();
        let (ports, now, in_port) = (&self.ports, self.now, it.in_port);
        let (out, soft, grave) = (&mut w.out, &mut w.soft, &mut w.grave);
        let (mut e, d) = FastEgress::of(v, now, &mut self.pool, ports, out, soft, grave);
        let aside = (!fast).then(|| std::mem::take(&mut d.tables.tables));
        let default = if fast { d.miss } else { &to_channel };
        let (key, layers) = (&mut it.key, it.layers);
        let mut s = Subject { vid, in_port, key, layers, fields: d.fields };
        execute::packet_out(r, it.frame, &mut s, d.tables, default, &mut e);
        if let Some(tables) = aside {
            d.tables.tables = tables;
        }
        if v.phase.is_on_its_way() {
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
        self.hand_to_forwarding(None);
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
