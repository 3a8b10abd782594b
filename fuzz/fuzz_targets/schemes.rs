//! Fuzzes files of trace schemes: `cargo +nightly fuzz run schemes`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    suture_fuzz::schemes::check(bytes);
});
