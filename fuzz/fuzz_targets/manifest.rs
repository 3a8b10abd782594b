//! Fuzzes manifests of encoded directories: `cargo +nightly fuzz run manifest`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    suture_fuzz::manifest::check(bytes);
});
