//! Metadata that are older than what agents know: restored from a backup, or an older snapshot.
//!
//! Place: around all of failure -> ... -> stripe healthy, at a coordinator's start.
//! Others went on from the same metadata: they began epochs, gave out stripe ids and wrote chunks
//! of which nothing is known here. Agents report both, and what they report is made durable before
//! anything is begun or given out by it. Where others only finished a put that was under way when
//! the metadata were copied, neither does: but agents know of more puts than were committed
//! here. Then all stripes of which nothing is known may be theirs. An agent that has joined here
//! and then knows of more, or of a mark that was not made here, shows that this very process was
//! set back with its machine, to a snapshot that has its memory: what it began and gave out since
//! may be others' too.
//! That they are older stays recorded over all starts, until better metadata take their place or a
//! rebuild completes them: as long, agents keep the backups that they have from before.
//! Invariants: neither an epoch nor a stripe id is used that agents have received from others; what
//! others have stored is not deleted as orphans.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rusqlite::{Connection, Row, Transaction};
use suture_repair::event::Input;
use suture_repair::id::{StripeId, StripeRange};
use suture_repair::keeper::admission::outranking;
use suture_repair::wire::ClusterId;
use tracing::warn;

use super::super::marks::Mark;
use super::{MetadataError, MetadataStore, NewNode, NodeRecord, sealed};

/// After an agent's report of newer metadata was applied, further such reports of it are ignored
/// for this long: each one ends running puts and leaves unknown stripe ids to others. A coordinator
/// that was set back gets one from all of its agents.
const OUTRANK_INTERVAL: Duration = Duration::from_secs(600);

/// What an agent has kept of the coordinators that it followed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Remembered {
    /// The newest epoch; 0 where it has followed none.
    pub epoch: u32,
    /// The most committed puts.
    pub committed: u64,
    /// The last mark that it was sent in that epoch.
    pub mark: Option<Mark>,
}

impl MetadataStore {
    /// Whether an agent counts as having followed this epoch (`Followed`).
    ///
    /// # Errors
    /// When the database fails.
    pub fn accepts_epoch(&mut self, node: &NewNode, epoch: u32) -> Result<bool, MetadataError> {
        let nodes = self.nodes()?;
        let is_known = |known: &NodeRecord| {
            known.node.name == node.name && node.store.is_some() && known.node.store == node.store
        };
        let is_known = nodes.iter().any(is_known);
        Ok(self.followed.accepts_epoch(&node.name, epoch, is_known, nodes.len()))
    }

    /// Makes the epoch one that no agent has followed, if the agent of node `name` has followed one
    /// that these metadata have not begun: a later one, or this one without having joined in it.
    /// Where it knows of more than there was, by its committed puts or its mark, no stripe is taken
    /// for gone; and if it had joined in this epoch, others went on in it. Then the puts that are
    /// under way end.
    ///
    /// # Errors
    /// When that cannot be made durable.
    pub fn outrank(&mut self, name: &str, remembered: Remembered) -> Result<(), MetadataError> {
        let followed = remembered.epoch;
        let is_behind = self.is_outdone(name, &remembered);
        if is_behind {
            self.catch_up(name, remembered.committed)?;
        }
        let has_joined = self.joined.contains(name) && !is_behind;
        if let Some(epoch) = outranking(self.epoch, followed, has_joined) {
            let transaction = self.database.transaction()?;
            let raise = "UPDATE cluster SET epoch = ?1 RETURNING next_stripe";
            let next = sealed::change_cluster(&transaction, |cluster| {
                cluster.query_row(raise, [epoch], |row| row.get(0))
            })?;
            pass_over(&transaction, next)?;
            transaction.commit()?;
            self.puts.clear();
            self.announce_reserved()?;
            warn!(
                "agent '{name}' has followed epoch {followed} already, these metadata began epoch {}: \
                 they are older than what the agents hold (restored from a backup?); going on as \
                 epoch {epoch}",
                self.epoch
            );
            let former = self.marks.lock().unwrap_or_else(PoisonError::into_inner).begin_epoch();
            self.former_marks.insert(self.epoch, former);
            self.epoch = epoch;
            self.changes.push(Input::EpochRaised(epoch));
        }
        if is_behind {
            // Not before: where anything of this failed, the agent is accepted when it joins again.
            self.outranked.insert(name.to_string(), Instant::now());
        }
        self.joined.insert(name.to_string());
        Ok(())
    }

    /// Whether an agent knows of more than these metadata: of more puts, or, if it has joined here,
    /// of a mark that was not made.
    fn is_outdone(&self, name: &str, remembered: &Remembered) -> bool {
        let is_foreign =
            |mark| self.joined.contains(name) && !self.has_made(remembered.epoch, mark);
        let knows_more = remembered.committed > self.committed.load(Ordering::Relaxed);
        if !knows_more && !remembered.mark.is_some_and(is_foreign) {
            return false;
        }
        let last = self.outranked.get(name);
        if last.is_some_and(|last| last.elapsed() < OUTRANK_INTERVAL) {
            warn!(
                "agent '{name}' reports newer metadata again; ignored, since its last report was \
                 applied less than {} min ago",
                OUTRANK_INTERVAL.as_secs() / 60
            );
            return false;
        }
        true
    }

    /// Whether the mark was made in that epoch, as far as that is known, or in a later one of this
    /// process: a session that began before an epoch was raised is sent the marks of the new one.
    fn has_made(&self, epoch: u32, mark: Mark) -> bool {
        let is_known = epoch == self.epoch || self.former_marks.contains_key(&epoch);
        let mut later = self.former_marks.range(epoch..).map(|(_, marks)| marks);
        let has_made_now =
            || self.marks.lock().unwrap_or_else(PoisonError::into_inner).has_made(mark);
        !is_known || later.any(|marks| marks.has_made(mark)) || has_made_now()
    }

    /// Leaves every stripe of which nothing is known to others, and counts the puts that an agent
    /// knows of.
    fn catch_up(&mut self, name: &str, committed: u64) -> Result<(), MetadataError> {
        let known = self.committed.load(Ordering::Relaxed);
        // Whatever an agent reports, there is space for all puts to come.
        let committed = committed.clamp(known, COMMITTED_MAX.max(known));
        let transaction = self.database.transaction()?;
        let behind = "UPDATE cluster SET committed = ?1, set_back = 1";
        sealed::change_cluster(&transaction, |cluster| cluster.execute(behind, [committed]))?;
        sealed::leave_all(&transaction)?;
        transaction.commit()?;
        self.committed.store(committed, Ordering::Relaxed);
        self.is_set_back = true;
        warn!(
            "agent '{name}' knows of {committed} puts, these metadata of {known}: they \
             are older than what the agents hold (restored from a backup or a snapshot?). Chunks of \
             which they know nothing stay as they are, for metadata that know them"
        );
        self.announce_reserved()
    }

    /// Gives out no stripe id below this one from now on: agents hold copies of stripes whose ids
    /// these metadata have not given out, up to this one. They are never deleted as orphans.
    ///
    /// # Errors
    /// When the database fails.
    pub fn protect(&mut self, below: StripeId) -> Result<(), MetadataError> {
        let transaction = self.database.transaction()?;
        let next = "SELECT next_stripe FROM cluster";
        let from: u64 = transaction.query_row(next, [], |row| row.get(0))?;
        if from >= below.0 {
            return Ok(());
        }
        leave_to_others(&transaction, from, below.0)?;
        transaction.commit()?;
        warn!(
            "agents hold chunks of stripes {from} to {}, which these metadata have never given out: \
             they are older than what the agents hold (restored from a backup?). The chunks stay \
             as they are, for metadata that know them",
            below.0 - 1
        );
        self.announce_reserved()
    }

    /// Reports which stripe ids are given out, which of them are still being written, and which are
    /// of stripes that these metadata do not know.
    ///
    /// # Errors
    /// When the database fails.
    pub fn announce_reserved(&mut self) -> Result<(), MetadataError> {
        let next = "SELECT next_stripe FROM cluster";
        let below = StripeId(self.database.query_row(next, [], |row| row.get(0))?);
        let writing = self.puts.values().flat_map(|put| &put.stripes);
        let writing = writing.chain(&self.doubtful).copied().collect();
        let unknown = self.unknown()?;
        let unknown = unknown
            .into_iter()
            .map(|StripeRange { from, below }| Input::StripesUnknown { from, below });
        self.changes.extend(unknown);
        self.changes.push(Input::StripesReserved { below, writing });
        Ok(())
    }

    /// The first stripe id that may be of a put that has not ended, now or later: a backup of the
    /// metadata as they are now must not take such stripes for orphans.
    ///
    /// # Errors
    /// When the database fails.
    pub fn first_open(&self) -> Result<StripeId, MetadataError> {
        let next = "SELECT next_stripe FROM cluster";
        let next = StripeId(self.database.query_row(next, [], |row| row.get(0))?);
        let open = self.puts.values().flat_map(|put| &put.stripes);
        Ok(open.chain(&self.doubtful).copied().min().unwrap_or(next))
    }

    /// Ids of stripes that others have given out, or may have, as ranges.
    ///
    /// # Errors
    /// When the database fails.
    pub fn unknown(&self) -> Result<Vec<StripeRange>, MetadataError> {
        let query = "SELECT first, below FROM unknown ORDER BY first";
        let mut query = self.database.prepare_cached(query)?;
        let range = |row: &Row<'_>| {
            Ok(StripeRange { from: StripeId(row.get(0)?), below: StripeId(row.get(1)?) })
        };
        let ranges = query.query_map([], range)?;
        Ok(ranges.collect::<Result<_, _>>()?)
    }
}

/// More puts than there will ever be.
const COMMITTED_MAX: u64 = 1 << 60;

/// How many puts were committed so far, and whether agents have known of more than there was.
pub(super) fn standing(database: &Connection) -> rusqlite::Result<(u64, bool)> {
    let standing = "SELECT committed, set_back FROM cluster";
    database.query_row(standing, [], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// How many stripe ids a start, or a new epoch, may pass over, at most.
const SKIPPED_MAX: u64 = 1 << 36;

/// A new epoch on the database. Ids up to that of a stripe which is there are never handed out,
/// whatever the counter says.
///
/// From the second epoch on, a random number of ids is passed over. Should these metadata be older
/// than what agents hold, others have given out the next ids, and before an agent reports that one
/// of them could be given to a put here; if that put were given up, the stripe of the others would
/// count as gone, and its copies as orphans.
pub(super) fn begin_epoch(database: &mut Connection) -> rusqlite::Result<(ClusterId, u32)> {
    let transaction = database.transaction()?;
    // The id only has to differ from those of other clusters that an operator may mix up.
    let begin = "INSERT INTO cluster (one, id, epoch, next_stripe, paused)
         VALUES (1, random(), 1, 0, 0)
         ON CONFLICT (one) DO UPDATE SET epoch = epoch + 1,
             next_stripe = max(next_stripe, (SELECT coalesce(max(id) + 1, 0) FROM stripe))
         RETURNING id, epoch, next_stripe";
    let begun = |row: &Row<'_>| {
        Ok((ClusterId(row.get::<_, i64>(0)?.cast_unsigned()), row.get(1)?, row.get(2)?))
    };
    let (cluster, epoch, next) =
        sealed::change_cluster(&transaction, |row| row.query_row(begin, [], begun))?;
    if epoch > 1 {
        pass_over(&transaction, next)?;
    }
    transaction.commit()?;
    Ok((cluster, epoch))
}

/// Leaves a random number of ids to others, from the next one on.
fn pass_over(transaction: &Transaction<'_>, next: u64) -> rusqlite::Result<()> {
    let random = "SELECT random() & ?1";
    let skipped: u64 = transaction.query_row(random, [SKIPPED_MAX - 1], |row| row.get(0))?;
    leave_to_others(transaction, next, next + skipped)
}

/// The next id that is given out is `below`, which is not less than `from`, the next one so far.
fn leave_to_others(transaction: &Transaction<'_>, from: u64, below: u64) -> rusqlite::Result<()> {
    // What follows on the last range belongs to it.
    let longer = "UPDATE unknown SET below = ?2, sum = NULL WHERE below = ?1";
    if transaction.execute(longer, (from, below))? == 0 && from < below {
        transaction.execute("INSERT INTO unknown (first, below) VALUES (?1, ?2)", (from, below))?;
    }
    let next = "UPDATE cluster SET next_stripe = ?1";
    sealed::change_cluster(transaction, |cluster| cluster.execute(next, [below]))?;
    sealed::seal_unknown(transaction)
}

/// Takes an id out of those that others have given out.
pub(super) fn disown(transaction: &Transaction<'_>, id: StripeId) -> rusqlite::Result<()> {
    let range = "DELETE FROM unknown WHERE first <= ?1 AND below > ?1 RETURNING first, below";
    let mut query = transaction.prepare_cached(range)?;
    let ranges = query.query_map([id.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let ranges: Vec<(u64, u64)> = ranges.collect::<Result<_, _>>()?;
    for (first, below) in ranges {
        for rest in [(first, id.0), (id.0 + 1, below)].into_iter().filter(|(a, b)| a < b) {
            sealed::leave(transaction, rest.0, rest.1)?;
        }
    }
    sealed::seal_unknown(transaction)
}
