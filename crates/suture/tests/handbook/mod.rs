//! The handbook in `docs/`: every page is in it, every link leads somewhere, its commands work, and
//! what it says of the configuration and of formats is what the code says.
//!
//! `SUTURE_BLESS=1 cargo test -p suture --test suite handbook::configuration` writes the page of the
//! configuration anew.
#![forbid(unsafe_code)]

mod commands;
mod configuration;
mod fences;
mod formats;
mod session;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fences::Fence;

/// Pages whose boxes are not looked at: they are written by programs, or are about the tests.
const UNMARKED: [&str; 2] = ["mutants.md", "reproduction.md"];

/// What a box may be. Only `sh` is run.
const KINDS: [&str; 7] = ["sh", "sh,not-run", "toml", "ini", "xml", "json", "text"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// The text of a page.
fn page(name: &str) -> String {
    read(&root().join("docs").join(name))
}

/// Where links of a text lead, in order.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// The pages in the order of the book.
fn pages() -> Vec<String> {
    links(&page("SUMMARY.md")).map(str::to_owned).collect()
}

/// What follows `#` in a link to a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[test]
fn every_page_is_in_the_summary_once() {
    let listed = pages();
    let unique: BTreeSet<&str> = listed.iter().map(String::as_str).collect();
    assert_eq!(unique.len(), listed.len(), "a page is there twice: {listed:?}");
    let folder = fs::read_dir(root().join("docs")).expect("the pages");
    let mut names: Vec<String> =
        folder.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.ends_with(".md") && name != "SUMMARY.md");
    for name in &names {
        assert!(unique.contains(name.as_str()), "{name} is not in docs/SUMMARY.md");
    }
    for name in unique {
        assert!(names.iter().any(|page| page == name), "docs/SUMMARY.md names {name}");
    }
}

#[test]
fn every_link_leads_somewhere_within_the_book() {
    for name in pages() {
        let text = page(&name);
        for link in links(&text).filter(|link| !link.starts_with("http")) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let to = if file.is_empty() { name.as_str() } else { file };
            let is_there = !to.starts_with("..") && root().join("docs").join(to).exists();
            assert!(is_there, "{name} links to {link}, which a book does not have");
            let target = if to.ends_with(".md") { page(to) } else { String::new() };
            let mut headings = target
                .lines()
                .filter(|line| line.starts_with('#'))
                .map(|line| line.trim_start_matches('#'));
            let has_heading = heading.is_empty() || headings.any(|line| anchor(line) == heading);
            assert!(has_heading, "{name} links to {link}, and {to} has no such heading");
        }
    }
}

#[test]
fn every_box_says_what_it_is() {
    for name in pages().iter().filter(|name| !UNMARKED.contains(&name.as_str())) {
        for Fence { line, kind, .. } in fences::of(name, &page(name)) {
            let what = "sh is run, sh,not-run is not";
            assert!(
                KINDS.contains(&kind.as_str()),
                "{name}:{line} is of no kind ({what}): '{kind}'"
            );
        }
    }
}

#[test]
fn the_glossary_is_included_and_not_copied() {
    assert_eq!(page("glossary.md"), "{{#include ../GLOSSARY.md}}\n");
    assert!(
        links(&read(&root().join("GLOSSARY.md"))).next().is_none(),
        "they would lead elsewhere"
    );
}
