//! What `formats.md` says of versions, columns and a chunk file, against the code.

use suture_drivers::control::PROTOCOL_VERSION;
use suture_drivers::hdfs::frame::PROTOCOL;
use suture_drivers::label::StripeLabel;
use suture_drivers::metadata::Incomplete;
use suture_drivers::metadata::schema::{self, SCHEMA_VERSION};
use suture_drivers::store::layout::{FOOTER_BYTES, Footer, Version};
use suture_repair::label::Label;
use suture_repair::{plan, transcript, wire};

use super::page;

/// The second cell of each row of a table, by the first one.
fn cell<'a>(text: &'a str, first: &str) -> &'a str {
    let begins = format!("| {first} | ");
    let row = text.lines().find_map(|line| line.strip_prefix(&begins));
    let row = row.unwrap_or_else(|| panic!("formats.md has no row '{first}'"));
    row.split(" |").next().unwrap()
}

#[test]
fn the_versions_of_formats_are_those_of_the_code() {
    let text = page("formats.md");
    let chunk_file = (Version::CURRENT as u32).to_string();
    let frames = (wire::Version::CURRENT as u16).to_string();
    for (format, version) in [
        ("chunk file", &*chunk_file),
        ("metadata, and their backups", &SCHEMA_VERSION.to_string()),
        ("frames of the data plane", &frames),
        ("control plane", &PROTOCOL_VERSION.to_string()),
        ("frames of HDFS's plugin", PROTOCOL),
        ("transcript", transcript::FORMAT),
        ("repair plan", plan::json::FORMAT),
    ] {
        assert_eq!(cell(&text, format), version, "{format}");
    }
}

#[test]
fn every_column_of_the_metadata_is_told_of() {
    let text = page("formats.md");
    let folder = tempfile::tempdir().unwrap();
    let database = schema::open(folder.path(), Incomplete::Refuse).unwrap();
    let list = |query: &str| -> String {
        database.connection.query_row(query, [], |row| row.get(0)).unwrap()
    };
    let tables = list("SELECT group_concat(name) FROM sqlite_schema WHERE type = 'table'");
    assert!(tables.split(',').count() > 4, "{tables}");
    for table in tables.split(',') {
        let row = cell(&text, &format!("`{table}`"));
        let columns = list(&format!("SELECT group_concat(name) FROM pragma_table_info('{table}')"));
        for column in columns.split(',') {
            assert!(row.contains(&format!("`{column}`")), "{table} has a column {column}");
        }
    }
}

#[test]
fn the_sample_of_a_chunk_file_is_one() {
    let text = page("formats.md");
    let lines = text.lines().filter_map(|line| line.strip_prefix("00000")?.split_once(": "));
    let hex: String = lines.flat_map(|(_, rest)| rest[..39].split_whitespace()).collect();
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
    let (before, footer) = bytes.split_last_chunk::<{ FOOTER_BYTES as usize }>().unwrap();
    let footer = Footer::decode(footer).unwrap();
    assert_eq!((footer.bytes, footer.blocks(), footer.copy.chunk.0), (3008, 1, 2));
    assert_eq!((footer.table_at(0), footer.label_at()), (0xbc0, 0xbc4));
    assert_eq!(footer.footer_at(), 0xc06);
    // Of one block, whose checksum is the whole chunk's.
    assert_eq!(before[..4], footer.crc.to_le_bytes());
    assert_eq!(before.len(), 4 + footer.label.bytes as usize);
    let label = StripeLabel::decode(&Label::new(&before[4..]).unwrap()).unwrap();
    assert_eq!((&*label.object, &*label.code.to_string()), ("photo", "rs(3,2)"));
    assert_eq!(label.crcs[2], footer.crc);
}
