//! Text for people or JSON for scripts.
//!
//! Place: the last step of every command that prints.
//! With `--format json` stdout holds exactly one JSON object, also where the command fails;
//! progress and chatter go to stderr.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Display;
use std::fs;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};
use serde_json::json;
use suture_edge::error::is_hidden;

pub use suture_edge::units::counted;

/// The `--format` of every command that prints a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for people to read.
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
    let fields = serde_json::to_value(report)?;
    let has_format = fields.as_object().is_none_or(|fields| fields.contains_key("format"));
    let text = if has_format {
        serde_json::to_string_pretty(report)?
    } else {
        serde_json::to_string_pretty(&WithFormat { report, format: JSON_FORMAT })?
    };
    begin_json();
    print(&text);
    Ok(())
}

/// What `format` says in every JSON object that has no format of its own: another number once
/// something is left out or means something else, and not for what is only added.
const JSON_FORMAT: &str = "suture-1";

/// A report that has no format of its own; its fields stand in their order.
#[derive(serde::Serialize)]
struct WithFormat<'a, T: serde::Serialize> {
    #[serde(flatten)]
    report: &'a T,
    format: &'static str,
}

/// Whether the one JSON object of the command is printed, or begun.
static HAS_JSON: AtomicBool = AtomicBool::new(false);

/// Notes that the one JSON object of the command is about to be printed by other means than
/// [`print_json`].
pub fn begin_json() {
    HAS_JSON.store(true, Ordering::Relaxed);
}

/// Prints why the command failed as its one JSON object: where JSON was asked for, and unless it
/// printed one already.
pub fn print_json_error(error: &str, status: u8) {
    if !HAS_JSON.load(Ordering::Relaxed) && is_json_asked(std::env::args_os()) {
        let error = one_line(error);
        let report = json!({ "error": error, "status": status, "format": JSON_FORMAT });
        print(&format!("{report:#}"));
    }
}

/// An error in one line, for scripts: without the lines of a file that it quotes for people.
pub fn one_line(error: &str) -> String {
    let is_quoted = |line: &str| {
        line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ').starts_with('|')
    };
    let lines = error.lines().map(|line| line.trim().trim_end_matches(':'));
    lines.filter(|line| !line.is_empty() && !is_quoted(line)).collect::<Vec<_>>().join(": ")
}

/// Whether `--format json` is among the arguments, or what is its name where a format is stored:
/// a command line that cannot be parsed is to be answered in JSON too.
fn is_json_asked(args: impl Iterator<Item = OsString>) -> bool {
    let args: Vec<OsString> = args.take_while(|arg| arg != "--").collect();
    ["--format", "--report"].iter().any(|option| {
        let is_pair = |pair: &[OsString]| pair[0] == *option && pair[1] == "json";
        args.windows(2).any(is_pair) || args.iter().any(|arg| *arg == *format!("{option}=json"))
    })
}

/// Prints a line to stdout, in the form of `format!`; see [`line`](crate::output::line).
#[macro_export]
macro_rules! outln {
    () => {
        $crate::output::line("")
    };
    ($($part:tt)*) => {
        $crate::output::line(format_args!($($part)*))
    };
}

/// Prints a line to stderr, in the form of `format!`. Where stderr cannot be written, as on a full
/// disk of logs, nothing is printed and everything goes on: `eprintln!` would panic.
#[macro_export]
macro_rules! errln {
    ($($part:tt)*) => {
        $crate::output::remark(format_args!($($part)*))
    };
}

/// Prints a line that must not be overlooked: red where stdout is a terminal that may have colours.
pub fn alarm(text: impl Display) {
    let text = text.to_string();
    let text = visible(&text);
    let is_red = has_colours(&io::stdout());
    print(&if is_red { format!("\x1b[31m{text}\x1b[0m") } else { text.into_owned() });
}

/// Whether a stream is a terminal that may have colours.
pub fn has_colours(stream: &impl IsTerminal) -> bool {
    let is_set = |value: OsString| !value.is_empty();
    let is_dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    stream.is_terminal() && !is_dumb && !std::env::var_os("NO_COLOR").is_some_and(is_set)
}

/// How many columns the terminal has that a stream is; none where it is something else.
pub fn terminal_columns(stream: &(impl AsFd + IsTerminal)) -> Option<u16> {
    if !stream.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(size.ws_col).filter(|columns| *columns > 0)
}

/// Whether something could not be printed that was to be.
static INCOMPLETE: AtomicBool = AtomicBool::new(false);

/// Prints a line to stdout. A reader that has seen enough, as in `suture ls | head`, is no error;
/// any other reason is named once on stderr, and [`is_complete`] is false from then on.
pub fn line(text: impl Display) {
    print(&visible(&text.to_string()));
}

/// Prints lines to stdout, of which the last is ended too; as [`line`] does.
pub fn lines(text: &str) {
    line(text.strip_suffix('\n').unwrap_or(text));
}

/// A text with characters that are not seen, or that a terminal would act on, written as
/// `\u{202e}`: the name given to an object must not pass for something else. Only ends of lines
/// and tabs are left, since texts of our own have them.
pub fn visible(text: &str) -> Cow<'_, str> {
    let text = if text.contains("\r\n") {
        Cow::Owned(text.replace("\r\n", "\n"))
    } else {
        Cow::Borrowed(text)
    };
    let is_shown = |c: char| matches!(c, '\n' | '\t') || !(c.is_control() || is_hidden(c));
    if text.chars().all(is_shown) {
        return text;
    }
    let show = |c: char| if is_shown(c) { c.to_string() } else { c.escape_unicode().to_string() };
    text.chars().map(show).collect()
}

fn print(text: &str) {
    emit(|out| writeln!(out, "{text}"));
}

/// Writes to stdout what is no text for people; it fails as [`line`] does.
pub fn emit(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
    let mut out = BufWriter::new(io::stdout().lock());
    let written = write(&mut out).and_then(|()| out.flush());
    // What could not be written is not tried again.
    drop(out.into_parts());
    written.unwrap_or_else(|error| note_unprinted(&error));
}

/// Takes to notice that stdout was not written: see [`line`].
pub fn note_unprinted(error: &io::Error) {
    let is_gone = error.kind() == io::ErrorKind::BrokenPipe;
    if !is_gone && !INCOMPLETE.swap(true, Ordering::Relaxed) {
        errln!("suture: cannot print the result: {error}");
    }
}

/// Prints a line to stderr if it can be written.
pub fn remark(text: impl Display) {
    // There is nowhere left to say that nothing can be said.
    let _ = writeln!(io::stderr().lock(), "{}", visible(&text.to_string()));
}

/// Whether all that was to be printed on stdout was.
pub fn is_complete() -> bool {
    !INCOMPLETE.load(Ordering::Relaxed)
}

/// Whether an output is what stdout is: `-`, `/dev/stdout`, or the file that stdout goes to. Of
/// devices only a terminal shows what else is printed; `/dev/null` keeps nothing of either.
pub fn is_stdout(output: &Path) -> bool {
    let is_device =
        |found: &fs::Metadata| found.file_type().is_char_device() && !io::stdout().is_terminal();
    let is_same = |found: fs::Metadata| {
        let stdout = rustix::fs::fstat(io::stdout());
        stdout.is_ok_and(|stdout| (stdout.st_dev, stdout.st_ino) == (found.dev(), found.ino()))
    };
    output == Path::new("-")
        || fs::metadata(output).is_ok_and(|found| !is_device(&found) && is_same(found))
}

/// Lines of the same kind that a person is shown before "and 7 more".
pub const LINES_MAX: usize = 20;

/// How many of several things had been done before, if any.
pub fn already_there(count: usize) -> Option<String> {
    match count {
        0 => None,
        1 => Some("1 was there already".into()),
        count => Some(format!("{count} were there already")),
    }
}

/// Blanks behind each column of a table.
const COLUMN_GAP: u16 = 2;

/// Cells of so many characters are never wrapped: a number and its unit belong together.
const SHORT_CELL: usize = 12;

/// A table without lines, for people: these columns, of which some are numbers.
pub fn table<const N: usize>(header: [&str; N], numbers: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, COLUMN_GAP));
        if numbers.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Prints a table, without the blanks that end its lines. On a terminal that it is too wide for,
/// cells are wrapped; elsewhere a row is a line, so that it can be searched.
pub fn print_table(table: &Table) {
    let fitted = fitted(table, terminal_columns(&io::stdout()));
    fitted.lines().for_each(|line| outln!("{}", line.trim_end()));
}

/// The table with cells wrapped so that it has no more than so many columns of characters. No word
/// is broken for that: a table of long words stays as wide as they are.
fn fitted(table: &Table, columns: Option<u16>) -> Table {
    let mut fitted = table.clone();
    let Some(columns) = columns else { return fitted };
    for (index, column) in fitted.column_iter_mut().enumerate() {
        let cells = table.column_cells_with_header_iter(index).flatten();
        let unbroken = cells.map(|cell| longest_unbroken(&cell.content()));
        let least = unbroken.max().unwrap_or_default().saturating_add(COLUMN_GAP);
        if !column.is_hidden() {
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
        }
    }
    fitted.set_content_arrangement(ContentArrangement::Dynamic);
    // The gap behind the last column is not printed.
    fitted.set_width(columns.saturating_add(COLUMN_GAP));
    fitted
}

/// How many characters of a cell stand together wherever it is wrapped.
fn longest_unbroken(cell: &str) -> u16 {
    let whole = cell.chars().count();
    let words = cell.split_whitespace().map(|word| word.chars().count());
    let longest = if whole <= SHORT_CELL { whole } else { words.max().unwrap_or_default() };
    longest.try_into().unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_is_written_out() {
        assert_eq!(visible("photo\u{202e}gpj.exe"), "photo\\u{202e}gpj.exe");
        assert_eq!(visible("kn\u{f6}ten \u{1f41f}\n"), "kn\u{f6}ten \u{1f41f}\n");
        assert_eq!(visible("\u{1b}[2Ja\tb\rc\u{9b}\u{7f}"), "\\u{1b}[2Ja\tb\\u{d}c\\u{9b}\\u{7f}");
        assert_eq!(visible("1 | a = 2\r\n  | ^\r\n"), "1 | a = 2\n  | ^\n");
    }

    #[test]
    fn a_table_is_wrapped_at_words_where_it_is_too_wide_for_its_terminal() {
        let mut rows = table(["node", "address", "rack", "uplink", "downlink"], &[3, 4]);
        let link = "1.00 Gbit/s +-12 %, repair 200 Mbit/s";
        for node in ["n1", "n2"] {
            rows.add_row([node, "192.168.10.12:7401", "r1", link, link]);
        }
        let hidden = rows.column_mut(2).unwrap();
        hidden.set_constraint(ColumnConstraint::Hidden);
        let lines = |columns| -> Vec<String> {
            fitted(&rows, columns).lines().map(|line| line.trim_end().to_owned()).collect()
        };
        let wide = lines(None);
        assert_eq!(wide.len(), 3, "a row is a line");
        assert!(wide[1].len() > 90, "{wide:?}");
        assert_eq!(lines(Some(200)), wide, "there is space");
        for columns in [60, 80] {
            let narrow = lines(Some(columns));
            let longest = narrow.iter().map(String::len).max().unwrap();
            assert!(longest <= usize::from(columns), "{longest}: {narrow:#?}");
            assert!(narrow.len() > 3, "{narrow:#?}");
            for word in ["192.168.10.12:7401", "Gbit/s", "repair", "downlink"] {
                assert!(narrow.iter().any(|line| line.contains(word)), "{word}: {narrow:#?}");
            }
            assert!(!narrow.iter().any(|line| line.contains("rack") || line.contains("r1")));
        }
        assert_eq!(longest_unbroken("1023 MiB"), 8, "a number and its unit");
        assert_eq!(longest_unbroken(link), 6);
        // No word is broken.
        assert!(lines(Some(10)).iter().any(|line| line.contains("192.168.10.12:7401")));
    }

    #[test]
    fn an_error_for_scripts_is_one_line() {
        let plain = "cannot read 'f': No such file (os error 2)";
        assert_eq!(one_line(plain), plain);
        let quoting = "in 'f': TOML parse error at line 12, column 3\n   |\n12 | a b = 1\n   |   ^\n\
                       key with no value, expected `=`\n";
        let expected =
            "in 'f': TOML parse error at line 12, column 3: key with no value, expected `=`";
        assert_eq!(one_line(quoting), expected);
        assert_eq!(one_line("these are wrong:\n  a\n\n  b"), "these are wrong: a: b");
    }

    #[test]
    fn json_is_asked_for_in_two_spellings_and_not_behind_two_dashes() {
        let is_asked = |line: &str| is_json_asked(line.split(' ').map(OsString::from));
        for asked in ["suture ls --format json", "suture ls --foo --format=json x"] {
            assert!(is_asked(asked), "{asked}");
        }
        for not in
            ["suture ls", "suture ls --format text", "suture ls json", "suture rm -- --format json"]
        {
            assert!(!is_asked(not), "{not}");
        }
    }
}
