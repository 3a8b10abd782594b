//! Finding an object: what it is, and which stripes it has, page by page.
//!
//! Place: [object found] -> pieces read -> bytes checked; before, during and after a repair.
//! A long object's stripes come as they are read, so an answer may last longer than the certificate
//! that it was asked for with: a reader that has a new one asks again for the rest.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use suture_repair::id::NodeId;
use suture_repair::stripe::Stripe;
use suture_repair::wire::ClusterId;
use tonic::{Code, Status};

use crate::address::AgentAddress;
use crate::control::client::{Client, refusal, stream_ended};
use crate::control::proto::lookup_reply::Part;
use crate::control::{convert, proto};
use crate::metadata::{Object, ObjectStripe};

/// Finds an object, and how to reach its chunks.
pub struct Lookup {
    /// What the metadata has of it.
    pub object: Object,
    /// The cluster whose agents hold its chunks.
    pub(super) cluster: ClusterId,
    /// Where the agents are that hold its chunks.
    pub(super) nodes: BTreeMap<NodeId, AgentAddress>,
    parts: tonic::Streaming<proto::LookupReply>,
    /// How many stripes have come.
    received: usize,
    client: Client,
    /// The number of the credentials that it is answered by.
    credentials_number: Option<u64>,
}

impl Lookup {
    /// Asks the coordinator.
    ///
    /// # Errors
    /// Bad input when there is no such object; a failure when the coordinator goes away.
    pub async fn of(client: &mut Client, name: &str) -> Result<Lookup> {
        let request = proto::ObjectName { name: name.to_string() };
        let credentials_number = client.refresh();
        let mut parts = client.lookup(request).await.map_err(refusal)?.into_inner();
        let first = parts.message().await.map_err(stream_ended)?.and_then(|reply| reply.part);
        let head = match first {
            Some(Part::Head(head)) => head,
            Some(Part::Stripes(_)) => bail!("unexpected reply Stripes to request Lookup"),
            None => bail!("no reply to request Lookup"),
        };
        let nodes = head.nodes.iter().map(convert::decode_peer);
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?.into_iter();
        let nodes = nodes.filter_map(|(node, address)| Some((node, address?))).collect();
        let object = convert::decode_object(head.object)?;
        let (cluster, client) = (ClusterId(head.cluster), client.clone());
        Ok(Lookup { object, cluster, nodes, parts, received: 0, client, credentials_number })
    }

    /// All stripes of the object, in order.
    ///
    /// # Errors
    /// When the coordinator goes away or sends something impossible.
    pub async fn stripes(mut self) -> Result<Vec<Stripe>> {
        let mut stripes = Vec::new();
        loop {
            let page = self.next().await?;
            if page.is_empty() {
                return Ok(stripes);
            }
            stripes.extend(page.into_iter().map(|entry| entry.stripe));
        }
    }

    /// The next stripes of the object; none at the end.
    pub(super) async fn next(&mut self) -> Result<Vec<ObjectStripe>> {
        let page = match self.parts.message().await {
            Err(status) if status.code() == Code::Unauthenticated => self.next_anew(status).await?,
            reply => Lookup::page(reply.map_err(stream_ended)?)?,
        };
        self.received += page.len();
        Ok(page)
    }

    /// The same after the coordinator accepted the certificate no more that it was asked with: a
    /// reader that has a new one asks again.
    async fn next_anew(&mut self, refused: Status) -> Result<Vec<ObjectStripe>> {
        if self.client.refresh() == self.credentials_number {
            return Err(refusal(refused));
        }
        let mut client = self.client.clone();
        let again = Box::pin(Lookup::of(&mut client, &self.object.name)).await?;
        ensure!(again.object == self.object, "'{}' was put anew meanwhile", self.object.name);
        (self.parts, self.credentials_number) = (again.parts, again.credentials_number);
        let mut skipped = 0;
        loop {
            let mut page = Lookup::page(self.parts.message().await.map_err(stream_ended)?)?;
            let known = page.len().min(self.received - skipped);
            skipped += known;
            page.drain(..known);
            if !page.is_empty() || known == 0 {
                return Ok(page);
            }
        }
    }

    /// The stripes of an answer; none at the end.
    fn page(reply: Option<proto::LookupReply>) -> Result<Vec<ObjectStripe>> {
        let Some(reply) = reply else { return Ok(Vec::new()) };
        let page = match reply.part {
            Some(Part::Stripes(page)) => page,
            Some(Part::Head(_)) => bail!("unexpected second reply Head to request Lookup"),
            None => bail!("empty reply to request Lookup"),
        };
        let stripes = page.stripes.into_iter().map(convert::decode_object_stripe);
        Ok(stripes.collect::<Result<_, _>>()?)
    }
}
