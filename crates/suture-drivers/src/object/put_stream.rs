//! What a put and the coordinator send each other.
//!
//! Place: source -> [places asked for] -> every chunk durable -> [object visible].
//! The put lives as long as this stream: the coordinator forgets it when the stream ends before
//! `commit`. It answers some steps and not others, and when it ends the put it sends why, which the
//! next step receives.

use anyhow::{Context, Result, anyhow, bail, ensure};
use suture_code::Code;
use suture_repair::id::StripeId;
use suture_repair::wire::ClusterId;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::unanswered::{Ending, NotKnown, UnansweredPut, is_lost};
use crate::control::IN_DOUBT;
use crate::control::client::{Client, refusal, stream_ended};
use crate::control::proto;
use crate::control::proto::put_reply::Step as Reply;
use crate::control::proto::put_request::Step;

/// Steps that may wait to be sent.
const REQUESTS_AHEAD: usize = 4;

/// Places are asked for at most so many stripes at a time; the fewer, the fresher.
const PLACES_AHEAD: u64 = 32;

/// How an object is to be stored.
#[derive(Clone, Debug)]
pub struct PutOptions {
    /// Unique among objects; a taken one is refused unless it is overwritten.
    pub name: String,
    /// How its stripes are encoded.
    pub code: Code,
    /// The length of chunks.
    pub chunk_bytes: u64,
    /// Whether it takes the place of the object of its name, if there is one.
    pub overwrite: bool,
    /// Whether each chunk waits for its node, however slow that is. Otherwise spare chunks of nodes
    /// that lag go to other nodes, or are left to repair.
    pub waits_for_all: bool,
}

/// The put's stream to the coordinator.
pub struct PutStream {
    /// The cluster on whose agents it gets places.
    pub cluster: ClusterId,
    /// When the put began, in seconds since 1970.
    pub created: u64,
    /// Chunks of a stripe.
    width: usize,
    requests: mpsc::Sender<proto::PutRequest>,
    replies: Streaming<proto::PutReply>,
    places: std::vec::IntoIter<proto::Place>,
    client: Client,
    /// What the coordinator calls it where it is renewed; 0 where that cannot be.
    number: u64,
    /// The number of the credentials that it is accepted by.
    credentials_number: Option<u64>,
}

impl PutStream {
    /// Begins a put.
    ///
    /// # Errors
    /// When the coordinator refuses it, or goes away.
    pub async fn begin(client: &mut Client, options: &PutOptions) -> Result<PutStream> {
        let (requests, words) = mpsc::channel(REQUESTS_AHEAD);
        let credentials_number = client.refresh();
        let begin = Step::Begin(proto::PutBegin {
            name: options.name.clone(),
            code: options.code.to_string(),
            chunk_bytes: options.chunk_bytes,
            overwrite: options.overwrite,
        });
        requests.try_send(proto::PutRequest { step: Some(begin) }).expect("the queue is new");
        let replies = client.put(ReceiverStream::new(words)).await.map_err(refusal)?.into_inner();
        let (width, places) = (options.code.chunk_count(), Vec::new().into_iter());
        let (cluster, created) = (ClusterId(0), 0);
        let (client, number) = (client.clone(), 0);
        let mut begun = PutStream {
            cluster,
            created,
            width,
            requests,
            replies,
            places,
            client,
            number,
            credentials_number,
        };
        let answer = match begun.receive().await? {
            Reply::Begun(answer) => answer,
            other => bail!(unexpected(&other, "Begin")),
        };
        (begun.cluster, begun.created) = (ClusterId(answer.cluster), answer.created);
        begun.number = answer.put;
        Ok(begun)
    }

    /// Where the next stripe goes, of so many that are still to come, as far as that is known.
    ///
    /// # Errors
    /// As [`PutStream::send`], and when no places are given.
    pub async fn place(&mut self, stripes: Option<u64>) -> Result<proto::Place> {
        if let Some(place) = self.places.next() {
            return Ok(place);
        }
        let stripes = stripes.map_or(PLACES_AHEAD, |left| left.min(PLACES_AHEAD)) as u32;
        self.send(Step::Place(proto::PutPlace { stripes })).await?;
        self.places = self.receive_places("Place").await?.into_iter();
        self.places.next().context("the coordinator gave no places")
    }

    /// Where a stripe goes after these chunks of it could not be stored where they were to go.
    ///
    /// # Errors
    /// As [`PutStream::place`].
    pub async fn replace(&mut self, stripe: u64, chunks: Vec<u32>) -> Result<proto::Place> {
        self.send(Step::Replace(proto::PutReplace { stripe, chunks })).await?;
        let place = self.receive_places("Replace").await?.pop();
        place.filter(|place| place.stripe == stripe).context("the coordinator gave no place")
    }

    async fn receive_places(&mut self, request: &str) -> Result<Vec<proto::Place>> {
        let places = match self.receive().await? {
            Reply::Placed(placed) => placed.places,
            other => bail!(unexpected(&other, request)),
        };
        let is_whole = places.iter().all(|place| place.nodes.len() == self.width);
        ensure!(is_whole, "the coordinator gave places for other chunks than the code has");
        Ok(places)
    }

    /// Makes the object visible, of which this is the first stripe.
    ///
    /// # Errors
    /// As [`PutStream::send`]; [`NotKnown`] where the answer was lost and what became of it could
    /// not be found out, or the coordinator does not know.
    pub async fn commit(
        mut self,
        options: &PutOptions,
        commit: proto::PutCommit,
        first: Option<StripeId>,
    ) -> Result<()> {
        self.send(Step::Commit(commit)).await?;
        let lost = match self.replies.message().await {
            Ok(Some(proto::PutReply { step: Some(Reply::Committed(proto::Done {})) })) => {
                return Ok(());
            }
            Ok(Some(proto::PutReply { step: Some(other) })) => bail!(unexpected(&other, "Commit")),
            Err(status) if status.code() == IN_DOUBT => {
                return Err(NotKnown::new(&options.name, &stream_ended(status)).into());
            }
            Err(status) if !is_lost(&status) => return Err(stream_ended(status)),
            Err(status) => stream_ended(status),
            Ok(_) => anyhow!("the coordinator ended the put"),
        };
        let PutStream { mut client, number, created, requests, replies, .. } = self;
        // The stream ends with its halves, and the put with the stream, where that is not gone.
        drop((requests, replies));
        let (name, bytes, checksum) = (&options.name, commit.bytes, commit.checksum);
        let is_overwriting = options.overwrite;
        let put = UnansweredPut { number, name, bytes, checksum, first, created, is_overwriting };
        match put.ending(&mut client).await {
            Ending::Stored => Ok(()),
            Ending::NotStored => Err(lost),
            Ending::Unknown => Err(NotKnown::new(name, &lost).into()),
        }
    }

    /// Sends the next step.
    ///
    /// # Errors
    /// Why the coordinator ended the put.
    pub async fn send(&mut self, step: Step) -> Result<()> {
        self.renew().await;
        if self.requests.send(proto::PutRequest { step: Some(step) }).await.is_ok() {
            return Ok(());
        }
        // It ended the put, and has sent why.
        self.receive().await.map(drop)?;
        bail!("the coordinator ended the put")
    }

    /// Proves the client's identity anew where credentials have changed since. An error shows only
    /// in the coordinator's answer to the next step.
    async fn renew(&mut self) {
        let number = self.client.refresh();
        if number == self.credentials_number || self.number == 0 {
            return;
        }
        let renewed = self.client.renew_put(proto::PutRenewal { put: self.number }).await;
        if renewed.is_ok() {
            self.credentials_number = number;
        }
    }

    async fn receive(&mut self) -> Result<Reply> {
        let reply = self.replies.message().await.map_err(stream_ended)?;
        reply.and_then(|reply| reply.step).context("the coordinator ended the put")
    }
}

/// What the coordinator should not have sent.
fn unexpected(reply: &Reply, request: &str) -> String {
    let reply = match reply {
        Reply::Begun(_) => "Begun",
        Reply::Placed(_) => "Placed",
        Reply::Committed(_) => "Committed",
    };
    format!("unexpected reply {reply} to request {request} of a put")
}
