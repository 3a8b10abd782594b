//! Shapes instead of tuples: what others pass and get has names.

use syn::visit::{self, Visit};

use crate::source::{Source, is_test, visit_production};

/// Of more values nobody can tell which is which where they are read.
const VALUES_MAX: usize = 2;

/// `crate file function` of each function for others that takes or gives a longer tuple.
pub fn long_tuples(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        let mut signatures = Signatures(Vec::new());
        visit_production(source, &mut signatures);
        let names = signatures.0.into_iter();
        found.extend(names.map(|name| format!("{} {} {name}", source.krate, source.path)));
    }
    found
}

/// The names of functions with a long tuple in their signature.
struct Signatures(Vec<String>);

impl Signatures {
    fn add(&mut self, visibility: &syn::Visibility, signature: &syn::Signature) {
        let mut longest = Longest(0);
        longest.visit_signature(signature);
        if !matches!(visibility, syn::Visibility::Inherited) && longest.0 > VALUES_MAX {
            self.0.push(signature.ident.to_string());
        }
    }
}

impl<'a> Visit<'a> for Signatures {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.add(&item.vis, &item.sig);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.add(&item.vis, &item.sig);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_trait(&mut self, item: &'a syn::ItemTrait) {
        for method in &item.items {
            if let syn::TraitItem::Fn(method) = method {
                self.add(&item.vis, &method.sig);
            }
        }
    }
}

/// The values of the longest tuple type.
struct Longest(usize);

impl<'a> Visit<'a> for Longest {
    fn visit_type_tuple(&mut self, tuple: &'a syn::TypeTuple) {
        self.0 = self.0.max(tuple.elems.len());
        visit::visit_type_tuple(self, tuple);
    }
}
