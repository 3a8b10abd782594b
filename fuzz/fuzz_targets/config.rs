//! Fuzzes configurations of daemons: `cargo +nightly fuzz run config`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    suture_fuzz::config::check(bytes);
});
