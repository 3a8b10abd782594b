//! Fuzzes plans as JSON: `cargo +nightly fuzz run plan_json`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    suture_fuzz::plan_json::check(bytes);
});
