//! A sum over each object and each stripe, so that a bit of the database that the disk has flipped
//! is found before it is acted on.
//!
//! Place: between what is recorded and its readers. SQLite checks how its pages hang together
//! and not what is in them. A stripe's sum covers its chunks too; whether a scrub found
//! that they do not fit each other is no part of it, nor are nodes, which announce anew what they
//! are. What decides which copies are orphans has sums of its own (`../sealed.rs`).

use suture_edge::checksum::Crc32c;

use super::{Object, ObjectStripe};

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
