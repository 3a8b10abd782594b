//! `suture agent`: keeps chunks, serves them, and takes its part in repairs.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use suture_drivers::agent::links::RateSettings;
use suture_drivers::agent::processor;
use suture_drivers::agent::serve::ClientLimits;
use suture_drivers::agent::{self, session};
use suture_drivers::config::here::FoundHere;
use suture_drivers::config::reload::{self, ChangedKeys};
use suture_drivers::config::{AgentConfig, span};
use suture_drivers::control::join::{self, Introduction, Left, Welcome};
use suture_drivers::control::membership::Membership;
use suture_drivers::data_dir::file_system;
use suture_drivers::hdfs::datanode::{DataNodeClient, DataNodeError, DataNodeHello};
use suture_drivers::hdfs::link::store_id;
use suture_drivers::hdfs::store::HdfsStore;
use suture_drivers::identity::AccessRole;
use suture_drivers::identity::credentials::Kept;
use suture_drivers::limit::Rates;
use suture_drivers::metrics::agent::AgentMetrics;
use suture_drivers::record::RecordTo;
use suture_drivers::store::{self, DataDir, Identity, OpenError, Store};
use suture_edge::error::bad_input;
use suture_repair::chunk_store::ChunkStore;
use suture_repair::processor::Processor;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tracing::{info, warn};

use crate::daemon::{self, Reloads, Stop};
use crate::log;
use crate::outcome::Outcome;
use crate::service_manager::ServiceManager;

/// How often a DataNode that is not there yet is looked for.
const DATANODE_RETRY: Duration = Duration::from_millis(500);

/// Run an agent: it stores chunks in its data_dir and takes part in repairs.
///
/// Prints `listening on ADDRESS` when others can connect, waits for its coordinator for as long as
/// it takes, and logs to stderr (SUTURE_LOG=debug for more).
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: daemon::ConfigArgs,
    /// Exit when standard input closes, as it does when the parent process ends
    #[arg(long)]
    until_stdin_closes: bool,
    /// Start with a new data_dir although the cluster knows another one under this name: what that
    /// holds counts as lost and is rebuilt from others. Refused where it could be needed still
    #[arg(long)]
    new: bool,
    #[command(flatten)]
    record: daemon::RecordArgs,
}

/// Serves chunks until a signal ends it.
///
/// # Errors
/// Bad input for a configuration, data directory or address that cannot be used, and for a refusal
/// by the coordinator; a failure when the store or the network fails.
pub fn run(args: Args) -> Result<Outcome> {
    let path = args.config.path(daemon::AGENT_CONFIG);
    let path = path.as_deref();
    let config = path.map(AgentConfig::read).transpose()?.unwrap_or_default();
    log::begin_of_daemon();
    daemon::log_whole_path(&config.data_dir);
    let FoundHere { faults, advice } = config.found_here();
    faults.iter().chain(&advice).for_each(|found| warn!("{found}"));
    daemon::raise_descriptor_limit()?;
    daemon::block_on_runtime(agent::runtime(config.threads()), serve(config, path, args))
}

async fn serve(config: AgentConfig, path: Option<&Path>, args: Args) -> Result<Outcome> {
    let record = args.record.target()?;
    let mut stop = Stop::new(args.until_stdin_closes)?;
    let reloads = Reloads::new()?;
    let as_read = config.clone();
    let mut config = config;
    let manager = ServiceManager::from_environment();
    let mut datanode = None;
    if config.hdfs.socket.is_some() {
        // A machine that boots must not wait for another service.
        manager.ready(&format!("waiting for {}", shown(&config)));
        datanode = tokio::select! {
            found = find_datanode(&mut config) => Some(found?),
            () = stop.requested() => return Ok(Outcome::Done),
            () = manager.keep_alive(|| std::future::ready(true)) => return Ok(Outcome::Done),
        };
    }
    // Before the node announces itself: what it has may belong elsewhere, or be of no use.
    let data_dir = open_data_dir(&config, args.new)?;
    let credentials = daemon::credentials(config.credentials.as_deref(), AccessRole::Agent)?;
    check_own(&config, credentials.as_deref())?;
    let is_open = config.insecure || credentials.is_some();
    let listener = daemon::listen(config.listen, is_open).await?;
    let monitored = daemon::listen_for_http(config.metrics, is_open, daemon::METRICS).await?;
    let metrics = AgentMetrics::new(credentials.clone());
    let counted = metrics.clone();
    daemon::serve_metrics(monitored, credentials.clone(), move || {
        std::future::ready(Some(counted.write()))
    });
    let listener = listener.into_std().context("cannot keep the listener")?;
    let address = listener.local_addr().context("cannot read the address of the listener")?;
    outln!("listening on {address}");
    let mut me = introduction(&config, address, &data_dir);
    me.takes_name = args.new;
    me.processor = measured_processor(config.cores()).await;
    if let Some(hello) = &datanode {
        me.store = Some(store_id(&hello.node));
    }
    me.credentials = credentials.clone();
    me.membership = Membership::read(&config.data_dir)
        .with_context(|| format!("cannot use '{}'", config.data_dir.display()))?;
    let chunks = Chunks::Unclaimed(data_dir);
    let (sent, caps) = watch::channel(config.rates().repair);
    let followed = follow(reloads, path, as_read, sent);
    let mut agent = AgentProcess {
        config,
        caps,
        record,
        listener,
        stop,
        chunks,
        credentials,
        datanode,
        metrics,
    };
    // Also without a coordinator: a machine that boots must not wait for another one.
    manager.ready(&format!("listening on {address}"));
    let ended = tokio::select! {
        ended = agent.serve_on(&mut me) => ended,
        // Whatever keeps the one thread busy keeps this from answering too.
        () = manager.keep_alive(|| std::future::ready(true)) => Ok(Outcome::Done),
        () = followed => Ok(Outcome::Done),
    };
    manager.stopping();
    ended
}

/// Has what is configured anew hold, as far as it can, for as long as it is polled.
async fn follow(
    mut reloads: Reloads,
    path: Option<&Path>,
    mut running: AgentConfig,
    caps: watch::Sender<Option<u64>>,
) {
    loop {
        let read = reloads.next(path, AgentConfig::read).await;
        let is_live = reload::is_live_in_agent;
        daemon::log_changed(&ChangedKeys::between(&running.shown(), &read.shown(), is_live));
        running.repair_cap = read.repair_cap;
        caps.send_replace(read.rates().repair);
    }
}

/// What outlives a change of the node's number.
struct AgentProcess {
    config: AgentConfig,
    /// What repair may move by the configuration as it is now.
    caps: watch::Receiver<Option<u64>>,
    record: Option<RecordTo>,
    listener: std::net::TcpListener,
    stop: Stop,
    chunks: Chunks,
    credentials: Option<Arc<Kept>>,
    datanode: Option<DataNodeHello>,
    metrics: Arc<AgentMetrics>,
}

/// What the agent keeps chunks in.
enum Chunks {
    /// No cluster has welcomed it yet.
    Unclaimed(DataDir),
    Claimed(Arc<Store>),
    /// It could not be claimed.
    Lost,
}

impl AgentProcess {
    /// Serves under one number after the other, until a signal ends it.
    async fn serve_on(&mut self, me: &mut Introduction) -> Result<Outcome> {
        loop {
            match self.serve(me).await? {
                Some(Left::Renumbered) => info!("beginning anew under the new number"),
                Some(Left::Ended) => return Err(anyhow!("the session ended")),
                None => return Ok(Outcome::Done),
            }
        }
    }

    /// Serves under the number that the cluster has for this node, until a signal ends it (nothing)
    /// or its membership ends.
    async fn serve(&mut self, me: &mut Introduction) -> Result<Option<Left>> {
        let (session, feed) = session::session();
        let (welcome, welcomed) = oneshot::channel();
        let membership = tokio::spawn(join::keep(me.clone(), feed, welcome));
        let joined = tokio::select! {
            () = self.stop.requested() => return Ok(None),
            joined = welcomed => joined,
        };
        // No coordinator accepts a membership that has ended; it reports why.
        let Ok(joined) = joined else { return membership.await?.map(Some) };
        let store = self.store(joined)?;
        // From here on it is known there, and no longer new.
        (me.cluster, me.takes_name) = (Some(joined.cluster), false);
        let listening = self.listener.local_addr().context("cannot read the listener's address")?;
        let listener = self.listener.try_clone().and_then(TcpListener::from_std);
        let listener = listener.context("cannot keep the listener")?;
        let repair = *self.caps.borrow_and_update();
        let config = agent::Config {
            record: self.record.clone(),
            credentials: self.credentials.clone(),
            links: link_settings(&self.config, listening),
            rates: Rates { repair, ..self.config.rates() },
            repair_caps: self.caps.clone(),
            ..agent_config(&self.config, joined, self.metrics.clone())
        };
        agent::run(config, store, session, listener, self.stop.requested())
            .await
            .context("the agent cannot go on")?;
        if membership.is_finished() {
            return membership.await?.map(Some);
        }
        info!("stopped");
        Ok(None)
    }

    /// Where the chunks are: in the data_dir, or in the DataNode of this machine.
    fn store(&mut self, joined: Welcome) -> Result<Arc<dyn ChunkStore>> {
        let native = self.claim(joined)?;
        let Some(hello) = &self.datanode else { return Ok(native) };
        let pool = block_pool(&self.config, hello)?;
        let datanode = datanode_client(&self.config)?;
        Ok(Arc::new(HdfsStore::new(datanode, &pool, &self.config.data_dir)))
    }

    /// The chunks, which are the same under every number.
    fn claim(&mut self, joined: Welcome) -> Result<Arc<Store>> {
        let (name, cluster) = (self.config.name(), joined.cluster);
        let store = match std::mem::replace(&mut self.chunks, Chunks::Lost) {
            Chunks::Claimed(store) => store,
            Chunks::Unclaimed(data_dir) => {
                let identity = Identity { cluster, node: name.clone() };
                let store = data_dir.claim(&identity).map_err(anyhow::Error::from);
                let cannot = || format!("cannot use '{}'", self.config.data_dir.display());
                let mut store = store.with_context(cannot)?;
                store.keep_free(self.config.keep_free);
                Arc::new(store)
            }
            Chunks::Lost => unreachable!("an agent that cannot claim its chunks ends"),
        };
        self.chunks = Chunks::Claimed(store.clone());
        info!(name, node = %joined.node, %cluster, "in the cluster");
        Ok(store)
    }
}

fn datanode_client(config: &AgentConfig) -> Result<DataNodeClient> {
    let socket = config.hdfs.socket.as_deref().unwrap_or(Path::new(""));
    DataNodeClient::new(socket, config.hdfs.user.as_deref()).map_err(bad_input)
}

/// Waits for the DataNode of this machine, and takes its name, which is the node's.
async fn find_datanode(config: &mut AgentConfig) -> Result<DataNodeHello> {
    let client = Arc::new(datanode_client(config)?);
    let mut said = String::new();
    let hello = loop {
        let asked = client.clone();
        let found = tokio::task::spawn_blocking(move || asked.hello()).await?;
        let registered = |hello: &DataNodeHello| !hello.node.is_empty() && !hello.pools.is_empty();
        match found {
            Ok(hello) if registered(&hello) => break hello,
            // Any other refusal is one of a DataNode that starts.
            Err(DataNodeError::Refused(why)) if why.error == "refused" => {
                return Err(bad_input(why.why));
            }
            // What is wrong may be another thing once the first is mended.
            Err(error) if error.to_string() != said => {
                warn!("{}: {error}; waiting for it", shown(config));
                said = error.to_string();
            }
            Ok(_) | Err(_) => {}
        }
        tokio::time::sleep(DATANODE_RETRY).await;
    };
    if config.name.as_ref().is_some_and(|name| *name != hello.name) {
        return Err(bad_input(format!(
            "the node of a DataNode has its name, {}, not {}: correct or leave out name",
            hello.name,
            config.name()
        )));
    }
    config.name = Some(hello.name.clone());
    Ok(hello)
}

fn shown(config: &AgentConfig) -> String {
    config.hdfs.socket.as_deref().unwrap_or(Path::new("")).display().to_string()
}

/// The block pool whose blocks are the chunks.
fn block_pool(config: &AgentConfig, hello: &DataNodeHello) -> Result<String> {
    match (&config.hdfs.pool, &hello.pools[..]) {
        (Some(pool), pools) if pools.contains(pool) => Ok(pool.clone()),
        (None, [pool]) => Ok(pool.clone()),
        (_, pools) => Err(bad_input(format!(
            "the DataNode has blocks of {}: name one of them as [hdfs] pool",
            pools.join(", ")
        ))),
    }
}

/// The directory for the chunks; refused when it is not this node's, and when `new` is said of one
/// that is not new.
fn open_data_dir(config: &AgentConfig, new: bool) -> Result<DataDir> {
    let shown = config.data_dir.display();
    let cannot = |error| match error {
        OpenError::Unidentified(_) => bad_input(error),
        // It is named already.
        OpenError::Io { path, source } if path.starts_with(&config.data_dir) => {
            anyhow::Error::from(source).context(format!("cannot use '{}'", path.display()))
        }
        error => anyhow::Error::from(error).context(format!("cannot use '{shown}'")),
    };
    if config.data_dir.exists() && !config.data_dir.is_dir() {
        return Err(anyhow!("cannot use '{shown}': it is not a directory"));
    }
    // Nothing is made or removed in the directory of another.
    if let Some(Identity { node, .. }) = store::identity(&config.data_dir).map_err(cannot)? {
        if node != config.name() {
            return Err(bad_input(format!(
                "'{shown}' holds the chunks of node '{node}', not of '{}': correct name or data_dir",
                config.name()
            )));
        }
        if new {
            return Err(bad_input(format!(
                "'{shown}' holds the chunks of node '{node}' already: start without --new"
            )));
        }
    }
    DataDir::open(&config.data_dir).map_err(cannot)
}

fn introduction(config: &AgentConfig, listening: SocketAddr, data_dir: &DataDir) -> Introduction {
    let links = config.links();
    Introduction {
        coordinator: config.coordinator.clone(),
        name: config.name(),
        rack: config.rack.clone(),
        data_address: config.advertise.unwrap_or(listening),
        uplink: links.uplink,
        downlink: links.downlink,
        cluster: data_dir.identity().map(|identity| identity.cluster),
        store: data_dir.id(),
        takes_name: false,
        heartbeat: config.timers.heartbeat,
        membership: None,
        mark: None,
        data_dir: config.data_dir.clone(),
        // A DataNode has folders of its own, often several.
        file_system: match config.hdfs.socket {
            None => file_system(&config.data_dir),
            Some(_) => None,
        },
        credentials: None,
        processor: None,
    }
}

/// What so many cores of this machine's processor take for a repair.
async fn measured_processor(cores: f64) -> Option<Processor> {
    let measured = tokio::task::spawn_blocking(move || processor::measure(cores)).await;
    let measured = measured.ok().flatten();
    match &measured {
        Some(processor) => info!(cores, costs = ?processor.costs(), "processor"),
        None => warn!("cannot measure the processor: plans count as if nothing waited for it"),
    }
    measured
}

/// Refuses a certificate of another node: no peer would accept this one.
///
/// # Errors
/// Bad input for such a one.
pub fn check_own(config: &AgentConfig, credentials: Option<&Kept>) -> Result<()> {
    let Some(kept) = credentials else { return Ok(()) };
    let (found, name) = (&kept.current().own.principal.name, config.name());
    if *found == name {
        return Ok(());
    }
    Err(bad_input(format!(
        "the certificate in '{}' is node {found}'s, and this is node {name}: correct name or \
         credentials",
        config.credentials.as_deref().unwrap_or(Path::new("")).display(),
    )))
}

/// How links are measured by an agent that listens there.
fn link_settings(config: &AgentConfig, listening: SocketAddr) -> RateSettings {
    RateSettings {
        address: config.advertise.unwrap_or(listening).ip(),
        probes: config.rates.probe,
        has_uplink: config.uplink.is_some(),
        has_downlink: config.downlink.is_some(),
        dscp: config.repair_dscp,
    }
}

/// A number that no other start of this agent has: two are further apart than a nanosecond. A clock
/// that stands before 1970 shows none, so that it is drawn.
fn incarnation(now: SystemTime) -> u64 {
    match now.duration_since(UNIX_EPOCH) {
        Ok(since_1970) => since_1970.as_nanos() as u64,
        // Sessions are numbered from there on.
        Err(_) => RandomState::new().build_hasher().finish() >> 1,
    }
}

fn agent_config(
    config: &AgentConfig,
    joined: Welcome,
    metrics: Arc<AgentMetrics>,
) -> agent::Config {
    agent::Config {
        me: joined.node,
        cluster: joined.cluster,
        incarnation: incarnation(SystemTime::now()),
        pool_bytes: config.pool_bytes(),
        heartbeat_every: span(config.timers.heartbeat),
        stall_after: span(config.timers.stall),
        inventory_every: span(config.timers.inventory),
        disk_hangs_after: config.timers.disk_hangs,
        rates: config.rates(),
        repair_caps: watch::channel(None).1,
        links: Default::default(),
        spool_dir: config.data_dir.clone(),
        record: None,
        credentials: None,
        clients: ClientLimits::default(),
        metrics,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_have_other_numbers_by_the_clock_and_without_one() {
        assert_eq!(incarnation(UNIX_EPOCH + Duration::from_nanos(7)), 7);
        let before = UNIX_EPOCH - Duration::from_secs(1);
        let numbers = [incarnation(before), incarnation(before)];
        assert!(numbers[0] != numbers[1] && numbers.iter().all(|number| *number <= u64::MAX >> 1));
    }
}
