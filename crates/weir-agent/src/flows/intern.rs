//! Values kept once however many flows use them: numbered, counted, gone with their last user.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::{BuildHasher, Hash};

/// A set of counted values.
#[derive(Debug)]
pub(crate) struct Intern<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

#[derive(Debug)]
struct Slot<T> {
    value: Option<T>,
    users: u32,
    hash: u64,
}

impl<T> Default for Intern<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
        }
    }
}

impl<T> Intern<T> {
    fn at(&self, hash: u64, is: impl Fn(&T) -> bool) -> Option<u32> {
        let same = |i: &u32| self.slots[*i as usize].value.as_ref().is_some_and(&is);
        self.index.find(hash, same).copied()
    }
    /// The number of the value that `key` describes, if it is there.
    pub fn find(&self, key: &impl Hash, is: impl Fn(&T) -> bool) -> Option<u32> {
        self.at(self.hasher.hash_one(key), is)
    }
    /// The number of the value that `key` describes, made when it is not there; one user more.
    pub fn take(
        &mut self,
        key: &impl Hash,
        is: impl Fn(&T) -> bool,
        make: impl FnOnce() -> T,
    ) -> u32 {
        let hash = self.hasher.hash_one(key);
        if let Some(i) = self.at(hash, is) {
            self.slots[i as usize].users += 1;
            return i;
        }
        let slot = Slot { value: Some(make()), users: 1, hash };
        let i = match self.free.pop() {
            Some(i) => {
                self.slots[i as usize] = slot;
                i
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        let slots = &self.slots;
        self.index.insert_unique(hash, i, |i| slots[*i as usize].hash);
        i
    }
    /// One user more of a value that is there.
    pub fn more(&mut self, i: u32) {
        if let Some(s) = self.slots.get_mut(i as usize).filter(|s| s.users > 0) {
            s.users += 1;
        }
    }
    /// One user less; the last takes the value along.
    pub fn release(&mut self, i: u32) {
        let Some(s) = self.slots.get_mut(i as usize).filter(|s| s.users > 0) else { return };
        s.users -= 1;
        if s.users > 0 {
            return;
        }
        let hash = s.hash;
        s.value = None;
        if let Ok(e) = self.index.find_entry(hash, |o| *o == i) {
            e.remove();
        }
        self.free.push(i);
    }
    /// A value.
    pub fn get(&self, i: u32) -> Option<&T> {
        self.slots.get(i as usize)?.value.as_ref()
    }
    /// All values with the number of their users.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T, u32)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(i, s)| s.value.as_ref().map(|v| (i as u32, v, s.users)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_once_and_go_with_their_last_user() {
        let mut set: Intern<String> = Intern::default();
        let mut take = |s: &str| set.take(&s, |o| o == s, || s.to_owned());
        let (a, b, again) = (take("a"), take("b"), take("a"));
        assert_eq!(a, again);
        assert_ne!(a, b);
        set.release(a);
        assert_eq!(set.get(a).map(String::as_str), Some("a"));
        set.release(a);
        assert_eq!(set.get(a), None);
        assert_eq!(set.get(b).map(String::as_str), Some("b"));
        assert_eq!(set.iter().count(), 1);
        assert_eq!(set.take(&"c", |o| o == "c", || "c".to_owned()), a);
        set.release(99);
    }
}
