//! The making of metadata from what agents hold, from their first word to the last object.
//!
//! Place: `suture metadata rebuild` -> [agents list what they hold -> labels -> objects]. A
//! coordinator that begins no repair serves the agents meanwhile; what was there stays until all is
//! found.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use suture_edge::error::bad_input;
use suture_edge::units::counted;
use suture_repair::event::Command;
use suture_repair::id::NodeId;
use suture_repair::wire::ClusterId;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::{IncompleteObject, copies_of_unknown, objects_of, read_labels};
use crate::address::AgentAddress;
use crate::config::CoordinatorConfig;
use crate::control::acceptor::{self, ControlLimits};
use crate::control::service::ControlService;
use crate::coordinator::load::{CHANGES_MAX, load};
use crate::coordinator::refused::RefusedAgent;
use crate::coordinator::{CoordinatorDriver, Handle, Listings, inbox};
use crate::identity::credentials::Kept;
use crate::metadata::unfinished::Unfinished;
use crate::metadata::{Added, Incomplete, Leftovers, Metadata, MetadataError, MetadataStore};
use crate::put_key::PutKey;

/// How often it is looked whether more agents have listed what they hold.
const POLL_EVERY: Duration = Duration::from_millis(100);

/// Reasons that are given why agents could not be asked.
const REASONS: usize = 3;

/// What is to be made again, and from whom.
#[derive(Clone, Copy, Debug)]
pub struct RecoveryWanted {
    /// Agents that are enough.
    pub agents: Option<u64>,
    /// How long to wait for one more, in seconds.
    pub wait: f64,
    /// The cluster whose agents are taken; none: that of the metadata, or of all that come.
    pub cluster: Option<ClusterId>,
    /// Whether what belongs to no object is to be deleted.
    pub forget_rest: bool,
}

/// How far the recovery has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RecoveryStep {
    /// So many agents have listed what they hold, and no other is waited for after that time.
    Listed {
        /// How many there are so far.
        agents: u64,
        /// For how long another one is waited for, in seconds.
        left: f64,
    },
    /// The labels of so many stripes were read.
    Read {
        /// How many there are so far.
        done: u64,
        /// How many there are in all.
        all: u64,
    },
}

/// Called at every step.
pub type Listener<'a> = dyn Fn(RecoveryStep) + Send + Sync + 'a;

/// Which agents have reported, and what became of what they hold.
#[derive(Debug)]
pub struct Recovered {
    /// The cluster whose metadata they are.
    pub cluster: ClusterId,
    /// The names of the agents that came.
    pub agents: Vec<String>,
    /// How many agents should have come, if that was said.
    pub wanted: Option<u64>,
    /// Agents that were refused.
    pub refused: Vec<RefusedAgent>,
    /// Stripes that the metadata knew before.
    pub known: u64,
    /// What was added to the metadata.
    pub added: Added,
    /// Objects of which stripes were not found.
    pub incomplete: Vec<IncompleteObject>,
    /// Stripes whose chunks have no label.
    pub unlabelled: u64,
    /// Stripes whose chunks could not all be asked.
    pub unread: u64,
    /// Why nodes could not be asked.
    pub unasked: Vec<String>,
    /// Whether what belongs to no object is to be deleted.
    pub is_rest_forgotten: bool,
}

/// Serves the agents as a coordinator does that starts no repair, and records what they hold.
///
/// # Errors
/// Bad input where the metadata are of another cluster; a failure when no agent comes, agents of
/// several clusters do, or the metadata cannot be written. What was there stays as it was.
pub async fn recover(
    wanted: &RecoveryWanted,
    on_step: &Listener<'_>,
    config: &CoordinatorConfig,
    listener: TcpListener,
    credentials: Option<Arc<Kept>>,
) -> Result<Recovered> {
    let unfinished = Unfinished::begin(&config.data_dir)?;
    let dir = unfinished.as_ref().map_or(config.data_dir.as_path(), Unfinished::folder);
    let mut store = MetadataStore::open(dir, Incomplete::Accept)?;
    let cluster = match (unfinished.is_none().then(|| store.cluster()), wanted.cluster) {
        (Some(ours), Some(other)) if ours != other => {
            return Err(bad_input(format!(
                "the metadata in '{}' are of cluster {ours}, not of {other}: give another data_dir, or no --cluster",
                config.data_dir.display()
            )));
        }
        (None, Some(chosen)) => {
            store.take_cluster(chosen)?;
            Some(chosen)
        }
        (ours, _) => ours,
    };
    let is_chosen = cluster.is_some();
    store.set_damaged_aside();
    let (core, nodes) = load(config, &mut store, None)?;
    let (changes, received) = mpsc::channel(CHANGES_MAX);
    let metadata = Metadata::start(store, changes);
    let (coordinator, inbox) = inbox(received);
    let mut driver = CoordinatorDriver::new(core, metadata.clone(), nodes);
    driver.keep_listings();
    let put_key = PutKey::random().context("the system has no random bits")?;
    let service =
        ControlService::rebuilding(metadata.clone(), coordinator.clone(), cluster, put_key);
    let found = tokio::select! {
        () = driver.run(inbox) => bail!("the coordinator ended"),
        ended = acceptor::serve(listener, service, ControlLimits::default(), credentials.clone()) => {
            return ended.and_then(|()| bail!("nobody listens any more"));
        }
        found = collect(wanted, on_step, is_chosen, &metadata, &coordinator, credentials) => found?,
    };
    metadata.close().await?;
    unfinished.map_or(Ok(()), Unfinished::finish)?;
    Ok(found)
}

/// Waits for agents, reads labels, and adds what they describe.
async fn collect(
    wanted: &RecoveryWanted,
    on_step: &Listener<'_>,
    is_chosen: bool,
    metadata: &Metadata,
    coordinator: &Handle,
    credentials: Option<Arc<Kept>>,
) -> Result<Recovered> {
    coordinator.apply(Command::Pause).await;
    let Listed { listings, addresses, names, refused } =
        listed(wanted, on_step, coordinator).await?;
    if !is_chosen {
        check_one_cluster(metadata, &names, &refused).await?;
    }
    let known = metadata.ask(|store| store.stripe_ids()).await?;
    let cluster = metadata.ask(|store| Ok::<_, MetadataError>(store.cluster())).await?;
    let copies = copies_of_unknown(&listings, &known);
    let (mut done, all) = (0, copies.len() as u64);
    let labels = read_labels(cluster, &addresses, credentials, copies, || {
        done += 1;
        on_step(RecoveryStep::Read { done, all });
    });
    let labels = labels.await;
    let rebuilt = objects_of(labels.stripes);
    let unasked: Vec<String> = labels.unasked.into_values().collect();
    let leftovers = leftovers(wanted, rebuilt.unread, &unasked)?;
    let found = rebuilt.objects;
    let added = metadata.ask(move |store| store.add_found(&found, leftovers)).await?;
    let (incomplete, unlabelled, unread) = (rebuilt.incomplete, rebuilt.unlabelled, rebuilt.unread);
    Ok(Recovered {
        cluster,
        agents: names,
        wanted: wanted.agents,
        refused,
        known: known.len() as u64,
        added,
        incomplete,
        unlabelled,
        unread,
        unasked,
        is_rest_forgotten: wanted.forget_rest,
    })
}

/// What is to become of chunks that belong to no object. They are not deleted where some could not
/// even be asked which object they are of.
///
/// # Errors
/// When they are to be deleted, and some could not be asked.
fn leftovers(wanted: &RecoveryWanted, unread: u64, unasked: &[String]) -> Result<Leftovers> {
    if !wanted.forget_rest {
        return Ok(Leftovers::Keep);
    }
    if unread > 0 {
        bail!(
            "of {} no label could be read ({}), and --forget-rest would have their chunks deleted: nothing was changed; see to it that this machine reaches the agents where they serve chunks, and run this again",
            counted(unread, "stripe"),
            reasons(unasked)
        );
    }
    Ok(Leftovers::Forget)
}

/// The first few reasons why agents could not be asked, as one text.
pub fn reasons(unasked: &[String]) -> String {
    let more = unasked.len().saturating_sub(REASONS);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let shown: Vec<&str> = unasked.iter().take(REASONS).map(String::as_str).collect();
    shown.join("; ") + &more
}

/// Makes sure that the cluster is not just that of the agent that came first.
async fn check_one_cluster(
    metadata: &Metadata,
    names: &[String],
    refused: &[RefusedAgent],
) -> Result<()> {
    let ours = metadata.ask(|store| Ok::<_, MetadataError>(store.cluster())).await?;
    let mut of_cluster = BTreeMap::from([(ours.to_string(), names.to_vec())]);
    for agent in refused {
        let Some(cluster) = agent.cluster else { continue };
        of_cluster.entry(cluster.to_string()).or_default().push(agent.name.clone());
    }
    if of_cluster.len() == 1 {
        return Ok(());
    }
    let of_each =
        of_cluster.iter().map(|(cluster, names)| format!("{cluster} ({})", names.join(", ")));
    bail!(
        "agents of more than one cluster have come: {}: choose with --cluster whose metadata to rebuild; nothing was changed",
        of_each.collect::<Vec<_>>().join("; ")
    )
}

/// What agents hold and where they serve it.
struct Listed {
    listings: Listings,
    addresses: BTreeMap<NodeId, AgentAddress>,
    names: Vec<String>,
    refused: Vec<RefusedAgent>,
}

/// Waits until enough agents have listed what they hold, or no further one comes.
async fn listed(
    wanted: &RecoveryWanted,
    on_step: &Listener<'_>,
    coordinator: &Handle,
) -> Result<Listed> {
    let (mut before, mut since) = (0, Instant::now());
    loop {
        let count = |driver: &CoordinatorDriver| driver.listings().map_or(0, Listings::len);
        let agents = coordinator.query(count).await.unwrap_or_default();
        if agents > before {
            (before, since) = (agents, Instant::now());
        }
        let quiet = since.elapsed().as_secs_f64();
        on_step(RecoveryStep::Listed { agents: agents as u64, left: wanted.wait - quiet });
        if wanted.agents.is_some_and(|enough| agents as u64 >= enough) || quiet >= wanted.wait {
            break;
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
    let take = |driver: &CoordinatorDriver| {
        let listings = driver.listings().cloned().unwrap_or_default();
        let peers = driver.peers().into_iter().filter(|peer| listings.contains_key(&peer.node));
        let peers: Vec<_> = peers.map(|peer| (peer.node, peer.name, peer.address)).collect();
        (listings, peers, driver.refused_agents())
    };
    let (listings, peers, refused) = coordinator.query(take).await.unwrap_or_default();
    if listings.is_empty() {
        let refused = refused.iter().map(|agent| {
            let RefusedAgent { name, why, .. } = agent;
            format!("agent '{name}' was refused: {why}; ")
        });
        bail!(
            "{}no agent has come: agents join where `coordinator` of their configuration says, which must be `listen` of this one; start them, or give a longer --wait",
            refused.collect::<String>()
        );
    }
    let came = listings.len() as u64;
    if let Some(all) = wanted.agents.filter(|all| wanted.forget_rest && came < *all) {
        bail!(
            "{} of {all} have come, and the others may hold what --forget-rest would have deleted: start them, or give a longer --wait",
            counted(came, "agent")
        );
    }
    let address = |(node, name, address): &(NodeId, String, Option<String>)| {
        let addr = address.as_ref()?.parse().ok()?;
        Some((*node, AgentAddress { name: name.as_str().into(), node: Some(*node), addr }))
    };
    let addresses = peers.iter().filter_map(address).collect();
    let mut names: Vec<String> = peers.into_iter().map(|(_, name, _)| name).collect();
    names.sort();
    Ok(Listed { listings, addresses, names, refused })
}

impl Recovered {
    /// How many agents have not come.
    pub fn missing(&self) -> u64 {
        self.wanted.unwrap_or_default().saturating_sub(self.agents.len() as u64)
    }
}
