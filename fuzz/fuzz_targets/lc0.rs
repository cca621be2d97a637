#![no_main]
#[path = "../../tests/fuzz/target_functions.rs"]
#[allow(dead_code, reason = "each program runs one target")]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::lc0(bytes));
