//! The C ABI, under random and mutated bytes and those that fuzzing found.
//!
//! Place: the bodies of the fuzz targets, run without a fuzzer.

#[path = "../../../fuzz/src/abi.rs"]
mod abi;
#[path = "../../../fuzz/src/mutation.rs"]
mod mutation;
#[path = "../../../fuzz/src/ordinary.rs"]
mod ordinary;

#[test]
fn whatever_is_asked_is_answered_or_refused() {
    ordinary::run("abi", &abi::valid(), abi::check, (20_000, 500));
}
