//! The sources that the ratchets look at: every file below `src`, parsed, without its tests.

use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::Visit;

/// One file.
pub struct Source {
    pub krate: String,
    /// Path below `src`, with `/`.
    pub path: String,
    pub text: String,
    pub file: syn::File,
}

impl Source {
    /// # Panics
    /// When the text is not Rust.
    pub fn parse(krate: &str, path: &str, text: String) -> Source {
        let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{krate} {path}: {error}"));
        Source { krate: krate.to_owned(), path: path.to_owned(), text, file }
    }

    /// Lines outside of its tests.
    pub fn line_count(&self) -> usize {
        crate::production::lines(&self.text).len()
    }
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

/// Every file of every crate, by crate and path.
pub fn all() -> Vec<Source> {
    let mut crates: Vec<PathBuf> = entries(&root().join("crates"));
    crates.retain(|krate| krate.join("src").is_dir());
    let mut sources = Vec::new();
    for krate in crates {
        let name = krate.file_name().expect("a folder").to_string_lossy().into_owned();
        add(&name, &krate.join("src"), "", &mut sources);
    }
    sources
}

fn add(krate: &str, folder: &Path, below: &str, sources: &mut Vec<Source>) {
    for path in entries(folder) {
        let name = path.file_name().expect("an entry").to_string_lossy();
        let below = if below.is_empty() { name.to_string() } else { format!("{below}/{name}") };
        if path.is_dir() {
            add(krate, &path, &below, sources);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = fs::read_to_string(&path).expect("a readable file");
            sources.push(Source::parse(krate, &below, text));
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = fs::read_dir(folder).expect("a readable folder");
    let mut entries: Vec<PathBuf> = read.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries
}

/// Whether an item is compiled for tests alone.
pub fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) => {
            attribute.path().is_ident("cfg") && list.tokens.to_string() == "test"
        }
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::NameValue(_) => false,
    })
}

/// The text of an item's documentation, a line each.
pub fn doc(attributes: &[syn::Attribute]) -> Vec<String> {
    let docs = attributes.iter().filter(|attribute| attribute.path().is_ident("doc"));
    docs.filter_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(syn::MetaNameValue {
            value: syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }),
            ..
        }) => Some(text.value().trim().to_owned()),
        _ => None,
    })
    .collect()
}

/// Visits the production code of a file: modules of tests are left out.
pub fn visit_production<'a>(source: &'a Source, visitor: &mut impl Visit<'a>) {
    for item in &source.file.items {
        let attributes = match item {
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            _ => {
                visitor.visit_item(item);
                continue;
            }
        };
        if !is_test(attributes) {
            visitor.visit_item(item);
        }
    }
}
