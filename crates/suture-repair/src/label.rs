//! What is kept beside every chunk of a stripe, so that the map of stripes can be made again from
//! the chunks.
//!
//! Place: ... plan -> [claim, answered with the label] -> dispatch -> ... -> [chunk durable, its
//! label beside it] -> commit ...
//! The keeper writes it and alone reads it: here it is bytes that go with a task.

use std::fmt;
use std::sync::Arc;

/// The longest label, in bytes: a name of an object, and four bytes for each chunk of the widest
/// stripe, several times over.
pub const LABEL_BYTES_MAX: usize = 16 << 10;

/// What a keeper wants to find again beside each chunk of a stripe. Without any bytes it wants
/// nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Label(Arc<[u8]>);

impl Label {
    /// The label of these bytes, unless they are more than [`LABEL_BYTES_MAX`].
    pub fn new(bytes: &[u8]) -> Option<Label> {
        (bytes.len() <= LABEL_BYTES_MAX).then(|| Label(bytes.into()))
    }

    /// The bytes, as the keeper wrote them.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Default for Label {
    fn default() -> Label {
        Label(Arc::new([]))
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Label({} bytes)", self.0.len())
    }
}
