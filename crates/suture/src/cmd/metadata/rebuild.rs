//! `suture metadata rebuild`: the map of what is stored, from what the agents hold.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::json;
use suture_drivers::address::AgentAddress;
use suture_drivers::config::CoordinatorConfig;
use suture_drivers::control::acceptor::{self, ControlLimits};
use suture_drivers::control::service::ControlService;
use suture_drivers::coordinator::refused::RefusedAgent;
use suture_drivers::coordinator::{CoordinatorDriver, Handle, Listings, inbox};
use suture_drivers::identity::AccessRole;
use suture_drivers::identity::credentials::Kept;
use suture_drivers::metadata::unfinished::Unfinished;
use suture_drivers::metadata::{
    Added, Incomplete, Leftovers, Metadata, MetadataError, MetadataStore,
};
use suture_drivers::put_key::PutKey;
use suture_drivers::rebuild::{self, IncompleteObject};
use suture_edge::error::bad_input;
use suture_edge::units::{format_estimate, format_size, parse_time};
use suture_repair::event::Command;
use suture_repair::id::NodeId;
use suture_repair::wire::ClusterId;
use suture_terminal::output::{Format, counted, print_json};
use suture_terminal::progress::Progress;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::cmd::coordinator::{CHANGES_MAX, load};
use crate::daemon::{self, ConfigArgs, Stop};
use crate::log;
use crate::outcome::Outcome;

/// How often it is looked whether more agents have listed what they hold.
const POLL_EVERY: Duration = Duration::from_millis(100);

/// Lines that name what was left out.
const SHOWN: usize = 20;

/// Reasons that are given why agents could not be asked.
const REASONS: usize = 3;

#[derive(clap::Args)]
pub struct RebuildArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Continue once so many agents have listed what they hold
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    agents: Option<u64>,
    /// Continue when no further agent has joined for so long
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse_time)]
    wait: f64,
    /// The cluster whose agents to take; others are refused [default: that of the existing
    /// metadata, or of all agents that join]
    #[arg(long, value_name = "HEX", value_parser = parse_cluster)]
    cluster: Option<ClusterId>,
    /// Let chunks be deleted that belong to no object in the end; only when all of --agents agents
    /// have joined
    #[arg(long, requires = "agents")]
    forget_rest: bool,
    /// What to print: lines for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// A cluster as `status` and messages write it.
fn parse_cluster(text: &str) -> Result<ClusterId, String> {
    let number = (text.len() == 16).then(|| u64::from_str_radix(text, 16).ok()).flatten();
    number.map(ClusterId).ok_or_else(|| "a cluster is 16 hexadecimal digits".into())
}

/// Which agents have reported, and what became of what they hold.
struct Recovered {
    cluster: ClusterId,
    agents: Vec<String>,
    /// How many agents should have come, if that was said.
    wanted: Option<u64>,
    refused: Vec<RefusedAgent>,
    /// Stripes that the metadata knew before.
    known: u64,
    added: Added,
    incomplete: Vec<IncompleteObject>,
    unlabelled: u64,
    /// Stripes whose chunks could not all be asked, and why nodes could not be.
    unread: u64,
    unasked: Vec<String>,
    /// Whether what belongs to no object is to be deleted.
    is_rest_forgotten: bool,
}

/// Makes the map again from labels, or completes it by them.
///
/// # Errors
/// Bad input for a configuration that cannot be used; a failure when a coordinator runs, no agent
/// comes, or the metadata cannot be written. What was there stays as it was.
pub fn run(args: &RebuildArgs) -> Result<Outcome> {
    let config = daemon::coordinator_config(&args.config)?;
    daemon::check_owner(&config.data_dir)?;
    // What a coordinator would warn of is as expected here.
    log::begin("error");
    daemon::raise_descriptor_limit()?;
    daemon::block_on(async {
        let mut stop = Stop::new(false)?;
        let credentials =
            daemon::credentials(config.credentials.as_deref(), AccessRole::Coordinator)?;
        let is_open = config.insecure || credentials.is_some();
        let listener = daemon::listen(config.listen, is_open).await?;
        let found = tokio::select! {
            found = rebuild(args, &config, listener, credentials) => found?,
            () = stop.requested() => bail!("ended before it was done: no object was added"),
        };
        show(args.format, &found)
    })
}

/// Serves the agents as a coordinator does that starts no repair, and records what they hold.
async fn rebuild(
    args: &RebuildArgs,
    config: &CoordinatorConfig,
    listener: TcpListener,
    credentials: Option<Arc<Kept>>,
) -> Result<Recovered> {
    let unfinished = Unfinished::begin(&config.data_dir)?;
    let dir = unfinished.as_ref().map_or(config.data_dir.as_path(), Unfinished::folder);
    let mut store = MetadataStore::open(dir, Incomplete::Accept)?;
    let cluster = match (unfinished.is_none().then(|| store.cluster()), args.cluster) {
        (Some(ours), Some(wanted)) if ours != wanted => {
            return Err(bad_input(format!(
                "the metadata in '{}' are of cluster {ours}, not of {wanted}: give another data_dir, or no --cluster",
                config.data_dir.display()
            )));
        }
        (None, Some(wanted)) => {
            store.take_cluster(wanted)?;
            Some(wanted)
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
        found = collect(args, is_chosen, &metadata, &coordinator, credentials) => found?,
    };
    metadata.close().await?;
    unfinished.map_or(Ok(()), Unfinished::finish)?;
    Ok(found)
}

/// Waits for agents, reads labels, and adds what they describe.
async fn collect(
    args: &RebuildArgs,
    is_chosen: bool,
    metadata: &Metadata,
    coordinator: &Handle,
    credentials: Option<Arc<Kept>>,
) -> Result<Recovered> {
    coordinator.apply(Command::Pause).await;
    let Listed { listings, addresses, names, refused } = listed(args, coordinator).await?;
    if !is_chosen {
        check_one_cluster(metadata, &names, &refused).await?;
    }
    let known = metadata.ask(|store| store.stripe_ids()).await?;
    let cluster = metadata.ask(|store| Ok::<_, MetadataError>(store.cluster())).await?;
    let copies = rebuild::copies_of_unknown(&listings, &known);
    let progress = Progress::stripes(args.format, "reading labels");
    let (mut done, all) = (0, copies.len() as u64);
    let labels = rebuild::read_labels(cluster, &addresses, credentials, copies, || {
        done += 1;
        progress.set(done, all, "read".into());
    });
    let labels = labels.await;
    drop(progress);
    let rebuilt = rebuild::objects_of(labels.stripes);
    let unasked: Vec<String> = labels.unasked.into_values().collect();
    let leftovers = leftovers(args, rebuilt.unread, &unasked)?;
    let found = rebuilt.objects;
    let added = metadata.ask(move |store| store.add_found(&found, leftovers)).await?;
    let (incomplete, unlabelled, unread) = (rebuilt.incomplete, rebuilt.unlabelled, rebuilt.unread);
    Ok(Recovered {
        cluster,
        agents: names,
        wanted: args.agents,
        refused,
        known: known.len() as u64,
        added,
        incomplete,
        unlabelled,
        unread,
        unasked,
        is_rest_forgotten: args.forget_rest,
    })
}

/// What is to become of chunks that belong to no object. They are not deleted where some could not
/// even be asked which object they are of.
///
/// # Errors
/// When they are to be deleted, and some could not be asked.
fn leftovers(args: &RebuildArgs, unread: u64, unasked: &[String]) -> Result<Leftovers> {
    if !args.forget_rest {
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

/// The first few reasons why agents could not be asked.
fn reasons(unasked: &[String]) -> String {
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
async fn listed(args: &RebuildArgs, coordinator: &Handle) -> Result<Listed> {
    let progress = Progress::waiting(args.format);
    let (mut before, mut since) = (0, Instant::now());
    loop {
        let count = |driver: &CoordinatorDriver| driver.listings().map_or(0, Listings::len);
        let agents = coordinator.query(count).await.unwrap_or_default();
        if agents > before {
            (before, since) = (agents, Instant::now());
        }
        let quiet = since.elapsed().as_secs_f64();
        let left = format_estimate(args.wait - quiet);
        progress.note(format!(
            "{} listed what they hold; waiting {left} for more (Ctrl-C leaves all as it was)",
            counted(agents as u64, "agent")
        ));
        if args.agents.is_some_and(|enough| agents as u64 >= enough) || quiet >= args.wait {
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
    if let Some(all) = args.agents.filter(|all| args.forget_rest && came < *all) {
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

fn show(format: Format, found: &Recovered) -> Result<Outcome> {
    match format {
        Format::Json => print_json(&describe(found))?,
        Format::Text => print(found),
    }
    errln!("suture: {}", unlabelled_by_nature(found));
    let is_whole = found.incomplete.is_empty() && found.unlabelled == 0 && found.unread == 0;
    if is_whole && found.missing() == 0 && found.refused.is_empty() {
        Ok(Outcome::Done)
    } else {
        Ok(Outcome::Unrepairable)
    }
}

/// What is in the label of no chunk, however many are there.
fn unlabelled_by_nature(found: &Recovered) -> String {
    let beside = if found.known > 0 { " beside what the metadata had" } else { "" };
    format!(
        "what has no chunks is not found{beside}: objects of no bytes, and what operators declared \
         of nodes and repairs"
    )
}

impl Recovered {
    /// How many agents have not come.
    fn missing(&self) -> u64 {
        self.wanted.unwrap_or_default().saturating_sub(self.agents.len() as u64)
    }
}

fn describe(found: &Recovered) -> serde_json::Value {
    let incomplete = found.incomplete.iter().map(|object| {
        json!({"object": object.name, "found_stripes": object.found, "stripes": object.stripes})
    });
    let renamed = found.added.renamed.iter().map(|(was, is)| json!({"was": was, "is": is}));
    let refused = found.refused.iter().map(|agent| json!({"name": agent.name, "why": agent.why}));
    json!({
        "cluster": found.cluster.to_string(),
        "agents": found.agents,
        "missing_agents": found.missing(),
        "refused_agents": refused.collect::<Vec<_>>(),
        "known_stripes": found.known,
        "damaged_objects": found.added.damaged,
        "objects": found.added.objects,
        "stripes": found.added.stripes,
        "bytes": found.added.bytes,
        "renamed": renamed.collect::<Vec<_>>(),
        "incomplete": incomplete.collect::<Vec<_>>(),
        "unlabelled_stripes": found.unlabelled,
        "unread_stripes": found.unread,
        "unasked": found.unasked,
    })
}

fn print(found: &Recovered) {
    let Added { objects, stripes, bytes, renamed, damaged } = &found.added;
    outln!(
        "cluster {}: {} listed what they hold: {}",
        found.cluster,
        counted(found.agents.len() as u64, "agent"),
        found.agents.join(", ")
    );
    if found.missing() > 0 {
        let missing = counted(found.missing(), "agent");
        outln!(
            "{missing} of {} did not come: what only they hold is not in the metadata",
            found.wanted.unwrap_or_default()
        );
    }
    if *damaged > 0 {
        outln!(
            "{} of the metadata were damaged: removed, to be added again",
            counted(*damaged, "object")
        );
    }
    for RefusedAgent { name, why, .. } in &found.refused {
        outln!("agent '{name}' was refused: {why}");
    }
    outln!(
        "added {} in {} ({}); {} known before",
        counted(*objects, "object"),
        counted(*stripes, "stripe"),
        format_size(*bytes),
        counted(found.known, "stripe")
    );
    for (was, is) in renamed.iter().take(SHOWN) {
        outln!("there are two objects '{was}': the older or unreadable one is '{is}' now");
    }
    for object in found.incomplete.iter().take(SHOWN) {
        outln!("not added: {object}");
    }
    let more = found.incomplete.len().saturating_sub(SHOWN);
    if more > 0 {
        outln!("and {} more", counted(more as u64, "object"));
    }
    if found.unlabelled > 0 {
        outln!(
            "{} without a label: their chunks do not say which object they are of",
            counted(found.unlabelled, "stripe")
        );
    }
    if found.unread > 0 {
        outln!(
            "{} could not be asked for their labels: {}",
            counted(found.unread, "stripe"),
            reasons(&found.unasked)
        );
        outln!(
            "see to it that this machine reaches the agents where they serve chunks, and run this again"
        );
    }
    if found.unlabelled > 0 || !found.incomplete.is_empty() {
        let theirs = if found.is_rest_forgotten {
            "their chunks are deleted when the coordinator starts"
        } else {
            "their chunks stay as they are: start the agents that are missing and run this again; if they are permanently gone, --forget-rest lets them be deleted"
        };
        outln!("{theirs}");
    }
    outln!("start the coordinator; `suture status` shows what has to be repaired");
}
