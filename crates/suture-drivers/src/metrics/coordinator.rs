//! What a coordinator counts and measures: what is at risk, what is repaired, how fast, what fails.
//!
//! Place: beside every step of failure -> ... -> stripe healthy. Counters follow the core's
//! reports; levels are set from its status when monitoring asks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use suture_repair::cluster::NodeIntent;
use suture_repair::coordinator::RepairBound;
use suture_repair::estimate::Estimate;
use suture_repair::event::{Blocked, Health, Report, Status};
use suture_repair::id::{NodeId, RepairId};
use suture_repair::message::DiskState;
use suture_repair::time::Time;

use super::calls::{CallNumbers, PutMemory, RefusalReason};
use super::hdfs::HdfsLevels;
use super::links::LinkLevels;
use super::rates::RateLevels;
use super::scrub::ScrubLevels;
use super::{Exposition, FAILURES, Labels, Level, OfDaemon, Sum, TIMES, begin, fault_name, reason};
use crate::hdfs::view::HdfsSeen;
use crate::identity::credentials::Kept;

/// Margins with a series of their own; stripes with more to spare count as the last.
const MARGINS: usize = 8;

/// Bounds of the buckets of repairs, in seconds.
const REPAIRS: [f64; 12] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0];

/// Why a stripe waits, all values of the label.
const REASONS: [&str; 7] =
    ["unrepairable", "no_plan", "silent_nodes", "no_memory", "claimed", "failing", "disputed"];

/// What else is known when monitoring asks, beside the core's status.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// What the core reports.
    pub status: Status,
    /// Names and racks of the nodes, in the order of the status; an empty rack is none.
    pub nodes: Vec<(String, String)>,
    /// Stripes that there are.
    pub stripes: u64,
    /// How long it takes until all is repaired, if that can be said.
    pub eta: Option<Estimate>,
    /// Rebuilt bytes per second, smoothed.
    pub rate: f64,
    /// How fast the repairs that run could be at best, if that is known.
    pub bound: Option<RepairBound>,
    /// Copies of stripes of which the metadata know nothing.
    pub unknown_copies: u64,
    /// Agents that were refused of late.
    pub refused_agents: usize,
    /// Whether the metadata cannot be changed.
    pub is_unwritable: bool,
    /// Whether the audit log takes no line, so that changes are refused.
    pub is_audit_unwritable: bool,
    /// How long ago an agent last kept a backup of the metadata, or this coordinator began.
    pub backup_age: Duration,
    /// How often a scrub begins, unless only operators begin one.
    pub scrub_period: Option<Duration>,
    /// What one takes at least, if it has a rate.
    pub scrub_least: Option<Duration>,
    /// How long ago one last came to its end, where that is to be known.
    pub scrub_age: Option<Duration>,
    /// How HDFS stands, where it keeps the stripes.
    pub hdfs: Option<HdfsSeen>,
    /// What puts take of memory.
    pub puts: PutMemory,
}

/// The numbers of one coordinator's process, shared by all that change them.
#[derive(Debug)]
pub struct CoordinatorMetrics {
    of_daemon: OfDaemon,
    counted: Counted,
    levels: Levels,
    calls: CallNumbers,
    course: Mutex<Course>,
    credentials: Option<Arc<Kept>>,
}

/// The numbers that only grow.
#[derive(Debug)]
struct Counted {
    started: Counter,
    replaced: Counter,
    dispatched_bytes: Counter,
    replacing_bytes: Counter,
    rebuilt_chunks: Counter,
    rebuilt_bytes: Counter,
    failures: Family<Labels, Counter>,
    lost: Family<Labels, Counter>,
    planned: Counter,
    planned_seconds: Sum,
    repairing_seconds: Sum,
    repair_seconds: Histogram,
    commit_seconds: Histogram,
    passes: Counter,
}

/// The numbers that go up and down.
#[derive(Debug)]
struct Levels {
    at_risk: Family<Labels, Level>,
    blocked: Family<Labels, Level>,
    nodes: Family<Labels, Level>,
    disks: Family<Labels, Level>,
    node_up: Family<Labels, Level>,
    node_free: Family<Labels, Level>,
    node_chunks: Family<Labels, Level>,
    node_wanted: Family<Labels, Level>,
    links: LinkLevels,
    stripes: Level,
    degraded: Level,
    unreadable: Level,
    crowded: Level,
    queued: Level,
    running: Level,
    paused: Level,
    window_closed: Level,
    lost_chunks: Level,
    lost_bytes: Level,
    stuck_bytes: Level,
    eta: Family<Labels, Level>,
    rates: RateLevels,
    scrub: ScrubLevels,
    hdfs: HdfsLevels,
    unknown_copies: Level,
    refused_agents: Level,
    unwritable: Level,
    audit_unwritable: Level,
    backup_age: Level,
}

/// What is needed to know how long things took.
#[derive(Debug, Default)]
struct Course {
    began: BTreeMap<RepairId, Time>,
    /// What was dispatched last, and what its plan moves.
    dispatched: Option<(RepairId, u64)>,
    measured_at: Option<Time>,
}

impl Seen {
    /// Leaves out the nodes that an operator has removed.
    pub fn forget(&mut self, removed: &[NodeId]) {
        let is_kept: Vec<bool> =
            self.status.nodes.iter().map(|node| !removed.contains(&node.node)).collect();
        let (mut of_status, mut of_names) = (is_kept.iter(), is_kept.iter());
        self.status.nodes.retain(|_| of_status.next().is_some_and(|kept| *kept));
        self.nodes.retain(|_| of_names.next().is_some_and(|kept| *kept));
    }
}

impl CoordinatorMetrics {
    /// Nothing counted yet, of a coordinator with these credentials.
    pub fn new(credentials: Option<Arc<Kept>>) -> Arc<CoordinatorMetrics> {
        let mut of_daemon = OfDaemon::new("coordinator");
        let (counted, levels) = (Counted::new(&mut of_daemon), Levels::new(&mut of_daemon));
        let calls = CallNumbers::new(&mut of_daemon);
        let course = Mutex::default();
        Arc::new(CoordinatorMetrics { of_daemon, counted, levels, calls, course, credentials })
    }

    /// Counts what a report says.
    pub fn note(&self, now: Time, report: &Report) {
        let counted = &self.counted;
        let mut course = self.course.lock().unwrap_or_else(PoisonError::into_inner);
        match report {
            Report::Node { health: Health::Failed, chunks, .. } => {
                counted.lost.get_or_create(&vec![("fault", "node".into())]).inc_by(*chunks);
            }
            Report::ChunkLost { fault, .. } => {
                counted.lost.get_or_create(&vec![("fault", fault_name(*fault).into())]).inc();
            }
            Report::Planned { repairs, max_load_seconds } => {
                counted.planned.inc_by(*repairs as u64);
                counted.planned_seconds.inc_by(*max_load_seconds);
            }
            Report::Started { repair, plan } => {
                let edges = plan.lanes.iter().flat_map(|lane| &lane.edges);
                let bytes: u64 = edges.map(|edge| edge.bytes).sum();
                counted.started.inc();
                counted.dispatched_bytes.inc_by(bytes);
                course.dispatched = Some((*repair, bytes));
                course.began.entry(*repair).or_insert(now);
            }
            Report::Replaced { repair, by, .. } => {
                counted.replaced.inc();
                // It was dispatched just before.
                let dispatched = course.dispatched.take().filter(|(repair, _)| repair == by);
                counted.replacing_bytes.inc_by(dispatched.map_or(0, |(_, bytes)| bytes));
                let began = course.began.remove(repair).unwrap_or(now);
                course.began.insert(*by, began);
            }
            Report::Committed { repair, bytes, .. } => {
                counted.rebuilt_chunks.inc();
                counted.rebuilt_bytes.inc_by(*bytes);
                if let Some(began) = course.began.remove(repair) {
                    counted.repair_seconds.observe(now.since(began).as_secs_f64());
                }
            }
            Report::Failed { repair, why, .. } => {
                course.began.remove(repair);
                counted.failures.get_or_create(&vec![("reason", reason(why).into())]).inc();
            }
            Report::PassEnded { .. } => drop(counted.passes.inc()),
            _ => {}
        }
    }

    /// A connection or a call was refused.
    pub fn refused(&self, why: RefusalReason) {
        self.calls.refused(why);
    }

    /// A location was made durable so long after it was asked for.
    pub fn committed_after(&self, waited: Duration) {
        self.counted.commit_seconds.observe(waited.as_secs_f64());
    }

    /// Time went on, and repairs ran in it or did not.
    pub fn measure(&self, now: Time, status: &Status) {
        let mut course = self.course.lock().unwrap_or_else(PoisonError::into_inner);
        let before = course.measured_at.replace(now).unwrap_or(now);
        if status.running.is_empty() {
            // Those that an operator gave up say nothing.
            course.began.clear();
        } else {
            self.counted.repairing_seconds.inc_by(now.since(before).as_secs_f64());
        }
    }

    /// All of it, with levels as they were seen.
    pub fn write(&self, seen: &Seen) -> Exposition {
        self.levels.set(seen);
        self.calls.set(seen.puts);
        self.of_daemon.note_certificates(self.credentials.as_deref());
        self.of_daemon.write()
    }
}

impl Counted {
    fn new(of: &mut OfDaemon) -> Counted {
        let commits = Histogram::new(TIMES);
        let help = "How long a rebuilt chunk's location took to be durable, once it was asked for";
        of.add("suture_commit_seconds", help, commits.clone());
        let repairs = Histogram::new(REPAIRS);
        let help = "How long repairs took, from dispatch to the commit of their first chunk";
        of.add("suture_repair_seconds", help, repairs.clone());
        let failures = of.new_one("suture_repair_failures", "Repairs that failed, by reason");
        begin(&failures, "reason", &FAILURES);
        let lost =
            of.new_one("suture_lost_chunks_found", "Chunks that were lost, by what is wrong");
        begin(&lost, "fault", &["node", "missing", "corrupt", "unreadable"]);
        Counted {
            failures,
            lost,
            started: of.new_one("suture_repairs_started", "Repairs that were dispatched"),
            replaced: of.new_one(
                "suture_repairs_replaced",
                "Repairs that went on by another plan, without a node that was lost or slow",
            ),
            dispatched_bytes: of.new_one(
                "suture_dispatched_bytes",
                "What the plans of dispatched repairs move between nodes, as a whole",
            ),
            replacing_bytes: of.new_one(
                "suture_replacing_bytes",
                "Those of the dispatched bytes by which repairs that had begun went on",
            ),
            rebuilt_chunks: of.new_one("suture_rebuilt_chunks", "Chunks that were rebuilt"),
            rebuilt_bytes: of.new_one("suture_rebuilt_bytes", "Bytes of rebuilt chunks"),
            planned: of.new_one("suture_planned_repairs", "Repairs that were planned"),
            planned_seconds: of.new_one(
                "suture_planned_seconds",
                "What the busiest link or disk needs for all batches that were planned",
            ),
            repairing_seconds: of
                .new_one("suture_repairing_seconds", "Time in which some repair ran"),
            passes: of.new_one("suture_scrub_passes", "Scrubs that came to their end"),
            repair_seconds: repairs,
            commit_seconds: commits,
        }
    }
}

impl Levels {
    fn new(of: &mut OfDaemon) -> Levels {
        Levels {
            at_risk: of.new_one(
                "suture_stripes_at_risk",
                "Stripes with lost chunks, by how many more they can lose (8: that or more)",
            ),
            blocked: of.new_one("suture_stripes_blocked", "Stripes that wait, by what for"),
            nodes: of.new_one("suture_nodes", "Nodes by health"),
            disks: of.new_one("suture_disks", "Nodes by how their disks are"),
            node_up: of.new_one("suture_node_up", "Whether the node is used"),
            node_free: of.new_one("suture_node_free_bytes", "What is free on the node's disk"),
            node_chunks: of.new_one("suture_node_chunks", "Chunks that the node should hold"),
            node_wanted: of.new_one(
                "suture_node_wanted",
                "Whether the node is to be used: nobody declared it failed, drains or paused it",
            ),
            links: LinkLevels::new(of),
            stripes: of.new_one("suture_stripes", "Stripes that there are"),
            degraded: of.new_one("suture_stripes_degraded", "Stripes that lack a chunk now"),
            unreadable: of.new_one("suture_stripes_unreadable", "Stripes that cannot be read now"),
            crowded: of.new_one(
                "suture_stripes_crowded",
                "Stripes that could not be read without a single rack, though nothing is lost",
            ),
            queued: of.new_one("suture_stripes_queued", "Stripes that wait for their repair"),
            running: of.new_one("suture_repairs_running", "Chunks that are being rebuilt"),
            paused: of.new_one("suture_repairs_paused", "Whether no repair is begun"),
            window_closed: of.new_one(
                "suture_repair_window_closed",
                "Whether only stripes without margin are repaired, until the window opens",
            ),
            lost_chunks: of.new_one("suture_lost_chunks", "Lost chunks that can be repaired"),
            lost_bytes: of
                .new_one("suture_lost_bytes", "Bytes of lost chunks that can be repaired"),
            stuck_bytes: of.new_one(
                "suture_stuck_bytes",
                "Those of the lost bytes whose repair cannot begin until something changes",
            ),
            eta: of.new_one(
                "suture_repair_eta_seconds",
                "Estimated time left; absent while there is no estimate",
            ),
            rates: RateLevels::new(of),
            scrub: ScrubLevels::new(of),
            hdfs: HdfsLevels::new(of),
            unknown_copies: of.new_one(
                "suture_unknown_chunks",
                "Chunks on agents of which the metadata know nothing",
            ),
            refused_agents: of.new_one(
                "suture_refused_agents",
                "Agents that were refused in the last ten minutes and not let in since",
            ),
            unwritable: of.new_one(
                "suture_metadata_unwritable",
                "Whether the metadata cannot be changed, or soon cannot: storing and repairing fail",
            ),
            audit_unwritable: of.new_one(
                "suture_audit_unwritable",
                "Whether the audit log cannot be written, so that changes are refused",
            ),
            backup_age: of.new_one(
                "suture_backup_age_seconds",
                "Since an agent last kept a backup of the metadata, or this coordinator began",
            ),
        }
    }

    fn set(&self, seen: &Seen) {
        let status = &seen.status;
        self.set_risk(status);
        self.set_nodes(seen);
        self.stripes.set(seen.stripes as f64);
        self.degraded.set(status.degraded as f64);
        self.unreadable.set(status.unreadable as f64);
        self.crowded.set(status.crowded.iter().map(|(_, stripes)| *stripes as f64).sum());
        self.queued.set(status.queued as f64);
        self.running.set(status.running.len() as f64);
        self.paused.set(f64::from(u8::from(status.paused)));
        self.lost_chunks.set(status.lost_chunks as f64);
        self.lost_bytes.set(status.lost_bytes as f64);
        self.stuck_bytes.set(status.stuck_bytes as f64);
        self.window_closed.set(f64::from(u8::from(status.throttle.closed_for.is_some())));
        self.unknown_copies.set(seen.unknown_copies as f64);
        self.refused_agents.set(seen.refused_agents as f64);
        self.unwritable.set(f64::from(u8::from(seen.is_unwritable)));
        self.audit_unwritable.set(f64::from(u8::from(seen.is_audit_unwritable)));
        self.backup_age.set(seen.backup_age.as_secs_f64());
        self.eta.clear();
        if let Some(Estimate { seconds, low, high }) = seen.eta {
            for (bound, value) in [("best", seconds), ("low", low), ("high", high)] {
                self.eta.get_or_create(&vec![("bound", bound.into())]).set(value);
            }
        }
        self.rates.set(seen.rate, seen.bound);
        let times = [seen.scrub_period, seen.scrub_least, seen.scrub_age];
        self.scrub.set(&status.scrub, times);
        self.hdfs.set(seen.hdfs.as_ref());
    }

    fn set_risk(&self, status: &Status) {
        let mut at_risk = [0; MARGINS + 1];
        for (margin, stripes) in status.at_risk.iter().enumerate() {
            at_risk[margin.min(MARGINS)] += stripes;
        }
        // Those of which too little is left are counted as unreadable.
        at_risk[0] = at_risk[0].saturating_sub(status.beyond);
        for (margin, stripes) in at_risk.into_iter().enumerate() {
            let labels = vec![("margin", margin.to_string().into())];
            self.at_risk.get_or_create(&labels).set(stripes as f64);
        }
        let mut blocked = [0u64; REASONS.len()];
        status.blocked.iter().for_each(|(_, why)| blocked[reason_index(why)] += 1);
        for (reason, stripes) in REASONS.into_iter().zip(blocked) {
            self.blocked.get_or_create(&vec![("reason", reason.into())]).set(stripes as f64);
        }
    }

    fn set_nodes(&self, seen: &Seen) {
        let nodes = &seen.status.nodes;
        for health in [Health::Unknown, Health::Up, Health::Suspect, Health::Failed] {
            let count = nodes.iter().filter(|node| node.health == health).count();
            let labels = vec![("health", health.to_string().into())];
            self.nodes.get_or_create(&labels).set(count as f64);
        }
        let states = [DiskState::Good, DiskState::ReadOnly, DiskState::Failing, DiskState::Hanging];
        for state in states {
            let count = nodes.iter().filter(|node| node.disk == state).count();
            let labels = vec![("state", state.to_string().into())];
            self.disks.get_or_create(&labels).set(count as f64);
        }
        let of_nodes = [&self.node_up, &self.node_free, &self.node_chunks, &self.node_wanted];
        // Racks change, and nodes go.
        of_nodes.iter().for_each(|levels| levels.clear());
        self.links.clear();
        for (node, (name, rack)) in nodes.iter().zip(&seen.nodes) {
            let labels = vec![("node", name.clone().into()), ("rack", rack.clone().into())];
            let is_up = f64::from(u8::from(node.health == Health::Up));
            let is_wanted = f64::from(u8::from(node.intent == NodeIntent::Serving));
            let values = [is_up, node.free_bytes as f64, node.chunks as f64, is_wanted];
            for (levels, value) in of_nodes.iter().zip(values) {
                levels.get_or_create(&labels).set(value);
            }
            self.links.set(&labels, node);
        }
    }
}

/// The place of a reason in [`REASONS`].
fn reason_index(why: &Blocked) -> usize {
    match why {
        why if why.is_unrepairable() => 0,
        Blocked::Plan(_) => 1,
        Blocked::Silent { .. } => 2,
        Blocked::Pool { .. } => 3,
        Blocked::Claimed => 4,
        Blocked::Failing { .. } => 5,
        Blocked::Disputed { .. } => 6,
    }
}

#[cfg(test)]
mod tests {
    use suture_repair::event::{LinkStatus, NodeStatus};
    use suture_repair::id::{ChunkCopy, ChunkIndex, RackId, Stamp, StripeId};
    use suture_repair::message::Failure;
    use suture_repair::throttle::{Limited, NodeLimits, Reason};
    use suture_repair::time::Span;

    use super::*;
    use crate::hdfs::view::HdfsView;

    fn text(metrics: &CoordinatorMetrics, seen: &Seen) -> String {
        String::from_utf8(metrics.write(seen).classic.to_vec()).unwrap()
    }

    #[track_caller]
    fn assert_has(text: &str, line: &str) {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }

    #[test]
    fn reports_are_counted_and_times_measured() {
        let metrics = CoordinatorMetrics::new(None);
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        let (repair, by) = (RepairId(1), RepairId(2));
        let plan = suture_repair::plan::Plan {
            stripe: StripeId(1),
            lost: Vec::new(),
            destinations: Default::default(),
            start: suture_repair::plan::Start::Now,
            range: suture_repair::plan::Range { from: 0, to: 64 },
            period: None,
            lanes: Vec::new(),
        };
        metrics.note(at(1), &Report::Started { repair, plan });
        let without = vec![NodeId(1)];
        metrics.note(at(2), &Report::Replaced { repair, by, without });
        let copy = ChunkCopy { stripe: StripeId(1), chunk: ChunkIndex(0), stamp: Stamp(1) };
        let committed = Report::Committed { repair: by, copy, node: NodeId(0), bytes: 64 };
        metrics.note(at(3), &committed);
        let why = Failure::Stalled;
        metrics.note(at(3), &Report::Failed { repair: RepairId(3), node: None, why });
        metrics.note(at(3), &Report::Planned { repairs: 2, max_load_seconds: 1.5 });
        let text = text(&metrics, &Seen::default());
        assert_has(&text, "suture_rebuilt_bytes_total 64");
        assert_has(&text, "suture_repair_seconds_sum 2.0");
        assert_has(&text, "suture_repairs_replaced_total 1");
        assert_has(&text, "suture_repair_failures_total{reason=\"stalled\"} 1");
        assert_has(&text, "suture_planned_seconds_total 1.5");
    }

    #[test]
    fn what_plans_move_counts_as_dispatched_and_once_more_where_they_replace_others() {
        use suture_repair::plan::{Carries, Edge, Lane, Mode, Plan, Range, Start};
        let plan = |bytes| {
            let (child, parent) = (NodeId(1), NodeId(2));
            let edge = Edge { child, parent, bytes, carries: Carries::Partial };
            let range = Range { from: 0, to: 64 };
            let lane = Lane {
                range,
                lost: vec![ChunkIndex(0)],
                mode: Mode::Streamed,
                decoder: None,
                scheme: None,
                edges: vec![edge.clone(), edge],
            };
            Plan {
                stripe: StripeId(1),
                lost: vec![ChunkIndex(0)],
                destinations: Default::default(),
                start: Start::Now,
                range,
                period: None,
                lanes: vec![lane],
            }
        };
        let metrics = CoordinatorMetrics::new(None);
        let note = |report| metrics.note(Time::ZERO, &report);
        let (repair, by) = (RepairId(1), RepairId(2));
        note(Report::Started { repair, plan: plan(64) });
        note(Report::Started { repair: by, plan: plan(10) });
        note(Report::Replaced { repair, by, without: vec![NodeId(1)] });
        // Of this one nothing is known.
        note(Report::Replaced { repair: by, by: RepairId(3), without: Vec::new() });
        let text = text(&metrics, &Seen::default());
        assert_has(&text, "suture_dispatched_bytes_total 148");
        assert_has(&text, "suture_replacing_bytes_total 20");
    }

    #[test]
    fn levels_are_those_of_the_status_and_what_is_unknown_is_absent() {
        let metrics = CoordinatorMetrics::new(None);
        let eta = Estimate { seconds: 7.0, low: 6.0, high: 9.5 };
        let mut seen = Seen { eta: Some(eta), ..Seen::default() };
        seen.status.at_risk = vec![3, 0, 1];
        seen.status.at_risk.resize(20, 1);
        seen.status.nodes = vec![NodeStatus {
            node: NodeId(0),
            health: Health::Suspect,
            intent: NodeIntent::Serving,
            free_bytes: 5,
            disk: DiskState::Hanging,
            is_cut_off: false,
            chunks: 2,
            limits: NodeLimits { up: Some(Limited { limit: 7, reason: Reason::Node }), down: None },
            links: [
                LinkStatus { capacity: 900, uncertainty: Some(30), ..LinkStatus::default() },
                LinkStatus { capacity: 800, ..LinkStatus::default() },
            ],
        }];
        (seen.status.beyond, seen.is_audit_unwritable) = (1, true);
        (seen.status.stuck_bytes, seen.status.throttle.closed_for) = (9, Some(Span::ZERO));
        (seen.scrub_period, seen.scrub_age) = (Some(Duration::from_secs(60)), Some(Duration::ZERO));
        (seen.status.scrub.left_out, seen.status.scrub.found) = (4, 1);
        seen.status.crowded = vec![(RackId(0), 2), (RackId(3), 5)];
        (seen.rate, seen.bound) = (300.0, Some(RepairBound { seconds: 2.5, bytes: 1000 }));
        seen.nodes = vec![("n\"1".into(), "r1".into())];
        let before = text(&metrics, &seen);
        assert_has(&before, "suture_stripes_at_risk{margin=\"0\"} 2.0");
        assert_has(&before, "suture_stuck_bytes 9.0");
        assert_has(&before, "suture_repair_window_closed 1.0");
        assert_has(&before, "suture_node_wanted{node=\"n\\\"1\",rack=\"r1\"} 1.0");
        let limit = "suture_node_repair_limit_bytes_per_second";
        let labels = "node=\"n\\\"1\",rack=\"r1\",direction=\"up\",reason=\"node\"";
        assert_has(&before, &format!("{limit}{{{labels}}} 7.0"));
        let link = |name: &str, direction: &str, value: &str| {
            let labels = format!("node=\"n\\\"1\",rack=\"r1\",direction=\"{direction}\"");
            format!("suture_node_link_{name}bytes_per_second{{{labels}}}{value}")
        };
        assert_has(&before, &link("", "up", " 900.0"));
        assert_has(&before, &link("", "down", " 800.0"));
        assert_has(&before, &link("uncertainty_", "up", " 30.0"));
        assert!(!before.contains(&link("uncertainty_", "down", "")), "{before}");
        assert_has(&before, "suture_stripes_at_risk{margin=\"8\"} 12.0");
        assert_has(&before, "suture_node_free_bytes{node=\"n\\\"1\",rack=\"r1\"} 5.0");
        assert_has(&before, "suture_nodes{health=\"suspect\"} 1.0");
        assert_has(&before, "suture_disks{state=\"hanging\"} 1.0");
        assert_has(&before, "suture_disks{state=\"good\"} 0.0");
        assert_has(&before, "suture_stripes_blocked{reason=\"silent_nodes\"} 0.0");
        assert_has(&before, "suture_repair_eta_seconds{bound=\"best\"} 7.0");
        assert_has(&before, "suture_repair_eta_seconds{bound=\"high\"} 9.5");
        assert_has(&before, "suture_repair_bytes_per_second 300.0");
        assert_has(&before, "suture_repair_bound_seconds 2.5");
        assert_has(&before, "suture_repair_bound_bytes_per_second 400.0");
        assert_has(&before, "suture_audit_unwritable 1.0");
        assert_has(&before, "suture_scrub_left_out_chunks 4.0");
        assert_has(&before, "suture_stripes_crowded 7.0");
        assert_has(&before, "suture_scrub_bad_chunks 1.0");
        assert_has(&before, "suture_scrub_period_seconds 60.0");
        assert_has(&before, "suture_scrub_age_seconds 0.0");
        assert!(!before.contains("\nsuture_scrub_least_seconds"), "{before}");
        (seen.scrub_period, seen.scrub_age) = (None, None);
        (seen.eta, seen.bound) = (None, None);
        seen.nodes[0].1 = "r2".into();
        let after = text(&metrics, &seen);
        assert!(!after.contains("\nsuture_repair_eta_seconds{"), "{after}");
        assert!(!after.contains("\nsuture_repair_bound_"), "{after}");
        assert!(!after.contains("\nsuture_scrub_age_seconds"), "{after}");
        assert!(!after.contains("r1"), "{after}");
    }

    #[test]
    fn hdfs_has_series_only_where_it_keeps_the_stripes() {
        let metrics = CoordinatorMetrics::new(None);
        let without = text(&metrics, &Seen::default());
        assert!(!without.contains("\nsuture_hdfs_"), "{without}");
        let view = HdfsView::new(false);
        let mut seen = Seen { hdfs: Some(view.seen()), ..Seen::default() };
        let before = text(&metrics, &seen);
        for name in ["connected", "lease", "observes", "namenodes", "groups", "left_groups"] {
            assert_has(&before, &format!("suture_hdfs_{name} 0.0"));
        }
        let mut hdfs = view.seen();
        (hdfs.observes, hdfs.namenodes, hdfs.groups, hdfs.left) = (true, 2, 5, 3);
        seen.hdfs = Some(hdfs);
        let after = text(&metrics, &seen);
        assert_has(&after, "suture_hdfs_connected 0.0");
        let of = [("observes", 1), ("namenodes", 2), ("groups", 5), ("left_groups", 3)];
        for (name, value) in of {
            assert_has(&after, &format!("suture_hdfs_{name} {value}.0"));
        }
    }
}
