//! Transcripts under random and mutated bytes.
//!
//! Place: the body of the fuzz target `transcript`, run without a fuzzer over seeded inputs.

#[path = "../../../fuzz/src/mutation.rs"]
mod mutation;
#[path = "../../../fuzz/src/transcript.rs"]
mod transcript;

#[test]
fn any_text_is_a_transcript_or_refused_and_replays_come_to_an_end() {
    let inputs = mutation::cases(&transcript::valid(), 4_000, 1);
    let accepted = inputs.filter(|input| transcript::check(input)).count();
    assert!(accepted > 500, "only {accepted} inputs went deep");
}
