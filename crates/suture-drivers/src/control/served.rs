//! A call that was let in: its caller, its service, and how it comes into the audit log.
//!
//! Place: a call comes -> [its caller may make it, and a change is written down] -> it is answered.
//! Nothing gets at the service but through here, and a streamed answer ends when the caller's
//! certificate is no longer valid.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::mpsc::Receiver;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Status};

use super::access::{Call, Caller, CallerCell, Record};
use super::audit::Begun;
use super::object_name::{NAME_BYTES_MAX, check_name};
use super::put_renewal::RenewablePut;
use super::service::{ControlService, OF_HDFS, REBUILDING};
use crate::metadata::MetadataError;
use crate::metrics::calls::RefusalReason;

/// An answer of many parts, for as long as the caller is accepted.
#[derive(Debug)]
pub struct Guarded<T> {
    parts: ReceiverStream<Result<T, Status>>,
    caller: Caller,
    has_ended: bool,
}

impl<T> Stream for Guarded<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, waker: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        if let Err(why) = self.caller.check_still() {
            self.has_ended = true;
            return Poll::Ready(Some(Err(why)));
        }
        Pin::new(&mut self.parts).poll_next(waker)
    }
}

/// A call that may be answered.
#[derive(Clone)]
pub struct Served {
    /// The service that answers it.
    pub service: Arc<ControlService>,
    caller: Caller,
    call: Call,
}

impl Served {
    /// Lets a call in, or not.
    ///
    /// # Errors
    /// When the caller is not accepted any more, or may not make that call; and when only agents
    /// are served now.
    pub async fn admit<T>(
        service: &Arc<ControlService>,
        request: &Request<T>,
        call: Call,
        what: &str,
    ) -> Result<Served, Status> {
        let unknown = || Status::internal("who asks is not known");
        let cell = request.extensions().get::<CallerCell>().ok_or_else(unknown)?;
        if let Err(crowded) = cell.check_place() {
            service.note_refusal(RefusalReason::Connections);
            return Err(crowded);
        }
        let caller = cell.get().cloned().ok_or_else(unknown)?;
        Served::admit_caller(service, caller, call, what).await
    }

    /// The same for a caller that is known already.
    ///
    /// # Errors
    /// As [`Served::admit`].
    pub async fn admit_caller(
        service: &Arc<ControlService>,
        caller: Caller,
        call: Call,
        what: &str,
    ) -> Result<Served, Status> {
        let served = Served { service: service.clone(), caller, call };
        served.judge(what, served.caller.check_still()).await?;
        service.trust.iter().for_each(|trust| trust.note(&served.caller));
        served.judge(what, served.caller.check(call)).await?;
        let is_of_objects =
            matches!(call, Call::Put | Call::Lookup | Call::List | Call::Stat | Call::Remove);
        match (service.is_rebuilding && call != Call::Session, service.is_hdfs && is_of_objects) {
            (true, _) => Err(Status::unavailable(REBUILDING)),
            (_, true) => Err(Status::failed_precondition(OF_HDFS)),
            (false, false) => Ok(served),
        }
    }

    /// Lets a name through that an object can have, or not: others are refused before a change of
    /// them is written down.
    ///
    /// # Errors
    /// What names are like.
    pub async fn check_object_name(&self, name: &str) -> Result<(), Status> {
        self.judge(name, check_name(name).map_err(Status::invalid_argument)).await
    }

    /// The same of a name that is to be removed.
    ///
    /// # Errors
    /// That no object has a name of that length.
    pub async fn check_length(&self, name: &str) -> Result<(), Status> {
        let is_possible = name.len() <= NAME_BYTES_MAX;
        let missing = || MetadataError::NoSuchObject(name.to_owned()).into();
        self.judge(name, is_possible.then_some(()).ok_or_else(missing)).await
    }

    /// Lets it name that object, or not.
    ///
    /// # Errors
    /// That the name has not the caller's prefix.
    pub async fn check_name(&self, name: &str) -> Result<(), Status> {
        self.judge(name, self.caller.check_name(name)).await
    }

    /// Lets it ask as well what another call does, or not.
    ///
    /// # Errors
    /// That its role may not.
    pub async fn check_also(&self, call: Call, name: &str) -> Result<(), Status> {
        self.judge(name, self.caller.check(call)).await
    }

    /// Lets it join as that node, or not.
    ///
    /// # Errors
    /// That it is another one by its certificate.
    pub async fn check_node(&self, name: &str) -> Result<(), Status> {
        self.judge(name, self.caller.check_node(name)).await
    }

    /// The names that it lists.
    ///
    /// # Errors
    /// That none of them begin as it asks.
    pub async fn listed(&self, prefix: String) -> Result<String, Status> {
        let listed = self.caller.listed(prefix.clone());
        self.judge(&prefix, listed.as_ref().map(drop).map_err(Clone::clone)).await?;
        listed
    }

    /// What distinguishes the caller from others.
    pub fn caller_name(&self) -> String {
        self.caller.name()
    }

    /// Whether the caller is still accepted.
    ///
    /// # Errors
    /// Why it is not.
    pub fn check_still(&self) -> Result<(), Status> {
        self.caller.check_still()
    }

    /// Begins a put of the caller.
    pub fn begin_put(&self) -> RenewablePut {
        self.service.put_callers.enter(self.caller.clone())
    }

    /// Has a put be accepted by the caller's present certificate.
    ///
    /// # Errors
    /// When the put is not one of the caller's.
    pub async fn renew_put(&self, number: u64) -> Result<(), Status> {
        let renewed = self.service.put_callers.renew(number, &self.caller);
        self.judge(&number.to_string(), renewed).await
    }

    /// The parts of an answer, as they are sent to the other end of the channel.
    pub fn guard<T>(&self, parts: Receiver<Result<T, Status>>) -> Guarded<T> {
        let (parts, caller) = (ReceiverStream::new(parts), self.caller.clone());
        Guarded { parts, caller, has_ended: false }
    }

    /// Carries out a change between its two lines of the audit log. The caller may go away
    /// meanwhile: both lines are written all the same.
    ///
    /// # Errors
    /// Those of `work`; and when one of the lines cannot be written.
    pub async fn change<T: Send + 'static>(
        &self,
        what: String,
        work: impl Future<Output = Result<T, Status>> + Send + 'static,
    ) -> Result<T, Status> {
        let served = self.clone();
        let change = tokio::spawn(async move {
            let begun = served.begin(&what).await?;
            let result = work.await;
            let outcome = result.as_ref().map(drop).map_err(Clone::clone);
            served.end(begun, outcome).await?;
            result
        });
        change.await.map_err(|_| Status::internal("the change was not ended"))?
    }

    /// Writes down that a change of `what` is asked for.
    ///
    /// # Errors
    /// When that cannot be written: then nothing is to be changed.
    pub async fn begin(&self, what: &str) -> Result<Option<Begun>, Status> {
        self.begin_as(self.call, what).await
    }

    /// The same, where more is asked for than the call says by itself.
    ///
    /// # Errors
    /// As [`Served::begin`].
    pub async fn begin_as(&self, call: Call, what: &str) -> Result<Option<Begun>, Status> {
        debug_assert!(call.rule().record != Record::No, "only changes are written down");
        if call.changes_status() {
            self.service.kept.forget();
        }
        let Some(audit) = &self.service.audit else { return Ok(None) };
        let begun = audit.begin(&self.caller, call, what).await;
        if let Err(why) = &begun {
            self.service.note_refusal(match why.code() {
                Code::ResourceExhausted => RefusalReason::Failures,
                _ => RefusalReason::Audit,
            });
        }
        begun.map(Some)
    }

    /// Writes down how it went.
    ///
    /// # Errors
    /// When that cannot be written.
    pub async fn end(
        &self,
        begun: Option<Begun>,
        outcome: Result<(), Status>,
    ) -> Result<(), Status> {
        if self.call.changes_status() {
            self.service.kept.forget();
            // Before plans are made of what changed.
            let service = self.service.clone();
            tokio::spawn(async move { drop(service.status_to_keep().await) });
        }
        match (&self.service.audit, begun) {
            (Some(audit), Some(begun)) => audit.end(begun, outcome).await,
            _ => Ok(()),
        }
    }

    /// Counts a refusal, unless what was asked for cannot be, and writes it down, and of what.
    async fn judge(&self, what: &str, verdict: Result<(), Status>) -> Result<(), Status> {
        match verdict.as_ref().map_err(Status::code) {
            Err(Code::Unauthenticated) => self.service.note_refusal(RefusalReason::Certificate),
            Err(Code::PermissionDenied) => self.service.note_refusal(RefusalReason::Permission),
            _ => {}
        }
        if let (Err(why), Some(audit)) = (&verdict, &self.service.audit) {
            audit.refuse(&self.caller, self.call, what, why.message()).await;
        }
        verdict
    }
}
