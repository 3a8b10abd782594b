//! `suture rm`: objects go.

use std::collections::BTreeSet;
use std::io::{self, BufRead, IsTerminal};

use anyhow::{Result, bail};
use serde_json::{Value, json};
use suture_drivers::control::access::Call;
use suture_drivers::control::client::{Client, refusal};
use suture_drivers::control::proto;
use suture_drivers::metadata::Object;
use suture_edge::error::{bad_input, quoted};
use suture_edge::units::format_size;
use suture_terminal::output::{Format, counted, print_json};

use crate::address::CoordinatorAddress;
use crate::daemon;
use crate::listing::{explain_missing, find, list_selected};
use crate::outcome::{Failures, Outcome};

/// Remove objects permanently. Their chunks are deleted in the background.
///
/// Chunks on a node that is away are deleted when it lists what it holds: when it joins again, and
/// then every ten minutes (`inventory` in agent.toml).
///
/// Names are taken as they are, without wildcards. One that cannot be removed does not keep the
/// others. Exit status 2: there is no object of some name; 1: something else failed.
#[derive(clap::Args)]
pub struct Args {
    /// The objects
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// Remove every object that is named NAME or begins with NAME/; on a terminal, after asking
    #[arg(short, long)]
    recursive: bool,
    /// Do not ask before --recursive removes
    #[arg(short, long)]
    yes: bool,
    /// Show what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    coordinator: CoordinatorAddress,
    /// What to print: lines for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Removes objects, one after the other; a name that cannot be removed does not keep the others.
///
/// # Errors
/// A failure when no coordinator answers, or when the operator was asked and declined.
pub fn run(args: Args) -> Result<Outcome> {
    daemon::block_on(async {
        let mut client = args.coordinator.connect().await?;
        if args.dry_run {
            check_own_role(&client)?;
        }
        let (mut removed, mut failures) = (Vec::new(), Failures::default());
        let named = named(&mut client, &args, &mut failures).await;
        if args.dry_run {
            return preview(&args, &named, &failures);
        }
        if args.recursive && !args.yes && !named.is_empty() && io::stdin().is_terminal() {
            ask(&named)?;
        }
        for Named { name, .. } in named {
            match remove(&mut client, &name, args.format).await {
                Ok(entry) => removed.push(entry),
                Err(error) => {
                    let error = explain_missing(&mut client, &name, error).await;
                    failures.add(name, error);
                }
            }
        }
        if args.format == Format::Json {
            print_json(&json!({ "removed": removed, "failed": failures.describe() }))?;
        }
        Ok(failures.outcome())
    })
}

/// Refuses to show what would go to a caller that may remove nothing, as the coordinator would.
fn check_own_role(client: &Client) -> Result<()> {
    let Some(kept) = &client.credentials else { return Ok(()) };
    let credentials = kept.current();
    Call::Remove.check_role(&credentials.own.principal).map_err(bad_input)
}

/// An object that is to go.
struct Named {
    name: String,
    /// `None` where it was not asked for.
    bytes: Option<u64>,
}

impl Named {
    fn of(object: Object) -> Named {
        Named { name: object.name, bytes: Some(object.bytes) }
    }
}

/// What the arguments name. Whether single ones exist is asked only where nothing is removed: what
/// removes them says it.
async fn named(client: &mut Client, args: &Args, failures: &mut Failures) -> Vec<Named> {
    let (mut named, mut known) = (Vec::new(), BTreeSet::new());
    for name in &args.names {
        let found = match (args.recursive, args.dry_run) {
            (true, _) => list_selected(client, name).await,
            (false, true) => find_one(client, name).await.map(|object| vec![object]),
            (false, false) => {
                if known.insert(name.clone()) {
                    named.push(Named { name: name.clone(), bytes: None });
                }
                continue;
            }
        };
        match found {
            Ok(objects) => {
                // One may be below several of the names.
                let new = objects.into_iter().filter(|object| known.insert(object.name.clone()));
                named.extend(new.map(Named::of));
            }
            Err(error) => failures.add(name, error),
        }
    }
    named
}

async fn find_one(client: &mut Client, name: &str) -> Result<Object> {
    match find(client, name).await? {
        Some(object) => Ok(object),
        None => {
            let error = bad_input(format!("there is no object {}", quoted(name)));
            Err(explain_missing(client, name, error).await)
        }
    }
}

/// Says what would go.
fn preview(args: &Args, named: &[Named], failures: &Failures) -> Result<Outcome> {
    match args.format {
        Format::Json => {
            let entry = |Named { name, bytes }: &Named| json!({ "name": name, "bytes": bytes });
            print_json(&json!({
                "would_remove": named.iter().map(entry).collect::<Vec<_>>(),
                "failed": failures.describe(),
            }))?;
        }
        Format::Text => {
            for Named { name, bytes } in named {
                outln!("{name}: would be removed, {}", format_size(bytes.unwrap_or(0)));
            }
            outln!("{} would be removed, nothing is", describe(named));
        }
    }
    Ok(failures.outcome())
}

/// How many objects, and how long they are together.
fn describe(named: &[Named]) -> String {
    let bytes = named.iter().filter_map(|named| named.bytes).fold(0, u64::saturating_add);
    format!("{} of {} in all", counted(named.len() as u64, "object"), format_size(bytes))
}

/// Asks whether they are to go.
///
/// # Errors
/// Unless the answer is yes.
fn ask(named: &[Named]) -> Result<()> {
    errln!("remove {} permanently? [y/N]", describe(named));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    if !is_yes(&answer) {
        bail!("nothing was removed; --yes removes without asking");
    }
    Ok(())
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
}

async fn remove(client: &mut Client, name: &str, format: Format) -> Result<Value> {
    let request = proto::ObjectName { name: name.to_string() };
    let proto::RemoveReply { bytes, stripes } =
        client.remove(request).await.map_err(refusal)?.into_inner();
    if format == Format::Text {
        outln!("{name}: removed, {}, {}", format_size(bytes), counted(stripes, "stripe"));
    }
    Ok(json!({ "name": name, "bytes": bytes, "stripes": stripes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_is_yes() {
        assert!(["y\n", "Yes\n", " YES "].into_iter().all(is_yes));
        assert!(!["", "\n", "n\n", "yy\n", "no\n", "maybe\n"].into_iter().any(is_yes));
    }
}
