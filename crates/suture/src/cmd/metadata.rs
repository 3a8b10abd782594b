//! `suture metadata`: backups of the one map of what is stored where, and how it is made again.

mod rebuild;

use std::io::stdout;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;
use suture_drivers::control::backup::{self, Received};
use suture_drivers::control::client::refusal;
use suture_drivers::control::proto;
use suture_drivers::metadata::Incomplete;
use suture_drivers::metadata::backup::{Contents, Restored, restore};
use suture_edge::error::bad_input;
use suture_edge::units::format_size;
use suture_files::directory::sync_directory;
use suture_files::output::{NewFile, file_place, folder_of};
use suture_terminal::output::{Format, counted, is_stdout, print_json};

use crate::address::CoordinatorAddress;
use crate::daemon::{self, ConfigArgs};
use crate::outcome::Outcome;

/// Back up the metadata of a running coordinator; restore or rebuild metadata.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: MetadataSubcommand,
}

#[derive(clap::Subcommand)]
enum MetadataSubcommand {
    /// Back up the metadata into a file while the coordinator runs
    Backup(BackupArgs),
    /// Restore a backup while the coordinator is stopped
    ///
    /// Objects stored since the backup was made are found by metadata rebuild. Objects removed
    /// since are still in the backup, and their data may be gone.
    Restore(RestoreArgs),
    /// Rebuild the metadata from the chunks of the agents while the coordinator is stopped
    ///
    /// Agents join and list what they hold; beside each chunk lies a label that says of which
    /// object it is. Without metadata all objects come back; with a restored backup, those that
    /// were stored since. An object that was removed may come back too; an empty one does not,
    /// since it has no chunks.
    Rebuild(rebuild::RebuildArgs),
}

#[derive(clap::Args)]
struct BackupArgs {
    /// File to write; an existing one is replaced once the backup is complete. `-` is standard
    /// output: then the exit status says whether it is, and the summary goes to stderr
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    coordinator: CoordinatorAddress,
    /// What to print: a line for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(clap::Args)]
struct RestoreArgs {
    /// The backup
    #[arg(value_name = "FILE")]
    copy: PathBuf,
    #[command(flatten)]
    config: ConfigArgs,
    /// Rename the metadata that exist, and restore the backup in their place
    #[arg(long)]
    replace: bool,
    /// Take a metadata.db that was copied while a coordinator had it open, so that what was stored
    /// last may be missing, or a backup of which something is damaged
    #[arg(long)]
    accept_copy: bool,
    /// What to print: lines for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Backs up the metadata, puts a backup in their place, or makes them again.
///
/// # Errors
/// Bad input for a file that cannot be written or is no backup, and for metadata that would have
/// to be replaced; a failure when no coordinator answers, or one runs where a backup is to be put.
pub fn run(args: Args) -> Result<Outcome> {
    match args.command {
        MetadataSubcommand::Backup(args) => daemon::block_on(copied(args)),
        MetadataSubcommand::Restore(args) => restored(args),
        MetadataSubcommand::Rebuild(args) => rebuild::run(&args),
    }
}

async fn copied(args: BackupArgs) -> Result<Outcome> {
    let is_streamed = is_stdout(&args.output);
    if is_streamed && args.format == Format::Json {
        return Err(bad_input("standard output cannot hold both the backup and a JSON object"));
    }
    let received = if is_streamed { into_stdout(&args).await } else { into_file(&args).await };
    let Received { bytes, contents, may_be_older } = received?;
    let shown = args.output.display();
    match args.format {
        Format::Json => {
            let Contents { epoch, objects, stripes } = contents;
            print_json(&json!({
                "file": shown.to_string(),
                "bytes": bytes,
                "epoch": epoch,
                "objects": objects,
                "stripes": stripes,
                "may_be_older": may_be_older,
            }))?;
        }
        Format::Text if is_streamed => {
            errln!("standard output: {}, {}", describe(contents), format_size(bytes));
        }
        Format::Text => outln!("{shown}: {}, {}", describe(contents), format_size(bytes)),
    }
    if may_be_older {
        errln!(
            "suture: agents hold chunks of which these metadata know nothing, or have not listed all \
             that they hold yet (see suture status): keep backups from before as well"
        );
    }
    Ok(Outcome::Done)
}

/// Receives a backup into a file that appears once it is whole.
async fn into_file(args: &BackupArgs) -> Result<Received> {
    let path = file_place(&args.output)?;
    let mut client = args.coordinator.connect().await?;
    let new = new_file(&path)?;
    let replies = client.backup_metadata(proto::BackupRequest {}).await.map_err(refusal)?;
    let received = backup::receive(replies.into_inner(), new.file()).await?;
    new.publish(&path)?;
    sync_directory(folder_of(&path))?;
    Ok(received)
}

/// Receives a backup into standard output, which only at its end is known to be whole.
async fn into_stdout(args: &BackupArgs) -> Result<Received> {
    let mut client = args.coordinator.connect().await?;
    let replies = client.backup_metadata(proto::BackupRequest {}).await.map_err(refusal)?;
    backup::receive(replies.into_inner(), stdout()).await
}

/// Everybody's map: it is its owner's alone, as the metadata are.
fn new_file(path: &Path) -> Result<NewFile> {
    use std::os::unix::fs::PermissionsExt;
    let cannot = || format!("cannot write {}", path.display());
    let new = NewFile::beside(path).map_err(|why| bad_input(format!("{}: {why}", cannot())))?;
    let private = std::fs::Permissions::from_mode(0o600);
    new.file().set_permissions(private).with_context(cannot)?;
    Ok(new)
}

fn restored(args: RestoreArgs) -> Result<Outcome> {
    let config = daemon::coordinator_config(&args.config)?;
    let incomplete = if args.accept_copy { Incomplete::Accept } else { Incomplete::Refuse };
    let dir = &config.data_dir;
    daemon::check_owner(dir)?;
    let Restored { contents, cluster, replaced, replaced_cluster } =
        restore(&args.copy, dir, incomplete, args.replace)?;
    let replaced = replaced.map(|path| path.display().to_string());
    match args.format {
        Format::Json => {
            let Contents { epoch, objects, stripes } = contents;
            print_json(&json!({
                "data_dir": dir.display().to_string(),
                "cluster": cluster.to_string(),
                "replaced": replaced,
                "replaced_cluster": replaced_cluster.map(|former| former.to_string()),
                "epoch": epoch,
                "objects": objects,
                "stripes": stripes,
            }))?;
        }
        Format::Text => {
            outln!("{}: {}", dir.display(), describe(contents));
            if let Some(replaced) = replaced {
                outln!("the former metadata are {replaced} now");
            }
            outln!("start the coordinator; `suture status` shows what its agents hold besides");
            outln!(
                "objects that were removed since this backup was made are in it, and their data may be \
                 gone: suture rm NAME removes them again"
            );
        }
    }
    if let Some(former) = replaced_cluster.filter(|former| *former != cluster) {
        errln!(
            "suture: these are the metadata of another cluster: of {cluster}, and the former ones of \
             {former}, whose agents this coordinator will refuse. If that is not meant, restore the \
             former ones with --replace"
        );
    }
    Ok(Outcome::Done)
}

fn describe(Contents { epoch, objects, stripes }: Contents) -> String {
    let (objects, stripes) = (counted(objects, "object"), counted(stripes, "stripe"));
    format!("{objects} in {stripes}, epoch {epoch}")
}
