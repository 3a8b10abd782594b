//! What became of a put whose commit was not answered.
//!
//! Place: every chunk durable -> [object visible?]; after a connection that ended, or a coordinator
//! that slept.
//! The commit may have been carried out, may have been lost, or may be on its way still: the
//! coordinator can take it in after a look that did not find the object. So it is asked first
//! whether the put is under way, which ends with the put, and then for the object. What is not
//! there after the put has ended cannot come any more.
//!
//! Invariant: whoever is told that an object is stored, or is not, is told what is so; where nobody
//! can tell within [`ASKED_FOR`], that is said.

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

/// How long it is asked. A coordinator that restarts is there again sooner; who waits for one that
/// hangs has waited already.
const ASKED_FOR: Duration = Duration::from_secs(15);

/// The wait between two questions.
const ASKED_EVERY: Duration = Duration::from_millis(500);

/// A coordinator that is there answers sooner, and one that woke up is found by a new question.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A put that said its last word and was not answered.
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
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The object is there.
    Stored,
    /// It is not, and cannot come any more.
    NotStored,
    /// Nobody can tell which of both.
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
                let is_ours = first == self.first && self.is_ours(&lookup.object);
                // If somebody else has the name, ours would be refused.
                Some(if is_ours { Ending::Stored } else { Ending::NotStored })
            }
            Err(status) if is_not_found(&status) => has_ended.then_some(Ending::NotStored),
            Err(_) => None,
        }
    }

    fn is_ours(&self, object: &Object) -> bool {
        (object.bytes, object.checksum) == (self.bytes, self.checksum)
    }
}

fn is_not_found(status: &Status) -> bool {
    status.code() == Code::NotFound && status.source().is_none()
}
