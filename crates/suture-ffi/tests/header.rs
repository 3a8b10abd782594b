//! The header that is kept in the repository is the one that the interface makes.
//!
//! Place: between `src/abi.rs`, which is written, and `include/suture.h`, which people read. After
//! a change of the interface, `SUTURE_BLESS=1 cargo test -p suture-ffi --test header` writes it.

use cbindgen::{
    Builder, Config, DocumentationStyle, EnumConfig, ExportConfig, FunctionConfig, Language,
    Layout, RenameRule, Style,
};
use std::path::Path;

const HEAD: &str = "\
/*
 * Suture for C and C++: erasure codes that repair a lost chunk from as few bytes as they can.
 *
 * A stripe has k data chunks and m parity chunks, equally long, counted from 0, data first. A chunk
 * is a sequence of units; a code may cut each unit into alpha equal sub-chunks, and repair a chunk
 * from some of the sub-chunks of others. The way of a repair:
 *
 *     suture_open           the code, by its name
 *     suture_repair_reads   which sub-chunks of which chunks to read
 *     (read them, wherever they are)
 *     suture_repair         the lost chunk
 *
 * The contract: pointers are null or valid for as many elements as the count or length beside them
 * says; nobody writes to a buffer during the call, and buffers to be written overlap no other. An
 * open code may be used by any number of threads at once. What a call refuses, it refuses before it
 * writes a byte. Nothing here reads files, starts threads, or throws.
 *
 * Made of crates/suture-ffi/src by the test `header`; do not edit.
 */";

fn generated() -> String {
    let renamed = [
        ("Status", "suture_status"),
        ("Handle", "suture_code"),
        ("Sizes", "suture_sizes"),
        ("Input", "suture_input"),
        ("Output", "suture_output"),
        ("Read", "suture_read"),
    ];
    let rename = renamed.map(|(from, to)| (from.to_string(), to.to_string()));
    let config = Config {
        language: Language::C,
        header: Some(HEAD.to_string()),
        include_guard: Some("SUTURE_H".to_string()),
        no_includes: true,
        sys_includes: vec!["stddef.h".to_string(), "stdint.h".to_string()],
        cpp_compat: true,
        usize_is_size_t: true,
        style: Style::Type,
        documentation_style: DocumentationStyle::C99,
        line_length: 100,
        tab_width: 4,
        export: ExportConfig { rename: rename.into_iter().collect(), ..Default::default() },
        enumeration: EnumConfig {
            rename_variants: RenameRule::QualifiedScreamingSnakeCase,
            ..Default::default()
        },
        function: FunctionConfig { args: Layout::Auto, ..Default::default() },
        ..Default::default()
    };
    let source = |file: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
    let builder = ["status.rs", "handle.rs", "abi.rs"]
        .into_iter()
        .fold(Builder::new(), |builder, file| builder.with_src(source(file)));
    let mut text = Vec::new();
    builder.with_config(config).generate().expect("an interface that C can have").write(&mut text);
    String::from_utf8(text).expect("text")
}

#[test]
fn the_header_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/suture.h");
    let generated = generated();
    if std::env::var_os("SUTURE_BLESS").is_some() {
        std::fs::write(&path, &generated).expect("a writable header");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == generated,
        "include/suture.h is stale; SUTURE_BLESS=1 cargo test -p suture-ffi --test header writes it"
    );
}
