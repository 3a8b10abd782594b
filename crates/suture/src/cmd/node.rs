//! `suture node`: what an operator says of nodes.

use anyhow::Result;
use serde_json::json;
use suture_drivers::control::client::refusal;
use suture_drivers::control::proto;

use crate::address::CoordinatorAddress;
use crate::daemon;
use crate::outcome::Outcome;
use crate::output::{Format, print_json};
use crate::status;

/// List nodes, declare one failed, take it back, replace its store, or remove it.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: NodeSubcommand,
}

#[derive(clap::Subcommand)]
enum NodeSubcommand {
    /// List the nodes
    List {
        #[command(flatten)]
        coordinator: CoordinatorAddress,
        /// What to print: a table for people, or one JSON object
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Treat a node as dead until it is returned: its chunks are rebuilt on the others
    Fail {
        /// The node
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        coordinator: CoordinatorAddress,
    },
    /// Forget a node that holds no chunks and whose agent is stopped; it may join again
    Remove {
        /// The node
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        coordinator: CoordinatorAddress,
    },
    /// Give the name of a node whose agent is stopped to the next new store that joins under it:
    /// after a disk was exchanged, or to take a name back from another store. What the store before
    /// held is rebuilt, and its agent is refused
    Replace {
        /// The node
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        coordinator: CoordinatorAddress,
    },
    /// Take a node back: what it still holds counts again
    Return {
        /// The node
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        coordinator: CoordinatorAddress,
    },
}

/// Lists nodes, or changes what the operator declares of one.
///
/// # Errors
/// Bad input for a name without node; a failure when no coordinator answers.
pub fn run(args: Args) -> Result<Outcome> {
    daemon::block_on(async {
        match args.command {
            NodeSubcommand::List { coordinator, format } => list(&coordinator, format).await,
            NodeSubcommand::Fail { name, coordinator } => {
                command(&coordinator, &name, proto::NodeAction::Fail).await?;
                outln!("{name} counts as failed until `suture node return {name}`");
                Ok(Outcome::Done)
            }
            NodeSubcommand::Remove { name, coordinator } => {
                command(&coordinator, &name, proto::NodeAction::Remove).await?;
                outln!("{name} is removed");
                Ok(Outcome::Done)
            }
            NodeSubcommand::Replace { name, coordinator } => {
                command(&coordinator, &name, proto::NodeAction::Replace).await?;
                outln!("the next store that joins as {name} takes its place: start its agent");
                Ok(Outcome::Done)
            }
            NodeSubcommand::Return { name, coordinator } => {
                command(&coordinator, &name, proto::NodeAction::Return).await?;
                outln!("{name} counts as up once it reports");
                Ok(Outcome::Done)
            }
        }
    })
}

async fn list(coordinator: &CoordinatorAddress, format: Format) -> Result<Outcome> {
    let nodes = status::ask(&mut coordinator.connect().await?).await?.nodes;
    match format {
        Format::Json => print_json(&json!({ "nodes": status::describe_nodes(&nodes) }))?,
        Format::Text => status::print_nodes(&nodes),
    }
    Ok(Outcome::Done)
}

async fn command(
    coordinator: &CoordinatorAddress,
    name: &str,
    action: proto::NodeAction,
) -> Result<()> {
    let mut client = coordinator.connect().await?;
    let command = proto::NodeCommand { name: name.to_string(), action: action.into() };
    client.command_node(command).await.map_err(refusal)?;
    Ok(())
}
