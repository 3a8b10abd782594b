//! `suture man`: the manual pages, made from what the commands say of themselves.

use std::path::PathBuf;

use anyhow::{Context, Result};
use suture_edge::error::bad_input;

use crate::outcome::Outcome;

/// Write the manual pages of all commands to a folder, for man(1).
#[derive(clap::Args)]
pub struct Args {
    /// The folder, such as /usr/local/share/man/man1
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Writes a page for each command.
///
/// # Errors
/// Bad input when it is no folder; a failure when it cannot be written.
pub fn run(args: Args, command: clap::Command) -> Result<Outcome> {
    let shown = args.dir.display();
    if !args.dir.is_dir() {
        return Err(bad_input(format!("'{shown}' is not a folder: make it first")));
    }
    clap_mangen::generate_to(command, &args.dir)
        .with_context(|| format!("cannot write to '{shown}'"))?;
    Ok(Outcome::Done)
}
