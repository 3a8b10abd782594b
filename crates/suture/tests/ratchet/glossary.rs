//! GLOSSARY.md against the code: one word per thing, and every module is called by one of them.

use std::collections::BTreeSet;
use std::fs;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;

use super::source::{Source, root, visit_production};

/// A table of the glossary, as the cells of its rows.
fn table(heading: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(root().join("GLOSSARY.md")).expect("the glossary");
    let section = text.split(heading).nth(1).unwrap_or_else(|| panic!("no table {heading}"));
    let rows = section.lines().skip_while(|line| !line.starts_with("|--"));
    let rows = rows.skip(1).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

/// The words that rows define: what stands in bold in the first column.
fn words() -> Vec<String> {
    let rows = ["# Glossary", "## Words of the code"].into_iter().flat_map(table);
    let bold = |row: Vec<String>| {
        row[0].split("**").skip(1).step_by(2).map(str::to_lowercase).collect::<Vec<_>>()
    };
    rows.flat_map(bold).collect()
}

#[test]
fn every_word_is_defined_once_and_used() {
    let words = words();
    let unique: BTreeSet<&String> = words.iter().collect();
    for word in &unique {
        let rows = words.iter().filter(|other| other == word).count();
        assert_eq!(rows, 1, "{word} has {rows} rows");
    }
    let text: String =
        super::source::all().iter().map(|source| source.text.to_lowercase()).collect();
    let plain = text.replace(['_', '-'], " ");
    for word in unique {
        assert!(plain.contains(&word.replace('-', " ")), "no source speaks of {word}");
    }
}

/// `crate module` of each module at the top of a crate whose name is not made of words with a row.
pub fn modules_without_a_row(sources: &[Source]) -> Vec<String> {
    let words = words();
    let parts =
        words.iter().flat_map(|word| word.split([' ', '-'])).chain(words.iter().map(|w| &**w));
    let words: BTreeSet<String> = parts.map(|word| word.replace(['-', ' '], "_")).collect();
    let has_row = |part: &str| {
        words.contains(part) || part.strip_suffix('s').is_some_and(|one| words.contains(one))
    };
    let mut found = Vec::new();
    for source in sources {
        let Some(module) = source.path.strip_suffix(".rs").filter(|path| !path.contains('/'))
        else {
            continue;
        };
        let is_said = has_row(module) || module.split('_').all(has_row);
        if !is_said && !["lib", "main", "cmd"].contains(&module) {
            found.push(format!("{} {module}", source.krate));
        }
    }
    found
}

/// `word identifiers` of each word that the glossary replaces by another and the code still has.
pub fn words_not_used_here(sources: &[Source]) -> Vec<String> {
    let parts = parts_of_identifiers(sources);
    let rows = table("## Words not used");
    let words = rows.iter().flat_map(|row| row[0].split(", "));
    let counts = words.map(|word| (count_with(word, &parts), word));
    counts.filter(|(count, _)| *count > 0).map(|(count, word)| format!("{word} {count}")).collect()
}

/// Words of that table that sentences need in their plain sense too.
const PLAIN: [&str; 7] = ["room", "say", "says", "way", "pace", "front", "look"];

/// `crate file line` of each comment that has one of the other words of that table.
pub fn words_not_written_here(sources: &[Source]) -> Vec<String> {
    let rows = table("## Words not used");
    let words = rows.iter().flat_map(|row| row[0].split(", "));
    let words: BTreeSet<&str> = words.filter(|word| !PLAIN.contains(word)).collect();
    let is_one = |part: &str| {
        let part = part.to_lowercase();
        words.contains(&*part) || part.strip_suffix('s').is_some_and(|one| words.contains(one))
    };
    let has_one = |line: &str| {
        let mut parts = line.split(|letter: char| letter != '_' && !letter.is_alphanumeric());
        line.trim_start().starts_with("//") && parts.any(is_one)
    };
    let mut found = Vec::new();
    for source in sources {
        let lines = source.text.lines().enumerate().filter(|(_, line)| has_one(line));
        found.extend(lines.map(|(at, _)| format!("{} {} {}", source.krate, source.path, at + 1)));
    }
    found
}

/// How many of the identifiers have `word`, or its plural, as one of their parts.
pub fn count_with(word: &str, identifiers: &[Vec<String>]) -> usize {
    let is_word = |part: &String| part.strip_suffix('s').unwrap_or(part) == word || part == word;
    identifiers.iter().filter(|parts| parts.iter().any(is_word)).count()
}

/// Names that the standard library gave, whatever words they have.
const STANDARD: [&str; 3] = ["pop_front", "strip_prefix", "strip_suffix"];

/// The parts of every different identifier of the sources that is our choice.
pub fn parts_of_identifiers(sources: &[Source]) -> Vec<Vec<String>> {
    let mut identifiers = BTreeSet::new();
    for source in sources {
        let mut items = Items(TokenStream::new());
        visit_production(source, &mut items);
        collect(items.0, &mut identifiers);
    }
    identifiers.retain(|identifier| !STANDARD.contains(&identifier.as_str()));
    identifiers.iter().map(|identifier| split(identifier)).collect()
}

struct Items(TokenStream);

impl<'a> syn::visit::Visit<'a> for Items {
    fn visit_item(&mut self, item: &'a syn::Item) {
        item.to_tokens(&mut self.0);
    }

    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        item.to_tokens(&mut self.0);
    }
}

fn collect(tokens: TokenStream, identifiers: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                identifiers.insert(ident.to_string());
            }
            TokenTree::Group(group) => collect(group.stream(), identifiers),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// The words of an identifier, lower case: `ReadBytes`, `read_bytes` and `READ_BYTES` are read,
/// bytes.
fn split(identifier: &str) -> Vec<String> {
    let is_constant = !identifier.contains(char::is_lowercase);
    let mut parts = vec![String::new()];
    for letter in identifier.chars() {
        if letter == '_' || letter.is_uppercase() && !is_constant {
            parts.push(String::new());
        }
        if letter != '_' {
            parts.last_mut().expect("begun with one").extend(letter.to_lowercase());
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}
