//! `suture coordinator`: keeps the metadata, watches the nodes, repairs what is lost.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use suture_drivers::config::CoordinatorConfig;
use suture_drivers::config::hdfs::HdfsMode;
use suture_drivers::config::reload::{self, ChangedKeys};
use suture_drivers::control::acceptor::{self, ControlLimits};
use suture_drivers::control::audit::{Audit, AuditWatch};
use suture_drivers::control::service::ControlService;
use suture_drivers::control::trust::Trust;
use suture_drivers::coordinator::load::{CHANGES_MAX, load};
use suture_drivers::coordinator::throttle::Live;
use suture_drivers::coordinator::{CoordinatorDriver, Handle, inbox};
use suture_drivers::hdfs::link::Link;
use suture_drivers::hdfs::listener;
use suture_drivers::hdfs::rebuilt::RebuiltLog;
use suture_drivers::identity::AccessRole;
use suture_drivers::identity::credentials::Kept;
use suture_drivers::metadata::{Incomplete, Metadata, MetadataStore, PassRecord};
use suture_drivers::metrics::coordinator::CoordinatorMetrics;
use suture_drivers::put_key::PutKey;
use suture_edge::error::bad_input;
use suture_repair::event::Input;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tracing::info;

use crate::daemon::{self, Reloads, Stop};
use crate::log;
use crate::outcome::Outcome;
use crate::service_manager::ServiceManager;
use crate::web::WebPages;

/// How long monitoring waits for what only the metadata say.
const METADATA_WAIT: Duration = Duration::from_secs(1);

/// Run the coordinator: it keeps the metadata, watches agents and repairs what is lost.
///
/// Prints `listening on ADDRESS` when it is ready, and logs to stderr (SUTURE_LOG=debug for more).
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: daemon::ConfigArgs,
    /// Exit when standard input closes, as it does when the parent process ends
    #[arg(long)]
    until_stdin_closes: bool,
    /// Start from a metadata.db that was copied without its metadata.db-wal while a coordinator had
    /// it open: what was stored last may be missing, and stays missing
    #[arg(long)]
    accept_copy: bool,
    #[command(flatten)]
    record: daemon::RecordArgs,
}

/// Coordinates until a signal ends it.
///
/// # Errors
/// Bad input for a configuration or address that cannot be used; a failure when the metadata cannot
/// be opened or read.
pub fn run(args: Args) -> Result<Outcome> {
    let path = args.config.path(daemon::COORDINATOR_CONFIG);
    let path = path.as_deref();
    let config = path.map(CoordinatorConfig::read).transpose()?.unwrap_or_default();
    if SystemTime::now() < UNIX_EPOCH {
        // It may be set soon after the machine began.
        bail!("this machine's clock is before 1970: set it");
    }
    log::begin_of_daemon();
    daemon::log_whole_path(&config.data_dir);
    daemon::raise_descriptor_limit()?;
    daemon::block_on(serve(config, path, args))
}

async fn serve(config: CoordinatorConfig, path: Option<&Path>, args: Args) -> Result<Outcome> {
    let record = args.record.target()?;
    let mut stop = Stop::new(args.until_stdin_closes)?;
    let reloads = Reloads::new()?;
    // Before the metadata is opened: a coordinator that cannot listen must not begin an epoch.
    let credentials = daemon::credentials(config.credentials.as_deref(), AccessRole::Coordinator)?;
    let is_open = config.insecure || credentials.is_some();
    let listener = daemon::listen(config.listen, is_open).await?;
    let address = listener.local_addr().context("cannot read the address of the listener")?;
    let monitored = daemon::listen_for_http(config.metrics, is_open, daemon::METRICS).await?;
    let browsed = daemon::listen_for_http(config.web, is_open, daemon::PAGE).await?;
    let hdfs = listen_to_hdfs(&config, credentials.is_some()).await?;
    let manager = ServiceManager::from_environment();
    let starting = manager.starting("reads the metadata");
    let incomplete = if args.accept_copy { Incomplete::Accept } else { Incomplete::Refuse };
    let mut store = MetadataStore::open(&config.data_dir, incomplete)?;
    let (cluster, epoch) = (store.cluster(), store.epoch());
    let (throttle, pass) = (store.intent()?.throttle, store.pass()?);
    let (core, nodes) = load(&config, &mut store, record)?;
    info!(%cluster, epoch, nodes = nodes.len(), stripes = core.stripes().len(), "metadata loaded");
    let (changes, received) = mpsc::channel(CHANGES_MAX);
    let metadata = Metadata::start(store, changes.clone());
    let (coordinator, inbox): (Handle, _) = inbox(received);
    let mut driver = CoordinatorDriver::new(core, metadata.clone(), nodes);
    watch(&mut driver, &config, pass);
    let log = config.audit();
    let audit = Audit::open(&log);
    let audit = audit.with_context(|| format!("cannot write the audit log {}", log.display()))?;
    let metrics = CoordinatorMetrics::new(credentials.clone());
    driver.count(metrics.clone());
    let configured = config.throttle.intent().map_err(bad_input)?;
    driver.throttle_at_first(configured, throttle);
    let keeps_objects = hdfs.is_none();
    if let Some(listener) = hdfs {
        let log =
            RebuiltLog::open(&config.data_dir).context("cannot write down what is rebuilt")?;
        let link = join_hdfs(&config, listener, credentials.clone(), &metadata, changes);
        driver.keep_by_hdfs(link, log);
    }
    let trust = Trust::new(credentials.clone(), address.ip());
    let watched = coordinator.clone();
    let put_key = PutKey::random().context("the system has no random bits")?;
    let service = ControlService::new(metadata.clone(), coordinator, cluster, put_key);
    let audit_watch = audit.watch();
    let mut service = service.with_audit(audit).with_trust(trust).with_metrics(metrics.clone());
    if !keeps_objects {
        service = service.of_hdfs();
    }
    let answers = || async { watched.query(|_| ()).await.is_some() };
    let service = Arc::new(service);
    let followed = follow(reloads, path, config, service.clone());
    serve_metrics(monitored, credentials.clone(), service.clone(), audit_watch, metrics);
    daemon::serve_pages(browsed, credentials.clone(), WebPages::new(service.clone()));
    outln!("listening on {address}");
    drop(starting);
    manager.ready(&format!("listening on {address}"));
    let ended = tokio::select! {
        () = driver.run(inbox) => Ok(()),
        () = manager.keep_alive(answers) => Ok(()),
        () = followed => Ok(()),
        result = acceptor::serve(listener, service, ControlLimits::default(), credentials) => result,
        () = stop.requested() => Ok(()),
    };
    manager.stopping();
    ended.and(metadata.close().await)?;
    info!("stopped");
    Ok(Outcome::Done)
}

/// Has the driver watch what is configured to be done now and then; `pass` is what scrubs left.
fn watch(driver: &mut CoordinatorDriver, config: &CoordinatorConfig, pass: PassRecord) {
    driver.spread_backups(config.backup.every);
    driver.watch_beats(config.timers.suspect);
    // DataNodes scan their blocks themselves.
    if config.hdfs.mode == HdfsMode::Off {
        driver.watch_scrubs((config.scrub.period, config.scrub.rate), pass);
    }
}

/// Has what is configured anew hold, as far as it can, for as long as it is polled.
async fn follow(
    mut reloads: Reloads,
    path: Option<&Path>,
    mut running: CoordinatorConfig,
    service: Arc<ControlService>,
) {
    loop {
        let (read, throttle) = reloads
            .next(path, |path| {
                let read = CoordinatorConfig::read(path)?;
                let throttle = read.throttle.intent().map_err(bad_input)?;
                Ok((read, throttle))
            })
            .await;
        let is_live = reload::is_live_in_coordinator;
        daemon::log_changed(&ChangedKeys::between(&running.shown(), &read.shown(), is_live));
        service.configure(Live { throttle, backup_every: read.backup.every }).await;
        (running.throttle, running.backup) = (read.throttle, read.backup);
    }
}

/// Answers monitoring by what the driver sees, and what calls take.
fn serve_metrics(
    listener: Option<TcpListener>,
    credentials: Option<Arc<Kept>>,
    service: Arc<ControlService>,
    audit: AuditWatch,
    metrics: Arc<CoordinatorMetrics>,
) {
    daemon::serve_metrics(listener, credentials, move || {
        let service = service.clone();
        let (metrics, audit) = (metrics.clone(), audit.clone());
        async move {
            let mut seen = service.coordinator.query(CoordinatorDriver::seen).await?;
            seen.is_audit_unwritable = audit.fault().await.is_some();
            seen.puts = service.put_memory();
            // Metadata that cannot be read, or hang, are what must be reported to monitoring.
            let intent = service.metadata.query(MetadataStore::intent);
            if let Ok(Ok(intent)) = tokio::time::timeout(METADATA_WAIT, intent).await {
                seen.forget(&intent.removed);
            }
            Some(metrics.write(&seen))
        }
    });
}

/// Where the plugins of NameNodes connect, if this coordinator is HDFS's.
async fn listen_to_hdfs(
    config: &CoordinatorConfig,
    is_proven: bool,
) -> Result<Option<std::net::TcpListener>> {
    if config.hdfs.mode == HdfsMode::Off {
        return Ok(None);
    }
    let listener = daemon::listen(config.hdfs.listen, config.insecure || is_proven).await?;
    let listener = listener.into_std().context("cannot keep the listener for HDFS")?;
    listener.set_nonblocking(false).context("cannot wait for HDFS")?;
    let address = listener.local_addr().context("cannot read the address of the listener")?;
    info!(%address, mode = ?config.hdfs.mode, "NameNodes' plugins are awaited");
    Ok(Some(listener))
}

/// Begins to ask HDFS, as soon as one of its NameNodes connects.
fn join_hdfs(
    config: &CoordinatorConfig,
    listener: std::net::TcpListener,
    credentials: Option<Arc<Kept>>,
    metadata: &Metadata,
    changes: mpsc::Sender<Input>,
) -> Link {
    let connections = listener::listen(listener, credentials);
    Link::start(config.hdfs.link(), connections, metadata.clone(), changes)
}
