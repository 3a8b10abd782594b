//! The coordinator's side of one agent's session.
//!
//! Place: [failure detected] -> ... -> `[dispatch]` -> ... : a broken session is the first sign.
//! A session begins with `Join` and `Welcome`; then each side sends what it has to send. The same
//! name joining again replaces the session before, as a restarted agent does; joining from
//! another address while the first still speaks is refused, as that is two agents of one name. So
//! is another name at the address of an agent that still speaks: what is sent to either would come
//! to one of them, and two chunks of a stripe to one machine.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use suture_edge::error::quoted;
use suture_repair::id::NodeId;
use suture_repair::wire::ClusterId;
use tokio::sync::{OwnedMutexGuard, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Status, Streaming};
use tracing::{debug, warn};

use super::listing::Listing;
use super::proto::agent_message::Message as AgentWord;
use super::proto::coordinator_message::Message as CoordinatorWord;
use super::served::Served;
use super::service::ControlService;
use super::{agreed_protocol, convert, proto};
use crate::config::check_name;
use crate::coordinator::outbox::{OUTBOX_MAX, Outgoing};
use crate::coordinator::refused::RefusedAgent;
use crate::coordinator::{CoordinatorDriver, Handle, NewSession};
use crate::metadata::{Mark, MetadataError, MetadataStore, NewNode, NodeRecord, Remembered};
use crate::store::StoreId;

/// How long a peer may take from connecting to announcing its identity.
const JOIN_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an agent that was let in may take to introduce itself, and how often that is looked
/// at, while whether data stay readable without other nodes is not judged.
const INTRODUCED_MAX: Duration = Duration::from_secs(5);
const INTRODUCED_EVERY: Duration = Duration::from_millis(20);

/// Distinguishes sessions of one node from each other.
static NEXT_SESSION: AtomicU64 = AtomicU64::new(0);

/// From this version of the control plane on, agents take marks.
const MARKED_SINCE: u32 = 10;

/// What the agent receives.
pub type Messages =
    Pin<Box<dyn Stream<Item = Result<proto::CoordinatorMessage, Status>> + Send + 'static>>;

/// Begins a session: gives what the agent receives, and goes on listening to it meanwhile.
///
/// # Errors
/// Why the agent may not join.
pub async fn begin(
    served: Served,
    mut messages: Streaming<proto::AgentMessage>,
) -> Result<Messages, Status> {
    let joined = join(&served, &mut messages).await;
    let joined = joined.inspect_err(|why| warn!("an agent is refused: {}", why.message()));
    let Joined { record, epoch, protocol, renews, heartbeat, file_system } = joined?;
    let (node, name) = (record.id, record.node.name.clone());
    let welcome = proto::Welcome {
        protocol,
        node: node.0,
        epoch,
        cluster: served.service.cluster().0,
        put_key: served.service.put_key.bytes(),
    };
    let welcome = proto::CoordinatorMessage { message: Some(CoordinatorWord::Welcome(welcome)) };
    let (outbox, outgoing) = mpsc::channel(OUTBOX_MAX);
    let outgoing = ReceiverStream::new(outgoing)
        .filter(move |message| protocol >= MARKED_SINCE || !matches!(message, Outgoing::Marked(_)))
        .map(|message| Ok::<_, Status>(convert::encode_outgoing(message)));
    let session = NEXT_SESSION.fetch_add(1, Ordering::Relaxed);
    let new = NewSession { number: session, outbox, renews, heartbeat, file_system };
    served.service.coordinator.joined(record, new).await;
    tokio::spawn(async move {
        if let Err(status) = receive(&served, node, session, &mut messages).await {
            debug!(node = name, why = status.message(), "session broke");
        }
        served.service.coordinator.left(node, session).await;
    });
    Ok(Box::pin(tokio_stream::once(Ok::<_, Status>(welcome)).chain(outgoing)))
}

/// Hands on what the agent sends until it ends the session.
async fn receive(
    served: &Served,
    node: NodeId,
    session: u64,
    messages: &mut Streaming<proto::AgentMessage>,
) -> Result<(), Status> {
    let mut listing = Listing::default();
    while let Some(message) = messages.message().await? {
        served.check_still()?;
        if let Some(AgentWord::BackupKept(_)) = message.message {
            served.service.coordinator.backup_kept().await;
            continue;
        }
        let Some(message) = listing.whole(message)? else { continue };
        let message = convert::decode_from_agent(message)?;
        served.service.coordinator.received(node, session, message).await;
    }
    Ok(())
}

/// An agent that is let in.
struct Joined {
    record: NodeRecord,
    epoch: u32,
    /// The version of its session.
    protocol: u32,
    /// Whether it has a session already, which this one replaces.
    renews: bool,
    /// How often it reports, if it announces that.
    heartbeat: Option<Duration>,
    /// Which file system its chunks are on, if it announces one.
    file_system: Option<u64>,
}

async fn join(
    served: &Served,
    messages: &mut Streaming<proto::AgentMessage>,
) -> Result<Joined, Status> {
    let first = tokio::time::timeout(JOIN_TIMEOUT, messages.message()).await;
    let first =
        first.map_err(|_| Status::deadline_exceeded("the agent sent no Join in time"))??;
    let Some(AgentWord::Join(join)) = first.and_then(|message| message.message) else {
        return Err(Status::invalid_argument("a session begins with Join"));
    };
    served.check_node(&join.name).await?;
    let begun = served.begin(&join.name).await?;
    let (renews, protocol) = (join.renews, agreed_protocol(&join));
    let heartbeat = join.heartbeat_ms.map(Duration::from_millis);
    let file_system = join.file_system;
    let (name, theirs) = (join.name.clone(), join.cluster.map(ClusterId));
    let joined = admit(&served.service, join).await;
    if let Err(why) = &joined
        && check_name("node", &name).is_ok()
    {
        let ours = served.service.known_cluster();
        let cluster = theirs.filter(|theirs| ours.is_some_and(|ours| ours != *theirs));
        let why = why.message().to_owned();
        let refused = RefusedAgent { name, cluster, why, ago: Duration::ZERO };
        served.service.coordinator.refused(refused).await;
    }
    served.end(begun, joined.as_ref().map(drop).map_err(Clone::clone)).await?;
    let (record, epoch) = joined?;
    let protocol = protocol.map_err(Status::failed_precondition)?;
    Ok(Joined { record, epoch, protocol, renews, heartbeat, file_system })
}

/// Lets an agent in under its number.
async fn admit(service: &ControlService, join: proto::Join) -> Result<(NodeRecord, u32), Status> {
    let is_new = join.cluster.is_none();
    let takes_name = is_new && join.takes_name;
    let remembered = Remembered {
        epoch: join.epoch,
        committed: join.committed,
        mark: join.mark.map(|proto::Mark { number, at }| Mark { number, at }),
    };
    let followed = remembered.epoch;
    let cluster = service.cluster_for(join.cluster.map(ClusterId)).await?;
    let mut node = check(cluster, join)?;
    if service.is_hdfs {
        // Where a DataNode is, the NameNode reports, and not its agent.
        let name = node.name.clone();
        let nodes = service.metadata.ask(|store| store.nodes()).await?;
        let known = nodes.into_iter().find(|record| record.node.name == name);
        node.rack = known.and_then(|record| record.node.rack);
    }
    let joined = node.clone();
    // First, so that a store that has lost the name to another is refused for that reason.
    let check = move |store: &mut MetadataStore| store.check_joining(&joined, is_new, takes_name);
    service.metadata.ask(check).await?;
    let joined = node.clone();
    let accepted = move |store: &mut MetadataStore| {
        let begun = store.epoch();
        Ok::<_, MetadataError>((store.accepts_epoch(&joined, followed)?, begun))
    };
    let (is_plausible, epoch) = service.metadata.ask(accepted).await?;
    if !is_plausible {
        // Others may report the same: it goes on asking.
        return Err(Status::unavailable(format!(
            "the agent has followed epoch {followed}, this coordinator is in epoch {epoch}: such an epoch is accepted once more than half of the nodes report one; if only this agent has, its file 'membership' is damaged: stop it, delete that file, start it again"
        )));
    }
    check_unique(service, &node).await?;
    let judging = OtherStore::judge(service, &node).await?;
    if takes_name {
        service.check_taking(&node).await?;
    }
    let joined = node.clone();
    let join = move |store: &mut MetadataStore| {
        if takes_name {
            store.give_name_away(&joined.name)?;
        }
        let id = store.join(&joined)?;
        store.outrank(&joined.name, remembered)?;
        Ok::<_, MetadataError>((id, store.epoch()))
    };
    let (id, epoch) = service.metadata.ask(join).await?;
    if let Some(judging) = judging {
        tokio::spawn(judging.end(service.coordinator.clone()));
    }
    Ok((NodeRecord { id, node }, epoch))
}

/// A node whose name another store takes. What was on the former one counts as away once the agent
/// has introduced itself, and nothing else is judged until then.
struct OtherStore {
    node: NodeId,
    /// Of the agent that was there before.
    incarnation: Option<u64>,
    judging: OwnedMutexGuard<()>,
}

impl OtherStore {
    /// Begins to judge, if the store is another one than the node has had.
    async fn judge(service: &ControlService, node: &NewNode) -> Result<Option<OtherStore>, Status> {
        let judging = service.judging.clone();
        let nodes = service.metadata.ask(|store| store.nodes()).await?;
        let known = nodes.into_iter().find(|record| record.node.name == node.name);
        let Some(known) = known.filter(|record| record.node.store != node.store) else {
            return Ok(None);
        };
        let judging = judging.lock_owned().await;
        let node = known.id;
        let incarnation = incarnation(&service.coordinator, node).await;
        Ok(Some(OtherStore { node, incarnation, judging }))
    }

    /// Ends when the agent has introduced itself, or does not.
    async fn end(self, coordinator: Handle) {
        let introduced = async {
            while incarnation(&coordinator, self.node).await == self.incarnation {
                tokio::time::sleep(INTRODUCED_EVERY).await;
            }
        };
        let _ = tokio::time::timeout(INTRODUCED_MAX, introduced).await;
        drop(self.judging);
    }
}

async fn incarnation(coordinator: &Handle, node: NodeId) -> Option<u64> {
    let ask = move |driver: &CoordinatorDriver| driver.core().incarnation(node);
    coordinator.query(ask).await.flatten()
}

/// Refuses an agent whose name or address another agent with a session has. That one may be gone in
/// a moment, so the agent that is refused tries again.
async fn check_unique(service: &ControlService, node: &NewNode) -> Result<(), Status> {
    let (name, address) = (node.name.clone(), node.address.clone());
    let others = service.coordinator.query(move |driver: &CoordinatorDriver| {
        (driver.conflicting_session(&name, &address), driver.other_at(&address, &name))
    });
    let (same_name, same_address) = others.await.unwrap_or_default();
    let NewNode { name, address, .. } = node;
    if let Some(other) = same_name {
        return Err(Status::already_exists(format!(
            "an agent named '{name}' is in the cluster already, at {other}: names are unique"
        )));
    }
    if let Some(other) = same_address {
        return Err(Status::already_exists(format!(
            "'{name}' announces {address}, which is the address of '{other}', which is up: give each agent an address of its own (advertise, or else listen); if '{name}' has it now, stop the agent of '{other}'"
        )));
    }
    Ok(())
}

/// The node that an agent announces itself as, if there can be one of `cluster`.
///
/// # Errors
/// What is wrong with it.
pub fn check(cluster: ClusterId, join: proto::Join) -> Result<NewNode, Status> {
    agreed_protocol(&join).map_err(Status::failed_precondition)?;
    if let Some(theirs) = join.cluster.map(ClusterId)
        && theirs != cluster
    {
        // Another coordinator may be at this address later: an agent with chunks tries again.
        return Err(Status::unavailable(format!(
            "the agent's chunks belong to cluster {theirs}, this is the coordinator of cluster {cluster}; if this coordinator lost the metadata of cluster {theirs}, stop it, empty its data_dir, and use `suture metadata restore` or `suture metadata rebuild`"
        )));
    }
    check_name("node", &join.name).map_err(Status::invalid_argument)?;
    let rack = join.rack.as_deref().map_or(Ok(()), |rack| check_name("rack", rack));
    rack.map_err(Status::invalid_argument)?;
    if join.data_address.parse::<std::net::SocketAddr>().is_err() {
        let what = format!("{} is not an address and port", quoted(&join.data_address));
        return Err(Status::invalid_argument(what));
    }
    if [join.uplink, join.downlink].into_iter().any(|rate| !rate.is_finite() || rate <= 0.0) {
        return Err(Status::invalid_argument("link rates must be above zero"));
    }
    let processor = join.processor.map(convert::decode_processor).transpose()?;
    Ok(NewNode {
        name: join.name,
        rack: join.rack,
        address: join.data_address,
        uplink: join.uplink,
        downlink: join.downlink,
        store: join.store.map(StoreId),
        processor,
    })
}
