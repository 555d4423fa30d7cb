//! One pipeline on one path. A VDP may have rules on the slow path (`Placement`); with one table
//! that is asked after the fast path. With several tables a frame could not go on where its next
//! rule lives, so the VDP goes to the slow path as a whole, which has all rules then, and comes back
//! when none lives there any more.
//!
//! Room: as the rest of `control`. Called after every change of rules; a step costs a look at two
//! lengths. The ways themselves are those of a migration.

use super::*;
use crate::action::Vid;
use crate::plane::DataPlane;
use crate::vdp::{Path, Phase, Spilled};

impl DataPlane {
    /// Sees to it that a VDP's rules can all be reached on the path it is on.
    pub(crate) fn settle_path(&mut self, vid: Vid) -> Result<(), ControlError> {
        let v = self.vdp_mut(vid)?;
        let split = !v.slow_only.is_empty() && v.fast.tables.are_several();
        match (v.spilled, split) {
            (Spilled::No, true) => {
                let back = match v.phase {
                    Phase::On(Path::Fast) | Phase::Draining { .. } | Phase::Drained { .. } => {
                        Path::Fast
                    }
                    _ => Path::Slow,
                };
                v.spilled = Spilled::Whole { back };
                v.migration.spilled =
                    v.migration.spilled.saturating_add(u32::from(back == Path::Fast));
                match v.phase {
                    Phase::On(Path::Fast) => self.enter_slow(vid)?,
                    // Its copies are there still. What is held goes first, as when time is up.
                    Phase::Draining { .. } | Phase::Drained { .. } => v.phase = Phase::Returning,
                    _ => {}
                }
            }
            // On its way to the slow path: asked again when it is there.
            (Spilled::Whole { .. }, false) if v.phase == Phase::Returning => {}
            (Spilled::Whole { back }, false) => {
                v.spilled = Spilled::No;
                if back == Path::Fast && v.phase == Phase::On(Path::Slow) {
                    self.enter_fast(vid)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}
