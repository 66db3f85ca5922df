//! Fuzzes `entries::uris`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| entries::uris(input));
