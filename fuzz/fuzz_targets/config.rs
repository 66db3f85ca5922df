//! Fuzzes `entries::config`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| entries::config(input));
