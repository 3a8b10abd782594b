//! What every process of Suture that talks to others needs: a runtime, a log, a way to be stopped.
//!
//! Place: the first and the last moments of coordinator, agents and commands.
//! The log goes to stderr, because stdout is for results; `SUTURE_LOG` says how much of it, in
//! the form `info` or `suture=debug`.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};
use suture_drivers::config::CoordinatorConfig;
use suture_drivers::config::reload::ChangedKeys;
use suture_drivers::control::access::Call;
use suture_drivers::http::{self, HttpAccess, HttpLimits, HttpPages};
use suture_drivers::identity::AccessRole;
use suture_drivers::identity::credentials::Kept;
use suture_drivers::metrics::Exposition;
use suture_drivers::metrics::page::MetricsPage;
use suture_drivers::net::{self, BindError};
use suture_drivers::process::{StopSignals, is_ignored};
use suture_drivers::record::RecordTo;
use suture_edge::error::bad_input;
use suture_edge::units::parse_nonzero_size;
use suture_files::output::remove_temporaries;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tracing::{info, warn};

pub use suture_drivers::process::{block_on, block_on_runtime, stop_signals};

/// How long a daemon may take to end when its standard input has closed: it writes what it records.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// How often credentials are looked at.
const RELOAD_EVERY: Duration = Duration::from_secs(2);

/// Where a coordinator's configuration is by default.
pub const COORDINATOR_CONFIG: &str = "/etc/suture/coordinator.toml";

/// Where an agent's configuration is by default.
pub const AGENT_CONFIG: &str = "/etc/suture/agent.toml";

/// Which configuration a daemon reads.
#[derive(clap::Args, Clone, Debug)]
pub struct ConfigArgs {
    /// Configuration file [default: the daemon's in /etc/suture, coordinator.toml or agent.toml; if
    /// there is none, every key has its default]
    #[arg(long, value_name = "FILE", env = "SUTURE_CONFIG")]
    config: Option<PathBuf>,
}

impl ConfigArgs {
    /// The file to read: the one that is named, or `usual` where that exists.
    pub fn path(&self, usual: &str) -> Option<PathBuf> {
        let named = self.config.clone();
        // One that cannot be looked at is there, and its daemon must not run without it.
        let is_there = || !matches!(Path::new(usual).try_exists(), Ok(false));
        named.or_else(|| is_there().then(|| usual.into()))
    }
}

/// The configuration of the coordinator of this machine, as its daemon would read it.
///
/// # Errors
/// Bad input for one that cannot be used.
pub fn coordinator_config(args: &ConfigArgs) -> Result<CoordinatorConfig> {
    let read = args.path(COORDINATOR_CONFIG).as_deref().map(CoordinatorConfig::read).transpose()?;
    Ok(read.unwrap_or_default())
}

/// Refuses to do as root what a daemon does as a user of its own: it could not open what root makes
/// there, and may open what root must not. The owner is that of the database in the folder or,
/// without one, of the nearest existing folder above it.
///
/// # Errors
/// Bad input when this user is root, and it is not root's.
pub fn check_owner(folder: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let path = std::path::absolute(folder).unwrap_or_else(|_| folder.into());
    let database = path.join("metadata.db");
    let owned = std::iter::once(&*database).chain(path.ancestors());
    let found = owned.filter_map(|path| Some((path, fs::metadata(path).ok()?.uid()))).next();
    let Some((path, owner)) = found.filter(|(_, owner)| *owner != 0) else { return Ok(()) };
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let path = path.display();
    Err(bad_input(format!(
        "'{path}' belongs to user {owner}, as whom its daemon runs: run this as that user too, for \
         instance with `sudo -u '#{owner}'`"
    )))
}

/// What every daemon can be asked to write down.
#[derive(clap::Args)]
pub struct RecordArgs {
    /// Record decisions and what led to them, for `suture replay`: names of objects, no data
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Stop recording before the file is larger than this
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_nonzero_size)]
    record_limit: u64,
}

impl RecordArgs {
    /// Where to, if anything is to be recorded.
    ///
    /// # Errors
    /// Bad input when something else than a recording is there.
    pub fn target(self) -> Result<Option<RecordTo>> {
        let limit_bytes = self.record_limit;
        let target = self.record.map(|path| RecordTo { path, limit_bytes });
        let check = |target: &RecordTo| {
            target.check().map_err(|why| bad_input(format!("cannot record: {why}")))
        };
        target.as_ref().map(check).transpose()?;
        Ok(target)
    }
}

/// Open files and sockets that an agent may need with as many repairs and connections as it takes.
const DESCRIPTORS_WANTED: u64 = 16 * 1024;

/// Below so many a daemon could listen and yet accept no client: files and the log take a dozen.
const DESCRIPTORS_LEAST: u64 = 64;

/// Lets the process have as many files and sockets open as the system ever lets it: the limit that
/// processes begin with is usually 1024. Warns where even that is little.
///
/// # Errors
/// When it is too few to serve any client.
pub fn raise_descriptor_limit() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    let is_raised = setrlimit(Resource::Nofile, raised).is_ok();
    let limit = if is_raised { raised.current } else { limit.current };
    let remedy = "raise its hard limit (LimitNOFILE= of systemd, or ulimit -Hn)";
    match limit {
        Some(limit) if limit < DESCRIPTORS_LEAST => {
            bail!(
                "this process may have {limit} files and sockets open, and needs at least \
                 {DESCRIPTORS_LEAST}: {remedy}"
            )
        }
        Some(limit) if limit < DESCRIPTORS_WANTED => warn!(
            "this process may have {limit} files and sockets open; many repairs at once may need \
             {DESCRIPTORS_WANTED}: {remedy}"
        ),
        _ => {}
    }
    Ok(())
}

/// Keeps what is in memory out of core dumps, and other processes of the same user out of it: a
/// key will be there.
pub fn keep_memory_private() {
    // Where the system knows nothing of it, files are guarded all the same.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// The credentials that the configuration names, read anew while the daemon runs.
///
/// # Errors
/// Bad input when they cannot be used, or are of another role.
pub fn credentials(dir: Option<&Path>, role: AccessRole) -> Result<Option<Arc<Kept>>> {
    let kept = open_credentials(dir, role)?;
    if let Some(kept) = &kept {
        keep_current(kept);
    }
    Ok(kept)
}

/// The credentials that the configuration names.
///
/// # Errors
/// Bad input when they cannot be used, or are of another role.
pub fn open_credentials(dir: Option<&Path>, role: AccessRole) -> Result<Option<Arc<Kept>>> {
    let Some(dir) = dir else { return Ok(None) };
    keep_memory_private();
    let kept = Arc::new(Kept::open(dir, SystemTime::now())?);
    let found = kept.current().own.principal.clone();
    if found.role != role {
        let dir = dir.display();
        return Err(bad_input(format!(
            "'{dir}' has the certificate of {found}, and none of the role {role}"
        )));
    }
    Ok(Some(kept))
}

/// Has credentials read anew when they change, for as long as this process runs: a long call
/// outlives them, and those of others.
pub fn keep_current(kept: &Arc<Kept>) {
    tokio::spawn(reload(kept.clone()));
}

/// Reads credentials anew now and then. What cannot be used may be half of a change: it is warned
/// of once, when it stays so.
async fn reload(kept: Arc<Kept>) {
    let (mut failed, mut said) = (0, Vec::new());
    loop {
        tokio::time::sleep(RELOAD_EVERY).await;
        let now = SystemTime::now();
        match kept.reload(now) {
            Ok(true) => info!("new credentials are in use"),
            Ok(false) => failed = 0,
            Err(why) => {
                failed += 1;
                if failed == 2 {
                    warn!("{why:#}");
                }
            }
        }
        // They count days, then hours: each is logged once.
        let warnings = kept.current().warnings(now);
        if warnings != said {
            warnings.iter().for_each(|warning| warn!("{warning}"));
            said = warnings;
        }
    }
}

/// Listens where the configuration says. An address that may not be is the configuration's fault.
///
/// # Errors
/// Bad input for an address beyond loopback that is not open to all; a failure when it is in use or
/// not of this machine.
pub async fn listen(address: SocketAddr, is_open: bool) -> Result<TcpListener> {
    net::bind(address, is_open).await.map_err(|error| match error {
        BindError::Exposed(_) => bad_input(error),
        BindError::Io { .. } => error.into(),
    })
}

/// What is served by HTTP.
#[derive(Clone, Copy, Debug)]
pub struct HttpPurpose {
    /// The beginning of a sentence that says where it is.
    pub what: &'static str,
    /// The path under which it is asked for.
    pub path: &'static str,
}

/// Listens for monitoring or browsers, if the configuration says where.
///
/// # Errors
/// As [`listen`].
pub async fn listen_for_http(
    address: Option<SocketAddr>,
    is_open: bool,
    HttpPurpose { what, path }: HttpPurpose,
) -> Result<Option<TcpListener>> {
    let Some(address) = address else { return Ok(None) };
    let listener = listen(address, is_open).await?;
    let address = listener.local_addr().context("cannot read the address of the listener")?;
    info!("{what} at {address}{path}");
    Ok(Some(listener))
}

/// Answers monitoring for as long as the process runs, if it listens for it.
pub fn serve_metrics<F>(
    listener: Option<TcpListener>,
    credentials: Option<Arc<Kept>>,
    make: impl Fn() -> F + Send + Sync + 'static,
) where
    F: Future<Output = Option<Exposition>> + Send + 'static,
{
    serve_pages(listener, credentials, MetricsPage::new(make));
}

/// What a log calls the metrics, and their path.
pub const METRICS: HttpPurpose = HttpPurpose { what: "metrics are", path: "/metrics" };

/// Where the page of a coordinator is.
pub const PAGE: HttpPurpose = HttpPurpose { what: "the page is", path: "/" };

/// Answers callers that may see the status for as long as the process runs, if it listens for that.
pub fn serve_pages(
    listener: Option<TcpListener>,
    credentials: Option<Arc<Kept>>,
    pages: impl HttpPages,
) {
    let Some(listener) = listener else { return };
    let access = HttpAccess { credentials, roles: Call::Status.rule().roles };
    tokio::spawn(http::serve(listener, access, HttpLimits::default(), pages));
}

/// When a daemon is to end.
pub struct Stop {
    signals: StopSignals,
    stdin_closed: Option<watch::Receiver<bool>>,
}

impl Stop {
    /// By signals, and if `until_stdin_closes` when standard input closes: the parent
    /// process holds the other end, so the daemon cannot outlive it for long, however it ends.
    /// To be called before others can know of the daemon: from here on no such signal is lost.
    ///
    /// # Errors
    /// When the system does not let signals be waited for.
    pub fn new(until_stdin_closes: bool) -> Result<Stop> {
        let signals = stop_signals()?.without_hang_up();
        // What rotates logs sends them to daemons that open theirs anew; this one logs to stderr.
        for kind in [SignalKind::user_defined1(), SignalKind::user_defined2()] {
            drop(signal(kind).context("cannot wait for signals")?);
        }
        if !until_stdin_closes {
            return Ok(Stop { signals, stdin_closed: None });
        }
        let (closed, stdin_closed) = watch::channel(false);
        std::thread::spawn(move || {
            // Nothing writes there; an error means the same as the end.
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            let _ = closed.send(true);
            std::thread::sleep(STOP_TIMEOUT);
            std::process::exit(0);
        });
        Ok(Stop { signals, stdin_closed: Some(stdin_closed) })
    }

    /// Resolves when the process is asked to end: Ctrl-C, `kill`, or the end of standard input.
    pub async fn requested(&mut self) {
        let closed = async {
            match self.stdin_closed.clone() {
                Some(mut closed) => drop(closed.wait_for(|is_closed| *is_closed).await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.signals.received() => {}
            () = closed => {}
        }
    }
}

/// Requests to read the configuration anew: SIGHUP, as other daemons take it.
pub struct Reloads(Option<Signal>);

impl Reloads {
    /// From this call on none is lost, and a terminal that closes ends the process no more. Where
    /// it was started to outlive that (`nohup`) there are none.
    ///
    /// # Errors
    /// When the system does not let signals be waited for.
    pub fn new() -> Result<Reloads> {
        if is_ignored(SignalKind::hangup()) {
            return Ok(Reloads(None));
        }
        let signal = signal(SignalKind::hangup()).context("cannot wait for signals")?;
        Ok(Reloads(Some(signal)))
    }

    /// Waits for the next one, and gives what is written now, once it can be used.
    pub async fn next<T>(&mut self, path: Option<&Path>, read: impl Fn(&Path) -> Result<T>) -> T {
        loop {
            match &mut self.0 {
                Some(signal) => drop(signal.recv().await),
                None => std::future::pending().await,
            }
            match path.map(&read) {
                Some(Ok(config)) => return config,
                Some(Err(why)) => warn!("the configuration stays as it was: {why:#}"),
                None => warn!("there is no configuration to reload: see --config"),
            }
        }
    }
}

/// Writes down where a data_dir is that does not begin at the root: that depends on where the
/// daemon is started, and from another folder it would begin with nothing.
pub fn log_whole_path(data_dir: &Path) {
    if data_dir.is_absolute() {
        return;
    }
    // Where there is no such folder any more, opening it fails as well.
    if let Ok(whole) = std::path::absolute(data_dir) {
        let (data_dir, whole) = (data_dir.display(), whole.display());
        info!("data_dir '{data_dir}' is '{whole}', seen from where this was started");
    }
}

/// Logs what a configuration that was read anew changes.
pub fn log_changed(ChangedKeys { live, restart }: &ChangedKeys) {
    if live.is_empty() {
        info!("the configuration was reloaded")
    } else {
        info!("the configuration was reloaded: {} changed", live.join(", "))
    }
    if !restart.is_empty() {
        warn!("changes of {} take effect after a restart", restart.join(", "));
    }
}

/// From this call on, a signal that ends the process removes its temporary files first. The exit
/// status is what shells show for one that a signal ended.
pub fn remove_temporaries_on_signals() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return };
    let signals = {
        let _entered = runtime.enter();
        stop_signals()
    };
    let Ok(mut signals) = signals else { return };
    std::thread::spawn(move || {
        let signal = runtime.block_on(signals.received());
        remove_temporaries();
        std::process::exit(128 + signal.as_raw_value());
    });
}
