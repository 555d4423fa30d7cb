//! Rules that have one place of a leaf together: rules of one priority that ask the same but for half a word of the key, as those do
//! that a range of ports was taken apart into. The place asks what all of them ask; which of them a key fits, if any, is one
//! comparison of that half with eight of them at a time. So a range takes one place where it would take six, two ranges one
//! where they would take thirty-six.
//!
//! Called by `tree`, `cuts` and `leaf`. Who makes an index finds families among rules that follow each other in rank, of which no two
//! fit one key; then no other rule's rank lies between theirs, but for one that the copy has missed, which `leaf` has no place for. Who has
//! gone comes back to its family, as the youngest of its priority, as long as nobody of that priority has been where the family is whom
//! its place meets. Decision 77.

use super::place::{Asks, Kind, Place, Words};
use crate::rule::RuleId;

/// Rules that are compared at a time.
const ABREAST: usize = 8;
/// Rules of a family, at most.
const MOST: usize = 64;
/// Rules for each that a family spares a place, from which on they are not worth having.
const WORTH: usize = 8;
/// What is said of a rule's rank where it has gone; no rule's.
const GONE: u32 = 0;

/// Half a word of the key, of those that rules look at: two to a word, the low one first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Half(u8);

impl Half {
    pub(super) fn word(self) -> usize {
        usize::from(self.0 / 2)
    }
    #[inline(always)]
    fn shift(self) -> u32 {
        u32::from(self.0 % 2) * 32
    }
    /// Its part of some words.
    #[inline(always)]
    pub(super) fn of(self, words: &[u64]) -> u32 {
        words.get(self.word()).map_or(0, |w| (w >> self.shift()) as u32)
    }
    fn widen(self, bits: u32) -> u64 {
        u64::from(bits) << self.shift()
    }
    /// What a rule asks of it.
    fn asked<const W: usize>(self, asks: &Asks<W>) -> Member {
        Member { mask: self.of(&asks.mask), value: self.of(&asks.value) }
    }
    /// The same, but that this is asked of the half.
    fn with<const W: usize>(self, mut asks: Asks<W>, m: Member) -> Asks<W> {
        let others = !self.widen(u32::MAX);
        let (word, mask, value) = (self.word() % W, self.widen(m.mask), self.widen(m.value));
        asks.mask[word] = asks.mask[word] & others | mask;
        asks.value[word] = asks.value[word] & others | value;
        asks
    }
    /// Whether two rules ask the same of all else.
    fn alone_differs<const W: usize>(self, one: &Asks<W>, other: &Asks<W>) -> bool {
        self.with(*one, ANY) == self.with(*other, ANY)
    }
    /// What both ask.
    fn common<const W: usize>(self, one: &Asks<W>, other: &Asks<W>) -> Asks<W> {
        let (a, b) = (self.asked(one), self.asked(other));
        let mask = a.mask & b.mask & !(a.value ^ b.value);
        self.with(*one, Member { mask, value: a.value & mask })
    }
}

/// What a rule asks of the half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    mask: u32,
    value: u32,
}

const ANY: Member = Member { mask: 0, value: 0 };
/// What no key has, where there is nobody.
const NOBODY: Member = Member { mask: 0, value: 1 };

impl Member {
    fn meets(self, other: Self) -> bool {
        (self.value ^ other.value) & self.mask & other.mask == 0
    }
}

/// Some of a family. No key fits two.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Eight {
    masks: [u32; ABREAST],
    values: [u32; ABREAST],
    ids: [u32; ABREAST],
    /// Of their ranks, what the place's does not say; or [`GONE`].
    numbers: [u32; ABREAST],
}

impl Eight {
    const EMPTY: Self = Self {
        masks: [NOBODY.mask; ABREAST],
        values: [NOBODY.value; ABREAST],
        ids: [0; ABREAST],
        numbers: [GONE; ABREAST],
    };
    fn member(&self, at: usize) -> Member {
        let of = |all: &[u32; ABREAST]| all.get(at).copied().unwrap_or(0);
        Member { mask: of(&self.masks), value: of(&self.values) }
    }
    /// Who sits there: what is asked, the id, the number.
    fn set(&mut self, at: usize, m: Member, id: u32, number: u32) {
        let i = at % ABREAST;
        (self.masks[i], self.values[i]) = (m.mask, m.value);
        (self.ids[i], self.numbers[i]) = (id, number);
    }
    /// Who a key fits that has this half.
    #[inline(always)]
    fn fitting(&self, half: u32) -> Option<(u32, RuleId)> {
        let mut hits = 0u32;
        for i in 0..ABREAST {
            hits |= u32::from(half & self.masks[i] == self.values[i]) << i;
        }
        let at = hits.trailing_zeros() as usize;
        let number = *self.numbers.get(at)?;
        (number != GONE).then_some((number, RuleId(*self.ids.get(at)?)))
    }
}

/// Where a family is, and how many eights it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) first: u32,
    pub(super) eights: u8,
}

impl At {
    fn range(self) -> std::ops::Range<usize> {
        let first = self.first as usize;
        first..first + usize::from(self.eights)
    }
}

/// A rule of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    eight: u32,
    at: u8,
}

/// All families of an index; see the head of this file.
#[derive(Clone, Debug, Default)]
pub(super) struct Families {
    /// Half of the key in which they differ.
    half: Half,
    all: Vec<Eight>,
    /// At a family's first eight: whether nobody of its priority has been where it is that its place meets.
    alone: Vec<bool>,
}

impl Families {
    fn of(&self, at: At) -> &[Eight] {
        self.all.get(at.range()).unwrap_or_default()
    }
    /// Of each seat: who it is, what is asked, and what the place's rank does not say of its own.
    fn seats(&self, at: At) -> impl Iterator<Item = (Seat, Member, u32)> {
        self.of(at).iter().zip(at.first..).flat_map(|(eight, n)| {
            let of = move |i: usize| (Seat { eight: n, at: i as u8 }, eight.member(i));
            (0..ABREAST)
                .map(move |i| (of(i), eight.numbers.get(i).copied().unwrap_or(GONE)))
                .filter(|((_, m), _)| *m != NOBODY)
                .map(|((seat, m), number)| (seat, m, number))
        })
    }
    #[cfg(test)]
    pub(super) fn eights(&self) -> usize {
        self.all.len()
    }
    /// Whether there are none.
    #[inline]
    pub(super) fn are_none(&self) -> bool {
        self.all.is_empty()
    }
    /// Nobody is there who has not gone.
    pub(super) fn is_empty(&self, at: At) -> bool {
        self.seats(at).all(|(_, _, number)| number == GONE)
    }

    /// Rank and id of whom a key fits, where it fits what the place asks, which has this rank.
    #[inline(always)]
    fn fitting(&self, at: At, rank: u64, key: &[u64; 8]) -> Option<(u64, RuleId)> {
        let half = self.half.of(key);
        for eight in self.of(at) {
            if let Some((number, id)) = eight.fitting(half) {
                return Some((full(rank, number), id));
            }
        }
        None
    }
    /// Who asks just this, of a place that asks that; they may have gone.
    pub(super) fn seat<const W: usize>(
        &self,
        at: At,
        place: &Asks<W>,
        asks: &Asks<W>,
    ) -> Option<Seat> {
        if !self.half.alone_differs(place, asks) {
            return None;
        }
        let asked = self.half.asked(asks);
        self.seats(at).find(|(_, m, _)| *m == asked).map(|s| s.0)
    }
    /// Rank and id of who sits there, if they have not gone.
    pub(super) fn told(&self, seat: Seat, rank: u64) -> Option<(u64, RuleId)> {
        let eight = self.all.get(seat.eight as usize)?;
        let number = *eight.numbers.get(usize::from(seat.at))?;
        (number != GONE).then_some((full(rank, number), RuleId(self.id(seat))))
    }
    /// They go; their seat is kept.
    pub(super) fn leave(&mut self, seat: Seat) {
        if let Some(eight) = self.all.get_mut(seat.eight as usize) {
            eight.numbers.get_mut(usize::from(seat.at)).into_iter().for_each(|n| *n = GONE);
        }
    }
    /// A rule that asks what they asked takes their seat, as the youngest of its priority: false where another of that priority has been
    /// there.
    pub(super) fn come_back<const W: usize>(
        &mut self,
        at: At,
        seat: Seat,
        rule: &Place<W>,
    ) -> bool {
        if !self.is_alone(at) {
            return false;
        }
        let Some(eight) = self.all.get_mut(seat.eight as usize) else { return false };
        let i = usize::from(seat.at) % ABREAST;
        (eight.ids[i], eight.numbers[i]) = (rule.id as u32, rule.rank as u32);
        true
    }
    /// Whether nobody of its priority has been where it is whom its place meets.
    pub(super) fn is_alone(&self, at: At) -> bool {
        self.alone.get(at.first as usize) == Some(&true)
    }
    /// Somebody of its priority is where it is whom its place meets.
    pub(super) fn not_alone(&mut self, at: At) {
        self.alone.get_mut(at.first as usize).into_iter().for_each(|a| *a = false);
    }

    /// Calls `f` with what each rule of a place asks that asks this, or more on the way to a leaf: of its family, whether they have gone
    /// or not, or the one that it is.
    pub(super) fn each_ask<const W: usize>(
        &self,
        family: Option<At>,
        place: &Asks<W>,
        mut f: impl FnMut(&Asks<W>),
    ) {
        let Some(at) = family else { return f(place) };
        let on_the_way = self.half.asked(place);
        for (_, m, _) in self.seats(at).filter(|(_, m, _)| m.meets(on_the_way)) {
            let both = Member { mask: m.mask | on_the_way.mask, value: m.value | on_the_way.value };
            f(&self.half.with(*place, both));
        }
    }
    /// Each who has not gone, as a rule of its own.
    pub(super) fn rules<const W: usize>(
        &self,
        at: At,
        place: Place<W>,
    ) -> impl Iterator<Item = Place<W>> {
        self.seats(at).filter_map(move |(seat, m, _)| {
            let (rank, id) = self.told(seat, place.rank)?;
            Some(Place { id: u64::from(id.0), rank, asks: self.half.with(place.asks, m) })
        })
    }
    /// The rank of the youngest who has not gone.
    pub(super) fn youngest(&self, at: At, rank: u64) -> Option<u64> {
        let there = self.seats(at).map(|(_, _, n)| n).filter(|n| *n != GONE);
        there.min().map(|n| full(rank, n))
    }
    /// Gives each the number that `f` says.
    pub(super) fn rerank(&mut self, at: At, rank: u64, f: &dyn Fn(u64) -> u64) {
        let all = self.all.get_mut(at.range()).unwrap_or_default();
        let numbers = all.iter_mut().flat_map(|eight| &mut eight.numbers);
        numbers.filter(|n| **n != GONE).for_each(|n| *n = f(full(rank, *n)) as u32);
    }
    pub(super) fn heap_bytes(&self) -> usize {
        self.all.capacity() * size_of::<Eight>() + self.alone.capacity()
    }

    /// One more rule for the family of a place, or the first two; false where there is no room, or some key fits it and another.
    fn add<const W: usize>(&mut self, place: &mut Place<W>, rule: &Place<W>) -> bool {
        let new = self.half.asked(&rule.asks);
        let at = match place.kind() {
            Kind::One(_) if self.half.asked(&place.asks).meets(new) => return false,
            Kind::One(_) => {
                let at = At { first: self.all.len() as u32, eights: 1 };
                self.set_up_eight();
                self.sit(at, place);
                at
            }
            Kind::Family(at) => at,
            Kind::Gone => return false,
        };
        let of = self.seats(at);
        let (mut seated, mut meets) = (0, false);
        of.for_each(|(_, m, _)| (seated, meets) = (seated + 1, meets | m.meets(new)));
        if meets || seated == MOST {
            return false;
        }
        let eights = if seated % ABREAST == 0 { at.eights + 1 } else { at.eights };
        if eights > at.eights {
            self.set_up_eight();
        }
        let at = At { eights, ..at };
        self.sit(at, rule);
        place.asks = self.half.common(&place.asks, &rule.asks);
        place.set(Kind::Family(at));
        true
    }
    /// Eight more seats, behind all others.
    fn set_up_eight(&mut self) {
        self.all.push(Eight::EMPTY);
        self.alone.push(true);
    }
    /// A rule takes the first seat where nobody is.
    fn sit<const W: usize>(&mut self, at: At, rule: &Place<W>) {
        let new = self.half.asked(&rule.asks);
        for eight in self.all.get_mut(at.range()).unwrap_or_default() {
            if let Some(i) = (0..ABREAST).find(|i| eight.member(*i) == NOBODY) {
                return eight.set(i, new, rule.id as u32, rule.rank as u32);
            }
        }
    }
    /// Those that ask least come first, as most keys are theirs.
    fn order(&mut self, at: At) {
        let mut all: Vec<_> = self.seats(at).map(|(seat, m, n)| (m, n, self.id(seat))).collect();
        all.sort_by_key(|(m, ..)| m.mask.count_ones());
        let eights = self.all.get_mut(at.range()).unwrap_or_default();
        for (eight, members) in eights.iter_mut().zip(all.chunks(ABREAST)) {
            for (i, (m, number, id)) in members.iter().enumerate() {
                eight.set(i, *m, *id, *number);
            }
        }
    }
    fn id(&self, seat: Seat) -> u32 {
        let of = self.all.get(seat.eight as usize).and_then(|e| e.ids.get(usize::from(seat.at)));
        of.copied().unwrap_or(0)
    }
    /// Bits of the half's word that some ask for, and their place does not.
    fn splits<const W: usize>(&self, at: At, place: &Asks<W>) -> u64 {
        let any = self.seats(at).fold(0, |all, (_, m, _)| all | m.mask);
        self.half.widen(any & !self.half.asked(place).mask)
    }
}

/// Who tells which rule of a place a key fits that fits what the place asks: where there are no families, nothing is to be asked for.
pub(super) trait Kindred<'a>: Copy {
    fn of(families: &'a Families) -> Self;
    fn told<const W: usize>(self, key: &Words, place: &Place<W>) -> Option<(u64, RuleId)>;
}
impl<'a> Kindred<'a> for &'a Families {
    #[inline(always)]
    fn of(families: &'a Families) -> Self {
        families
    }
    #[inline(always)]
    fn told<const W: usize>(self, key: &Words, place: &Place<W>) -> Option<(u64, RuleId)> {
        match place.kind() {
            Kind::One(id) => Some((place.rank, id)),
            Kind::Family(at) => self.fitting(at, place.rank, key.all()),
            Kind::Gone => None,
        }
    }
}
/// Places of an index without families.
#[derive(Clone, Copy)]
pub(super) struct Alone;
impl Kindred<'_> for Alone {
    #[inline(always)]
    fn of(_: &Families) -> Self {
        Self
    }
    #[inline(always)]
    fn told<const W: usize>(self, _: &Words, place: &Place<W>) -> Option<(u64, RuleId)> {
        Some((place.rank, RuleId(place.id as u32)))
    }
}

/// A rank, of one of the same priority and its own number.
#[inline(always)]
fn full(rank: u64, number: u32) -> u64 {
    rank >> 32 << 32 | u64::from(number)
}

/// All rules of a table, families as one.
pub(super) struct Kin<const W: usize> {
    /// Rules by themselves, and places of families.
    pub(super) heads: Vec<Place<W>>,
    pub(super) families: Families,
    /// Bits by which its family may not be torn apart, of each head; of the word that has the half.
    pub(super) splits: Vec<u64>,
    /// How many rules these are.
    pub(super) rules: usize,
}

impl<const W: usize> Kin<W> {
    /// All by themselves.
    pub(super) fn none(rules: &[Place<W>]) -> Self {
        let (heads, splits, rules) = (rules.to_vec(), vec![0; rules.len()], rules.len());
        Self { heads, families: Families::default(), splits, rules }
    }
    /// Of rules by rank, the largest first; none where families would be few.
    pub(super) fn of(rules: &[Place<W>]) -> Option<Self> {
        let families = Families { half: half(rules)?, ..Families::default() };
        let mut out = Self { heads: Vec::new(), families, splits: vec![], rules: rules.len() };
        rules.iter().for_each(|r| out.add(r));
        let Self { heads, families, .. } = &mut out;
        if heads.len() == rules.len() {
            return None;
        }
        heads.iter().filter_map(Place::family).for_each(|at| families.order(at));
        // They are the index's in the end, and no more come.
        families.all.shrink_to_fit();
        families.alone.shrink_to_fit();
        let splits = |h: &Place<W>| h.family().map_or(0, |at| out.families.splits(at, &h.asks));
        out.splits = out.heads.iter().map(splits).collect();
        Some(out)
    }
    /// The smallest number, of those that make ranks of equal priority differ.
    pub(super) fn youngest(&self) -> u32 {
        let of = |h: &Place<W>| match h.family() {
            Some(at) => self.families.youngest(at, h.rank).unwrap_or(h.rank),
            None => h.rank,
        };
        self.heads.iter().map(|h| of(h) as u32).min().unwrap_or(u32::MAX)
    }
    /// The word that has the half in which families differ.
    pub(super) fn word(&self) -> usize {
        self.families.half.word()
    }
    /// One more, of a smaller rank than any.
    fn add(&mut self, rule: &Place<W>) {
        if let Some(last) = self.heads.last_mut()
            && last.rank >> 32 == rule.rank >> 32
            && self.families.half.alone_differs(&last.asks, &rule.asks)
            && self.families.add(last, rule)
        {
            return;
        }
        self.heads.push(*rule);
    }
}

/// The half in which most rules differ, and in nothing else, from the one before; none where they are few.
fn half<const W: usize>(rules: &[Place<W>]) -> Option<Half> {
    let mut counts = vec![0usize; 2 * W];
    for pair in rules.windows(2) {
        if let [one, other] = pair
            && one.rank >> 32 == other.rank >> 32
            && let Some(half) = differing(&one.asks, &other.asks)
            && let Some(n) = counts.get_mut(usize::from(half.0))
        {
            *n += 1;
        }
    }
    let (at, most) = (0..).zip(counts).max_by_key(|c| c.1)?;
    (most > 0 && most * WORTH >= rules.len()).then_some(Half(at))
}

/// The only half in which two rules differ.
fn differing<const W: usize>(one: &Asks<W>, other: &Asks<W>) -> Option<Half> {
    let mut halves = (0..2 * W as u8).map(Half).filter(|h| h.asked(one) != h.asked(other));
    let half = halves.next()?;
    halves.next().is_none().then_some(half)
}

#[cfg(test)]
mod tests {
    use super::super::{Draft, Drafted, Index, Wanted, Which};
    use super::*;
    use crate::field::Field;
    use crate::key::FlowKey;
    use crate::rule::Match;
    use crate::scan::words_of;
    use crate::simd::Vectors;

    fn line(dst: u32) -> Match {
        Match::any().with(Field::Ipv4Dst, dst.into()).with(Field::IpProto, 6)
    }
    /// One of the ports of a line.
    fn port(m: Match, n: u32) -> Match {
        m.with(Field::TpDst, u128::from(n + 1) * 0x1100)
    }
    /// What all six of a line ask.
    fn of_all(dst: u32) -> Match {
        line(dst).with_masked(Field::TpDst, 0, 0x88ff)
    }
    fn rank(priority: u64, number: u64) -> u64 {
        (priority << 32) | ((1 << 31) - number)
    }
    fn index(rules: &[(u64, Match)], make: fn(Draft) -> Drafted) -> Index {
        let words = words_of(port(line(0).with(Field::TpSrc, 0), 0).mask());
        let mut draft = Draft::new(1, Vectors::best(), words, rules.len(), Wanted::Index).unwrap();
        for (i, (rank, m)) in rules.iter().enumerate() {
            draft.add(*rank, RuleId(i as u32), m);
        }
        *make(draft).made.into_index().unwrap()
    }
    fn winner(index: &Index, key: &FlowKey) -> Option<(u64, RuleId)> {
        let mut found = [None];
        index.lookup_strewn(Vectors::best(), &[key], &mut found);
        found[0]
    }
    /// Lines of six rules, a priority each.
    fn lines(n: u32) -> Vec<(u64, Match)> {
        let six = |i: u32| {
            (0..6)
                .map(move |p| (rank(1_000 + u64::from(i), u64::from(6 * i + p)), port(line(i), p)))
        };
        (0..n).flat_map(six).collect()
    }

    /// A rule that was there between two of a family, and that the copy has missed, is for others to keep.
    #[test]
    fn none_comes_between() {
        let v = Vectors::best();
        let mut all = lines(60);
        all.extend([(rank(7, 1_000), port(line(9), 0)), (rank(7, 1_002), port(line(9), 1))]);
        let mut index = index(&all, Draft::make_by_families);
        let between = Match::any().with(Field::IpProto, 6);
        assert!(!index.insert(v, rank(7, 1_001), RuleId(77), &between));
        assert!(index.insert(v, rank(7, 1_003), RuleId(78), &between));
        assert!(index.insert(v, rank(8, 1_001), RuleId(79), &between));
        // Nor between one that came back and the others.
        let (gone, m) = all[5];
        assert!(index.remove(v, &m, Which::Rank(gone)).is_some());
        assert!(index.insert(v, rank(1_000, 2_000), RuleId(80), &m));
        assert!(!index.insert(v, rank(1_000, 1_500), RuleId(81), &line(0)));
    }

    /// Who has gone comes back to a family that was put in order with all of its leaf meanwhile; and a family that has gone leaves its
    /// place, also to a rule that asks what all of it asked.
    #[test]
    fn seats_are_kept_and_places_given_up() {
        let v = Vectors::best();
        let mut all = lines(40);
        // So that windows look at ports.
        let ports = |i: u32| line(9_999).with(Field::TpDst, u128::from(i) << 8);
        all.extend((0..200).map(|i| (rank(100 + u64::from(i), 1_000), ports(i))));
        let mut index = index(&all, Draft::make_by_families);
        assert_eq!((index.leaves(), index.places()), (1, 240));
        let (gone, m) = all[3];
        assert_eq!(index.remove(v, &m, Which::Rank(gone)), Some((gone, RuleId(3))));
        assert_eq!(winner(&index, m.value()), None);
        // Older than the leaf's youngest, one by one: in the end all are put in order.
        for i in 0..70 {
            assert!(index.insert(v, rank(5, 200 - i), RuleId(500), &line(500 + i as u32)));
        }
        assert!(index.insert(v, rank(1_000, 2_000), RuleId(99), &m));
        assert_eq!(winner(&index, m.value()), Some((rank(1_000, 2_000), RuleId(99))));
        assert_eq!((index.places(), index.len()), (310, 6 * 40 + 270));
        for (i, (rank, m)) in all[12..18].iter().enumerate() {
            assert_eq!(index.places(), 310);
            let id = RuleId(12 + i as u32);
            assert_eq!(index.remove(v, m, Which::Rank(*rank)), Some((*rank, id)));
        }
        assert_eq!(index.places(), 309);
        // What all six ask, in the place that they had.
        assert!(index.insert(v, rank(1_002, 3_000), RuleId(55), &of_all(2)));
        for n in 0..6 {
            let key = port(line(2), n);
            assert_eq!(winner(&index, key.value()), Some((rank(1_002, 3_000), RuleId(55))));
        }
        // Ports that none of the six has, some of their bits from one and some from another.
        for port in (0..8u128).flat_map(|n| [n << 8, n << 12]) {
            let key = *line(2).with(Field::TpDst, port).value();
            assert_eq!(winner(&index, &key), Some((rank(1_002, 3_000), RuleId(55))));
        }
    }

    /// Who shares a priority with many that it never meets comes back to its family as others do; with one that it meets it does not.
    #[test]
    fn strangers_are_who_meets() {
        let v = Vectors::best();
        let of = |i: u32| (0..6).map(move |n| (rank(50, u64::from(6 * i + n)), port(line(i), n)));
        let all: Vec<_> = (0..60).flat_map(of).collect();
        let mut index = index(&all, Draft::make_by_families);
        assert_eq!(index.places(), 60);
        let mut number = 10_000;
        let mut again = |index: &mut Index, i: usize| {
            let m = &all[i].1;
            assert!(index.remove(v, m, Which::Priority(50)).is_some());
            number += 1;
            assert!(index.insert(v, rank(50, number), RuleId(7), m));
            assert_eq!(winner(index, m.value()), Some((rank(50, number), RuleId(7))));
        };
        (0..360).for_each(|i| again(&mut index, i));
        assert_eq!(index.places(), 60);
        assert!(index.insert(v, rank(50, 20_000), RuleId(8), &line(3)));
        (0..360).step_by(6).for_each(|i| again(&mut index, i));
        assert_eq!(index.places(), 62);
    }

    /// Families that meet another of their priority would be scattered by changes.
    #[test]
    fn who_would_be_scattered() {
        for shared in [false, true] {
            let of = |i: u32| {
                let m = if i == 7 { Match::any().with(Field::IpProto, 6) } else { line(i) };
                let p = if shared { 50 } else { 100 - u64::from(i) };
                (0..6).map(move |n| (rank(p, u64::from(6 * i + n)), port(m, n)))
            };
            let all: Vec<_> = (0..60).flat_map(of).collect();
            let index = index(&all, Draft::make_by_families);
            assert_eq!((index.places(), index.would_scatter()), (60, shared));
        }
    }

    /// A family moves for a rule that asks what all of it ask, which takes the place that it had.
    #[test]
    fn a_family_moves_away() {
        let v = Vectors::best();
        let of = |dst: u32, from: u64| {
            (0..6).map(move |n| (rank(50, from + u64::from(n)), port(line(dst), n)))
        };
        let ports = |i: u32| line(9_999).with(Field::TpDst, u128::from(i) << 8);
        let mut all: Vec<_> = of(101, 10).chain(of(102, 20)).chain(lines(40)).collect();
        all.extend((0..200).map(|i| (rank(100 + u64::from(i), 1_000), ports(i))));
        let mut index = index(&all, Draft::make_by_families);
        for (rank, m) in &all[..6] {
            assert!(index.remove(v, m, Which::Rank(*rank)).is_some());
        }
        assert!(index.insert(v, rank(50, 3_000), RuleId(55), &of_all(102)));
        // Ports that none of the six has, some of their bits from one and some from another.
        for port in (0..8u128).flat_map(|n| [n << 8, n << 12]) {
            let key = *line(102).with(Field::TpDst, port).value();
            assert_eq!(winner(&index, &key), Some((rank(50, 3_000), RuleId(55))));
        }
        for (i, (rank, m)) in all[6..12].iter().enumerate() {
            assert_eq!(winner(&index, m.value()), Some((*rank, RuleId(6 + i as u32))));
        }
    }

    /// Where a bit of the ports tells most rules apart, families are not torn apart by it: each is found where it is.
    #[test]
    fn families_stay_whole() {
        let v = Vectors::best();
        let mut all = lines(400);
        for i in 0..3_000u32 {
            let m = Match::any().with(Field::TpDst, u128::from(i % 128) << 8);
            let m = m.with(Field::TpSrc, u128::from(i / 128));
            all.push((rank(10_000 + u64::from(i), 10_000), m));
        }
        let mut index = index(&all, Draft::make_by_rows);
        for (i, (rank, m)) in all.iter().enumerate().take(2_400).step_by(5) {
            let id = RuleId(i as u32);
            assert_eq!(index.find(v, m, Which::Rank(*rank)), Some((*rank, id)));
            assert_eq!(index.remove(v, m, Which::Rank(*rank)), Some((*rank, id)));
            assert_eq!(index.find(v, m, Which::Rank(*rank)), None);
        }
    }

    /// A rule of a family that came back has its own rank, smaller than that of its place, beside what another leaf has.
    #[test]
    fn who_came_back_is_the_youngest() {
        let v = Vectors::best();
        let mut all = lines(900);
        let wide = |i: u32| Match::any().with(Field::TpSrc, i.into());
        all.extend((0..600).map(|i| (rank(7, 90_000 + u64::from(i)), wide(20_000 + i))));
        let mut index = index(&all, Draft::make_by_rows);
        for i in 0..100u32 {
            assert!(index.insert(v, rank(1_000 + u64::from(i), 100_000), RuleId(9), &wide(i)));
        }
        for (i, (old, m)) in all.iter().enumerate().take(600).skip(2).step_by(6) {
            assert_eq!(index.remove(v, m, Which::Rank(*old)), Some((*old, RuleId(i as u32))));
            let (priority, line) = (*old >> 32, i as u128 / 6);
            let own = rank(priority, 200_000);
            assert!(index.insert(v, own, RuleId(5), m));
            let beside = *m.with(Field::TpSrc, line).value();
            assert_eq!(winner(&index, &beside), Some((rank(priority, 100_000), RuleId(9))), "{i}");
            assert_eq!(winner(&index, m.with(Field::TpSrc, 9_999).value()), Some((own, RuleId(5))));
        }
    }
}
