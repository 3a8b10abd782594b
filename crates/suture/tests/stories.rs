//! The stories of `stories/`, which anyone can run, told by the program of this build.
//!
//! Place: around the whole life of a repair, with real processes and what goes wrong around them.

use std::io::Write;
use std::path::Path;
use std::process::Command;

#[test]
fn every_story_goes_well() {
    let stories = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../stories");
    let told =
        Command::new(stories.join("run")).env("SUTURE", env!("CARGO_BIN_EXE_suture")).output();
    let told = told.expect("bash is there");
    let said = String::from_utf8_lossy(&told.stdout);
    assert!(told.status.success(), "{said}{}", String::from_utf8_lossy(&told.stderr));
    for line in said.lines().filter(|line| line.contains("SKIPPED")) {
        // Past what keeps the output of tests that pass.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}
