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
    Fail(NodeName),
    /// Forget a node that holds no chunks and whose agent is stopped; it may join again
    Remove(NodeName),
    /// Give the name of a node whose agent is stopped to the next new store that joins under it:
    /// after a disk was exchanged, or to take a name back from another store. What the store before
    /// held is rebuilt, and its agent is refused
    Replace(NodeName),
    /// Take a node back: what it still holds counts again
    Return(NodeName),
}

#[derive(clap::Args)]
struct NodeName {
    /// The node
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    coordinator: CoordinatorAddress,
    /// What to print: a line for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Lists nodes, or changes what the operator declares of one.
///
/// # Errors
/// Bad input for a name without node; a failure when no coordinator answers.
pub fn run(args: Args) -> Result<Outcome> {
    daemon::block_on(async {
        match args.command {
            NodeSubcommand::List { coordinator, format } => list(&coordinator, format).await,
            NodeSubcommand::Fail(node) => command(&node, proto::NodeAction::Fail).await,
            NodeSubcommand::Remove(node) => command(&node, proto::NodeAction::Remove).await,
            NodeSubcommand::Replace(node) => command(&node, proto::NodeAction::Replace).await,
            NodeSubcommand::Return(node) => command(&node, proto::NodeAction::Return).await,
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

async fn command(node: &NodeName, action: proto::NodeAction) -> Result<Outcome> {
    let NodeName { name, coordinator, format } = node;
    let mut client = coordinator.connect().await?;
    let before = status::ask(&mut client).await?.nodes;
    let was_failed = before.iter().any(|node| node.name == *name && node.failed_by_operator);
    let command = proto::NodeCommand { name: name.clone(), action: action.into() };
    client.command_node(command).await.map_err(refusal)?;
    let (word, done) = match action {
        proto::NodeAction::Fail if was_failed => {
            ("fail", format!("{name} counts as failed already"))
        }
        proto::NodeAction::Fail => {
            ("fail", format!("{name} counts as failed until `suture node return {name}`"))
        }
        proto::NodeAction::Return if was_failed => {
            ("return", format!("{name} counts as up once it reports"))
        }
        proto::NodeAction::Return => ("return", format!("{name} was not declared failed")),
        proto::NodeAction::Replace => {
            ("replace", format!("the next store that joins as {name} takes its place"))
        }
        proto::NodeAction::Remove | proto::NodeAction::Unspecified => {
            ("remove", format!("{name} is removed"))
        }
    };
    match format {
        Format::Json => print_json(&json!({ "node": name, "command": word }))?,
        Format::Text => outln!("{done}"),
    }
    Ok(Outcome::Done)
}
