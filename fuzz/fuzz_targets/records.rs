//! Fuzzes encrypted connections of the data plane: `cargo +nightly fuzz run records`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    suture_fuzz::records::check(bytes);
});
