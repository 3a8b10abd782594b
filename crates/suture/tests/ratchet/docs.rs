//! Public documents say what may fail, and say something.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};

use super::source::{Source, doc, is_test, visit_production};

/// A document of so few words repeats the name beside it.
const BRIEF_WORDS_MAX: usize = 3;

/// `crate file function` of each public function that gives a `Result` and has no `# Errors`.
pub fn results_without_errors(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        let mut docs = Docs::default();
        visit_production(source, &mut docs);
        let names = docs.silent_results.into_iter();
        found.extend(names.map(|name| format!("{} {} {name}", source.krate, source.path)));
    }
    found
}

/// `crate documents` of each crate with documents of at most three words. What the binary's
/// commands say of their arguments is help, which is brief.
pub fn brief_docs(sources: &[Source]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let is_help = |source: &&Source| source.krate == "suture" && source.path.starts_with("cmd/");
    for source in sources.iter().filter(|source| !is_help(source)) {
        let lines: Vec<&str> = source.text.lines().map(str::trim_start).collect();
        let docs = lines.chunk_by(|a, b| a.starts_with("///") && b.starts_with("///"));
        let words = docs.filter(|lines| lines[0].starts_with("///")).map(|lines| {
            lines.iter().map(|line| line[3..].split_whitespace().count()).sum::<usize>()
        });
        let brief = words.filter(|words| (1..=BRIEF_WORDS_MAX).contains(words)).count();
        if brief > 0 {
            *counts.entry(&source.krate).or_default() += brief;
        }
    }
    counts.into_iter().map(|(krate, count)| format!("{krate} {count}")).collect()
}

#[derive(Default)]
struct Docs {
    silent_results: Vec<String>,
}

impl Docs {
    fn function(&mut self, is_public: bool, attributes: &[syn::Attribute], what: &syn::Signature) {
        let syn::ReturnType::Type(_, gives) = &what.output else { return };
        let syn::Type::Path(gives) = &**gives else { return };
        let is_result = gives.path.segments.last().is_some_and(|last| last.ident == "Result");
        if is_public && is_result && !doc(attributes).iter().any(|line| line == "# Errors") {
            self.silent_results.push(what.ident.to_string());
        }
    }
}

fn is_public(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Public(_))
}

impl<'a> Visit<'a> for Docs {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.function(is_public(&item.vis), &item.attrs, &item.sig);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.function(is_public(&item.vis), &item.attrs, &item.sig);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_trait(&mut self, item: &'a syn::ItemTrait) {
        for method in &item.items {
            if let syn::TraitItem::Fn(method) = method {
                self.function(is_public(&item.vis), &method.attrs, &method.sig);
            }
        }
    }
}
