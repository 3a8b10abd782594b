//! Fuzzes headers of the data plane: `cargo +nightly fuzz run frame`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    suture_fuzz::frame::check(bytes);
});
