//! The C ABI under random and mutated questions.
//!
//! Place: the body of the fuzz target `abi`, run without a fuzzer over seeded inputs.

#[path = "../../../fuzz/src/abi.rs"]
mod abi;
#[path = "../../../fuzz/src/mutation.rs"]
mod mutation;

#[test]
fn whatever_is_asked_is_answered_or_refused() {
    let inputs = mutation::cases(&abi::valid(), 20_000, 1);
    let accepted = inputs.filter(|input| abi::check(input)).count();
    assert!(accepted > 500, "only {accepted} inputs went deep");
}
