//! A sum over each object and each stripe, so that a bit of the database that the disk has flipped is
//! found before anybody acts on it.
//!
//! Place: between what is recorded and whoever believes it. SQLite checks how its pages hang together
//! and not what is in them. A stripe's sum covers its chunks too; whether a scrub found that they do
//! not fit each other is no part of it, nor are nodes, which say anew what they are.

use rusqlite::{Connection, ToSql};
use suture_edge::checksum::Crc32c;

use super::stripes::{OBJECT, object_of, read_stripes};
use super::{MetadataError, Object, ObjectStripe};

/// The fields of a row in the order of its columns, each with its length where that varies.
struct RowSum(Crc32c);

impl RowSum {
    fn new() -> RowSum {
        RowSum(Crc32c::new())
    }

    fn number(mut self, number: u64) -> RowSum {
        self.0.update(&number.to_le_bytes());
        self
    }

    /// A number that may be absent, which is no number.
    fn option(self, number: Option<u64>) -> RowSum {
        self.number(number.is_some().into()).number(number.unwrap_or_default())
    }

    fn text(self, text: &str) -> RowSum {
        let mut next = self.number(text.len() as u64);
        next.0.update(text.as_bytes());
        next
    }

    fn value(&self) -> i64 {
        self.0.value().into()
    }
}

/// CRC32C of all that is recorded of an object.
pub(super) fn of_object(id: i64, object: &Object) -> i64 {
    let Object { name, bytes, code, chunk_bytes, checksum, created } = object;
    let sum = RowSum::new().number(id.cast_unsigned()).text(name).number(*bytes);
    let sum = sum.text(&code.to_string()).number(*chunk_bytes).number(*checksum);
    sum.number(*created).value()
}

/// CRC32C of all that is recorded of a stripe, which is the `ordinal`-th of an object.
pub(super) fn of_stripe(object: i64, ordinal: u64, entry: &ObjectStripe) -> i64 {
    let ObjectStripe { stripe, data_bytes, checksum } = entry;
    let sum = RowSum::new().number(stripe.id.0).number(object.cast_unsigned()).number(ordinal);
    let sum = sum.text(&stripe.code.to_string()).number(stripe.chunk_bytes);
    let sum = sum.number(stripe.unit_bytes).number(*data_bytes).number(stripe.generation.0);
    let sum = sum.option(*checksum).number(stripe.chunks.len() as u64);
    let with_chunks = stripe.chunks.iter().fold(sum, |sum, chunk| {
        let sum = sum.option(chunk.node.map(|node| node.0.into())).number(chunk.stamp.0);
        sum.number(chunk.bytes).option(chunk.crc.map(u64::from))
    });
    with_chunks.value()
}

/// Records the sum of an object.
pub(super) fn record_object(
    database: &Connection,
    id: i64,
    object: &Object,
) -> Result<(), MetadataError> {
    let mut record = database.prepare_cached("UPDATE object SET sum = ?2 WHERE id = ?1")?;
    record.execute((id, of_object(id, object)))?;
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
pub(super) fn record(
    database: &Connection,
    condition: &str,
    parameters: &[&dyn ToSql],
) -> Result<(), MetadataError> {
    let mut record = database.prepare_cached("UPDATE stripe SET sum = ?2 WHERE id = ?1")?;
    for (_, found) in read_stripes(database, condition, parameters)? {
        let found = found?;
        let sum = of_stripe(found.object, found.ordinal, &found.entry);
        record.execute((found.entry.stripe.id.0, sum))?;
    }
    Ok(())
}

/// Records the sums of what an older version wrote, all or none.
///
/// # Errors
/// When the database fails or what it holds is damaged.
pub(super) fn complete(database: &mut Connection) -> Result<(), MetadataError> {
    let transaction = database.transaction()?;
    {
        let mut query =
            transaction.prepare(&format!("SELECT {OBJECT} FROM object WHERE sum IS NULL"))?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            record_object(&transaction, row.get(6)?, &object_of(row)?)?;
        }
    }
    record(&transaction, "s.sum IS NULL", &[])?;
    Ok(transaction.commit()?)
}
