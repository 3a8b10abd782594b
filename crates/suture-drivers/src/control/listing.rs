//! Listings in parts: an agent may hold millions of copies, and no message should be that long.
//!
//! Place: [failure detected] -> ... : what an agent reports of its copies when a session begins.
//! What a message may have at most is what a stranger can make the coordinator keep of it, before
//! anything of it is looked at. Invariant: the core receives whole listings only; a part of one
//! would make copies that follow look missing.

use super::convert::Malformed;
use super::proto;
use super::proto::agent_message::Message as AgentWord;

/// Copies to a message: some 2 MB.
pub const COPIES_PER_MESSAGE: usize = 64 << 10;

/// Copies of one listing: ten times what a large disk holds in small chunks.
const COPIES_MAX: usize = 16 << 20;

/// A message as it is sent: in as many parts as it takes.
pub fn parts(message: proto::AgentMessage) -> impl Iterator<Item = proto::AgentMessage> {
    let (whole, mut copies) = match message.message {
        Some(AgentWord::Inventory(inventory)) => (None, Some(inventory.copies.into_iter())),
        word => (Some(proto::AgentMessage { message: word }), None),
    };
    let listed = std::iter::from_fn(move || {
        let left = copies.as_mut()?;
        let part = left.by_ref().take(COPIES_PER_MESSAGE).collect();
        let more = left.len() > 0;
        if !more {
            copies = None;
        }
        let inventory = proto::Inventory { copies: part, more };
        Some(proto::AgentMessage { message: Some(AgentWord::Inventory(inventory)) })
    });
    whole.into_iter().chain(listed)
}

/// Puts the parts of listings together again.
#[derive(Debug, Default)]
pub struct Listing {
    copies: Vec<proto::ListedCopy>,
}

impl Listing {
    /// Takes the next message; gives it when it is whole.
    ///
    /// # Errors
    /// When more copies are listed than a node can hold.
    pub fn whole(
        &mut self,
        message: proto::AgentMessage,
    ) -> Result<Option<proto::AgentMessage>, Malformed> {
        let Some(AgentWord::Inventory(part)) = message.message else { return Ok(Some(message)) };
        if self.copies.len() + part.copies.len() > COPIES_MAX {
            let fault = format!("more than {COPIES_MAX} copies");
            return Err(Malformed { field: "Inventory.copies", fault });
        }
        self.copies.extend(part.copies);
        if part.more {
            return Ok(None);
        }
        let inventory = proto::Inventory { copies: std::mem::take(&mut self.copies), more: false };
        Ok(Some(proto::AgentMessage { message: Some(AgentWord::Inventory(inventory)) }))
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::super::REQUEST_BYTES_MAX;
    use super::*;

    /// No copy takes more bytes than this one.
    fn copy() -> proto::ListedCopy {
        proto::ListedCopy {
            stripe: u64::MAX,
            chunk: 255,
            stamp: u64::MAX,
            bytes: Some(1 << 40),
            crc: Some(u32::MAX),
        }
    }

    fn listing(copies: usize) -> proto::AgentMessage {
        let inventory = proto::Inventory { copies: vec![copy(); copies], more: false };
        proto::AgentMessage { message: Some(AgentWord::Inventory(inventory)) }
    }

    #[test]
    fn a_listing_comes_whole_from_parts_that_fit_a_message() {
        for copies in [0, 1, COPIES_PER_MESSAGE, COPIES_PER_MESSAGE + 1, 3 * COPIES_PER_MESSAGE] {
            let sent: Vec<_> = parts(listing(copies)).collect();
            assert_eq!(sent.len(), copies.div_ceil(COPIES_PER_MESSAGE).max(1));
            assert!(sent.iter().all(|part| part.encoded_len() <= REQUEST_BYTES_MAX));
            let mut joined = Listing::default();
            let whole: Vec<_> =
                sent.into_iter().filter_map(|part| joined.whole(part).unwrap()).collect();
            assert_eq!(whole, [listing(copies)]);
        }
        let beat = AgentWord::Heartbeat(proto::Heartbeat::default());
        let beat = proto::AgentMessage { message: Some(beat) };
        assert_eq!(parts(beat.clone()).collect::<Vec<_>>(), std::slice::from_ref(&beat));
        assert_eq!(Listing::default().whole(beat.clone()).unwrap(), Some(beat));
    }

    #[test]
    fn a_listing_without_an_end_is_refused() {
        let mut joined = Listing::default();
        let part = || {
            let inventory =
                proto::Inventory { copies: vec![copy(); COPIES_PER_MESSAGE], more: true };
            proto::AgentMessage { message: Some(AgentWord::Inventory(inventory)) }
        };
        let refused = (0..).find_map(|_| joined.whole(part()).err()).unwrap();
        assert_eq!(refused.field, "Inventory.copies");
    }

    #[test]
    fn the_longest_other_message_of_an_agent_fits_too() {
        // A code of 4096 sub-chunks has 512 bytes of each; no other message comes near.
        let sums = vec![1; 4096 * 512];
        let fingerprint = proto::Fingerprint { repair: u64::MAX, copy: None, sums };
        let message = AgentWord::Fingerprint(fingerprint);
        let message = proto::AgentMessage { message: Some(message) };
        assert!(message.encoded_len() + 100 <= REQUEST_BYTES_MAX);
    }
}
