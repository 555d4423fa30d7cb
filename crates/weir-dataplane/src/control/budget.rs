//! The TCAM's budget, charged rule by rule.

use crate::action::Vid;
use crate::plane::DataPlane;
use weir_classify::{Owner, Part, TcamError};

impl DataPlane {
    /// Takes an entry for a rule, and one more slice where the VDP's are full.
    pub(super) fn charge(&mut self, part: Part, vid: Vid) -> Result<(), TcamError> {
        let limit = self.vdps.get(usize::from(vid.0)).and_then(Option::as_ref);
        let limit = limit.and_then(|v| v.action_limit).filter(|_| part == Part::Action);
        let who = owner(vid);
        match self.tcam.add(part, who, 1) {
            Err(spent @ TcamError::Spent { allowed, .. }) => {
                if limit.is_some_and(|l| allowed >= l) {
                    return Err(spent);
                }
                self.tcam.borrow_slice(part, who)?;
                self.tcam.add(part, who, 1)
            }
            other => other,
        }
    }
    /// How many action rules a VDP may have on the fast path, as things stand: its slices and those
    /// that it may still borrow. Others' borrowing makes it less. Zero: no such VDP.
    pub fn action_room(&self, vid: Vid) -> u32 {
        let Ok(v) = self.vdp(vid) else { return 0 };
        let own = self.tcam.usage(Part::Action, owner(vid)).allowed;
        let all = own.saturating_add(self.tcam.free_entries(Part::Action));
        match v.action_limit {
            // Slices are borrowed whole, while the limit is not reached.
            Some(limit) => {
                let slice = self.tcam.slice_entries();
                all.min(limit.div_ceil(slice).saturating_mul(slice)).max(own)
            }
            None => all,
        }
    }
    /// Gives entries back, and with them the slices beyond the VDP's own that no rule is left in.
    pub(super) fn uncharge(&mut self, part: Part, vid: Vid, n: usize) {
        // It was charged before, so there is something to give back.
        let _ = self.tcam.remove(part, owner(vid), entries(n));
        self.tcam.give_back_idle(part, owner(vid));
    }
}

pub(super) fn owner(vid: Vid) -> Owner {
    Owner(vid.0.into())
}

pub(super) fn entries(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
