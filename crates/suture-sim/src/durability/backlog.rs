//! Repairs as the coordinator does them: stripe by stripe, those that can lose least more first.
//! A model of its queue that is fast enough for millions of outages; it decides nothing.
//!
//! Place: failure detected -> [stripes affected -> queue -> ... -> stripe healthy].
//! How fast stripes follow each other comes from simulated repairs: with i nodes failed, as if
//! their chunks took the measured T(i). A failure counts at once and is repaired after detection.
//! Most failures come alone and go without touching another; nothing is done for them but to
//! compute when they end, and only with a second failure every stripe is looked at. Invariant: of a
//! queued stripe's entries the one with its newest failure stands in the class of its number of
//! lost chunks; all others are out of date. Not modelled: rebuilt chunks lie where the lost ones
//! were, safe until the node counts as back; really they lie on other nodes, which can fail.

use std::collections::VecDeque;

use suture_repair::id::NodeId;

use super::Model;

/// What is failed and what of it is repaired.
pub(super) struct Backlog<'a> {
    model: &'a Model,
    now: f64,
    down: Vec<Down>,
    /// The number of each node's failure while it lasts; 0 for nodes that are up.
    failure_of: Vec<u32>,
    /// The last failure's number. It never starts again, so old marks mean nothing.
    failures: u32,
    /// Whether stripes have been marked; not while one node is failed alone.
    is_spread: bool,
    stripes: Vec<Stripe>,
    /// Stripes to repair and their newest failure, by their number of lost chunks.
    classes: Vec<VecDeque<(u32, u32)>>,
    /// Stripes in `classes` that are not out of date.
    queued: Vec<usize>,
    /// Stripes with so many lost chunks, queued or not.
    damaged: Vec<usize>,
    /// Work already done on the next stripe, in chunks.
    credit: f64,
}

struct Down {
    node: NodeId,
    failure: u32,
    detected_at: f64,
    is_detected: bool,
    /// Chunks that are not rebuilt yet.
    missing: usize,
}

#[derive(Clone, Copy, Default)]
struct Stripe {
    lost: u8,
    is_queued: bool,
    /// The failure that took its last lost chunk.
    newest: u32,
    /// What failed up to here was repaired.
    repaired: u32,
}

impl<'a> Backlog<'a> {
    pub fn new(model: &'a Model) -> Backlog<'a> {
        let (placement, width) = (&model.placement, model.placement.code().chunk_count());
        Backlog {
            model,
            now: 0.0,
            down: Vec::new(),
            failure_of: vec![0; placement.node_count()],
            failures: 0,
            is_spread: false,
            stripes: vec![Stripe::default(); placement.stripe_count()],
            classes: vec![VecDeque::new(); width + 1],
            queued: vec![0; width + 1],
            damaged: vec![0; width + 1],
            credit: 0.0,
        }
    }

    /// As `Outage::begin`: all stripes are whole.
    pub fn begin(&mut self, now: f64) {
        let placement = &self.model.placement;
        for down in self.down.drain(..) {
            self.failure_of[down.node.index()] = 0;
            for &stripe in placement.stripes_of(down.node) {
                let repaired = self.failures;
                self.stripes[stripe as usize] = Stripe { repaired, ..Stripe::default() };
            }
        }
        self.classes.iter_mut().for_each(VecDeque::clear);
        self.queued.fill(0);
        self.damaged.fill(0);
        (self.now, self.credit, self.is_spread) = (now, 0.0, false);
    }

    /// As `Outage::fail`: its chunks join the queue once the failure is detected.
    pub fn fail(&mut self, node: NodeId) -> bool {
        if self.down.is_empty() {
            self.begin(self.now);
        } else if !self.is_spread {
            self.spread();
        }
        self.failures += 1;
        self.failure_of[node.index()] = self.failures;
        let missing = self.model.placement.stripes_of(node).len();
        self.down.push(Down {
            node,
            failure: self.failures,
            detected_at: self.now + self.model.detection_seconds,
            is_detected: false,
            missing,
        });
        if !self.is_spread {
            return missing > 0 && self.model.placement.code().loss_tolerance() == 0;
        }
        let is_fatal = self.lose(node);
        self.detect_due();
        is_fatal
    }

    /// As `Outage::advance`: repairs chunks, those of the stripes at the greatest risk first.
    pub fn advance(&mut self, to: f64, recovered: &mut Vec<NodeId>) -> f64 {
        if !self.is_spread {
            return self.advance_alone(to, recovered);
        }
        self.collect_recovered(recovered);
        while recovered.is_empty() {
            let undetected = self.down.iter().filter(|down| !down.is_detected);
            let detection = undetected.map(|down| down.detected_at).fold(f64::INFINITY, f64::min);
            let limit = to.min(detection);
            let Some(class) = self.queued.iter().rposition(|&count| count > 0) else {
                self.now = limit;
                self.detect_due();
                break;
            };
            let seconds = (class as f64 - self.credit).max(0.0) / self.chunks_a_second();
            if self.now + seconds > limit {
                self.credit += (limit - self.now) * self.chunks_a_second();
                self.now = limit;
                self.detect_due();
                break;
            }
            self.now += seconds;
            self.credit = 0.0;
            self.repair_next(class);
            self.collect_recovered(recovered);
            if self.queued[class] == 0 {
                break;
            }
        }
        self.now
    }

    /// As `Outage::critical_seconds`: until the highest class is repaired.
    pub fn critical_seconds(&self) -> f64 {
        let detections = self.down.iter().map(|down| down.detected_at - self.now);
        let waiting = detections.fold(0.0, f64::max);
        if !self.is_spread {
            return (self.alone_until() - self.now).max(waiting);
        }
        let worst = self.damaged.iter().rposition(|&count| count > 0).unwrap_or(0);
        waiting + (worst * self.damaged[worst]) as f64 / self.chunks_a_second()
    }

    /// As `Outage::critical_stripes`: those of the highest class.
    pub fn critical_stripes(&self, few: usize) -> Vec<u32> {
        let placement = &self.model.placement;
        if !self.is_spread {
            let all = self.down.first().map_or(&[][..], |down| placement.stripes_of(down.node));
            return if all.len() > few { Vec::new() } else { all.to_vec() };
        }
        let worst = self.damaged.iter().rposition(|&count| count > 0).unwrap_or(0);
        if worst == 0 || self.damaged[worst] > few {
            return Vec::new();
        }
        let on_down = self.down.iter().flat_map(|down| placement.stripes_of(down.node));
        let is_worst = |stripe: &&u32| usize::from(self.stripes[**stripe as usize].lost) == worst;
        let mut found: Vec<u32> = on_down.filter(is_worst).copied().collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    pub fn is_over(&self) -> bool {
        self.down.is_empty()
    }

    /// At which the nodes that are known to be failed are repaired.
    fn chunks_a_second(&self) -> f64 {
        let nodes = self.down.iter().filter(|down| down.is_detected).count().max(1);
        nodes as f64 * self.model.placement.mean_chunks() / self.model.repair.seconds(nodes)
    }

    /// When the one failed node is back.
    fn alone_until(&self) -> f64 {
        let down = &self.down[0];
        down.detected_at + down.missing as f64 / self.chunks_a_second()
    }

    fn advance_alone(&mut self, to: f64, recovered: &mut Vec<NodeId>) -> f64 {
        let until = self.alone_until();
        self.now = to.min(until);
        if until <= to {
            let down = self.down.pop().expect("one is failed");
            self.failure_of[down.node.index()] = 0;
            recovered.push(down.node);
        }
        self.now
    }

    /// Marks the stripes of the node that was failed alone until now.
    fn spread(&mut self) {
        self.is_spread = true;
        let chunks = (self.now - self.down[0].detected_at).max(0.0) * self.chunks_a_second();
        let down = &mut self.down[0];
        let stripes = self.model.placement.stripes_of(down.node);
        let (rebuilt, left) = stripes.split_at((chunks as usize).min(stripes.len()));
        rebuilt.iter().for_each(|&stripe| self.stripes[stripe as usize].repaired = down.failure);
        for &stripe in left {
            let stripe = &mut self.stripes[stripe as usize];
            (stripe.lost, stripe.newest) = (1, down.failure);
        }
        down.missing = left.len();
        self.damaged[1] = left.len();
        self.credit = if left.is_empty() { 0.0 } else { chunks.fract() };
        self.detect_due();
    }

    /// Takes a chunk from each stripe of a node; whether that loses one of them for good.
    fn lose(&mut self, node: NodeId) -> bool {
        let placement = &self.model.placement;
        let tolerance = placement.code().loss_tolerance();
        let mut is_fatal = false;
        for &id in placement.stripes_of(node) {
            let stripe = &mut self.stripes[id as usize];
            let before = usize::from(stripe.lost);
            if before > 0 {
                self.damaged[before] -= 1;
                self.queued[before] -= usize::from(stripe.is_queued);
            }
            stripe.lost += 1;
            stripe.newest = self.failures;
            stripe.is_queued = false;
            self.damaged[before + 1] += 1;
            let repaired = stripe.repaired;
            let is_lost = |node: NodeId| self.failure_of[node.index()] > repaired;
            is_fatal |= before + 1 > tolerance && placement.is_fatal(id, is_lost);
        }
        is_fatal
    }

    /// Queues what is due by now. A stripe waits for the detection of its newest loss.
    fn detect_due(&mut self) {
        for down in &mut self.down {
            if down.is_detected || down.detected_at > self.now {
                continue;
            }
            down.is_detected = true;
            for &id in self.model.placement.stripes_of(down.node) {
                let stripe = &mut self.stripes[id as usize];
                if stripe.lost > 0 && stripe.newest == down.failure && !stripe.is_queued {
                    stripe.is_queued = true;
                    self.queued[usize::from(stripe.lost)] += 1;
                    self.classes[usize::from(stripe.lost)].push_back((id, down.failure));
                }
            }
        }
    }

    /// Repairs the next stripe of a class, all its lost chunks at once.
    fn repair_next(&mut self, class: usize) {
        while let Some((id, failure)) = self.classes[class].pop_front() {
            let stripe = &mut self.stripes[id as usize];
            if !stripe.is_queued || stripe.newest != failure {
                continue;
            }
            let repaired = stripe.repaired;
            *stripe = Stripe { repaired: self.failures, ..Stripe::default() };
            self.queued[class] -= 1;
            self.damaged[class] -= 1;
            for node in self.model.placement.nodes_of(id) {
                let failure = self.failure_of[node.index()];
                if failure > repaired
                    && let Some(down) = self.down.iter_mut().find(|down| down.failure == failure)
                {
                    down.missing -= 1;
                }
            }
            return;
        }
    }

    /// Nodes that miss nothing any more are back.
    fn collect_recovered(&mut self, recovered: &mut Vec<NodeId>) {
        let failure_of = &mut self.failure_of;
        self.down.retain(|down| {
            let is_back = down.is_detected && down.missing == 0;
            if is_back {
                failure_of[down.node.index()] = 0;
                recovered.push(down.node);
            }
            !is_back
        });
    }
}

#[cfg(test)]
mod tests {
    use suture_code::Code;
    use suture_repair::random::Random;

    use super::*;
    use crate::durability::lifetime::Lifetime;
    use crate::durability::placement::Placement;
    use crate::durability::repair_times::RepairTimes;
    use crate::durability::{Model, Repairs};

    /// The same by its definition: at every step all stripes are looked at.
    struct Oracle<'a> {
        model: &'a Model,
        now: f64,
        /// Failed nodes, by their failures.
        down: Vec<(NodeId, f64)>,
        /// For each stripe the failures (indices into `down`'s history) of its lost chunks.
        lost: Vec<Vec<(usize, NodeId)>>,
        history: Vec<f64>,
        credit: f64,
        recovered: Vec<(f64, NodeId)>,
    }

    impl Oracle<'_> {
        fn fail(&mut self, node: NodeId) -> bool {
            let placement = &self.model.placement;
            self.down.push((node, self.now));
            self.history.push(self.now);
            let mut is_fatal = false;
            for &stripe in placement.stripes_of(node) {
                let lost = &mut self.lost[stripe as usize];
                lost.push((self.history.len(), node));
                let is_lost = |node: NodeId| lost.iter().any(|(_, other)| *other == node);
                is_fatal |= placement.is_fatal(stripe, is_lost);
            }
            is_fatal
        }

        fn is_detected(&self, failed_at: f64) -> bool {
            failed_at + self.model.detection_seconds <= self.now
        }

        fn advance(&mut self, to: f64) {
            loop {
                self.recover();
                let detections = self.down.iter().map(|(_, at)| at + self.model.detection_seconds);
                let next = detections.filter(|at| *at > self.now).fold(f64::INFINITY, f64::min);
                let limit = to.min(next);
                let known = self.down.iter().filter(|(_, at)| self.is_detected(*at)).count();
                let ready = |lost: &&Vec<(usize, NodeId)>| {
                    !lost.is_empty()
                        && lost.iter().all(|(f, _)| self.is_detected(self.history[f - 1]))
                };
                // Most losses first, then the oldest of the newest losses, then the lowest stripe.
                let first = (0..self.lost.len())
                    .filter(|stripe| ready(&&self.lost[*stripe]))
                    .max_by_key(|&stripe| {
                        let lost = &self.lost[stripe];
                        let newest = lost.iter().map(|(failure, _)| *failure).max();
                        (lost.len(), std::cmp::Reverse((newest, stripe)))
                    });
                let Some(first) = first else {
                    self.now = limit;
                    if limit == to {
                        return self.recover();
                    }
                    continue;
                };
                let chunks = known as f64 * self.model.placement.mean_chunks();
                let rate = chunks / self.model.repair.seconds(known);
                let seconds = (self.lost[first].len() as f64 - self.credit).max(0.0) / rate;
                if self.now + seconds > limit {
                    self.credit += (limit - self.now) * rate;
                    self.now = limit;
                    if limit == to {
                        return;
                    }
                    continue;
                }
                self.now += seconds;
                self.credit = 0.0;
                self.lost[first].clear();
            }
        }

        fn recover(&mut self) {
            let (now, lost) = (self.now, &self.lost);
            let is_back = |node: NodeId| lost.iter().flatten().all(|(_, other)| *other != node);
            let detection = self.model.detection_seconds;
            let recovered = &mut self.recovered;
            self.down.retain(|&(node, at)| {
                let is_down = at + detection > now || !is_back(node);
                if !is_down {
                    recovered.push((now, node));
                }
                is_down
            });
        }
    }

    fn arbitrary_model(random: &mut Random) -> Model {
        let code: Code = random.choose(&["rs(3,2)", "rs(2,1)", "lrc(4,2,2)"]).parse().unwrap();
        let nodes = code.chunk_count() + random.index(6);
        let mut all: Vec<NodeId> = (0..nodes as u32).map(NodeId).collect();
        let mut on = Vec::new();
        for _ in 0..random.between(1, 40) {
            random.shuffle(&mut all);
            on.extend_from_slice(&all[..code.chunk_count()]);
        }
        Model {
            placement: Placement::new(code, nodes, on),
            lifetime: Lifetime::exponential(1.0),
            racks: Vec::new(),
            rack_mttf_seconds: f64::INFINITY,
            repair: RepairTimes::measured(vec![(1, 1.0), (2, 1.3), (4, 3.0)]),
            detection_seconds: *random.choose(&[0.01, 0.3]),
            repairs: Repairs::ByStripe,
            mission_seconds: 1.0,
        }
    }

    #[test]
    fn backlogs_meet_the_oracle_that_looks_at_every_stripe() {
        let random = &mut Random::new(9);
        let mut losses = 0;
        for case in 0..300 {
            let model = arbitrary_model(random);
            let stripes = model.placement.stripe_count();
            let mut backlog = Backlog::new(&model);
            // Twice on the same backlog: nothing of the first may be left.
            for _ in 0..2 {
                backlog.begin(0.0);
                let mut oracle = Oracle {
                    model: &model,
                    now: 0.0,
                    down: Vec::new(),
                    lost: vec![Vec::new(); stripes],
                    history: Vec::new(),
                    credit: 0.0,
                    recovered: Vec::new(),
                };
                losses += usize::from(run_both(&mut backlog, &mut oracle, random, case));
            }
        }
        assert!(losses > 50, "{losses}");
    }

    /// Lets both live through the same failures; whether data was lost.
    fn run_both(
        backlog: &mut Backlog<'_>,
        oracle: &mut Oracle<'_>,
        random: &mut Random,
        case: i32,
    ) -> bool {
        let mut recovered: Vec<(f64, NodeId)> = Vec::new();
        let mut at = 0.0;
        for failure in 0..8 {
            at += 0.6 * random.unit();
            let until = if failure == 7 { 100.0 } else { at };
            while backlog.now < until {
                if backlog.is_over() {
                    backlog.begin(until);
                    break;
                }
                let mut nodes = Vec::new();
                let reached = backlog.advance(until, &mut nodes);
                recovered.extend(nodes.into_iter().map(|node| (reached, node)));
            }
            oracle.advance(until);
            assert_eq!(recovered.len(), oracle.recovered.len(), "{case} {failure}");
            let up: Vec<NodeId> = (0..oracle.model.placement.node_count() as u32)
                .map(NodeId)
                .filter(|node| oracle.down.iter().all(|(other, _)| other != node))
                .collect();
            if up.is_empty() || failure == 7 {
                continue;
            }
            let node = *random.choose(&up);
            if oracle.down.is_empty() {
                oracle.credit = 0.0;
            }
            let is_fatal = oracle.fail(node);
            assert_eq!(backlog.fail(node), is_fatal, "{case} {failure}");
            if is_fatal {
                return true;
            }
        }
        recovered.sort_by_key(|(_, node)| *node);
        oracle.recovered.sort_by_key(|(_, node)| *node);
        for (mine, its) in recovered.iter().zip(&oracle.recovered) {
            assert!(mine.1 == its.1 && (mine.0 - its.0).abs() < 1e-9, "{case} {mine:?} {its:?}");
        }
        false
    }
}
