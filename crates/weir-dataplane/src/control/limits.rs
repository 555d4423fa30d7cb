//! Shares of ports and of the worker; the TCAM for the supervisor.

use super::*;
use crate::action::Vid;
use crate::forwarding::PortShare;
use crate::plane::DataPlane;
use crate::shortcut::Ways;
use weir_classify::{Part, Tcam};
use weir_packet::PortId;

impl DataPlane {
    /// Sets a VDP's share of a port.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn set_share(
        &mut self,
        vid: Vid,
        port: PortId,
        share: PortShare,
    ) -> Result<(), ControlError> {
        if self.desk.is_some() {
            return self.everywhere(move |p| p.set_share(vid, port, share));
        }
        if !self.vdp(vid)?.port_ids.contains(&port) {
            return Err(ControlError::NoPort(port));
        }
        if let Some(why) = share.problem() {
            return Err(ControlError::Share { port, why });
        }
        let default = PortShare::default();
        if share != default {
            let what = "a share of a port";
            if (share.guarantee_bps, share.weight) == (default.guarantee_bps, default.weight) {
                let why =
                    "each has queues of its own at a port, which would give it the whole share";
                self.takes_a_pin(vid, what, why)?;
            } else {
                let why = "what VDPs of the others send by the port is not known to its worker";
                self.takes_one_worker(vid, what, why)?;
            }
        }
        let now = self.now;
        self.shorten_not(Ways::All);
        self.with_tx(port, |tx, _, _| tx.set_share(vid, share, now))
            .ok_or(ControlError::NoPort(port))
    }
    /// Sets a VDP's guaranteed part of the worker's cycles, in thousandths.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn set_cpu(&mut self, vid: Vid, permille: u16) -> Result<(), ControlError> {
        if self.desk.is_some() {
            return self.everywhere(move |p| p.set_cpu(vid, permille));
        }
        self.check_cpu(vid, permille)?;
        let before = std::mem::replace(&mut self.vdp_mut(vid)?.cpu.guarantee_permille, permille);
        self.repromise(before, permille);
        Ok(())
    }
    /// Sets how many TCAM entries a VDP's action rules may not exceed. Rules that are there stay.
    ///
    /// # Errors
    /// No such VDP.
    pub fn set_action_limit(&mut self, vid: Vid, limit: Option<u32>) -> Result<(), ControlError> {
        if self.desk.is_some() {
            return self.everywhere(move |p| p.set_action_limit(vid, limit));
        }
        self.vdp_mut(vid)?.action_limit = limit;
        Ok(())
    }
    /// Grows a VDP's slices to hold `entries` action rules, or gives back what is not in use beyond them.
    ///
    /// # Errors
    /// A spent budget.
    pub fn reserve_actions(&mut self, vid: Vid, entries: u32) -> Result<(), ControlError> {
        if self.desk.is_some() {
            return self.everywhere(move |p| p.reserve_actions(vid, entries));
        }
        Ok(self.tcam.guarantee(Part::Action, owner(vid), entries).map(|_| ())?)
    }
    /// The TCAM: who has which slice (004 §4.4's lower API).
    pub fn tcam(&self) -> &Tcam {
        &self.tcam
    }
    /// The TCAM, for the supervisor.
    pub fn tcam_mut(&mut self) -> &mut Tcam {
        &mut self.tcam
    }
}
