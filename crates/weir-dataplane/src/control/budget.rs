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
