//! What clients and operators may ask of the coordinator, each answered in one place.
//!
//! Place: around all of failure -> ... -> stripe healthy: what goes in and what is shown.
//! Facts about the stored come from the metadata, facts about now from the driver; a change goes to
//! the metadata first, because a command that is forgotten at the next restart was not carried out.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use suture_repair::coordinator::{Coordinator as Core, Preview};
use suture_repair::event::Command;
use suture_repair::id::{NodeId, StripeId};
use suture_repair::wire::ClusterId;
use tokio::sync::{Mutex, mpsc};
use tonic::Status;

use super::audit::Audit;
use super::kept_status::{KEEP_EVERY, KEEP_EVERY_LONG, KeptStatus, STATUS_TIMEOUT};
use super::proto::RepairAction;
use super::put_budget::PutBudget;
use super::put_renewal::PutCallers;
use super::status::{
    audit_warning, backup_warning, crowded_warning, damage_warning, describe, fault_warning,
    rack_warning, refused_warnings, replaced_warning, set_back_warning, unknown_warning,
};
use super::trust::{NodeAddress, Trust};
use super::{STRIPES_PER_MESSAGE, convert, proto, scrub, throttle};
use crate::coordinator::throttle::Live;
use crate::coordinator::{CoordinatorDriver, Handle};
use crate::hdfs::group::group_id;
use crate::maintenance_window::ThrottleIntent;
use crate::metadata::{Metadata, MetadataError, MetadataStore, Object, ObjectStripe};
use crate::metrics::calls::{PutMemory, RefusalReason};
use crate::metrics::coordinator::CoordinatorMetrics;
use crate::put_key::PutKey;

/// What is answered to a call about an object on a coordinator for HDFS.
pub(super) const OF_HDFS: &str =
    "this coordinator repairs HDFS and keeps no objects: store and read by HDFS's own commands";

/// What is answered to a command to repair on a coordinator that only observes.
const OBSERVES: &str = "this coordinator only observes, and HDFS repairs: set [hdfs] mode to \
                        'repair' in its configuration and restart it";

/// What is answered to all but agents while metadata are made again.
pub(super) const REBUILDING: &str =
    "the metadata are being rebuilt from what the agents hold: try again when that is done";

/// Objects to a message of a listing.
const OBJECTS_PER_MESSAGE: u32 = 1000;

/// What the answers are made of.
pub struct ControlService {
    /// The authoritative map of objects and stripes.
    pub metadata: Metadata,
    /// The driver of the coordinator core.
    pub coordinator: Handle,
    /// Which cluster this is; unknown until the first agent reports it, where the metadata are made
    /// again from nothing.
    cluster: OnceLock<ClusterId>,
    /// Whether the metadata are being made again: then only agents are served.
    pub(super) is_rebuilding: bool,
    /// Whether HDFS keeps the stripes: there are no objects then.
    pub(super) is_hdfs: bool,
    /// Where changes are written down, if anywhere.
    pub(super) audit: Option<Audit>,
    /// How callers are authenticated, where that is reported.
    pub(super) trust: Option<Trust>,
    /// What makes the stamps of puts; agents know them by it.
    pub(super) put_key: PutKey,
    /// What puts may keep here.
    pub(super) puts: Arc<PutBudget>,
    /// Where refusals are counted.
    metrics: Arc<CoordinatorMetrics>,
    /// The last status that was kept.
    pub(super) kept: KeptStatus,
    /// The callers of the puts that are under way, by the puts' numbers.
    pub(super) put_callers: Arc<PutCallers>,
    /// Held while all that is lost is planned for a preview.
    previewing: Mutex<()>,
    /// Held from when it is judged whether data stay readable without some nodes until what was
    /// judged shows, so that not several are let go that together could not be.
    pub(super) judging: Arc<Mutex<()>>,
}

impl ControlService {
    /// A service of a cluster whose metadata are known.
    pub fn new(
        metadata: Metadata,
        coordinator: Handle,
        cluster: ClusterId,
        put_key: PutKey,
    ) -> ControlService {
        let metrics = CoordinatorMetrics::new(None);
        ControlService {
            metadata,
            coordinator,
            cluster: cluster.into(),
            is_rebuilding: false,
            is_hdfs: false,
            audit: None,
            trust: None,
            put_key,
            puts: PutBudget::new(metrics.clone()),
            metrics,
            kept: KeptStatus::default(),
            put_callers: Arc::default(),
            previewing: Mutex::default(),
            judging: Arc::default(),
        }
    }

    /// Whether agents know of more than the metadata, hold chunks of stripes of which these know
    /// nothing, or may.
    ///
    /// # Errors
    /// When the coordinator has ended.
    pub(super) async fn may_be_older(&self) -> Result<bool, Status> {
        let is_set_back = self.metadata.query(|store| store.is_set_back()).await;
        let may_lack = self.query(|driver| driver.core().may_lack_stripes()).await?;
        Ok(!self.is_hdfs && (is_set_back || may_lack))
    }

    /// A service of agents alone, while the metadata are made again.
    pub fn rebuilding(
        metadata: Metadata,
        coordinator: Handle,
        cluster: Option<ClusterId>,
        put_key: PutKey,
    ) -> ControlService {
        let cluster = cluster.map(OnceLock::from).unwrap_or_default();
        let is_rebuilding = true;
        let metrics = CoordinatorMetrics::new(None);
        ControlService {
            metadata,
            coordinator,
            cluster,
            is_rebuilding,
            is_hdfs: false,
            audit: None,
            trust: None,
            put_key,
            puts: PutBudget::new(metrics.clone()),
            metrics,
            kept: KeptStatus::default(),
            put_callers: Arc::default(),
            previewing: Mutex::default(),
            judging: Arc::default(),
        }
    }

    /// The same, of stripes that HDFS keeps.
    pub fn of_hdfs(self) -> ControlService {
        ControlService { is_hdfs: true, ..self }
    }

    /// The same, with changes written down there.
    pub fn with_audit(self, audit: Audit) -> ControlService {
        ControlService { audit: Some(audit), ..self }
    }

    /// The same, with refusals counted there; to be called before the first put.
    pub fn with_metrics(self, metrics: Arc<CoordinatorMetrics>) -> ControlService {
        ControlService { puts: PutBudget::new(metrics.clone()), metrics, ..self }
    }

    /// What puts take of memory now.
    pub fn put_memory(&self) -> PutMemory {
        self.puts.memory()
    }

    /// Counts a connection or a call that is refused.
    pub(super) fn note_refusal(&self, why: RefusalReason) {
        self.metrics.refused(why);
    }

    /// The same, with what `status` says of the authentication of callers.
    pub fn with_trust(self, trust: Trust) -> ControlService {
        ControlService { trust: Some(trust), ..self }
    }

    /// Which cluster this is.
    pub(super) fn cluster(&self) -> ClusterId {
        *self.cluster.get().expect("nobody is served before it is known")
    }

    /// Which cluster this is, once that is known.
    pub(super) fn known_cluster(&self) -> Option<ClusterId> {
        self.cluster.get().copied()
    }

    /// Which cluster this is for an agent of `theirs`.
    ///
    /// # Errors
    /// When that is unknown, and the agent does not know either; when the database fails.
    pub(super) async fn cluster_for(&self, theirs: Option<ClusterId>) -> Result<ClusterId, Status> {
        match (self.cluster.get(), theirs) {
            (Some(cluster), _) => Ok(*cluster),
            (None, Some(theirs)) => {
                let cluster = *self.cluster.get_or_init(|| theirs);
                self.metadata.ask(move |store| store.take_cluster(cluster)).await?;
                Ok(cluster)
            }
            (None, None) => Err(Status::unavailable(REBUILDING)),
        }
    }

    pub(super) async fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(&CoordinatorDriver) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let answer = self.coordinator.query(query).await;
        answer.ok_or_else(|| Status::unavailable("the coordinator is shutting down"))
    }

    /// What an object is, and its first stripes: both of one moment.
    pub(super) async fn lookup_head(
        &self,
        name: &str,
    ) -> Result<(proto::LookupHead, Vec<ObjectStripe>), Status> {
        let (object, first) = self.object(name.to_string()).await?;
        let peers = self.query(CoordinatorDriver::peers).await?;
        let reachable = peers.iter().filter(|peer| peer.address.is_some());
        let nodes = reachable.map(convert::encode_peer).collect();
        let object = Some(convert::encode_object(&object));
        Ok((proto::LookupHead { cluster: self.cluster().0, object, nodes }, first))
    }

    pub(super) async fn lookup_stripes(
        self: Arc<Self>,
        name: String,
        head: proto::LookupHead,
        first: Vec<ObjectStripe>,
        replies: mpsc::Sender<Result<proto::LookupReply, Status>>,
    ) {
        use proto::lookup_reply::Part;
        let reply = |part| proto::LookupReply { part: Some(part) };
        let (mut next, mut page) = (Ok(reply(Part::Head(head))), Ok(first));
        loop {
            let failed = next.is_err();
            if replies.send(next).await.is_err() || failed {
                return;
            }
            next = match page {
                Ok(stripes) => {
                    let Some(last) = stripes.last().map(|entry| entry.stripe.id) else { return };
                    page = self.stripes_after(&name, last).await;
                    let stripes = stripes.iter().map(convert::encode_object_stripe).collect();
                    Ok(reply(Part::Stripes(proto::LookupStripes { stripes })))
                }
                Err(error) => return drop(replies.send(Err(error.into())).await),
            };
        }
    }

    /// An object and its first stripes, both of one moment.
    async fn object(&self, name: String) -> Result<(Object, Vec<ObjectStripe>), MetadataError> {
        let ask = move |store: &mut MetadataStore| {
            let first = store.object_stripes(&name, 0, STRIPES_PER_MESSAGE)?;
            Ok::<_, MetadataError>((store.object(&name)?, first))
        };
        self.metadata.ask(ask).await
    }

    /// The stripes of an object that follow on this one.
    async fn stripes_after(
        &self,
        name: &str,
        last: StripeId,
    ) -> Result<Vec<ObjectStripe>, MetadataError> {
        let name = name.to_string();
        let ask =
            self.metadata.ask(move |store| store.stripes_after(&name, last, STRIPES_PER_MESSAGE));
        ask.await
    }

    pub(super) async fn list_objects(
        self: Arc<Self>,
        prefix: String,
        replies: mpsc::Sender<Result<proto::ListReply, Status>>,
    ) {
        let mut after = String::new();
        loop {
            let (prefix, from) = (prefix.clone(), after);
            let page =
                self.metadata.ask(move |store| store.objects(&prefix, &from, OBJECTS_PER_MESSAGE));
            let reply = match page.await {
                Ok(objects) if objects.is_empty() => return,
                Ok(objects) => {
                    after = objects.last().map(|object| object.name.clone()).unwrap_or_default();
                    let objects = objects.iter().map(convert::encode_object).collect();
                    Ok(proto::ListReply { objects })
                }
                Err(error) => {
                    let _ = replies.send(Err(error.into())).await;
                    return;
                }
            };
            if replies.send(reply).await.is_err() {
                return;
            }
        }
    }

    pub(super) async fn stat(&self, name: String) -> Result<proto::StatReply, Status> {
        let (object, mut page) = self.object(name.clone()).await?;
        let mut reply = proto::StatReply {
            object: Some(convert::encode_object(&object)),
            ..Default::default()
        };
        while let Some(last) = page.last().map(|entry| entry.stripe.id) {
            reply.stripes += page.len() as u64;
            let add = move |driver: &CoordinatorDriver| {
                page.iter().for_each(|entry| count_stripe(&mut reply, entry, driver.core()));
                reply
            };
            reply = self.query(add).await?;
            page = self.stripes_after(&name, last).await?;
        }
        Ok(reply)
    }

    /// How the cluster does.
    ///
    /// # Errors
    /// When the database fails, or the coordinator shuts down.
    pub async fn status(&self) -> Result<proto::StatusReply, Status> {
        Ok(self.status_to_keep().await?.0)
    }

    /// The same, kept for [`Self::status_soon`], so that this gives none of before what a client
    /// has seen; and whether it is short enough for that.
    pub(super) async fn status_to_keep(&self) -> Result<(proto::StatusReply, bool), Status> {
        let (changes, asked) = (self.kept.changes(), Instant::now());
        let status = self.make_status().await?;
        let is_kept = self.kept.keep(changes, asked, &status);
        Ok((status, is_kept))
    }

    async fn make_status(&self) -> Result<proto::StatusReply, Status> {
        let ask = |store: &MetadataStore| {
            let known = (store.intent()?, store.pass()?, store.is_set_back());
            Ok::<_, MetadataError>((known, store.epoch(), store.fault()))
        };
        let ((intent, pass, is_set_back), epoch, fault) = self.metadata.query(ask).await?;
        let (mut reply, blocked) = self.query(describe).await?;
        reply.cluster = self.cluster().to_string();
        reply.epoch = epoch;
        reply.nodes.retain(|node| !intent.removed.contains(&NodeId(node.node)));
        let nodes =
            reply.nodes.iter().map(|node| NodeAddress { name: &node.name, address: &node.address });
        let of_trust =
            self.trust.iter().flat_map(|of| of.warnings(nodes.clone(), SystemTime::now()));
        reply.warnings = of_trust.collect();
        reply.warnings.extend(fault.as_deref().map(fault_warning));
        reply.fault = fault;
        if let Some(audit) = &self.audit {
            reply.warnings.extend(audit.watch().fault().await.as_deref().map(audit_warning));
        }
        reply.warnings.extend(self.metadata.damage().as_deref().map(damage_warning));
        reply.warnings.extend(self.query(CoordinatorDriver::clock_warning).await?);
        let unsaved = self.query(CoordinatorDriver::overdue_backup).await?;
        reply.warnings.extend(unsaved.map(backup_warning));
        reply.warnings.extend(self.query(CoordinatorDriver::scrub_warnings).await?);
        reply.warnings.extend(self.query(CoordinatorDriver::beat_warnings).await?);
        let unknown = |driver: &CoordinatorDriver| {
            throttle::name_warnings(&driver.throttle().config, driver.core().cluster())
        };
        reply.warnings.extend(self.query(unknown).await?);
        reply.warnings.extend(self.query(CoordinatorDriver::hdfs_warnings).await?);
        let copies = self.query(|driver| driver.core().unknown_copies()).await?;
        if copies > 0 && !self.is_hdfs {
            reply.warnings.push(unknown_warning(copies));
        } else if is_set_back && !self.is_hdfs {
            reply.warnings.push(set_back_warning());
        }
        reply.warnings.extend(rack_warning(&reply.nodes));
        // Where HDFS places blocks, no command here can place them otherwise.
        let crowded = Some(&reply.crowded).filter(|_| !self.is_hdfs);
        reply.warnings.extend(crowded.and_then(|racks| crowded_warning(racks)));
        reply.warnings.extend(refused_warnings(&reply.refused));
        reply.warnings.extend(intent.replaced.iter().map(|name| replaced_warning(name)));
        for node in &mut reply.nodes {
            node.failed_by_operator = intent.failed.contains(&NodeId(node.node));
        }
        reply.blocked = self.name_blocked(blocked).await?;
        scrub::complete(&self.metadata, pass, &mut reply).await?;
        Ok(reply)
    }

    /// How the cluster does, or how it did a moment ago where the coordinator is making plans;
    /// never how it did before the last command.
    ///
    /// # Errors
    /// As [`ControlService::status`].
    pub async fn status_soon(&self) -> Result<proto::StatusReply, Status> {
        match tokio::time::timeout(STATUS_TIMEOUT, self.status()).await {
            Ok(status) => status,
            Err(_) => match self.kept.get(Instant::now()) {
                Some(status) => Ok(status),
                None => self.status().await,
            },
        }
    }

    /// Makes a status now and then, to be there while plans are made, until it is dropped.
    pub(super) async fn keep_status(self: Arc<ControlService>) {
        loop {
            let is_kept = match self.status_to_keep().await {
                Ok((_, is_kept)) => is_kept,
                Err(_) => true,
            };
            tokio::time::sleep(if is_kept { KEEP_EVERY } else { KEEP_EVERY_LONG }).await;
        }
    }

    /// Adds to each blocked stripe which object it belongs to.
    async fn name_blocked(
        &self,
        mut blocked: Vec<proto::BlockedStripe>,
    ) -> Result<Vec<proto::BlockedStripe>, Status> {
        let ids: Vec<StripeId> = blocked.iter().map(|entry| StripeId(entry.stripe)).collect();
        let mut names: BTreeMap<StripeId, String> =
            self.metadata.query(move |store| store.names_of(&ids)).await?;
        for entry in &mut blocked {
            entry.object = if self.is_hdfs {
                format!("block group {}", group_id(StripeId(entry.stripe)))
            } else {
                names.remove(&StripeId(entry.stripe)).unwrap_or_default()
            };
        }
        Ok(blocked)
    }

    pub(super) async fn command_repair(&self, command: proto::RepairCommand) -> Result<(), Status> {
        let action = command.action();
        if matches!(action, RepairAction::Start | RepairAction::Resume) {
            let seen = self.query(CoordinatorDriver::hdfs_seen).await?;
            if seen.is_some_and(|seen| seen.observes) {
                return Err(Status::failed_precondition(OBSERVES));
            }
        }
        if let (RepairAction::Start, Some(object)) = (action, command.object) {
            return self.start_object(object).await;
        }
        let (paused, apply) = convert::intended_repairs(action)?;
        self.metadata.ask(move |store| store.set_paused(paused)).await?;
        self.coordinator.apply(apply).await;
        if action == RepairAction::Start {
            self.coordinator.apply(Command::FailSilent).await;
        }
        Ok(())
    }

    /// Repairs the stripes of one object before all others, and what silent nodes hold of them.
    async fn start_object(&self, name: String) -> Result<(), Status> {
        let stripes = self.metadata.ask(move |store| store.stripes_of(&name)).await?;
        for stripe in stripes {
            self.coordinator.apply(Command::RepairNow(stripe)).await;
        }
        Ok(())
    }

    /// Keeps what an operator wants of repairs, or that it is what is configured; then does it.
    pub(super) async fn set_throttle(&self, wanted: Option<ThrottleIntent>) -> Result<(), Status> {
        if let Some(wanted) = wanted.clone() {
            let check = move |driver: &CoordinatorDriver| {
                let before = &driver.throttle().config;
                throttle::check_names(&wanted.config, before, driver.core().cluster())
            };
            self.query(check).await??;
        }
        let kept = wanted.clone();
        self.metadata.ask(move |store| store.set_throttle(kept.as_ref())).await?;
        self.coordinator.throttle(wanted).await;
        Ok(())
    }

    /// Has what is configured anew hold, of what can change while it runs. Whoever asks for a
    /// status from then on is given none of before.
    pub async fn configure(&self, live: Live) {
        self.coordinator.configure(live).await;
        self.kept.forget();
    }

    pub(super) async fn start_scrub(&self) -> Result<proto::ScrubStarted, Status> {
        self.coordinator.apply(Command::Scrub).await;
        let begun = |driver: &CoordinatorDriver| {
            let core = driver.core();
            proto::ScrubStarted {
                passes: core.status().scrub.passes,
                stripes: core.stripes().len() as u64,
            }
        };
        self.query(begun).await
    }

    /// What a repair of all that is lost now would do, or of what is lost of one object; nothing is
    /// changed.
    pub(super) async fn preview(
        &self,
        object: Option<String>,
    ) -> Result<proto::PreviewReply, Status> {
        let _one_at_a_time = self.previewing.lock().await;
        let removed = self.metadata.query(|store| store.intent()).await?.removed;
        let mut preview = match object.clone() {
            None => self.query(|driver| driver.core().preview()).await?,
            Some(name) => {
                let stripes = self.metadata.ask(move |store| store.stripes_of(&name)).await?;
                self.query(move |driver| driver.core().preview_of(&stripes)).await?
            }
        };
        loop {
            let stripes = preview.take_stripes();
            if stripes.is_empty() {
                break;
            }
            let jobs = self.query(move |driver| driver.core().preview_jobs(&stripes)).await?;
            let plan = move || {
                preview.plan(&jobs);
                preview
            };
            let planned = tokio::task::spawn_blocking(plan).await;
            preview = planned.map_err(|error| Status::internal(error.to_string()))?;
        }
        let mut reply = proto::PreviewReply { object, ..preview_reply(&preview, &removed) };
        reply.blocked = self.name_blocked(reply.blocked).await?;
        Ok(reply)
    }
}

fn count_stripe(reply: &mut proto::StatReply, entry: &ObjectStripe, core: &Core) {
    let state = core.stripe_state(&entry.stripe);
    reply.stored_bytes += state.readable_bytes;
    reply.missing_chunks += state.missing as u64;
    reply.degraded_stripes += u64::from(state.missing > 0);
    reply.unreadable_stripes += u64::from(!state.is_readable);
    reply.inconsistent_stripes += u64::from(!state.is_consistent);
}

fn preview_reply(preview: &Preview, removed: &[NodeId]) -> proto::PreviewReply {
    let cluster = preview.cluster();
    let load = cluster.ids().filter(|node| !removed.contains(node)).map(|id| {
        let load = preview.load.node(id);
        proto::NodeLoad {
            name: cluster.node(id).name.clone(),
            up_bytes: load.up_bytes,
            down_bytes: load.down_bytes,
            chunks_rebuilt_here: preview.rebuilt_at[id.index()],
        }
    });
    let refused = preview.refused.iter().map(|(stripe, why)| proto::BlockedStripe {
        stripe: stripe.0,
        object: String::new(),
        why: why.to_string(),
        unrepairable: why.is_beyond_repair(),
        ..Default::default()
    });
    proto::PreviewReply {
        chunks: preview.chunks,
        bytes: preview.bytes,
        moved_bytes: preview.load.moved_bytes(),
        max_load_seconds: preview.max_load_seconds(),
        bound_seconds: preview.bound_seconds(),
        load: load.collect(),
        blocked: refused.collect(),
        object: None,
    }
}

impl From<MetadataError> for Status {
    fn from(error: MetadataError) -> Status {
        let text = error.to_string();
        match error {
            MetadataError::NameTaken(_) => Status::already_exists(text),
            MetadataError::NoSuchObject(_) => Status::not_found(text),
            MetadataError::InvalidPut(_) => Status::invalid_argument(text),
            MetadataError::NodeHolds { .. }
            | MetadataError::OtherStore(_)
            | MetadataError::NewStore(_) => Status::failed_precondition(text),
            // Another time it may be otherwise.
            MetadataError::BeingWritten(_) | MetadataError::PutEnded => Status::aborted(text),
            MetadataError::Damaged(_) => Status::data_loss(text),
            MetadataError::Database(_) | MetadataError::Moved(_) => Status::internal(text),
        }
    }
}
