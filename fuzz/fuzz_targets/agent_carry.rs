//! A switch taken to another data plane, its bytes changed on the way. What must hold is in weir-agent's
//! `tests/exercise`.

#![no_main]

#[path = "../../crates/weir-agent/tests/exercise/mod.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::carried(bytes));
