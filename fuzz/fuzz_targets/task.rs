//! Fuzzes tasks of agents: `cargo +nightly fuzz run task`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    suture_fuzz::task::check(bytes);
});
