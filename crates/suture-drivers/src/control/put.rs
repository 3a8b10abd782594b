//! The coordinator's side of one put: it gives out stripes and places, and makes the object
//! visible at the end.
//!
//! Place: put begun -> [stripes placed] -> chunks durable -> [object visible]; before any failure.
//! A put lives exactly as long as its stream. Whatever ends the stream before `Commit` ends the
//! put: nothing becomes visible, its places are given back, and the chunks that it wrote are
//! orphans: the agents that had places of it are asked at once to list what they hold, and the
//! orphans are deleted. So there is no lease to renew, and no space that an abandoned put keeps.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use suture_code::Code;
use suture_code::layout::{self, SizeError};
use suture_edge::units::format_size;
use suture_repair::event::Health;
use suture_repair::id::{ChunkIndex, Generation, NodeId, StripeId};
use suture_repair::stripe::{CHUNK_BYTES_MAX, Stripe};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tonic::{Status, Streaming};

use super::access::Call;
use super::audit::Begun;
use super::proto::put_reply::Step as Reply;
use super::proto::put_request::Step;
use super::put_budget::PutShare;
use super::put_renewal::RenewablePut;
use super::served::Served;
use super::service::ControlService;
use super::{IN_DOUBT, STRIPES_PER_MESSAGE, convert, proto};
use crate::coordinator::{NewPlaces, StoredChunks};
use crate::metadata::{Intent, MetadataStore, Object, ObjectStripe, PutId};
use crate::put_key::PutKey;

/// Stripes of a put that have places and of which nothing was reported yet, before it gets more:
/// their bytes are kept from all others. Commands have a part of one message's stripes under way.
const UNREPORTED_MAX: usize = STRIPES_PER_MESSAGE as usize;

/// A commit that failed is in doubt until something else is written to the log, which is tried each
/// second; a client waits for so long, and that is looked at so often.
const SETTLED_MAX: Duration = Duration::from_secs(5);
const SETTLED_EVERY: Duration = Duration::from_millis(50);

/// What the client receives.
pub type Replies = mpsc::Sender<Result<proto::PutReply, Status>>;

/// A put that has begun.
struct PutSession {
    id: PutId,
    /// What makes the stamps of its copies.
    key: PutKey,
    object: Object,
    /// The nodes that each stripe was assigned to.
    placed: BTreeMap<StripeId, StripePlaces>,
    /// Nodes that could not store a chunk of it: others are preferred.
    avoid: BTreeSet<NodeId>,
    stripes: Vec<ObjectStripe>,
    /// What the audit log has of it.
    begun: Option<Begun>,
    /// The client of the put, and whether it is still accepted.
    caller: RenewablePut,
    /// The memory that it takes.
    share: PutShare,
}

/// The nodes of one stripe.
#[derive(Debug)]
struct StripePlaces {
    /// By chunk; none where no node is left.
    nodes: Vec<Option<NodeId>>,
    /// Those that could not store a chunk of it.
    failed: Vec<NodeId>,
    /// Whether it was reported what was stored of it.
    is_reported: bool,
}

/// Follows a put to its end.
pub async fn follow(served: Served, mut requests: Streaming<proto::PutRequest>, replies: Replies) {
    let mut put = None;
    let mut result = steps(&served, &mut requests, &replies, &mut put).await;
    let service = &served.service;
    if let Some(mut put) = put {
        let outcome = match &result {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(Status::cancelled("the client gave it up")),
            Err(status) => Err(status.clone()),
        };
        let is_stored = outcome.is_ok();
        if let Err(why) = served.end(put.begun.take(), outcome).await {
            result = Err(why);
        }
        service.metadata.ask(move |store| store.end_put(put.id)).await.unwrap_or_else(|why| {
            tracing::warn!(%why, "a put's end could not be noted");
        });
        let used = put.used();
        let (reported, others): (Vec<StripePlaces>, Vec<StripePlaces>) =
            put.placed.into_values().partition(|places| places.is_reported);
        for (places, chunk_bytes) in [(reported, 0), (others, put.object.chunk_bytes)] {
            let nodes = places.into_iter().flat_map(|places| places.nodes).flatten().collect();
            service.coordinator.unplace(nodes, chunk_bytes).await;
        }
        if !is_stored {
            service.coordinator.search_orphans(used).await;
        }
    }
    let last = match result {
        Ok(reply) => reply.map(Ok),
        Err(status) => Some(Err(status)),
    };
    if let Some(last) = last {
        let _ = replies.send(last).await;
    }
}

/// All steps; the last reply is sent when the put's places have been given back.
async fn steps(
    served: &Served,
    requests: &mut Streaming<proto::PutRequest>,
    replies: &Replies,
    put: &mut Option<PutSession>,
) -> Result<Option<proto::PutReply>, Status> {
    let service = &*served.service;
    while let Some(request) = requests.message().await? {
        match put {
            Some(put) => put.caller.check_still()?,
            None => served.check_still()?,
        }
        let step = request.step.ok_or(Status::invalid_argument("a step of a put is empty"))?;
        let reply = match (step, &mut *put) {
            (Step::Begin(begin), None) => {
                served.check_object_name(&begin.name).await?;
                served.check_name(&begin.name).await?;
                if begin.overwrite {
                    served.check_also(Call::Remove, &begin.name).await?;
                }
                let share = service.puts.share(served.caller_name())?;
                let call = if begin.overwrite { Call::Overwrite } else { Call::Put };
                let begun = served.begin_as(call, &begin.name).await?;
                let session = match begin_put(service, begin, share, served.begin_put()).await {
                    Ok(session) => PutSession { begun, ..session },
                    Err(refused) => {
                        served.end(begun, Err(refused.clone())).await?;
                        return Err(refused);
                    }
                };
                let (cluster, created) = (service.cluster().0, session.object.created);
                let number = session.caller.number;
                *put = Some(session);
                Reply::Begun(proto::PutBegun { cluster, created, put: number })
            }
            (Step::Place(place), Some(put)) => Reply::Placed(put.place(service, place).await?),
            (Step::Replace(again), Some(put)) => Reply::Placed(put.replace(service, again).await?),
            (Step::Stripe(stripe), Some(put)) => {
                service.coordinator.stored(put.add(stripe)?).await;
                continue;
            }
            (Step::Commit(commit), Some(put)) => {
                put.commit(service, commit).await?;
                return Ok(Some(proto::PutReply { step: Some(Reply::Committed(proto::Done {})) }));
            }
            _ => return Err(Status::invalid_argument("a put begins once, with Begin")),
        };
        // A send error means the client has gone; its request stream then ends too.
        let _ = replies.send(Ok(proto::PutReply { step: Some(reply) })).await;
    }
    Ok(None)
}

async fn begin_put(
    service: &ControlService,
    begin: proto::PutBegin,
    share: PutShare,
    caller: RenewablePut,
) -> Result<PutSession, Status> {
    let code = convert::decode_code("PutBegin.code", &begin.code)?;
    check_chunk_bytes("PutBegin.chunk_bytes", &code, begin.chunk_bytes)?;
    check_nodes(service, code).await?;
    let name = begin.name.clone();
    let is_overwriting = begin.overwrite;
    let begun = move |store: &mut MetadataStore| {
        if is_overwriting { store.begin_overwrite(&name) } else { store.begin_put(&name) }
    };
    let id = service.metadata.ask(begun).await?;
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let object = Object {
        name: begin.name,
        bytes: 0,
        code,
        chunk_bytes: begin.chunk_bytes,
        checksum: 0,
        created: since_1970.as_secs(),
    };
    let (placed, avoid, stripes) = Default::default();
    Ok(PutSession {
        id,
        key: service.put_key.clone(),
        object,
        placed,
        avoid,
        stripes,
        begun: None,
        caller,
        share,
    })
}

impl PutSession {
    /// The nodes that had a place of it, and may hold a chunk.
    fn used(&self) -> BTreeSet<NodeId> {
        let nodes = |places: &StripePlaces| {
            let kept = places.nodes.iter().flatten().copied();
            kept.chain(places.failed.iter().copied()).collect::<Vec<NodeId>>()
        };
        self.placed.values().flat_map(nodes).collect()
    }

    async fn place(
        &mut self,
        service: &ControlService,
        place: proto::PutPlace,
    ) -> Result<proto::PutPlaced, Status> {
        if place.stripes == 0 || place.stripes > STRIPES_PER_MESSAGE {
            let what = format!("places are given for 1 to {STRIPES_PER_MESSAGE} stripes at a time");
            return Err(Status::invalid_argument(what));
        }
        let unreported = self.placed.values().filter(|places| !places.is_reported).count();
        if unreported > UNREPORTED_MAX {
            let what =
                format!("{unreported} stripes have places and are not stored: store them first");
            return Err(Status::resource_exhausted(what));
        }
        let (id, count) = (self.id, place.stripes);
        self.share.take(count, self.object.code.chunk_count())?;
        let stripes = service.metadata.ask(move |store| store.reserve_stripes(id, count)).await?;
        let code = self.object.code;
        let wanted = NewPlaces {
            stripes: stripes.clone(),
            width: code.chunk_count(),
            chunk_bytes: self.object.chunk_bytes,
            avoid: self.avoid.iter().copied().collect(),
            beside: Vec::new(),
        };
        let placed = service.coordinator.place(wanted).await;
        let fewest = placed.iter().map(Vec::len).min().unwrap_or(0);
        for (stripe, nodes) in stripes.iter().zip(placed) {
            let mut nodes: Vec<Option<NodeId>> = nodes.into_iter().map(Some).collect();
            nodes.resize(code.chunk_count(), None);
            self.placed
                .insert(*stripe, StripePlaces { nodes, failed: Vec::new(), is_reported: false });
        }
        let least = code.durable_chunks_min();
        if fewest < least {
            return Err(too_few_places(service, &self.object, fewest).await);
        }
        Ok(self.places(service, &stripes).await)
    }

    /// Other nodes for chunks that could not be stored; none where no other node can take them.
    async fn replace(
        &mut self,
        service: &ControlService,
        again: proto::PutReplace,
    ) -> Result<proto::PutPlaced, Status> {
        let id = StripeId(again.stripe);
        let Some(places) = self.placed.get_mut(&id) else {
            return Err(Status::invalid_argument(format!("{id} was not given to this put")));
        };
        let chunks: BTreeSet<usize> = again.chunks.iter().map(|chunk| *chunk as usize).collect();
        let has_node = |chunk: &usize| places.nodes.get(*chunk).is_some_and(Option::is_some);
        if let Some(chunk) = chunks.iter().find(|chunk| !has_node(chunk)) {
            let what = format!("chunk {chunk} of {id} has no node that could fail");
            return Err(Status::invalid_argument(what));
        }
        let failed: Vec<NodeId> =
            chunks.iter().filter_map(|chunk| places.nodes[*chunk].take()).collect();
        places.failed.extend(&failed);
        service.coordinator.unplace(failed.clone(), self.object.chunk_bytes).await;
        self.avoid.extend(failed);
        let wanted = NewPlaces {
            stripes: vec![id],
            width: chunks.len(),
            chunk_bytes: self.object.chunk_bytes,
            avoid: self.avoid.iter().copied().collect(),
            beside: places.nodes.iter().flatten().chain(&places.failed).copied().collect(),
        };
        let placed = service.coordinator.place(wanted).await;
        for (chunk, node) in chunks.into_iter().zip(placed.into_iter().flatten()) {
            places.nodes[chunk] = Some(node);
        }
        Ok(self.places(service, &[id]).await)
    }

    /// Where these stripes go now, with the addresses of the agents.
    async fn places(&self, service: &ControlService, stripes: &[StripeId]) -> proto::PutPlaced {
        let peers = service.coordinator.query(|driver| driver.peers()).await.unwrap_or_default();
        let peer = |node: &Option<NodeId>| {
            let peer = node.and_then(|node| peers.get(node.index()));
            peer.map(convert::encode_peer).unwrap_or_default()
        };
        let placed = stripes.iter().map(|stripe| proto::Place {
            stripe: stripe.0,
            nodes: self.placed[stripe].nodes.iter().map(peer).collect(),
            stamp: self.key.stamp(*stripe).0,
        });
        proto::PutPlaced { places: placed.collect() }
    }

    /// Notes a stripe that is stored; gives the nodes that were to have its chunks, and that have.
    fn add(&mut self, stripe: proto::PutStripe) -> Result<StoredChunks, Status> {
        let (code, id) = (self.object.code, StripeId(stripe.stripe));
        let chunk_bytes = stripe.chunk_bytes;
        check_chunk_bytes("PutStripe.chunk_bytes", &code, chunk_bytes)?;
        if stripe.data_bytes == 0 {
            return Err(Status::invalid_argument(format!("{id} holds no data")));
        }
        let decode = |chunk| convert::decode_chunk(chunk, chunk_bytes);
        let chunks: Vec<_> = stripe.chunks.into_iter().map(decode).collect();
        let Some(places) = self.placed.get_mut(&id) else {
            return Err(Status::invalid_argument(format!("{id} was not given to this put")));
        };
        if places.is_reported {
            return Err(Status::invalid_argument(format!("{id} was already reported as stored")));
        }
        let stamp = self.key.stamp(id);
        let is_as_placed = chunks.len() == code.chunk_count()
            && chunks.iter().enumerate().all(|(index, chunk)| {
                chunk.stamp == stamp
                    && chunk.bytes == chunk_bytes
                    && chunk.crc.is_some()
                    && (chunk.node.is_none() || chunk.node == places.nodes[index])
            });
        let stored = StoredChunks {
            placed: (places.nodes.iter().flatten().copied().collect(), self.object.chunk_bytes),
            durable: (chunks.iter().filter_map(|chunk| chunk.node).collect(), chunk_bytes),
        };
        if !is_as_placed {
            return Err(Status::invalid_argument(format!("{id} was not stored as it was placed")));
        }
        places.is_reported = true;
        let (data_bytes, unit_bytes) = (stripe.data_bytes, chunk_bytes);
        let checksum = Some(stripe.checksum);
        let generation = Generation(0);
        let stripe = Stripe { id, code, chunk_bytes, unit_bytes, generation, chunks };
        self.stripes.push(ObjectStripe { stripe, data_bytes, checksum });
        Ok(stored)
    }

    async fn commit(
        &mut self,
        service: &ControlService,
        commit: proto::PutCommit,
    ) -> Result<(), Status> {
        let object =
            Object { bytes: commit.bytes, checksum: commit.checksum, ..self.object.clone() };
        let (id, stripes) = (self.id, mem::take(&mut self.stripes));
        check_kept(service, &stripes).await?;
        let commit = move |store: &mut MetadataStore| store.commit_put(id, &object, stripes);
        match service.metadata.ask(commit).await {
            Ok(()) => Ok(()),
            Err(why) => Err(self.settled(service, why.into()).await),
        }
    }

    /// Why the object is not stored, once that is sure; [`IN_DOUBT`] where it does not become so in
    /// time, since it could be found stored at the coordinator's next start.
    async fn settled(&self, service: &ControlService, why: Status) -> Status {
        let id = self.id;
        let is_doubtful = || service.metadata.ask(move |store| Ok(store.is_doubtful(id)));
        let settled = async {
            while is_doubtful().await.unwrap_or(true) {
                sleep(SETTLED_EVERY).await;
            }
        };
        match timeout(SETTLED_MAX, settled).await {
            Err(_) => Status::new(IN_DOUBT, why.message()),
            Ok(()) if why.code() == IN_DOUBT => Status::internal(why.message()),
            Ok(()) => why,
        }
    }
}

/// Refuses an object of which nodes that failed meanwhile hold so much that it cannot be read any
/// more. What is silent counts as there: it is durable, and mostly comes back.
async fn check_kept(service: &ControlService, stripes: &[ObjectStripe]) -> Result<(), Status> {
    let chunks = stripes.iter().flat_map(|entry| &entry.stripe.chunks);
    let nodes: BTreeSet<NodeId> = chunks.filter_map(|chunk| chunk.node).collect();
    let failed = service.query(move |driver| {
        let core = driver.core();
        let is_failed = |node: &NodeId| core.health(*node) == Health::Failed;
        let named = |node: NodeId| (node, core.cluster().node(node).name.clone());
        nodes.into_iter().filter(is_failed).map(named).collect::<BTreeMap<NodeId, String>>()
    });
    let failed = failed.await?;
    let lacks = |ObjectStripe { stripe, .. }: &&ObjectStripe| {
        let is_left = |chunk: &ChunkIndex| {
            let record = stripe.record(*chunk);
            record.node.map_or(record.is_known_zero(), |node| !failed.contains_key(&node))
        };
        !stripe.code.decodable(&stripe.indices().filter(is_left).collect::<Vec<ChunkIndex>>())
    };
    let lacking = stripes.iter().filter(lacks).count();
    if failed.is_empty() || lacking == 0 {
        return Ok(());
    }
    let names: Vec<&str> = failed.values().map(String::as_str).collect();
    Err(Status::resource_exhausted(format!(
        "too few chunks are left of {lacking} of its {} stripes, since nodes failed while it was \
         stored ({}): nothing was stored; put it again",
        stripes.len(),
        names.join(", ")
    )))
}

/// Refuses what no chunk can have; `field` said it.
fn check_chunk_bytes(field: &str, code: &Code, chunk_bytes: u64) -> Result<(), Status> {
    if chunk_bytes > CHUNK_BYTES_MAX {
        let what =
            format!("{field}: chunks have at most {CHUNK_BYTES_MAX} bytes, not {chunk_bytes}");
        return Err(Status::invalid_argument(what));
    }
    layout::check_unit(code, chunk_bytes).map_err(|SizeError { bytes, step }| {
        Status::invalid_argument(format!(
            "{field}: chunks of {code} are multiples of {step} bytes, {bytes} is not"
        ))
    })
}

/// What is said where so few nodes have the space for a chunk of an object.
async fn too_few_places(service: &ControlService, object: &Object, fewest: usize) -> Status {
    let up = service
        .coordinator
        .query(|driver| driver.core().node_statuses().iter().filter(|node| node.serves()).count());
    let up = up.await.unwrap_or_default();
    let (chunk, code) = (format_size(object.chunk_bytes), object.code);
    let least = code.durable_chunks_min();
    Status::resource_exhausted(format!(
        "{code} needs at least {least} nodes with {chunk} free for a chunk, {fewest} of the {up} that are up have that beside their keep_free (see suture df): make space or start more agents"
    ))
}

/// Refuses a code that the cluster has too few nodes for, now or ever. Where some of enough nodes
/// are silent, failed or being emptied, their chunks wait for repair.
async fn check_nodes(service: &ControlService, code: Code) -> Result<(), Status> {
    let Intent { removed, .. } = service.metadata.query(|store| store.intent()).await?;
    let counts = service.coordinator.query(move |driver| {
        let core = driver.core();
        let known = core.cluster().ids().filter(|node| !removed.contains(node)).count();
        (core.node_statuses().iter().filter(|node| node.serves()).count(), known)
    });
    let (up, known) = counts.await.unwrap_or_default();
    let (needed, least) = (code.chunk_count(), code.durable_chunks_min());
    let too_few = match (known >= needed, up >= least) {
        (true, true) => return Ok(()),
        (false, _) => format!("needs {needed} nodes"),
        (true, false) => format!("needs at least {least} of {needed} nodes"),
    };
    Err(Status::resource_exhausted(format!(
        "{code} {too_few}, {up} of {known} are up and take chunks (see suture node list): start more agents or choose a smaller --code"
    )))
}
