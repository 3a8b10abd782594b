//! Why a command line cannot be parsed, or the help that it asks for.
//!
//! Place: the first step of every command, where it is the last one too.
//! What variables of the environment set is in no line of usage, since nobody has to type it; and
//! where the value of a variable cannot be, the variable is named and not its option, which nobody
//! typed. On a terminal lines are folded at words: a terminal itself folds wherever it ends.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

use clap::Command;
use clap::builder::Styles;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use suture_terminal::output::{self, visible};

use crate::help;

/// Longer lines of text are hard to read, however wide a terminal is.
const COLUMNS_MAX: usize = 100;

/// Prints why this process's command line cannot be parsed, or the help that it asks for.
pub fn report(error: clap::Error, command: fn() -> Command) -> ExitCode {
    // Neither help nor version is an error.
    if !error.use_stderr() {
        let printed = print(&error, io::stdout()).and_then(|()| io::stdout().flush());
        printed.unwrap_or_else(|error| output::note_unprinted(&error));
        return ExitCode::from(u8::from(!output::is_complete()));
    }
    let plain = plain(&error, || help::grouped(command().styles(Styles::plain())));
    let error = explained(error, command());
    let shown = visible(&plain);
    if shown == plain {
        // There is nowhere left to say that nothing can be said.
        let _ = print(&error, io::stderr());
    } else {
        output::remark(shown.trim_end());
    }
    output::print_json_error(&first_paragraph(&plain), 2);
    ExitCode::from(2)
}

/// Prints to the stream that it is for; folded, where that is a terminal.
fn print(error: &clap::Error, mut stream: impl Write + AsFd + IsTerminal) -> io::Result<()> {
    let Some(columns) = output::terminal_columns(&stream) else { return error.print() };
    let text = error.render();
    let text =
        if output::has_colours(&stream) { text.ansi().to_string() } else { text.to_string() };
    let columns = usize::from(columns).min(COLUMNS_MAX);
    let folded: String = text.lines().map(|line| fold(line, columns)).collect();
    stream.write_all(folded.as_bytes())
}

/// A line as lines of no more than so many columns, where its words permit. What follows stands
/// under the text of the first one: behind its indent, or its first column and the blanks there.
fn fold(line: &str, columns: usize) -> String {
    let (mut folded, mut used, mut has_word) = (String::new(), 0, false);
    let indent = text_begins(line, columns);
    for (index, word) in line.split(' ').enumerate() {
        let is_too_long = used + 1 + width(word) > columns;
        if index > 0 && has_word && is_too_long {
            folded += &format!("\n{}", " ".repeat(indent));
            used = indent;
        } else if index > 0 {
            folded.push(' ');
            used += 1;
        }
        folded += word;
        used += width(word);
        has_word |= !word.is_empty();
    }
    folded + "\n"
}

/// Where the text of a line begins: behind the blanks that it begins with, and behind a first
/// column, which two blanks end; unless little space is left there.
fn text_begins(line: &str, columns: usize) -> usize {
    let rest = line.trim_start_matches(' ');
    let indent = line.len() - rest.len();
    let second = rest.find("  ").map_or(0, |end| {
        let blanks = rest[end..].len() - rest[end..].trim_start_matches(' ').len();
        width(&rest[..end]) + blanks
    });
    [indent + second, indent].into_iter().find(|begins| 2 * begins <= columns).unwrap_or(0)
}

/// How many columns a text takes: escapes that give it colours take none.
fn width(text: &str) -> usize {
    let mut is_escape = false;
    let is_shown = |c: &char| {
        let is_shown = !is_escape && *c != '\x1b';
        is_escape = if is_escape { *c != 'm' } else { *c == '\x1b' };
        is_shown
    };
    text.chars().filter(is_shown).count()
}

/// The same without colours: with them, nobody could distinguish the escapes that somebody typed.
fn plain(error: &clap::Error, command: impl Fn() -> Command) -> String {
    match command().try_get_matches() {
        Err(plain) => explained(plain, command()).render().ansi().to_string(),
        Ok(_) => error.render().to_string(),
    }
}

/// The error with what somebody typed in it, and what would be right.
fn explained(error: clap::Error, command: Command) -> clap::Error {
    with_sign(by_environment(error, command))
}

/// The error with what is wrong with a value below zero, which passes for an option.
fn with_sign(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(found)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let args: Vec<OsString> = std::env::args_os().collect();
    let option = option_before(found, &args).filter(|_| error.kind() == ErrorKind::UnknownArgument);
    if let Some(option) = option {
        let tip = format!(
            "a value of '{option}' is not below zero; a name that begins with '-' stands behind '--'"
        );
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// The option before an argument that begins with a number below zero: it is meant for its value.
fn option_before(found: &str, args: &[OsString]) -> Option<String> {
    let is_digit = |c: char| c.is_ascii_digit();
    found.strip_prefix('-').filter(|rest| rest.starts_with(is_digit))?;
    let mut pairs =
        args.windows(2).map(|pair| [&pair[0], &pair[1]].map(|arg| arg.to_string_lossy()));
    let is_it = |[option, value]: &[Cow<'_, str>; 2]| {
        option.len() > 2
            && option.starts_with("--")
            && !option.contains('=')
            && value.starts_with(found)
    };
    pairs.find(is_it).map(|[option, _]| option.into_owned())
}

/// The error as it is without the environment; or, where there is none then, with the variable.
fn by_environment(error: clap::Error, command: Command) -> clap::Error {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return error;
    }
    match without_environment(command.clone()).try_get_matches() {
        Err(other) if is_same(&error, &other) => other,
        _ => with_variable(error, command),
    }
}

fn without_environment(command: Command) -> Command {
    let command = command.mut_args(|arg| arg.env(None::<&'static str>));
    command.mut_subcommands(without_environment)
}

fn is_same(error: &clap::Error, other: &clap::Error) -> bool {
    let is_equal = |kind| error.get(kind) == other.get(kind);
    let contexts = [ContextKind::InvalidArg, ContextKind::InvalidValue];
    error.kind() == other.kind() && contexts.into_iter().all(is_equal)
}

/// The error with the name of the variable that is set, where an option of one is at fault.
fn with_variable(mut error: clap::Error, mut command: Command) -> clap::Error {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    command.build();
    if let Some(variable) = variable_of(&command, option) {
        error.insert(ContextKind::InvalidArg, ContextValue::String(variable));
    }
    error
}

/// The variable that is set for an option of a command or of those below it.
fn variable_of(command: &Command, option: &str) -> Option<String> {
    let of_option = command.get_arguments().filter(|arg| arg.to_string() == option);
    let set =
        of_option.filter_map(|arg| arg.get_env()).find(|name| std::env::var_os(name).is_some());
    let own = set.map(|name| name.to_string_lossy().into_owned());
    own.or_else(|| command.get_subcommands().find_map(|below| variable_of(below, option)))
}

/// Where a value came from: the option, unless it was not typed and the variable is set.
pub fn origin<'a>(option: &'a str, variable: &'a str) -> &'a str {
    let is_set = std::env::var_os(variable).is_some();
    if is_set && !is_typed(option, std::env::args_os()) { variable } else { option }
}

fn is_typed(option: &str, args: impl Iterator<Item = OsString>) -> bool {
    let mut options = args.take_while(|arg| arg != "--");
    options.any(|arg| arg.to_string_lossy().split('=').next() == Some(option))
}

/// What is wrong, in one line, without the tips and the usage that follow it.
fn first_paragraph(text: &str) -> String {
    let lines = text.trim_start_matches("error: ").lines().map(str::trim);
    lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usage_error_is_one_line() {
        let text = "error: these were not provided:\n  --output <FILE>\n\nUsage: suture get\n";
        assert_eq!(first_paragraph(text), "these were not provided: --output <FILE>");
    }

    #[test]
    fn lines_are_folded_at_words_and_stay_under_their_text() {
        let folded = |line: &str| fold(line, 24);
        assert_eq!(folded("short"), "short\n");
        assert_eq!(folded(""), "\n");
        assert_eq!(folded("    a line of several words"), "    a line of several\n    words\n");
        assert_eq!(
            folded("  -f  what it prints, and how"),
            "  -f  what it prints,\n      and how\n"
        );
        let word = "x".repeat(30);
        assert_eq!(folded(&format!("one {word} two")), format!("one\n{word}\ntwo\n"));
        let usage = "\x1b[1m\x1b[4mUsage:\x1b[0m suture get NAME FILE";
        assert_eq!(folded(usage), "\x1b[1m\x1b[4mUsage:\x1b[0m suture get NAME\nFILE\n");
        assert_eq!(width("\x1b[1mUsage:\x1b[0m x"), 8);
    }

    #[test]
    fn a_number_below_zero_is_meant_for_the_option_before_it() {
        let option = |found: &str, line: &str| {
            option_before(found, &line.split(' ').map(OsString::from).collect::<Vec<_>>())
        };
        assert_eq!(option("-5", "suture node pause n1 --for -5min").unwrap(), "--for");
        assert_eq!(option("-1", "suture repair throttle --cap -1").unwrap(), "--cap");
        assert_eq!(option("-1", "suture rm -1"), None, "it may be a name");
        assert_eq!(option("-1", "suture put f --name=x -1"), None);
        assert_eq!(option("-x", "suture repair throttle --cap -x"), None);
    }

    #[test]
    fn an_option_is_typed_in_two_spellings_and_not_behind_two_dashes() {
        let is_typed = |line: &str| is_typed("--code", line.split(' ').map(OsString::from));
        for typed in ["suture put f --code x", "suture put --code=x f"] {
            assert!(is_typed(typed), "{typed}");
        }
        for not in ["suture put f", "suture put --codes x", "suture put -- --code"] {
            assert!(!is_typed(not), "{not}");
        }
    }
}
