//! Fuzzes principals and folders of credentials: `cargo +nightly fuzz run credentials`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    suture_fuzz::credentials::check(bytes);
});
