//! One mission as it may happen: failures by chance, repairs, and perhaps a loss.
//!
//! Place: [failure detected -> ... -> stripe healthy], over and over for years.
//! Its first use is to count losses, where they are frequent. Its second is to estimate how many
//! outages (from all nodes up to all up again) are to be expected, and from which moments and ages
//! they begin: `branch.rs` looks from there at what is too rare to be met here.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use suture_repair::id::NodeId;
use suture_repair::random::Random;

use super::Model;
use super::fleet::Fleet;
use super::lifetime::draw_exponential;
use super::outage::Outage;

/// Moments are found by halving calm time so often: to about a second in a decade.
const MOMENT_HALVINGS: usize = 30;

/// What a mission was like.
pub(super) struct Mission {
    /// Whether data was lost.
    pub is_lost: bool,
    /// Until the loss, or the end.
    pub seconds: f64,
    /// Of them, with all nodes up.
    pub calm_seconds: f64,
    /// Outages that are expected to begin in this calm time.
    pub outages: f64,
    /// Moments of the calm time, each as likely as an outage is to begin then, and the nodes.
    pub moments: Vec<(f64, Fleet)>,
}

/// The node that fails next, and when. The stamp distinguishes entries of an earlier life from
/// those of this one.
#[derive(Clone, Copy, PartialEq)]
struct Failure {
    at: f64,
    who: Who,
    stamp: u32,
}

#[derive(Clone, Copy, PartialEq)]
enum Who {
    Node(NodeId),
    Rack(usize),
}

impl Eq for Failure {}

impl PartialOrd for Failure {
    fn partial_cmp(&self, other: &Failure) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Failure {
    fn cmp(&self, other: &Failure) -> Ordering {
        self.at.total_cmp(&other.at)
    }
}

/// A mission on the way.
struct MissionRun<'a, 'm> {
    model: &'a Model,
    outage: &'a mut Outage<'m>,
    random: &'a mut Random,
    fleet: Fleet,
    stamps: Vec<u32>,
    due: BinaryHeap<Reverse<Failure>>,
    mission: Mission,
}

/// Runs one mission and keeps `moments` moments of it.
pub(super) fn run(
    model: &Model,
    outage: &mut Outage<'_>,
    moments: usize,
    random: &mut Random,
) -> Mission {
    let nodes = model.placement.node_count();
    let fleet = Fleet::new(model.lifetime, nodes);
    let mission = Mission {
        is_lost: false,
        seconds: model.mission_seconds,
        calm_seconds: 0.0,
        outages: 0.0,
        moments: Vec::with_capacity(moments),
    };
    let (stamps, due) = (vec![0; nodes], BinaryHeap::with_capacity(nodes));
    let mut run = MissionRun { model, outage, random, fleet, stamps, due, mission };
    run.outage.begin(0.0);
    (0..nodes).for_each(|node| run.schedule(NodeId(node as u32), 0.0));
    (0..model.racks.len()).for_each(|rack| run.schedule_rack(rack, 0.0));
    let mut now = 0.0;
    while now < model.mission_seconds && !run.mission.is_lost {
        now = run.step(now, moments);
    }
    run.mission
}

impl MissionRun<'_, '_> {
    fn schedule(&mut self, node: NodeId, now: f64) {
        let at = now + self.model.lifetime.draw(self.random);
        let stamp = self.stamps[node.index()];
        self.due.push(Reverse(Failure { at, who: Who::Node(node), stamp }));
    }

    fn schedule_rack(&mut self, rack: usize, now: f64) {
        let at = now + draw_exponential(self.random) * self.model.rack_mttf_seconds;
        self.due.push(Reverse(Failure { at, who: Who::Rack(rack), stamp: 0 }));
    }

    /// Until the next failure or recovery.
    fn step(&mut self, now: f64, moments: usize) -> f64 {
        let end = self.model.mission_seconds;
        let next = self.due.peek().map_or(f64::INFINITY, |next| next.0.at).min(end);
        let reached = if self.outage.is_over() {
            self.pass_calm(now, next, moments);
            next
        } else {
            self.recover_until(next)
        };
        if reached == next
            && reached < end
            && let Some(Reverse(failure)) = self.due.pop()
        {
            self.fail(failure);
        }
        reached
    }

    fn pass_calm(&mut self, from: f64, to: f64, moments: usize) {
        let expected = self.expected_outages(from, to);
        self.mission.calm_seconds += to - from;
        self.mission.outages += expected;
        let share = expected / self.mission.outages;
        for index in 0..moments {
            // Each kept moment gives way to one in here with the share that this time has of all.
            let is_first = self.mission.moments.len() == index;
            if is_first || self.random.unit() < share {
                let part = self.random.unit();
                let moment = (self.moment(from, to, part * expected), self.fleet.clone());
                if is_first {
                    self.mission.moments.push(moment)
                } else {
                    self.mission.moments[index] = moment
                }
            }
        }
        self.outage.begin(to);
    }

    fn expected_outages(&self, from: f64, to: f64) -> f64 {
        self.fleet.expected_failures(from, to) + (to - from) * self.model.racks_rate()
    }

    /// Until when so many outages are expected to begin.
    fn moment(&self, from: f64, to: f64, expected: f64) -> f64 {
        if self.model.lifetime.is_exponential() {
            return from + expected / self.expected_outages(0.0, 1.0);
        }
        let (mut low, mut high) = (from, to);
        for _ in 0..MOMENT_HALVINGS {
            let middle = (low + high) / 2.0;
            if self.expected_outages(from, middle) < expected {
                low = middle
            } else {
                high = middle
            }
        }
        high
    }

    fn recover_until(&mut self, to: f64) -> f64 {
        let mut recovered = Vec::new();
        let reached = self.outage.advance(to, &mut recovered, self.random);
        for node in recovered {
            self.fleet.recover(node, reached);
            self.stamps[node.index()] += 1;
            self.schedule(node, reached);
        }
        reached
    }

    fn fail(&mut self, failure: Failure) {
        let model = self.model;
        match failure.who {
            Who::Node(node) if failure.stamp == self.stamps[node.index()] => {
                self.fail_node(node, failure.at);
            }
            Who::Node(_) => (),
            Who::Rack(rack) => {
                model.racks[rack].iter().for_each(|&node| self.fail_node(node, failure.at));
                self.schedule_rack(rack, failure.at);
            }
        }
    }

    fn fail_node(&mut self, node: NodeId, at: f64) {
        if !self.fleet.is_up(node) || self.mission.is_lost {
            return;
        }
        self.fleet.fail(node);
        if self.outage.fail(node, self.random) {
            self.mission.is_lost = true;
            self.mission.seconds = at;
        }
    }
}
