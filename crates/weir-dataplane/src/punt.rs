//! Frames on their way to a VDP's controllers: what a sink is told of each.
//!
//! Room: between the software stage, which calls sinks, and whoever speaks OpenFlow. A frame takes
//! the VDP's channel like one for its program, so a flood of packet-ins has the VDP's part of the
//! channel and no more, and those of a flow keep their order.

use crate::action::PortNo;
use crate::compile::{PuntMeta, PuntReason};

/// A frame for the controllers (OpenFlow 1.3, §A.4.1; 1.0, §5.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Punted<'a> {
    /// The VDP's number of the port it came in by; 0xffff_fffd for a packet-out of a controller, 0xffff_ffff for one from no port.
    pub in_port: PortNo,
    /// Why it comes.
    pub reason: PuntReason,
    /// The table of the rule that sent it.
    pub table: u8,
    /// That rule's cookie; all ones for the VDP's default, and what a group's bucket or the action set sends.
    pub cookie: u64,
    /// Bytes of it that are wanted.
    pub max_len: u16,
    /// Its metadata then.
    pub metadata: u64,
    /// Its tunnel id then.
    pub tunnel_id: u64,
    /// The frame, whole, Ethernet header first, without FCS.
    pub frame: &'a [u8],
}

impl<'a> Punted<'a> {
    pub(crate) fn new(in_port: PortNo, m: PuntMeta, frame: &'a [u8]) -> Self {
        let PuntMeta { reason, table, cookie, max_len, metadata, tunnel_id } = m;
        Self { in_port, reason, table, cookie, max_len, metadata, tunnel_id, frame }
    }
}

/// Where a VDP's frames for its controllers go.
pub trait PuntSink: Send {
    /// Takes a frame, which ends here and was counted as consumed. Called by the thread that serves
    /// the VDP's channel, so it must not block: what it can't take it drops, and counts.
    fn punt(&mut self, p: Punted<'_>);
    /// Another end for the same receiver, which another thread calls. `None`: there can be only one.
    fn another(&self) -> Option<Box<dyn PuntSink>> {
        None
    }
}
