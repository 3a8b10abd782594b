//! One name, one type: within a crate no type name is declared twice.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};

use super::source::{Source, is_test, visit_production};

/// `crate Name times` of each name that a crate declares more than once.
pub fn types_declared_twice(sources: &[Source]) -> Vec<String> {
    let mut counts: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for source in sources {
        let mut types = Types(Vec::new());
        visit_production(source, &mut types);
        for name in types.0 {
            *counts.entry((&source.krate, name)).or_default() += 1;
        }
    }
    // The commands' `Args` are distinguished by their command's module, as clap users expect.
    let twice = counts.into_iter().filter(|((_, name), count)| *count > 1 && name != "Args");
    twice.map(|((krate, name), count)| format!("{krate} {name} {count}")).collect()
}

struct Types(Vec<String>);

impl<'a> Visit<'a> for Types {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'a syn::ItemStruct) {
        self.0.push(item.ident.to_string());
    }

    fn visit_item_enum(&mut self, item: &'a syn::ItemEnum) {
        self.0.push(item.ident.to_string());
    }

    fn visit_item_trait(&mut self, item: &'a syn::ItemTrait) {
        self.0.push(item.ident.to_string());
    }

    fn visit_item_type(&mut self, item: &'a syn::ItemType) {
        self.0.push(item.ident.to_string());
    }
}
