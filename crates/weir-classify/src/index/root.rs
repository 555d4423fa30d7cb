//! The rows before an index's leaves: eight windows of eight bits of the key, and for each value of one a row with a bit for
//! every leaf that has a rule which agrees with it.
//!
//! Called by `tree` and `burst` alone. Rows only gain bits. Up to 64 leaves they are words, which the nearest cache holds; up to 128 two
//! words; beyond that lines of memory, [`LINE`] leaves to each.

use super::place::{Asks, Words};
use crate::simd::{Lanes, Line, prefetch_read};
use crate::windows::{WINDOWS, Window};

/// Leaves to a line of bits, and in all.
const LINE: usize = 512;
const LINES: usize = 2;
/// Bits of a window.
pub(super) const BITS: u32 = 8;
const VALUES: usize = 1 << BITS;

/// Of each window, the row of each value.
type Table<T> = [[T; VALUES]; WINDOWS];

/// Values of one window, a bit each.
type Values = [u64; VALUES / 64];

/// See the head of this file.
#[derive(Clone, Debug)]
pub(super) struct Root {
    rows: Rows,
    windows: [Window; WINDOWS],
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
        Some(Self { rows, windows, noted: vec![Default::default(); leaves] })
    }

    /// The leaves left, where there are at most 128 in all.
    #[inline(always)]
    pub(super) fn few<L: Lanes>(&self, lanes: L, key: &Words) -> Option<[u64; 2]> {
        match &self.rows {
            Rows::One(rows) => {
                let mut left = u64::MAX;
                for (w, rows) in self.windows.iter().zip(&**rows) {
                    left &= rows[key.of(lanes, w) % VALUES];
                }
                Some([left, 0])
            }
            Rows::Two(rows) => {
                let [mut low, mut high] = [u64::MAX; 2];
                for (w, rows) in self.windows.iter().zip(&**rows) {
                    let row = &rows[key.of(lanes, w) % VALUES];
                    (low, high) = (low & row[0], high & row[1]);
                }
                Some([low, high])
            }
            Rows::Lines(_) => None,
        }
    }

    /// Asks for what [`Root::few`] reads, or the first line of what [`Root::line`] does.
    #[inline(always)]
    pub(super) fn prefetch<L: Lanes>(&self, lanes: L, key: &Words) {
        for (i, w) in self.windows.iter().enumerate() {
            let value = key.of(lanes, w) % VALUES;
            match &self.rows {
                Rows::One(rows) => prefetch_read(&rows[i][value]),
                Rows::Two(rows) => prefetch_read(&rows[i][value]),
                Rows::Lines(lines) => {
                    lines.first().into_iter().for_each(|rows| prefetch_read(&rows[i][value]));
                }
            }
        }
    }

    /// Lines of bits.
    #[inline(always)]
    pub(super) fn lines(&self) -> usize {
        if let Rows::Lines(lines) = &self.rows { lines.len() } else { 1 }
    }

    /// The leaves left, of one line: which of its words have any, and the words. Where there are few, [`Root::few`] is quicker.
    #[inline(always)]
    pub(super) fn line<L: Lanes>(&self, lanes: L, key: &Words, line: usize) -> (u32, Line) {
        if let Some([low, high]) = self.few(lanes, key) {
            let some = u32::from(low != 0) | u32::from(high != 0) << 1;
            return (some, Line([low, high, 0, 0, 0, 0, 0, 0]));
        }
        let mut left = lanes.ones();
        if let Rows::Lines(all) = &self.rows
            && let Some(rows) = all.get(line)
        {
            for (w, rows) in self.windows.iter().zip(rows) {
                left = lanes.and(left, &rows[key.of(lanes, w) % VALUES]);
            }
        }
        (lanes.nonzero(left), lanes.store(left))
    }

    /// Takes the first leaf of those that [`Root::line`] said of a line.
    #[inline(always)]
    pub(super) fn next(line: usize, some: &mut u32, left: &mut Line) -> usize {
        let word = some.trailing_zeros() as usize % 8;
        let bits = left.0[word];
        left.0[word] = bits & bits.wrapping_sub(1);
        if left.0[word] == 0 {
            *some &= *some - 1;
        }
        line * LINE + word * 64 + bits.trailing_zeros() as usize % 64
    }

    /// The line that a leaf stands in.
    #[inline(always)]
    pub(super) fn line_of(leaf: usize) -> usize {
        leaf / LINE
    }

    /// Sets a leaf's bit in the rows where a rule agrees.
    pub(super) fn note<const W: usize>(&mut self, leaf: usize, asks: &Asks<W>) {
        let (word, bit) = (leaf / 64, 1u64 << (leaf % 64));
        let Some(noted) = self.noted.get_mut(leaf) else { return };
        for (i, (w, noted)) in self.windows.iter().zip(noted).enumerate() {
            for (at, (has, agrees)) in noted.iter_mut().zip(agreeing(*w, asks)).enumerate() {
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
        rows + self.noted.capacity() * size_of::<[Values; WINDOWS]>()
    }
}

/// The values of a window that a rule agrees with.
fn agreeing<const W: usize>(w: Window, asks: &Asks<W>) -> Values {
    let open = !w.of(&asks.mask) as usize % VALUES;
    let value = w.of(&asks.value) as usize;
    // Within words of 64 bits, then whole words.
    let mut low = 1u64 << (value % 64);
    for bit in (0..6).filter(|b| open >> b & 1 != 0) {
        low |= low << (1 << bit);
    }
    std::array::from_fn(|i| if (i ^ (value / 64)) & !(open / 64) == 0 { low } else { 0 })
}
