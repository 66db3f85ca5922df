//! Fuzzes `entries::splice`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| entries::splice(input));
