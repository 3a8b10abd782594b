//! Manifests, encoded directories and trace schemes, under random and mutated bytes and those that
//! fuzzing found.
//!
//! Place: the bodies of the fuzz targets, run without a fuzzer.

#[path = "../../../fuzz/src/cursor.rs"]
mod cursor;
#[path = "../../../fuzz/src/directory.rs"]
mod directory;
#[path = "../../../fuzz/src/manifest.rs"]
mod manifest;
#[path = "../../../fuzz/src/mutation.rs"]
mod mutation;
#[path = "../../../fuzz/src/ordinary.rs"]
mod ordinary;
#[path = "../../../fuzz/src/schemes.rs"]
mod schemes;
#[path = "../../../fuzz/src/scratch.rs"]
mod scratch;

#[test]
fn whatever_is_decoded_is_what_was_encoded() {
    ordinary::run("directory", &directory::valid(), directory::check, (40, 5));
}

#[test]
fn whatever_manifest_is_read_is_written_and_read_back() {
    ordinary::run("manifest", &manifest::valid(), manifest::check, (20_000, 500));
}

#[test]
fn whatever_scheme_is_accepted_prints_back() {
    ordinary::run("schemes", &schemes::valid(), schemes::check, (400, 20));
}
