//! Moving a VDP between the paths (004 §4.2): the request; `plane/phases.rs` carries it out.

use super::*;
use crate::action::Vid;
use crate::plane::{DataPlane, vdp_mut};
use crate::software::SlowRule;
use crate::vdp::{Path, Phase, Spilled};

/// Rules that are copied at a time.
const COPIED: usize = 256;

fn put_copies(c: &mut WorkerChannel, vid: Vid, rules: Vec<(u8, SlowRule)>) {
    c.post_now(vid, move |slot| {
        for (table, r) in rules {
            slot.put_copy(table, r);
        }
    });
}

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
        let v = vdp_mut(&mut self.vdps, vid).ok_or(ControlError::NoVdp(vid))?;
        let Some(c) = self.channels.get_mut(usize::from(v.channel.channel)) else { return Ok(()) };
        // Some at a time, so that all of them are nowhere at once.
        let mut some = Vec::new();
        for (n, t) in v.fast.tables.iter_mut().enumerate() {
            t.lend_all(&mut |r| {
                some.push((n as u8, r));
                if some.len() == COPIED {
                    put_copies(c, vid, std::mem::take(&mut some));
                }
            });
        }
        put_copies(c, vid, some);
        Ok(())
    }

    /// Where a VDP's frames are processed now.
    ///
    /// # Errors
    /// No such VDP.
    pub fn phase(&self, vid: Vid) -> Result<Phase, ControlError> {
        Ok(self.vdp(vid)?.phase)
    }
}
