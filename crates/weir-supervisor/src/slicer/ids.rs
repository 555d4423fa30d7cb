//! A slice's numbers of groups or meters, and the switch's for the same.
//!
//! Room: two maps that say the same. Each slice counts as if it were alone; at the switch every number is
//! used once.

use std::collections::BTreeMap;

/// Numbers of one kind, of one slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    physical: BTreeMap<u32, u32>,
    own: BTreeMap<u32, u32>,
}

impl Ids {
    /// The switch's number for the slice's.
    pub fn physical(&self, own: u32) -> Option<u32> {
        self.physical.get(&own).copied()
    }
    /// The slice's number for the switch's.
    pub fn own(&self, physical: u32) -> Option<u32> {
        self.own.get(&physical).copied()
    }
    /// Joins two numbers.
    pub fn insert(&mut self, own: u32, physical: u32) {
        self.physical.insert(own, physical);
        self.own.insert(physical, own);
    }
    /// Parts them; says the switch's number.
    pub fn remove(&mut self, own: u32) -> Option<u32> {
        let physical = self.physical.remove(&own)?;
        self.own.remove(&physical);
        Some(physical)
    }
    /// How many.
    pub fn len(&self) -> usize {
        self.physical.len()
    }
    /// All, by the slice's number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        self.physical.iter().map(|(o, p)| (*o, *p))
    }
}
