//! Any text as a module: it is one or it is refused in one line; what it says of itself can be used.
#![no_main]
use libfuzzer_sys::fuzz_target;
use weir_measure::module::{Depth, Params};
use weir_measure::script::Script;

fuzz_target!(|text: &str| {
    match Script::read("x.rhai", text) {
        Ok(script) => {
            let params = Params::defaults(script.about(), Depth::Full).expect("they were tried");
            let _ = script.make(&params).takes();
        }
        Err(e) => assert!(!e.to_string().contains('\n'), "{e}"),
    }
});
