//! Operations that compare a key with rules: one after the other, a table for each mask, a trie.
//!
//! Room: rules in memory. Called by `bench`.

use super::table::{entry, hash, key};
use super::{Memory, Pace, over};
use crate::field::get;
use crate::meter::Run;
use std::hint::black_box;

/// 'classify_linear': a key of `K` words of 64 bits with each of so many rules of `R`, twice `K`: value
/// and mask.
pub fn linear<const K: usize, const R: usize>(
    memory: &Memory,
    pace: Pace,
    places: u64,
    rules: usize,
) -> Run {
    let rules = black_box(rules);
    over(memory, pace, places, move |words, at| {
        let key = key::<K>(at);
        let all = words.as_chunks::<R>().0;
        let mut found = 0;
        for (i, rule) in all.iter().take(rules).enumerate() {
            let mut differs = 0;
            for k in 0..K {
                differs |= (key[k] ^ get(&rule[k])) & get(&rule[K + k]);
            }
            found = if differs == 0 { i as u64 } else { found };
        }
        found
    })
}

/// 'classify_tuple': for each of so many masks the key is masked and hashed, and an entry of `W` words
/// is compared with it (Srinivasan, Suri, Varghese, SIGCOMM 1999).
pub fn tuple<const K: usize, const W: usize>(
    memory: &Memory,
    pace: Pace,
    places: u64,
    masks: usize,
) -> Run {
    let all: Vec<[u64; K]> = (0..masks as u64)
        .map(|m| std::array::from_fn(|i| u64::MAX << ((m + i as u64) % 8)))
        .collect();
    // Each mask has its part of the places.
    let each = (places / masks.max(1) as u64).max(2).next_power_of_two() / 2;
    over(memory, pace, places, move |words, at| {
        let key = key::<K>(at);
        let mut found = 0;
        for (m, mask) in all.iter().enumerate() {
            let masked: [u64; K] = std::array::from_fn(|i| key[i] & mask[i]);
            let place = (hash(&masked) & (each - 1)) + m as u64 * each;
            let entry = entry::<W>(words, place);
            let differs = masked.iter().zip(entry.iter()).fold(0, |x, (k, e)| x | (k ^ get(e)));
            let value = entry.last().map_or(0, get);
            found = if differs == 0 { value } else { found ^ (differs >> 63) };
        }
        found
    })
}

/// 'classify_trie': so many nodes, each of which says where the next one is.
pub fn trie<const W: usize>(memory: &Memory, pace: Pace, places: u64, steps: usize) -> Run {
    let steps = black_box(steps);
    let mask = places.next_power_of_two() - 1;
    over(memory, pace, places, move |words, at| {
        let mut node = at;
        for step in 0..steps {
            // The key's bits, spread over all nodes as a large trie's are.
            let bits = at.wrapping_mul(2 * step as u64 + 3);
            let next = entry::<W>(words, node).first().map_or(0, get);
            node = next.wrapping_add(bits) & mask;
        }
        node
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{Field, Pages, put};
    use std::cell::RefCell;
    use std::rc::Rc;

    #[test]
    fn the_last_rule_that_matches_is_found() {
        let memory: Memory =
            Rc::new(RefCell::new(Field::new(1 << 16, Pages::Small).expect("memory")));
        // Masks of zero match anything; a rule without them, nothing.
        memory.borrow_mut().words()[..64].iter_mut().for_each(|w| put(w, 0));
        assert_eq!(linear::<2, 4>(&memory, Pace::Alone, 1, 4)(1), 3);
        put(&mut memory.borrow_mut().words()[3 * 4], 99);
        put(&mut memory.borrow_mut().words()[3 * 4 + 2], u64::MAX);
        assert_eq!(linear::<2, 4>(&memory, Pace::Alone, 1, 4)(1), 2);
        tuple::<2, 4>(&memory, Pace::Burst, 64, 8)(100);
        memory.borrow_mut().words().iter_mut().for_each(|w| put(w, 5));
        assert_eq!(trie::<1>(&memory, Pace::Alone, 1 << 10, 3)(1), 5);
    }
}
