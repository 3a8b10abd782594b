//! Transcripts: any text is one or is refused, and a replay of it comes to an end.
//!
//! Place: recordings of daemons and failures of the swarm, which people send each other.
//! A machine may panic at what no driver would give it, and `suture replay` reports that; reading
//! must not.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use suture_repair::time::Time;
use suture_repair::transcript::line::{LineReader, Textual};
use suture_repair::transcript::{bless, input_line, replay};
use suture_repair::{agent, event};

/// Inputs to begin with: stories of each machine.
pub fn valid() -> Vec<Vec<u8>> {
    let stories = [
        include_str!("../../crates/suture-repair/testdata/agent-continues.txt"),
        include_str!("../../crates/suture-repair/testdata/agent-copies.txt"),
        include_str!("../../crates/suture-repair/testdata/agent-failures.txt"),
        include_str!("../../crates/suture-repair/testdata/agent-gated.txt"),
        include_str!("../../crates/suture-repair/testdata/agent-relay.txt"),
        include_str!("../../crates/suture-repair/testdata/coordinator-claims.txt"),
        include_str!("../../crates/suture-repair/testdata/coordinator-commit-refused.txt"),
        include_str!("../../crates/suture-repair/testdata/coordinator-copy-adopted.txt"),
        include_str!("../../crates/suture-repair/testdata/coordinator-node-dies.txt"),
        include_str!("../../crates/suture-repair/testdata/coordinator-operator.txt"),
    ];
    stories.map(|story| story.as_bytes().to_vec()).to_vec()
}

/// Gives whether the input is a transcript that its machine survives.
///
/// # Panics
/// When an input that was read is not written and read back as the same, or what a machine did is
/// not what it does again.
pub fn check(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    for line in text.lines() {
        check_input::<agent::AgentInput>(line);
        check_input::<event::Input>(line);
    }
    let blessed = without_panics(|| bless(text));
    let Some(Ok(blessed)) = blessed else { return false };
    if let Err(why) = replay(&blessed) {
        panic!("{why}:\n{blessed}");
    }
    true
}

/// An input of a machine, after its time.
fn check_input<T: Textual>(line: &str) {
    let Some((at, input)) = read_input::<T>(line) else { return };
    let written = input_line(at, &input);
    let (at, again) = read_input::<T>(&written).unwrap_or_else(|| panic!("{written}"));
    assert_eq!(input_line(at, &again), written, "{line}");
}

fn read_input<T: Textual>(line: &str) -> Option<(Time, T)> {
    let mut line = LineReader::new(line);
    let read = (line.value().ok()?, line.value().ok()?);
    line.end().ok().map(|()| read)
}

/// What `work` gives, unless it panics, of which nobody hears.
fn without_panics<T>(work: impl FnOnce() -> T) -> Option<T> {
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let result = catch_unwind(AssertUnwindSafe(work));
    set_hook(hook);
    result.ok()
}
