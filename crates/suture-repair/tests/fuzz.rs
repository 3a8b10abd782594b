//! Plans and transcripts, under random and mutated bytes and those that fuzzing found.
//!
//! Place: the bodies of the fuzz targets, run without a fuzzer.

#[path = "../../../fuzz/src/mutation.rs"]
mod mutation;
#[path = "../../../fuzz/src/ordinary.rs"]
mod ordinary;
#[path = "../../../fuzz/src/plan_json.rs"]
mod plan_json;
#[path = "../../../fuzz/src/transcript.rs"]
mod transcript;

#[test]
fn whatever_plan_is_valid_rebuilds_what_was_lost() {
    ordinary::run("plan_json", &plan_json::valid(), plan_json::check, (1000, 30));
}

#[test]
fn any_text_is_a_transcript_or_refused_and_replays_come_to_an_end() {
    ordinary::run("transcript", &transcript::valid(), transcript::check, (4000, 500));
}
