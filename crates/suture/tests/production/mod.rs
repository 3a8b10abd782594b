//! Which lines of a source are compiled for more than tests.

/// The lines of `text` without the items at its margin that are compiled for tests alone, wherever
/// they stand. `rustfmt` ends an item there with its brace or its semicolon.
pub fn lines(text: &str) -> Vec<&str> {
    let (mut lines, mut is_test) = (Vec::new(), false);
    for line in text.lines() {
        is_test |= line.starts_with("#[cfg(test)]");
        if !is_test {
            lines.push(line);
        }
        let ends_at_margin = !line.starts_with(' ') && line.ends_with(';');
        is_test &= !(ends_at_margin || line.starts_with('}'));
    }
    lines
}

#[test]
fn what_stands_behind_tests_counts() {
    let text = "mod a;\n#[cfg(test)]\nmod tests;\nmod b;\n#[cfg(test)]\n#[rustfmt::skip]\nmod more {\n    \
                use super::*;\n}\nfn c() {}\n";
    assert_eq!(lines(text), ["mod a;", "mod b;", "fn c() {}"]);
}
