//! Fuzzes `entries::sse`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| entries::sse(input));
