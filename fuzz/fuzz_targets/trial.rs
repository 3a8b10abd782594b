//! Fuzzes trials of the swarm: `cargo +nightly fuzz run trial`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    suture_fuzz::trial::check(bytes);
});
