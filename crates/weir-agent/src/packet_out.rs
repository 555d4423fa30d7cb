//! Packets from controllers (1.3 §7.3.7, 1.0 §5.3.6): gathered like changes of flows, so that they
//! go out after what was asked before them.

use crate::actions::{Named, Place, turn};
use crate::apply::{Frame, Job};
use crate::plane::Plane;
use crate::request::{Asker, Cx, Stop};
use crate::switch::Switch;
use weir_openflow::model::{ErrorCode, NO_BUFFER, PacketOut, Port, Version};

/// A frame has at least its Ethernet header.
const LEAST: usize = 14;

impl Switch {
    pub(crate) fn packet_out<P: Plane>(
        &mut self,
        who: &Asker,
        m: PacketOut,
        cx: &mut Cx<'_, P>,
    ) -> Result<(), Stop> {
        let known = match m.in_port {
            Port::CONTROLLER | Port::LOCAL => true,
            // 1.0's NONE.
            Port::ANY => who.version == Version::V10,
            p => self.state.ports.contains_key(&p),
        };
        if !known {
            return Err(ErrorCode::BadPort.into());
        }
        let mut named = Named::default();
        let actions = turn(&m.actions, Place::PacketOut, &self.state, &mut named)?;
        if actions.len() > weir_dataplane::MAX_ACTIONS {
            return Err(ErrorCode::ActionTooMany.into());
        }
        let bytes = match m.buffer_id {
            NO_BUFFER if m.data.len() < LEAST => return Err(ErrorCode::BadPacket.into()),
            NO_BUFFER => m.data,
            id => self.buffers.take(id)?.frame,
        };
        if actions.is_empty() {
            return Ok(());
        }
        let in_port = m.in_port;
        self.pending.push(Job::Send(Frame { asker: *who, in_port, bytes, actions }));
        self.flush_when_full(cx)
    }
}
