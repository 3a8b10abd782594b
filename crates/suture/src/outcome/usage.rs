//! Why a command line cannot be parsed, or the help that it asks for.
//!
//! Place: the first step of every command, where it is the last one too.
//! What variables of the environment set is in no line of usage, since nobody has to type it; and
//! where the value of a variable cannot be, the variable is named and not its option, which nobody
//! typed.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Command;
use clap::builder::Styles;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::output::{self, visible};

/// Prints why this process's command line cannot be parsed, or the help that it asks for.
pub fn report(error: clap::Error, command: fn() -> Command) -> ExitCode {
    // Neither help nor version is an error.
    if !error.use_stderr() {
        let printed = error.print().and_then(|()| io::stdout().flush());
        printed.unwrap_or_else(|error| output::note_unprinted(&error));
        return ExitCode::from(u8::from(!output::is_complete()));
    }
    let plain = plain(&error, || command().styles(Styles::plain()));
    let error = explained(error, command());
    let shown = visible(&plain);
    if shown == plain {
        // There is nowhere left to say that nothing can be said.
        let _ = error.print();
    } else {
        output::remark(shown.trim_end());
    }
    output::print_json_error(&first_paragraph(&plain), 2);
    ExitCode::from(2)
}

/// The same without colours: with them, nobody could tell which escapes somebody typed.
fn plain(error: &clap::Error, command: impl Fn() -> Command) -> String {
    match command().try_get_matches() {
        Err(plain) => explained(plain, command()).render().ansi().to_string(),
        Ok(_) => error.render().to_string(),
    }
}

/// The error as it is without the environment; or, where there is none then, with the variable.
fn explained(error: clap::Error, command: Command) -> clap::Error {
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
