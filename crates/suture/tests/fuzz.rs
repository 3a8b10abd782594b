//! Values of the command line and files of clusters, under random and mutated bytes and those that
//! fuzzing found.
//!
//! Place: the bodies of the fuzz targets, run without a fuzzer.

#[path = "../../../fuzz/src/cluster_file.rs"]
mod cluster_file;
#[path = "../../../fuzz/src/mutation.rs"]
mod mutation;
#[path = "../../../fuzz/src/ordinary.rs"]
mod ordinary;
#[path = "../../../fuzz/src/scratch.rs"]
mod scratch;
#[path = "../../../fuzz/src/values.rs"]
mod values;

#[test]
fn whatever_is_accepted_is_a_cluster() {
    ordinary::run("cluster_file", &cluster_file::valid(), cluster_file::check, (4000, 200));
}

#[test]
fn whatever_parses_is_within_its_bounds() {
    ordinary::run("values", &values::valid(), values::check, (20_000, 500));
}
