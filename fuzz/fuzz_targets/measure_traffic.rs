//! A description of traffic: any text, put on a load if it is one. Captures are not opened.

#![no_main]

use weir_measure::module::load::Source;
use weir_measure::module::traffic::Traffic;
use weir_measure::module::{Leaves, Load, LoadId};
use weir_measure::probe::Headers;
use weir_packet::Nanos;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if text.contains("capture") {
        return;
    }
    let Ok(traffic) = Traffic::read(text) else { return };
    let mut load = Load::new(0, Headers::default(), 100, 1e4).only(100);
    if traffic.put_on(&mut load, Leaves::All).is_err()
        || load.flows.len() * load.sizes.len().max(1) > 1000
    {
        return;
    }
    let Ok(mut source) = Source::new(LoadId(1), &load, Nanos(0)) else { return };
    let mut frame = Vec::new();
    while let Some(at) = source.when() {
        for _ in 0..source.due(at + Nanos(1)) {
            source.next(at, &mut frame);
        }
    }
    assert_eq!(source.built(), 100);
});
