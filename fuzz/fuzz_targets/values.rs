//! Fuzzes values of the command line: `cargo +nightly fuzz run values`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    suture_fuzz::values::check(bytes);
});
