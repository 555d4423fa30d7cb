//! The reader of `dpif-netdev/pmd-stats-show`: any text.

#![no_main]

use weir_estimate::refine::pmd;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(threads) = pmd::read(text) {
        for t in threads {
            assert!(t.cycles().is_none_or(|c| c > 0.0));
        }
    }
});
