//! Moving a VDP between the paths (004 §4.2): the request; `plane/phases.rs` carries it out.

use super::*;
use crate::action::Vid;
use crate::plane::DataPlane;
use crate::vdp::{Path, Phase, Spilled};

impl DataPlane {
    /// Moves a VDP to another path (004 §4.2). To the slow path at once; to the fast path as soon
    /// as the channel has given back all its frames, new ones being held meanwhile.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn migrate(&mut self, vid: Vid, to: Path) -> Result<(), ControlError> {
        if vid.0 == 0 {
            return Err(ControlError::DefaultVdp);
        }
        let v = self.vdp_mut(vid)?;
        if let Spilled::Whole { back } = &mut v.spilled {
            // It stays where it is, whatever it is asked; this says for how long.
            if to == Path::Fast {
                return Err(ControlError::Split(vid));
            }
            *back = to;
        }
        match (v.phase, to) {
            (Phase::On(at), to) if at == to => Ok(()),
            (Phase::On(_), _) if self.workers() > 1 => self.refuse_slow(vid),
            (Phase::On(_), Path::Slow) => self.enter_slow(vid),
            (Phase::On(_), Path::Fast) => self.enter_fast(vid),
            _ => Err(ControlError::Migrating(vid)),
        }
    }

    /// From the fast path to the slow one, at once.
    pub(super) fn enter_slow(&mut self, vid: Vid) -> Result<(), ControlError> {
        self.copy_to_slow(vid)?;
        let v = self.vdp_mut(vid)?;
        v.phase = Phase::On(Path::Slow);
        v.migration.completed += 1;
        Ok(())
    }

    /// From the slow path to the fast one, as soon as the channel is empty.
    pub(super) fn enter_fast(&mut self, vid: Vid) -> Result<(), ControlError> {
        let (since, deadline) = (self.now, self.now + self.config.drain_limit);
        let v = self.vdp_mut(vid)?;
        v.phase = Phase::Draining { deadline, since };
        v.hold.reserve(crate::plane::HOLD_FRAMES);
        self.migrating += 1;
        Ok(())
    }

    /// Gives the slow path a copy of all rules of the fast path.
    pub(super) fn copy_to_slow(&mut self, vid: Vid) -> Result<(), ControlError> {
        let v = self.vdp_mut(vid)?;
        let mut rules = Vec::with_capacity(v.fast.len());
        for (n, t) in v.fast.tables.iter_mut().enumerate() {
            t.lend_all(&mut |r| rules.push((n as u8, r)));
        }
        self.post(vid, move |s| {
            for (n, r) in rules {
                s.put_copy(n, r);
            }
        })
    }

    /// Where a VDP's frames are processed now.
    ///
    /// # Errors
    /// No such VDP.
    pub fn phase(&self, vid: Vid) -> Result<Phase, ControlError> {
        Ok(self.vdp(vid)?.phase)
    }
}
