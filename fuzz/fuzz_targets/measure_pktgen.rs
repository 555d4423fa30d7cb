//! What pktgen's files say and what its frames hold: any bytes.

#![no_main]

use weir_measure::engine::wire::recognise;
use weir_measure::pktgen::{Outcome, find, read};
use weir_packet::Nanos;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some(said) = read(&String::from_utf8_lossy(bytes)) {
        if let Outcome::Refused(why) = said.outcome {
            assert!(why.chars().count() <= 200 && !why.contains('\n'));
        }
    }
    if let Some(frame) = find(bytes) {
        let found = recognise(bytes, Nanos(0)).map(|f| (f.id.load, f.id.number, f.made));
        assert_eq!(found, Some((frame.load, frame.number, frame.made)));
    }
});
