//! How much a command says beside its result: the options -q and -v of all of them.
//!
//! Place: beside every command. Results and errors are always said.

use std::sync::atomic::{AtomicU8, Ordering};

/// How much is said on stderr; kept for the whole process, as the options are.
static LEVEL: AtomicU8 = AtomicU8::new(Verbosity::Normal as u8);

/// The options that say it.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct VerbosityArgs {
    /// Print less on stderr: no progress; daemons log warnings only
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Verbosity")]
    quiet: bool,
    /// Print more on stderr: what is done; twice: all of it (SUTURE_LOG selects)
    #[arg(
        short,
        long,
        global = true,
        action = clap::ArgAction::Count,
        help_heading = "Verbosity"
    )]
    verbose: u8,
}

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Only warnings and errors are shown.
    Quiet,
    /// Progress, and what daemons log.
    Normal,
    /// What is done is shown too.
    Verbose,
    /// All that is known is shown.
    Everything,
}

impl VerbosityArgs {
    /// Has the process say so much from now on.
    pub fn apply(self) {
        let level = match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, 0) => Verbosity::Normal,
            (false, 1) => Verbosity::Verbose,
            (false, _) => Verbosity::Everything,
        };
        LEVEL.store(level as u8, Ordering::Relaxed);
    }
}

impl Verbosity {
    /// That of this process.
    pub fn current() -> Verbosity {
        let is_it = |level: &Verbosity| *level as u8 == LEVEL.load(Ordering::Relaxed);
        let all = [Verbosity::Quiet, Verbosity::Normal, Verbosity::Verbose, Verbosity::Everything];
        all.into_iter().find(is_it).expect("only these are stored")
    }

    /// What is logged at least, where `usual` is logged without a word; SUTURE_LOG goes before it.
    pub fn log_level(self, usual: &'static str) -> &'static str {
        match self {
            Verbosity::Quiet => "warn",
            Verbosity::Normal => usual,
            Verbosity::Verbose => "info,suture=debug,suture_drivers=debug",
            Verbosity::Everything => "trace",
        }
    }
}
