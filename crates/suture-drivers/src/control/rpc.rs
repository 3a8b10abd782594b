//! The calls of clients, operators and agents, each handed to whoever answers it.
//!
//! Place: around all of failure -> ... -> stripe healthy: where gRPC ends.

use std::sync::Arc;

use suture_repair::id::NodeId;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use tracing::warn;

use super::access::{Call, Caller, CallerCell};
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
    /// The service, for a caller that may ask this. There is no other way to it.
    fn served<T>(
        &self,
        request: &Request<T>,
        call: Call,
    ) -> Result<(Arc<ControlService>, Caller), Status> {
        let caller = request.extensions().get::<CallerCell>().and_then(CallerCell::get).cloned();
        let caller = caller.ok_or_else(|| Status::internal("who asks is not known"))?;
        caller.check_still()?;
        caller.check(call).inspect_err(|why| warn!(from = %caller.from, "{}", why.message()))?;
        match self.0.is_rebuilding && call != Call::Session {
            true => Err(Status::unavailable(REBUILDING)),
            false => Ok((self.0.clone(), caller)),
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
        let (service, caller) = self.served(&request, Call::Session)?;
        Ok(Response::new(session::begin(service, caller, request.into_inner()).await?))
    }

    async fn put(&self, request: Request<Streaming<proto::PutRequest>>) -> Answer<Self::PutStream> {
        let (service, caller) = self.served(&request, Call::Put)?;
        let (replies, stream) = mpsc::channel(REPLIES_MAX);
        tokio::spawn(put::follow(service, caller, request.into_inner(), replies));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn lookup(&self, request: Request<proto::ObjectName>) -> Answer<Self::LookupStream> {
        let (service, caller) = self.served(&request, Call::Lookup)?;
        let name = request.into_inner().name;
        caller.check_name(&name)?;
        let head = service.lookup_head(&name).await?;
        let (replies, stream) = mpsc::channel(REPLIES_MAX);
        tokio::spawn(service.lookup_stripes(name, head, replies));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn list(&self, request: Request<proto::ListRequest>) -> Answer<Self::ListStream> {
        let (service, caller) = self.served(&request, Call::List)?;
        let prefix = caller.listed(request.into_inner().prefix)?;
        let (replies, stream) = mpsc::channel(REPLIES_MAX);
        tokio::spawn(service.list_objects(prefix, replies));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn stat(&self, request: Request<proto::ObjectName>) -> Answer<proto::StatReply> {
        let (service, caller) = self.served(&request, Call::Stat)?;
        let name = request.into_inner().name;
        caller.check_name(&name)?;
        Ok(Response::new(service.stat(name).await?))
    }

    async fn remove(&self, request: Request<proto::ObjectName>) -> Answer<proto::RemoveReply> {
        let (service, caller) = self.served(&request, Call::Remove)?;
        let name = request.into_inner().name;
        caller.check_name(&name)?;
        let removed = service.metadata.ask(move |store| store.remove(&name)).await?;
        Ok(Response::new(proto::RemoveReply { stripes: removed.stripes, bytes: removed.bytes }))
    }

    async fn report_bad(&self, request: Request<proto::BadCopy>) -> Answer<proto::Done> {
        let (service, _) = self.served(&request, Call::ReportBad)?;
        let proto::BadCopy { node, copy } = request.into_inner();
        let copy = convert::decode_copy(copy)?;
        let known = service.query(|driver| driver.core().cluster().nodes.len()).await?;
        if node as usize >= known {
            return Err(Status::invalid_argument(format!("there is no {}", NodeId(node))));
        }
        service.coordinator.suspect(NodeId(node), copy).await;
        Ok(Response::new(proto::Done {}))
    }

    async fn status(&self, request: Request<proto::StatusRequest>) -> Answer<proto::StatusReply> {
        let (service, _) = self.served(&request, Call::Status)?;
        Ok(Response::new(service.status().await?))
    }

    async fn command_node(&self, request: Request<proto::NodeCommand>) -> Answer<proto::Done> {
        let unknown = || Status::invalid_argument("unknown command for a node");
        let call = Call::of_node(request.get_ref().action()).ok_or_else(unknown)?;
        let (service, _) = self.served(&request, call)?;
        service.command_node(request.into_inner()).await?;
        Ok(Response::new(proto::Done {}))
    }

    async fn command_repair(&self, request: Request<proto::RepairCommand>) -> Answer<proto::Done> {
        let unknown = || Status::invalid_argument("unknown command for repairs");
        let call = Call::of_repair(request.get_ref().action()).ok_or_else(unknown)?;
        let (service, _) = self.served(&request, call)?;
        service.command_repair(request.into_inner().action()).await?;
        Ok(Response::new(proto::Done {}))
    }

    async fn start_scrub(
        &self,
        request: Request<proto::ScrubRequest>,
    ) -> Answer<proto::ScrubStarted> {
        let (service, _) = self.served(&request, Call::StartScrub)?;
        Ok(Response::new(service.start_scrub().await?))
    }

    async fn backup_metadata(
        &self,
        request: Request<proto::BackupRequest>,
    ) -> Answer<Self::BackupMetadataStream> {
        let (service, _) = self.served(&request, Call::BackupMetadata)?;
        let backup = backup::take(&service.metadata).await?;
        let (replies, stream) = mpsc::channel(REPLIES_MAX);
        tokio::spawn(backup::send(backup, replies));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn preview_repair(
        &self,
        request: Request<proto::PreviewRequest>,
    ) -> Answer<proto::PreviewReply> {
        let (service, _) = self.served(&request, Call::PreviewRepair)?;
        Ok(Response::new(service.preview().await?))
    }
}
