//! Which rules a scan of many blocks has, by a hash of what they ask: who looks for one need not go through all of its priority.
//!
//! Part of `scan`. The hash is keyed by a random seed. Should two rules have one nevertheless, who asks is sent to look for itself.
//! Memory: 17 bytes a place, of which an eighth at least is free. What grows at a time is one map of [`SHARDS`].

use super::block::Block;
use super::{each_word, words_of};
use crate::key::{FlowKey, FlowMask, WORDS};
use crate::slots::{Hashed, hash};
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, RandomState};

/// Maps, of which each has the hashes of a part.
const SHARDS: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Known {
    /// Of each hash the rank of its rule.
    maps: Vec<HashMap<u64, u64, BuildHasherDefault<Hashed>>>,
    seed: u64,
    /// Whether two rules have had one hash: what has none may be there.
    shared: bool,
}

/// Of a rule.
pub(super) fn hash_of(seed: u64, value: &FlowKey, mask: &FlowMask, priority: u32) -> u64 {
    let mut asked = [0; 2 * WORDS + 1];
    let words = words_of(mask);
    let pairs = each_word(words).filter_map(|w| Some([*mask.0.get(w)?, *value.0.get(w)?]));
    let mut n = 0;
    for (to, from) in
        asked.iter_mut().zip(pairs.flatten().chain([u64::from(words) << 32 | u64::from(priority)]))
    {
        (*to, n) = (from, n + 1);
    }
    let hash = hash(seed, asked.get(..n).unwrap_or_default());
    // Tests have many that share one.
    if cfg!(test) { hash & 0x3f00_0000_00ff } else { hash }
}

impl Known {
    /// The rules of these.
    pub(super) fn of<'a>(blocks: impl Iterator<Item = &'a Block>) -> Self {
        let seed = RandomState::new().hash_one(0) | 1;
        let mut out = Self { maps: vec![HashMap::default(); SHARDS], seed, shared: false };
        for (rank, _, value, mask) in blocks.flat_map(Block::iter) {
            out.insert(hash_of(seed, &value, &mask, (rank >> 32) as u32), rank);
        }
        out
    }
    pub(super) fn seed(&self) -> u64 {
        self.seed
    }
    /// Of the rule with this hash, if there is one. Where several have it that of any: who has another rule must look at all.
    pub(super) fn rank(&self, hash: u64) -> Option<u64> {
        let found = self.maps.get(shard(hash)).and_then(|m| m.get(&hash)).copied();
        found.or(self.shared.then_some(0))
    }
    pub(super) fn insert(&mut self, hash: u64, rank: u64) {
        if let Some(map) = self.maps.get_mut(shard(hash)) {
            self.shared |= map.insert(hash, rank).is_some();
        }
    }
    pub(super) fn remove(&mut self, hash: u64, rank: u64) {
        if let Some(map) = self.maps.get_mut(shard(hash))
            && map.get(&hash) == Some(&rank)
        {
            map.remove(&hash);
        }
    }
    pub(super) fn heap_bytes(&self) -> usize {
        let places: usize = self.maps.iter().map(HashMap::capacity).sum();
        self.maps.capacity() * size_of::<HashMap<u64, u64, BuildHasherDefault<Hashed>>>()
            + places * 8 / 7 * 17
    }
}

fn shard(hash: u64) -> usize {
    (hash >> 40) as usize % SHARDS
}
