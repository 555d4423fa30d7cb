//! Lists of rules, best first: which of 32 a key fits is said at once.
//!
//! Called by `grid` alone. Of what a rule asks lookups read numbers alone, and look whether the key's sets have them. A list has a power of two of
//! places, one behind another, and takes twice as many when it is full; what it had is another's then. Places beyond those that there are from the
//! beginning are never made: this is the worker's time.

use super::super::Which;
use super::rest::{NONE, OTHER};
use crate::rule::RuleId;
use crate::simd::{Half, Lanes, Numbers, Set, prefetch_slice};

/// Rules that are looked at together.
const LINE: usize = 32;
/// Powers of two of places that a list may have.
const ROOMS: usize = 13;
/// Rules of a list.
pub(super) const MOST: usize = 1 << (ROOMS - 1);
/// Rules that are compared one by one in the time of a line.
const COMPARED: usize = 8;

/// What a rule asks of a word of the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Asks {
    pub(super) mask: u64,
    pub(super) value: u64,
}

/// A rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) known: Known,
    /// Of the word that the axes don't have.
    pub(super) rest: Asks,
    /// The number of that.
    pub(super) number: u16,
}

/// What is known of a rule beside what it asks; zeros where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) rank: u64,
    pub(super) id: u32,
    /// What it asks of each axis.
    pub(super) asked: [u16; 2],
}

/// Of what a list's rules have numbers that lookups look at, beside the rest's: what the list does not say of the axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    Neither,
    Across,
    Down,
    Both,
}

impl Beside {
    #[inline(always)]
    const fn has(self, axis: usize) -> bool {
        match self {
            Self::Neither => false,
            Self::Across => axis == 0,
            Self::Down => axis == 1,
            Self::Both => true,
        }
    }
    fn axes(self) -> &'static [usize] {
        match self {
            Self::Neither => &[],
            Self::Across => &[0],
            Self::Down => &[1],
            Self::Both => &[0, 1],
        }
    }
}

const EMPTY: Numbers = Numbers([NONE; LINE]);

/// A list.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    /// Its first place, a multiple of its places or of a line's.
    first: u32,
    rules: u16,
    /// The power of two of its places, and one; 0 for none.
    room: u16,
}

impl Head {
    fn places(self) -> usize {
        match self.room {
            0 => 0,
            room => 1 << (room - 1),
        }
    }
    /// Where it begins, and of how many rules.
    #[inline(always)]
    fn span(self) -> (usize, usize) {
        (self.first as usize, usize::from(self.rules))
    }
}

/// The lowest bits, so many.
#[inline(always)]
fn low(bits: usize) -> u64 {
    u64::MAX.checked_shr(64u32.saturating_sub(bits as u32)).unwrap_or(0)
}

/// What a key is: sets of the numbers of what it meets, of the rest and of each axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key<'a, const SET: usize> {
    /// The word itself that is compared.
    pub(super) word: u64,
    pub(super) rest: &'a Set<SET>,
    pub(super) axes: [&'a Half; 2],
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    heads: Vec<Head>,
    rest: Vec<Numbers>,
    /// Of each of [`Beside::axes`].
    axes: [Vec<Numbers>; 2],
    beside: Beside,
    /// Of each line the rank of its first rule.
    tops: Vec<u64>,
    /// Of each list the rank of its first rule, where lookups ask; else nothing.
    bests: Vec<u64>,
    known: Vec<Known>,
    asks: Vec<Asks>,
    /// Of all places those whose rule has no number.
    others: usize,
    /// Places that there may be.
    most: usize,
    /// Places that no list has, by their number.
    free: [Vec<u32>; ROOMS],
}

impl Lists {
    /// Of these, each in order; none where one is too long.
    pub(super) fn new(beside: Beside, lists: &[Vec<Row>]) -> Option<Self> {
        if lists.iter().any(|l| l.len() > MOST) {
            return None;
        }
        let room = |l: &Vec<Row>| l.len().checked_next_power_of_two().filter(|_| !l.is_empty());
        let places: usize = lists.iter().filter_map(room).sum();
        // For what comes later.
        let lines = (places + places / 8).div_ceil(LINE) + 16;
        let mut out = Self {
            heads: vec![Head::default(); lists.len()],
            rest: Vec::with_capacity(lines),
            axes: Default::default(),
            beside,
            tops: Vec::with_capacity(lines),
            bests: if beside == Beside::Neither { Vec::new() } else { vec![0; lists.len()] },
            known: Vec::with_capacity(lines * LINE),
            asks: Vec::with_capacity(lines * LINE),
            others: 0,
            most: lines * LINE,
            free: Default::default(),
        };
        beside.axes().iter().for_each(|axis| out.axes[*axis].reserve_exact(lines));
        // The longest first, so that none has to begin behind a gap.
        let mut order: Vec<usize> = (0..lists.len()).filter(|i| !lists[*i].is_empty()).collect();
        order.sort_by_key(|i| std::cmp::Reverse(room(&lists[*i])));
        for at in order {
            let rows = lists.get(at)?;
            let power = room(rows)?.ilog2();
            let first = out.take(power as usize)?;
            let head = Head { first, rules: rows.len() as u16, room: power as u16 + 1 };
            rows.iter().enumerate().for_each(|(i, row)| out.set(head, i, row));
            out.head(at, head);
        }
        Some(out)
    }
    /// Notes where a list is, and its best.
    fn head(&mut self, list: usize, head: Head) {
        self.heads.get_mut(list).into_iter().for_each(|h| *h = head);
        let best = if head.rules == 0 { 0 } else { self.known(head, 0).rank };
        self.bests.get_mut(list).into_iter().for_each(|b| *b = best);
    }
    /// Two to the power of so many places, if there are any.
    fn take(&mut self, power: usize) -> Option<u32> {
        if let Some(first) = self.free.get_mut(power)?.pop() {
            return Some(first);
        }
        // Less than a line is a part of one.
        let (first, more) = (self.known.len(), (1 << power).max(LINE));
        if first + more > self.most {
            return self.part(power);
        }
        self.rest.resize((first + more) / LINE, EMPTY);
        self.beside.axes().iter().for_each(|a| self.axes[*a].resize((first + more) / LINE, EMPTY));
        self.tops.resize((first + more) / LINE, 0);
        self.known.resize(first + more, Known::default());
        self.asks.resize(first + more, Asks::default());
        let first = u32::try_from(first).ok()?;
        self.halve(first, more.ilog2() as usize, power);
        Some(first)
    }
    /// A part of a longer piece that is free.
    fn part(&mut self, power: usize) -> Option<u32> {
        let longer =
            (power + 1..ROOMS).find(|p| self.free.get(*p).is_some_and(|f| !f.is_empty()))?;
        let first = self.free.get_mut(longer)?.pop()?;
        self.halve(first, longer, power);
        Some(first)
    }
    /// Of a piece of two to the power of `from` places, leaves the first `to` alone.
    fn halve(&mut self, first: u32, from: usize, to: usize) {
        for power in to..from {
            let free = self.free.get_mut(power);
            free.into_iter().for_each(|f| f.push(first + (1 << power)));
        }
    }
    fn set(&mut self, head: Head, at: usize, row: &Row) {
        let place = head.first as usize + at;
        let (line, at) = (place / LINE, place % LINE);
        if let Some(numbers) = self.rest.get_mut(line) {
            let before = std::mem::replace(&mut numbers.0[at], row.number);
            self.others += usize::from(row.number == OTHER);
            self.others -= usize::from(before == OTHER);
        }
        for axis in self.beside.axes() {
            let numbers = self.axes[*axis].get_mut(line);
            numbers.into_iter().for_each(|n| n.0[at] = row.known.asked[*axis]);
        }
        self.known.get_mut(place).into_iter().for_each(|k| *k = row.known);
        self.asks.get_mut(place).into_iter().for_each(|a| *a = row.rest);
        if at == 0 {
            self.tops.get_mut(line).into_iter().for_each(|t| *t = row.known.rank);
        }
    }
    fn get(&self, head: Head, at: usize) -> Option<Row> {
        let place = head.first as usize + at;
        let number = self.rest.get(place / LINE)?.0[place % LINE];
        Some(Row { known: *self.known.get(place)?, rest: *self.asks.get(place)?, number })
    }
    fn known(&self, head: Head, at: usize) -> Known {
        self.known.get(head.first as usize + at).copied().unwrap_or_default()
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
        if rules == head.places() {
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
        self.head(list, head);
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
        for i in 0..head.places() {
            self.clear(head, i);
        }
        if head.room > 0 {
            let free = self.free.get_mut(usize::from(head.room) - 1);
            free.into_iter().for_each(|f| f.push(head.first));
        }
    }
    fn clear(&mut self, head: Head, at: usize) {
        self.set(head, at, &Row { known: Known::default(), rest: Asks::default(), number: NONE });
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
        self.head(list, head);
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
        let known = self.known.iter_mut().map(|k| &mut k.rank);
        for rank in known.chain(&mut self.tops).chain(&mut self.bests) {
            *rank = if *rank == 0 { 0 } else { f(*rank) };
        }
    }
    /// Lists that there are.
    pub(super) fn len(&self) -> usize {
        self.heads.len()
    }
    pub(super) fn heap_bytes(&self) -> usize {
        let free: usize = self.free.iter().map(|f| f.capacity() * 4).sum();
        let lines = self.axes.iter().map(Vec::capacity).sum::<usize>() + self.rest.capacity();
        self.heads.capacity() * size_of::<Head>()
            + lines * size_of::<Numbers>()
            + (self.tops.capacity() + self.bests.capacity()) * size_of::<u64>()
            + self.known.capacity() * size_of::<Known>()
            + self.asks.capacity() * size_of::<Asks>()
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
        prefetch_slice(self.rest.get(head.first as usize / LINE..).unwrap_or_default(), 2 * 64);
    }
    /// What of a line a key fits by the rest, by numbers, from this place on.
    #[inline(always)]
    fn fits_rest<L: Lanes, const SET: usize>(&self, lanes: L, at: usize, rest: &Set<SET>) -> u32 {
        // No closures here and below: they would be compiled without the lanes' instructions.
        let Some(numbers) = self.rest.get(at / LINE) else { return 0 };
        lanes.members(numbers, rest) >> (at % LINE)
    }
    /// The same by all that its rules ask. `beside` is this list's: who says it where this is compiled spares the question.
    #[inline(always)]
    fn fits<L: Lanes, const SET: usize>(
        &self,
        lanes: L,
        at: usize,
        key: &Key<'_, SET>,
        beside: Beside,
    ) -> u32 {
        let mut fit = self.fits_rest(lanes, at, key.rest);
        for axis in 0..2 {
            if beside.has(axis) {
                let Some(numbers) = self.axes[axis].get(at / LINE) else { return 0 };
                fit &= lanes.members(numbers, key.axes[axis]) >> (at % LINE);
            }
        }
        fit
    }
    /// The first of these places, the lowest being `at`, that a key with this word fits indeed: rules without a number are compared.
    #[inline(always)]
    fn settled(&self, at: usize, fit: u64, word: u64) -> Option<usize> {
        match fit {
            0 => None,
            // Where there are none, nothing has to be read.
            _ if self.others == 0 => Some(at + fit.trailing_zeros() as usize),
            _ => self.compared(at, fit, word),
        }
    }
    #[inline(never)]
    fn compared(&self, at: usize, mut fit: u64, word: u64) -> Option<usize> {
        while fit != 0 {
            let place = at + fit.trailing_zeros() as usize;
            let number = self.rest.get(place / LINE)?.0[place % LINE];
            if number != OTHER || self.asks.get(place).is_some_and(|a| word & a.mask == a.value) {
                return Some(place);
            }
            fit &= fit - 1;
        }
        None
    }
    /// The first rule of a list that a key fits by the rest: which it is of all, or [`NOBODY`]. What is known of it is asked for.
    #[inline(always)]
    pub(super) fn first<L: Lanes, const SET: usize>(
        &self,
        lanes: L,
        list: usize,
        word: u64,
        rest: &Set<SET>,
    ) -> usize {
        let Some(head) = self.heads.get(list).copied() else { return NOBODY };
        let (mut at, mut left) = head.span();
        while left > 0 {
            // Two lines at a time: whether a list has a second nobody can foretell. One that has begins with its first.
            let next = (at / LINE + 1) * LINE;
            let (line, next) = (self.fits_rest(lanes, at, rest), self.fits_rest(lanes, next, rest));
            let fit = (u64::from(line) | u64::from(next) << LINE) & low(left);
            if let Some(found) = self.settled(at, fit, word) {
                prefetch_slice(self.known.get(found..).unwrap_or_default(), 1);
                return found;
            }
            at += 2 * LINE;
            left = left.saturating_sub(2 * LINE);
        }
        NOBODY
    }
    /// What is known of it.
    #[inline(always)]
    pub(super) fn told(&self, at: usize) -> Best {
        match self.known.get(at) {
            Some(known) => Best { rank: known.rank, id: RuleId(known.id) },
            None => Best::NONE,
        }
    }
    /// Whether a list has a rule above this rank from a place on, as far as is known beside the rules.
    #[inline(always)]
    fn is_better(&self, at: usize, best: Best) -> bool {
        !at.is_multiple_of(LINE) || self.tops.get(at / LINE).is_some_and(|top| *top > best.rank)
    }
    /// The best rule of a list that a key fits, if its rank is above `best`; else that. `beside` is this list's.
    #[inline(always)]
    pub(super) fn best<L: Lanes, const SET: usize>(
        &self,
        lanes: L,
        list: usize,
        key: &Key<'_, SET>,
        best: Best,
        beside: Beside,
    ) -> Best {
        if self.bests.get(list).is_none_or(|b| *b <= best.rank) {
            return best;
        }
        let Some(head) = self.heads.get(list).copied() else { return best };
        let (mut at, mut left) = head.span();
        while left > 0 && self.is_better(at, best) {
            let fit = u64::from(self.fits(lanes, at, key, beside)) & low(left);
            if let Some(found) = self.settled(at, fit, key.word) {
                let found = self.told(found);
                return if found.rank > best.rank { found } else { best };
            }
            at += LINE;
            left = left.saturating_sub(LINE);
        }
        best
    }
    /// Lines that a lookup looks at, where it has found this before; so many rules that are compared are a line, too.
    pub(super) fn lines<L: Lanes, const SET: usize>(
        &self,
        lanes: L,
        list: usize,
        key: &Key<'_, SET>,
        best: Best,
    ) -> usize {
        if self.bests.get(list).is_some_and(|b| *b <= best.rank) {
            return 0;
        }
        let Some((mut at, mut left)) = self.heads.get(list).map(|h| h.span()) else { return 0 };
        let (mut lines, mut compared) = (0, 0);
        while left > 0 && self.is_better(at, best) {
            let fit = u64::from(self.fits(lanes, at, key, self.beside)) & low(left);
            let found = self.settled(at, fit, key.word);
            lines += 1;
            compared += (fit & low(found.map_or(LINE, |f| f - at))).count_ones() as usize;
            if found.is_some() {
                break;
            }
            at += LINE;
            left = left.saturating_sub(LINE);
        }
        lines + compared / COMPARED
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
    use crate::simd::{Vectors, Whole, Work, with_vectors};
    use proptest::prelude::*;

    fn row(rank: u64, n: u64) -> Row {
        let asked = [n as u16 % 3, n as u16 % 5];
        let rest = Asks { mask: 0xff, value: n % 7 };
        let number = if n % 7 == 6 { OTHER } else { 2 + (n % 7) as u16 };
        Row { known: Known { rank, id: n as u32, asked }, rest, number }
    }

    /// The first rule's place, the best's rank, and that again where there was one as good.
    struct Look<'a> {
        lists: &'a Lists,
        list: usize,
        key: Key<'a, 32>,
        than: u64,
    }
    impl Work for Look<'_> {
        type Out = (usize, u64, u64);
        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) -> Self::Out {
            let Self { lists, list, key, than } = self;
            let than = Best { rank: than, id: RuleId(0) };
            let best = |than| lists.best(lanes, list, &key, than, lists.beside).rank;
            (lists.first(lanes, list, key.word, key.rest), best(Best::NONE), best(than))
        }
    }

    proptest! {
        /// Any lists, and what comes and goes: as a list of lists has it; where there is no room nothing changes.
        #[test]
        fn lists_are_what_was_put_in(
            beside in prop::sample::select(vec![Beside::Neither, Beside::Across, Beside::Down, Beside::Both]),
            sizes in prop::collection::vec(0usize..40, 5),
            steps in prop::collection::vec((0usize..5, any::<bool>(), any::<u64>()), 0..600),
        ) {
            let ranks = |n: usize| (0..n).map(|i| (1_000 - i) as u64 * 64);
            let mut model: Vec<Vec<Row>> = sizes.iter().map(|n| ranks(*n).map(|r| row(r, r / 64)).collect()).collect();
            let mut lists = Lists::new(beside, &model).unwrap();
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
            // The first that a key fits is the best, and one that is no better than what was found is none.
            for (list, own) in model.iter().enumerate() {
                for word in 0..8u64 {
                    let (mut set, mut axes) = (Whole::NONE, [Half::NONE; 2]);
                    if word < 6 {
                        set.put(2 + word as u16);
                    }
                    set.put(OTHER);
                    axes[0].put(word as u16 % 3);
                    axes[1].put(word as u16 % 5);
                    let key = Key { word, rest: &set, axes: [&axes[0], &axes[1]] };
                    let fits = |r: &&Row| {
                        let has = |a: &usize| axes[*a].has(r.known.asked[*a]);
                        r.rest.value == word && beside.axes().iter().all(has)
                    };
                    let want = own.iter().find(fits).map_or(0, |r| r.known.rank);
                    for v in Vectors::available() {
                        let (first, best, above) = with_vectors(v, Look { lists: &lists, list, key, than: want });
                        let (first, best) = match beside {
                            Beside::Neither => (lists.told(first).rank, want),
                            _ => (want, best),
                        };
                        prop_assert_eq!((first, best, above), (want, want, want));
                    }
                }
            }
            // What takes places takes none that was not there from the beginning, but for numbers of those that are free.
            prop_assert!(lists.heap_bytes() < before + 4_096);
        }
    }

    /// A list that is full takes no more, and gives back what it has.
    #[test]
    fn a_list_takes_so_many() {
        let mut lists = Lists::new(Beside::Neither, &[Vec::new(), Vec::new()]).unwrap();
        let mut taken = 0;
        while lists.insert(0, &row(10_000 - taken, taken)) {
            taken += 1;
        }
        // Of 16 lines beyond those that it has, and twice as many each time.
        assert_eq!((taken, MOST), (256, 4096));
        (0..taken).for_each(|n| assert!(lists.remove(0, 10_000 - n)));
        assert!(lists.rows(0).next().is_none());
        assert!((0..taken).all(|n| lists.insert(1, &row(10_000 - n, n))));
    }
}
