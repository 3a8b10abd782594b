//! Fuzzes the C ABI: `cargo +nightly fuzz run abi`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    suture_fuzz::abi::check(bytes);
});
