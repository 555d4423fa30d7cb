//! The readers of `/proc`: any text.

#![no_main]

use weir_measure::cpu::{parse_process, parse_schedstat, parse_stat};

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Some(t) = parse_stat(text) {
        let _ = (t.since(&t).all.busy(), t.all.busy());
    }
    let _ = (parse_process(text), parse_schedstat(text));
});
