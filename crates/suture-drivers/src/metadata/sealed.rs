//! Sums over what decides which copies are orphans: the cluster's own row, and the ids that others
//! have given out.
//!
//! Place: around every change of these, and a coordinator's start, before its epoch begins.
//! A flipped bit there would have copies deleted that others have stored. Of the cluster's row the
//! id, the epoch, the next stripe and the count of puts are summed, and whether it was set back,
//! where it was: so rows have the sums that they had before that was recorded. Their former values
//! cannot be derived, so a start is refused. Ranges of ids are there to keep copies: where one is
//! damaged, every id without a stripe is left to others, which keeps more than need be.
//!
//! Invariant: a function that changes one of these seals it in the same transaction.

use anyhow::{Result, bail};
use rusqlite::{Connection, OptionalExtension, Row, ffi};
use suture_edge::checksum::Crc32c;
use tracing::warn;

/// What is wrong with a cluster's row, and what to do.
const DAMAGED_CLUSTER: &str = "the record of its cluster does not have its checksum; use a backup \
    (suture metadata restore), or move it away and have `suture metadata rebuild` make it again";

/// The columns that the sum of the cluster's row is over, and the sum.
const CLUSTER: &str = "SELECT id, epoch, next_stripe, committed, set_back, sum FROM cluster";

/// Changes the cluster's row and seals it, in the caller's transaction.
///
/// # Errors
/// When the row as it was is damaged, or the database fails.
pub(super) fn change_cluster<T>(
    database: &Connection,
    change: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    if is_cluster_damaged(database)? {
        let corrupt = ffi::Error::new(ffi::SQLITE_CORRUPT);
        return Err(rusqlite::Error::SqliteFailure(corrupt, Some(DAMAGED_CLUSTER.into())));
    }
    let changed = change(database)?;
    seal_cluster(database)?;
    Ok(changed)
}

/// Records the sum of the cluster's row, if there is one.
fn seal_cluster(database: &Connection) -> rusqlite::Result<()> {
    let sums = database.prepare_cached(CLUSTER)?.query_row([], cluster_sums).optional()?;
    if let Some((sum, _)) = sums {
        database.prepare_cached("UPDATE cluster SET sum = ?1")?.execute([sum])?;
    }
    Ok(())
}

/// Records the sums of the ranges of others' ids that have none.
pub(super) fn seal_unknown(database: &Connection) -> rusqlite::Result<()> {
    let mut query = database.prepare("SELECT first, below FROM unknown WHERE sum IS NULL")?;
    let ranges = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let ranges: Vec<(i64, i64)> = ranges.collect::<Result<_, _>>()?;
    let mut record = database.prepare_cached("UPDATE unknown SET sum = ?2 WHERE first = ?1")?;
    for (first, below) in ranges {
        record.execute((first, of_numbers(&[first, below])))?;
    }
    Ok(())
}

/// Leaves the ids from `first` up to `below` to others; the caller seals the change.
pub(super) fn leave(database: &Connection, first: u64, below: u64) -> rusqlite::Result<()> {
    let range = "INSERT INTO unknown (first, below) VALUES (?1, ?2)
                 ON CONFLICT (first) DO UPDATE SET below = max(below, excluded.below), sum = NULL";
    database.prepare_cached(range)?.execute((first, below))?;
    Ok(())
}

/// Leaves every stripe of which nothing is known to others.
pub(super) fn leave_all(database: &Connection) -> rusqlite::Result<()> {
    database.execute("DELETE FROM unknown", [])?;
    let all = "INSERT INTO unknown (first, below) SELECT 0, next_stripe FROM cluster
               WHERE next_stripe > 0";
    database.execute(all, [])?;
    seal_unknown(database)
}

/// Looks at all of it before it is accepted, and gives sums to what an older version wrote.
///
/// # Errors
/// When the cluster's row is damaged, or the database fails.
pub(super) fn check(database: &mut Connection) -> Result<()> {
    let transaction = database.transaction()?;
    if is_cluster_damaged(&transaction)? {
        bail!("the database is damaged: {DAMAGED_CLUSTER}");
    }
    change_cluster(&transaction, |_| Ok(()))?;
    if is_unknown_damaged(&transaction)? {
        warn!(
            "the database is damaged: a range of stripes that others have stored does not have its \
             checksum. Chunks of which these metadata know nothing stay as they are; copy what is \
             in this disk's data_dir to another disk"
        );
        leave_all(&transaction)?;
    }
    seal_unknown(&transaction)?;
    Ok(transaction.commit()?)
}

/// Whether the cluster's row does not have its sum.
pub(super) fn is_cluster_damaged(database: &Connection) -> rusqlite::Result<bool> {
    let sums = database.prepare_cached(CLUSTER)?.query_row([], cluster_sums).optional()?;
    Ok(sums.is_some_and(|(sum, recorded)| recorded.is_some_and(|recorded| recorded != sum)))
}

fn is_unknown_damaged(database: &Connection) -> rusqlite::Result<bool> {
    let mut query = database.prepare("SELECT first, below, sum FROM unknown")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let recorded: Option<i64> = row.get(2)?;
        let sum = of_numbers(&[row.get(0)?, row.get(1)?]);
        if recorded.is_some_and(|recorded| recorded != sum) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What the sum of the cluster's row is, and what is recorded, if anything is.
fn cluster_sums(row: &Row<'_>) -> rusqlite::Result<(i64, Option<i64>)> {
    let numbers = [row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?];
    let summed = if numbers[4] == 0 { &numbers[..4] } else { &numbers[..] };
    Ok((of_numbers(summed), row.get(5)?))
}

/// CRC32C of numbers as SQLite has them.
fn of_numbers(numbers: &[i64]) -> i64 {
    let mut sum = Crc32c::new();
    numbers.iter().for_each(|number| sum.update(&number.to_le_bytes()));
    sum.value().into()
}
