//! Crossing: trees that leave a rack once, with destinations spread over all racks.
//!
//! Place: `failure -> stripes -> queue -> [plan] -> admit -> dispatch -> slices -> commit`.
//! Where the core between racks is scarce, a stripe should use as few racks as reach k survivors,
//! and each of them should send one sum. Then it matters where those sums meet: uplinks and
//! downlinks of racks even out only if destinations, and the racks in which sums are added up, are
//! spread over all of them. The published setting keeps to the failed rack and pays for it with
//! that rack's downlink.
//!
//! A planner by potential: every port costs exp(a * its seconds / the peak), stripes are taken out
//! and put back where they add least, sweep after sweep, while a rises: at first everything counts
//! a little, in the end only the fullest ports do. No proof of optimality; the bound stands beside
//! the result, and the caller takes whichever batch has the lower peak.
//!
//! Source: the rack setting and the count of racks are CAR's (TDSC, section 4); spreading and the
//! potential are ours.

use crate::cluster::Rate;
use crate::id::{NodeId, RackId};
use crate::planner::least::Least;
use crate::planner::route::Route;
use crate::planner::task::{Flow, Helper, Task, may_receive};
use crate::planner::{Batch, DEAD_LINK, Job, View};
use crate::policy::Shape;
use crate::random::Random;

/// How often every stripe is placed again, when the batch is small enough.
const SWEEPS_MAX: usize = 24;

/// Placements in all, about: what a batch of any size may cost.
const PLACEMENTS_MAX: usize = 400_000;

/// How sharply the fullest ports count, in the first sweep and in the last.
const SHARPNESS: (f64, f64) = (8.0, 300.0);

/// The most racks that are tried for one destination; more hardly differ.
const RACKS_TRIED_MAX: usize = 8;

/// Beyond this the exponential is as good as infinite, but still a number.
const EXPONENT_MAX: f64 = 600.0;

/// Plans for all jobs, or `None` where there is no core to save or some job is no sum.
pub(super) fn plan(jobs: &[Job], view: &View<'_>, seed: u64) -> Option<Batch> {
    view.cluster.core?;
    let mut racks = Vec::with_capacity(view.cluster.nodes.len());
    for node in &view.cluster.nodes {
        racks.push(node.rack?);
    }
    let (mut tasks, mut refused) = (Vec::new(), Vec::new());
    for (index, job) in jobs.iter().enumerate() {
        match Task::new(Shape::Rack, job, view) {
            Ok(task) if matches!(task.flow, Flow::Grown) => tasks.push(task),
            Err(error) if error.is_beyond_repair() => refused.push((index, error)),
            _ => return None,
        }
    }
    let routes = Sweep::new(&tasks, view, racks).run(seed);
    let plans = tasks.iter().zip(&routes).map(|(task, route)| route.plan(task)).collect();
    Some(Batch { plans, refused })
}

/// A port: seconds of work so far, and seconds per byte.
#[derive(Clone, Copy, Debug)]
struct Port {
    seconds: f64,
    pace: f64,
}

/// The ports of a node or a rack. Racks have no disks: theirs are never slow.
#[derive(Clone, Copy, Debug)]
struct Ports {
    up: Port,
    down: Port,
    read: Port,
    write: Port,
}

struct Sweep<'a> {
    tasks: &'a [Task<'a>],
    view: &'a View<'a>,
    rack_of: Vec<RackId>,
    nodes: Vec<Ports>,
    racks: Vec<Ports>,
    /// For each rack its nodes, by what they would need with one more chunk.
    members: Vec<Vec<NodeId>>,
    ranked: Vec<Least>,
    sharpness: f64,
    peak: f64,
}

impl<'a> Sweep<'a> {
    fn new(tasks: &'a [Task<'a>], view: &'a View<'a>, rack_of: Vec<RackId>) -> Sweep<'a> {
        let port = |bytes: u64, rate: Option<Rate>| {
            let pace = rate.map_or(0.0, |rate| 1.0 / rate.0.max(DEAD_LINK.0));
            Port { seconds: bytes as f64 * pace, pace }
        };
        let nodes = view.cluster.ids().map(|id| {
            let (node, load) = (view.cluster.node(id), view.load.node(id));
            Ports {
                up: port(load.up_bytes, Some(node.uplink_free())),
                down: port(load.down_bytes, Some(node.downlink_free())),
                read: port(load.disk_read_bytes, node.disk_read),
                write: port(load.disk_write_bytes, node.disk_write),
            }
        });
        let core = view.cluster.core.expect("looked at before");
        let racks = view.load.racks().iter().map(|load| Ports {
            up: port(load.up_bytes, Some(core.rack_uplink)),
            down: port(load.down_bytes, Some(core.rack_downlink)),
            read: port(0, None),
            write: port(0, None),
        });
        let mut members = vec![Vec::new(); view.cluster.racks.len()];
        view.cluster.ids().for_each(|id| members[rack_of[id.index()].0 as usize].push(id));
        let mut sweep = Sweep {
            tasks,
            view,
            rack_of,
            nodes: nodes.collect(),
            racks: racks.collect(),
            ranked: Vec::new(),
            members,
            sharpness: SHARPNESS.0,
            peak: f64::INFINITY,
        };
        sweep.rank_all();
        sweep
    }

    fn rank_all(&mut self) {
        let key = |node: &NodeId| self.key(*node);
        self.ranked =
            self.members.iter().map(|nodes| Least::new(nodes.iter().map(key).collect())).collect();
    }

    /// What a node would need to receive and keep one more chunk of the batch's first length.
    fn key(&self, node: NodeId) -> f64 {
        let bytes = self.tasks.first().map_or(0, |task| task.job.chunk_bytes) as f64;
        let Ports { down, write, .. } = self.nodes[node.index()];
        let with = |port: Port| port.seconds + bytes * port.pace;
        if self.view.accepts[node.index()] { with(down).max(with(write)) } else { f64::INFINITY }
    }

    fn run(mut self, seed: u64) -> Vec<Route> {
        let mut random = Random::new(seed);
        let mut order: Vec<usize> = (0..self.tasks.len()).collect();
        let mut routes: Vec<Option<Route>> = vec![None; self.tasks.len()];
        let sweeps = (PLACEMENTS_MAX / self.tasks.len().max(1)).clamp(3, SWEEPS_MAX);
        let mut best = (f64::INFINITY, Vec::new());
        for sweep in 0..sweeps {
            let part = sweep as f64 / (sweeps - 1) as f64;
            self.sharpness = SHARPNESS.0 * (SHARPNESS.1 / SHARPNESS.0).powf(part);
            self.peak = self.peak_seconds().max(f64::MIN_POSITIVE);
            random.shuffle(&mut order);
            for &index in &order {
                let task = &self.tasks[index];
                if let Some(route) = routes[index].take() {
                    self.charge(task, &route, -1.0);
                }
                let route = self.place(task);
                self.charge(task, &route, 1.0);
                routes[index] = Some(route);
            }
            let peak = self.peak_seconds();
            if peak < best.0 {
                best = (peak, routes.iter().flatten().cloned().collect());
            }
        }
        best.1
    }

    fn peak_seconds(&self) -> f64 {
        let of = |ports: &Ports| {
            let Ports { up, down, read, write } = *ports;
            [up, down, read, write].map(|port| port.seconds).into_iter().fold(0.0, f64::max)
        };
        self.nodes.iter().chain(&self.racks).map(of).fold(0.0, f64::max)
    }

    /// What `bytes` more at a port add to the potential.
    fn cost(&self, port: Port, bytes: f64) -> f64 {
        let power = |seconds: f64| (self.sharpness * seconds / self.peak).min(EXPONENT_MAX).exp();
        power(port.seconds + bytes * port.pace) - power(port.seconds)
    }

    fn rack(&self, node: NodeId) -> usize {
        self.rack_of[node.index()].0 as usize
    }

    /// The route that adds least.
    fn place(&mut self, task: &Task<'_>) -> Route {
        let mut best: Option<(f64, Route)> = None;
        for destination in self.destinations(task) {
            let route = self.route(task, destination);
            let cost = self.charge(task, &route, 1.0);
            self.charge(task, &route, -1.0);
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, route));
            }
        }
        best.expect("a task has a destination").1
    }

    /// The best node of each of the cheapest racks. A rack that holds as much of the stripe as may
    /// be lost is used only when all do.
    fn destinations(&self, task: &Task<'_>) -> Vec<NodeId> {
        let (job, bytes) = (task.job, task.job.chunk_bytes as f64);
        let held =
            |rack: usize| job.survivors.iter().filter(|(_, node)| self.rack(*node) == rack).count();
        let tolerance = job.code.loss_tolerance();
        for (strict, avoids) in [(true, true), (false, true), (false, false)] {
            let mut found = Vec::new();
            for (rack, ranked) in self.ranked.iter().enumerate() {
                if strict && held(rack) >= tolerance {
                    continue;
                }
                let serves = |at: usize| {
                    let node = self.members[rack][at];
                    may_receive(job, node, self.view) && !(avoids && job.avoid.contains(&node))
                };
                let Some(at) = ranked.least_where(serves) else { continue };
                let node = self.members[rack][at];
                let ports = self.nodes[node.index()];
                let cost = self.cost(self.racks[rack].down, bytes)
                    + self.cost(ports.down, bytes)
                    + self.cost(ports.write, bytes);
                found.push((cost, node));
            }
            if !found.is_empty() {
                found.sort_by(|a, b| a.0.total_cmp(&b.0));
                return found.into_iter().take(RACKS_TRIED_MAX).map(|(_, node)| node).collect();
            }
        }
        unreachable!("a task has a destination")
    }

    /// The cheapest helpers of as few racks as will do, joined within racks first.
    fn route(&self, task: &Task<'_>, destination: NodeId) -> Route {
        let helpers = self.helpers(task, self.rack(destination));
        let (helpers, parents) = self.join(task, helpers, destination);
        Route { helpers, parents: Some(parents), destinations: vec![destination] }
    }

    fn helpers(&self, task: &Task<'_>, home: usize) -> Vec<Helper> {
        let bytes = task.job.chunk_bytes as f64;
        let sending = |node: NodeId| {
            let ports = self.nodes[node.index()];
            self.cost(ports.up, bytes) + self.cost(ports.read, bytes)
        };
        let mut offered = task.candidates.clone();
        if !task.takes_any() {
            // Local groups and the like: the code knows better than racks do.
            offered.sort_by(|a, b| sending(a.1).total_cmp(&sending(b.1)));
            return task.choose_helpers(&offered);
        }
        let racks = self.racks_used(task, home);
        offered.retain(|(_, node)| racks.contains(&self.rack(*node)));
        offered.sort_by(|a, b| sending(b.1).total_cmp(&sending(a.1)));
        let mut left: Vec<usize> = vec![0; self.racks.len()];
        offered.iter().for_each(|(_, node)| left[self.rack(*node)] += 1);
        let mut surplus = offered.len() - task.helper_count;
        offered.retain(|(_, node)| {
            let rack = self.rack(*node);
            // The dearest go, but no rack for nothing: it would have been left out.
            let goes = surplus > 0 && (left[rack] > 1 || rack == home);
            if goes {
                (surplus, left[rack]) = (surplus - 1, left[rack] - 1);
            }
            !goes
        });
        offered.truncate(task.helper_count);
        offered
    }

    /// The destination's rack and the cheapest others, as few as reach the helpers.
    fn racks_used(&self, task: &Task<'_>, home: usize) -> Vec<usize> {
        let bytes = task.job.chunk_bytes as f64;
        let mut counts = vec![0; self.racks.len()];
        task.candidates.iter().for_each(|(_, node)| counts[self.rack(*node)] += 1);
        let mut missing = task.helper_count.saturating_sub(counts[home]);
        let mut others: Vec<usize> =
            (0..counts.len()).filter(|&rack| rack != home && counts[rack] > 0).collect();
        others.sort_by_key(|&rack| std::cmp::Reverse(counts[rack]));
        let mut needed = 0;
        let mut reach = 0;
        while reach < missing {
            reach += counts[others[needed]];
            needed += 1;
        }
        let cost = |rack: usize| self.cost(self.racks[rack].up, bytes);
        let mut used = vec![home];
        for still in (0..needed).rev() {
            // The cheapest that leaves enough for the largest of the rest.
            let fits = |&rack: &usize| {
                let rest = others.iter().filter(|&&other| other != rack).take(still);
                counts[rack] + rest.map(|&other| counts[other]).sum::<usize>() >= missing
            };
            let fitting = others.iter().copied().filter(fits);
            let next = fitting.min_by(|a, b| cost(*a).total_cmp(&cost(*b)));
            let next = next.expect("the largest racks fit");
            others.retain(|&rack| rack != next);
            missing = missing.saturating_sub(counts[next]);
            used.push(next);
        }
        used
    }

    /// A tree: within each rack everyone sends to whoever receives most cheaply there; the first of
    /// a rack sends its sum to whichever rack takes it most cheaply.
    fn join(
        &self,
        task: &Task<'_>,
        mut helpers: Vec<Helper>,
        destination: NodeId,
    ) -> (Vec<Helper>, Vec<usize>) {
        let bytes = task.job.chunk_bytes as f64;
        let home = self.rack(destination);
        let down = |node: NodeId| self.cost(self.nodes[node.index()].down, bytes);
        // The destination's rack first, then rack by rack; within a rack the best receivers first.
        let rank = |&(_, node): &Helper| {
            let rack = self.rack(node);
            let cost = self.cost(self.racks[rack].down, bytes);
            (rack != home, cost, rack, down(node))
        };
        helpers.sort_by(|a, b| rank(a).partial_cmp(&rank(b)).expect("costs are numbers"));
        let root = helpers.len();
        // Who is in the tree, and how many chunks each receives by now.
        let mut placed: Vec<(usize, NodeId, f64)> = vec![(root, destination, 0.0)];
        let mut arrived = vec![0.0; self.racks.len()];
        let mut parents = Vec::with_capacity(root);
        for (place, &(_, node)) in helpers.iter().enumerate() {
            let rack = self.rack(node);
            let is_first = !placed.iter().any(|(_, other, _)| self.rack(*other) == rack);
            let with = |port: Port, more: f64| {
                let port = Port { seconds: port.seconds + more * bytes * port.pace, ..port };
                self.cost(port, bytes)
            };
            let price = |&(_, other, received): &(usize, NodeId, f64)| {
                let at = self.rack(other);
                let link = with(self.nodes[other.index()].down, received);
                let core = if at == rack { 0.0 } else { with(self.racks[at].down, arrived[at]) };
                link + core
            };
            let (at, _) = placed
                .iter()
                .enumerate()
                .filter(|(_, (_, other, _))| is_first || self.rack(*other) == rack)
                .min_by(|(_, a), (_, b)| price(a).total_cmp(&price(b)))
                .expect("the destination is in the tree");
            let (parent, other, _) = placed[at];
            placed[at].2 += 1.0;
            if self.rack(other) != rack {
                arrived[self.rack(other)] += 1.0;
            }
            parents.push(parent);
            placed.push((place, node, 0.0));
        }
        (helpers, parents)
    }

    /// Puts a route on the ports, or takes it off; gives what it adds to the potential.
    fn charge(&mut self, task: &Task<'_>, route: &Route, sign: f64) -> f64 {
        let bytes = task.job.chunk_bytes as f64;
        let parents = route.parents.as_ref().expect("a tree");
        let destination = route.destinations[0];
        let node = |place: usize| route.helpers.get(place).map_or(destination, |(_, node)| *node);
        let mut added = 0.0;
        let mut put = |sweep: &mut Sweep<'_>, pick: fn(&mut Ports) -> &mut Port, at: Side| {
            let port = match at {
                Side::Node(node) => *pick(&mut sweep.nodes[node.index()]),
                Side::Rack(rack) => *pick(&mut sweep.racks[rack]),
            };
            if sign > 0.0 {
                added += sweep.cost(port, bytes);
            }
            let port = match at {
                Side::Node(node) => pick(&mut sweep.nodes[node.index()]),
                Side::Rack(rack) => pick(&mut sweep.racks[rack]),
            };
            port.seconds = (port.seconds + sign * bytes * port.pace).max(0.0);
        };
        for (place, &parent) in parents.iter().enumerate() {
            let (from, to) = (node(place), node(parent));
            put(self, |ports| &mut ports.up, Side::Node(from));
            put(self, |ports| &mut ports.read, Side::Node(from));
            put(self, |ports| &mut ports.down, Side::Node(to));
            let (left, right) = (self.rack(from), self.rack(to));
            if left != right {
                put(self, |ports| &mut ports.up, Side::Rack(left));
                put(self, |ports| &mut ports.down, Side::Rack(right));
            }
        }
        put(self, |ports| &mut ports.write, Side::Node(destination));
        for place in 0..=parents.len() {
            self.rank(node(place));
        }
        added
    }

    fn rank(&mut self, node: NodeId) {
        let rack = self.rack(node);
        let at = self.members[rack].binary_search(&node).expect("every node is in its rack");
        let key = self.key(node);
        self.ranked[rack].set(at, key);
    }
}

/// Whose port.
#[derive(Clone, Copy)]
enum Side {
    Node(NodeId),
    Rack(usize),
}
