//! `suture completions`: what shells offer while a command line is typed.

use anyhow::Result;
use clap_complete::{Shell, generate};
use suture_terminal::output::emit;

use crate::outcome::Outcome;

/// Print the completions for a shell: bash, zsh, fish, elvish or powershell.
///
/// For example: suture completions bash > ~/.local/share/bash-completion/completions/suture
#[derive(clap::Args)]
pub struct Args {
    /// The shell that is to read them
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints them to stdout.
///
/// # Errors
/// None: what stdout does not take counts at the end.
pub fn run(args: Args, mut command: clap::Command) -> Result<Outcome> {
    let mut text = Vec::new();
    generate(args.shell, &mut command, "suture", &mut text);
    emit(|out| out.write_all(&text));
    Ok(Outcome::Done)
}
