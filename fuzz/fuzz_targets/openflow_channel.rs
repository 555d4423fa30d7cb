//! A control channel: any bytes at any times. What must hold is in weir-openflow's `tests/channel_exercise`.

#![no_main]

#[path = "../../crates/weir-openflow/tests/channel_exercise/mod.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::script(bytes));
