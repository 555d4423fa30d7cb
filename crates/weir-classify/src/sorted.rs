//! The lookups of a burst, sorted by how they go: what differs between tables is found out once for each, and by no branch, as nobody
//! can foretell which table is next.
//!
//! Room: data-path core. Called by `fast` and `index`, where a burst's keys are many tables'.

/// Lookups under way at a time.
pub(crate) const BURST: usize = 32;

/// The first [`BURST`] of these, and how many that is; behind them the first again. None of none.
#[inline(always)]
pub(crate) fn gathered<T: Copy>(mut all: impl Iterator<Item = T>) -> Option<([T; BURST], usize)> {
    let first = all.next()?;
    let (mut out, mut count) = ([first; BURST], 1);
    for (to, one) in out.iter_mut().skip(1).zip(all) {
        (*to, count) = (one, count + 1);
    }
    Some((out, count))
}

/// Places of a burst, each with those of its kind, of which there are `K`; in their order.
pub(crate) struct Sorted<const K: usize> {
    places: [[u8; BURST]; K],
    counts: [usize; K],
}

impl<const K: usize> Default for Sorted<K> {
    #[inline(always)]
    fn default() -> Self {
        Self { places: [[0; BURST]; K], counts: [0; K] }
    }
}

impl<const K: usize> Sorted<K> {
    /// Adds a place; each once at most.
    #[inline(always)]
    pub(crate) fn add(&mut self, kind: usize, place: usize) {
        let count = &mut self.counts[kind % K];
        self.places[kind % K][*count % BURST] = place as u8;
        *count += 1;
    }
    /// Those of a kind.
    #[inline(always)]
    pub(crate) fn of(&self, kind: usize) -> impl ExactSizeIterator<Item = usize> + Clone {
        let places = self.places[kind % K].get(..self.counts[kind % K]).unwrap_or_default();
        places.iter().map(|place| usize::from(*place) % BURST)
    }
}
