//! Objects and stripes as they are recorded, each held against its sum.
//!
//! Place: stripes affected <- `[stripes]`; [commit location] -> healthy. A row that does not have
//! its sum is not accepted: the disk has changed it since it was written.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};
use suture_code::Code;
use suture_edge::error::quoted;
use suture_repair::event::Commit;
use suture_repair::id::{Generation, NodeId, Stamp, StripeId};
use suture_repair::stripe::{ChunkRecord, Stripe};
use tracing::warn;

use super::{MetadataError, MetadataStore, Object, ObjectStripe, sealed, sums};

/// Stands in the column for a chunk whose checksum is not recorded.
pub(super) const NO_CHECKSUM: i64 = -1;

/// Stripes that are read at a time where all are read: they are not all held at once.
const PAGE_STRIPES: u32 = 4096;

/// The columns of an object, as [`object_of`] reads them.
pub(super) const OBJECT: &str = "name, bytes, code, chunk_bytes, checksum, created, id, sum";

/// A stripe as it was found, with what its row says beside.
pub(super) struct StripeRow {
    /// The object that it belongs to, and which of its stripes it is.
    pub object: i64,
    pub ordinal: u64,
    pub sum: Option<i64>,
    pub entry: ObjectStripe,
}

/// A stripe that was read, or what is wrong with it.
type ReadStripe = Result<StripeRow, MetadataError>;

/// Stripes with all their chunks, in the order of their ids, which is that of an object's data;
/// each with its object. They are not held against their sums.
pub(super) fn read_stripes(
    database: &Connection,
    condition: &str,
    parameters: &[&dyn rusqlite::ToSql],
) -> Result<Vec<(i64, ReadStripe)>, MetadataError> {
    let mut query = database.prepare_cached(&format!(
        "SELECT s.id, s.code, s.chunk_bytes, s.data_bytes, s.generation, c.node, c.stamp, c.crc,
                c.bytes, s.unit_bytes, s.checksum, c.idx, s.object, s.ordinal, s.sum
         FROM stripe s LEFT JOIN chunk c ON c.stripe = s.id WHERE {condition}
         ORDER BY s.id, c.idx"
    ))?;
    let mut rows = query.query(parameters)?;
    let mut found: Vec<(i64, ReadStripe)> = Vec::new();
    let mut last = None;
    while let Some(row) = rows.next()? {
        let (id, object) = (StripeId(row.get(0)?), row.get(12)?);
        if last.replace(id) != Some(id) {
            found.push((object, stripe_of(id, row)));
        }
        let (_, stripe) = found.last_mut().expect("pushed above");
        let added = stripe.as_mut().ok().map(|stripe| add_chunk(&mut stripe.entry.stripe, row));
        if let Some(Err(why)) = added {
            *stripe = Err(why);
        }
    }
    Ok(found)
}

/// The same, each as good or with what is wrong with it.
fn find_stripes(
    database: &Connection,
    condition: &str,
    parameters: &[&dyn rusqlite::ToSql],
) -> Result<Vec<(i64, ReadStripe)>, MetadataError> {
    let nodes = database.query_row("SELECT count(*) FROM node", [], |row| row.get(0))?;
    let check = |found: StripeRow| {
        if found
            .sum
            .is_none_or(|sum| sum == sums::of_stripe(found.object, found.ordinal, &found.entry))
        {
            check_complete(&found.entry, nodes).map(|()| found)
        } else {
            Err(damaged(found.entry.stripe.id, &"what is recorded has another sum"))
        }
    };
    let found = read_stripes(database, condition, parameters)?.into_iter();
    Ok(found.map(|(object, found)| (object, found.and_then(check))).collect())
}

fn add_chunk(stripe: &mut Stripe, row: &Row<'_>) -> Result<(), MetadataError> {
    let next = stripe.chunks.len();
    if row.get::<_, Option<usize>>(11)? != Some(next) {
        return Err(damaged(stripe.id, &format!("it lacks chunk {next}")));
    }
    stripe.chunks.push(record_of(row, stripe.chunk_bytes)?);
    Ok(())
}

/// The same, all of them good.
///
/// # Errors
/// When the database fails or what it holds is damaged.
fn good_stripes(
    database: &Connection,
    condition: &str,
    parameters: &[&dyn rusqlite::ToSql],
) -> Result<Vec<StripeRow>, MetadataError> {
    find_stripes(database, condition, parameters)?.into_iter().map(|(_, found)| found).collect()
}

/// Reads all objects and stripes, gives each stripe that is good with its object, and returns what
/// is wrong with which object.
fn walk(
    database: &Connection,
    mut each: impl FnMut(i64, Stripe),
) -> Result<BTreeMap<i64, MetadataError>, MetadataError> {
    let mut faults = damaged_objects(database)?;
    let mut lengths: BTreeMap<i64, u64> = BTreeMap::new();
    let mut from = Some(i64::MIN);
    while let Some(first) = from {
        from = after_page(database, first)?;
        let page = params![first, from.unwrap_or(i64::MAX)];
        for (object, found) in find_stripes(database, "s.id >= ?1 AND s.id < ?2", page)? {
            match found {
                Ok(StripeRow { entry, .. }) => {
                    *lengths.entry(object).or_default() += entry.data_bytes;
                    each(object, entry.stripe);
                }
                Err(why) => drop(faults.insert(object, why)),
            }
        }
    }
    for (object, why) in damaged_lengths(database, &lengths)? {
        faults.entry(object).or_insert(why);
    }
    Ok(faults)
}

/// The first stripe that does not belong to the page of stripes that begins there.
fn after_page(database: &Connection, first: i64) -> rusqlite::Result<Option<i64>> {
    let next = "SELECT id FROM stripe WHERE id >= ?1 ORDER BY id LIMIT 1 OFFSET ?2";
    database.query_row(next, params![first, PAGE_STRIPES], |row| row.get(0)).optional()
}

/// Objects whose rows are damaged, with what is wrong.
fn damaged_objects(database: &Connection) -> Result<BTreeMap<i64, MetadataError>, MetadataError> {
    let mut query = database.prepare(&format!("SELECT {OBJECT} FROM object"))?;
    let mut rows = query.query([])?;
    let mut damaged = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let id = row.get(6)?;
        damaged.extend(object_of(row).err().map(|why| (id, why)));
    }
    Ok(damaged)
}

/// Objects that are not as long as their stripes together.
fn damaged_lengths(
    database: &Connection,
    lengths: &BTreeMap<i64, u64>,
) -> Result<Vec<(i64, MetadataError)>, MetadataError> {
    let mut query = database.prepare("SELECT id, bytes, name FROM object")?;
    let mut rows = query.query([])?;
    let mut damaged = Vec::new();
    while let Some(row) = rows.next()? {
        let (id, bytes): (i64, u64) = (row.get(0)?, row.get(1)?);
        let found = lengths.get(&id).copied().unwrap_or_default();
        if bytes != found {
            let name = String::from_utf8_lossy(row.get_ref(2)?.as_bytes().unwrap_or_default())
                .into_owned();
            let what = format!("'{name}' has {bytes} bytes, and stripes of {found}");
            damaged.push((id, MetadataError::Damaged(what)));
        }
    }
    Ok(damaged)
}

/// What is wrong with the first damaged object, and how many more there are.
fn first_of(faults: BTreeMap<i64, MetadataError>) -> Option<String> {
    let more = faults.len().saturating_sub(1);
    let others = match more {
        0 => String::new(),
        1 => " (1 more object is damaged)".to_string(),
        _ => format!(" ({more} more objects are damaged)"),
    };
    let what = match faults.into_values().next()? {
        MetadataError::Damaged(what) => what,
        other => other.to_string(),
    };
    Some(what + &others)
}

/// What is damaged in metadata of the present schema, if anything is; nothing is changed.
///
/// # Errors
/// When the database fails.
pub(in crate::metadata) fn find_damage(
    database: &Connection,
) -> Result<Option<String>, MetadataError> {
    if sealed::is_cluster_damaged(database)? {
        return Ok(Some("the record of its cluster does not have its checksum".into()));
    }
    Ok(first_of(walk(database, |_, _| ())?))
}

impl MetadataStore {
    pub(super) fn select_stripes(
        &self,
        condition: &str,
        parameters: &[&dyn rusqlite::ToSql],
    ) -> Result<Vec<ObjectStripe>, MetadataError> {
        let found = good_stripes(&self.database, condition, parameters)?;
        Ok(found.into_iter().map(|found| found.entry).collect())
    }

    /// One stripe, if it exists.
    pub(super) fn stripe(&self, id: StripeId) -> Result<Option<Stripe>, MetadataError> {
        let mut stripes = self.select_stripes("s.id = ?1", params![id.0])?;
        Ok(stripes.pop().map(|entry| entry.stripe))
    }

    /// All stripes, to begin with. Those of damaged objects are left out where that is wanted.
    ///
    /// # Errors
    /// When the database fails or what it holds is damaged.
    pub fn stripes(&mut self) -> Result<Vec<Stripe>, MetadataError> {
        let mut stripes = Vec::new();
        let faults = walk(&self.database, |object, stripe| stripes.push((object, stripe)))?;
        self.set_aside(faults)?;
        stripes.retain(|(object, _)| !self.damaged.contains(object));
        Ok(stripes.into_iter().map(|(_, stripe)| stripe).collect())
    }

    /// Notes which objects are damaged, where that is wanted; otherwise that is an error.
    fn set_aside(&mut self, faults: BTreeMap<i64, MetadataError>) -> Result<(), MetadataError> {
        if self.sets_aside {
            for why in faults.values() {
                warn!("{why}: it is made again from what agents hold");
            }
            self.damaged = faults.into_keys().collect();
            return leave_damaged(&mut self.database, &self.damaged);
        }
        let Some(what) = first_of(faults) else { return Ok(()) };
        Err(MetadataError::Damaged(format!(
            "{what}: use a backup (suture metadata restore), or have `suture metadata rebuild` make again what is damaged"
        )))
    }

    /// The object of this name.
    ///
    /// # Errors
    /// When there is none, the database fails, or what it holds is damaged.
    pub fn object(&self, name: &str) -> Result<Object, MetadataError> {
        let query = format!("SELECT {OBJECT} FROM object WHERE name = ?1");
        let mut query = self.database.prepare_cached(&query)?;
        let object = query.query_row([name], |row| Ok(object_of(row))).optional()?;
        object.ok_or_else(|| MetadataError::NoSuchObject(name.to_string()))?
    }
}

/// Changes a location, if the stripe still has the generation.
pub(super) fn set_location(
    database: &mut Connection,
    commit: &Commit,
) -> Result<bool, MetadataError> {
    let (stripe, chunk) = (commit.copy.stripe.0, commit.copy.chunk.0);
    let transaction = database.transaction()?;
    // What is damaged gets no sum that says otherwise.
    good_stripes(&transaction, "s.id = ?1", params![stripe])?;
    let matched = transaction.execute(
        "UPDATE stripe SET generation = generation + 1 WHERE id = ?1 AND generation = ?2",
        (stripe, commit.generation.0),
    )?;
    let cleared = match commit.clears {
        Some(chunk) => transaction.execute(
            "UPDATE chunk SET node = NULL, fault = NULL WHERE stripe = ?1 AND idx = ?2 AND node = ?3",
            (stripe, chunk.0, commit.node.0),
        )?,
        None => 0,
    };
    let doubled: bool = transaction.query_row(
        "SELECT EXISTS (SELECT 1 FROM chunk WHERE stripe = ?1 AND node = ?2 AND idx <> ?3)",
        (stripe, commit.node.0, chunk),
        |row| row.get(0),
    )?;
    let moved = transaction.execute(
        "UPDATE chunk SET node = ?3, stamp = ?4, fault = NULL WHERE stripe = ?1 AND idx = ?2",
        (stripe, chunk, commit.node.0, commit.copy.stamp.0),
    )?;
    let is_cleared = cleared == usize::from(commit.clears.is_some());
    if matched == 1 && moved == 1 && is_cleared && !doubled {
        record_sums(&transaction, "s.id = ?1", params![stripe])?;
        transaction.commit()?;
        return Ok(true);
    }
    Ok(false)
}

/// The object of a row of [`OBJECT`], if it has its sum.
pub(super) fn object_of(row: &Row<'_>) -> Result<Object, MetadataError> {
    let name: String = row.get(0)?;
    let object = Object {
        bytes: row.get(1)?,
        code: code_of(row.get(2)?, &name)?,
        chunk_bytes: row.get(3)?,
        checksum: row.get::<_, i64>(4)?.cast_unsigned(),
        created: row.get(5)?,
        name,
    };
    match row.get::<_, Option<i64>>(7)? {
        Some(sum) if sum != sums::of_object(row.get(6)?, &object) => {
            let what = format!("what is recorded of {} has another sum", quoted(&object.name));
            Err(MetadataError::Damaged(what))
        }
        _ => Ok(object),
    }
}

fn stripe_of(id: StripeId, row: &Row<'_>) -> ReadStripe {
    let stripe = Stripe {
        id,
        code: code_of(row.get(1)?, &id)?,
        chunk_bytes: row.get(2)?,
        unit_bytes: row.get::<_, Option<u64>>(9)?.map_or_else(|| row.get(2), Ok)?,
        generation: Generation(row.get(4)?),
        chunks: Vec::new(),
    };
    let checksum = row.get::<_, Option<i64>>(10)?.map(i64::cast_unsigned);
    let entry = ObjectStripe { stripe, data_bytes: row.get(3)?, checksum };
    Ok(StripeRow { object: row.get(12)?, ordinal: row.get(13)?, sum: row.get(14)?, entry })
}

/// The record of a chunk in a stripe whose longest has `chunk_bytes`.
fn record_of(row: &Row<'_>, chunk_bytes: u64) -> Result<ChunkRecord, MetadataError> {
    Ok(ChunkRecord {
        node: row.get::<_, Option<u32>>(5)?.map(NodeId),
        stamp: Stamp(row.get(6)?),
        bytes: row.get::<_, Option<u64>>(8)?.unwrap_or(chunk_bytes),
        crc: Some(row.get::<_, i64>(7)?).filter(|crc| *crc != NO_CHECKSUM).map(|crc| crc as u32),
    })
}

fn code_of(text: String, of: &dyn fmt::Display) -> Result<Code, MetadataError> {
    text.parse().map_err(|error| MetadataError::Damaged(format!("the code of {of}: {error}")))
}

fn damaged(stripe: StripeId, what: &dyn fmt::Display) -> MetadataError {
    MetadataError::Damaged(format!("{stripe}: {what}"))
}

/// Whether there can be such a stripe, each of its chunks on a node of its own, of so many.
fn check_complete(entry: &ObjectStripe, nodes: u32) -> Result<(), MetadataError> {
    let stripe = &entry.stripe;
    let damaged = |what: &dyn fmt::Display| Err(damaged(stripe.id, what));
    if let Err(fault) = stripe.check() {
        return damaged(&fault);
    }
    for (index, chunk) in stripe.chunks.iter().enumerate() {
        let Some(node) = chunk.node else { continue };
        if node.0 >= nodes {
            return damaged(&format!("chunk {index} is on {node}, of which nothing is known"));
        }
        if stripe.chunks[..index].iter().any(|other| other.node == chunk.node) {
            return damaged(&format!("two of its chunks are on {node}"));
        }
    }
    Ok(())
}

/// Leaves the stripes of damaged objects to others, so that no copy of them is deleted as an
/// orphan.
///
/// # Errors
/// When the database fails.
fn leave_damaged(database: &mut Connection, damaged: &BTreeSet<i64>) -> Result<(), MetadataError> {
    let transaction = database.transaction()?;
    let leave = |condition: &str, parameters: &[&dyn ToSql]| {
        let ids = format!(
            "INSERT INTO unknown (first, below) SELECT id, id + 1 FROM ({condition}) WHERE TRUE
             ON CONFLICT (first) DO NOTHING"
        );
        transaction.execute(&ids, parameters)
    };
    for object in damaged {
        leave("SELECT id FROM stripe WHERE object = ?1", params![object])?;
    }
    // What belonged to a stripe without a row of its own any more.
    let left =
        "SELECT DISTINCT stripe AS id FROM chunk WHERE stripe NOT IN (SELECT id FROM stripe)";
    leave(left, &[])?;
    sealed::seal_unknown(&transaction)?;
    Ok(transaction.commit()?)
}

/// Records the sum of an object.
pub(super) fn record_object(
    database: &Connection,
    id: i64,
    object: &Object,
) -> Result<(), MetadataError> {
    let mut record = database.prepare_cached("UPDATE object SET sum = ?2 WHERE id = ?1")?;
    record.execute((id, sums::of_object(id, object)))?;
    Ok(())
}

/// Records the sum of the object of this name, which has just got it.
pub(super) fn complete_object(database: &Connection, name: &str) -> Result<(), MetadataError> {
    database.execute("UPDATE object SET sum = NULL WHERE name = ?1", [name])?;
    let query = format!("SELECT {OBJECT} FROM object WHERE name = ?1");
    let (id, object) =
        database.query_row(&query, [name], |row| Ok((row.get(6)?, object_of(row))))?;
    record_object(database, id, &object?)
}

/// Records the sums of stripes as they are now.
fn record_sums(
    database: &Connection,
    condition: &str,
    parameters: &[&dyn ToSql],
) -> Result<(), MetadataError> {
    let mut record = database.prepare_cached("UPDATE stripe SET sum = ?2 WHERE id = ?1")?;
    for (_, found) in read_stripes(database, condition, parameters)? {
        let found = found?;
        let sum = sums::of_stripe(found.object, found.ordinal, &found.entry);
        record.execute((found.entry.stripe.id.0, sum))?;
    }
    Ok(())
}

/// Records the sums of what an older version wrote, all or none.
///
/// # Errors
/// When the database fails or what it holds is damaged.
pub(super) fn complete_sums(database: &mut Connection) -> Result<(), MetadataError> {
    let transaction = database.transaction()?;
    {
        let mut query =
            transaction.prepare(&format!("SELECT {OBJECT} FROM object WHERE sum IS NULL"))?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            record_object(&transaction, row.get(6)?, &object_of(row)?)?;
        }
    }
    record_sums(&transaction, "s.sum IS NULL", &[])?;
    Ok(transaction.commit()?)
}
