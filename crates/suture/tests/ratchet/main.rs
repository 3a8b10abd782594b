//! Ratchets of the code base: what today's code does not yet keep is listed, and the list only
//! ever gets shorter.
//!
//! Each rule gives its findings as lines. A finding that `exceptions.txt` does not list fails the
//! test: mend it. A listed one that is mended fails it too: `SUTURE_BLESS=1 cargo test -p suture
//! --test ratchet` takes it off the list, and refuses to add one.
#![forbid(unsafe_code)]

mod docs;
mod glossary;
mod names;
#[path = "../production/mod.rs"]
mod production;
mod sizes;
mod source;
mod tuples;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use source::Source;

/// A rule: its name in `exceptions.txt`, and what it finds wrong.
type Rule = (&'static str, fn(&[Source]) -> Vec<String>);

const RULES: [Rule; 11] = [
    ("function", sizes::long_functions),
    ("file", sizes::long_files),
    ("comment", sizes::wide_comments),
    ("type", names::types_declared_twice),
    ("tuple", tuples::long_tuples),
    ("packed", tuples::packed_parameters),
    ("errors", docs::results_without_errors),
    ("brief", docs::brief_docs),
    ("word", glossary::words_not_used_here),
    ("prose", glossary::words_not_written_here),
    ("module", glossary::modules_without_a_row),
];

fn list() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ratchet/exceptions.txt")
}

/// A finding and how often it was made.
fn counted(line: &str) -> (&str, u64) {
    let counted = line.rsplit_once(' ').and_then(|(what, count)| Some((what, count.parse().ok()?)));
    counted.unwrap_or((line, 1))
}

#[test]
fn what_is_not_kept_yet_only_gets_less() {
    let sources = source::all();
    let found: BTreeSet<String> = RULES
        .iter()
        .flat_map(|(rule, find)| {
            find(&sources).into_iter().map(move |what| format!("{rule} {what}"))
        })
        .collect();
    let text = fs::read_to_string(list()).expect("the list of exceptions");
    let listed: BTreeSet<String> = text.lines().map(str::to_owned).collect();
    let is_less = |line: &&String| {
        let (what, count) = counted(line);
        listed.iter().map(|line| counted(line)).any(|(w, c)| w == what && c > count)
    };
    let new: Vec<&String> = found.difference(&listed).filter(|line| !is_less(line)).collect();
    let mended: Vec<&String> = listed.difference(&found).collect();
    assert!(new.is_empty(), "mend these, they are not on the list of exceptions:\n{new:#?}");
    if env::var_os("SUTURE_BLESS").is_some() {
        let lines: String = found.iter().map(|line| format!("{line}\n")).collect();
        return fs::write(list(), lines).expect("the list can be written");
    }
    assert!(mended.is_empty(), "mended: take these off the list (SUTURE_BLESS=1):\n{mended:#?}");
}

#[test]
fn the_rules_see_what_they_look_for() {
    let text = format!(
        "//! The deeds.\n/// Which.\npub struct Twin;\nmod inner {{ pub struct Twin; }}\n\
         /// Does it all at once.\npub fn long(grants: u8) -> Result<(), u8> {{\n{}    Ok(())\n}}\n\
         //{}\n// |{}\npub fn pass(_: Vec<(u8, u8, u8)>) {{}}\n\
         fn pack(_: u8, (_, _): (u8, u8)) {{}}\nfn each((_, _): (u8, u8), (): ()) {{}}\n\
         fn one((_, _): (u8, u8)) {{}}\nfn none(_: (u8, u8), (): ()) {{}}\n",
        "    let _ = 1;\n".repeat(70),
        " word".repeat(20),
        " cell |".repeat(20),
    );
    let sources = [Source::parse("suture-repair", "odd_name.rs", text)];
    let found = |rule: fn(&[Source]) -> Vec<String>| rule(&sources);
    assert_eq!(found(sizes::long_functions), ["suture-repair odd_name.rs long 73"]);
    assert_eq!(found(sizes::wide_comments), ["suture-repair odd_name.rs 79"]);
    assert_eq!(found(names::types_declared_twice), ["suture-repair Twin 2"]);
    assert_eq!(found(tuples::long_tuples), ["suture-repair odd_name.rs pass"]);
    assert_eq!(
        found(tuples::packed_parameters),
        ["suture-repair odd_name.rs pack", "suture-repair odd_name.rs each"]
    );
    assert_eq!(found(docs::results_without_errors), ["suture-repair odd_name.rs long"]);
    assert_eq!(found(docs::brief_docs), ["suture-repair 1"]);
    assert_eq!(found(glossary::modules_without_a_row), ["suture-repair odd_name"]);
    assert_eq!(found(glossary::words_not_written_here), ["suture-repair odd_name.rs 1"]);
    assert_eq!(glossary::count_with("grant", &glossary::parts_of_identifiers(&sources)), 1);
}
