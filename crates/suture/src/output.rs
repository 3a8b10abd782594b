//! Text for people or JSON for scripts.
//!
//! With `--format json` stdout holds exactly one JSON object; progress and chatter go to stderr.

use std::fmt::Display;
use std::io::{self, Write};

use clap::ValueEnum;
use comfy_table::{CellAlignment, Table, presets};

/// The `--format` of every command that prints a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table to read.
    #[default]
    Text,
    /// One JSON object and nothing else.
    Json,
}

/// Prints the one JSON object of a command, a line per field.
///
/// # Errors
/// When the report cannot be JSON.
pub fn print_json(report: &impl serde::Serialize) -> anyhow::Result<()> {
    line(serde_json::to_string_pretty(report)?);
    Ok(())
}

/// Prints a line. A reader who has seen enough, as in `suture verify DIR | head`, is no error.
pub fn line(text: impl Display) {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("suture: cannot print: {error}");
        }
        _ => (),
    }
}

/// Lines of the same kind that a person is shown before "and 7 more".
pub const LINES_MAX: usize = 20;

/// `1 stripe`, `7 stripes`.
pub fn counted(count: u64, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

/// A table without lines, for people: these columns, of which some are numbers.
pub fn table<const N: usize>(header: [&str; N], numbers: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if numbers.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Prints a table, without the blanks that end its lines.
pub fn print_table(table: &Table) {
    table.lines().for_each(|line| println!("{}", line.trim_end()));
}
