//! How a table is asked which rule takes a frame.
//!
//! Room: called by the worker, for every frame or for a burst of them, and by the slow path. In a very small table of one mask the
//! classifier says which rule it can be, and the rule's entry, which is read anyway, whether it is.

use super::{FIRST, Table};
use weir_classify::simd::prefetch_slice;
use weir_classify::{Classifier, FlowCache, FlowKey, Probe, RuleId};
use weir_packet::BURST;

// Between its two halves a lookup waits for the rest of its burst.
const _: () = assert!(BURST <= FlowCache::UNDER_WAY);

impl Table {
    /// First half of a lookup: asks for what the second reads. The table must not change in between.
    #[inline(always)]
    pub fn probe(&self, key: &FlowKey) -> Probe {
        match &self.cache {
            _ if self.classifier.is_near() => {
                let near = self.classifier.near(key);
                near.near().1.into_iter().for_each(|RuleId(slot)| self.prefetch(slot));
                near
            }
            // Asked first: whether there is a cache stands in another line.
            _ if self.classifier.is_plain() => self.classifier.probe(key),
            None => self.classifier.probe(key),
            Some(cache) => cache.probe(&self.classifier, key),
        }
    }
    /// Second half: the winner's slot. A burst has at most as many between its probes as a burst has frames.
    #[inline(always)]
    pub fn resolve(&mut self, key: &FlowKey, p: Probe) -> Option<u32> {
        let found = match &mut self.cache {
            _ if self.classifier.is_near() => self.compare(key, p),
            _ if self.classifier.is_plain() => self.classifier.resolve(key, p),
            None => self.classifier.resolve(key, p),
            Some(cache) => cache.resolve(&self.classifier, key, p),
        };
        found.map(|RuleId(slot)| slot)
    }
    /// The rule that may be meant, if it is, and no other can be; else the table-miss entry.
    #[inline(always)]
    fn compare(&self, key: &FlowKey, near: Probe) -> Option<RuleId> {
        if let Some(found) = self.classifier.aside(key) {
            return found;
        }
        let (word, id) = near.near();
        let entry = id.and_then(|id| self.entries.get(id.0 as usize));
        match entry {
            Some(entry) if entry.word == word => id,
            _ => self.classifier.otherwise(key),
        }
    }
    /// Whether the next `n` lookups had better be one [`Table::lookup_all`]; then they must be.
    #[inline]
    pub fn takes_all(&mut self, n: usize) -> bool {
        self.classifier.takes_all()
            && match &mut self.cache {
                None => true,
                Some(cache) => cache.lets_by(&self.classifier, n as u32),
            }
    }
    /// The winner for each key, up to a burst of them.
    pub fn lookup_all(&self, keys: &[FlowKey], found: &mut [Option<RuleId>]) {
        self.classifier.lookup_all(keys, found);
    }
    /// Asks for what of the table itself lookups read. False where they read nothing else but the rule.
    #[inline(always)]
    pub fn prefetch_head(&self) -> bool {
        let all = std::slice::from_ref(self);
        prefetch_slice(all, FIRST);
        let far = !self.classifier.is_packed();
        if far {
            prefetch_slice(all, std::mem::offset_of!(Self, caching));
        }
        far
    }
    /// Asks for what such lookups read first, beside the table itself.
    #[inline(always)]
    pub fn warm(&self) {
        if !self.classifier.is_packed() {
            self.classifier.warm();
            self.cache.iter().for_each(|c| c.prefetch());
        }
    }
    /// Whether the next lookup had better be one of many tables' ([`FastTable::lookup_several`]); then it must be.
    #[inline]
    pub fn takes_several(&mut self) -> bool {
        self.classifier.takes_all()
            && match &mut self.cache {
                None => true,
                Some(cache) => cache.lets_by(&self.classifier, 1),
            }
    }
    /// The winner for `key`.
    #[inline]
    pub fn lookup(&self, key: &FlowKey) -> Option<u32> {
        let found = match self.classifier.is_near() {
            true => self.compare(key, self.classifier.near(key)),
            false => self.classifier.lookup(key),
        };
        found.map(|RuleId(slot)| slot)
    }
}
