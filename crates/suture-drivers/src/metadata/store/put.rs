//! Puts: stripe ids are reserved for them, and they end in one commit or in nothing.
//!
//! Place: [stripe ids reserved] -> chunks durable -> [object visible].
//! What a put wrote and did not commit belongs to no object: its stripe ids are never given out
//! again, so inventories show its chunks as orphans. Where only its commit failed, on the disk, it
//! may be in the log all the same, and a start after a kill may find it there: then its chunks stay
//! until another change was made durable in its place.

use std::sync::atomic::Ordering;

use rusqlite::{ErrorCode, OptionalExtension, Transaction, params};
use suture_edge::error::quoted;
use suture_repair::event::Input;
use suture_repair::id::{NodeId, StripeId};

use super::stripes::{NO_CHECKSUM, record_object};
use super::{MetadataError, MetadataStore, Object, ObjectStripe, PutId, restored, sealed, sums};

/// A put that has begun and not ended.
#[derive(Debug)]
pub(super) struct OpenPut {
    name: String,
    /// Whether the object of this name, if there is one, goes when it is committed.
    is_overwriting: bool,
    pub(super) stripes: Vec<StripeId>,
}

impl MetadataStore {
    /// Begins an object. The name is reserved until the put ends.
    ///
    /// # Errors
    /// When the name is taken or being written, or the database fails.
    pub fn begin_put(&mut self, name: &str) -> Result<PutId, MetadataError> {
        let taken = "SELECT EXISTS (SELECT 1 FROM object WHERE name = ?1)";
        if self.database.query_row(taken, [name], |row| row.get(0))? {
            return Err(MetadataError::NameTaken(name.to_string()));
        }
        self.begin(name, false)
    }

    /// Begins an object that takes the place of the one of its name, if there is one: at its
    /// commit, whole and at once.
    ///
    /// # Errors
    /// When the name is being written.
    pub fn begin_overwrite(&mut self, name: &str) -> Result<PutId, MetadataError> {
        self.begin(name, true)
    }

    fn begin(&mut self, name: &str, is_overwriting: bool) -> Result<PutId, MetadataError> {
        if self.puts.values().any(|put| put.name == name) {
            return Err(MetadataError::BeingWritten(name.to_string()));
        }
        let id = PutId(self.next_put);
        self.next_put += 1;
        self.puts
            .insert(id, OpenPut { name: name.to_string(), is_overwriting, stripes: Vec::new() });
        Ok(id)
    }

    /// Gives a put the ids of its next stripes; durable, so that no other put gets them.
    ///
    /// # Errors
    /// When the put has ended, or the database fails.
    pub fn reserve_stripes(
        &mut self,
        put: PutId,
        count: u32,
    ) -> Result<Vec<StripeId>, MetadataError> {
        let entry = self.puts.get_mut(&put).ok_or(MetadataError::PutEnded)?;
        let transaction = self.database.transaction()?;
        let reserve = "UPDATE cluster SET next_stripe = next_stripe + ?1 RETURNING next_stripe";
        let below: u64 = sealed::change_cluster(&transaction, |cluster| {
            cluster.query_row(reserve, [count], |row| row.get(0))
        })?;
        transaction.commit()?;
        let ids: Vec<StripeId> = (below - u64::from(count)..below).map(StripeId).collect();
        entry.stripes.extend(&ids);
        self.announce_reserved()?;
        Ok(ids)
    }

    /// Makes the object visible, whole and at once. The put has ended when this succeeds.
    ///
    /// # Errors
    /// When the put has ended or committed what it was not given, or the database fails.
    pub fn commit_put(
        &mut self,
        put: PutId,
        object: &Object,
        stripes: Vec<ObjectStripe>,
    ) -> Result<(), MetadataError> {
        let entry = self.puts.get(&put).ok_or(MetadataError::PutEnded)?;
        check_put(entry, object, &stripes)?;
        let is_overwriting = entry.is_overwriting;
        let transaction = self.database.transaction()?;
        let old = if is_overwriting { remove_object(&transaction, &object.name)? } else { None };
        insert_object(&transaction, object, &stripes)?;
        let committed = "UPDATE cluster SET committed = committed + 1 RETURNING committed";
        let committed: u64 = sealed::change_cluster(&transaction, |cluster| {
            cluster.query_row(committed, [], |row| row.get(0))
        })?;
        if let Err(error) = transaction.commit() {
            self.doubtful.extend(stripes.iter().map(|entry| entry.stripe.id));
            if may_be_written(&error) {
                self.doubtful_puts.insert(put);
            }
            return Err(error.into());
        }
        self.committed.store(committed, Ordering::Relaxed);
        let old = old.into_iter().flat_map(|removed| removed.stripes);
        self.changes.extend(old.map(Input::StripeRemoved));
        let added = stripes.into_iter().map(|entry| Input::StripeAdded(entry.stripe));
        self.changes.extend(added);
        self.end_put(put)
    }

    /// Whether the commit of this put failed, and may be found in the log all the same, should this
    /// process end now.
    pub fn is_doubtful(&self, put: PutId) -> bool {
        self.doubtful_puts.contains(&put)
    }

    /// Ends a put; the copies that it wrote and did not commit are orphans.
    ///
    /// # Errors
    /// When the database fails.
    pub fn end_put(&mut self, put: PutId) -> Result<(), MetadataError> {
        match self.puts.remove(&put) {
            Some(_) => self.announce_reserved(),
            None => Ok(()),
        }
    }

    /// A change was made durable: whatever commit failed before it is not in the log any more.
    pub(super) fn end_doubt(&mut self) {
        self.doubtful_puts.clear();
        let doubtful = std::mem::take(&mut self.doubtful);
        if !doubtful.is_empty() && self.announce_reserved().is_err() {
            self.doubtful = doubtful;
        }
    }
}

/// Whether a commit that failed may be in the log whole: not where it was refused before it was
/// written, or where the disk had no space for all of it.
fn may_be_written(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    !matches!(code, Some(ErrorCode::ConstraintViolation | ErrorCode::DiskFull))
}

/// What belonged to an object that is gone.
pub(super) struct RemovedObject {
    pub bytes: u64,
    pub stripes: Vec<StripeId>,
}

/// Removes an object with its stripes, if there is one of this name.
pub(super) fn remove_object(
    transaction: &Transaction<'_>,
    name: &str,
) -> rusqlite::Result<Option<RemovedObject>> {
    let found = "SELECT id, bytes FROM object WHERE name = ?1";
    let found =
        transaction.query_row(found, [name], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)));
    let Some((object, bytes)) = found.optional()? else { return Ok(None) };
    let stripes: Vec<StripeId> = {
        let mut query = transaction.prepare("SELECT id FROM stripe WHERE object = ?1")?;
        query.query_map([object], |row| row.get(0).map(StripeId))?.collect::<Result<_, _>>()?
    };
    transaction.execute("DELETE FROM object WHERE id = ?1", [object])?;
    stripes.iter().try_for_each(|id| restored::disown(transaction, *id))?;
    Ok(Some(RemovedObject { bytes, stripes }))
}

/// Records an object with its stripes.
pub(super) fn insert_object(
    transaction: &Transaction<'_>,
    object: &Object,
    stripes: &[ObjectStripe],
) -> Result<(), MetadataError> {
    transaction.execute(
        "INSERT INTO object (name, bytes, code, chunk_bytes, checksum, created)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            object.name,
            object.bytes,
            object.code.to_string(),
            object.chunk_bytes,
            object.checksum.cast_signed(),
            object.created
        ],
    )?;
    let id = transaction.last_insert_rowid();
    record_object(transaction, id, object)?;
    let mut insert_stripe = transaction.prepare_cached(
        "INSERT INTO stripe
             (id, object, ordinal, code, chunk_bytes, data_bytes, generation, unit_bytes, checksum,
              sum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?;
    let mut insert_chunk = transaction.prepare_cached(
        "INSERT INTO chunk (stripe, idx, node, stamp, crc, bytes)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for (ordinal, entry) in stripes.iter().enumerate() {
        let ObjectStripe { stripe, data_bytes, checksum } = entry;
        insert_stripe.execute(params![
            stripe.id.0,
            id,
            ordinal,
            stripe.code.to_string(),
            stripe.chunk_bytes,
            data_bytes,
            stripe.generation.0,
            Some(stripe.unit_bytes).filter(|bytes| *bytes != stripe.chunk_bytes),
            checksum.map(u64::cast_signed),
            sums::of_stripe(id, ordinal as u64, entry)
        ])?;
        for (index, chunk) in stripe.chunks.iter().enumerate() {
            let node = chunk.node.map(|node| node.0);
            let crc = chunk.crc.map_or(NO_CHECKSUM, i64::from);
            let bytes = Some(chunk.bytes).filter(|bytes| *bytes != stripe.chunk_bytes);
            insert_chunk.execute((stripe.id.0, index, node, chunk.stamp.0, crc, bytes))?;
        }
    }
    Ok(())
}

/// A put may only commit what it was given, enough of it, and no two chunks in one place.
fn check_put(
    put: &OpenPut,
    object: &Object,
    stripes: &[ObjectStripe],
) -> Result<(), MetadataError> {
    let invalid = |what: String| Err(MetadataError::InvalidPut(what));
    if put.name != object.name {
        return invalid(format!(
            "it began as {} and ends as {}",
            quoted(&put.name),
            quoted(&object.name)
        ));
    }
    let add = |total: u64, entry: &ObjectStripe| total.checked_add(entry.data_bytes);
    let total = stripes.iter().try_fold(0, add).unwrap_or(u64::MAX);
    if total != object.bytes {
        return invalid(format!("its stripes hold {total} bytes, it has {}", object.bytes));
    }
    for ObjectStripe { stripe, data_bytes, .. } in stripes {
        let code = stripe.code;
        let mut nodes: Vec<NodeId> = stripe.chunks.iter().filter_map(|c| c.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let needed = code.durable_chunks_min();
        let named = stripe.chunks.iter().filter(|c| c.node.is_some()).count();
        let placed = named + stripe.chunks.iter().filter(|c| c.is_known_zero()).count();
        if put.stripes.binary_search(&stripe.id).is_err() {
            return invalid(format!("{} was not given to it", stripe.id));
        }
        if stripe.check().is_err() || nodes.len() != named || placed < needed {
            return invalid(format!(
                "{} has {placed} of {} chunks stored, on {} nodes: {code} needs {needed} on distinct nodes",
                stripe.id,
                stripe.chunks.len(),
                nodes.len()
            ));
        }
        if *data_bytes > stripe.chunk_bytes.saturating_mul(code.data_chunks() as u64) {
            return invalid(format!("{} cannot hold {data_bytes} bytes", stripe.id));
        }
    }
    if !stripes.is_sorted_by(|a, b| a.stripe.id < b.stripe.id) {
        return invalid("its stripes are out of order".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_doubtful_where_its_error_does_not_say_that_it_was_not_written() {
        let fails_with = |code: i32| {
            let error = rusqlite::ffi::Error::new(code);
            may_be_written(&rusqlite::Error::SqliteFailure(error, None))
        };
        assert!(fails_with(rusqlite::ffi::SQLITE_IOERR_FSYNC));
        assert!(fails_with(rusqlite::ffi::SQLITE_IOERR_WRITE));
        assert!(!fails_with(rusqlite::ffi::SQLITE_FULL));
        assert!(!fails_with(rusqlite::ffi::SQLITE_CONSTRAINT_COMMITHOOK));
    }
}
