//! OpenFlow 1.0 messages: any bytes. What must hold is in weir-openflow's `tests/of10_exercise`.

#![no_main]

#[path = "../../crates/weir-openflow/tests/of10_exercise/mod.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::any_bytes(bytes));
