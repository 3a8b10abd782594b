//! Fuzzes names of codes: `cargo +nightly fuzz run code_name`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    suture_fuzz::code_name::check(bytes);
});
