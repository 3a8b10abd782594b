//! The stories of `stories/`, which anyone can run, with the program of this build.
//!
//! Place: around the whole life of a repair, with real processes and what goes wrong around them.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::thread::available_parallelism;

/// Stories that run at once for each core: nearly all of their time they wait for silence to mean
/// death, or for repairs of small clusters.
const STORIES_PER_CORE: usize = 2;

#[test]
fn every_story_goes_well() {
    let stories = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../stories");
    let at_once = STORIES_PER_CORE * available_parallelism().map_or(1, |cores| cores.get());
    let mut run = Command::new(stories.join("run"));
    run.args(["-j", &at_once.to_string()]).env("SUTURE", env!("CARGO_BIN_EXE_suture"));
    let told = run.output().expect("bash is there");
    let said = String::from_utf8_lossy(&told.stdout);
    assert!(told.status.success(), "{said}{}", String::from_utf8_lossy(&told.stderr));
    for line in said.lines().filter(|line| line.contains("SKIPPED")) {
        // Past what keeps the output of tests that pass.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}
