//! Where a source file can be changed in a small way, and how its text looks with all changes in
//! it, each behind a switch.
//!
//! An edit replaces a range of the text by a piece of program that does what stood there, and
//! something else when its mutant is on. Edits stand in each other as expressions do.

use std::ops::Range;

use proc_macro2::Span;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, Pat, PatGuard, ReturnType, Type, UnOp};

/// One place that changes, and the mutants that change it.
#[derive(Clone, Debug)]
pub struct Edit {
    pub range: Range<usize>,
    /// The new text. In it `$l` and `$r` are what stands in `parts`, with the edits inside of that,
    /// and `$0`, `$1` ask whether that mutant is on.
    pub template: String,
    pub parts: [Range<usize>; 2],
    /// `LINE:COLUMN in FUNCTION: WHAT` of each.
    pub mutants: Vec<String>,
}

/// All places of a file, outer ones before those in them.
pub fn find(text: &str) -> syn::Result<Vec<Edit>> {
    let mut finder = Finder { edits: Vec::new(), function: String::new() };
    finder.visit_file(&syn::parse_file(text)?);
    finder.edits.sort_by_key(|edit| (edit.range.start, usize::MAX - edit.range.end));
    Ok(finder.edits)
}

struct Finder {
    edits: Vec<Edit>,
    function: String,
}

fn range(of: &impl Spanned) -> Range<usize> {
    of.span().byte_range()
}

/// Tests, derived code and mistakes on purpose are not mutated.
fn is_skipped(attributes: &[Attribute]) -> bool {
    let is_skip = |a: &Attribute| a.path().is_ident("test") || a.path().is_ident("cfg");
    attributes.iter().any(is_skip)
}

/// A question whether a mistake of `mutant.rs` is made.
fn is_hook(expr: &Expr) -> bool {
    match expr {
        Expr::MethodCall(call) => {
            call.method == "is" && call.args.to_token_stream().to_string().starts_with("Mutant ::")
        }
        Expr::Unary(unary) => is_hook(&unary.expr),
        Expr::Paren(paren) => is_hook(&paren.expr),
        _ => false,
    }
}

fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

/// What a function may give at once, as text.
fn defaults(output: &ReturnType) -> Vec<&'static str> {
    let ReturnType::Type(_, ty) = output else { return vec![""] };
    let Type::Path(path) = &**ty else {
        return match &**ty {
            Type::Tuple(tuple) if tuple.elems.is_empty() => vec![""],
            Type::Tuple(_) | Type::Reference(_) => vec!["Default::default()"],
            _ => Vec::new(),
        };
    };
    match path.path.segments.last().map(|s| s.ident.to_string()).as_deref() {
        Some("bool") => vec!["true", "false"],
        Some("Option") => vec!["None"],
        Some("Result") => vec!["Ok(Default::default())"],
        Some("f64") => vec!["0.0", "1.0"],
        Some("u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i32" | "i64") => vec!["0", "1"],
        _ => vec!["Default::default()"],
    }
}

impl Finder {
    /// The mutants are named by what stands there instead.
    fn add(&mut self, at: Span, range: Range<usize>, new: (&str, [Range<usize>; 2]), by: &[&str]) {
        let (line, column) = (at.start().line, at.start().column + 1);
        let name = |by: &&str| format!("{line}:{column} in {}: {by}", self.function);
        let (template, parts) = (new.0.to_string(), new.1);
        let mutants = by.iter().map(name).collect();
        self.edits.push(Edit { range, template, parts, mutants });
    }

    fn body(&mut self, output: &ReturnType, block: &syn::Block) {
        let body: String = block.stmts.iter().map(|s| s.to_token_stream().to_string()).collect();
        let values = if self.function == "default" { Vec::new() } else { defaults(output) };
        for value in values {
            if body == value || (value == "Default::default()" && body.ends_with(":: new ()")) {
                continue;
            }
            let inside = block.brace_token.span.open().byte_range().end;
            let new = format!(" if $0 {{ return {value}; }}");
            let shown = if value.is_empty() { "()" } else { value };
            let by = format!("body gives {shown}");
            self.add(block.span(), inside..inside, (&new, [0..0, 0..0]), &[&by]);
        }
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        if signature.constness.is_some() || signature.ident.to_string().starts_with("assert_") {
            return;
        }
        let outer = std::mem::replace(&mut self.function, signature.ident.to_string());
        self.body(&signature.output, block);
        visit::visit_block(self, block);
        self.function = outer;
    }

    fn binary(&mut self, node: &syn::ExprBinary) {
        // By reference, since comparing takes nothing.
        let compare = |by: [&str; 2], own: &str| {
            format!(
                "(match (&($l), &($r)) {{ (left, right) => if $0 {{ left {} right }} \
                 else if $1 {{ left {} right }} else {{ left {own} right }} }})",
                by[0], by[1]
            )
        };
        let compute = |by: &str, own: &str| {
            format!(
                "(match ($l, $r) {{ (left, right) => if $0 {{ left {by} right }} \
                 else {{ left {own} right }} }})"
            )
        };
        let assign = |by: &str, own: &str| {
            format!("(match $r {{ right => if $0 {{ $l {by} right }} else {{ $l {own} right }} }})")
        };
        let logic =
            |is: &str| format!("(match $l {{ left => if left {is} $0 {{ $r }} else {{ left }} }})");
        let own = &*node.op.to_token_stream().to_string();
        let by: &[&str] = match own {
            "==" => &["!="],
            "!=" => &["=="],
            "<" => &["<=", ">="],
            "<=" => &["<", ">"],
            ">" => &[">=", "<="],
            ">=" => &[">", "<"],
            "&&" => &["||"],
            "||" => &["&&"],
            "+" => &["-"],
            "-" => &["+"],
            "*" => &["/"],
            "/" => &["*"],
            "+=" => &["-="],
            "-=" => &["+="],
            _ => return,
        };
        let template = match own {
            "==" | "!=" => format!("(($l {own} $r) != $0)"),
            "<" | "<=" | ">" | ">=" => compare([by[0], by[1]], own),
            "&&" => logic("!="),
            "||" => logic("=="),
            "+=" | "-=" => assign(by[0], own),
            _ => compute(by[0], own),
        };
        let names: Vec<String> = by.iter().map(|by| format!("{by} for {own}")).collect();
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        let parts = [range(&node.left), range(&node.right)];
        self.add(node.op.span(), range(node), (&template, parts), &names);
    }

    fn arms(&mut self, node: &syn::ExprMatch) {
        let is_wild = |arm: &syn::Arm| match &arm.pat {
            Pat::Wild(_) => true,
            Pat::Ident(name) => name.ident.to_string().starts_with(char::is_lowercase),
            _ => false,
        };
        let has_wild = node.arms.last().is_some_and(is_wild);
        for arm in &node.arms {
            let shown = arm.pat.to_token_stream().to_string();
            if let Pat::Guard(PatGuard { pat, guard, .. }) = &arm.pat {
                let shown = pat.to_token_stream().to_string();
                if !has_let(guard) && !is_hook(guard) {
                    let new = ("(($0 || ($l)) && !$1)", [range(guard), 0..0]);
                    let by = ["true", "false"].map(|by| format!("guard of {shown} is {by}"));
                    self.add(guard.span(), range(guard), new, &[&by[0], &by[1]]);
                }
            } else if has_wild && !is_wild(arm) {
                let (end, by) = (range(&arm.pat).end, format!("arm {shown} deleted"));
                self.add(arm.pat.span(), end..end, (" if !$0", [0..0, 0..0]), &[&by]);
            }
        }
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}

    fn visit_item_mod(&mut self, node: &'ast syn::ItemMod) {
        if !is_skipped(&node.attrs) {
            visit::visit_item_mod(self, node);
        }
    }

    fn visit_item_impl(&mut self, node: &'ast syn::ItemImpl) {
        let of = node.trait_.as_ref().and_then(|(path, _)| path.segments.last());
        let is_shown = of.is_some_and(|s| s.ident == "Display" || s.ident == "Debug");
        if !is_shown && !is_skipped(&node.attrs) {
            visit::visit_item_impl(self, node);
        }
    }

    fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
        if !is_skipped(&node.attrs) {
            self.function(&node.sig, &node.block);
        }
    }

    fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
        if !is_skipped(&node.attrs) {
            self.function(&node.sig, &node.block);
        }
    }

    fn visit_trait_item_fn(&mut self, node: &'ast syn::TraitItemFn) {
        if let Some(block) = &node.default {
            self.function(&node.sig, block);
        }
    }

    fn visit_expr_binary(&mut self, node: &'ast syn::ExprBinary) {
        let hook = is_hook(&node.left) || is_hook(&node.right);
        if !hook && !has_let(&node.left) && !has_let(&node.right) {
            self.binary(node);
        }
        visit::visit_expr_binary(self, node);
    }

    fn visit_expr_unary(&mut self, node: &'ast syn::ExprUnary) {
        if matches!(node.op, UnOp::Not(_)) && !is_hook(&node.expr) {
            let new = ("(($l) == $0)", [range(&node.expr), 0..0]);
            self.add(node.span(), range(node), new, &["! removed"]);
        }
        visit::visit_expr_unary(self, node);
    }

    fn visit_expr_match(&mut self, node: &'ast syn::ExprMatch) {
        self.arms(node);
        visit::visit_expr_match(self, node);
    }

    fn visit_stmt(&mut self, node: &'ast syn::Stmt) {
        if let syn::Stmt::Expr(Expr::MethodCall(call), Some(_)) = node {
            let new = ("if !$0 { $l }", [range(node), 0..0]);
            let by = format!("call of {} deleted", call.method);
            self.add(call.method.span(), range(node), new, &[&by]);
        }
        visit::visit_stmt(self, node);
    }
}
