//! Fuzzes commands of operators: `cargo +nightly fuzz run commands`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    suture_fuzz::commands::check(bytes);
});
