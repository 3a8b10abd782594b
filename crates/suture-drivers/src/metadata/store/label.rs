//! What is kept beside the chunks of a stripe, from the metadata.
//!
//! Place: ... plan -> [claim, answered with the label] -> dispatch -> chunk durable -> commit ...

use rusqlite::{OptionalExtension, Row};
use suture_repair::id::StripeId;
use suture_repair::label::Label;
use suture_repair::stripe::Stripe;

use super::stripes::{OBJECT, object_of};
use super::{MetadataError, MetadataStore};
use crate::label::StripeLabel;

impl MetadataStore {
    /// The label of a stripe: empty where there is no such stripe, or not all of it was recorded.
    ///
    /// # Errors
    /// When the database fails.
    pub fn label(&self, stripe: &Stripe) -> Result<Label, MetadataError> {
        let is_whole = |bytes: u64| bytes == stripe.chunk_bytes;
        let is_plain =
            is_whole(stripe.unit_bytes) && stripe.chunks.iter().all(|c| is_whole(c.bytes));
        let crcs: Option<Vec<u32>> = stripe.chunks.iter().map(|chunk| chunk.crc).collect();
        let Some(crcs) = crcs.filter(|_| is_plain) else { return Ok(Label::default()) };
        self.check_object_of(stripe.id)?;
        let label = self.labelled(stripe.id, |row| {
            Ok(Some(StripeLabel {
                object: row.get(0)?,
                code: stripe.code,
                object_chunk_bytes: row.get(1)?,
                created: row.get(2)?,
                first: StripeId(row.get(3)?),
                ordinal: row.get(4)?,
                is_last: row.get(5)?,
                chunk_bytes: stripe.chunk_bytes,
                data_bytes: row.get(6)?,
                checksum: match row.get::<_, Option<i64>>(7)? {
                    Some(checksum) => checksum.cast_unsigned(),
                    None => return Ok(None),
                },
                crcs,
            }))
        })?;
        Ok(label.map(|label| label.encode()).unwrap_or_default())
    }

    /// Makes sure that what is recorded of its object has its sum: labels outlive the metadata.
    fn check_object_of(&self, stripe: StripeId) -> Result<(), MetadataError> {
        let query = format!(
            "SELECT {OBJECT} FROM object WHERE id = (SELECT object FROM stripe WHERE id = ?1)"
        );
        let mut query = self.database.prepare_cached(&query)?;
        let object = query.query_row([stripe.0], |row| Ok(object_of(row))).optional()?;
        object.transpose().map(drop)
    }

    fn labelled<T>(
        &self,
        stripe: StripeId,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<Option<T>>,
    ) -> Result<Option<T>, MetadataError> {
        let mut query = self.database.prepare_cached(
            "SELECT o.name, o.chunk_bytes, o.created,
                    (SELECT id FROM stripe WHERE object = o.id AND ordinal = 0),
                    s.ordinal, NOT EXISTS
                        (SELECT 1 FROM stripe WHERE object = o.id AND ordinal > s.ordinal),
                    s.data_bytes, s.checksum
             FROM stripe s JOIN object o ON o.id = s.object WHERE s.id = ?1",
        )?;
        Ok(query.query_row([stripe.0], read).optional()?.flatten())
    }
}
