//! All integration tests of this crate in one program: one to link, and tests that wait do so
//! side by side. `cargo test -p suture-repair NAME` runs the file NAME.

mod agent;
mod around;
mod attempts;
mod bound;
mod common;
mod coordinator;
mod copies;
mod corners;
mod cut_off;
mod directives;
mod estimate;
mod flow;
mod going_on;
#[path = "common/host.rs"]
mod host;
mod intents;
mod keeping;
mod local;
mod losses;
mod lost_helpers;
#[path = "common/lp.rs"]
mod lp;
mod lru;
mod mix;
mod moving;
mod odd;
mod older_metadata;
mod optimum;
mod own_bound;
mod planning;
mod plans;
mod policies;
mod preview;
mod processors;
mod proofs;
mod racks;
mod rebalance;
mod recalled;
mod repair_bound;
mod scrub;
mod split;
#[path = "common/story.rs"]
mod story;
mod stripe;
mod throttle;
mod transcripts;
mod waiting;
mod work_lists;
mod zeros;
