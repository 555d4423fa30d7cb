//! Operations that go through all bytes of a frame: AES-128-GCM, and patterns by an automaton.
//!
//! Room: bytes. The cipher is `ring`'s, which the program has for TLS. Called by `bench`.

use super::{Memory, Pace, over};
use crate::meter::Run;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use std::hint::black_box;

/// 'crypto': so many bytes are encrypted and authenticated in place.
pub fn crypto(memory: &Memory, pace: Pace, places: u64, bytes: usize) -> Run {
    let key = UnboundKey::new(&AES_128_GCM, &[7; 16]).ok().map(LessSafeKey::new);
    let mut data = vec![0u8; black_box(bytes)];
    over(memory, pace, places, move |_, at| {
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&at.to_le_bytes());
        let nonce = Nonce::assume_unique_for_key(nonce);
        // A key of 16 bytes is one; where it were not, the tag is 0.
        let sealed = key
            .as_ref()
            .and_then(|key| key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut data).ok());
        sealed.map_or(0, |t| u64::from(t.as_ref()[0]))
    })
}

/// States of the automaton.
const STATES: usize = 16;

/// 'pattern_match': so many bytes, each of which leads from one state to the next.
pub fn patterns(memory: &Memory, pace: Pace, places: u64, bytes: usize) -> Run {
    let mut next = vec![0u8; STATES * 256];
    for (i, n) in next.iter_mut().enumerate() {
        *n = ((i * 7 + i / 256) % STATES) as u8;
    }
    let data: Vec<u8> = (0..black_box(bytes)).map(|i| (i * 131) as u8).collect();
    over(memory, pace, places, move |_, at| {
        let begin = (at as usize) % STATES;
        data.iter().fold(begin, |state, byte| {
            next.get(state * 256 + usize::from(*byte)).map_or(0, |n| usize::from(*n))
        }) as u64
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{Field, Pages};
    use std::cell::RefCell;
    use std::rc::Rc;

    #[test]
    fn bytes_are_sealed_and_searched() {
        let memory: Memory = Rc::new(RefCell::new(Field::new(4096, Pages::Small).expect("memory")));
        let tags: Vec<u64> = (1..40).map(|n| crypto(&memory, Pace::Alone, 64, 64)(n)).collect();
        assert!(tags.iter().any(|t| *t != tags[0]), "{tags:?}");
        assert!(patterns(&memory, Pace::Burst, 64, 256)(64) < STATES as u64);
    }
}
