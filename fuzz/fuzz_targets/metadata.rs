//! Fuzzes copies of the metadata: `cargo +nightly fuzz run metadata`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    suture_fuzz::metadata::check(bytes);
});
