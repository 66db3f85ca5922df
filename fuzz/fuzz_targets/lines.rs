//! Fuzzes `entries::lines`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| entries::lines(input));
