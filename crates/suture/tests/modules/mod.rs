//! Which modules of a crate name which others, read from its sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A module by its path from the crate's root, as in `["net", "connection"]`.
type Module = Vec<String>;

/// For each module the siblings that it or anything below it names. What parents and children
/// name of each other is no edge: they are one thing seen from two distances.
pub fn sibling_edges(
    src: &Path,
    sources: &[std::path::PathBuf],
) -> BTreeMap<Module, BTreeSet<Module>> {
    let files = sources.iter().map(|path| (module_of(path.strip_prefix(src).unwrap()), path));
    let files: Vec<_> =
        files.filter(|(module, _)| module.last().is_none_or(|m| m != "tests")).collect();
    let modules: BTreeSet<Module> = files.iter().map(|(module, _)| module.clone()).collect();
    let mut edges: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
    for (here, path) in &files {
        let text = fs::read_to_string(path).expect("a readable source");
        for target in named(&code_of(&text), here) {
            let shared = here.iter().zip(&target).take_while(|(a, b)| a == b).count();
            if shared == here.len() || shared == target.len() {
                continue;
            }
            let (from, to) = (here[..=shared].to_vec(), target[..=shared].to_vec());
            if modules.contains(&to) {
                edges.entry(from).or_default().insert(to);
            }
        }
    }
    edges
}

/// Sets of modules that each lead to all others of their set, ascending.
pub fn cycles(edges: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<BTreeSet<String>> {
    let reached = |from: &Module| {
        let mut seen: BTreeSet<&Module> = BTreeSet::new();
        let mut open: Vec<&Module> = edges.get(from).into_iter().flatten().collect();
        while let Some(module) = open.pop() {
            if seen.insert(module) {
                open.extend(edges.get(module).into_iter().flatten());
            }
        }
        seen
    };
    let reach: BTreeMap<&Module, BTreeSet<&Module>> =
        edges.keys().map(|module| (module, reached(module))).collect();
    let is_mutual = |a: &Module, b: &Module| {
        reach.get(b).is_some_and(|back| back.contains(a)) && reach[a].contains(b)
    };
    let on_cycle = edges.keys().filter(|module| reach[module].contains(module));
    let cycle = |module: &Module| {
        edges.keys().filter(|other| is_mutual(module, other)).map(|m| m.join("::")).collect()
    };
    on_cycle.map(cycle).collect()
}

fn module_of(path: &Path) -> Module {
    let path = path.with_extension("");
    let parts = path.iter().map(|part| part.to_string_lossy().into_owned());
    parts.filter(|part| !["lib", "main", "mod"].contains(&&**part)).collect()
}

/// The text without comments and tests.
fn code_of(text: &str) -> String {
    let lines = crate::production::lines(text).into_iter();
    lines
        .filter(|line| !line.trim_start().starts_with("//"))
        .map(|line| format!("{line}\n"))
        .collect()
}

/// Every path in `text` that begins with `crate` or `super`, from the crate's root.
fn named(text: &str, here: &Module) -> Vec<Module> {
    let mut found = Vec::new();
    for word in ["crate::", "super::"] {
        for (at, _) in text.match_indices(word) {
            let before = text[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let (mut base, mut rest) = (here.clone(), &text[at..]);
            while let Some(more) = rest.strip_prefix("super::") {
                base.pop();
                rest = more;
            }
            if let Some(more) = rest.strip_prefix("crate::") {
                (base, rest) = (Module::new(), more);
            }
            expand(base, rest, &mut found);
        }
    }
    found
}

/// Follows a path; gives what it leads to and whatever follows it. `{a, b::c}` is two paths.
fn expand<'a>(mut base: Module, mut rest: &'a str, found: &mut Vec<Module>) -> &'a str {
    loop {
        rest = rest.trim_start();
        if let Some(mut group) = rest.strip_prefix('{') {
            loop {
                group = expand(base.clone(), group, found).trim_start();
                match group.strip_prefix(',') {
                    Some(more) => group = more,
                    None => return group.strip_prefix('}').unwrap_or(group),
                }
            }
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        if end > 0 {
            base.push(rest[..end].to_string());
        }
        match rest[end..].strip_prefix("::") {
            Some(more) if end > 0 => rest = more,
            _ => {
                found.push(base);
                // `as name` says nothing about modules.
                let after = rest[end..].find([',', '}', ';']).unwrap_or(rest.len() - end);
                return &rest[end + after..];
            }
        }
    }
}

#[test]
fn paths_are_read_as_the_compiler_reads_them() {
    let here: Module = vec!["net".into(), "incoming".into()];
    let text = "use crate::{a::{b, C as D}, e};\nuse super::grants::Grants;\nlet x = super::super::f::g();";
    let named: BTreeSet<String> = named(text, &here).iter().map(|path| path.join("::")).collect();
    let expected = ["a::C", "a::b", "e", "f::g", "net::grants::Grants"];
    assert_eq!(named, expected.into_iter().map(String::from).collect());
}
