//! Packets from controllers (1.3 §7.3.7, 1.0 §5.3.6): gathered like changes of flows, so that they
//! go out after what was asked before them.

use crate::actions::{Named, Place, turn};
use crate::apply::{Frame, Job, Source};
use crate::buffers::Lent;
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
        let (bytes, from) = match self.lend(m.buffer_id, cx)? {
            None if m.data.len() < LEAST => return Err(ErrorCode::BadPacket.into()),
            None => (m.data, Source::Message),
            Some(lent) => (lent.packet.frame, Source::Buffer(lent.id)),
        };
        if actions.is_empty() {
            if let Source::Buffer(id) = from {
                self.buffers.spend(id);
            }
            return Ok(());
        }
        let in_port = m.in_port;
        self.pending.push(Job::Send(Frame { asker: *who, in_port, bytes, actions, from }));
        self.flush_when_full(cx)
    }

    /// The packet that a message names, for as long as it is gathered.
    pub(crate) fn lend<P: Plane>(
        &mut self,
        id: u32,
        cx: &mut Cx<'_, P>,
    ) -> Result<Option<Box<Lent>>, Stop> {
        if id == NO_BUFFER {
            return Ok(None);
        }
        // Whether it is there still depends on what became of that.
        if self.buffers.is_lent(id) {
            self.flush(cx)?;
        }
        Ok(Some(Box::new(self.buffers.lend(id)?)))
    }
}
