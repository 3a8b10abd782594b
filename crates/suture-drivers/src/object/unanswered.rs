//! What became of a put whose commit was not answered.
//!
//! Place: every chunk durable -> [object visible?]; after a connection that ended, or a coordinator
//! that slept.
//! The commit may have been carried out, may have been lost, or may be on its way still: the
//! coordinator can take it in after a look that did not find the object. So it is asked first
//! whether the put is under way, which ends with the put, and then for the object. What is not
//! there after the put has ended cannot come any more.
//!
//! Invariant: an answer that the object is stored, or that it is not, is right; what is not known
//! within [`ASKED_FOR`] is answered as not known.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use suture_edge::error::quoted;
use suture_repair::id::StripeId;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::{Code, Status};

use super::lookup::Lookup;
use crate::control::client::Client;
use crate::control::proto;
use crate::metadata::Object;

/// How long it is asked. A coordinator that restarts is there again sooner; a command that waits
/// for one that hangs has waited already.
const ASKED_FOR: Duration = Duration::from_secs(15);

/// The wait between two questions.
const ASKED_EVERY: Duration = Duration::from_millis(500);

/// A coordinator that is there answers sooner, and one that woke up is found by a new question.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A put that sent its commit and was not answered.
pub struct UnansweredPut<'a> {
    /// What the coordinator calls it; 0 where it has no name for it.
    pub number: u64,
    /// What the object is called.
    pub name: &'a str,
    /// Its length, in bytes.
    pub bytes: u64,
    /// The checksum of its bytes.
    pub checksum: u64,
    /// Its first stripe, which no other put was given; none of an empty object.
    pub first: Option<StripeId>,
    /// When it began, in seconds since 1970.
    pub created: u64,
    /// Whether it takes the place of another object of its name.
    pub is_overwriting: bool,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The object is there.
    Stored,
    /// It is not, and cannot come any more.
    NotStored,
    /// It is not known which of both.
    Unknown,
}

/// It is not known whether an object is stored.
#[derive(Debug)]
pub struct NotKnown {
    name: String,
    why: String,
}

impl NotKnown {
    /// With the reason why the commit was not answered.
    pub fn new(name: &str, why: &anyhow::Error) -> NotKnown {
        NotKnown { name: name.to_string(), why: format!("{why:#}") }
    }
}

impl fmt::Display for NotKnown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotKnown { name, why } = self;
        let name = quoted(name);
        write!(
            f,
            "it is not known whether {name} is stored: {why}; suture stat {name} tells when the coordinator answers"
        )
    }
}

impl Error for NotKnown {}

/// Whether an answer was lost, rather than that the coordinator refused.
pub fn is_lost(status: &Status) -> bool {
    // What came over the connection has no other error behind it.
    status.source().is_some()
        || matches!(
            status.code(),
            Code::Cancelled | Code::Unknown | Code::Unavailable | Code::DeadlineExceeded
        )
}

impl UnansweredPut<'_> {
    /// Asks the coordinator until it is known, or for long enough.
    pub async fn ending(&self, client: &mut Client) -> Ending {
        let end = Instant::now() + ASKED_FOR;
        loop {
            let answer_by = end.min(Instant::now() + ANSWER_TIMEOUT);
            if let Ok(Some(ending)) = timeout_at(answer_by, self.ask(client)).await {
                return ending;
            }
            if Instant::now() + ASKED_EVERY >= end {
                return Ending::Unknown;
            }
            sleep(ASKED_EVERY).await;
        }
    }

    /// Asks once; none where the answer does not settle it.
    async fn ask(&self, client: &mut Client) -> Option<Ending> {
        // First: what happens between the two questions is seen by the second.
        let has_ended = self.number != 0 && {
            let renewed = client.renew_put(proto::PutRenewal { put: self.number }).await;
            renewed.is_err_and(|status| is_not_found(&status))
        };
        let name = proto::ObjectName { name: self.name.to_string() };
        match client.stat(name).await {
            Ok(_) => {
                let mut lookup = Lookup::of(client, self.name).await.ok()?;
                let first = lookup.next().await.ok()?.first().map(|entry| entry.stripe.id);
                if first == self.first && self.is_ours(&lookup.object) {
                    return Some(Ending::Stored);
                }
                self.beside(&lookup.object, first, has_ended)
            }
            Err(status) if is_not_found(&status) => has_ended.then_some(Ending::NotStored),
            Err(_) => None,
        }
    }

    /// What follows from another object of the name, where the put has ended or may not have.
    fn beside(&self, other: &Object, first: Option<StripeId>, has_ended: bool) -> Option<Ending> {
        // Ours would be refused.
        if !self.is_overwriting {
            return Some(Ending::NotStored);
        }
        // Ids of stripes ascend, and two puts never write one name at a time.
        let is_older = match (first, self.first) {
            (Some(theirs), Some(ours)) => theirs < ours,
            _ => other.created < self.created,
        };
        // One that came later may have taken the place of ours.
        let ending = if is_older { Ending::NotStored } else { Ending::Unknown };
        has_ended.then_some(ending)
    }

    fn is_ours(&self, object: &Object) -> bool {
        (object.bytes, object.checksum) == (self.bytes, self.checksum)
    }
}

fn is_not_found(status: &Status) -> bool {
    status.code() == Code::NotFound && status.source().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(first: Option<u64>, is_overwriting: bool) -> UnansweredPut<'static> {
        let first = first.map(StripeId);
        UnansweredPut {
            number: 1,
            name: "x",
            bytes: 5,
            checksum: 7,
            first,
            created: 100,
            is_overwriting,
        }
    }

    fn other(created: u64) -> Object {
        let code = "rs(2,1)".parse().unwrap();
        Object { name: "x".into(), bytes: 3, code, chunk_bytes: 64, checksum: 9, created }
    }

    #[test]
    fn another_object_of_the_name_says_that_ours_was_refused_or_how_old_it_is() {
        let not_stored = Some(Ending::NotStored);
        assert_eq!(put(Some(8), false).beside(&other(1), Some(StripeId(9)), false), not_stored);
        let overwriting = put(Some(8), true);
        let older = Some(StripeId(4));
        assert_eq!(overwriting.beside(&other(1), older, false), None, "it can come still");
        assert_eq!(overwriting.beside(&other(1), older, true), not_stored);
        let newer = overwriting.beside(&other(1), Some(StripeId(9)), true);
        assert_eq!(newer, Some(Ending::Unknown), "it may have taken the place of ours");
        assert_eq!(overwriting.beside(&other(99), None, true), not_stored);
        assert_eq!(overwriting.beside(&other(100), None, true), Some(Ending::Unknown));
    }
}
