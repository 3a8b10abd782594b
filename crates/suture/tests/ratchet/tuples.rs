//! Shapes instead of tuples: what others pass and get has names, and parameters are not packed.

use syn::visit::{self, Visit};

use super::source::{Source, is_test, visit_production};

/// Of more values it is not clear which is which where they are read.
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

/// `crate file function` of each function of several parameters of which one is taken apart where
/// it comes in: a tuple that only keeps their number down. What belongs together has a struct, or a
/// range; the others are parameters of their own. A function of one parameter may be meant for the
/// items of an iterator, and closures are.
pub fn packed_parameters(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        let mut packed = Packed(Vec::new());
        visit_production(source, &mut packed);
        let names = packed.0.into_iter();
        found.extend(names.map(|name| format!("{} {} {name}", source.krate, source.path)));
    }
    found
}

/// The names of functions with packed parameters.
struct Packed(Vec<String>);

impl Packed {
    fn add(&mut self, signature: &syn::Signature) {
        let is_packed = |input: &syn::FnArg| match input {
            syn::FnArg::Typed(parameter) => match &*parameter.pat {
                syn::Pat::Tuple(tuple) => !tuple.elems.is_empty(),
                _ => false,
            },
            syn::FnArg::Receiver(_) => false,
        };
        if signature.inputs.len() > 1 && signature.inputs.iter().any(is_packed) {
            self.0.push(signature.ident.to_string());
        }
    }
}

impl<'a> Visit<'a> for Packed {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.add(&item.sig);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.add(&item.sig);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        self.add(&item.sig);
        visit::visit_trait_item_fn(self, item);
    }
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
