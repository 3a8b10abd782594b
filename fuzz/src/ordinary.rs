//! A target without a fuzzer: seeded mutations, and the kept corpus.
//!
//! Place: the ordinary tests `tests/fuzz.rs` of the crates that are examined; not a part of the
//! fuzz crate. The corpus is every input that once reached something new; a finding of the fuzzer
//! stays in it as the input that showed it.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use crate::mutation;

/// Runs so many mutations of the valid inputs, and every file of `fuzz/corpus/TARGET`, through the
/// body of the target.
///
/// # Panics
/// When the body panics, saying at which file; when it accepts no more mutations than `few`; when
/// there is no corpus.
pub fn run(
    target: &str,
    valid: &[Vec<u8>],
    check: fn(&[u8]) -> bool,
    (count, few): (usize, usize),
) {
    let accepted = mutation::cases(valid, count, 1).filter(|input| check(input)).count();
    assert!(accepted > few, "only {accepted} of {count} inputs went deep");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let shown = folder.display();
    let files = fs::read_dir(&folder).unwrap_or_else(|why| panic!("no corpus in {shown}: {why}"));
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("it is listed").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no corpus in {shown}");
    let fails = |path: &&PathBuf| {
        let bytes = fs::read(path).expect("a file of the corpus can be read");
        catch_unwind(AssertUnwindSafe(|| check(&bytes))).is_err()
    };
    let failed: Vec<&PathBuf> = paths.iter().filter(fails).collect();
    assert!(failed.is_empty(), "the body of {target} fails for {failed:#?}");
}
