//! Fuzzes the small files of a data directory: `cargo +nightly fuzz run data_dir`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    suture_fuzz::data_dir::check(bytes);
});
