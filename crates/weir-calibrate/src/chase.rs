//! Latency by pointers: each load says where the next one goes, in an order that no prefetcher guesses;
//! and parallelism by several such chains at once.
//!
//! Room: loads in fields. Called by `levels`. The order is a linear congruential generator's over the
//! lines of the field, whose period is all of them (Knuth, TAOCP 2, §3.2.1.2, theorem A): it is written
//! in one pass, and needs no memory of its own.

use crate::field::{Field, Pages, SMALL, get, put};
use crate::meter::Run;
use std::cell::RefCell;
use std::rc::Rc;

/// Chains at once that can be measured.
pub const CHAINS: [usize; 7] = [1, 2, 4, 8, 12, 16, 24];

/// A field in which each line says which is next.
#[derive(Clone, Debug)]
pub struct Track {
    field: Rc<RefCell<Field>>,
    lines: u64,
    step: Step,
}

/// How far lines of a track are apart.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// Words from one to the next.
    words: u64,
    /// Words of a line, by which each is shifted against the one before, up to `turn` of them, lest all
    /// fall into the same sets.
    line: u64,
    turn: u64,
}

impl Step {
    fn place(&self, line: u64) -> u64 {
        line * self.words + line % self.turn * self.line
    }
}

/// The multiplier of the order for so many lines: one more than a multiple of 4 and of each prime
/// factor of their number, which is 2 and perhaps 3; and near the golden section, so that steps differ.
fn multiplier(lines: u64) -> u64 {
    let a = (lines as f64 * 0.618) as u64;
    (a - a % 12 + 13) % lines.max(14)
}

/// The line after one.
fn next(line: u64, lines: u64, factor: u64) -> u64 {
    // 7 has no factor in common with lines, whose factors are 2 and 3. Lines are fewer than 2^32.
    (line * factor + 7) % lines
}

impl Track {
    /// A track of so many bytes, rounded down to a power of two of lines, or three of them.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn new(bytes: usize, line_bytes: usize, pages: Pages) -> std::io::Result<Self> {
        let words = (line_bytes / crate::field::WORD) as u64;
        let step = Step { words, line: words, turn: 1 };
        Self::of(bytes / line_bytes, step, pages)
    }

    /// A track of one line in each of so many small pages: what it takes beyond as many lines in a row are
    /// translations.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn of_pages(pages: usize, line_bytes: usize) -> std::io::Result<Self> {
        let word = crate::field::WORD;
        let (words, line) = ((SMALL / word) as u64, (line_bytes / word) as u64);
        // The last line stays inside its page.
        Self::of(pages, Step { words, line, turn: words / line }, Pages::Small)
    }

    fn of(wanted: usize, step: Step, pages: Pages) -> std::io::Result<Self> {
        let lines = round(wanted.clamp(64, u32::MAX as usize) as u64);
        let mut field = Field::new((lines * step.words) as usize * crate::field::WORD, pages)?;
        let factor = multiplier(lines);
        let words = field.words();
        for line in 0..lines {
            if let Some(w) = words.get_mut(step.place(line) as usize) {
                put(w, step.place(next(line, lines, factor)));
            }
        }
        Ok(Self { field: Rc::new(RefCell::new(field)), lines, step })
    }

    /// Bytes of its lines.
    pub fn bytes(&self) -> usize {
        (self.lines * self.step.line) as usize * crate::field::WORD
    }

    /// Its lines.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Its memory, for whatever else is measured in the same pages.
    pub fn memory(&self) -> Rc<RefCell<Field>> {
        Rc::clone(&self.field)
    }

    /// Whether it is of huge pages.
    pub fn is_huge(&self) -> bool {
        self.field.borrow().is_huge()
    }

    /// Loads, so many chains of them at once; an operation is one load.
    pub fn run(&self, chains: usize) -> Run {
        match chains {
            0 | 1 => self.chains::<1>(),
            2 => self.chains::<2>(),
            3..=4 => self.chains::<4>(),
            5..=8 => self.chains::<8>(),
            9..=12 => self.chains::<12>(),
            13..=16 => self.chains::<16>(),
            _ => self.chains::<24>(),
        }
    }

    fn chains<const C: usize>(&self) -> Run {
        let mut at = [0usize; C];
        for (i, a) in at.iter_mut().enumerate() {
            // Far from each other in the order; by a few steps more, lest they have the same low bits and
            // fall into the same sets.
            let steps = self.lines / C as u64 * i as u64 + 1009 * i as u64;
            *a = self.step.place(after(steps, self.lines)) as usize;
        }
        let field = Rc::clone(&self.field);
        Box::new(move |operations| {
            let mut field = field.borrow_mut();
            let words: &[crate::field::Word] = field.words();
            let mut now = at;
            for _ in 0..operations.div_ceil(C as u64) {
                for a in &mut now {
                    *a = words.get(*a).map_or(0, get) as usize;
                }
            }
            at = now;
            now.iter().fold(0, |x, a| x ^ *a as u64)
        })
    }
}

/// The line so many steps after the first: the step is a linear map, and maps are squared.
fn after(steps: u64, lines: u64) -> u64 {
    let (mut factor, mut add) = (multiplier(lines), 7 % lines);
    let mut line = 0;
    let mut left = steps;
    while left > 0 {
        if left & 1 == 1 {
            line = (line * factor + add) % lines;
        }
        add = (add * factor + add) % lines;
        factor = factor * factor % lines;
        left >>= 1;
    }
    line
}

/// The largest power of two, or three times one, that is not above.
fn round(n: u64) -> u64 {
    let two = 1 << n.max(1).ilog2();
    let three = two / 2 * 3;
    if three <= n { three } else { two }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_met_once() {
        for wanted in [64, 100, 1 << 10, 3 << 12, 100_000] {
            let lines = round(wanted);
            let factor = multiplier(lines);
            let mut seen = vec![false; lines as usize];
            let mut at = 0;
            for _ in 0..lines {
                assert!(!std::mem::replace(&mut seen[at as usize], true), "{lines} lines");
                at = next(at, lines, factor);
            }
            assert_eq!(at, 0);
        }
    }

    #[test]
    fn a_line_of_each_page_is_met() {
        let track = Track::of_pages(200, 64).expect("memory");
        assert_eq!((track.lines(), track.bytes()), (192, 192 * 64));
        let mut run = track.run(1);
        let pages: std::collections::BTreeSet<u64> = (0..192).map(|_| run(1) / 512).collect();
        assert_eq!(pages.len(), 192);
    }

    #[test]
    fn a_run_follows_the_track() {
        let track = Track::new(1 << 14, 64, Pages::Small).expect("memory");
        let lines = track.bytes() as u64 / 64;
        let mut run = track.run(1);
        let factor = multiplier(lines);
        let third = (0..3).fold(0, |at, _| next(at, lines, factor));
        assert_eq!(run(3), third * 8);
        assert_eq!(run(lines), third * 8);
        assert_eq!(after(3, lines), third);
        for c in CHAINS {
            track.run(c)(100);
        }
    }
}
