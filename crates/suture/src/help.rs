//! Which commands there are, in groups: what `suture` shows of itself.
//!
//! Place: before a command runs, when an operator looks for the right one. A command line of clap
//! has one list of subcommands, without headings in it. So the template of its help has the groups,
//! made from the commands themselves and from what they write of themselves. Manual pages and
//! completions have all of them without groups.

use clap::Command;

/// The commands under their headings, both in the order in which they are shown.
pub const GROUPS: [(&str, &[&str]); 6] = [
    ("Objects", &["put", "get", "ls", "stat", "rm"]),
    ("Cluster", &["status", "df", "node", "repair", "scrub"]),
    ("Daemons and set-up", &["coordinator", "agent", "config", "cert", "metadata"]),
    ("Files without a cluster", &["encode", "decode", "verify", "rebuild"]),
    (
        "Plan and try",
        &[
            "codes",
            "plan",
            "simulate",
            "durability",
            "demo",
            "load",
            "testbed",
            "calibrate",
            "reproduce",
            "swarm",
            "replay",
        ],
    ),
    ("Shell", &["completions", "man"]),
];

/// The same command line with a help that shows its commands in groups, in the styles that it has.
pub fn grouped(command: Command) -> Command {
    let template = template(&command);
    command.help_template(template)
}

/// The help as clap fills it in: it knows usage and options, and how wide a name of an option is.
fn template(command: &Command) -> String {
    let header = command.get_styles().get_header();
    let groups = GROUPS.map(|(heading, names)| {
        let lines: String = names.iter().map(|name| line(command, name)).collect();
        format!("{header}{heading}:{header:#}\n{lines}\n")
    });
    format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}\
         {header}Options:{header:#}\n{{options}}\n\n\
         'suture COMMAND --help' shows what a command takes.",
        groups.concat()
    )
}

/// A command and what it does, which begins in the same column for all of them.
fn line(command: &Command, name: &str) -> String {
    let literal = command.get_styles().get_literal();
    let column = command.get_subcommands().map(|below| below.get_name().len()).max().unwrap_or(0);
    let about = command.find_subcommand(name).and_then(Command::get_about);
    let about = about.map(ToString::to_string).unwrap_or_default();
    let blanks = " ".repeat(column.saturating_sub(name.len()));
    format!("  {literal}{name}{literal:#}{blanks}  {about}\n")
}
