//! Channels, and 1.0's encoding, on any bytes at any times; longer runs are the fuzz targets
//! `openflow_channel` and `openflow_10`.

#[path = "channel_exercise/mod.rs"]
mod channel_exercise;
#[path = "of10_exercise/mod.rs"]
mod of10_exercise;

use proptest::prelude::*;

/// A piece of a script that has a meaning.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let receive = |bytes: Vec<u8>| [&[0, bytes.len() as u8][..], &bytes].concat();
    let message = (0..5_u8, 0..22_u8, 8..60_u8).prop_map(|(version, kind, length)| {
        let mut bytes = vec![version, kind, 0, length];
        bytes.resize(length.into(), 0);
        bytes
    });
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        message.prop_map(receive),
        Just(receive(vec![1, 0, 0, 8, 0, 0, 0, 1])),
        Just(receive(vec![4, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0x12])),
        // An echo request, many times.
        Just(vec![5, 8, 1, 2, 0, 8, 0, 0, 0, 1]),
        Just(vec![5, 8, 4, 18, 0, 8, 0, 0, 0, 1]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn channels(head: [u8; 2], pieces in prop::collection::vec(piece(), 0..30)) {
        channel_exercise::script(&[&head[..], &pieces.concat()].concat());
    }

    #[test]
    fn messages(kind in 0..22_u8, body in prop::collection::vec(any::<u8>(), 0..200)) {
        of10_exercise::any_bytes(&[&[1, kind, 0, 0, 0, 0, 0, 0][..], &body].concat());
    }
}
