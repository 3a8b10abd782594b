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
use syn::{Attribute, BinOp, Expr, ReturnType, Type, UnOp};

/// A part of an edit's text.
#[derive(Clone, Debug)]
pub enum Piece {
    Text(&'static str),
    /// What stands here in the source, with the edits inside of it.
    Source(Range<usize>),
    /// Whether this mutant of the edit is on.
    Switch(usize),
}

/// One place that changes, and the mutants that change it.
#[derive(Clone, Debug)]
pub struct Edit {
    pub range: Range<usize>,
    pub pieces: Vec<Piece>,
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

/// Expands to pieces: `"text"`, a range in brackets, or a number for a switch.
macro_rules! pieces {
    ($($piece:expr),* $(,)?) => { vec![$(Piece::from($piece)),*] };
}

impl From<&'static str> for Piece {
    fn from(text: &'static str) -> Piece {
        Piece::Text(text)
    }
}

impl From<&Range<usize>> for Piece {
    fn from(range: &Range<usize>) -> Piece {
        Piece::Source(range.clone())
    }
}

impl From<usize> for Piece {
    fn from(switch: usize) -> Piece {
        Piece::Switch(switch)
    }
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
    fn add(&mut self, at: Span, range: Range<usize>, pieces: Vec<Piece>, whats: &[String]) {
        let start = at.start();
        let (line, column) = (start.line, start.column + 1);
        let name = |what: &String| format!("{line}:{column} in {}: {what}", self.function);
        let mutants = whats.iter().map(name).collect();
        self.edits.push(Edit { range, pieces, mutants });
    }

    fn body(&mut self, output: &ReturnType, block: &syn::Block) {
        let body: String = block.stmts.iter().map(|s| s.to_token_stream().to_string()).collect();
        let values = if self.function == "default" { Vec::new() } else { defaults(output) };
        for value in values {
            if body == value || (value == "Default::default()" && body.ends_with(":: new ()")) {
                continue;
            }
            let inside = block.brace_token.span.open().byte_range().end;
            let pieces = pieces![" if ", 0, " { return ", value, "; }"];
            let shown = if value.is_empty() { "()" } else { value };
            self.add(block.span(), inside..inside, pieces, &[format!("body gives {shown}")]);
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
        let (l, r) = (&range(&node.left), &range(&node.right));
        let op = node.op.to_token_stream().to_string();
        let replaced = |by: &str| format!("{by} for {op}");
        let (at, all) = (node.op.span(), range(node));
        // By reference, since comparing takes nothing.
        let compare = |whole: [&'static str; 3]| {
            pieces![
                "(match (&(",
                l,
                "), &(",
                r,
                ")) { (mutation_l, mutation_r) => if ",
                0,
                whole[0],
                " else if ",
                1,
                whole[1],
                " else ",
                whole[2],
                " })"
            ]
        };
        const LT: &str = " { mutation_l < mutation_r }";
        const LE: &str = " { mutation_l <= mutation_r }";
        const GT: &str = " { mutation_l > mutation_r }";
        const GE: &str = " { mutation_l >= mutation_r }";
        let compute = |other: &'static str, own: &'static str| {
            pieces![
                "(match (",
                l,
                ", ",
                r,
                ") { (mutation_l, mutation_r) => if ",
                0,
                " { mutation_l ",
                other,
                " mutation_r } else { mutation_l ",
                own,
                " mutation_r } })"
            ]
        };
        let assign = |other: &'static str, own: &'static str| {
            pieces![
                "(match ",
                r,
                " { mutation_r => if ",
                0,
                " { ",
                l,
                other,
                "mutation_r } else { ",
                l,
                own,
                "mutation_r } })"
            ]
        };
        let (pieces, by): (Vec<Piece>, &[&str]) = match node.op {
            BinOp::Eq(_) => (pieces!["((", l, " == ", r, ") != ", 0, ")"], &["!="]),
            BinOp::Ne(_) => (pieces!["((", l, " != ", r, ") != ", 0, ")"], &["=="]),
            BinOp::Lt(_) => (compare([LE, GE, LT]), &["<=", ">="]),
            BinOp::Le(_) => (compare([LT, GT, LE]), &["<", ">"]),
            BinOp::Gt(_) => (compare([GE, LE, GT]), &[">=", "<="]),
            BinOp::Ge(_) => (compare([GT, LT, GE]), &[">", "<"]),
            BinOp::And(_) => (
                pieces![
                    "(match ",
                    l,
                    " { mutation_l => if mutation_l != ",
                    0,
                    " { ",
                    r,
                    " } else { mutation_l } })"
                ],
                &["||"],
            ),
            BinOp::Or(_) => (
                pieces![
                    "(match ",
                    l,
                    " { mutation_l => if mutation_l == ",
                    0,
                    " { ",
                    r,
                    " } else { mutation_l } })"
                ],
                &["&&"],
            ),
            BinOp::Add(_) => (compute("-", "+"), &["-"]),
            BinOp::Sub(_) => (compute("+", "-"), &["+"]),
            BinOp::Mul(_) => (compute("/", "*"), &["/"]),
            BinOp::Div(_) => (compute("*", "/"), &["*"]),
            BinOp::AddAssign(_) => (assign(" -= ", " += "), &["-="]),
            BinOp::SubAssign(_) => (assign(" += ", " -= "), &["+="]),
            _ => return,
        };
        self.add(at, all, pieces, &by.iter().map(|by| replaced(by)).collect::<Vec<_>>());
    }

    fn arms(&mut self, node: &syn::ExprMatch) {
        let is_wild = |arm: &syn::Arm| match &arm.pat {
            syn::Pat::Wild(_) => true,
            syn::Pat::Ident(ident) => {
                ident.subpat.is_none() && ident.ident.to_string().starts_with(char::is_lowercase)
            }
            _ => false,
        };
        let has_wild = node.arms.last().is_some_and(is_wild);
        for arm in &node.arms {
            let (end, shown) = (range(&arm.pat).end, arm.pat.to_token_stream().to_string());
            match &arm.pat {
                syn::Pat::Guard(guarded) if has_let(&guarded.guard) || is_hook(&guarded.guard) => {}
                syn::Pat::Guard(guarded) => {
                    let (guard, inner) = (&guarded.guard, &range(&guarded.guard));
                    let shown = guarded.pat.to_token_stream().to_string();
                    let pieces = pieces!["((", 0, " || (", inner, ")) && !", 1, ")"];
                    let whats = ["true", "false"].map(|by| format!("guard of {shown} is {by}"));
                    self.add(guard.span(), inner.clone(), pieces, &whats);
                }
                _ if has_wild && !is_wild(arm) => {
                    let whats = [format!("arm {shown} deleted")];
                    self.add(arm.pat.span(), end..end, pieces![" if !", 0], &whats);
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_type(&mut self, _: &'ast Type) {}

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
            let pieces = pieces!["((", &range(&node.expr), ") == ", 0, ")"];
            self.add(node.span(), range(node), pieces, &["! removed".to_string()]);
        }
        visit::visit_expr_unary(self, node);
    }

    fn visit_expr_match(&mut self, node: &'ast syn::ExprMatch) {
        self.arms(node);
        visit::visit_expr_match(self, node);
    }

    fn visit_stmt(&mut self, node: &'ast syn::Stmt) {
        if let syn::Stmt::Expr(Expr::MethodCall(call), Some(_)) = node {
            let inner = &range(node);
            let pieces = pieces!["if !", 0, " { ", inner, " }"];
            let what = format!("call of {} deleted", call.method);
            self.add(call.method.span(), inner.clone(), pieces, &[what]);
        }
        visit::visit_stmt(self, node);
    }
}
