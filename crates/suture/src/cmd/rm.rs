//! `suture rm`: objects go.

use anyhow::Result;
use serde_json::{Value, json};
use suture_drivers::control::client::{Client, refusal};
use suture_drivers::control::proto;
use suture_edge::units::format_size;

use crate::address::CoordinatorAddress;
use crate::daemon;
use crate::listing::{explain_missing, list_selected};
use crate::outcome::{Failures, Outcome};
use crate::output::{Format, counted, print_json};

/// Remove objects, at once and for good. Their chunks are deleted afterwards.
///
/// Copies in excess, as a node has that was away, go when it lists what it holds: when it joins,
/// and every ten minutes (its `inventory`).
///
/// Names are taken as they are, without wildcards. One that cannot be removed does not keep the
/// others. Exit status 2: there is no object of some name; 1: something else failed.
#[derive(clap::Args)]
pub struct Args {
    /// The objects
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// Remove every object that is named NAME or begins with NAME/, without asking
    #[arg(short, long)]
    recursive: bool,
    #[command(flatten)]
    coordinator: CoordinatorAddress,
    /// What to print: lines for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Removes objects, one after the other; a name that cannot be removed does not keep the others.
///
/// # Errors
/// A failure when no coordinator answers.
pub fn run(args: Args) -> Result<Outcome> {
    daemon::block_on(async {
        let mut client = args.coordinator.connect().await?;
        let (mut removed, mut failures) = (Vec::new(), Failures::default());
        for name in &args.names {
            for name in names_of(&mut client, name, args.recursive, &mut failures).await {
                match remove(&mut client, &name, args.format).await {
                    Ok(entry) => removed.push(entry),
                    Err(error) => {
                        let error = explain_missing(&mut client, &name, error).await;
                        failures.add(name, error);
                    }
                }
            }
        }
        if args.format == Format::Json {
            print_json(&json!({ "removed": removed, "failed": failures.describe() }))?;
        }
        Ok(failures.outcome())
    })
}

/// What one argument names.
async fn names_of(
    client: &mut Client,
    name: &str,
    is_recursive: bool,
    failures: &mut Failures,
) -> Vec<String> {
    if !is_recursive {
        return vec![name.to_string()];
    }
    match list_selected(client, name).await {
        Ok(objects) => objects.into_iter().map(|object| object.name).collect(),
        Err(error) => {
            failures.add(name, error);
            Vec::new()
        }
    }
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
