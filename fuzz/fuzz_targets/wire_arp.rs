//! ARP: any bytes. What must hold is in weir-wire's `tests/exercise`.

#![no_main]

#[path = "../../crates/weir-wire/tests/exercise/mod.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::arp(bytes));
