//! Any bytes give a value or an error: random ones, and golden frames with a few bytes changed and
//! the front cut off at every layer, which get further in.

mod exercise;
#[path = "golden/vectors.rs"]
mod vectors;

use proptest::prelude::*;

fn every_parser(bytes: &[u8]) {
    exercise::eth(bytes);
    exercise::arp(bytes);
    exercise::ipv4(bytes);
    exercise::ipv6(bytes);
    exercise::l4(bytes);
    exercise::tunnel(bytes);
    exercise::lldp(bytes);
}

#[test]
fn golden_frames_from_every_offset() {
    for vector in vectors::all() {
        assert!(!vector.name.is_empty() && !vector.meaning.is_empty());
        for at in 0..=vector.bytes.len() {
            every_parser(&vector.bytes[at..]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        every_parser(&bytes);
    }

    #[test]
    fn mutated_frames(
        pick in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        from in prop::sample::select(vec![0usize, 12, 14, 18, 34, 42, 54]),
    ) {
        let vectors = vectors::all();
        let mut bytes = vectors[pick.index(vectors.len())].bytes.clone();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(bytes.len() - cut.index(bytes.len() / 2));
        every_parser(bytes.get(from..).unwrap_or(&[]));
    }
}
