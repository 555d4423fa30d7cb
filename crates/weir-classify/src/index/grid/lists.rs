//! Lists of rules, best first, eight to a tile: which of eight a key fits is said at once.
//!
//! Called by `grid` alone. A list has a power of two of tiles, one behind another, and takes twice as many when it is full; what it had is
//! another's then. Tiles beyond those that there are from the beginning are never made: this is the worker's time.

use super::super::Which;
use crate::rule::RuleId;
use crate::simd::{Lanes, Line, prefetch_slice};

/// Rules of a tile.
const TILE: usize = 8;
/// Powers of two of tiles that a list may have.
const ROOMS: usize = 7;
/// Rules of a list.
pub(super) const MOST: usize = TILE << (ROOMS - 1);

/// What a rule asks of a word of the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asks {
    pub(super) mask: u64,
    pub(super) value: u64,
}

/// A rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) known: Known,
    /// Of the axes' word, and of the other.
    pub(super) axes: Asks,
    pub(super) rest: Asks,
}

/// What is known of a rule beside what it asks; zeros where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) rank: u64,
    pub(super) id: u32,
    /// What it asks of each axis.
    pub(super) asked: [u16; 2],
}

/// Which words lookups compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compared {
    /// The rest: who comes to a list is what its rules ask of the axes.
    Rest,
    Both,
}

/// What eight rules ask of a word.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Tile {
    mask: Line,
    value: Line,
}

/// No key is this.
const NOTHING: Asks = Asks { mask: 0, value: 1 };
const EMPTY: Tile = Tile { mask: Line([NOTHING.mask; TILE]), value: Line([NOTHING.value; TILE]) };

impl Tile {
    fn asks(&self, at: usize) -> Asks {
        Asks { mask: self.mask.0[at % TILE], value: self.value.0[at % TILE] }
    }
    fn set(&mut self, at: usize, asks: Asks) {
        self.mask.0[at % TILE] = asks.mask;
        self.value.0[at % TILE] = asks.value;
    }
}

/// A list.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    /// Its first tile.
    first: u32,
    rules: u16,
    /// The power of two of its tiles, and one; 0 for none.
    room: u16,
}

impl Head {
    fn tiles(self) -> usize {
        match self.room {
            0 => 0,
            room => 1 << (room - 1),
        }
    }
}

/// Words of a key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Key {
    pub(super) axes: u64,
    pub(super) rest: u64,
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    heads: Vec<Head>,
    rest: Vec<Tile>,
    known: Vec<[Known; TILE]>,
    /// Where both are compared.
    axes: Vec<Tile>,
    compared: Compared,
    /// Tiles that there may be.
    most: usize,
    /// Tiles that no list has, by their number.
    free: [Vec<u32>; ROOMS],
}

impl Lists {
    /// Of these, each in order; none where one is too long.
    pub(super) fn new(compared: Compared, lists: &[Vec<Row>]) -> Option<Self> {
        let room = |rules: usize| match rules.div_ceil(TILE) {
            0 => 0,
            n => n.next_power_of_two(),
        };
        let tiles: usize = lists.iter().map(|l| room(l.len())).sum();
        // For what comes later.
        let tiles = tiles + tiles / 8 + 64;
        let axes = if compared == Compared::Both { tiles } else { 0 };
        let mut out = Self {
            heads: vec![Head::default(); lists.len()],
            rest: Vec::with_capacity(tiles),
            known: Vec::with_capacity(tiles),
            axes: Vec::with_capacity(axes),
            compared,
            most: tiles,
            free: Default::default(),
        };
        for (at, rows) in lists.iter().enumerate() {
            let power = room(rows.len()).checked_ilog2();
            if rows.len() > MOST {
                return None;
            }
            if let Some(power) = power {
                let first = out.take(power as usize)?;
                *out.heads.get_mut(at)? =
                    Head { first, rules: rows.len() as u16, room: power as u16 + 1 };
            }
            for (i, row) in rows.iter().enumerate() {
                let head = *out.heads.get(at)?;
                out.set(head, i, row);
            }
        }
        Some(out)
    }
    /// Two to the power of so many tiles, if there are any.
    fn take(&mut self, power: usize) -> Option<u32> {
        if let Some(first) = self.free.get_mut(power)?.pop() {
            return Some(first);
        }
        let (first, more) = (self.rest.len(), 1 << power);
        if first + more > self.most {
            return None;
        }
        if self.compared == Compared::Both {
            self.axes.resize(first + more, EMPTY);
        }
        self.rest.resize(first + more, EMPTY);
        self.known.resize(first + more, [Known::default(); TILE]);
        u32::try_from(first).ok()
    }
    fn set(&mut self, head: Head, at: usize, row: &Row) {
        let tile = head.first as usize + at / TILE;
        self.rest.get_mut(tile).into_iter().for_each(|t| t.set(at, row.rest));
        self.axes.get_mut(tile).into_iter().for_each(|t| t.set(at, row.axes));
        self.known.get_mut(tile).into_iter().for_each(|k| k[at % TILE] = row.known);
    }
    fn get(&self, head: Head, at: usize) -> Option<Row> {
        let tile = head.first as usize + at / TILE;
        let axes = self.axes.get(tile).map_or(Asks::default(), |t| t.asks(at));
        let known = self.known.get(tile)?[at % TILE];
        Some(Row { known, axes, rest: self.rest.get(tile)?.asks(at) })
    }
    fn known(&self, head: Head, at: usize) -> Known {
        let tile = head.first as usize + at / TILE;
        self.known.get(tile).map_or(Known::default(), |k| k[at % TILE])
    }
    /// The first place of a list whose rule's rank is not above this.
    fn place(&self, head: Head, rank: u64) -> usize {
        let (mut low, mut high) = (0, usize::from(head.rules));
        while low < high {
            let middle = low.midpoint(high);
            match self.known(head, middle).rank > rank {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
    /// Puts a rule into a list. False where there is no room; then it is not there.
    pub(super) fn insert(&mut self, list: usize, row: &Row) -> bool {
        let Some(mut head) = self.heads.get(list).copied() else { return false };
        let rules = usize::from(head.rules);
        if rules == head.tiles() * TILE {
            let Some(more) = self.more(head) else { return false };
            head = more;
        }
        let at = self.place(head, row.known.rank);
        for i in (at..rules).rev() {
            if let Some(row) = self.get(head, i) {
                self.set(head, i + 1, &row);
            }
        }
        self.set(head, at, row);
        head.rules += 1;
        self.heads.get_mut(list).into_iter().for_each(|h| *h = head);
        true
    }
    /// Twice as much room, with what is there.
    fn more(&mut self, head: Head) -> Option<Head> {
        let power = usize::from(head.room);
        let first = self.take(power)?;
        let more = Head { first, room: head.room + 1, ..head };
        for i in 0..usize::from(head.rules) {
            let row = self.get(head, i)?;
            self.set(more, i, &row);
        }
        self.let_go(head);
        Some(more)
    }
    fn let_go(&mut self, head: Head) {
        for i in 0..head.tiles() * TILE {
            self.clear(head, i);
        }
        if head.room > 0 {
            let free = self.free.get_mut(usize::from(head.room) - 1);
            free.into_iter().for_each(|f| f.push(head.first));
        }
    }
    fn clear(&mut self, head: Head, at: usize) {
        self.set(head, at, &Row { known: Known::default(), axes: NOTHING, rest: NOTHING });
    }
    /// Takes the rule of this rank out of a list. Whether it was there.
    pub(super) fn remove(&mut self, list: usize, rank: u64) -> bool {
        let Some(mut head) = self.heads.get(list).copied() else { return false };
        let (at, rules) = (self.place(head, rank), usize::from(head.rules));
        if at >= rules || self.known(head, at).rank != rank {
            return false;
        }
        for i in at + 1..rules {
            if let Some(row) = self.get(head, i) {
                self.set(head, i - 1, &row);
            }
        }
        self.clear(head, rules - 1);
        head.rules -= 1;
        if head.rules == 0 {
            self.let_go(head);
            head = Head::default();
        }
        self.heads.get_mut(list).into_iter().for_each(|h| *h = head);
        true
    }
    /// The rule of a list that asks just this.
    pub(super) fn find(
        &self,
        list: usize,
        asked: [u16; 2],
        rest: Asks,
        which: Which,
    ) -> Option<Known> {
        let head = *self.heads.get(list)?;
        let (from, lowest) = match which {
            Which::Priority(p) => (u64::from(p) << 32 | u64::from(u32::MAX), u64::from(p) << 32),
            Which::Rank(rank) => (rank, rank),
        };
        let rows = (self.place(head, from)..usize::from(head.rules))
            .map_while(|i| self.get(head, i).filter(|r| r.known.rank >= lowest));
        let mut rows = rows.filter(|r| r.known.asked == asked && r.rest == rest);
        rows.next().map(|r| r.known)
    }
    /// The rules of a list.
    pub(super) fn rows(&self, list: usize) -> impl Iterator<Item = Row> {
        let head = self.heads.get(list).copied().unwrap_or_default();
        (0..usize::from(head.rules)).filter_map(move |i| self.get(head, i))
    }
    /// Gives every rule the rank that `f` says; their order must stay.
    pub(super) fn rerank(&mut self, f: &dyn Fn(u64) -> u64) {
        for known in self.known.as_flattened_mut().iter_mut().filter(|k| k.rank != 0) {
            known.rank = f(known.rank);
        }
    }
    /// Lists that there are.
    pub(super) fn len(&self) -> usize {
        self.heads.len()
    }
    pub(super) fn heap_bytes(&self) -> usize {
        let free: usize = self.free.iter().map(|f| f.capacity() * 4).sum();
        self.heads.capacity() * size_of::<Head>()
            + (self.rest.capacity() + self.axes.capacity()) * size_of::<Tile>()
            + self.known.capacity() * size_of::<[Known; TILE]>()
            + free
    }

    /// Asks for what says where a list is.
    #[inline(always)]
    pub(super) fn prefetch(&self, list: usize) {
        prefetch_slice(self.heads.get(list..).unwrap_or_default(), 1);
    }
    /// Asks for the beginning of a list.
    #[inline(always)]
    pub(super) fn prefetch_rules(&self, list: usize) {
        let Some(head) = self.heads.get(list).filter(|h| h.rules > 0) else { return };
        let first = head.first as usize;
        let lines = if usize::from(head.rules) > TILE { 256 } else { 128 };
        prefetch_slice(self.rest.get(first..).unwrap_or_default(), lines);
    }
    /// The first rule of a list that a key fits, by the rest alone: which it is of all, or [`NOBODY`]. What is known of it is asked for.
    #[inline(always)]
    pub(super) fn first<L: Lanes>(&self, lanes: L, list: usize, key: Key) -> usize {
        let Some(head) = self.heads.get(list) else { return NOBODY };
        let first = head.first as usize;
        let tiles = usize::from(head.rules).div_ceil(TILE);
        let rest = self.rest.get(first..first + tiles).unwrap_or_default();
        for (i, tile) in rest.iter().enumerate() {
            let fit = lanes.fits_each(key.rest, &tile.mask, &tile.value);
            if fit != 0 {
                let at = (first + i) * TILE + fit.trailing_zeros() as usize % TILE;
                prefetch_slice(self.known.as_flattened().get(at..).unwrap_or_default(), 1);
                return at;
            }
        }
        NOBODY
    }
    /// What is known of it.
    #[inline(always)]
    pub(super) fn told(&self, at: usize) -> Best {
        match self.known.as_flattened().get(at) {
            Some(known) => Best { rank: known.rank, id: RuleId(known.id) },
            None => Best::NONE,
        }
    }
    /// The best rule of a list that a key fits, if its rank is above `best`; else that.
    #[inline(always)]
    pub(super) fn best<L: Lanes>(&self, lanes: L, list: usize, key: Key, best: Best) -> Best {
        let Some(head) = self.heads.get(list) else { return best };
        let first = head.first as usize;
        let tiles = usize::from(head.rules).div_ceil(TILE);
        for i in first..first + tiles {
            let (Some(rest), Some(axes)) = (self.rest.get(i), self.axes.get(i)) else { break };
            let Some(known) = self.known.get(i).filter(|k| k[0].rank > best.rank) else { break };
            let fit = lanes.fits_each(key.rest, &rest.mask, &rest.value)
                & lanes.fits_each(key.axes, &axes.mask, &axes.value);
            if fit != 0 {
                let known = known[fit.trailing_zeros() as usize % TILE];
                if known.rank > best.rank {
                    return Best { rank: known.rank, id: RuleId(known.id) };
                }
                break;
            }
        }
        best
    }
    /// Tiles that a lookup looks at, where it has found this before.
    pub(super) fn tiles<L: Lanes>(&self, lanes: L, list: usize, key: Key, best: Best) -> usize {
        let Some(head) = self.heads.get(list) else { return 0 };
        let first = head.first as usize;
        let tiles = first..first + usize::from(head.rules).div_ceil(TILE);
        let is_on = |i: &usize| {
            let fits = |t: Option<&Tile>, key| {
                t.is_none_or(|t| lanes.fits_each(key, &t.mask, &t.value) != 0)
            };
            let is_better = self.known.get(*i).is_some_and(|k| k[0].rank > best.rank);
            is_better && !(fits(self.rest.get(*i), key.rest) && fits(self.axes.get(*i), key.axes))
        };
        tiles.take_while(is_on).count()
    }
}

/// No rule.
pub(super) const NOBODY: usize = usize::MAX;

/// The best so far: its rank, or 0, and its id.
#[derive(Clone, Copy, Debug)]
pub(super) struct Best {
    pub(super) rank: u64,
    pub(super) id: RuleId,
}

impl Best {
    pub(super) const NONE: Self = Self { rank: 0, id: RuleId(0) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(rank: u64, n: u64) -> Row {
        let asked = [n as u16 % 3, n as u16 % 5];
        let rest = Asks { mask: 0xff, value: n % 7 };
        Row {
            known: Known { rank, id: n as u32, asked },
            axes: Asks { mask: 0xf, value: n % 2 },
            rest,
        }
    }

    proptest! {
        /// Any lists, and what comes and goes: as a list of lists has it; where there is no room nothing changes.
        #[test]
        fn lists_are_what_was_put_in(
            both: bool,
            sizes in prop::collection::vec(0usize..40, 5),
            steps in prop::collection::vec((0usize..5, any::<bool>(), any::<u64>()), 0..600),
        ) {
            let compared = if both { Compared::Both } else { Compared::Rest };
            let ranks = |n: usize| (0..n).map(|i| (1_000 - i) as u64 * 64);
            let mut model: Vec<Vec<Row>> = sizes.iter().map(|n| ranks(*n).map(|r| row(r, r / 64)).collect()).collect();
            let mut lists = Lists::new(compared, &model).unwrap();
            let before = lists.heap_bytes();
            for (list, goes, n) in steps {
                let own = &mut model[list];
                if goes && !own.is_empty() {
                    let gone = own.remove(n as usize % own.len());
                    prop_assert!(lists.remove(list, gone.known.rank));
                    prop_assert!(!lists.remove(list, gone.known.rank));
                    prop_assert_eq!(lists.find(list, gone.known.asked, gone.rest, Which::Rank(gone.known.rank)), None);
                } else {
                    let rank = n % 64_000 + 1;
                    let at = own.partition_point(|r| r.known.rank > rank);
                    if own.get(at).is_some_and(|r| r.known.rank == rank) {
                        continue;
                    }
                    let new = row(rank, n);
                    if lists.insert(list, &new) {
                        own.insert(at, new);
                    }
                }
            }
            for (list, own) in model.iter().enumerate() {
                let is: Vec<_> = lists.rows(list).map(|r| (r.known, r.rest)).collect();
                let want: Vec<_> = own.iter().map(|r| (r.known, r.rest)).collect();
                prop_assert_eq!(is, want);
                for r in own {
                    let found = lists.find(list, r.known.asked, r.rest, Which::Rank(r.known.rank));
                    prop_assert_eq!(found, Some(r.known));
                }
            }
            // What takes tiles takes none that was not there from the beginning, but for numbers of those that are free.
            prop_assert!(lists.heap_bytes() < before + 4_096);
        }
    }

    /// A list that is full takes no more, and gives back what it has.
    #[test]
    fn a_list_takes_so_many() {
        let mut lists = Lists::new(Compared::Rest, &[Vec::new(), Vec::new()]).unwrap();
        let mut taken = 0;
        while lists.insert(0, &row(10_000 - taken, taken)) {
            taken += 1;
        }
        // Of 64 tiles beyond those that it has, and twice as many each time.
        assert_eq!((taken, MOST), (256, 512));
        (0..taken).for_each(|n| assert!(lists.remove(0, 10_000 - n)));
        assert!(lists.rows(0).next().is_none());
        assert!((0..taken).all(|n| lists.insert(1, &row(10_000 - n, n))));
    }
}
