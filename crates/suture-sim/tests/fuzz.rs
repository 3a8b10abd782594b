//! Trials, under random and mutated bytes and those that fuzzing found.
//!
//! Place: the bodies of the fuzz targets, run without a fuzzer.

#[path = "../../../fuzz/src/mutation.rs"]
mod mutation;
#[path = "../../../fuzz/src/ordinary.rs"]
mod ordinary;
#[path = "../../../fuzz/src/trial.rs"]
mod trial;

#[test]
fn whatever_trial_is_read_is_written_and_read_back() {
    ordinary::run("trial", &trial::valid(), trial::check, (2000, 100));
}
