//! Names of codes under random and mutated texts.
//!
//! Place: the body of the fuzz target `code_name`, run without a fuzzer over seeded inputs.

#[path = "../../../fuzz/src/code_name.rs"]
mod code_name;
#[path = "../../../fuzz/src/mutation.rs"]
mod mutation;

#[test]
fn whatever_parses_prints_back_and_describes_itself() {
    let inputs = mutation::cases(&code_name::valid(), 20_000, 1);
    let accepted = inputs.filter(|input| code_name::check(input)).count();
    assert!(accepted > 500, "only {accepted} inputs went deep");
}
