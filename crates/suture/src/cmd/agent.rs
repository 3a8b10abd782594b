//! `suture agent`: keeps chunks, serves them, and takes its part in repairs.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use suture_drivers::agent::{self, session};
use suture_drivers::config::{AgentConfig, span};
use suture_drivers::control::join::{self, Introduction, Welcome};
use suture_drivers::store::{self, Identity, Store};
use suture_edge::error::bad_input;
use tokio::sync::oneshot;
use tracing::info;

use crate::daemon::{self, Stop};
use crate::outcome::Outcome;

/// Run an agent: it keeps chunks in its data_dir and takes its part in repairs.
///
/// Prints `listening on ADDRESS` when others can connect, waits for its coordinator for as long as
/// it takes, and logs to stderr (SUTURE_LOG=debug for more).
#[derive(clap::Args)]
pub struct Args {
    /// The configuration (see config/agent.toml) [default: every key at its default]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// End when standard input closes, so as not to outlive the process at its other end
    #[arg(long)]
    until_stdin_closes: bool,
    #[command(flatten)]
    record: daemon::RecordArgs,
}

/// Serves chunks until a signal ends it.
///
/// # Errors
/// Bad input for a configuration, data directory or address that cannot be used, and for a refusal
/// by the coordinator; a failure when the store or the network fails.
pub fn run(args: Args) -> Result<Outcome> {
    let config = match &args.config {
        Some(path) => AgentConfig::read(path)?,
        None => AgentConfig::default(),
    };
    daemon::log_to_stderr();
    daemon::block_on_runtime(agent::runtime(), serve(config, args))
}

async fn serve(config: AgentConfig, args: Args) -> Result<Outcome> {
    let mut stop = Stop::new(args.until_stdin_closes)?;
    // Before anybody hears of the node: what it has may belong elsewhere.
    let known = known_identity(&config)?;
    let listener = daemon::listen(config.listen, config.insecure).await?;
    let address = listener.local_addr().context("cannot read the address of the listener")?;
    outln!("listening on {address}");
    let (session, feed) = session::session();
    let (welcome, welcomed) = oneshot::channel();
    let me = introduction(&config, address, known);
    let membership = tokio::spawn(join::keep(me, feed, welcome));
    let joined = tokio::select! {
        () = stop.requested() => return Ok(Outcome::Done),
        joined = welcomed => joined,
    };
    // Nobody welcomes a membership that has ended; it says why.
    let Ok(joined) = joined else { return Err(left(membership.await)) };
    let identity = Identity { cluster: joined.cluster, node: config.name() };
    let store = Store::open(&config.data_dir, &identity).map_err(anyhow::Error::from);
    let store = store.with_context(|| format!("cannot use '{}'", config.data_dir.display()))?;
    info!(name = identity.node, node = %joined.node, cluster = %joined.cluster, "in the cluster");
    let config = agent::Config { record: args.record.target(), ..agent_config(&config, joined) };
    agent::run(config, Arc::new(store), session, listener, stop.requested())
        .await
        .context("the agent cannot go on")?;
    if membership.is_finished() {
        return Err(left(membership.await));
    }
    info!("stopped");
    Ok(Outcome::Done)
}

fn left(membership: Result<Result<()>, tokio::task::JoinError>) -> anyhow::Error {
    match membership {
        Ok(Ok(())) => anyhow!("the session ended"),
        Ok(Err(why)) => why,
        Err(why) => why.into(),
    }
}

fn known_identity(config: &AgentConfig) -> Result<Option<Identity>> {
    let known = store::identity(&config.data_dir)?;
    match &known {
        Some(Identity { node, .. }) if *node != config.name() => Err(bad_input(format!(
            "'{}' holds the chunks of node '{node}', not of '{}': correct name or data_dir",
            config.data_dir.display(),
            config.name()
        ))),
        _ => Ok(known),
    }
}

fn introduction(
    config: &AgentConfig,
    listening: SocketAddr,
    known: Option<Identity>,
) -> Introduction {
    let (uplink, downlink) = config.links();
    Introduction {
        coordinator: config.coordinator.clone(),
        name: config.name(),
        rack: config.rack.clone(),
        data_address: config.advertise.unwrap_or(listening),
        uplink,
        downlink,
        cluster: known.map(|identity| identity.cluster),
    }
}

fn agent_config(config: &AgentConfig, joined: Welcome) -> agent::Config {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    agent::Config {
        me: joined.node,
        cluster: joined.cluster,
        // Two starts of one agent are further apart than a nanosecond.
        incarnation: since_1970.as_nanos() as u64,
        pool_bytes: config.pool_bytes(),
        heartbeat_every: span(config.timers.heartbeat),
        stall_after: span(config.timers.stall),
        inventory_every: span(config.timers.inventory),
        rates: config.rates(),
        spool_dir: config.data_dir.clone(),
        record: None,
    }
}
