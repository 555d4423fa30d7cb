//! A sliced switch: any messages from either side. What must hold is in weir-supervisor's `tests/slicer_exercise`.

#![no_main]

#[path = "../../crates/weir-supervisor/tests/slicer_exercise/mod.rs"]
mod slicer_exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| slicer_exercise::script(bytes));
