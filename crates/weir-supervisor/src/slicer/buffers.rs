//! A slice's packets that wait at the switch: its numbers for them, and the switch's.
//!
//! Room: a ring of a slice's own; nobody else's flood moves anything out of it. Used by `packets` and `flows`.

use std::collections::VecDeque;
use weir_openflow::model::Match;

/// Packets that a slice may have waiting.
pub const MOST: usize = 256;

#[derive(Debug)]
struct Waiting {
    own: u32,
    physical: u32,
    header: Match,
}

/// The ring.
#[derive(Debug, Default)]
pub struct Buffers {
    all: VecDeque<Waiting>,
    next: u32,
}

impl Buffers {
    /// Notes a packet under a number of the slice's; the oldest is forgotten for it.
    pub fn insert(&mut self, physical: u32, header: Match) -> u32 {
        if self.all.len() >= MOST {
            self.all.pop_front();
        }
        // All ones would say that there is none.
        self.next = if self.next >= 0x7fff_ffff { 1 } else { self.next + 1 };
        self.all.push_back(Waiting { own: self.next, physical, header });
        self.next
    }
    /// The switch's number and the packet's header; it waits no longer.
    pub fn take(&mut self, own: u32) -> Option<(u32, Match)> {
        let at = self.all.iter().position(|w| w.own == own)?;
        self.all.remove(at).map(|w| (w.physical, w.header))
    }
    /// What waits under a number, which goes on waiting.
    pub fn look(&self, own: u32) -> Option<&Match> {
        self.all.iter().find(|w| w.own == own).map(|w| &w.header)
    }
}
