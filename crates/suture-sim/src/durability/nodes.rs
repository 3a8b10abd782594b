//! Repairs as the Markov chain has them: whole nodes come back, after exponential times.
//!
//! Place: failure -> ... -> [stripe healthy], for comparison only.
//! With i nodes failed one of them, any, comes back at the rate i/T(i). `backlog.rs` repairs stripe
//! by stripe instead, those at the greatest risk first.

use suture_repair::id::NodeId;
use suture_repair::random::Random;

use super::Model;
use super::lifetime::draw_exponential;

/// Stripes of failed nodes that are gone through for each biased failure; where nodes hold more,
/// most failures meet some stripe anyway.
const LOOKED_AT_MAX: usize = 4096;

/// Nodes that are failed.
pub(super) struct Nodes<'a> {
    model: &'a Model,
    now: f64,
    down: Vec<NodeId>,
    is_down: Vec<bool>,
    next_recovery: f64,
}

impl<'a> Nodes<'a> {
    pub fn new(model: &'a Model) -> Nodes<'a> {
        let is_down = vec![false; model.placement.node_count()];
        Nodes { model, now: 0.0, down: Vec::new(), is_down, next_recovery: f64::INFINITY }
    }

    /// As `Outage::begin`: all nodes are up.
    pub fn begin(&mut self, now: f64) {
        self.down.drain(..).for_each(|node| self.is_down[node.index()] = false);
        (self.now, self.next_recovery) = (now, f64::INFINITY);
    }

    /// As `Outage::fail`: its recovery is drawn at once.
    pub fn fail(&mut self, node: NodeId, random: &mut Random) -> bool {
        self.down.push(node);
        self.is_down[node.index()] = true;
        self.draw_recovery(random);
        let placement = &self.model.placement;
        let is_lost = |node: NodeId| self.is_down[node.index()];
        self.down.len() > placement.code().loss_tolerance()
            && placement.stripes_of(node).iter().any(|&stripe| placement.is_fatal(stripe, is_lost))
    }

    /// As `Outage::advance`: ends at the next recovery.
    pub fn advance(&mut self, to: f64, recovered: &mut Vec<NodeId>, random: &mut Random) -> f64 {
        if self.next_recovery > to {
            self.now = to;
            return to;
        }
        self.now = self.next_recovery;
        let node = self.down.swap_remove(random.index(self.down.len()));
        self.is_down[node.index()] = false;
        recovered.push(node);
        self.draw_recovery(random);
        self.now
    }

    /// See `Outage::critical_seconds`. Twice the mean: were failures drawn as often as repairs end,
    /// the weights of long repairs would grow as fast as these get rare, and have no variance.
    pub fn critical_seconds(&self) -> f64 {
        2.0 / self.model.repair_rate(self.down.len())
    }

    /// As `Outage::critical_stripes`: those with chunks on the failed nodes.
    pub fn critical_stripes(&self, few: usize) -> Vec<u32> {
        let placement = &self.model.placement;
        let on_down = || self.down.iter().flat_map(|node| placement.stripes_of(*node)).copied();
        if on_down().count() > LOOKED_AT_MAX {
            return Vec::new();
        }
        let lost = |stripe: u32| {
            let nodes = placement.nodes_of(stripe).iter();
            nodes.filter(|node| self.is_down[node.index()]).count()
        };
        let worst = on_down().map(lost).max().unwrap_or(0);
        let mut stripes: Vec<u32> = on_down().filter(|stripe| lost(*stripe) == worst).collect();
        stripes.sort_unstable();
        stripes.dedup();
        if stripes.len() > few { Vec::new() } else { stripes }
    }

    pub fn is_over(&self) -> bool {
        self.down.is_empty()
    }

    /// Without memory, so it may be drawn anew whenever the rate changes.
    fn draw_recovery(&mut self, random: &mut Random) {
        self.next_recovery = match self.down.len() {
            0 => f64::INFINITY,
            failed => self.now + draw_exponential(random) / self.model.repair_rate(failed),
        };
    }
}
