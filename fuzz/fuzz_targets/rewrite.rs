//! Fuzzes `entries::rewrite`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| entries::rewrite(input));
