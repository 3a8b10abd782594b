//! `suture man`: the manual pages, made from what the commands say of themselves.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap_mangen::Man;
use suture_edge::error::bad_input;
use suture_files::directory::write_output;

use crate::outcome::Outcome;

/// Write the manual pages of all commands to a directory, for man(1).
#[derive(clap::Args)]
pub struct Args {
    /// Directory, such as /usr/local/share/man/man1
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Writes a page for each command.
///
/// # Errors
/// Bad input when it is no folder, or a page's name is that of no regular file; a failure when it
/// cannot be written.
pub fn run(args: Args, command: clap::Command) -> Result<Outcome> {
    let shown = args.dir.display();
    if !args.dir.is_dir() {
        return Err(bad_input(format!("'{shown}' is not a directory: create it first")));
    }
    let mut command = command.disable_help_subcommand(true);
    command.build();
    for (name, page) in pages(command).context("cannot make the pages")? {
        write_output(&args.dir.join(name), &page)
            .with_context(|| format!("cannot write to '{shown}'"))?;
    }
    Ok(Outcome::Done)
}

/// The page of a command and of those below it, with the names of their files.
fn pages(command: clap::Command) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut all = Vec::new();
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        all.extend(pages(below.clone())?);
    }
    let man = Man::new(command);
    let mut page: Vec<u8> = Vec::new();
    man.render(&mut page)?;
    all.push((man.get_filename(), page));
    Ok(all)
}
