//! Fuzzes chunk files: `cargo +nightly fuzz run chunk_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    suture_fuzz::chunk_file::check(bytes);
});
