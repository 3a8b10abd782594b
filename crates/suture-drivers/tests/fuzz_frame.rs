//! Headers of the data plane under random and mutated bytes.
//!
//! Place: the body of the fuzz target `frame`, run without a fuzzer over seeded inputs.

#[path = "../../../fuzz/src/frame.rs"]
mod frame;
#[path = "../../../fuzz/src/mutation.rs"]
mod mutation;

#[test]
fn whatever_is_read_is_written_and_read_back() {
    let inputs = mutation::cases(&frame::valid(), 20_000, 1);
    let accepted = inputs.filter(|input| frame::check(input)).count();
    assert!(accepted > 500, "only {accepted} inputs went deep");
}
