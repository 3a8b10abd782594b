//! The calls of clients, operators and agents, each handed to whoever answers it.
//!
//! Place: around all of failure -> ... -> stripe healthy: where gRPC ends.

use std::sync::Arc;

use suture_repair::id::NodeId;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::proto::coordinator_server::{Coordinator, CoordinatorServer};
use super::service::{ControlService, REBUILDING};
use super::{REPLY_BYTES_MAX, REQUEST_BYTES_MAX, backup, convert, proto, put, session};

/// Messages that may wait for a client; then it is waited for.
const REPLIES_MAX: usize = 4;

/// The service as the server takes it.
pub fn server(service: ControlService) -> CoordinatorServer<RpcAdapter> {
    CoordinatorServer::new(RpcAdapter(Arc::new(service)))
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        .max_encoding_message_size(REPLY_BYTES_MAX)
}

/// The service, shared with what goes on after a call has been answered.
pub struct RpcAdapter(Arc<ControlService>);

type Answer<T> = Result<Response<T>, Status>;

impl RpcAdapter {
    /// The service, for anyone but an agent.
    fn served(&self) -> Result<&Arc<ControlService>, Status> {
        match self.0.is_rebuilding {
            true => Err(Status::unavailable(REBUILDING)),
            false => Ok(&self.0),
        }
    }
}

#[tonic::async_trait]
impl Coordinator for RpcAdapter {
    type SessionStream = session::Messages;
    type PutStream = ReceiverStream<Result<proto::PutReply, Status>>;
    type LookupStream = ReceiverStream<Result<proto::LookupReply, Status>>;
    type ListStream = ReceiverStream<Result<proto::ListReply, Status>>;
    type BackupMetadataStream = ReceiverStream<Result<proto::BackupReply, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<proto::AgentMessage>>,
    ) -> Answer<Self::SessionStream> {
        Ok(Response::new(session::begin(self.0.clone(), request.into_inner()).await?))
    }

    async fn put(&self, request: Request<Streaming<proto::PutRequest>>) -> Answer<Self::PutStream> {
        let (replies, stream) = mpsc::channel(REPLIES_MAX);
        tokio::spawn(put::follow(self.served()?.clone(), request.into_inner(), replies));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn lookup(&self, request: Request<proto::ObjectName>) -> Answer<Self::LookupStream> {
        let name = request.into_inner().name;
        let head = self.served()?.lookup_head(&name).await?;
        let (replies, stream) = mpsc::channel(REPLIES_MAX);
        tokio::spawn(self.served()?.clone().lookup_stripes(name, head, replies));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn list(&self, request: Request<proto::ListRequest>) -> Answer<Self::ListStream> {
        let (replies, stream) = mpsc::channel(REPLIES_MAX);
        tokio::spawn(self.served()?.clone().list_objects(request.into_inner().prefix, replies));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn stat(&self, request: Request<proto::ObjectName>) -> Answer<proto::StatReply> {
        Ok(Response::new(self.served()?.stat(request.into_inner().name).await?))
    }

    async fn remove(&self, request: Request<proto::ObjectName>) -> Answer<proto::RemoveReply> {
        let name = request.into_inner().name;
        let removed = self.served()?.metadata.ask(move |store| store.remove(&name)).await?;
        Ok(Response::new(proto::RemoveReply { stripes: removed.stripes, bytes: removed.bytes }))
    }

    async fn report_bad(&self, request: Request<proto::BadCopy>) -> Answer<proto::Done> {
        let proto::BadCopy { node, copy } = request.into_inner();
        let copy = convert::decode_copy(copy)?;
        let known = self.served()?.query(|driver| driver.core().cluster().nodes.len()).await?;
        if node as usize >= known {
            return Err(Status::invalid_argument(format!("there is no {}", NodeId(node))));
        }
        self.served()?.coordinator.suspect(NodeId(node), copy).await;
        Ok(Response::new(proto::Done {}))
    }

    async fn status(&self, _: Request<proto::StatusRequest>) -> Answer<proto::StatusReply> {
        Ok(Response::new(self.served()?.status().await?))
    }

    async fn command_node(&self, request: Request<proto::NodeCommand>) -> Answer<proto::Done> {
        self.served()?.command_node(request.into_inner()).await?;
        Ok(Response::new(proto::Done {}))
    }

    async fn command_repair(&self, request: Request<proto::RepairCommand>) -> Answer<proto::Done> {
        self.served()?.command_repair(request.into_inner().action()).await?;
        Ok(Response::new(proto::Done {}))
    }

    async fn start_scrub(&self, _: Request<proto::ScrubRequest>) -> Answer<proto::ScrubStarted> {
        Ok(Response::new(self.served()?.start_scrub().await?))
    }

    async fn backup_metadata(
        &self,
        _: Request<proto::BackupRequest>,
    ) -> Answer<Self::BackupMetadataStream> {
        let backup = backup::take(&self.served()?.metadata).await?;
        let (replies, stream) = mpsc::channel(REPLIES_MAX);
        tokio::spawn(backup::send(backup, replies));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn preview_repair(
        &self,
        _: Request<proto::PreviewRequest>,
    ) -> Answer<proto::PreviewReply> {
        Ok(Response::new(self.served()?.preview().await?))
    }
}
