//! The hash of the learning switch's table: stations to entries and ports.
//! Touches numbers only. Called by `table.rs`.
//!
//! Open addressing, linear probing, deletion by shifting back, at most half full: a lookup is one cache line. Where it
//! would be more than half full, one of twice the size takes its place *little by little*: what is in the old one is moved with
//! each station that comes, or when it is changed. The new one's memory is the system's zeros, which nobody writes beforehand. So no frame
//! waits for a table of millions.

use super::table::Station;
use crate::action::PortNo;
use crate::programs::hash::fold;
use weir_classify::simd::prefetch_read;

/// A station, and in another word its entry, counted from one, and its port. Zeros are nobody.
type Slot = [u64; 2];
const EMPTY: Slot = [0; 2];
/// Slots in the beginning.
const FIRST: usize = 64;
/// Slots that are moved for each station that comes: more than two would do.
const MOVED: usize = 8;

fn pack(key: Station, entry: u32, port: PortNo) -> Slot {
    [key.0, (u64::from(entry) + 1) | u64::from(port.0) << 32]
}

#[inline(always)]
fn unpack(s: Slot) -> (u32, PortNo) {
    ((s[1] as u32).wrapping_sub(1), PortNo((s[1] >> 32) as u32))
}

/// Where a station is, in the newer array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At(usize);

/// The hash.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Array,
    /// What is left of the array of before: nothing below `moved`.
    old: Array,
    moved: usize,
}

#[derive(Debug)]
struct Array {
    slots: Vec<Slot>,
    seed: u64,
}

impl Array {
    #[inline(always)]
    fn home(&self, key: Station) -> usize {
        fold(key.0, self.seed) as usize & self.slots.len().wrapping_sub(1)
    }
    #[inline(always)]
    fn after(&self, i: usize) -> usize {
        (i + 1) & (self.slots.len() - 1)
    }
    /// The slot that holds `key`, or else the empty one where it belongs.
    #[inline(always)]
    fn find(&self, key: Station) -> Result<usize, usize> {
        let mut i = self.home(key);
        loop {
            let s = &self.slots[i];
            if s[1] == 0 {
                return Err(i);
            }
            if s[0] == key.0 {
                return Ok(i);
            }
            i = self.after(i);
        }
    }
    /// Empties a slot and moves back what had been pushed past it.
    fn clear(&mut self, mut hole: usize) {
        let mask = self.slots.len() - 1;
        let mut i = hole;
        loop {
            i = self.after(i);
            let s = self.slots[i];
            if s[1] == 0 {
                break;
            }
            let from_home = i.wrapping_sub(self.home(Station(s[0]))) & mask;
            if from_home >= i.wrapping_sub(hole) & mask {
                self.slots[hole] = s;
                hole = i;
            }
        }
        self.slots[hole] = EMPTY;
    }
}

impl Slots {
    pub fn new(seed: u64) -> Self {
        let array = |slots| Array { slots, seed };
        Self { slots: array(vec![EMPTY; FIRST]), old: array(Vec::new()), moved: 0 }
    }

    /// Asks for the line that a station's slot is in.
    #[inline(always)]
    pub fn expect(&self, key: Station) {
        if let Some(s) = self.slots.slots.get(self.slots.home(key)) {
            prefetch_read(s);
        }
    }

    /// A station's entry and port.
    #[inline(always)]
    pub fn get(&self, key: Station) -> Option<(u32, PortNo)> {
        let s = match self.slots.find(key) {
            Ok(i) => self.slots.slots[i],
            Err(_) => self.in_old(key)?,
        };
        Some(unpack(s))
    }

    #[inline(always)]
    fn in_old(&self, key: Station) -> Option<Slot> {
        if self.old.slots.is_empty() {
            return None;
        }
        self.find_old(key)
    }
    #[cold]
    fn find_old(&self, key: Station) -> Option<Slot> {
        self.old.find(key).ok().map(|i| self.old.slots[i])
    }

    /// A station, to be changed.
    #[inline(always)]
    pub fn find(&mut self, key: Station) -> Option<At> {
        match self.slots.find(key) {
            Ok(i) => Some(At(i)),
            Err(_) if self.old.slots.is_empty() => None,
            Err(_) => self.bring(key),
        }
    }
    #[cold]
    fn bring(&mut self, key: Station) -> Option<At> {
        let i = self.old.find(key).ok()?;
        Some(self.carry(i))
    }
    /// Has one of the old array in the new one.
    fn carry(&mut self, from: usize) -> At {
        let s = self.old.slots[from];
        self.old.clear(from);
        let (Ok(i) | Err(i)) = self.slots.find(Station(s[0]));
        self.slots.slots[i] = s;
        At(i)
    }

    /// Entry and port there.
    #[inline(always)]
    pub fn at(&self, at: At) -> (u32, PortNo) {
        unpack(self.slots.slots[at.0])
    }

    /// It is at another port.
    #[inline(always)]
    pub fn set_port(&mut self, at: At, port: PortNo) {
        let word = &mut self.slots.slots[at.0][1];
        *word = u64::from(*word as u32) | u64::from(port.0) << 32;
    }

    /// Takes it out.
    pub fn remove(&mut self, at: At) {
        self.slots.clear(at.0);
    }

    /// Puts a station in that is not there; `taken` are, without it.
    pub fn insert(&mut self, key: Station, entry: u32, port: PortNo, taken: usize) {
        if (taken + 1) * 2 > self.slots.slots.len() {
            // Nothing is left of the one before: it was moved by a quarter of the stations that came since.
            self.move_on(usize::MAX);
            let twice = vec![EMPTY; self.slots.slots.len() * 2];
            self.old.slots = std::mem::replace(&mut self.slots.slots, twice);
            self.moved = 0;
        }
        self.move_on(MOVED);
        let (Ok(i) | Err(i)) = self.slots.find(key);
        self.slots.slots[i] = pack(key, entry, port);
    }

    /// Looks at `most` further slots of the old array, and moves what they hold.
    fn move_on(&mut self, most: usize) {
        let until = self.moved.saturating_add(most).min(self.old.slots.len());
        while self.moved < until {
            // What was pushed past it comes back to its place.
            while self.old.slots[self.moved][1] != 0 {
                self.carry(self.moved);
            }
            self.moved += 1;
        }
        if self.moved >= self.old.slots.len() {
            self.old.slots = Vec::new();
        }
    }

    /// Everything there is, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (Station, u32, PortNo)> + '_ {
        let all = self.slots.slots.iter().chain(&self.old.slots).filter(|s| s[1] != 0);
        all.map(|s| {
            let (entry, port) = unpack(*s);
            (Station(s[0]), entry, port)
        })
    }

    /// Slots that memory is taken for.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.slots.slots.len() + self.old.slots.len()
    }
    /// Slots of an array that is being left.
    #[cfg(test)]
    pub fn leaving(&self) -> usize {
        self.old.slots.len()
    }
}
