//! Packet-outs: frames that a VDP's controllers send (OpenFlow 1.3, §A.3.7; 1.0, §5.3.6).
//!
//! Room: as the rest of `control`. Each is sent, or refused and nothing of it has happened. The way
//! of the frame is `plane::inject`.

use super::*;
use crate::action::{Action, PortNo, Vid};
use crate::compile::{self, CompileError, Op, ResolvePort};
use crate::edge;
use crate::packet::extract;
use crate::plane::{DataPlane, Injected};
use weir_classify::FlowKey;
use weir_packet::DropReason;

/// Where a packet-out counts as having come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortIn {
    /// By this port of the VDP, or by LOCAL (0xffff_fffe).
    Port(PortNo),
    /// From a controller: OFPP_CONTROLLER.
    Controller,
    /// By none.
    None,
}

/// A frame that a controller sends.
#[derive(Clone, Copy, Debug)]
pub struct PacketOut<'a> {
    /// Where it counts as having come in: what IN_PORT means and FLOOD leaves out.
    pub in_port: PortIn,
    /// The frame, Ethernet header first, without FCS.
    pub frame: &'a [u8],
    /// What to do with it. An empty list drops it.
    pub actions: &'a [Action],
}

/// Packet-outs that are handed on at once.
const AT_ONCE: usize = 64;

impl DataPlane {
    /// Sends one frame; see [`DataPlane::packet_outs`].
    ///
    /// # Errors
    /// [`ControlError`]. One for which no frame was free ([`ControlError::NoFrame`]) is counted as
    /// generated and dropped.
    pub fn packet_out(&mut self, vid: Vid, out: PacketOut<'_>) -> Result<(), ControlError> {
        if self.desk.is_some() {
            let refused = self.packet_outs(vid, [out]).pop();
            return refused.map_or(Ok(()), |(_, e)| Err(e));
        }
        let sent = self.put_in(vid, &out);
        self.send_injected();
        sent
    }
    /// Sends frames, in order, as if they had come in where they say and met these actions. Gives
    /// those that were refused: their place, and why.
    pub fn packet_outs<'a>(
        &mut self,
        vid: Vid,
        outs: impl IntoIterator<Item = PacketOut<'a>>,
    ) -> Vec<(usize, ControlError)> {
        if let Some(desk) = &self.desk {
            return desk.packet_outs(self.worker_of(vid), vid, outs);
        }
        let mut refused = Vec::new();
        for (i, out) in outs.into_iter().enumerate() {
            if let Err(e) = self.put_in(vid, &out) {
                refused.push((i, e));
            }
            if (i + 1).is_multiple_of(AT_ONCE) {
                self.send_injected();
            }
        }
        self.send_injected();
        // What they send to their controller is with it before it learns that they were sent.
        self.serve_here();
        refused
    }

    fn put_in(&mut self, vid: Vid, out: &PacketOut<'_>) -> Result<(), ControlError> {
        self.is_sent_once(vid)?;
        let v = self.vdp(vid)?;
        let in_port = match out.in_port {
            PortIn::Controller => edge::CONTROLLER,
            PortIn::None => edge::NOWHERE,
            PortIn::Port(no) if no == edge::reserved_no(edge::LOCAL) => edge::LOCAL,
            PortIn::Port(port) => v.port(port).ok_or(ControlError::NoVdpPort { vid, port })?,
        };
        let r = compile::compile_packet_out(out.actions, v)?;
        self.refuse_normal(vid, &r)?;
        let missing = |op: &Op| match op {
            Op::Group(id) if !v.fast.groups.contains(*id) => Some(("group", *id)),
            Op::Meter(id) if !v.fast.meters.contains(*id) => Some(("meter", *id)),
            _ => None,
        };
        if let Some((what, id)) = r.ops().find_map(missing) {
            return Err(CompileError::Missing { what, id }.into());
        }
        let (what, value) = ("a packet-out's frame", out.frame.len());
        let (mut key, no) = (FlowKey::default(), v.edge.at(in_port).no);
        let Ok(layers) = extract(out.frame, no, &mut key) else {
            let why = "bytes are less than an Ethernet header: 14 at least";
            return Err(ControlError::Size { what, value, why });
        };
        v.fields.extract(out.frame, &layers, &mut key);
        if value > self.pool.max_frame_bytes() {
            let why = "bytes are more than the data plane's frames hold: raise chunk_bytes";
            return Err(ControlError::Size { what, value, why });
        }
        // The last frames are for reception, so that one VDP's controller starves nobody.
        let enough = self.pool.available() > Config::kept_from_packet_outs(&self.pool);
        let Some(mut frame) = enough.then(|| self.pool.alloc()).flatten() else {
            // It came into being and ended at once, as a copy does that finds no frame.
            let v = self.vdp_mut(vid)?;
            v.packet_outs_lost += 1;
            v.counters.generated += 1;
            v.counters.dropped.add(DropReason::NoFrame);
            return Err(ControlError::NoFrame);
        };
        if frame.copy_from(out.frame).is_err() {
            self.pool.free(frame);
            let why = "bytes do not fit a frame: raise chunk_bytes";
            return Err(ControlError::Size { what, value, why });
        }
        self.inject(vid, &r, Injected { frame, in_port, key, layers });
        Ok(())
    }
}
