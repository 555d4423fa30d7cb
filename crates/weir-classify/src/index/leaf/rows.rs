//! The rows of a leaf: of each window sixteen, one for each value, with a bit for every place.
//!
//! Part of `leaf`; `burst` names what it knows of them ([`Span`]). Most tables of a tenant have some dozens of rules: rows of whole lines would be
//! most of what their memory is, and of many such tables lines that no near cache keeps. A lookup in a large table should not have to ask which
//! it is; so that is settled when it is compiled.

use super::{Bits, PLACES, VALUES, value_of};
use crate::index::place::Asks;
use crate::simd::{Lanes, Line, prefetch_read};
use crate::windows::{WINDOWS, Window};
use std::sync::{Arc, LazyLock};

/// Words of a row that is not a line, and the places that it has bits for.
const WORDS: usize = 2;
pub(super) const FEW: usize = 64 * WORDS;

/// Of each window, the row of each value.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Table<R>([[R; VALUES]; WINDOWS]);

/// What an `Arc` has before lines.
const HEAD: usize = align_of::<Line>();

/// See the head of this file. Clones have their lines together until one of them changes.
#[derive(Clone, Debug)]
pub(in super::super) struct Rows {
    /// Of a leaf whose rows are narrow [`NONE`]: so who reads lines need not ask whether there are any.
    lines: Arc<Table<Line>>,
    words: Option<Box<Table<[u64; WORDS]>>>,
}

/// Lines without bits, which all leaves have that have no lines.
static NONE: LazyLock<Arc<Table<Line>>> = LazyLock::new(|| Arc::new(Table::lines()));

/// What is known of a leaf's rows where a lookup is compiled.
pub(in super::super) trait Span {
    /// Asks for the rows of what a key has in the windows.
    fn prefetch(rows: &Rows, picked: u64);
    /// The places that have a bit in all of them.
    fn left<L: Lanes>(rows: &Rows, lanes: L, picked: u64) -> L::Row;
}

/// Nothing is.
pub(in super::super) struct Either;
/// They are lines. Of others nothing is left.
pub(in super::super) struct Whole;
/// They are a few words each. The same.
pub(in super::super) struct Narrow;

impl Span for Either {
    #[inline(always)]
    fn prefetch(rows: &Rows, picked: u64) {
        match rows.words {
            Some(_) => Narrow::prefetch(rows, picked),
            None => Whole::prefetch(rows, picked),
        }
    }
    #[inline(always)]
    fn left<L: Lanes>(rows: &Rows, lanes: L, picked: u64) -> L::Row {
        match rows.words {
            Some(_) => Narrow::left(rows, lanes, picked),
            None => Whole::left(rows, lanes, picked),
        }
    }
}

impl Span for Whole {
    #[inline(always)]
    fn prefetch(rows: &Rows, picked: u64) {
        rows.lines.prefetch(picked);
    }
    #[inline(always)]
    fn left<L: Lanes>(rows: &Rows, lanes: L, picked: u64) -> L::Row {
        let mut left = lanes.ones();
        for (i, rows) in rows.lines.0.iter().enumerate() {
            left = lanes.and(left, &rows[value_of(picked, i)]);
        }
        left
    }
}

impl Span for Narrow {
    #[inline(always)]
    fn prefetch(rows: &Rows, picked: u64) {
        rows.words.iter().for_each(|table| table.prefetch(picked));
    }
    #[inline(always)]
    fn left<L: Lanes>(rows: &Rows, lanes: L, picked: u64) -> L::Row {
        let Some(table) = &rows.words else { return lanes.row([0; WORDS]) };
        let mut left = [u64::MAX; WORDS];
        for (i, rows) in table.0.iter().enumerate() {
            let row = &rows[value_of(picked, i)];
            left.iter_mut().zip(row).for_each(|(left, bits)| *left &= bits);
        }
        lanes.row(left)
    }
}

impl Table<Line> {
    fn lines() -> Self {
        Self([[Line::default(); VALUES]; WINDOWS])
    }
}

impl<R> Table<R> {
    #[inline(always)]
    fn prefetch(&self, picked: u64) {
        for (i, rows) in self.0.iter().enumerate() {
            prefetch_read(&rows[value_of(picked, i)]);
        }
    }
    /// Calls `f` for the rows of all values that a rule agrees with.
    #[inline(always)]
    fn each<L: Lanes, const W: usize>(
        &mut self,
        lanes: L,
        windows: &[Window; WINDOWS],
        asks: &Asks<W>,
        mut f: impl FnMut(&mut R),
    ) {
        for (w, rows) in windows.iter().zip(&mut self.0) {
            asks.values(lanes, *w, |value| f(&mut rows[value % VALUES]));
        }
    }
}

impl Rows {
    /// Lines without any bits.
    pub(super) fn lines() -> Self {
        Self { lines: Arc::new(Table::lines()), words: None }
    }
    /// Places that they have bits for.
    pub(super) fn places(&self) -> usize {
        match self.words {
            Some(_) => FEW,
            None => PLACES,
        }
    }
    /// The bits of the first [`FEW`] places in words; what further ones have is lost.
    pub(super) fn narrow(&mut self) {
        if self.words.is_some() {
            return;
        }
        let mut words = Box::new(Table([[[0; WORDS]; VALUES]; WINDOWS]));
        let lines = self.lines.0.as_flattened();
        for (to, Line([first, second, ..])) in words.0.as_flattened_mut().iter_mut().zip(lines) {
            *to = [*first, *second];
        }
        *self = Self { lines: NONE.clone(), words: Some(words) };
    }
    /// The same bits in lines.
    pub(super) fn widen(&mut self) {
        let Some(words) = self.words.take() else { return };
        let mut lines = Table::lines();
        for (to, from) in lines.0.as_flattened_mut().iter_mut().zip(words.0.as_flattened()) {
            [to.0[0], to.0[1]] = *from;
        }
        self.lines = Arc::new(lines);
    }
    /// No place has any bits.
    pub(super) fn clear(&mut self) {
        match &mut self.words {
            Some(table) => table.0.as_flattened_mut().fill([0; WORDS]),
            None => {
                let table = Arc::make_mut(&mut self.lines);
                table.0.as_flattened_mut().fill(Line::default());
            }
        }
    }
    /// Sets or clears the bit of a place in the rows of all values that a rule agrees with.
    #[inline(always)]
    pub(super) fn mark<L: Lanes, const W: usize>(
        &mut self,
        lanes: L,
        windows: &[Window; WINDOWS],
        place: usize,
        asks: &Asks<W>,
        bits: Bits,
    ) {
        debug_assert!(place < self.places());
        let (word, bit) = (place / 64, 1u64 << (place % 64));
        match &mut self.words {
            Some(table) => {
                table.each(lanes, windows, asks, |row| bits.write(&mut row[word % WORDS], bit));
            }
            None => {
                let table = Arc::make_mut(&mut self.lines);
                table.each(lanes, windows, asks, |row| bits.write(&mut row.0[word % 8], bit));
            }
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match &self.words {
            Some(table) => size_of_val(&**table),
            None => HEAD + size_of_val(&*self.lines),
        }
    }
}
