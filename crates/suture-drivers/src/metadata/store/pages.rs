//! Objects, and the stripes of one, a page at a time.
//!
//! Place: before a read, [where its chunks are]; and for lists of what there is. Between two pages
//! an object may be removed, and another one get its name: that is reported, and never mixed.

use rusqlite::{OptionalExtension, params};
use suture_repair::id::StripeId;

use super::stripes::{OBJECT, object_of};
use super::{MetadataError, MetadataStore, Object, ObjectStripe};

impl MetadataStore {
    /// Up to `limit` objects whose names begin with `prefix` and come after `after`, in order.
    ///
    /// # Errors
    /// When the database fails or what it holds is damaged.
    pub fn objects(
        &self,
        prefix: &str,
        after: &str,
        limit: u32,
    ) -> Result<Vec<Object>, MetadataError> {
        // A blob is after every text: where no name is beyond the prefix there is no upper end.
        let query = format!(
            "SELECT {OBJECT} FROM object
             WHERE name >= ?1 AND name > ?2 AND name < coalesce(?4, x'')
             ORDER BY name LIMIT ?3",
        );
        let mut query = self.database.prepare_cached(&query)?;
        let range = (prefix, after, limit, end_of(prefix));
        let objects = query.query_map(range, |row| Ok(object_of(row)))?;
        objects.map(|object| object?).collect()
    }

    /// Up to `limit` stripes of an object, from its `from`-th on.
    ///
    /// # Errors
    /// When the database fails or what it holds is damaged.
    pub fn object_stripes(
        &self,
        name: &str,
        from: u64,
        limit: u32,
    ) -> Result<Vec<ObjectStripe>, MetadataError> {
        self.select_stripes(
            "object = (SELECT id FROM object WHERE name = ?1) AND ordinal >= ?2 AND ordinal < ?2 + ?3",
            params![name, from, limit],
        )
    }

    /// Up to `limit` stripes of an object that follow on this one of it.
    ///
    /// # Errors
    /// When the object is gone, or the database fails. Another one of its name is another one.
    pub fn stripes_after(
        &self,
        name: &str,
        last: StripeId,
        limit: u32,
    ) -> Result<Vec<ObjectStripe>, MetadataError> {
        let known = "SELECT ordinal FROM stripe
                     WHERE id = ?1 AND object = (SELECT id FROM object WHERE name = ?2)";
        let known = self.database.query_row(known, params![last.0, name], |row| row.get(0));
        let last: Option<u64> = known.optional()?;
        let last = last.ok_or_else(|| MetadataError::NoSuchObject(name.to_string()))?;
        self.object_stripes(name, last + 1, limit)
    }
}

/// The first text after all that begin with `prefix`, in the order of their bytes; none where there
/// is no such text.
fn end_of(prefix: &str) -> Option<String> {
    let last_to_first = prefix.char_indices().rev();
    let mut ends = last_to_first.filter_map(|(at, last)| {
        let next = (last..=char::MAX).nth(1)?;
        Some(format!("{}{next}", &prefix[..at]))
    });
    ends.next()
}

#[cfg(test)]
mod tests {
    use super::end_of;

    #[test]
    fn the_end_of_a_prefix_is_the_first_text_beyond_it() {
        assert_eq!(end_of("ab").as_deref(), Some("ac"));
        assert_eq!(end_of("a\u{d7ff}").as_deref(), Some("a\u{e000}"), "what is between is no text");
        assert_eq!(end_of("a\u{10ffff}\u{10ffff}").as_deref(), Some("b"));
        assert_eq!((end_of(""), end_of("\u{10ffff}")), (None, None));
    }
}
