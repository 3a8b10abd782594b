//! The table of points: what happened at each, printed as it grows, and condensed at the end.

use std::collections::BTreeMap;
use std::env;

use super::attack::{Fault, Point};

/// Which points are hit.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Choice {
    /// One fault at each kind of point, another one each time.
    Sample,
    /// All of them, or those whose row has a text.
    Every(String),
}

type Counts = BTreeMap<&'static str, u32>;

/// The columns of the condensed table.
const CLASSES: [&str; 8] =
    ["EIO", "ENOSPC", "EMFILE", "ENOMEM", "short", "crash before", "crash after", "power"];

/// What came of the points.
pub struct Table {
    choice: Choice,
    /// By story and by call: how many faults of each class.
    stories: BTreeMap<String, Counts>,
    calls: BTreeMap<String, Counts>,
    outcomes: BTreeMap<String, u32>,
    violations: Vec<String>,
}

/// Where a row belongs.
pub struct Place<'a> {
    /// What was done.
    pub story: &'a str,
    /// Which process was attacked.
    pub process: &'a str,
    /// Which of its calls it is, from 1.
    pub number: usize,
}

impl Table {
    /// An empty one, of the points that the environment chooses.
    pub fn new() -> Table {
        let choice = match env::var("SUTURE_CRASH_POINTS") {
            Err(_) => Choice::Sample,
            Ok(all) if all == "all" => Choice::Every(String::new()),
            Ok(text) => Choice::Every(text),
        };
        let (stories, calls) = (BTreeMap::new(), BTreeMap::new());
        Table { choice, stories, calls, outcomes: BTreeMap::new(), violations: Vec::new() }
    }

    /// Whether anything of a story is to be hit, as far as its name says.
    pub fn is_wanted(&self, story: &str) -> bool {
        match &self.choice {
            Choice::Every(text) => text.starts_with(story) || story.starts_with(text),
            Choice::Sample => true,
        }
    }

    /// What is hit of a story's calls, in order: the number of each, and the fault.
    pub fn chosen(&self, story: &str, points: &[Point]) -> Vec<(usize, Point, Fault)> {
        let all = points.iter().enumerate().flat_map(|(at, point)| {
            point.faults().into_iter().map(move |fault| (at + 1, point.clone(), fault))
        });
        match &self.choice {
            Choice::Every(text) => all
                .filter(|(_, point, fault)| format!("{story} {point} {fault}").contains(text))
                .collect(),
            Choice::Sample => {
                // Of each call on each kind of file one fault: of the next class each time.
                let mut sample: BTreeMap<(&str, &str), (usize, Point, Fault)> = BTreeMap::new();
                for (at, point) in points.iter().enumerate() {
                    let turn = sample.len() + story.len();
                    sample.entry((point.call, &point.role)).or_insert_with(|| {
                        let classes = by_class(point);
                        let faults = &classes[turn % classes.len()];
                        (at + 1, point.clone(), faults[turn / classes.len() % faults.len()])
                    });
                }
                let mut sample: Vec<_> = sample.into_values().collect();
                sample.sort();
                // A cluster takes a second for each.
                let every = if story.starts_with("cluster") { sample.len().div_ceil(3) } else { 1 };
                sample.into_iter().skip(every / 2).step_by(every.max(1)).collect()
            }
        }
    }

    /// Adds a row: how it came out, or what must not be.
    pub fn add(
        &mut self,
        place: &Place<'_>,
        point: &Point,
        fault: Fault,
        outcome: Result<String, String>,
    ) {
        let Place { story, process, number } = place;
        let row = format!("{story} | {process} | {number} | {point} | {fault}");
        match outcome {
            Ok(outcome) => {
                println!("{row} | {outcome}");
                *self.outcomes.entry(outcome).or_default() += 1;
            }
            Err(why) => {
                println!("{row} | VIOLATION: {why}");
                self.violations.push(format!("{row}: {why}"));
            }
        }
        let story = self.stories.entry(format!("{story} | {process}")).or_default();
        let call = self.calls.entry(point.call.to_string()).or_default();
        for counts in [story, call] {
            *counts.entry(fault.class()).or_default() += 1;
        }
    }

    /// Prints the condensed table; fails if anything was lost or published.
    pub fn finish(self) {
        print("story | process", &self.stories);
        print("call", &self.calls);
        let total: u32 = self.calls.values().flat_map(BTreeMap::values).sum();
        println!("\n{total} faults");
        for (outcome, count) in &self.outcomes {
            println!("{count} {outcome}");
        }
        println!("{} violations", self.violations.len());
        assert!(self.violations.is_empty(), "{:#?}", self.violations);
    }
}

fn print(what: &str, rows: &BTreeMap<String, Counts>) {
    println!("\n| {what} | {} |", CLASSES.join(" | "));
    for (row, counts) in rows {
        let cells = CLASSES.map(|class| counts.get(class).map_or(String::new(), u32::to_string));
        println!("| {row} | {} |", cells.join(" | "));
    }
}

/// The faults of a point, those of one class together.
fn by_class(point: &Point) -> Vec<Vec<Fault>> {
    let mut classes: Vec<Vec<Fault>> = Vec::new();
    for fault in point.faults() {
        match classes.iter_mut().find(|faults| faults[0].class() == fault.class()) {
            Some(faults) => faults.push(fault),
            None => classes.push(vec![fault]),
        }
    }
    classes
}
