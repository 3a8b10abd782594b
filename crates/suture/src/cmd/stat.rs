//! `suture stat`: one object, and how well it is.

use anyhow::Result;
use serde_json::json;
use suture_drivers::control::client::refusal;
use suture_drivers::control::{convert, proto};
use suture_drivers::metadata::Object;
use suture_edge::units::format_size;
use suture_terminal::output::{Format, counted, print_json};

use crate::address::CoordinatorAddress;
use crate::daemon;
use crate::listing::explain_missing_one;
use crate::outcome::Outcome;
use crate::timestamp::format_timestamp;

/// Show one object: its size, code and checksum, and its missing chunks.
///
/// Exit status 3: some of it cannot be read until chunks return, or a scrub found that chunks do
/// not fit each other.
#[derive(clap::Args)]
pub struct Args {
    /// The object
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    coordinator: CoordinatorAddress,
    /// What to print: lines for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Shows one object and the state of its chunks.
///
/// # Errors
/// Bad input for a name without object; a failure when no coordinator answers.
pub fn run(args: Args) -> Result<Outcome> {
    let stat = daemon::block_on(async {
        let mut client = args.coordinator.connect().await?;
        let request = proto::ObjectName { name: args.name.clone() };
        let answer = client.stat(request).await;
        match answer {
            Ok(stat) => Ok(stat.into_inner()),
            Err(status) => Err(explain_missing_one(&mut client, &args.name, refusal(status)).await),
        }
    })?;
    let object = convert::decode_object(stat.object.clone())?;
    match args.format {
        Format::Json => {
            let mut report = super::ls::describe(&object);
            report["stripes"] = json!(stat.stripes);
            report["stored_bytes"] = json!(stat.stored_bytes);
            report["missing_chunks"] = json!(stat.missing_chunks);
            report["degraded_stripes"] = json!(stat.degraded_stripes);
            report["unreadable_stripes"] = json!(stat.unreadable_stripes);
            report["inconsistent_stripes"] = json!(stat.inconsistent_stripes);
            print_json(&report)?;
        }
        Format::Text => print(&object, &stat),
    }
    match stat.unreadable_stripes + stat.inconsistent_stripes {
        0 => Ok(Outcome::Done),
        _ => Ok(Outcome::Unrepairable),
    }
}

fn print(object: &Object, stat: &proto::StatReply) {
    outln!("name      {}", object.name);
    outln!("size      {} ({} bytes)", format_size(object.bytes), object.bytes);
    outln!(
        "code      {}, {} of chunks up to {}",
        object.code,
        counted(stat.stripes, "stripe"),
        format_size(object.chunk_bytes)
    );
    outln!("on disks  {}", format_size(stat.stored_bytes));
    outln!("checksum  {:016x} (CRC-64/NVME)", object.checksum);
    outln!("stored    {} UTC", format_timestamp(object.created));
    outln!("health    {}", health(stat));
}

fn health(stat: &proto::StatReply) -> String {
    if stat.unreadable_stripes > 0 {
        let stripes = counted(stat.unreadable_stripes, "stripe");
        return format!("unreadable now: {stripes} with too few chunks that can be read");
    }
    if stat.missing_chunks > 0 {
        return format!(
            "degraded: {} of {} cannot be read now, the data can",
            counted(stat.missing_chunks, "chunk"),
            counted(stat.degraded_stripes, "stripe")
        );
    }
    if stat.inconsistent_stripes > 0 {
        return format!(
            "inconsistent: the chunks of {} do not fit each other; read the object (suture get), and put it again if that fails",
            counted(stat.inconsistent_stripes, "stripe")
        );
    }
    "every chunk is on a node that is up".into()
}
