//! The agent's side of its session: joins, listens, and joins again when the session breaks.
//!
//! Place: [failure detected] -> ... -> `[dispatch]` -> ... : an agent without a session is idle.
//! A coordinator that restarts or is out of reach is waited for, for ever: chunks are safe
//! meanwhile, and the agent has to be there when the coordinator returns. The agent also waits
//! where a coordinator of another cluster listens at the address: the disk with the metadata may
//! not be mounted yet. An agent that was never welcomed ends when it is refused for good (a cluster
//! that others have joined, another protocol, a name that is taken): it serves no client, and its
//! end is an error that the operator sees. One that was serves reads, so it waits whatever a
//! coordinator answers.
//! Invariants: one membership has one number: where the cluster has another, it ends, and the
//! process begins anew under that; and it follows no coordinator of an older epoch than another
//! that it has followed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use suture_edge::error::bad_input;
use suture_repair::id::NodeId;
use suture_repair::keeper::admission::EPOCH_MAX;
use suture_repair::processor::Processor;
use suture_repair::wire::ClusterId;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};
use tracing::{info, warn};

use super::backup::BackupKeeper;
use super::client::Client;
use super::membership::{Membership, MembershipFile};
use super::proto::agent_message::Message as AgentWord;
use super::proto::coordinator_message::Message as CoordinatorWord;
use super::{OTHER_PROTOCOL, PROTOCOL_OLDEST, PROTOCOL_VERSION, client, convert, listing, proto};
use crate::agent::session::{SESSION_QUEUE, SessionEvent, SessionFeed};
use crate::identity::credentials::Kept;
use crate::metadata::Mark;
use crate::put_key::PutKey;
use crate::store::StoreId;

/// The wait before joining again; it doubles up to `RETRY_MAX`. The first is too short to be
/// noticed, the longest shorter than a coordinator's grace for nodes that it has not received of.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(3);

/// How often an agent with new credentials tries to begin a new session.
const RENEW_EVERY: Duration = Duration::from_millis(500);

/// How long a coordinator that accepted a connection may take to welcome the agent.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(10);

/// What an agent announces of itself.
#[derive(Clone, Debug)]
pub struct Introduction {
    /// Where the coordinator listens.
    pub coordinator: String,
    /// The node's name, unique in the cluster.
    pub name: String,
    /// The rack that the node is in, if it announces one.
    pub rack: Option<String>,
    /// Where the agent serves chunks.
    pub data_address: SocketAddr,
    /// Bytes per second that it can send.
    pub uplink: f64,
    /// Bytes per second that it can receive.
    pub downlink: f64,
    /// The cluster whose chunks it has, if it has any.
    pub cluster: Option<ClusterId>,
    /// Which store it has, unless that cannot be kept.
    pub store: Option<StoreId>,
    /// Whether it takes the name over from another store: its data_dir is new, and meant to be.
    pub takes_name: bool,
    /// How often it reports.
    pub heartbeat: Duration,
    /// What its sessions before left, if there were any.
    pub membership: Option<Membership>,
    /// The last mark that a coordinator sent to it, of the epoch that it has followed last.
    pub mark: Option<Mark>,
    /// Where the membership is kept.
    pub data_dir: PathBuf,
    /// Which file system its chunks are on, where that is known.
    pub file_system: Option<u64>,
    /// What its processor takes for a repair, where that could be measured.
    pub processor: Option<Processor>,
    /// What proves that it is this node, if anything does.
    pub credentials: Option<Arc<Kept>>,
}

/// What it is sent when it has joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Which node it is.
    pub node: NodeId,
    /// Which cluster it has joined.
    pub cluster: ClusterId,
}

/// Why an agent is no longer kept in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It has ended itself.
    Ended,
    /// The cluster numbers it otherwise than when it began. Work under the old number is void: the
    /// agent must stop it and join again.
    Renumbered,
}

/// Why a session ended.
enum End {
    /// It may be tried again.
    Broken(anyhow::Error),
    /// Trying again cannot succeed.
    Refused(anyhow::Error),
    /// The agent has ended.
    Finished,
    /// There is another one in its place.
    Renewed(Box<(Welcome, JoinedSession)>),
}

/// Keeps the agent in its cluster until it ends, or is another node there. `welcome` gets what the
/// first session was welcomed with; later ones must be with the same cluster, and under the same
/// number.
///
/// # Errors
/// Bad input when the coordinator refuses this agent for good before it has welcomed it.
pub async fn keep(
    mut me: Introduction,
    mut feed: SessionFeed,
    welcome: oneshot::Sender<Welcome>,
) -> Result<Left> {
    let (mut welcome, mut number) = (Some(welcome), None);
    let mut keeper =
        BackupKeeper::new(me.coordinator.clone(), me.credentials.clone(), me.data_dir.clone());
    let mut file = MembershipFile::new(me.data_dir.clone(), me.membership);
    let mut wait = RETRY_FIRST;
    let mut next = None;
    loop {
        let joined = match next.take() {
            Some(renewed) => Ok(renewed),
            None => join(&me, false).await,
        };
        let end = match joined {
            Ok((joined, session)) => {
                info!(coordinator = me.coordinator, cluster = %joined.cluster, "joined");
                file.keep(me.welcomed(joined, session.epoch));
                file.kept().await;
                let before = *number.get_or_insert(joined.node);
                if before != joined.node {
                    warn!(%before, now = %joined.node, "the cluster has another number for this node");
                    return Ok(Left::Renumbered);
                }
                // The receiver is gone when the agent could not start.
                welcome.take().map(|welcome| welcome.send(joined));
                wait = RETRY_FIRST;
                exchange(&mut me, session, &mut feed, &mut keeper, &file).await
            }
            Err(end) => end,
        };
        match end {
            End::Finished => return Ok(Left::Ended),
            End::Renewed(renewed) => {
                next = Some(*renewed);
                continue;
            }
            End::Refused(why) if number.is_none() => return Err(why),
            End::Refused(why) | End::Broken(why) => {
                warn!("{why:#}; trying again in {} ms", wait.as_millis());
            }
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => wait = (wait * 2).min(RETRY_MAX),
            () = feed.events.closed() => return Ok(Left::Ended),
        }
    }
}

impl Introduction {
    /// Notes what a session was welcomed with.
    fn welcomed(&mut self, joined: Welcome, epoch: u32) -> Membership {
        self.cluster = Some(joined.cluster);
        if self.membership.is_none_or(|membership| membership.epoch != epoch) {
            self.mark = None;
        }
        let committed = self.membership.map_or(0, |membership| membership.committed);
        *self.membership.insert(Membership { node: joined.node, epoch, committed })
    }

    /// Notes what is for this session alone, and not for the agent's machine; whether it was that.
    fn note(&mut self, message: &proto::CoordinatorMessage, file: &MembershipFile) -> bool {
        match message.message {
            Some(CoordinatorWord::Committed(puts)) => {
                self.note_committed(puts).into_iter().for_each(|news| file.keep(news));
            }
            Some(CoordinatorWord::Mark(proto::Mark { number, at })) => {
                self.mark = Some(Mark { number, at });
            }
            _ => return false,
        }
        true
    }

    /// Notes how many puts are committed. Fewer than before are another map's, and no news.
    fn note_committed(&mut self, committed: u64) -> Option<Membership> {
        let known = self.membership.as_mut().filter(|known| known.committed < committed)?;
        known.committed = committed;
        Some(*known)
    }
}

/// A session that has been welcomed.
struct JoinedSession {
    client: Client,
    /// The number of the credentials by which it was begun.
    by: u64,
    epoch: u32,
    put_key: PutKey,
    outgoing: mpsc::Sender<proto::AgentMessage>,
    incoming: Streaming<proto::CoordinatorMessage>,
}

/// A new session, once this agent has other credentials than those of that number: it stands before
/// the former one ends, so that the coordinator never misses the node. Never returns without
/// credentials.
async fn renewed(me: &Introduction, number: u64) -> Box<(Welcome, JoinedSession)> {
    let Some(kept) = &me.credentials else { return std::future::pending().await };
    kept.changed(number).await;
    loop {
        match join(me, true).await {
            Ok(renewed) => return Box::new(renewed),
            Err(_) => tokio::time::sleep(RENEW_EVERY).await,
        }
    }
}

/// Whether there are other credentials than those of that number.
fn is_renewing(me: &Introduction, number: u64) -> bool {
    me.credentials.as_ref().is_some_and(|kept| kept.current().number != number)
}

/// Begins a session; it `renews` the one that there is, or there is none.
async fn join(me: &Introduction, renews: bool) -> Result<(Welcome, JoinedSession), End> {
    match join_by(PROTOCOL_VERSION, me, renews).await {
        // A coordinator of the release before knows of no choice.
        Err(End::Refused(why)) if format!("{why:#}").contains(OTHER_PROTOCOL) => {
            join_by(PROTOCOL_OLDEST, me, renews).await
        }
        joined => joined,
    }
}

/// Begins a session of this version of the control plane at most.
async fn join_by(
    protocol: u32,
    me: &Introduction,
    renews: bool,
) -> Result<(Welcome, JoinedSession), End> {
    let by = me.credentials.as_ref().map_or(0, |kept| kept.current().number);
    let mut client =
        client::connect(&me.coordinator, me.credentials.clone()).await.map_err(End::Broken)?;
    let (outgoing, words) = mpsc::channel(SESSION_QUEUE);
    let introduction = proto::Join {
        protocol,
        oldest_protocol: PROTOCOL_OLDEST,
        name: me.name.clone(),
        rack: me.rack.clone(),
        data_address: me.data_address.to_string(),
        uplink: me.uplink,
        downlink: me.downlink,
        cluster: me.cluster.map(|cluster| cluster.0),
        store: me.store.map(|store| store.0),
        takes_name: me.takes_name,
        epoch: me.membership.map_or(0, |membership| membership.epoch),
        committed: me.membership.map_or(0, |membership| membership.committed),
        mark: me.mark.map(|Mark { number, at }| proto::Mark { number, at }),
        renews,
        heartbeat_ms: Some(me.heartbeat.as_millis() as u64),
        file_system: me.file_system,
        processor: me.processor.as_ref().map(convert::encode_processor),
    };
    let first = proto::AgentMessage { message: Some(AgentWord::Join(introduction)) };
    outgoing.try_send(first).expect("the queue is new");
    let welcomed = async {
        let mut incoming = client.session(ReceiverStream::new(words)).await?.into_inner();
        let first = incoming.message().await?;
        Ok((first.and_then(|message| message.message), incoming))
    };
    let (first, incoming) = tokio::time::timeout(WELCOME_TIMEOUT, welcomed)
        .await
        .map_err(|_| broken(me, anyhow!("it does not answer")))?
        .map_err(|status| refused(me, status))?;
    let Some(CoordinatorWord::Welcome(welcome)) = first else {
        return Err(broken(me, anyhow!("unexpected reply to request Join")));
    };
    if !(PROTOCOL_OLDEST..=PROTOCOL_VERSION).contains(&welcome.protocol) {
        return Err(End::Refused(bad_input(format!(
            "the coordinator at {} speaks protocol {}, this agent {PROTOCOL_OLDEST} to {PROTOCOL_VERSION}: run the same suture on both, or releases that follow on each other",
            me.coordinator, welcome.protocol
        ))));
    }
    let cluster = ClusterId(welcome.cluster);
    if me.cluster.is_some_and(|mine| mine != cluster) {
        return Err(broken(
            me,
            anyhow!(
                "it is of another cluster, {cluster}: set coordinator to that of this agent's cluster, or data_dir to another directory"
            ),
        ));
    }
    check_epoch(me, welcome.epoch)?;
    let Some(put_key) = PutKey::from_bytes(&welcome.put_key) else {
        return Err(broken(me, anyhow!("its key for puts has {} bytes", welcome.put_key.len())));
    };
    let joined = Welcome { node: NodeId(welcome.node), cluster };
    let epoch = welcome.epoch;
    Ok((joined, JoinedSession { client, by, epoch, put_key, outgoing, incoming }))
}

/// Refuses to follow a coordinator of an older epoch than others were of, and one that none is of.
fn check_epoch(me: &Introduction, epoch: u32) -> Result<(), End> {
    let followed = me.membership.map_or(0, |membership| membership.epoch);
    let why = if epoch < followed {
        anyhow!(
            "its epoch is {epoch}, and this agent has followed epoch {followed}: there is a newer coordinator, or was"
        )
    } else if epoch >= EPOCH_MAX {
        anyhow!("no coordinator comes to epoch {epoch}")
    } else {
        return Ok(());
    };
    Err(broken(me, why))
}

fn broken(me: &Introduction, why: anyhow::Error) -> End {
    End::Broken(why.context(format!("cannot join the cluster at {}", me.coordinator)))
}

fn refused(me: &Introduction, status: Status) -> End {
    match status.code() {
        Code::FailedPrecondition | Code::InvalidArgument => End::Refused(bad_input(format!(
            "the coordinator at {} refused this agent: {}",
            me.coordinator,
            status.message()
        ))),
        _ => broken(me, client::refusal(status)),
    }
}

/// Carries messages both ways until the session breaks, or another one takes its place.
async fn exchange(
    me: &mut Introduction,
    mut session: JoinedSession,
    feed: &mut SessionFeed,
    keeper: &mut BackupKeeper,
    file: &MembershipFile,
) -> End {
    // Words meant for the session before; the core repeats what still matters.
    while feed.outbox.try_recv().is_ok() {}
    let put_key = SessionEvent::PutKey(session.put_key.clone());
    // The key first: what the core sends next may have puts placed here at once.
    for event in [put_key, SessionEvent::Connected { epoch: session.epoch }] {
        if feed.events.send(event).await.is_err() {
            return End::Finished;
        }
    }
    let renewing = me.clone();
    let mut renewal = pin!(renewed(&renewing, session.by));
    let why = 'session: loop {
        tokio::select! {
            renewed = &mut renewal => return End::Renewed(renewed),
            received = session.incoming.message() => {
                if let Err(why) = session.client.check_still() {
                    // It may have credentials of a newer authority by now.
                    match join(me, true).await {
                        Ok(renewed) => return End::Renewed(renewed.into()),
                        Err(_) => break why,
                    }
                }
                let event = match received {
                    Ok(Some(message)) => {
                        if matches!(message.message, Some(CoordinatorWord::KeepBackup(_))) {
                            keeper.keep(session.outgoing.clone(), me.cluster);
                            continue;
                        }
                        if me.note(&message, file) {
                            continue;
                        }
                        event_of(message)
                    }
                    Ok(None) if is_renewing(me, session.by) => {
                        // It ended this one for the one that is to take its place.
                        match tokio::time::timeout(WELCOME_TIMEOUT, &mut renewal).await {
                            Ok(renewed) => return End::Renewed(renewed),
                            Err(_) => break anyhow!("the coordinator ended the session"),
                        }
                    }
                    Ok(None) => break anyhow!("the coordinator ended the session"),
                    Err(status) => break anyhow!("session: {}", status.message()),
                };
                match event {
                    Ok(event) => if feed.events.send(event).await.is_err() { return End::Finished },
                    Err(error) => break error,
                }
            }
            message = feed.outbox.recv() => {
                let Some(message) = message else { return End::Finished };
                for part in listing::parts(convert::encode_from_agent(message)) {
                    if session.outgoing.send(part).await.is_err() {
                        break 'session anyhow!("the session is closed");
                    }
                }
            }
        }
    };
    match feed.events.send(SessionEvent::Disconnected).await {
        Ok(()) => End::Broken(why),
        Err(_) => End::Finished,
    }
}

fn event_of(message: proto::CoordinatorMessage) -> Result<SessionEvent> {
    match message.message.context("the coordinator sent an empty message")? {
        CoordinatorWord::Peers(proto::Peers { peers }) => {
            let addresses = peers.iter().map(convert::decode_peer).collect::<Result<_, _>>()?;
            Ok(SessionEvent::Peers(addresses))
        }
        word => Ok(SessionEvent::Message(convert::decode_to_agent(word)?)),
    }
}
