//! Metadata that are older than what agents know: restored from a backup, or an older snapshot.
//!
//! Place: around all of failure -> ... -> stripe healthy, at a coordinator's start.
//! Others went on from the same metadata: they began epochs, gave out stripe ids and wrote chunks
//! of which nothing is known here. Agents tell of both, and what they tell is made durable before
//! anything is begun or given out by it.
//! Invariants: neither an epoch nor a stripe id is used that agents have heard of from others; what
//! others have stored is not deleted as orphans.

use rusqlite::Transaction;
use suture_repair::event::Input;
use suture_repair::id::StripeId;
use suture_repair::keeper::admission::outranking;
use tracing::warn;

use super::{MetadataError, MetadataStore};

impl MetadataStore {
    /// Makes the epoch one that nobody has heard of, if the agent of node `name` has `followed` one
    /// that these metadata have not begun: a later one, or this one without having joined in it.
    ///
    /// # Errors
    /// When the epoch cannot be made durable.
    pub fn outrank(&mut self, name: &str, followed: u32) -> Result<(), MetadataError> {
        if let Some(epoch) = outranking(self.epoch, followed, self.joined.contains(name)) {
            self.database.execute("UPDATE cluster SET epoch = ?1", [epoch])?;
            warn!(
                "agent '{name}' has followed epoch {followed} already, these metadata began epoch {}: \
                 they are older than what the agents hold (restored from a backup?); going on as \
                 epoch {epoch}",
                self.epoch
            );
            self.epoch = epoch;
            self.changes.push(Input::EpochRaised(epoch));
        }
        self.joined.insert(name.to_string());
        Ok(())
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
        // Agents list one after the other: what follows on the last range belongs to it.
        let longer = "UPDATE unknown SET below = ?2 WHERE below = ?1";
        if transaction.execute(longer, (from, below.0))? == 0 {
            let new = "INSERT INTO unknown (first, below) VALUES (?1, ?2)";
            transaction.execute(new, (from, below.0))?;
        }
        transaction.execute("UPDATE cluster SET next_stripe = ?1", [below.0])?;
        transaction.commit()?;
        warn!(
            "agents hold chunks of stripes {from} to {}, which these metadata have never given out: \
             they are older than what the agents hold (restored from a backup?). The chunks stay \
             as they are, for metadata that know them",
            below.0 - 1
        );
        self.announce_reserved()
    }

    /// Says which stripe ids are given out, which of them are still being written, and which are
    /// of stripes that these metadata do not know.
    ///
    /// # Errors
    /// When the database fails.
    pub fn announce_reserved(&mut self) -> Result<(), MetadataError> {
        let next = "SELECT next_stripe FROM cluster";
        let below = StripeId(self.database.query_row(next, [], |row| row.get(0))?);
        let writing = self.puts.values().flat_map(|put| &put.stripes).copied().collect();
        let unknown = self.unknown()?;
        let unknown =
            unknown.into_iter().map(|(from, below)| Input::StripesUnknown { from, below });
        self.changes.extend(unknown);
        self.changes.push(Input::StripesReserved { below, writing });
        Ok(())
    }

    /// The first stripe id that may be of a put that has not ended, now or later: a copy of the
    /// metadata as they are now must not take such stripes for orphans.
    ///
    /// # Errors
    /// When the database fails.
    pub fn first_open(&self) -> Result<StripeId, MetadataError> {
        let next = "SELECT next_stripe FROM cluster";
        let next = StripeId(self.database.query_row(next, [], |row| row.get(0))?);
        Ok(self.puts.values().flat_map(|put| &put.stripes).copied().min().unwrap_or(next))
    }

    /// Ids of stripes that others have given out, as ranges: the first, and one past the last.
    ///
    /// # Errors
    /// When the database fails.
    pub fn unknown(&self) -> Result<Vec<(StripeId, StripeId)>, MetadataError> {
        let query = "SELECT first, below FROM unknown ORDER BY first";
        let mut query = self.database.prepare_cached(query)?;
        let ranges =
            query.query_map([], |row| Ok((StripeId(row.get(0)?), StripeId(row.get(1)?))))?;
        Ok(ranges.collect::<Result<_, _>>()?)
    }
}

/// Takes an id out of those that others have given out.
pub(super) fn disown(transaction: &Transaction<'_>, id: StripeId) -> rusqlite::Result<()> {
    let range = "DELETE FROM unknown WHERE first <= ?1 AND below > ?1 RETURNING first, below";
    let mut query = transaction.prepare_cached(range)?;
    let ranges = query.query_map([id.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let ranges: Vec<(u64, u64)> = ranges.collect::<Result<_, _>>()?;
    for (first, below) in ranges {
        for rest in [(first, id.0), (id.0 + 1, below)].into_iter().filter(|(a, b)| a < b) {
            transaction.execute(
                "INSERT INTO unknown (first, below) VALUES (?1, ?2)
                 ON CONFLICT (first) DO UPDATE SET below = max(below, excluded.below)",
                rest,
            )?;
        }
    }
    Ok(())
}
