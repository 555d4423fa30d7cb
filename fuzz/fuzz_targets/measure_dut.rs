//! A device under test: any bytes, frames and times. What must hold is in weir-measure's `tests/dut_exercise`.

#![no_main]

#[path = "../../crates/weir-measure/tests/dut_exercise/mod.rs"]
mod dut_exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| dut_exercise::script(bytes));
