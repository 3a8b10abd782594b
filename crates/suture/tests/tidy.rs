//! Rules of the code base that a test can keep: arrows, purity, file heads, sizes, links.

use crate::modules;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// No file is longer, tests included; past 600 lines without them it asks to be two
/// (CONTRIBUTING.md).
const FILE_LINES_MAX: usize = 800;

/// What each crate of the workspace may use of the others.
const ARROWS: [(&str, &[&str]); 11] = [
    ("suture-gf", &[]),
    ("suture-code", &["suture-gf"]),
    ("suture-ffi", &["suture-code", "suture-gf"]),
    ("suture-repair", &["suture-code", "suture-gf"]),
    ("suture-sim", &["suture-repair", "suture-code", "suture-gf"]),
    ("suture-edge", &[]),
    ("suture-files", &["suture-edge", "suture-code", "suture-gf"]),
    ("suture-drivers", &["suture-edge", "suture-repair", "suture-code", "suture-gf"]),
    ("suture-terminal", &["suture-edge"]),
    (
        "suture-lab",
        &[
            "suture-terminal",
            "suture-files",
            "suture-drivers",
            "suture-edge",
            "suture-sim",
            "suture-repair",
            "suture-code",
        ],
    ),
    (
        "suture",
        &[
            "suture-lab",
            "suture-terminal",
            "suture-files",
            "suture-drivers",
            "suture-edge",
            "suture-sim",
            "suture-repair",
            "suture-code",
        ],
    ),
];

/// Third-party crates that the lower crates may use. Those of the drivers, of the laboratory and
/// of the binary are listed in the workspace.
const OUTSIDERS: [(&str, &[&str]); 8] = [
    ("suture-gf", &[]),
    ("suture-code", &[]),
    ("suture-ffi", &[]),
    ("suture-repair", &["serde", "serde_json"]),
    ("suture-sim", &[]),
    ("suture-edge", &["anyhow", "crc-fast"]),
    ("suture-files", &["anyhow", "crc-fast", "rustix", "serde", "serde_json", "tempfile"]),
    (
        "suture-terminal",
        &["anyhow", "clap", "comfy-table", "indicatif", "rustix", "serde", "serde_json"],
    ),
];

/// What must not appear in the crates that decide, beside what clippy.toml forbids there.
const IMPURE: [&str; 12] = [
    "std::time",
    "std::fs",
    "std::net",
    "std::thread",
    "std::env",
    "std::process",
    "HashMap",
    "HashSet",
    "tokio",
    "tracing",
    "thread_local",
    "static mut",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

fn files(under: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(under).expect("a readable folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn sources(krate: &str) -> Vec<PathBuf> {
    files(&root().join("crates").join(krate).join("src"), ".rs")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names under `[dependencies]` of a crate's manifest.
fn dependencies(krate: &str) -> Vec<String> {
    let manifest = read(&root().join("crates").join(krate).join("Cargo.toml"));
    let table: toml::Table = manifest.parse().expect("a manifest");
    let names = table.get("dependencies").and_then(|d| d.as_table()).map(|d| d.keys().cloned());
    names.into_iter().flatten().collect()
}

#[test]
fn arrows_between_crates_go_left_only() {
    let outsiders: BTreeMap<_, _> = OUTSIDERS.into_iter().collect();
    for (krate, allowed) in ARROWS {
        for dependency in dependencies(krate) {
            let own = dependency.starts_with("suture");
            let allowed = if own { Some(&allowed) } else { outsiders.get(krate) };
            if let Some(allowed) = allowed {
                assert!(allowed.contains(&&*dependency), "{krate} must not use {dependency}");
            }
        }
    }
}

#[test]
fn modules_of_a_crate_do_not_lead_back_to_themselves() {
    let mut wrong: Vec<String> = Vec::new();
    for (krate, _) in ARROWS {
        let src = root().join("crates").join(krate).join("src");
        let cycles = modules::cycles(&modules::sibling_edges(&src, &sources(krate)));
        wrong.extend(cycles.iter().map(|cycle| format!("{krate}: {cycle:?} lead to each other")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_crates_that_decide_are_pure() {
    for path in ["suture-code", "suture-repair", "suture-sim"].into_iter().flat_map(sources) {
        let text = read(&path);
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for word in IMPURE {
                assert!(!line.contains(word), "{}: {word} in {line}", path.display());
            }
        }
    }
}

#[test]
fn the_simulator_decides_nothing_about_repairs() {
    // Which nodes help, what comes first and what runs when is for the coordinator, in every world.
    let deciding = [
        "planner::plan",
        "planner::{",
        "schedule::",
        "Schedule::",
        "Scheduler",
        "Balance::",
        "Shape::",
        "Queue::",
    ];
    for path in sources("suture-sim") {
        let text = read(&path);
        for word in deciding {
            assert!(!text.contains(word), "{}: {word}", path.display());
        }
    }
}

#[test]
fn only_the_kernels_and_the_border_to_c_are_unsafe() {
    let is_safe = |krate: &str| !["suture-gf", "suture-ffi"].contains(&krate);
    for (krate, _) in ARROWS.into_iter().filter(|(krate, _)| is_safe(krate)) {
        let entry = |file| root().join(format!("crates/{krate}/src/{file}"));
        for path in ["lib.rs", "main.rs"].map(entry).iter().filter(|path| path.exists()) {
            assert!(read(path).contains("#![forbid(unsafe_code)]"), "{}", path.display());
        }
    }
}

#[test]
fn every_file_begins_by_telling_what_it_is() {
    for path in ARROWS.into_iter().flat_map(|(krate, _)| sources(krate)) {
        assert!(read(&path).starts_with("//! "), "{} has no head", path.display());
    }
}

#[test]
fn every_head_says_where_its_file_stands_in_the_life_of_a_repair() {
    // Commands are typed at any time, and the heads of libraries describe all of it.
    let is_other = |path: &Path| {
        let below = path.to_string_lossy();
        let is_test = below.contains("tests/") || below.ends_with("tests.rs");
        is_test || below == "lib.rs" || below.starts_with("cmd")
    };
    for (krate, _) in ARROWS {
        let src = root().join("crates").join(krate).join("src");
        for path in sources(krate) {
            let text = read(&path);
            let mut head = text.lines().map_while(|line| line.strip_prefix("//!"));
            let says_so = head.any(|line| line.contains("Place:"));
            let below = path.strip_prefix(&src).expect("it is below");
            assert!(says_so || is_other(below), "{} has no place", path.display());
        }
    }
}

#[test]
fn no_file_is_too_long_to_hold_in_the_head() {
    for path in ARROWS.into_iter().flat_map(|(krate, _)| sources(krate)) {
        let lines = read(&path).lines().count();
        assert!(lines <= FILE_LINES_MAX, "{} has {lines} lines", path.display());
    }
}

#[test]
fn every_file_of_integration_tests_is_in_a_program() {
    // What no program has is not compiled, and fails without a word.
    for (krate, _) in ARROWS {
        let folder = root().join("crates").join(krate);
        let Ok(suite) = fs::read_to_string(folder.join("tests/suite.rs")) else { continue };
        let manifest = read(&folder.join("Cargo.toml"));
        for entry in fs::read_dir(folder.join("tests")).expect("the tests") {
            let path = entry.expect("an entry").path();
            let is_rust = path.extension().is_some_and(|end| end == "rs");
            let name = path.file_stem().expect("a name").to_string_lossy();
            let is_module = is_rust || path.join("mod.rs").exists();
            let is_in = suite.contains(&format!("\nmod {name};"))
                || manifest.contains(&format!("[[test]]\nname = \"{name}\""));
            assert!(!is_module || is_in, "{} is in no program of tests", path.display());
        }
    }
}

#[test]
fn every_dependency_has_a_reason() {
    let manifest = read(&root().join("Cargo.toml"));
    let section = manifest.split("[workspace.dependencies]").nth(1).expect("the section");
    let section = section.split("\n[").next().expect("its text");
    for line in section.lines().filter(|line| line.contains('=')) {
        let own = line.starts_with("suture-");
        assert!(own || line.contains('#'), "no reason given: {line}");
    }
}

#[test]
fn links_in_documents_lead_somewhere() {
    for document in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "GLOSSARY.md"] {
        let text = read(&root().join(document));
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let is_file = !link.starts_with("http") && !link.starts_with('#');
            assert!(!is_file || root().join(link).exists(), "{document} links to {link}");
        }
    }
}

/// Whether what stands between backticks is a path of ours; with a star, one of several.
fn is_path(code: &str) -> bool {
    let ends_as_one = [".rs", ".txt"].iter().any(|ending| code.ends_with(ending));
    ends_as_one || code.ends_with('*') && !code.contains('.')
}

/// The paths in a line of ARCHITECTURE.md, each with the names that are said to be in it, as in
/// "`a` and `b` in `x.rs`" or "`x.rs` (`c`)".
fn pointers(line: &str) -> Vec<(&str, Vec<&str>)> {
    let parts: Vec<&str> = line.split('`').collect();
    let is_name = |code: &str| code.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c));
    let (mut found, mut names): (Vec<(&str, Vec<&str>)>, Vec<&str>) = (Vec::new(), Vec::new());
    for at in (1..parts.len()).step_by(2) {
        let (before, code) = (parts[at - 1], parts[at]);
        if is_path(code) {
            let said = std::mem::take(&mut names);
            let is_said = [" in ", " of "].contains(&before);
            found.push((code, if is_said { said } else { Vec::new() }));
            continue;
        }
        if ![", ", " and "].contains(&before) {
            names.clear();
        }
        if is_name(code) {
            names.push(code);
            if before == " (" && at > 1 && is_path(parts[at - 2]) {
                found.last_mut().expect("a path stands before it").1.push(code);
            }
        }
    }
    found
}

/// Where a path in a line of ARCHITECTURE.md leads. It leaves out `crates/` and `src/`, and without
/// a crate it is of the one that the line begins with, or else of suture-repair.
fn place(line: &str, path: &str) -> PathBuf {
    let (top, crates) = (root(), root().join("crates"));
    let bold = line.strip_prefix("- **").and_then(|rest| rest.split("**").next());
    let of = bold.unwrap_or("suture-repair");
    match path.split_once('/') {
        Some((krate, rest)) if crates.join(krate).is_dir() => {
            crates.join(krate).join("src").join(rest)
        }
        Some((folder, _)) if top.join(folder).is_dir() => top.join(path),
        None if path.ends_with(".txt") => crates.join("suture-repair/testdata").join(path),
        _ if top.join(of).is_dir() => top.join(of).join(path),
        _ => crates.join(of).join("src").join(path),
    }
}

/// Whether there is such a file, or for `agent*` anything whose name begins so.
fn is_there(path: &Path) -> bool {
    let text = path.to_string_lossy();
    let Some(start) = text.strip_suffix('*') else { return path.exists() };
    let (folder, start) = start.rsplit_once('/').expect("it is below the workspace");
    let begins_so = |entry: fs::DirEntry| entry.file_name().to_string_lossy().starts_with(start);
    fs::read_dir(folder).is_ok_and(|entries| entries.flatten().any(begins_so))
}

#[test]
fn every_pointer_of_the_architecture_leads_to_what_it_names() {
    let spoken = "`a` and `b` in `x.rs` (`C::d`), `e` by `y*`";
    assert_eq!(pointers(spoken), [("x.rs", vec!["a", "b", "C::d"]), ("y*", vec![])]);
    let text = read(&root().join("ARCHITECTURE.md"));
    let (mut paths, mut functions) = (0, 0);
    for (line, (path, names)) in
        text.lines().flat_map(|l| pointers(l).into_iter().map(move |p| (l, p)))
    {
        paths += 1;
        let place = place(line, path);
        assert!(is_there(&place), "ARCHITECTURE.md names {path}, which is not there: {line}");
        for name in names {
            let source = read(&place);
            let last = name.rsplit("::").next().expect("a part");
            let is_function = !last.contains(|c: char| c.is_ascii_uppercase());
            functions += usize::from(is_function);
            let declared = [format!("fn {last}("), format!("fn {last}<")];
            let is_in = if is_function {
                declared.iter().any(|function| source.contains(function))
            } else {
                source.contains(last)
            };
            assert!(is_in, "ARCHITECTURE.md says that {name} is in {path}: {line}");
        }
    }
    assert!(paths > 250 && functions > 40, "{paths} paths and {functions} functions were found");
}

/// The names of tests in a text: words of at least three parts between backticks.
fn tests_named_in(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |word: &&str| {
        let is_of_one =
            word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        is_of_one && word.matches('_').count() > 1
    };
    text.split('`').skip(1).step_by(2).filter(is_name)
}

#[test]
fn every_claim_of_the_threat_model_names_tests_that_there_are() {
    let text = read(&root().join("docs/security.md"));
    let tests: String = files(&root().join("crates"), "rs").iter().map(|path| read(path)).collect();
    for name in tests_named_in(&text) {
        assert!(tests.contains(&format!("fn {name}(")), "there is no test {name}");
    }
    let (_, model) =
        text.split_once("| has | can | cannot | shown by |").expect("the threat model");
    let rows = model.lines().skip(2).take_while(|line| line.starts_with('|'));
    let mut count = 0;
    for row in rows {
        count += 1;
        assert!(tests_named_in(row).next().is_some(), "no test is named: {row}");
    }
    assert!(count > 5, "{count} rows");
}

#[test]
fn every_test_that_operators_are_pointed_to_is_in_its_file() {
    let text = read(&root().join("docs/operators.md"));
    let is_metric = |code: &str| code.starts_with("suture_");
    let (mut file, mut path, mut count) = (String::new(), "", 0);
    for code in text.split('`').skip(1).step_by(2) {
        if code.ends_with(".rs") {
            (file, path) = (read(&root().join("crates").join(code)), code);
        } else if !is_metric(code) && tests_named_in(&format!("`{code}`")).next().is_some() {
            count += 1;
            assert!(file.contains(&format!("fn {code}(")), "{path} has no test {code}");
        }
    }
    let is_number = |part: &str| part.starts_with('C') || part.starts_with('P');
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")).filter(|row| is_number(row));
    for row in rows.filter(|row| !row.contains("| no: ")) {
        assert!(tests_named_in(row).next().is_some(), "no test is named: {row}");
    }
    assert!(count > 90, "{count} tests are named");
}

/// Beginnings of sentences that stand behind invariants in a head and are none.
const NO_INVARIANTS: [&str; 9] = [
    "Deliberately absent",
    "Does not know",
    "Foreground traffic",
    "How far",
    "Knows nothing",
    "Nothing about it",
    "Seconds appear",
    "Traces,",
    "Where a slice",
];

/// The clauses that a file's head states as invariants.
fn stated_invariants(text: &str) -> Vec<String> {
    let head = text.lines().map_while(|line| line.strip_prefix("//!"));
    let head: Vec<&str> = head.map(str::trim).collect();
    let is_one = |sentence: &&str| !NO_INVARIANTS.iter().any(|other| sentence.starts_with(other));
    let mut clauses = Vec::new();
    for paragraph in head.split(|line| line.is_empty()) {
        let paragraph = paragraph.join(" ");
        let stated = ["Invariant: ", "Invariants: "].map(|word| paragraph.split_once(word));
        let Some((_, stated)) = stated.into_iter().flatten().next() else { continue };
        for sentence in stated.split(". ").take_while(is_one) {
            let of_sentence = sentence.trim_end_matches('.').split("; ");
            clauses.extend(of_sentence.map(str::to_owned));
        }
    }
    clauses
}

/// Where a path in docs/invariants.md leads.
fn asserting(path: &str) -> PathBuf {
    let crates = root().join("crates");
    match path.split_once('/') {
        Some(("tests", _)) => crates.join("suture-repair").join(path),
        Some(("suture-sim", rest)) => crates.join("suture-sim/src").join(rest),
        _ => crates.join("suture-repair/src").join(path),
    }
}

/// The mutants that the core declares.
fn mutants(text: &str) -> BTreeSet<&str> {
    let names = text.lines().filter_map(|line| line.trim().strip_prefix("Mutant::"));
    names.filter_map(|name| name.strip_suffix(',')).collect()
}

/// An entry of docs/invariants.md, whose assertions and mutants there are: its file, and what that
/// states.
fn invariant_entry(row: &str, mutants: &BTreeSet<&str>) -> (String, String) {
    let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").collect();
    let [file, clause, asserted, broken] = cells[..] else { panic!("no four cells: {row}") };
    let assertions = pointers(asserted);
    assert!(!assertions.is_empty(), "nothing asserts it: {row}");
    for (path, names) in assertions {
        let source = read(&asserting(path));
        assert!(!names.is_empty(), "{path} asserts it, and nobody knows where: {row}");
        for name in names {
            let is_there = ["(", "<"].iter().any(|after| {
                let begin = format!("fn {name}{after}");
                source.contains(&begin)
            });
            assert!(is_there, "{path} has no {name}: {row}");
        }
    }
    let breaking: Vec<&str> = broken.split('`').skip(1).step_by(2).collect();
    let unknown = breaking.iter().find(|name| !mutants.contains(**name));
    assert_eq!(unknown, None, "there is no such mutant: {row}");
    let is_shown = !breaking.is_empty() || tests_named_in(asserted).next().is_some();
    assert!(is_shown, "neither a mutant breaks it nor a test asserts it: {row}");
    (file.trim_matches('`').to_owned(), clause.to_owned())
}

#[test]
fn every_invariant_that_a_head_states_has_its_assertion_and_what_breaks_it() {
    let src = root().join("crates/suture-repair/src");
    let text = read(&src.join("mutant.rs"));
    let (page, mutants) = (read(&root().join("docs/invariants.md")), mutants(&text));
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let entries: Vec<(String, String)> =
        rows.map(|row| invariant_entry(row.trim_start_matches("| "), &mutants)).collect();
    let listed: BTreeSet<&(String, String)> = entries.iter().collect();
    assert_eq!(listed.len(), entries.len(), "an entry of docs/invariants.md stands there twice");

    let mut stated = BTreeSet::new();
    for path in sources("suture-repair") {
        let file = path.strip_prefix(&src).expect("it is below").to_string_lossy().into_owned();
        let of_file = stated_invariants(&read(&path)).into_iter();
        stated.extend(of_file.map(|clause| (file.clone(), clause)));
    }
    let stated: BTreeSet<&(String, String)> = stated.iter().collect();
    let missing: Vec<_> = stated.difference(&listed).collect();
    assert!(missing.is_empty(), "docs/invariants.md lacks {missing:#?}");
    let gone: Vec<_> = listed.difference(&stated).collect();
    assert!(gone.is_empty(), "no head states what docs/invariants.md says: {gone:#?}");
    for mutant in &mutants {
        assert!(page.contains(&format!("`{mutant}`")), "docs/invariants.md omits {mutant}");
    }
    assert!(entries.len() > 70 && mutants.len() > 70, "{} and {}", entries.len(), mutants.len());
}
