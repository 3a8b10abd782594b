//! Manifests under random and mutated texts.
//!
//! Place: the body of the fuzz target `manifest`, run without a fuzzer over seeded inputs.

#[path = "../../../fuzz/src/manifest.rs"]
mod manifest;
#[path = "../../../fuzz/src/mutation.rs"]
mod mutation;

#[test]
fn whatever_is_read_is_written_and_read_back() {
    let inputs = mutation::cases(&manifest::valid(), 20_000, 1);
    let accepted = inputs.filter(|input| manifest::check(input)).count();
    assert!(accepted > 500, "only {accepted} inputs went deep");
}
