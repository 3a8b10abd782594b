//! Crash points: every system call on files that publishing, putting, committing, deleting,
//! scrubbing and backing up make, failed in turn.
//!
//! Place: under everything that reports that something is durable. `docs/crash-points.md` describes
//! how it works. The ordinary test hits a sample; `SUTURE_CRASH_POINTS=all` hits every point, and
//! `SUTURE_CRASH_POINTS=TEXT` every point whose row has that text.
#![forbid(unsafe_code)]

mod acts;
mod attack;
mod call;
mod cluster;
mod direct;
mod disk;
mod metadata;
mod stories;
mod table;
mod tracer;

use cluster::Victim;
use table::Table;
use tracer::Tracer;

#[test]
fn no_point_of_the_store_the_metadata_or_an_output_loses_or_publishes() {
    let Some(tracer) = Tracer::build() else { return };
    let mut table = Table::new();
    for story in &stories::STORIES {
        direct::attack(&tracer, story, &mut table);
    }
    table.finish();
}

fn no_point_of(victim: Victim) {
    let Some(tracer) = Tracer::build() else { return };
    let mut table = Table::new();
    cluster::attack(&tracer, victim, &mut table);
    table.finish();
}

#[test]
fn no_point_of_an_agent_loses_or_publishes() {
    no_point_of(Victim::Agent);
}

#[test]
fn no_point_of_a_coordinator_loses_or_publishes() {
    no_point_of(Victim::Coordinator);
}

#[test]
fn no_point_of_a_command_loses_or_publishes() {
    no_point_of(Victim::Command);
}

/// The attacked process of the stories: this program once more.
#[test]
fn attacked() {
    direct::act();
}
