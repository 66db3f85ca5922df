//! Fuzzes `entries::message`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| entries::message(input));
