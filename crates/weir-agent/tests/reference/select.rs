//! Select groups (1.3 §5.6.1): one bucket by an algorithm that is the switch's own. The reference knows all that
//! may be chosen, so it tries each, and what the switch did must be one of them; what the specification asks of
//! every algorithm is that a bucket of weight 0 is never chosen, and of this one that a flow keeps its bucket.

use super::packet::Packet;
use super::{Reference, pipeline::Sent};
use std::ops::Range;
use weir_openflow::model::Bucket;

/// What is chosen at each select group that a frame meets, one after the other; the first of all where
/// nothing is said.
#[derive(Clone, Debug, Default)]
pub struct Script {
    said: Vec<usize>,
    /// What was chosen, and of how many.
    met: Vec<(usize, usize)>,
}

/// Ways in which a frame may go, at most: a test's frame meets a few small groups.
const WAYS: usize = 4096;

impl Script {
    /// Whether the last frame met such a group.
    pub fn is_used(&self) -> bool {
        !self.met.is_empty()
    }
    pub(super) fn choose(&mut self, buckets: &[Bucket]) -> Range<usize> {
        let may: Vec<usize> = (0..buckets.len()).filter(|i| buckets[*i].weight > 0).collect();
        if may.is_empty() {
            return 0..0;
        }
        let n = self.said.get(self.met.len()).copied().unwrap_or(0);
        self.met.push((n, may.len()));
        may[n]..may[n] + 1
    }
}

impl Reference {
    /// A frame comes in: every way that it may go, and the switch as it is afterwards.
    pub fn ways(&self, in_port: u32, p: &Packet) -> Vec<(Reference, Sent)> {
        let (mut all, mut said) = (Vec::new(), Vec::new());
        loop {
            let mut then = self.clone();
            then.select = Script { said, met: vec![] };
            let sent = then.frame(in_port, p);
            // The next script: the last choice that has another behind it.
            let mut met = then.select.met.clone();
            all.push((then, sent));
            assert!(all.len() <= WAYS, "a frame that meets so many groups shows nothing");
            while met.last().is_some_and(|(n, of)| n + 1 == *of) {
                met.pop();
            }
            let Some(last) = met.last_mut() else { return all };
            last.0 += 1;
            said = met.iter().map(|m| m.0).collect();
        }
    }

    /// The same frame once more, by the way that it went before.
    pub fn same_way(&mut self, in_port: u32, p: &Packet) -> Sent {
        let said = self.select.met.iter().map(|m| m.0).collect();
        self.select = Script { said, met: vec![] };
        self.frame(in_port, p)
    }
}
