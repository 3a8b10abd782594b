//! `suture ls`: what is stored.

use anyhow::Result;
use serde_json::json;
use suture_drivers::metadata::Object;
use suture_edge::units::format_size;
use suture_terminal::output::{Format, counted, print_json, print_table, table};

use crate::address::CoordinatorAddress;
use crate::daemon;
use crate::listing::list;
use crate::outcome::Outcome;
use crate::timestamp::format_timestamp;

/// List the objects.
#[derive(clap::Args)]
pub struct Args {
    /// Only objects whose names begin with this
    #[arg(value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: String,
    #[command(flatten)]
    coordinator: CoordinatorAddress,
    /// What to print: a table for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Lists objects by name.
///
/// # Errors
/// When no coordinator answers, or it goes away.
pub fn run(args: Args) -> Result<Outcome> {
    let objects = daemon::block_on(async {
        let mut client = args.coordinator.connect().await?;
        list(&mut client, &args.prefix).await
    })?;
    if args.format == Format::Json {
        let objects: Vec<_> = objects.iter().map(describe).collect();
        print_json(&json!({ "objects": objects }))?;
        return Ok(Outcome::Done);
    }
    let mut rows = table(["size", "code", "chunk size", "stored", "name"], &[0, 2]);
    for object in &objects {
        rows.add_row([
            format_size(object.bytes),
            object.code.to_string(),
            format_size(object.chunk_bytes),
            format_timestamp(object.created),
            object.name.clone(),
        ]);
    }
    if !objects.is_empty() {
        print_table(&rows);
    }
    let bytes = objects.iter().map(|object| object.bytes).sum();
    outln!("{}, {}", counted(objects.len() as u64, "object"), format_size(bytes));
    Ok(Outcome::Done)
}

/// An object for scripts.
pub fn describe(object: &Object) -> serde_json::Value {
    json!({
        "name": object.name,
        "bytes": object.bytes,
        "code": object.code.to_string(),
        "chunk_bytes": object.chunk_bytes,
        "crc64nvme": format!("{:016x}", object.checksum),
        "created": object.created,
    })
}
