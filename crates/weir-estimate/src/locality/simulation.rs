//! Set-associative caches, access by access: slow and obvious, the judge of Che's approximation.
//!
//! Room: for tests and studies; the estimator never asks it.

/// Caches one behind the other, each with its own sets under LRU; what misses in one is asked of the
/// next, and put into all that missed.
#[derive(Clone, Debug)]
pub struct Caches {
    levels: Vec<Sets>,
}

#[derive(Clone, Debug)]
struct Sets {
    /// Each set's lines, the latest last.
    sets: Vec<Vec<u64>>,
    ways: usize,
}

impl Caches {
    /// With these levels, nearest first: lines, and lines of a set.
    pub fn new(levels: &[(usize, usize)]) -> Self {
        let sets = |(lines, ways): &(usize, usize)| Sets {
            sets: vec![Vec::with_capacity(*ways); (lines / ways).max(1)],
            ways: *ways,
        };
        Self { levels: levels.iter().map(sets).collect() }
    }

    /// Asks for a line; the level that has it, or their number where none has.
    pub fn access(&mut self, line: u64) -> usize {
        for (i, level) in self.levels.iter_mut().enumerate() {
            if level.access(line) {
                return i;
            }
        }
        self.levels.len()
    }
}

impl Sets {
    fn access(&mut self, line: u64) -> bool {
        // Addresses of tables are no series: their bits are mixed (Steele et al., splitmix64).
        let mut h = line.wrapping_add(0x9e37_79b9_7f4a_7c15);
        h = (h ^ (h >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        h = (h ^ (h >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let at = ((h ^ (h >> 31)) % self.sets.len() as u64) as usize;
        let Some(set) = self.sets.get_mut(at) else { return false };
        let found = set.iter().position(|l| *l == line);
        match found {
            Some(i) => drop(set.remove(i)),
            None if set.len() == self.ways => drop(set.remove(0)),
            None => {}
        }
        set.push(line);
        found.is_some()
    }
}
