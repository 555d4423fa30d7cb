//! The rows before an index's leaves: eight windows of eight bits of the key, and for each value of one a row with a bit for
//! every leaf that has a rule which agrees with it.
//!
//! Called by `tree` and `burst` alone. Rows only gain bits. Up to 64 leaves they are words, which the nearest cache holds; up to 128 two
//! words; beyond that lines of memory, [`LINE`] leaves to each.

use super::place::{Asks, Words};
use crate::simd::{Lanes, Line, Work, prefetch_read};
use crate::windows::{Picks, WINDOWS, Window};

/// Leaves to a line of bits, and in all.
const LINE: usize = 512;
const LINES: usize = 2;
/// Bits of a window.
pub(super) const BITS: u32 = 8;
const VALUES: usize = 1 << BITS;

/// Of each window, the row of each value.
type Table<T> = [[T; VALUES]; WINDOWS];

/// The value of a window, of what a key has in all.
#[inline(always)]
fn value_of(picked: u64, window: usize) -> usize {
    (picked >> (8 * window)) as usize % VALUES
}

/// Leaves that are still to be asked, in what a root's bits take, so that a burst moves no more memory than that.
pub(super) trait Left: Copy + Default {
    /// Takes those that rows leave; there are none yet.
    fn fill<L: Lanes>(&mut self, lanes: L, root: &Root, picked: u64);
    /// Takes the first of them out.
    fn next(&mut self) -> Option<usize>;
    /// Takes all out.
    fn end(&mut self);
}

/// Of a root that [has few](Root::has_few).
#[derive(Clone, Copy, Default)]
pub(super) struct OfFew([u64; 2]);

impl Left for OfFew {
    #[inline(always)]
    fn fill<L: Lanes>(&mut self, _: L, root: &Root, picked: u64) {
        self.0 = root.few(picked).unwrap_or_default();
    }
    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let [low, high] = self.0;
        if low | high == 0 {
            return None;
        }
        // No branch: which of them has the next can't be foretold.
        let (bits, from) = if low != 0 { (low, 0) } else { (high, 64) };
        self.0 = [low & low.wrapping_sub(1), if low != 0 { high } else { high & (high - 1) }];
        Some(from + bits.trailing_zeros() as usize)
    }
    #[inline(always)]
    fn end(&mut self) {
        self.0 = [0; 2];
    }
}

/// Of any root.
#[derive(Clone, Copy, Default)]
pub(super) struct OfAny {
    bits: [Line; LINES],
    /// Which words of the bits have any.
    some: u32,
}

impl Left for OfAny {
    #[inline(always)]
    fn fill<L: Lanes>(&mut self, lanes: L, root: &Root, picked: u64) {
        root.leave(lanes, picked, self);
    }
    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.some == 0 {
            return None;
        }
        let word = self.some.trailing_zeros() as usize % (8 * LINES);
        let bits = &mut self.bits[word / 8].0[word % 8];
        let at = word * 64 + bits.trailing_zeros() as usize;
        *bits &= bits.wrapping_sub(1);
        // No branch: how many a word has left can't be foretold.
        self.some &= !(u32::from(*bits == 0) << word);
        Some(at)
    }
    #[inline(always)]
    fn end(&mut self) {
        self.some = 0;
    }
}

/// Values of one window, a bit each.
type Values = [u64; VALUES / 64];

/// See the head of this file.
#[derive(Clone, Debug)]
pub(super) struct Root {
    rows: Rows,
    picks: Picks,
    windows: Box<[Window; WINDOWS]>,
    /// Of each leaf and window: the values whose rows have its bit.
    noted: Vec<[Values; WINDOWS]>,
}

#[derive(Clone, Debug)]
enum Rows {
    One(Box<Table<u64>>),
    Two(Box<Table<[u64; 2]>>),
    Lines(Box<[Table<Line>]>),
}

impl Root {
    /// For so many leaves, none of which is noted yet; none where they are too many.
    pub(super) fn new(leaves: usize, windows: [Window; WINDOWS]) -> Option<Self> {
        let rows = match leaves {
            0..=64 => Rows::One(Box::new([[0; VALUES]; WINDOWS])),
            65..=128 => Rows::Two(Box::new([[[0; 2]; VALUES]; WINDOWS])),
            n if n <= LINE * LINES => {
                Rows::Lines(vec![[[Line::default(); VALUES]; WINDOWS]; n.div_ceil(LINE)].into())
            }
            _ => return None,
        };
        let picks = Picks::new(&windows);
        let windows = Box::new(windows);
        Some(Self { rows, picks, windows, noted: vec![Default::default(); leaves] })
    }

    /// Whether there are at most 128 leaves in all.
    #[inline(always)]
    pub(super) fn has_few(&self) -> bool {
        !matches!(self.rows, Rows::Lines(_))
    }
    /// The leaves left, where there are at most 128 in all.
    #[inline(always)]
    fn few(&self, picked: u64) -> Option<[u64; 2]> {
        match &self.rows {
            Rows::One(rows) => {
                let mut left = u64::MAX;
                for (i, rows) in rows.iter().enumerate() {
                    left &= rows[value_of(picked, i)];
                }
                Some([left, 0])
            }
            Rows::Two(rows) => {
                let [mut low, mut high] = [u64::MAX; 2];
                for (i, rows) in rows.iter().enumerate() {
                    let row = &rows[value_of(picked, i)];
                    (low, high) = (low & row[0], high & row[1]);
                }
                Some([low, high])
            }
            Rows::Lines(_) => None,
        }
    }

    /// What a key has in the windows.
    #[inline(always)]
    pub(super) fn picked<L: Lanes>(&self, lanes: L, key: &Words) -> u64 {
        key.of(lanes, &self.picks, &self.windows)
    }
    /// Asks for what [`Root::leave`] reads, of lines the first.
    #[inline(always)]
    pub(super) fn prefetch(&self, picked: u64) {
        for i in 0..WINDOWS {
            let value = value_of(picked, i);
            match &self.rows {
                Rows::One(rows) => prefetch_read(&rows[i][value]),
                Rows::Two(rows) => prefetch_read(&rows[i][value]),
                Rows::Lines(lines) => {
                    lines.first().into_iter().for_each(|rows| prefetch_read(&rows[i][value]));
                }
            }
        }
    }

    /// The leaves left go to `out`, which has none.
    #[inline(always)]
    fn leave<L: Lanes>(&self, lanes: L, picked: u64, out: &mut OfAny) {
        if let Some([low, high]) = self.few(picked) {
            out.some = u32::from(low != 0) | u32::from(high != 0) << 1;
            (out.bits[0].0[0], out.bits[0].0[1]) = (low, high);
            return;
        }
        if let Rows::Lines(all) = &self.rows {
            for (at, (rows, bits)) in all.iter().zip(&mut out.bits).enumerate() {
                let mut left = lanes.ones();
                for (i, rows) in rows.iter().enumerate() {
                    left = lanes.and(left, &rows[value_of(picked, i)]);
                }
                out.some |= lanes.nonzero(left) << (8 * at);
                *bits = lanes.store(left);
            }
        }
    }

    /// Sets a leaf's bit in the rows where a rule agrees.
    #[inline(always)]
    fn note<L: Lanes, const W: usize>(&mut self, lanes: L, leaf: usize, asks: &Asks<W>) {
        let (word, bit) = (leaf / 64, 1u64 << (leaf % 64));
        let Some(noted) = self.noted.get_mut(leaf) else { return };
        for (i, (w, noted)) in self.windows.iter().zip(noted).enumerate() {
            for (at, (has, agrees)) in noted.iter_mut().zip(agreeing(lanes, *w, asks)).enumerate() {
                let mut new = agrees & !*has;
                *has |= agrees;
                while new != 0 {
                    let value = (at * 64 + new.trailing_zeros() as usize) % VALUES;
                    new &= new - 1;
                    match &mut self.rows {
                        Rows::One(rows) => rows[i % WINDOWS][value] |= bit,
                        Rows::Two(rows) => rows[i % WINDOWS][value][word % 2] |= bit,
                        Rows::Lines(all) => {
                            if let Some(rows) = all.get_mut(word / 8) {
                                rows[i % WINDOWS][value].0[word % 8] |= bit;
                            }
                        }
                    }
                }
            }
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let rows = match &self.rows {
            Rows::One(rows) => size_of_val(&**rows),
            Rows::Two(rows) => size_of_val(&**rows),
            Rows::Lines(rows) => size_of_val(&**rows),
        };
        rows + size_of_val(&*self.windows) + self.noted.capacity() * size_of::<[Values; WINDOWS]>()
    }
}

/// [`Root::note`], of what a rule asks.
pub(super) struct Noting<'a, const W: usize> {
    pub(super) root: &'a mut Root,
    pub(super) leaf: usize,
    pub(super) asks: &'a Asks<W>,
}

impl<const W: usize> Work for Noting<'_, W> {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        self.root.note(lanes, self.leaf, self.asks);
    }
}

/// The values of a window that a rule agrees with.
#[inline(always)]
fn agreeing<L: Lanes, const W: usize>(lanes: L, w: Window, asks: &Asks<W>) -> Values {
    let [mask, value] = asks.within(lanes, w).map(|bits| bits as usize);
    let open = !mask % VALUES;
    // Within words of 64 bits, then whole words.
    let mut low = 1u64 << (value % 64);
    for bit in (0..6).filter(|b| open >> b & 1 != 0) {
        low |= low << (1 << bit);
    }
    std::array::from_fn(|i| if (i ^ (value / 64)) & !(open / 64) == 0 { low } else { 0 })
}
