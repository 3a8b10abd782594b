//! Fuzzes transcripts of coordinators and agents: `cargo +nightly fuzz run transcript`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    suture_fuzz::transcript::check(bytes);
});
