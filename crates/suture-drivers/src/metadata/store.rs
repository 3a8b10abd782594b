//! The metadata, one method for each thing that may happen to them.
//!
//! Place: put -> [object visible]; stripes affected <- `[stripes]`; [commit location] -> healthy.
//! Every method is one transaction, and what changes something commits it by name: a statement
//! with RETURNING gives its row before it commits by itself, and the error of that commit is lost.
//! Those that change what the coordinator core mirrors also
//! leave an [`Input`] in `take_changes`; the thread that owns the store passes them on in order.
//!
//! Puts live in memory only: a restart ends them all, and since stripe ids are handed out durably
//! before use, whatever they had written is an orphan that inventories will show.
//! Invariant: a stripe id is handed out once; `generation` grows by one with each location.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use rusqlite::{Connection, OptionalExtension};
use suture_code::Code;
use suture_edge::error::quoted;
use suture_edge::units::counted;
use suture_repair::cluster::{Node, Rate};
use suture_repair::event::{Commit, Input};
use suture_repair::id::{NodeId, StripeId};
use suture_repair::keeper::admission::{EPOCH_MAX, Followed};
use suture_repair::keeper::claims::Claims;
use suture_repair::processor::Processor;
use suture_repair::stripe::Stripe;
use suture_repair::wire::ClusterId;

use super::marks::Marks;
use super::place::{self, DatabaseFiles};
use super::schema::{self, Incomplete};
use super::sealed;
use super::wal::{self, Folding};
use crate::data_dir;
use crate::maintenance_window::ThrottleIntent;
use crate::store::StoreId;
pub use nodes::KeptIntent;
use nodes::KnownNode;
use put::OpenPut;

pub use rebuilt::{Added, Leftovers, is_readable};
pub use restored::Remembered;
pub use scrub::{PassRecord, seconds_since_1970};

/// One put that has begun and not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PutId(u64);

/// What was put under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Unique among all objects.
    pub name: String,
    /// Its length, in bytes.
    pub bytes: u64,
    /// The code of its stripes.
    pub code: Code,
    /// The chunk length of all its stripes but a short last one.
    pub chunk_bytes: u64,
    /// CRC-64/NVME of its bytes.
    pub checksum: u64,
    /// When the put began, in seconds since 1970.
    pub created: u64,
}

/// One stripe of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectStripe {
    /// Where its chunks are.
    pub stripe: Stripe,
    /// How much of its data chunks is data, from the first byte on; the rest is zeros.
    pub data_bytes: u64,
    /// CRC-64/NVME of its data, where it was recorded.
    pub checksum: Option<u64>,
}

/// What an agent announces of itself when it joins.
#[derive(Clone, Debug, PartialEq)]
pub struct NewNode {
    /// Unique in the cluster.
    pub name: String,
    /// Its rack, if it announces one.
    pub rack: Option<String>,
    /// Where it serves chunks.
    pub address: String,
    /// Bytes per second that it can send.
    pub uplink: f64,
    /// Bytes per second that it can receive.
    pub downlink: f64,
    /// Which store it has, if it announces one.
    pub store: Option<StoreId>,
    /// What its processor takes, if it announces that; not kept, since it does so whenever it
    /// joins.
    pub processor: Option<Processor>,
}

impl NewNode {
    /// The node as the core sees it, but for its rack, which the cluster numbers.
    pub fn as_planned(&self) -> Node {
        let node = Node::new(&self.name, Rate(self.uplink));
        Node { downlink: Rate(self.downlink), processor: self.processor, ..node }
    }
}

/// A node as the metadata have it.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRecord {
    /// Its id: ids are given in order, from 0.
    pub id: NodeId,
    /// What it last announced of itself.
    pub node: NewNode,
}

/// What the operator wants, across restarts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Intent {
    /// No repair is to begin.
    pub paused: bool,
    /// Nodes that count as failed whatever they send, ascending.
    pub failed: Vec<NodeId>,
    /// Nodes whose chunks move elsewhere, ascending.
    pub draining: Vec<NodeId>,
    /// Nodes that may be silent, ascending, each with when that ends, in seconds since 1970.
    pub paused_nodes: Vec<(NodeId, u64)>,
    /// Those of the failed nodes that are no longer shown, ascending.
    pub removed: Vec<NodeId>,
    /// Names that the next new store may have.
    pub replaced: Vec<String>,
    /// Nodes whose names were given to the stores that have them now, ascending, none of which has
    /// listed all that is recorded there: what it does not list is gone.
    pub taken: Vec<NodeId>,
    /// What repair may take; none: as configured.
    pub throttle: Option<ThrottleIntent>,
}

/// What went with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// How many stripes it had.
    pub stripes: u64,
    /// Its length, in bytes.
    pub bytes: u64,
}

/// Why the metadata were not changed, or something was not found.
#[derive(Debug)]
pub enum MetadataError {
    /// There is an object of this name.
    NameTaken(String),
    /// Another put is writing an object of this name.
    BeingWritten(String),
    /// There is no object of this name.
    NoSuchObject(String),
    /// The node cannot be removed: so many chunks are recorded on it.
    NodeHolds {
        /// Which node it is.
        node: NodeId,
        /// How many chunks are recorded on it.
        chunks: u64,
    },
    /// The name is that of a node with another store.
    OtherStore(KnownNode),
    /// The name is that of a node with chunks, and the agent's directory is new.
    NewStore(KnownNode),
    /// The put has ended, or its coordinator has.
    PutEnded,
    /// A put has an impossible value.
    InvalidPut(String),
    /// The database is no longer where it was opened.
    Moved(PathBuf),
    /// The database holds something that cannot be.
    Damaged(String),
    /// SQLite or the disk failed.
    Database(rusqlite::Error),
}

/// The database and what lives only as long as the process.
#[derive(Debug)]
pub struct MetadataStore {
    database: Connection,
    /// Commits that have made something durable since it was opened.
    written: Arc<AtomicU64>,
    /// What is sent to agents of them in this epoch.
    marks: Arc<Mutex<Marks>>,
    /// The same of the epochs before, while it was open.
    former_marks: BTreeMap<u32, Marks>,
    /// Agents that knew of more than there is here, and when that was last accepted.
    outranked: BTreeMap<String, Instant>,
    /// Whether agents know of more than there is here.
    is_set_back: bool,
    folding: Folding,
    cluster: ClusterId,
    epoch: u32,
    /// How many puts were committed, for the sessions that send it to agents.
    committed: Arc<AtomicU64>,
    /// Nodes that have joined in this epoch, as far as their agents know of it.
    joined: BTreeSet<String>,
    followed: Followed,
    puts: BTreeMap<PutId, OpenPut>,
    /// Stripes of puts whose commit failed on the disk: it may be in the log all the same, until
    /// the next one is written over it.
    doubtful: BTreeSet<StripeId>,
    /// Puts whose commit failed after it may have been written to the log, until then.
    doubtful_puts: BTreeSet<PutId>,
    next_put: u64,
    changes: Vec<Input>,
    place: DatabaseFiles,
    /// Whether objects that are damaged are left out, and which ones are.
    sets_aside: bool,
    damaged: BTreeSet<i64>,
    /// Why the last change failed, if it did, and, for the metrics, whether it did.
    fault: Option<String>,
    is_faulty: Arc<AtomicBool>,
    claims: Claims,
    _lock: File,
}

impl MetadataStore {
    /// Opens the metadata in `dir` for a new epoch, which is durable when this returns.
    ///
    /// # Errors
    /// As [`schema::open`], and when the epoch cannot be made durable.
    pub fn open(dir: &Path, incomplete: Incomplete) -> Result<MetadataStore> {
        let cannot = || format!("cannot begin a new epoch in '{}'", dir.display());
        let schema::Database { mut connection, lock } = schema::open(dir, incomplete)?;
        sealed::check(&mut connection).with_context(cannot)?;
        let (cluster, epoch) = restored::begin_epoch(&mut connection).with_context(cannot)?;
        ensure!(epoch < EPOCH_MAX, "epoch {epoch} in '{}' is beyond all that are", dir.display());
        let (committed, is_set_back) = restored::standing(&connection).with_context(cannot)?;
        wal::begin_use(&mut connection).with_context(cannot)?;
        // The log may be new, and SQLite goes on where its name cannot be made durable.
        data_dir::sync(dir).with_context(cannot)?;
        stripes::complete_sums(&mut connection).with_context(cannot)?;
        let place = DatabaseFiles::of(&dir.join(schema::DATABASE)).with_context(cannot)?;
        guard::refuse_where_moved(&mut connection, place.clone()).with_context(cannot)?;
        let written = guard::count_written(&mut connection).with_context(cannot)?;
        Ok(MetadataStore {
            folding: Folding::begin(&connection),
            database: connection,
            written,
            marks: Arc::default(),
            former_marks: BTreeMap::new(),
            outranked: BTreeMap::new(),
            is_set_back,
            place,
            is_faulty: Arc::default(),
            sets_aside: false,
            damaged: BTreeSet::new(),
            cluster,
            epoch,
            committed: Arc::new(AtomicU64::new(committed)),
            joined: BTreeSet::new(),
            followed: Followed::new(epoch),
            puts: BTreeMap::new(),
            doubtful: BTreeSet::new(),
            doubtful_puts: BTreeSet::new(),
            next_put: 0,
            changes: Vec::new(),
            fault: None,
            claims: Claims::new(keeper::CLAIM_LIFETIME),
            _lock: lock,
        })
    }

    /// Leaves damaged objects out from now on: they are to be made again.
    pub fn set_damaged_aside(&mut self) {
        self.sets_aside = true;
        self.followed.begin_anew();
    }

    /// Whether it does: then no copy that agents hold may be deleted as an orphan.
    pub fn sets_damaged_aside(&self) -> bool {
        self.sets_aside
    }

    /// Makes `metadata.db` whole by itself. Nothing may change any more.
    ///
    /// # Errors
    /// When the database cannot be written; then its log is still a part of it.
    pub fn close(&mut self) -> Result<()> {
        if !self.is_in_place() {
            bail!(place::moved(&self.path()));
        }
        wal::end_use(&mut self.database).context(
            "cannot finish metadata.db: nothing is lost as long as metadata.db-wal stays beside it",
        )
    }

    /// Folds the database's log in if the time has come: when there is nothing else to do, or it
    /// was long ago.
    ///
    /// # Errors
    /// When the database fails; it is tried again later.
    pub fn fold_log(&mut self, is_idle: bool) -> Result<(), MetadataError> {
        Ok(self.folding.fold_if_due(&self.database, is_idle)?)
    }

    /// Where the database is.
    pub fn path(&self) -> PathBuf {
        self.database.path().map(PathBuf::from).unwrap_or_default()
    }

    /// Which cluster these metadata are of.
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// How often a coordinator has started on it.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// How many puts were committed so far, now and later.
    pub fn committed(&self) -> Arc<AtomicU64> {
        self.committed.clone()
    }

    /// How many commits have made something durable since it was opened, now and later.
    pub fn written(&self) -> Arc<AtomicU64> {
        self.written.clone()
    }

    /// What is sent to agents of these commits, now and later.
    pub fn marks(&self) -> Arc<Mutex<Marks>> {
        self.marks.clone()
    }

    /// Whether agents have known of more than there is here, and no rebuild has completed it since.
    pub fn is_set_back(&self) -> bool {
        self.is_set_back
    }

    /// What changed since the last call, in order.
    pub fn take_changes(&mut self) -> Vec<Input> {
        std::mem::take(&mut self.changes)
    }

    /// What the operator wants.
    ///
    /// # Errors
    /// When the database fails or what it holds is damaged.
    pub fn intent(&self) -> Result<Intent, MetadataError> {
        let paused = self.database.query_row("SELECT paused FROM cluster", [], |row| row.get(0))?;
        let mut query = self.database.prepare("SELECT id FROM node WHERE failed ORDER BY id")?;
        let failed = query.query_map([], |row| Ok(NodeId(row.get(0)?)))?;
        let mut draining =
            self.database.prepare("SELECT id FROM node WHERE draining ORDER BY id")?;
        let draining = draining.query_map([], |row| Ok(NodeId(row.get(0)?)))?;
        let mut paused_nodes = self.database.prepare(
            "SELECT id, paused_until FROM node WHERE paused_until IS NOT NULL ORDER BY id",
        )?;
        let paused_nodes = paused_nodes.query_map([], |row| {
            Ok((NodeId(row.get(0)?), row.get::<_, i64>(1)?.cast_unsigned()))
        })?;
        let mut removed = self.database.prepare("SELECT id FROM node WHERE removed ORDER BY id")?;
        let removed = removed.query_map([], |row| Ok(NodeId(row.get(0)?)))?;
        let mut replaced = self.database.prepare("SELECT name FROM node WHERE replaced = 1")?;
        let replaced = replaced.query_map([], |row| row.get(0))?;
        let mut taken =
            self.database.prepare("SELECT id FROM node WHERE replaced = 2 ORDER BY id")?;
        let taken = taken.query_map([], |row| Ok(NodeId(row.get(0)?)))?;
        Ok(Intent {
            paused,
            failed: failed.collect::<Result<_, _>>()?,
            draining: draining.collect::<Result<_, _>>()?,
            paused_nodes: paused_nodes.collect::<Result<_, _>>()?,
            removed: removed.collect::<Result<_, _>>()?,
            replaced: replaced.collect::<Result<_, _>>()?,
            taken: taken.collect::<Result<_, _>>()?,
            throttle: self.throttle()?,
        })
    }

    /// The stripes of an object, in order.
    ///
    /// # Errors
    /// When there is no such object, or the database fails.
    pub fn stripes_of(&self, name: &str) -> Result<Vec<StripeId>, MetadataError> {
        self.object(name)?;
        let mut query = self.database.prepare_cached(
            "SELECT id FROM stripe WHERE object = (SELECT id FROM object WHERE name = ?1)
             ORDER BY ordinal",
        )?;
        let ids = query.query_map([name], |row| row.get(0).map(StripeId))?;
        Ok(ids.collect::<Result<_, _>>()?)
    }

    /// Whether repairs may begin.
    ///
    /// # Errors
    /// When the database fails or what it holds is damaged.
    pub fn set_paused(&mut self, paused: bool) -> Result<(), MetadataError> {
        self.database.execute("UPDATE cluster SET paused = ?1", [paused])?;
        Ok(())
    }

    /// The names of the objects that these stripes belong to.
    ///
    /// # Errors
    /// When the database fails.
    pub fn names_of(
        &self,
        stripes: &[StripeId],
    ) -> Result<BTreeMap<StripeId, String>, MetadataError> {
        let mut query = self.database.prepare_cached(
            "SELECT name FROM object WHERE id = (SELECT object FROM stripe WHERE id = ?1)",
        )?;
        let mut names = BTreeMap::new();
        for stripe in stripes {
            let name = query.query_row([stripe.0], |row| row.get(0)).optional()?;
            names.extend(name.map(|name| (*stripe, name)));
        }
        Ok(names)
    }

    /// Removes an object, whole and at once.
    ///
    /// # Errors
    /// When there is no such object, or the database fails.
    pub fn remove(&mut self, name: &str) -> Result<Removed, MetadataError> {
        let transaction = self.database.transaction()?;
        let removed = put::remove_object(&transaction, name)?;
        let put::RemovedObject { bytes, stripes: ids } =
            removed.ok_or_else(|| MetadataError::NoSuchObject(name.to_string()))?;
        transaction.commit()?;
        let stripes = ids.len() as u64;
        self.changes.extend(ids.into_iter().map(Input::StripeRemoved));
        Ok(Removed { stripes, bytes })
    }

    /// Changes the location of a chunk if its stripe still has the generation that the repair
    /// knew. The answer is a change: `Committed` or `CommitRefused`, with the stripe as it then is.
    ///
    /// # Errors
    /// When the database fails; a generation that has passed is no error but an answer.
    pub fn commit_location(&mut self, commit: &Commit) -> Result<(), MetadataError> {
        let id = commit.copy.stripe;
        let done = stripes::set_location(&mut self.database, commit)?;
        let stripe = self.stripe(id)?;
        let repair = commit.repair;
        let is_there = |stripe: &Stripe| {
            let known = usize::from(commit.copy.chunk.0) < stripe.chunks.len();
            known && stripe.copy(commit.copy.chunk) == Some(commit.copy.at(commit.node))
        };
        let answer = match stripe {
            // Asked again, because the first answer was lost: the answer is the same.
            Some(stripe) if done || is_there(&stripe) => {
                self.claims.committed(commit.copy);
                Input::Committed { repair, stripe }
            }
            stripe => Input::CommitRefused { repair, stripe },
        };
        self.changes.push(answer);
        Ok(())
    }
}

impl From<rusqlite::Error> for MetadataError {
    fn from(error: rusqlite::Error) -> MetadataError {
        MetadataError::Database(error)
    }
}

impl fmt::Display for MetadataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetadataError::NameTaken(name) => write!(
                f,
                "there is an object {} already: --overwrite puts this one in its place, or choose another --name",
                quoted(name)
            ),
            MetadataError::BeingWritten(name) => {
                write!(f, "another put is writing {} right now", quoted(name))
            }
            MetadataError::NoSuchObject(name) => {
                write!(f, "there is no object {} (suture ls lists them)", quoted(name))
            }
            MetadataError::NodeHolds { chunks, .. } => write!(
                f,
                "it holds {}: suture node fail has what it holds rebuilt on others, and suture repair status says when that is done",
                counted(*chunks, "chunk")
            ),
            MetadataError::OtherStore(node) => write!(
                f,
                "{} is the name of another store, {node}: correct name or data_dir; if that store is gone, or this one is to have the name, stop the agent there and run `suture node replace {}`, then start this agent again",
                quoted(&node.name),
                node.name
            ),
            MetadataError::NewStore(node) => write!(
                f,
                "{} is {node}, and this agent's data_dir is new: mount its disk, or correct name or data_dir; if its chunks are gone for good, start this agent once with --new, or run `suture node replace {}` and start it again, and they are rebuilt",
                quoted(&node.name),
                node.name
            ),
            MetadataError::PutEnded => write!(f, "the put has ended; put the object again"),
            MetadataError::InvalidPut(what) => write!(f, "the put cannot be committed: {what}"),
            MetadataError::Moved(database) => write!(f, "{}", place::moved(database)),
            MetadataError::Damaged(what) => write!(f, "the metadata is damaged: {what}"),
            MetadataError::Database(error) => write!(f, "the metadata database failed: {error}"),
        }
    }
}

impl std::error::Error for MetadataError {}

mod guard;
mod keeper;
mod label;
mod nodes;
mod pages;
mod put;
mod rebuilt;
mod restored;
mod scrub;
pub(super) mod stripes;
mod sums;
mod throttle;

#[cfg(test)]
mod tests;
