//! What is kept of scrubbing: when passes began and ended, where the one that runs has come, and
//! what is wrong with which copies.
//!
//! Place: [failure detected] -> ..., so that a restarted coordinator goes on with a pass of weeks.

use std::time::{SystemTime, UNIX_EPOCH};

use suture_repair::event::{Input, KnownFault, ScrubStep};
use suture_repair::id::{ChunkCopy, ChunkIndex, NodeId, Stamp, StripeId};

use super::{MetadataError, MetadataStore};

/// What is known of passes; times in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassRecord {
    /// When the last one began.
    pub begun: Option<u64>,
    /// Below which stripe it is done; none when it has ended.
    pub next: Option<StripeId>,
    /// When one last ended.
    pub ended: Option<u64>,
}

impl MetadataStore {
    /// What is known of passes.
    ///
    /// # Errors
    /// When the database fails.
    pub fn pass(&self) -> Result<PassRecord, MetadataError> {
        let query = "SELECT pass_begun, pass_next, pass_ended FROM cluster";
        let pass = self.database.query_row(query, [], |row| {
            let next: Option<u64> = row.get(1)?;
            let (begun, ended) = (row.get(0)?, row.get(2)?);
            Ok(PassRecord { begun, next: next.map(StripeId), ended })
        })?;
        Ok(pass)
    }

    /// Notes how far a pass has come.
    ///
    /// # Errors
    /// When the database fails.
    pub fn note_pass(&mut self, step: ScrubStep) -> Result<(), MetadataError> {
        let now = seconds_since_1970();
        match step {
            ScrubStep::Begun => {
                let begun = "UPDATE cluster SET pass_begun = ?1, pass_next = 0";
                self.database.execute(begun, [now])?;
            }
            ScrubStep::Reached(below) => {
                self.database.execute("UPDATE cluster SET pass_next = ?1", [below.0])?;
            }
            ScrubStep::Ended => {
                let ended = "UPDATE cluster SET pass_ended = ?1, pass_next = NULL";
                self.database.execute(ended, [now])?;
            }
            ScrubStep::Inconsistent(id) => self.note_fit(id, false)?,
            ScrubStep::Consistent(id) => self.note_fit(id, true)?,
        }
        Ok(())
    }

    /// Notes whether the chunks of a stripe fit each other; of one that is gone nothing is kept.
    fn note_fit(&mut self, id: StripeId, fits: bool) -> Result<(), MetadataError> {
        let noted = "UPDATE stripe SET inconsistent = ?2 WHERE id = ?1";
        self.database.execute(noted, (id.0, !fits))?;
        Ok(())
    }

    /// Notes what is wrong with the copy that is recorded of a chunk, or that nothing is any more;
    /// of another copy nothing is kept.
    ///
    /// # Errors
    /// When the database fails.
    pub fn note_fault(
        &mut self,
        node: NodeId,
        copy: ChunkCopy,
        fault: Option<KnownFault>,
    ) -> Result<(), MetadataError> {
        let noted = "UPDATE chunk SET fault = ?5
                     WHERE stripe = ?1 AND idx = ?2 AND node = ?3 AND stamp = ?4";
        let fault = fault.map(|fault| fault as u8);
        let (chunk, stamp) = (copy.chunk.0, copy.stamp.0.cast_signed());
        self.database.execute(noted, (copy.stripe.0, chunk, node.0, stamp, fault))?;
        Ok(())
    }

    /// Has the core know what is wrong with which copies. One that is not understood is read anew.
    ///
    /// # Errors
    /// When the database fails.
    pub fn announce_faults(&mut self) -> Result<(), MetadataError> {
        let mut query = self.database.prepare(
            "SELECT stripe, idx, stamp, node, fault FROM chunk
             WHERE fault IS NOT NULL AND node IS NOT NULL",
        )?;
        let known = query.query_map([], |row| {
            let (stripe, chunk, stamp) = (row.get(0)?, row.get(1)?, row.get::<_, i64>(2)?);
            let (node, fault) = (row.get(3)?, row.get::<_, i64>(4)?);
            let stamp = Stamp(stamp.cast_unsigned());
            let copy = ChunkCopy { stripe: StripeId(stripe), chunk: ChunkIndex(chunk), stamp };
            let fault = KnownFault::ALL.into_iter().find(|known| *known as i64 == fault);
            let fault = fault.unwrap_or(KnownFault::Corrupt);
            Ok(Input::Faulty { node: NodeId(node), copy, fault })
        })?;
        let known: Vec<Input> = known.collect::<Result<_, _>>()?;
        self.changes.extend(known);
        Ok(())
    }

    /// Notifies the core of stripes in which passes have found chunks that do not fit each other.
    ///
    /// # Errors
    /// When the database fails.
    pub fn announce_inconsistent(&mut self) -> Result<(), MetadataError> {
        let mut query = self.database.prepare("SELECT id FROM stripe WHERE inconsistent")?;
        let ids = query.query_map([], |row| Ok(StripeId(row.get(0)?)))?;
        let known: Vec<StripeId> = ids.collect::<Result<_, _>>()?;
        self.changes.extend(known.into_iter().map(Input::Inconsistent));
        Ok(())
    }
}

/// The time by the system's clock.
pub fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
