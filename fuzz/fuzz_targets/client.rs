//! Fuzzes messages of clients and their answers: `cargo +nightly fuzz run client`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    suture_fuzz::client::check(bytes);
});
