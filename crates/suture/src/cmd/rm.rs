//! `suture rm`: objects go.

use anyhow::Result;
use serde_json::json;
use suture_drivers::control::client::refusal;
use suture_drivers::control::proto;
use suture_edge::units::format_size;

use crate::address::CoordinatorAddress;
use crate::daemon;
use crate::outcome::Outcome;
use crate::output::{Format, counted, print_json};

/// Remove objects, at once and for good. Their chunks are deleted afterwards.
#[derive(clap::Args)]
pub struct Args {
    /// The objects
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    #[command(flatten)]
    coordinator: CoordinatorAddress,
    /// What to print: lines for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Removes objects, one after the other; a name that cannot be removed does not keep the others.
///
/// # Errors
/// Bad input for a name without object; a failure when no coordinator answers.
pub fn run(args: Args) -> Result<Outcome> {
    daemon::block_on(async {
        let mut client = args.coordinator.connect().await?;
        let (mut removed, mut refused) = (Vec::new(), Vec::new());
        for name in &args.names {
            let request = proto::ObjectName { name: name.clone() };
            let reply = match client.remove(request).await {
                Ok(reply) => reply.into_inner(),
                Err(status) => {
                    refused.push(refusal(status));
                    continue;
                }
            };
            let (bytes, stripes) = (reply.bytes, reply.stripes);
            if args.format == Format::Text {
                outln!("{name}: removed, {}, {}", format_size(bytes), counted(stripes, "stripe"));
            }
            removed.push(json!({ "name": name, "bytes": bytes, "stripes": stripes }));
        }
        if args.format == Format::Json {
            print_json(&json!({ "removed": removed }))?;
        }
        let Some(last) = refused.pop() else { return Ok(Outcome::Done) };
        refused.iter().for_each(|why| errln!("suture: {why:#}"));
        Err(last)
    })
}
