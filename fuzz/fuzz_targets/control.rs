//! Fuzzes messages of the control plane: `cargo +nightly fuzz run control`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    suture_fuzz::control::check(bytes);
});
