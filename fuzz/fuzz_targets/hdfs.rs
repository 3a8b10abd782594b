//! Fuzzes what HDFS's plugins say: `cargo +nightly fuzz run hdfs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    suture_fuzz::hdfs::check(bytes);
});
