//! Stages 1 to 3 over one burst: mapping, matching, processing. Each loop walks the burst once; its
//! counter ends with [`BURST`], so that no access to what is known of a frame is checked.

use super::*;
use crate::action::Vid;
use crate::compile::bits;
use crate::cpu_share::Grant;
use crate::edge::At;
use crate::execute::{self, ChannelTo, InvalidTtl, Source, Subject};
use crate::execute::{apply_changes, apply_paper_bits};
use crate::packet::extract;
use crate::program::Punt;
use crate::software::ToServer;
use crate::vdp::{Held, Path, Phase};
use weir_classify::simd::prefetch_read;
use weir_packet::{DropReason, PortId};

impl DataPlane {
    /// Stage 1.
    #[inline]
    pub(super) fn map(&mut self, in_port: PortId) {
        let w = &mut self.work;
        let frames = w.burst.as_slice();
        for f in frames {
            prefetch_read(f.bytes());
        }
        for (i, f) in (0..BURST).zip(frames) {
            let key = &mut w.keys[i];
            match extract(f.bytes(), in_port.0.into(), key) {
                Ok(l) => {
                    w.layers[i] = l;
                    w.slots[i] = Slot::Default;
                    w.probes[i] = self.mapping.probe(key);
                }
                Err(why) => w.slots[i] = Slot::Drop(why),
            }
        }
        for (i, f) in (0..BURST).zip(frames) {
            if let Slot::Drop(_) = w.slots[i] {
                w.vids[i] = Vid(u16::MAX);
                continue;
            }
            w.vids[i] = self.mapping.resolve(&w.keys[i], w.probes[i], f.bytes(), &w.layers[i]);
        }
    }

    /// Stage 2.
    #[inline]
    pub(super) fn match_rules(&mut self, in_port: PortId) {
        self.warm_tables();
        let w = &mut self.work;
        for (i, f) in (0..BURST).zip(w.burst.as_slice()) {
            let (slot, vid) = (&mut w.slots[i], w.vids[i]);
            if let Slot::Drop(_) = slot {
                continue;
            }
            let key = &mut w.keys[i];
            let Some(v) = vdp_mut(&mut self.vdps, vid) else {
                *slot = Slot::Drop(DropReason::VdpGone);
                continue;
            };
            let at = v.edge.at(in_port);
            v.edge.received(at, f.len());
            if v.spent.first_seen() {
                self.seen.push(vid);
            }
            if let Some(other) = enter(v, at, in_port, key, &mut self.interval_units) {
                *slot = other;
                continue;
            }
            key.0[0] = key.0[0] & 0xffff_ffff | u64::from(at.no) << 32;
            v.fields.extract(f.bytes(), &w.layers[i], key);
            w.probes[i] = v.fast.tables.first().probe(key);
            *slot = Slot::Rule(0);
        }
        self.find_rules(0);
        if self.taps.any() {
            self.tap_matched(in_port);
        }
    }

    /// Many VDPs mean many lines far away: they are asked for before any is needed, and not while it is found out whose
    /// frames are, which would wait for them.
    #[inline(always)]
    pub(super) fn warm_tables(&self) {
        let w = &self.work;
        let many = if self.vdps.len() > FEW_VDPS { w.burst.len() } else { 0 };
        let vids = w.vids.iter().take(many);
        let vdps = vids.filter_map(|vid| self.vdps.get(usize::from(vid.0))?.as_deref());
        let far = vdps.clone().fold(false, |far, v| far | v.prefetch());
        if far {
            vdps.for_each(|v| v.fast.tables.first().warm());
        }
    }

    /// Second half of stage 2: which rules take the frames that rules are asked about, but for those `known`, a bit each.
    #[inline(always)]
    pub(super) fn find_rules(&mut self, known: u64) {
        let w = &mut self.work;
        let mut far = known != 0;
        for i in (0..w.burst.len().min(BURST)).filter(|i| known >> i & 1 == 0) {
            let Slot::Rule(_) = w.slots[i] else { continue };
            let Some(v) = vdp_mut(&mut self.vdps, w.vids[i]) else { continue };
            let t = v.fast.tables.first_mut();
            w.slots[i] = match t.resolve(&w.keys[i], w.probes[i]) {
                Some(slot) => {
                    t.prefetch(slot);
                    far |= t.is_far(slot);
                    Slot::Rule(slot)
                }
                None => Slot::Default,
            };
        }
        if far {
            self.warm_programs();
        }
    }

    /// Asks for what the rules that take frames do, where that is far.
    #[inline(never)]
    pub(super) fn warm_programs(&self) {
        let w = &self.work;
        let found = w.slots.iter().zip(w.vids).take(w.burst.len());
        let of = |(slot, vid): (&Slot, Vid)| {
            let (table, slot) = slot.rule()?;
            let v = self.vdps.get(usize::from(vid.0))?.as_deref()?;
            Some((v.fast.tables.get(table.into())?, slot))
        };
        found.clone().filter_map(of).for_each(|(t, slot)| t.prefetch_program(slot));
        found.filter_map(of).for_each(|(t, slot)| t.prefetch_headers(slot));
    }

    /// Stage 3.
    #[inline]
    pub(super) fn process(&mut self, in_port: PortId) {
        let all = u64::MAX.checked_shr((BURST - self.work.burst.len()) as u32).unwrap_or(0);
        self.warm_meters(all);
        let w = &mut self.work;
        'frames: for (i, mut frame) in (0..BURST).zip(w.burst.drain()) {
            let vid = w.vids[i];
            let slot = w.slots[i];
            let Some(v) = vdp_mut(&mut self.vdps, vid) else {
                let why = match slot {
                    Slot::Drop(why) => why,
                    _ => DropReason::VdpGone,
                };
                self.unmapped.received.add(frame.len());
                self.unmapped.dropped.add(why);
                w.grave.push(frame);
                continue;
            };
            let source = 'first: {
                let entry = match slot {
                    Slot::Rule(s) => v.fast.tables.first_mut().hit(s, frame.len(), self.now),
                    Slot::Default => None,
                    // Counted, and through tables already.
                    Slot::At { table, slot } => {
                        let writer = w.carrying.writer(i);
                        break 'first match writer {
                            Some(writer) => Source::Carrying { table, slot, writer },
                            None => Source::Entry { table, slot },
                        };
                    }
                    Slot::DefaultOf(table) => break 'first Source::Default(table),
                    Slot::Hold => {
                        if v.hold.len() < HOLD_FRAMES {
                            v.hold.push_back(Held { frame, in_port });
                        } else {
                            v.counters.dropped.add(DropReason::HoldFull);
                            w.grave.push(frame);
                        }
                        continue 'frames;
                    }
                    Slot::Relay(port) => {
                        if v.spent.ask(&mut v.cpu, 1) == Grant::Exceeded {
                            v.counters.dropped.add(DropReason::CpuShare);
                            w.grave.push(frame);
                        } else {
                            self.interval_units += 1;
                            w.out.push(OutItem { frame, port, vid, queue: 0 });
                        }
                        continue 'frames;
                    }
                    Slot::Out(port) => {
                        w.out.push(OutItem { frame, port, vid, queue: 0 });
                        continue 'frames;
                    }
                    Slot::Drop(why) => {
                        v.counters.dropped.add(why);
                        w.grave.push(frame);
                        continue 'frames;
                    }
                };
                let (r, source) = match (entry, slot) {
                    (Some(e), Slot::Rule(s)) => (&e.result, Source::Entry { table: 0, slot: s }),
                    // On the slow path the default rule is the first rule: everything by the channel.
                    _ if v.phase == Phase::On(Path::Slow) => {
                        if v.spent.ask(&mut v.cpu, 2) == Grant::Exceeded {
                            v.counters.dropped.add(DropReason::CpuShare);
                            w.grave.push(frame);
                        } else {
                            self.interval_units += 2;
                            w.soft.push(ToServer {
                                frame,
                                vid,
                                in_port,
                                to: ChannelTo::Program(Punt::Default),
                            });
                        }
                        continue 'frames;
                    }
                    _ => {
                        // Where rules live on the slow path only, that looks the frame up.
                        if v.slow_only.is_empty() {
                            v.fast.tables.first_mut().miss();
                        }
                        (&v.miss, Source::Default(0))
                    }
                };
                let units = u64::from(r.cost);
                if v.spent.ask(&mut v.cpu, units) == Grant::Exceeded {
                    v.counters.dropped.add(DropReason::CpuShare);
                    w.grave.push(frame);
                    continue 'frames;
                }
                self.interval_units += units;
                // The common shapes, straight. Whoever wants to hear of an invalid TTL takes the long way.
                let told = r.bits & (bits::TTL | bits::PROGRAM) != 0
                    && v.fast.invalid_ttl != InvalidTtl::Drop;
                let changed = r.bits & (bits::PROGRAM | bits::STRAIGHT)
                    == bits::PROGRAM | bits::STRAIGHT
                    && r.port != in_port;
                let forwarded =
                    r.bits & (bits::PROGRAM | bits::DROP | bits::FORWARD) == bits::FORWARD;
                if (forwarded || changed) && !told {
                    let (layers, key) = (w.layers[i], &mut w.keys[i]);
                    let done = match &r.program {
                        Some(ops) => apply_changes(ops, &mut frame, layers, key),
                        None => apply_paper_bits(r, &mut frame, layers, key),
                    };
                    match done {
                        Ok(()) if r.port != in_port => {
                            let port = r.port;
                            if v.edge.guarded()
                                && let Some(why) = v.edge.refuse_out(port)
                            {
                                v.counters.dropped.add(why);
                                w.grave.push(frame);
                                continue 'frames;
                            }
                            w.out.push(OutItem { frame, port, vid, queue: 0 });
                        }
                        Ok(()) => {
                            v.counters.dropped.add(DropReason::Action);
                            w.grave.push(frame);
                        }
                        Err(why) => {
                            v.counters.dropped.add(why);
                            w.grave.push(frame);
                        }
                    }
                    continue 'frames;
                }
                if r.bits & (bits::PROGRAM | bits::DROP | bits::FORWARD) == 0 {
                    let why = match source {
                        Source::Default(_) => Punt::Default,
                        Source::Entry { .. } | Source::Carrying { .. } => Punt::Action,
                    };
                    let to = ChannelTo::Program(why);
                    w.soft.push(ToServer { frame, vid, in_port, to });
                    continue 'frames;
                }
                source
            };
            let (ports, now) = (&self.ports, self.now);
            let (out, soft, grave) = (&mut w.out, &mut w.soft, &mut w.grave);
            let (mut e, d) = FastEgress::of(v, now, &mut self.pool, ports, out, soft, grave);
            let (key, layers) = (&mut w.keys[i], w.layers[i]);
            let mut s = Subject { vid, in_port, key, layers, fields: d.fields };
            execute::run(source, frame, &mut s, d.tables, d.miss, &mut e);
        }
    }
}

/// What becomes of a frame of `v`'s that came in at `at`, where rules are not asked.
#[inline(always)]
pub(super) fn enter(
    v: &mut Vdp,
    at: At,
    in_port: PortId,
    key: &FlowKey,
    units: &mut u64,
) -> Option<Slot> {
    if v.edge.guarded() && !v.is_leaving() {
        if let Some(why) = v.edge.refuse_in(at, key) {
            return Some(Slot::Drop(why));
        }
        // A dear lookup is asked for before it is done.
        if v.spent.ask_lookup(&mut v.cpu) == Grant::Exceeded {
            return Some(Slot::Drop(DropReason::CpuShare));
        }
        *units += u64::from(v.spent.lookup);
    }
    match v.phase {
        Phase::On(Path::Fast) => None,
        Phase::On(Path::Slow) => Some(Slot::Default),
        Phase::Draining { .. } | Phase::Drained { .. } | Phase::Returning => Some(Slot::Hold),
        Phase::Away | Phase::Leaving { .. } | Phase::Coming { .. } => Some(v.relay(in_port)),
        Phase::Deleting { .. } => Some(Slot::Drop(DropReason::VdpGone)),
    }
}
