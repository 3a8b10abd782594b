//! The subcommands that a command shows with `--help`, read as an operator would read them.

/// The names of the subcommands that a help lists, under whatever headings, in its order.
pub fn listed(help: &str) -> Vec<String> {
    let after_usage = help.split_once("\nUsage:").map_or(help, |(_, after)| after);
    let lists = after_usage.split_once("\nOptions:\n").map_or(after_usage, |(lists, _)| lists);
    // What a command does may go on in further lines, which are indented more.
    let lines = lists.lines().filter_map(|line| line.strip_prefix("  "));
    let names = lines.filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}
