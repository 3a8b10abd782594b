//! What the native store keeps beside every chunk: enough to make the map of objects again from
//! nothing but chunks.
//!
//! Place: [put] -> failure detected -> ... -> [chunk durable, its label beside it] -> commit ...
//! A put writes it with each chunk; the metadata give it to the agent that rebuilds one, so that a
//! rebuilt chunk has the same label as the first. Where chunks lie is not in it: the agents list
//! them.
//!
//! Invariant: all chunks of a stripe have the same label, but for the name of an object that had to
//! be renamed when the metadata were made again.

use std::fmt;

use prost::Message;
use suture_code::Code;
use suture_code::layout;
use suture_repair::id::StripeId;
use suture_repair::label::Label;
use suture_repair::stripe::CHUNK_BYTES_MAX;

/// A stripe of an object, as the labels of its chunks describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StripeLabel {
    /// The name of the object.
    pub object: String,
    /// The code of all its stripes.
    pub code: Code,
    /// The chunk length of all its stripes but a short last one.
    pub object_chunk_bytes: u64,
    /// When the put began, in seconds since 1970.
    pub created: u64,
    /// The object's first stripe, which no other object has.
    pub first: StripeId,
    /// Which of the object's stripes it is, from 0.
    pub ordinal: u64,
    /// Whether there is none after it.
    pub is_last: bool,
    /// The length of its chunks.
    pub chunk_bytes: u64,
    /// How much of its data chunks is data.
    pub data_bytes: u64,
    /// CRC-64/NVME of that data.
    pub checksum: u64,
    /// CRC32C of each chunk.
    pub crcs: Vec<u32>,
}

/// The bytes of a label. Numbers keep their meaning for ever.
#[derive(Clone, PartialEq, Message)]
struct Encoded {
    #[prost(string, tag = "1")]
    object: String,
    #[prost(string, tag = "2")]
    code: String,
    #[prost(uint64, tag = "3")]
    object_chunk_bytes: u64,
    #[prost(uint64, tag = "4")]
    created: u64,
    #[prost(uint64, tag = "5")]
    first: u64,
    #[prost(uint64, tag = "6")]
    ordinal: u64,
    #[prost(bool, tag = "7")]
    is_last: bool,
    #[prost(uint64, tag = "8")]
    chunk_bytes: u64,
    #[prost(uint64, tag = "9")]
    data_bytes: u64,
    #[prost(fixed64, tag = "10")]
    checksum: u64,
    #[prost(fixed32, repeated, tag = "11")]
    crcs: Vec<u32>,
}

/// Why bytes are no label of a stripe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelFault(String);

impl StripeLabel {
    /// The label as it is kept.
    pub fn encode(&self) -> Label {
        let encoded = Encoded {
            object: self.object.clone(),
            code: self.code.to_string(),
            object_chunk_bytes: self.object_chunk_bytes,
            created: self.created,
            first: self.first.0,
            ordinal: self.ordinal,
            is_last: self.is_last,
            chunk_bytes: self.chunk_bytes,
            data_bytes: self.data_bytes,
            checksum: self.checksum,
            crcs: self.crcs.clone(),
        };
        // A name has little more than a KiB, and a code 255 chunks.
        Label::new(&encoded.encode_to_vec()).unwrap_or_default()
    }

    /// The stripe that a label describes.
    ///
    /// # Errors
    /// When it is empty, no label of this store, or has an impossible value.
    pub fn decode(label: &Label) -> Result<StripeLabel, LabelFault> {
        if label.is_empty() {
            return Err(LabelFault("it has none".into()));
        }
        let encoded = Encoded::decode(label.bytes()).map_err(|why| LabelFault(why.to_string()))?;
        let code: Code = encoded.code.parse().map_err(|why| LabelFault(format!("code: {why}")))?;
        let label = StripeLabel {
            object: encoded.object,
            code,
            object_chunk_bytes: encoded.object_chunk_bytes,
            created: encoded.created,
            first: StripeId(encoded.first),
            ordinal: encoded.ordinal,
            is_last: encoded.is_last,
            chunk_bytes: encoded.chunk_bytes,
            data_bytes: encoded.data_bytes,
            checksum: encoded.checksum,
            crcs: encoded.crcs,
        };
        label.check().map(|()| label)
    }

    fn check(&self) -> Result<(), LabelFault> {
        let fault = |what: &str| Err(LabelFault(what.into()));
        if self.object.is_empty() || self.object.chars().any(char::is_control) {
            return fault("it names no object");
        }
        if self.crcs.len() != self.code.chunk_count() {
            return fault("it has not one checksum for each chunk");
        }
        let lengths = [self.chunk_bytes, self.object_chunk_bytes];
        let is_one = |bytes: &u64| {
            *bytes <= CHUNK_BYTES_MAX && layout::check_unit(&self.code, *bytes).is_ok()
        };
        if !lengths.iter().all(is_one) {
            return fault("its chunks have a length that none has");
        }
        let capacity = self.chunk_bytes.saturating_mul(self.code.data_chunks() as u64);
        if !(1..=capacity).contains(&self.data_bytes) {
            return fault("it holds more data than its chunks, or none");
        }
        Ok(())
    }

    /// Whether both describe stripes of one object.
    pub fn is_of_object(&self, other: &StripeLabel) -> bool {
        let object = |label: &StripeLabel| {
            (label.first, label.code, label.object_chunk_bytes, label.created)
        };
        object(self) == object(other)
    }
}

impl fmt::Display for LabelFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the label of a stripe cannot be used: {}", self.0)
    }
}

impl std::error::Error for LabelFault {}

#[cfg(test)]
mod tests {
    use super::*;

    fn label() -> StripeLabel {
        StripeLabel {
            object: "photos/2026".into(),
            code: "rs(3,2)".parse().unwrap(),
            object_chunk_bytes: 1 << 20,
            created: 1_790_000_000,
            first: StripeId(7),
            ordinal: 2,
            is_last: true,
            chunk_bytes: 4096,
            data_bytes: 3 * 4096 - 5,
            checksum: 0x0123_4567_89ab_cdef,
            crcs: vec![1, 2, 3, 4, 5],
        }
    }

    #[test]
    fn a_label_comes_back_as_it_was_written() {
        assert_eq!(StripeLabel::decode(&label().encode()), Ok(label()));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let wrong: [fn(&mut StripeLabel); 7] = [
            |label| label.object.clear(),
            |label| label.object.push('\n'),
            |label| label.crcs.truncate(2),
            |label| label.chunk_bytes = 0,
            |label| label.object_chunk_bytes += 1,
            |label| label.data_bytes = 0,
            |label| label.data_bytes = 3 * 4096 + 1,
        ];
        for change in wrong {
            let mut wrong = label();
            change(&mut wrong);
            assert!(StripeLabel::decode(&wrong.encode()).is_err(), "{wrong:?}");
        }
        assert!(StripeLabel::decode(&Label::default()).is_err());
        assert!(StripeLabel::decode(&Label::new(b"something else").unwrap()).is_err());
    }
}
