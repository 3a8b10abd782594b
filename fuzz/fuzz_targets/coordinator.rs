//! Fuzzes sessions of agents with a coordinator: `cargo +nightly fuzz run coordinator`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    suture_fuzz::coordinator::check(bytes);
});
