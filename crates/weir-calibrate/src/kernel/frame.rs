//! Operations on frames: fields loaded and stored, checksums, copies, headers put in front.
//!
//! Room: bytes of frames in slots of [`SLOT`] words, `places` of them. Called by `bench`.

use super::{Memory, Pace, over};
use crate::field::{Word, get, put};
use crate::meter::Run;
use std::hint::black_box;

/// Words of a frame's slot: 2 KiB and a line, lest all frames' beginnings fall into the same sets.
pub const SLOT: usize = 264;
/// The word at which a frame begins: there is room in front of it.
const BEGIN: usize = 16;
/// Words of a line.
const LINE: usize = 8;

#[inline(always)]
fn slot(words: &mut [Word], at: u64) -> &mut [Word] {
    words.get_mut(at as usize * SLOT..).and_then(|w| w.get_mut(..SLOT)).unwrap_or_default()
}

#[inline(always)]
fn load(frame: &[Word], from: usize, words: usize) -> u64 {
    frame.get(from..from + words).unwrap_or_default().iter().fold(0, |x, w| x ^ get(w))
}

#[inline(always)]
fn store(frame: &mut [Word], from: usize, words: usize, value: u64) {
    for (i, w) in frame.get_mut(from..from + words).unwrap_or_default().iter_mut().enumerate() {
        put(w, value.wrapping_add(i as u64));
    }
}

/// 'parse' of `W` words.
pub fn parse<const W: usize>(memory: &Memory, pace: Pace, places: u64) -> Run {
    over(memory, pace, places, |words, at| load(slot(words, at), BEGIN, W))
}

/// 'deparse' of `W` words.
pub fn deparse<const W: usize>(memory: &Memory, pace: Pace, places: u64) -> Run {
    over(memory, pace, places, |words, at| {
        store(slot(words, at), BEGIN, W, at);
        at
    })
}

/// 'io_mem': the header's `L` lines are brought near, where a card has written the frame into the cache
/// that all cores share.
pub fn io_mem<const L: usize>(memory: &Memory, pace: Pace, places: u64) -> Run {
    over(memory, pace, places, |words, at| {
        let frame = slot(words, at);
        (0..L).fold(0, |x, l| x ^ load(frame, BEGIN + l * LINE, 1))
    })
}

/// 'mem_io': the header's `L` lines are written where a card will fetch them.
pub fn mem_io<const L: usize>(memory: &Memory, pace: Pace, places: u64) -> Run {
    over(memory, pace, places, |words, at| {
        store(slot(words, at), BEGIN, L * LINE, at);
        at
    })
}

/// 'prepend' of `W` words, in front of the frame; where it begins is noted.
pub fn prepend<const W: usize>(memory: &Memory, pace: Pace, places: u64) -> Run {
    over(memory, pace, places, |words, at| {
        let frame = slot(words, at);
        store(frame, BEGIN - W, W, at);
        if let Some(w) = frame.last_mut() {
            put(w, (BEGIN - W) as u64);
        }
        at
    })
}

/// 'strip': where a frame begins, and its length, are noted anew.
pub fn strip(memory: &Memory, pace: Pace, places: u64) -> Run {
    let bytes = black_box(4u64);
    over(memory, pace, places, move |words, at| {
        let frame = slot(words, at);
        if let [.., begin, length] = frame {
            put(begin, get(begin).wrapping_add(bytes));
            put(length, get(length).wrapping_sub(bytes));
        }
        at
    })
}

/// 'checksum' of so many bytes (RFC 1071): words of 32 bits are added in 64, then folded.
pub fn checksum(memory: &Memory, pace: Pace, places: u64, bytes: usize) -> Run {
    let bytes = black_box(bytes);
    over(memory, pace, places, move |words, at| {
        let frame = slot(words, at).get(BEGIN..).unwrap_or_default().as_flattened();
        let (fours, rest) = frame.get(..bytes).unwrap_or_default().as_chunks::<4>();
        let sum: u64 = fours.iter().map(|f| u64::from(u32::from_ne_bytes(*f))).sum();
        let rest: u64 = rest.iter().map(|b| u64::from(*b)).sum();
        folded(sum + rest)
    })
}

#[inline(always)]
fn folded(sum: u64) -> u64 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    !(((sum >> 16) + sum) & 0xffff) & 0xffff
}

/// 'inc_checksum' after `H` half words changed (RFC 1624, equation 3); the old sum is in a register.
pub fn inc_checksum<const H: usize>(memory: &Memory, pace: Pace, places: u64) -> Run {
    over(memory, pace, places, |words, at| {
        let frame = slot(words, at);
        let (old, new) = (load(frame, BEGIN, 1), load(frame, BEGIN + 1, 1));
        let mut sum = !at & 0xffff;
        for h in 0..H {
            sum += (!(old >> (16 * h)) & 0xffff) + (new >> (16 * h) & 0xffff);
        }
        folded(sum)
    })
}

/// 'copy' of so many bytes into a buffer that is near.
pub fn copy(memory: &Memory, pace: Pace, places: u64, bytes: usize) -> Run {
    let bytes = black_box(bytes);
    let mut to = vec![0u8; SLOT * 8];
    over(memory, pace, places, move |words, at| {
        let frame = slot(words, at).as_flattened();
        let from = frame.get(BEGIN * 8..BEGIN * 8 + bytes).unwrap_or_default();
        if let Some(to) = to.get_mut(..bytes) {
            to.copy_from_slice(from);
        }
        at ^ u64::from(black_box(&to).first().copied().unwrap_or(0) & 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{Field, Pages};
    use std::cell::RefCell;
    use std::rc::Rc;

    /// A frame whose bytes count from 0.
    fn memory() -> Memory {
        let mut field = Field::new(SLOT * 8, Pages::Small).expect("memory");
        for (i, b) in field.words().as_flattened_mut().iter_mut().skip(BEGIN * 8).enumerate() {
            *b = i as u8;
        }
        Rc::new(RefCell::new(field))
    }

    /// RFC 1071, as slowly as it is written.
    fn slow_checksum(bytes: &[u8]) -> u64 {
        let pair = |p: &[u8]| u64::from(u16::from_ne_bytes([p[0], p.get(1).copied().unwrap_or(0)]));
        let mut sum: u64 = bytes.chunks(2).map(pair).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !sum & 0xffff
    }

    #[test]
    fn checksums_are_right() {
        for bytes in [20, 64, 256, 1024] {
            let frame: Vec<u8> = (0..bytes).map(|i| i as u8).collect();
            assert_eq!(checksum(&memory(), Pace::Alone, 1, bytes)(1), slow_checksum(&frame));
        }
    }

    #[test]
    fn a_checksum_that_is_mended_is_that_of_the_new_bytes() {
        // The first half word, 0x0100 by little endian, becomes the ninth byte's and tenth's.
        let mut frame: Vec<u8> = (0..8).collect();
        let before = slow_checksum(&frame);
        frame[0] = 8;
        frame[1] = 9;
        let (old, new) = (u16::from_ne_bytes([0, 1]), u16::from_ne_bytes([8, 9]));
        let sum = (!before & 0xffff) + u64::from(!old) + u64::from(new);
        assert_eq!(folded(sum), slow_checksum(&frame));
        inc_checksum::<2>(&memory(), Pace::Burst, 1)(32);
    }

    #[test]
    fn copies_and_headers_are_written() {
        let memory = memory();
        copy(&memory, Pace::Burst, 1, 1500)(32);
        prepend::<2>(&memory, Pace::Alone, 1)(1);
        assert_eq!(get(&memory.borrow_mut().words()[SLOT - 1]), (BEGIN - 2) as u64);
        deparse::<2>(&memory, Pace::Alone, 1)(1);
        let words: Vec<u64> =
            memory.borrow_mut().words()[BEGIN..BEGIN + 2].iter().map(get).collect();
        assert_eq!(words, [0, 1]);
        assert_eq!(parse::<2>(&memory, Pace::Alone, 1)(1), 1);
    }
}
