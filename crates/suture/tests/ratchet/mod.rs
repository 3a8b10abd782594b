//! Rules of the house that a compiler does not know: lengths, names, documents and words.
//!
//! Each rule gives its findings as lines, and the code base has none.
#![forbid(unsafe_code)]

mod docs;
mod glossary;
mod names;
mod sizes;
mod source;
mod tuples;

use source::Source;

/// A rule: its name, and what it finds wrong.
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

#[test]
fn every_rule_is_kept() {
    let sources = source::all();
    let found = |(rule, find): Rule| find(&sources).into_iter().map(move |one| (rule, one));
    let found: Vec<(&str, String)> = RULES.into_iter().flat_map(found).collect();
    assert!(found.is_empty(), "mend these:\n{found:#?}");
}

#[test]
fn the_rules_see_what_they_look_for() {
    let text = format!(
        "//! The deeds.\n/// Which.\npub struct Twin; const LIMIT_MAX: u8 = 1;\n\
         mod inner {{ pub struct Twin; }}\n\
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
    let parts = glossary::parts_of_identifiers(&sources);
    assert_eq!(["grant", "twin", "limit"].map(|word| glossary::count_with(word, &parts)), [1; 3]);
}
