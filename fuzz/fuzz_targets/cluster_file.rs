//! Fuzzes files of simulated clusters: `cargo +nightly fuzz run cluster_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    suture_fuzz::cluster_file::check(bytes);
});
