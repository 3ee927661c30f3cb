#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mqbridge_fuzz::security::security(input));
