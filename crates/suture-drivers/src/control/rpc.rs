//! The calls of clients, operators and agents, each handed to the service that answers it.
//!
//! Place: around all of failure -> ... -> stripe healthy: where gRPC ends.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use suture_repair::id::NodeId;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::NamedService;
use tonic::{Request, Response, Status, Streaming};

use super::access::Call;
use super::proto::coordinator_server::{Coordinator, CoordinatorServer};
use super::served::{Guarded, Served};
use super::service::ControlService;
use super::{
    REPLY_BYTES_MAX, REQUEST_BYTES_MAX, SHORT_REQUEST_BYTES_MAX, backup, convert, proto, put,
    session, throttle,
};
use crate::metadata::MetadataStore;

/// Messages that may wait for a client; then it is waited for.
const REPLIES_MAX: usize = 4;

/// The call whose messages may be long. Its role is judged before anything of them is kept, and
/// only agents have it.
const LONG: &str = "/suture.v1.Coordinator/Session";

/// The service as the server takes it.
pub fn server(service: Arc<ControlService>) -> BoundedServer {
    let adapter = Arc::new(RpcAdapter(service));
    let bounded = |bytes| {
        CoordinatorServer::from_arc(adapter.clone())
            .max_decoding_message_size(bytes)
            .max_encoding_message_size(REPLY_BYTES_MAX)
    };
    BoundedServer { long: bounded(REQUEST_BYTES_MAX), short: bounded(SHORT_REQUEST_BYTES_MAX) }
}

/// One service, whose calls may have messages of different lengths: what is announced as longer is
/// refused before it comes.
#[derive(Clone)]
pub struct BoundedServer {
    long: CoordinatorServer<RpcAdapter>,
    short: CoordinatorServer<RpcAdapter>,
}

impl Service<http::Request<Body>> for BoundedServer {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let is_long = request.uri().path() == LONG;
        if is_long { self.long.call(request) } else { self.short.call(request) }
    }
}

impl NamedService for BoundedServer {
    const NAME: &'static str = <CoordinatorServer<RpcAdapter> as NamedService>::NAME;
}

/// The service, shared with what goes on after a call has been answered.
pub struct RpcAdapter(Arc<ControlService>);

type Answer<T> = Result<Response<T>, Status>;

impl RpcAdapter {
    async fn served<T>(&self, request: &Request<T>, call: Call) -> Result<Served, Status> {
        self.served_of(request, call, "").await
    }

    /// The same where the request names what it is about.
    async fn served_of<T>(
        &self,
        request: &Request<T>,
        call: Call,
        what: &str,
    ) -> Result<Served, Status> {
        Served::admit(&self.0, request, call, what).await
    }
}

#[tonic::async_trait]
impl Coordinator for RpcAdapter {
    type SessionStream = session::Messages;
    type PutStream = ReceiverStream<Result<proto::PutReply, Status>>;
    type LookupStream = Guarded<proto::LookupReply>;
    type ListStream = Guarded<proto::ListReply>;
    type BackupMetadataStream = Guarded<proto::BackupReply>;

    async fn session(
        &self,
        request: Request<Streaming<proto::AgentMessage>>,
    ) -> Answer<Self::SessionStream> {
        let served = self.served(&request, Call::Session).await?;
        Ok(Response::new(session::begin(served, request.into_inner()).await?))
    }

    async fn put(&self, request: Request<Streaming<proto::PutRequest>>) -> Answer<Self::PutStream> {
        let served = self.served(&request, Call::Put).await?;
        let (replies, stream) = mpsc::channel(REPLIES_MAX);
        tokio::spawn(put::follow(served, request.into_inner(), replies));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn renew_put(&self, request: Request<proto::PutRenewal>) -> Answer<proto::Done> {
        let served = self.served(&request, Call::RenewPut).await?;
        served.renew_put(request.into_inner().put).await?;
        Ok(Response::new(proto::Done {}))
    }

    async fn lookup(&self, request: Request<proto::ObjectName>) -> Answer<Self::LookupStream> {
        let served = self.served_of(&request, Call::Lookup, &request.get_ref().name).await?;
        let name = request.into_inner().name;
        served.check_name(&name).await?;
        let (head, first) = served.service.lookup_head(&name).await?;
        let (replies, stream) = mpsc::channel(REPLIES_MAX);
        tokio::spawn(served.service.clone().lookup_stripes(name, head, first, replies));
        Ok(Response::new(served.guard(stream)))
    }

    async fn list(&self, request: Request<proto::ListRequest>) -> Answer<Self::ListStream> {
        let served = self.served(&request, Call::List).await?;
        let prefix = served.listed(request.into_inner().prefix).await?;
        let (replies, stream) = mpsc::channel(REPLIES_MAX);
        tokio::spawn(served.service.clone().list_objects(prefix, replies));
        Ok(Response::new(served.guard(stream)))
    }

    async fn stat(&self, request: Request<proto::ObjectName>) -> Answer<proto::StatReply> {
        let served = self.served_of(&request, Call::Stat, &request.get_ref().name).await?;
        let name = request.into_inner().name;
        served.check_name(&name).await?;
        Ok(Response::new(served.service.stat(name).await?))
    }

    async fn remove(&self, request: Request<proto::ObjectName>) -> Answer<proto::RemoveReply> {
        let served = self.served_of(&request, Call::Remove, &request.get_ref().name).await?;
        let name = request.into_inner().name;
        served.check_length(&name).await?;
        served.check_name(&name).await?;
        let (what, service) = (name.clone(), served.service.clone());
        let remove =
            async move { Ok(service.metadata.ask(move |store| store.remove(&name)).await?) };
        let removed = served.change(what, remove).await?;
        Ok(Response::new(proto::RemoveReply { stripes: removed.stripes, bytes: removed.bytes }))
    }

    async fn report_bad(&self, request: Request<proto::BadCopy>) -> Answer<proto::Done> {
        let served = self.served(&request, Call::ReportBad).await?;
        let proto::BadCopy { node, copy } = request.into_inner();
        let copy = convert::decode_copy(copy)?;
        let known = served.service.query(|driver| driver.core().cluster().nodes.len()).await?;
        if node as usize >= known {
            return Err(Status::invalid_argument(format!("there is no {}", NodeId(node))));
        }
        let ask = move |store: &mut MetadataStore| store.names_of(&[copy.stripe]);
        let name = served.service.metadata.ask(ask).await?.remove(&copy.stripe);
        // A stripe of no object has the empty name, which no client's prefix permits.
        served.check_name(&name.unwrap_or_default()).await?;
        let service = served.service.clone();
        let suspect = async move {
            service.coordinator.suspect(NodeId(node), copy).await;
            Ok(())
        };
        served.change(format!("{copy} at {}", NodeId(node)), suspect).await?;
        Ok(Response::new(proto::Done {}))
    }

    async fn status(&self, request: Request<proto::StatusRequest>) -> Answer<proto::StatusReply> {
        let served = self.served(&request, Call::Status).await?;
        let service = &served.service;
        let is_kept_enough = request.get_ref().or_kept;
        let status =
            if is_kept_enough { service.status_soon().await } else { service.status().await };
        Ok(Response::new(status?))
    }

    async fn command_node(&self, request: Request<proto::NodeCommand>) -> Answer<proto::Done> {
        let call = Call::of_node(request.get_ref().action());
        let served = self.served_of(&request, call, &request.get_ref().name).await?;
        served.command_node(request.into_inner()).await?;
        Ok(Response::new(proto::Done {}))
    }

    async fn command_repair(&self, request: Request<proto::RepairCommand>) -> Answer<proto::Done> {
        let served = self.served(&request, Call::CommandRepair).await?;
        served.command_repair(request.into_inner()).await?;
        Ok(Response::new(proto::Done {}))
    }

    async fn set_throttle(&self, request: Request<proto::ThrottleCommand>) -> Answer<proto::Done> {
        let served = self.served(&request, Call::SetThrottle).await?;
        let wanted = request.into_inner().throttle.map(throttle::decode).transpose()?;
        served.set_throttle(wanted).await?;
        Ok(Response::new(proto::Done {}))
    }

    async fn start_scrub(
        &self,
        request: Request<proto::ScrubRequest>,
    ) -> Answer<proto::ScrubStarted> {
        let served = self.served(&request, Call::StartScrub).await?;
        let service = served.service.clone();
        let start = async move { service.start_scrub().await };
        Ok(Response::new(served.change(String::new(), start).await?))
    }

    async fn backup_metadata(
        &self,
        request: Request<proto::BackupRequest>,
    ) -> Answer<Self::BackupMetadataStream> {
        let served = self.served(&request, Call::BackupMetadata).await?;
        let (replies, stream) = mpsc::channel(REPLIES_MAX);
        let answer = Response::new(served.guard(stream));
        // A backup of large metadata takes longer than an answer may.
        tokio::spawn(async move {
            let service = served.service.clone();
            let take = async move { backup::take(&service.metadata).await };
            let taken = async {
                let backup = served.change(String::new(), take).await?;
                Ok((backup, served.service.may_be_older().await?))
            };
            match taken.await {
                Ok((backup, may_be_older)) => backup::send(backup, may_be_older, replies).await,
                Err(why) => drop(replies.send(Err(why)).await),
            }
        });
        Ok(answer)
    }

    async fn preview_repair(
        &self,
        request: Request<proto::PreviewRequest>,
    ) -> Answer<proto::PreviewReply> {
        let object = request.get_ref().object.as_deref().unwrap_or_default();
        let served = self.served_of(&request, Call::PreviewRepair, object).await?;
        Ok(Response::new(served.service.preview(request.into_inner().object).await?))
    }
}
