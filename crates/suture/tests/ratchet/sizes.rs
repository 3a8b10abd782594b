//! Functions fit a screen, files fit the head, comments fit the width of the code.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::source::{Source, visit_production};

/// A function longer than this asks to be two (TigerBeetle's limit).
const FUNCTION_LINES_MAX: usize = 70;

/// A file longer than this, without its tests, asks to be two.
const FILE_LINES_MAX: usize = 600;

/// A comment wider than this is not wrapped (rustfmt wraps code, and no comments).
const WIDTH_MAX: usize = 100;

/// `crate file function lines` of each function past the limit.
pub fn long_functions(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        let mut functions = Functions(Vec::new());
        visit_production(source, &mut functions);
        let long = functions.0.into_iter().filter(|(_, lines)| *lines > FUNCTION_LINES_MAX);
        found.extend(
            long.map(|(name, lines)| format!("{} {} {name} {lines}", source.krate, source.path)),
        );
    }
    found
}

/// `crate file lines` of each file past the limit.
pub fn long_files(sources: &[Source]) -> Vec<String> {
    let long = sources.iter().filter(|source| source.line_count() > FILE_LINES_MAX);
    long.map(|s| format!("{} {} {}", s.krate, s.path, s.line_count())).collect()
}

/// `crate file line` of each comment that is wider than code may be; rows of tables have to be.
pub fn wide_comments(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        let is_wide = |line: &str| {
            let text = line.trim_start();
            let is_row = text.trim_start_matches(['/', '!']).starts_with(" |");
            text.starts_with("//") && !is_row && line.chars().count() > WIDTH_MAX
        };
        let lines = source.text.lines().enumerate().filter(|(_, line)| is_wide(line));
        found.extend(lines.map(|(at, _)| format!("{} {} {}", source.krate, source.path, at + 1)));
    }
    found
}

struct Functions(Vec<(String, usize)>);

impl Functions {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let (first, last) = (signature.span().start().line, block.span().end().line);
        self.0.push((signature.ident.to_string(), last - first + 1));
    }
}

impl<'a> Visit<'a> for Functions {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}
