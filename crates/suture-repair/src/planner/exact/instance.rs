//! A batch as the exact planners see it: what is asked, what it needs, and ports in parts of a
//! chunk.
//!
//! Place: the first step of `[plan]` by an exact planner. Every request goes with what its lost
//! chunks need at least (`need.rs`). Foreground traffic is taken off links; what already runs is a
//! base that every port has to move first. A link without any capacity stays a number, so that it
//! can be the last resort. Of a processor flows see that no port of its node passes more than it
//! could work on if it did nothing else, which is less than it asks; prices see all of it.

use std::ops::Deref;

use crate::id::{ChunkIndex, NodeId};
use crate::max_flow::{Supply, seconds_to_ship};
use crate::need::{Needs, Part};
use crate::plan::Plan;
use crate::plan::load::{Load, Port};
use crate::planner::ports::{PortIndex, PortWork, Ports};
use crate::planner::request::{Holder, Request, read_all};
use crate::planner::{Job, PlanError, View};

/// Units of the longest chunk. A power of two, so that halves of halves are whole.
pub(in crate::planner) const CHUNK_UNITS: u32 = 1 << 20;

/// A request and the name of what its lost chunks need.
#[derive(Debug)]
pub(in crate::planner) struct ExactRequest<'a> {
    request: Request<'a>,
    pub need: usize,
    /// The names of what each of several lost chunks needs by itself, where trees of their own may
    /// be better: where racks have links, and chunks are sums of whole ones.
    apart: Vec<usize>,
    /// The same of each two of them, where these are three or more.
    pairs: Vec<([ChunkIndex; 2], usize)>,
}

impl<'a> Deref for ExactRequest<'a> {
    type Target = Request<'a>;

    fn deref(&self) -> &Request<'a> {
        &self.request
    }
}

/// A batch and the cluster that serves it.
pub(in crate::planner) struct Instance<'a> {
    /// The jobs that can be planned, in their order.
    pub requests: Vec<ExactRequest<'a>>,
    /// The jobs that cannot be planned, by index, ascending, each with the reason.
    pub refused: Vec<(usize, PlanError)>,
    pub view: &'a View<'a>,
    pub ports: Ports,
    /// Bytes of a unit.
    pub unit_bytes: f64,
    needs: Needs,
}

impl<'a> Instance<'a> {
    pub fn new(jobs: &'a [Job], view: &'a View<'a>) -> Instance<'a> {
        Instance::of_those(jobs, view, |_| Ok(()))
    }

    /// The instance of a batch without the jobs that `check` refuses.
    pub fn of_those(
        jobs: &'a [Job],
        view: &'a View<'a>,
        check: impl Fn(&Job) -> Result<(), PlanError>,
    ) -> Instance<'a> {
        let mut needs = Needs::default();
        let (requests, refused) = read_all(jobs, |job| {
            check(job)?;
            request(job, view, &mut needs)
        });
        let longest = requests.iter().map(|request| request.job.chunk_bytes).max();
        let unit_bytes = longest.unwrap_or(1).max(1) as f64 / f64::from(CHUNK_UNITS);
        Instance { requests, refused, view, ports: Ports::new(view), unit_bytes, needs }
    }

    /// What a request needs at least.
    pub fn parts(&self, request: &ExactRequest<'_>) -> &[Part] {
        &self.needs.get(request.need).parts
    }

    /// What a lost chunk needs by itself, where a tree of its own may be better.
    pub fn apart(&self, request: &ExactRequest<'_>, lost: ChunkIndex) -> Option<&Part> {
        let at = request.lost.iter().position(|other| *other == lost)?;
        self.needs.get(*request.apart.get(at)?).parts.first()
    }

    /// What two lost chunks need together, where that is one part, and a tree for another lost
    /// chunk of the stripe may be better.
    pub fn pair(&self, request: &ExactRequest<'_>, lost: [ChunkIndex; 2]) -> Option<&Part> {
        let (_, need) = request.pairs.iter().find(|(pair, _)| *pair == lost)?;
        match &self.needs.get(*need).parts[..] {
            [part] => Some(part),
            _ => None,
        }
    }

    /// Units of a job's chunk; at least one for each sub-chunk.
    pub fn units(&self, request: &ExactRequest<'_>) -> u32 {
        let units = (request.job.chunk_bytes as f64 / self.unit_bytes).round() as u32;
        units.max(request.job.code.sub_chunk_count())
    }

    /// Seconds for a unit; nothing at a port that is not modelled.
    pub fn seconds_per_unit(&self, port: PortIndex) -> f64 {
        1.0 / self.units_per_second(port)
    }

    fn units_per_second(&self, port: PortIndex) -> f64 {
        self.ports.rate(port) / self.unit_bytes
    }

    /// What the processor behind a port can work on in a second, if it does nothing else.
    fn units_worked_on(&self, port: PortIndex) -> f64 {
        let of = self.ports.work(port);
        of.map_or(f64::INFINITY, |PortWork { processor, work }| {
            self.units_per_second(processor) / work
        })
    }

    fn supply(&self, ports: [PortIndex; 2]) -> Supply {
        Supply {
            rates: ports.map(|port| self.units_per_second(port).min(self.units_worked_on(port))),
            bases: ports.map(|port| self.ports.running()[port] as f64 / self.unit_bytes),
        }
    }

    /// The uplink and what the disk reads, with what already runs.
    pub fn sending(&self, node: NodeId) -> Supply {
        self.supply([self.ports.up(node.0), self.ports.read(node.0)])
    }

    /// The uplink alone, with what already runs.
    pub fn link_up(&self, node: NodeId) -> Supply {
        let Supply { rates, bases } = self.sending(node);
        Supply { rates: [rates[0], f64::INFINITY], bases: [bases[0], 0.0] }
    }

    /// The downlink, and what the disk writes, with what already runs.
    pub fn receiving(&self, node: NodeId) -> Supply {
        self.supply([self.ports.down(node.0), self.ports.write(node.0)])
    }

    /// The downlink alone, with what already runs.
    pub fn link_down(&self, node: NodeId) -> Supply {
        let Supply { rates, bases } = self.receiving(node);
        Supply { rates: [rates[0], f64::INFINITY], bases: [bases[0], 0.0] }
    }

    /// Units that whole chunks, or what codes ask for of them, bring to links at least.
    pub fn moved_units(&self) -> f64 {
        let of = |request: &ExactRequest<'_>| {
            let alpha = f64::from(request.job.code.sub_chunk_count());
            let sub_chunks: u64 = self.parts(request).iter().map(|part| part.sent()).sum();
            sub_chunks as f64 / alpha * f64::from(self.units(request))
        };
        self.requests.iter().map(of).sum()
    }

    /// No plans of whole chunks are done earlier: all uplinks, and all downlinks, work together
    /// until everything is moved.
    pub fn least_seconds(&self) -> f64 {
        let nodes = || self.view.cluster.ids();
        let up: Vec<Supply> = nodes().map(|node| self.sending(node)).collect();
        let down: Vec<Supply> = nodes().map(|node| self.link_down(node)).collect();
        let moved = self.moved_units();
        seconds_to_ship(&up, moved).max(seconds_to_ship(&down, moved))
    }

    /// Whether a processor is the limit of the plans of all requests: it sends and receives, which
    /// flows see apart.
    pub fn is_held_by_processor(&self, plans: &[Plan]) -> bool {
        if !self.ports.have_processors() {
            return false;
        }
        let (cluster, load) = (self.view.cluster, self.load(plans));
        let busiest = load.ports(cluster).max_by(|a, b| a.seconds.total_cmp(&b.seconds));
        busiest.is_some_and(|busiest| matches!(busiest.port, Port::Processor(_)))
    }

    /// What the plans of all requests bring to ports on top of what already runs.
    fn load(&self, plans: &[Plan]) -> Load {
        let mut load = self.view.load.clone();
        let facts = self.requests.iter().map(|request| request.job.facts());
        load.add_all(self.view.cluster, plans.iter().zip(facts));
        load
    }

    /// How long the busiest port needs for the plans of all requests and for what already runs.
    /// Where only links of nodes are modelled, edges say it all.
    pub fn peak_seconds(&self, plans: &[Plan]) -> f64 {
        if self.ports.have_racks() || self.ports.have_disks() {
            return self.load(plans).max_seconds(self.view.cluster);
        }
        let mut bytes = self.ports.running().to_vec();
        for edge in plans.iter().flat_map(|plan| &plan.lanes).flat_map(|lane| &lane.edges) {
            bytes[self.ports.up(edge.child.0)] += edge.bytes;
            bytes[self.ports.down(edge.parent.0)] += edge.bytes;
        }
        self.ports.busiest_seconds(&bytes)
    }
}

/// The most requests of which it is asked how else they may be served than at the least cost.
pub(in crate::planner) const AROUND_MAX: usize = 1 << 15;

/// What lost chunks need where they are not rebuilt by the cheapest option.
pub(in crate::planner) struct AroundNeeds {
    needs: Needs,
    /// By request and part the names of other needs (`Needs::find_around`).
    names: Vec<Vec<Vec<Option<usize>>>>,
}

impl AroundNeeds {
    /// The other needs of all parts with one lost chunk; none of a large batch.
    pub fn new(instance: &Instance<'_>) -> AroundNeeds {
        let mut needs = Needs::default();
        let few = &instance.requests[..];
        let few = if few.len() > AROUND_MAX { &[] } else { few };
        let of_part = |needs: &mut Needs, request: &ExactRequest<'_>, part: &Part| {
            let helpers = request.candidates.iter().map(|(chunk, _)| *chunk);
            needs.find_around(request.job.code, part, helpers)
        };
        let of_request = |request: &ExactRequest<'_>| {
            let parts = instance.parts(request).iter();
            parts.map(|part| of_part(&mut needs, request, part)).collect()
        };
        let names = few.iter().map(of_request).collect();
        AroundNeeds { needs, names }
    }

    /// What else rebuilds the lost chunk of a part, in the order of the needs.
    pub fn of(&self, request: usize, part: usize) -> impl Iterator<Item = Option<&Part>> {
        let names = self.names.get(request).and_then(|parts| parts.get(part));
        names.into_iter().flatten().map(|name| self.needs.get((*name)?).parts.first())
    }
}

/// A job with what it needs from its possible helpers.
fn request<'a>(
    job: &'a Job,
    view: &View<'_>,
    needs: &mut Needs,
) -> Result<ExactRequest<'a>, PlanError> {
    let (request, need) = Request::new(job, view, |lost, helpers: &[Holder]| {
        needs.find(job.code, lost, helpers.iter().map(|(chunk, _)| *chunk))
    })?;
    let parts = &needs.get(need).parts;
    parts.iter().try_for_each(|part| view.abilities.suffice(part.is_sum))?;
    let may_part = view.cluster.has_rack_links()
        && view.abilities.partial
        && job.code.sub_chunk_count() == 1
        && parts.iter().any(|part| part.forwards() > 0);
    let helpers = || request.candidates.iter().map(|(chunk, _)| *chunk);
    let apart = request.lost.iter().filter(|_| may_part);
    let apart = apart.filter_map(|lost| needs.find(job.code, &[*lost], helpers())).collect();
    let pairs = pairs(request.lost).filter(|_| may_part && request.lost.len() > 2);
    let pairs = pairs.filter_map(|lost| Some((lost, needs.find(job.code, &lost, helpers())?)));
    let pairs = pairs.collect();
    Ok(ExactRequest { request, need, apart, pairs })
}

/// Each two of them, in their order.
fn pairs(lost: &[ChunkIndex]) -> impl Iterator<Item = [ChunkIndex; 2]> {
    let after = move |at: usize| lost[at + 1..].iter().map(move |second| [lost[at], *second]);
    (0..lost.len()).flat_map(after)
}
