//! Fuzzes labels of stripes: `cargo +nightly fuzz run stripe_label`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    suture_fuzz::stripe_label::check(bytes);
});
