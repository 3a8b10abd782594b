//! Names of codes, under random and mutated bytes and those that fuzzing found.
//!
//! Place: the bodies of the fuzz targets, run without a fuzzer.

#[path = "../../../fuzz/src/code_name.rs"]
mod code_name;
#[path = "../../../fuzz/src/mutation.rs"]
mod mutation;
#[path = "../../../fuzz/src/ordinary.rs"]
mod ordinary;

#[test]
fn whatever_parses_prints_back_and_describes_itself() {
    ordinary::run("code_name", &code_name::valid(), code_name::check, (20_000, 500));
}
