//! What operators want of nodes: one or several at once, asked first whether data stays readable.
//!
//! Place: [failure detected] -> ...: by an operator's word. The metadata are changed first, because
//! a command that is forgotten at the next restart was not carried out.
//! Several nodes of one command are judged together, before any of them is changed: it is done with
//! all of them or with none. What would make data unreadable, or leave chunks with nowhere to go,
//! is refused unless it is forced. A refusal by the state of the cluster, which may be another one
//! later, has a code of its own (`Aborted`), which distinguishes it from a mistake.

use suture_edge::error::quoted;
use suture_repair::coordinator::Absence;
use suture_repair::event::{Command, Health};
use suture_repair::id::{NodeId, StripeId};
use suture_repair::time::Span;
use tonic::{Code, Status};

use super::proto;
use super::proto::NodeAction;
use super::service::ControlService;
use crate::coordinator::CoordinatorDriver;
use crate::coordinator::load::PAUSE_MAX;
use crate::metadata::store::{KeptIntent, seconds_since_1970};
use crate::metadata::{Intent, MetadataError, NewNode};

/// Objects named as examples.
const OBJECTS_SHOWN: usize = 3;

/// What is answered to a command about a DataNode.
const HDFS_DECIDES: &str = "HDFS decides which DataNodes are dead or drained: stop the DataNode, \
                            or name it in dfs.hosts.exclude (hdfs dfsadmin -refreshNodes)";

/// A node by the name that an operator knows.
#[derive(Clone, Debug)]
struct Named {
    node: NodeId,
    name: String,
}

impl ControlService {
    /// Does with the nodes of a command what it says, with all of them or with none.
    ///
    /// # Errors
    /// When one of the nodes is none, or is not what the command is for; when data would suffer and
    /// the command is not forced.
    pub(super) async fn command_nodes(&self, command: proto::NodeCommand) -> Result<(), Status> {
        let is_of_several = !command.others.is_empty();
        self.command_all(command).await.map_err(|refused| match refused.code() {
            Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition | Code::Aborted
                if is_of_several =>
            {
                let why = refused.message();
                Status::new(refused.code(), format!("{why}; nothing was changed of the others"))
            }
            _ => refused,
        })
    }

    async fn command_all(&self, command: proto::NodeCommand) -> Result<(), Status> {
        let action = command.action();
        let mut nodes = Vec::new();
        for name in [&command.name].into_iter().chain(&command.others) {
            if nodes.iter().any(|known: &Named| known.name == *name) {
                // The audit log has as many characters of a command as names of nodes need.
                return Err(Status::invalid_argument(format!("{} is named twice", quoted(name))));
            }
            nodes.push(Named { node: self.find_node(name).await?, name: name.clone() });
        }
        match action {
            NodeAction::Remove => return self.remove(&nodes).await,
            NodeAction::Replace => return self.replace(&nodes, command.force).await,
            NodeAction::Unspecified => {
                return Err(Status::invalid_argument("unknown command for a node"));
            }
            NodeAction::Fail | NodeAction::Return | NodeAction::Drain | NodeAction::Pause => {}
        }
        if self.is_hdfs && action != NodeAction::Return {
            return Err(Status::failed_precondition(HDFS_DECIDES));
        }
        let _judging = self.judging.lock().await;
        let intent = self.metadata.ask(|store| store.intent()).await?;
        nodes.iter().try_for_each(|node| check_known(&intent, action, node))?;
        if action == NodeAction::Pause {
            self.check_alive(&nodes).await?;
        }
        let (kept, apply) = intended(&command)?;
        if !command.force {
            self.check_harmless(action, &nodes).await?;
        }
        for Named { node, .. } in nodes {
            self.metadata.ask(move |store| store.set_node_intent(node, kept)).await?;
            self.coordinator.apply(apply(node)).await;
        }
        Ok(())
    }

    async fn find_node(&self, name: &str) -> Result<NodeId, Status> {
        let wanted = name.to_owned();
        let find = move |driver: &CoordinatorDriver| driver.core().cluster().find(&wanted);
        self.query(find).await?.ok_or_else(|| {
            let name = quoted(name);
            Status::not_found(format!("there is no node {name} (see suture node list)"))
        })
    }

    /// Refuses what would make data unreadable, and what cannot end.
    async fn check_harmless(&self, action: NodeAction, nodes: &[Named]) -> Result<(), Status> {
        let ids: Vec<NodeId> = nodes.iter().map(|named| named.node).collect();
        let names: Vec<&str> = nodes.iter().map(|named| named.name.as_str()).collect();
        let names = names.join(", ");
        match action {
            NodeAction::Fail | NodeAction::Pause | NodeAction::Replace => {
                let absence = match action {
                    NodeAction::Pause => Absence::Paused,
                    NodeAction::Replace => Absence::Replaced,
                    _ => Absence::Failed,
                };
                let Some(what) = self.unreadable_without(ids, absence).await? else {
                    return Ok(());
                };
                Err(Status::aborted(format!(
                    "without {names}, and what is away or paused besides, {what} could not be \
                     read: bring other nodes back or let repairs end first; --force does it anyway"
                )))
            }
            NodeAction::Drain => {
                let ask = move |driver: &CoordinatorDriver| driver.core().stuck_without(&ids);
                let stripes = self.query(ask).await?;
                if stripes.is_empty() {
                    return Ok(());
                }
                let what = self.count_stripes(&stripes).await?;
                Err(Status::aborted(format!(
                    "too few other nodes are up for the chunks of {names}: {what} would have \
                     nowhere to go; add nodes first; --force moves what can be moved"
                )))
            }
            _ => Ok(()),
        }
    }

    /// What could not be read without these nodes and all that is away besides, if anything.
    ///
    /// # Errors
    /// When the metadata cannot be read, or the coordinator ends.
    async fn unreadable_without(
        &self,
        nodes: Vec<NodeId>,
        absence: Absence,
    ) -> Result<Option<String>, Status> {
        let intent = self.metadata.ask(|store| store.intent()).await?;
        let ask = move |driver: &CoordinatorDriver| {
            let core = driver.core();
            let replaced = intent.replaced.iter().filter_map(|name| core.cluster().find(name));
            // What others held under these names is gone; what they hold themselves they report.
            let taken = intent.taken.iter().copied().filter(|node| !core.has_listed(*node));
            let given_away: Vec<NodeId> = replaced.chain(taken).collect();
            core.unreadable_without(&nodes, &given_away, absence)
        };
        let stripes = self.query(ask).await?;
        if stripes.is_empty() {
            return Ok(None);
        }
        self.count_stripes(&stripes).await.map(Some)
    }

    /// Refuses a new store that takes the name of a node, where what the node held could be needed
    /// still. Where an operator gave the name away, that command was checked, or forced; a store
    /// that has the name takes nothing.
    ///
    /// # Errors
    /// When data could not be read without the node.
    pub(super) async fn check_taking(&self, joining: &NewNode) -> Result<(), Status> {
        let name = &joining.name;
        let nodes = self.metadata.ask(|store| store.nodes()).await?;
        let Some(known) = nodes.into_iter().find(|record| record.node.name == *name) else {
            return Ok(());
        };
        let is_its_own = known.node.store.is_some() && known.node.store == joining.store;
        let intent = self.metadata.ask(|store| store.intent()).await?;
        if is_its_own || intent.removed.contains(&known.id) || intent.replaced.contains(name) {
            return Ok(());
        }
        let without = self.unreadable_without(vec![known.id], Absence::Replaced);
        let Some(what) = without.await? else { return Ok(()) };
        Err(Status::failed_precondition(format!(
            "without what '{name}' held, and what is away or paused besides, {what} could not be \
             read: bring other nodes back or let repairs end before it is started with --new; \
             suture node replace {name} --force gives the name away anyway"
        )))
    }

    /// How many stripes these are, and of which objects the first of them.
    async fn count_stripes(&self, stripes: &[StripeId]) -> Result<String, Status> {
        let first: Vec<StripeId> = stripes.iter().copied().take(1000).collect();
        let named = self.metadata.ask(move |store| store.names_of(&first)).await?;
        let mut names: Vec<String> = named.into_values().collect();
        names.sort_unstable();
        names.dedup();
        let more = if names.len() > OBJECTS_SHOWN { ", ..." } else { "" };
        names.truncate(OBJECTS_SHOWN);
        let stripes = match stripes.len() {
            1 => "1 stripe".to_owned(),
            count => format!("{count} stripes"),
        };
        Ok(format!("{stripes} ({}{more})", names.join(", ")))
    }

    /// Refuses to pause what is dead already: its chunks are lost, and are being rebuilt.
    async fn check_alive(&self, nodes: &[Named]) -> Result<(), Status> {
        for &Named { node, ref name } in nodes {
            let health = move |driver: &CoordinatorDriver| driver.core().health(node);
            if self.query(health).await? == Health::Failed {
                return Err(Status::aborted(format!(
                    "{name} counts as failed already, and its chunks are being rebuilt: what it \
                     holds counts again as soon as its agent runs, and then it can be paused"
                )));
            }
        }
        Ok(())
    }

    async fn check_stopped(&self, nodes: &[Named]) -> Result<Vec<NodeId>, Status> {
        for &Named { node, ref name } in nodes {
            let is_connected = move |driver: &CoordinatorDriver| driver.is_connected(node);
            if self.query(is_connected).await? {
                return Err(Status::aborted(format!(
                    "the agent of '{name}' is running: stop it first"
                )));
            }
        }
        Ok(nodes.iter().map(|named| named.node).collect())
    }

    /// Refuses to remove what holds chunks of objects to be: they are recorded once the put ends.
    async fn check_unused(&self, nodes: &[Named]) -> Result<(), Status> {
        for &Named { node, ref name } in nodes {
            let uncommitted = move |driver: &CoordinatorDriver| driver.uncommitted_on(node);
            let chunks = self.query(uncommitted).await?;
            if chunks > 0 {
                return Err(Status::aborted(format!(
                    "'{name}' cannot be removed: puts that have not ended have places for {chunks} \
                     chunks on it: wait for their end"
                )));
            }
        }
        Ok(())
    }

    async fn replace(&self, nodes: &[Named], is_forced: bool) -> Result<(), Status> {
        let ids = self.check_stopped(nodes).await?;
        let _judging = self.judging.lock().await;
        if !is_forced {
            self.check_harmless(NodeAction::Replace, nodes).await?;
        }
        Ok(self.metadata.ask(move |store| store.replace_nodes(&ids)).await?)
    }

    async fn remove(&self, nodes: &[Named]) -> Result<(), Status> {
        let ids = self.check_stopped(nodes).await?;
        self.check_unused(nodes).await?;
        let removed = self.metadata.ask(move |store| store.remove_nodes(&ids)).await;
        removed.map_err(|error| match error {
            MetadataError::NodeHolds { node, .. } => {
                let name = nodes.iter().find(|named| named.node == node);
                let name = name.map_or("", |named| &named.name);
                Status::aborted(format!("'{name}' cannot be removed: {error}"))
            }
            error => error.into(),
        })
    }
}

/// Refuses a command that means nothing for a node as it is: once it is taken back it will.
fn check_known(intent: &Intent, action: NodeAction, named: &Named) -> Result<(), Status> {
    let Named { node, name } = named;
    if intent.removed.contains(node) {
        let name = quoted(name);
        return Err(Status::not_found(format!(
            "node {name} was removed: it is back once its agent joins"
        )));
    }
    let other = match action {
        NodeAction::Drain | NodeAction::Pause if intent.failed.contains(node) => {
            "counts as failed, and its chunks as lost"
        }
        NodeAction::Pause if intent.draining.contains(node) => "is being drained",
        _ => return Ok(()),
    };
    Err(Status::aborted(format!("{name} {other}: return it first (suture node return {name})")))
}

/// What is commanded of each node.
pub type CommandOf = Box<dyn Fn(NodeId) -> Command + Send + Sync>;

/// What a command has the metadata keep, and the core do.
///
/// # Errors
/// When a pause lasts for no time, or for too long.
pub fn intended(command: &proto::NodeCommand) -> Result<(KeptIntent, CommandOf), Status> {
    Ok(match command.action() {
        NodeAction::Fail => (KeptIntent::Failed, Box::new(Command::FailNode)),
        NodeAction::Drain => (KeptIntent::Draining, Box::new(Command::DrainNode)),
        NodeAction::Pause => {
            let most = PAUSE_MAX.as_secs_f64();
            let seconds = command.seconds;
            if !(seconds > 0.0 && seconds <= most) {
                return Err(Status::invalid_argument(format!(
                    "a pause lasts up to {} days: drain a node that is away for longer",
                    PAUSE_MAX.as_secs() / 86400
                )));
            }
            let span = Span { ns: (seconds * 1e9) as u64 };
            let until = seconds_since_1970() + seconds.ceil() as u64;
            let pause = move |node| Command::PauseNode { node, span };
            (KeptIntent::Paused { until }, Box::new(pause))
        }
        _ => (KeptIntent::Serving, Box::new(Command::ReturnNode)),
    })
}
