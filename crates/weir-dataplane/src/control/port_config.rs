//! What a VDP asks of its ports and of fragments, and what happened at its ports.
//!
//! Room: as the rest of `control`. It holds for one VDP: another on the same port goes on.

use super::*;
use crate::action::{PortNo, Vid};
use crate::compile::ResolvePort;
use crate::edge::{Fragments, Isolation, PortFlags, VdpPortCounters};
use crate::plane::DataPlane;
use weir_packet::PortId;

impl DataPlane {
    /// The port of the data plane behind a VDP's number.
    fn port_of(&self, vid: Vid, no: PortNo) -> Result<PortId, ControlError> {
        self.vdp(vid)?.port(no).ok_or(ControlError::NoVdpPort { vid, port: no })
    }
    /// Sets what a VDP asks of one of its ports; all of it, so that a flag not given is cleared
    /// (OpenFlow 1.3, §A.3.4.3).
    ///
    /// # Errors
    /// No such VDP, or it has no such port.
    pub fn set_port_config(
        &mut self,
        vid: Vid,
        no: PortNo,
        flags: PortFlags,
    ) -> Result<(), ControlError> {
        if self.desk.is_some() {
            return self.everywhere(move |p| p.set_port_config(vid, no, flags));
        }
        let id = self.port_of(vid, no)?;
        self.vdp_mut(vid)?.set_flags(id, flags);
        self.tell_ports(vid)
    }
    /// What a VDP asks of one of its ports.
    ///
    /// # Errors
    /// As [`DataPlane::set_port_config`].
    pub fn port_config(&self, vid: Vid, no: PortNo) -> Result<PortFlags, ControlError> {
        let id = self.port_of(vid, no)?;
        Ok(self.vdp(vid)?.edge.flags(id))
    }
    /// Cuts a VDP off from all of its ports: what comes for it and what it would send is dropped and counted
    /// ([`weir_packet::DropReason::Isolated`]), whatever its rules and its controllers say. Rules, counters and
    /// sessions stay.
    ///
    /// # Errors
    /// No such VDP.
    pub fn isolate(&mut self, vid: Vid, isolation: Isolation) -> Result<(), ControlError> {
        if self.desk.is_some() {
            return self.everywhere(move |p| p.isolate(vid, isolation));
        }
        self.vdp_mut(vid)?.edge.set_isolated(isolation == Isolation::CutOff);
        Ok(())
    }
    /// Sets what becomes of a VDP's fragments.
    ///
    /// # Errors
    /// No such VDP.
    pub fn set_fragments(&mut self, vid: Vid, fragments: Fragments) -> Result<(), ControlError> {
        if self.desk.is_some() {
            return self.everywhere(move |p| p.set_fragments(vid, fragments));
        }
        self.vdp_mut(vid)?.edge.set_fragments(fragments);
        Ok(())
    }
    /// What becomes of a VDP's fragments.
    ///
    /// # Errors
    /// No such VDP.
    pub fn fragments(&self, vid: Vid) -> Result<Fragments, ControlError> {
        Ok(self.vdp(vid)?.edge.fragments())
    }
    /// What happened to this VDP's frames, and nobody else's, at each of its ports.
    ///
    /// # Errors
    /// No such VDP.
    pub fn vdp_port_counters(
        &self,
        vid: Vid,
    ) -> Result<Vec<(PortNo, VdpPortCounters)>, ControlError> {
        let v = self.vdp(vid)?;
        if let Some(desk) = &self.desk {
            return Ok(desk.vdp_port_counters(vid));
        }
        let mut all = v.port_counters();
        if let Some(b) = &v.brought {
            all.iter_mut().for_each(|(no, c)| *c = b.port(*no, *c));
        }
        Ok(all)
    }
}
