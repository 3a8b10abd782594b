//! Fuzzes encoded directories: `cargo +nightly fuzz run directory`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    suture_fuzz::directory::check(bytes);
});
