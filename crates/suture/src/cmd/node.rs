//! `suture node`: what an operator says of nodes.

use anyhow::Result;
use serde_json::json;
use suture_drivers::control::client::refusal;
use suture_drivers::control::proto;
use suture_edge::units::parse_time;
use suture_terminal::output::{Format, counted, print_json};

use crate::address::CoordinatorAddress;
use crate::daemon;
use crate::outcome::Outcome;
use crate::status;

/// List nodes; fail, drain, pause, return, replace or remove them.
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
    /// Treat nodes as dead until `return`: their chunks are rebuilt on the others
    Fail {
        #[command(flatten)]
        nodes: NodeNames,
        /// Even if data becomes unreadable
        #[arg(long)]
        force: bool,
    },
    /// Move all chunks of nodes to the others; they can be read meanwhile
    Drain {
        #[command(flatten)]
        nodes: NodeNames,
        /// Even if some chunks have nowhere to go
        #[arg(long)]
        force: bool,
    },
    /// Announce maintenance: nodes may be silent for a while without counting as failed
    ///
    /// What they hold is rebuilt only where a stripe can lose no more chunks.
    Pause {
        #[command(flatten)]
        nodes: NodeNames,
        /// How long, such as 30min or 2h; `suture node return` ends it sooner
        #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
        span: f64,
        /// Even if data becomes unreadable meanwhile
        #[arg(long)]
        force: bool,
    },
    /// Remove nodes that hold no chunks and whose agents are stopped; they may join again
    Remove(NodeNames),
    /// Give the name of nodes whose agents are stopped to the next new store that joins under it
    ///
    /// That is for a disk that was replaced. What the former store held is rebuilt. Do not start an
    /// agent on the former store: it would get the name again until the new store has joined, and
    /// is refused from then on.
    Replace {
        #[command(flatten)]
        nodes: NodeNames,
        /// Even if data becomes unreadable
        #[arg(long)]
        force: bool,
    },
    /// Use nodes again that were failed, drained or paused: what they still hold counts again
    Return(NodeNames),
}

#[derive(clap::Args)]
struct NodeNames {
    /// The nodes
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    #[command(flatten)]
    coordinator: CoordinatorAddress,
    /// What to print: a line for each node for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Lists nodes, or changes what the operator wants of them.
///
/// # Errors
/// Bad input for a name without node, or where data would suffer; a failure when no coordinator
/// answers.
pub fn run(args: Args) -> Result<Outcome> {
    use proto::NodeAction::{Drain, Fail, Pause, Remove, Replace, Return};
    daemon::block_on(async {
        match args.command {
            NodeSubcommand::List { coordinator, format } => list(&coordinator, format).await,
            NodeSubcommand::Fail { nodes, force } => command(&nodes, Fail, force, 0.0).await,
            NodeSubcommand::Drain { nodes, force } => command(&nodes, Drain, force, 0.0).await,
            NodeSubcommand::Pause { nodes, span, force } => {
                command(&nodes, Pause, force, span).await
            }
            NodeSubcommand::Remove(nodes) => command(&nodes, Remove, false, 0.0).await,
            NodeSubcommand::Replace { nodes, force } => command(&nodes, Replace, force, 0.0).await,
            NodeSubcommand::Return(nodes) => command(&nodes, Return, false, 0.0).await,
        }
    })
}

async fn list(coordinator: &CoordinatorAddress, format: Format) -> Result<Outcome> {
    let status = status::ask_soon(&mut coordinator.connect().await?).await?;
    match format {
        Format::Json => print_json(&json!({
            "nodes": status::describe_nodes(&status.nodes),
            "age_seconds": status.age_seconds,
        }))?,
        Format::Text => {
            status::print_nodes(&status.nodes);
            status::age_line(&status).into_iter().for_each(|line| outln!("{line}"));
        }
    }
    Ok(Outcome::Done)
}

async fn command(
    nodes: &NodeNames,
    action: proto::NodeAction,
    force: bool,
    seconds: f64,
) -> Result<Outcome> {
    let NodeNames { names, coordinator, format } = nodes;
    let mut client = coordinator.connect().await?;
    let before = status::ask(&mut client).await?.nodes;
    let (name, others) = names.split_first().expect("one is required");
    let (name, others) = (name.clone(), others.to_vec());
    let command = proto::NodeCommand { name, action: action.into(), seconds, force, others };
    client.command_node(command).await.map_err(refusal)?;
    match format {
        Format::Json => print_json(&json!({
            "node": names[0],
            "nodes": names,
            "command": word(action),
        }))?,
        Format::Text => {
            for name in names {
                let was = before.iter().find(|node| node.name == *name);
                let (was, chunks) = was.map_or(("", 0), |node| (&*node.intent, node.chunks));
                outln!(
                    "{name} {}",
                    done(action, was, &format!("suture node return {name}"), chunks)
                );
            }
        }
    }
    Ok(Outcome::Done)
}

/// The word by which the command is typed.
fn word(action: proto::NodeAction) -> &'static str {
    match action {
        proto::NodeAction::Fail => "fail",
        proto::NodeAction::Drain => "drain",
        proto::NodeAction::Pause => "pause",
        proto::NodeAction::Return => "return",
        proto::NodeAction::Replace => "replace",
        proto::NodeAction::Remove | proto::NodeAction::Unspecified => "remove",
    }
}

/// What a command has done with a node of which something `was` wanted before, and how it is taken
/// `back`.
fn done(action: proto::NodeAction, was: &str, back: &str, chunks: u64) -> String {
    match action {
        proto::NodeAction::Fail if was == "failed" => "counts as failed already".into(),
        proto::NodeAction::Fail => format!("counts as failed until `{back}`"),
        proto::NodeAction::Drain if was == "draining" => "is being drained already".into(),
        proto::NodeAction::Drain => {
            let chunks = counted(chunks, "chunk");
            format!("is being drained of {chunks}: see `suture node list`; `{back}` ends it")
        }
        proto::NodeAction::Pause => format!("may be silent; `{back}` ends that"),
        proto::NodeAction::Return if was == "failed" => "counts as up once it reports".into(),
        proto::NodeAction::Return if was == "draining" => "keeps what it holds".into(),
        proto::NodeAction::Return if was == "paused" => "may be silent no longer".into(),
        proto::NodeAction::Return => "was not declared failed, drained or paused".into(),
        proto::NodeAction::Replace => "is free for the next store that joins under it".into(),
        proto::NodeAction::Remove | proto::NodeAction::Unspecified => "is removed".into(),
    }
}
