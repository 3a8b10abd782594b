//! Which commands there are, as `suture` shows them: in groups, in lines that fit, and all of them.
//!
//! Place: before a command runs, with the binary itself.

use crate::subcommands;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

/// No line is longer, where nothing folds it.
const COLUMNS_MAX: usize = 100;

/// The headings, in the order in which they are shown.
const HEADINGS: [&str; 7] = [
    "Objects:",
    "Cluster:",
    "Daemons and set-up:",
    "Files without a cluster:",
    "Plan and try:",
    "Shell:",
    "Options:",
];

/// What a command prints on stdout and stderr together, and its exit status.
fn said(args: &[&str]) -> (String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_suture")).args(args).output().unwrap();
    let both = [output.stdout, output.stderr].concat();
    (String::from_utf8(both).unwrap(), output.status.code())
}

#[test]
fn however_help_is_asked_for_it_shows_the_same_groups() {
    let (help, status) = said(&["--help"]);
    assert_eq!(status, Some(0), "{help}");
    let is_heading = |line: &&str| line.ends_with(':') && !line.starts_with(' ');
    assert_eq!(help.lines().filter(is_heading).collect::<Vec<_>>(), HEADINGS, "{help}");
    assert_eq!(said(&["-h"]), (help.clone(), Some(0)));
    assert_eq!(said(&["help"]), (help.clone(), Some(0)));
    // Without a command it is an error, and goes where errors go.
    assert_eq!(said(&[]), (help.clone(), Some(2)));
    let objects = help.split("Objects:\n").nth(1).and_then(|rest| rest.split("\n\n").next());
    let names = objects.unwrap().lines().filter_map(|line| line.split_whitespace().next());
    assert_eq!(names.collect::<Vec<_>>(), ["put", "get", "ls", "stat", "rm"]);
}

#[test]
fn what_commands_do_begins_in_one_column_and_fits() {
    let (help, _) = said(&["--help"]);
    for line in help.lines() {
        assert!(line.chars().count() <= COLUMNS_MAX, "{line}");
    }
    let commands = subcommands::listed(&help);
    assert!(commands.len() > 30, "{commands:?}");
    let column = 2 + commands.iter().map(String::len).max().unwrap();
    for name in commands {
        let line = help.lines().find(|line| line.starts_with(&format!("  {name} "))).unwrap();
        let (before, does) = line.split_at(column);
        assert_eq!(before.trim(), name, "{line}");
        let does = does.strip_prefix("  ").unwrap_or_else(|| panic!("it leaves no blanks: {line}"));
        assert!(does.starts_with(char::is_uppercase), "{line}");
    }
}

#[test]
fn manual_pages_and_completions_have_the_commands_of_all_groups() {
    let commands = subcommands::listed(&said(&["--help"]).0);
    let unique: BTreeSet<&String> = commands.iter().collect();
    assert_eq!(unique.len(), commands.len(), "{commands:?}");
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(said(&["man", folder.path().to_str().unwrap()]).1, Some(0));
    let manual = fs::read_to_string(folder.path().join("suture.1")).unwrap();
    let (completions, _) = said(&["completions", "bash"]);
    for name in commands {
        // A page has a hyphen of its own in names.
        assert!(manual.contains(&format!("suture\\-{name}(1)")), "{name}: {manual}");
        assert!(folder.path().join(format!("suture-{name}.1")).is_file(), "{name}");
        assert!(completions.contains(&format!("suture,{name})")), "{name}");
    }
}
