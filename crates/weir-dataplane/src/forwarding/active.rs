//! The VDPs whose frames wait at a port, in the order of their turns, and what part of the port's places each may have.
//!
//! Room: forwarding. Changed wherever a VDP's first frame comes to wait, or its last one goes.

use super::share::{MOST_PARTS, Share};
use std::collections::VecDeque;

/// VDPs whose frames wait.
#[derive(Debug, Default)]
pub(super) struct Active {
    /// Whose turn is next stands first.
    pub(super) turns: VecDeque<u16>,
    /// Parts of all of them.
    parts: u32,
}

impl Active {
    /// Notes that frames of a VDP wait; says whether none did, so that it is to have a turn.
    pub(super) fn joins(&mut self, s: &mut Share) -> bool {
        let new = !std::mem::replace(&mut s.active, true);
        if new {
            self.parts += s.parts();
        }
        new
    }
    /// Notes that none wait any more.
    pub(super) fn leaves(&mut self, s: &mut Share) {
        if std::mem::replace(&mut s.active, false) {
            self.parts -= s.parts();
        }
    }
    /// Does what may change a VDP's parts.
    pub(super) fn reshape<R>(&mut self, s: &mut Share, f: impl FnOnce(&mut Share) -> R) -> R {
        let is_there = u32::from(s.active);
        self.parts -= is_there * s.parts();
        let r = f(s);
        self.parts += is_there * s.parts();
        r
    }
    /// How many of `places` are a VDP's, if all others whose frames wait have theirs, and one more that may come.
    pub(super) fn due(&self, s: &Share, places: u32) -> u32 {
        let others = self.parts - u32::from(s.active) * s.parts();
        let all = u64::from(others + s.parts() + MOST_PARTS);
        (u64::from(places) * u64::from(s.parts()) / all) as u32
    }
}
