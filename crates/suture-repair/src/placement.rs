//! Which nodes a new stripe goes to: the least filled ones, each at most once, and of no rack more
//! than others can spare it.
//!
//! Place: put -> [placement]; before anything can fail.
//! A rack fails as a whole. So the most chunks that one rack gets are as few as the racks allow,
//! and when that many may be lost at all, any rack may be. Below that fill decides, because the
//! nodes of a small rack must not get a chunk of every stripe. A node without a rack is alone.
//!
//! Equally filled nodes are taken in an order that differs from stripe to stripe. Taking them in
//! turn would give each node the same few neighbours, and when it dies only those could help;
//! mixed, each node shares a few stripes with each other, and a repair draws on all.
//!
//! Fill is counted in chunks: what is stored, and what is reserved for puts that have not
//! committed. A node that could not store a chunk gets another of the same put only where no other
//! node can.
//!
//! A put is as slow as its slowest node. One whose link receives far less than is usual gets new
//! chunks only where there are not enough others; rebalancing brings it its part later.
//!
//! Which nodes may keep a rebuilt chunk is asked of a stripe that has most of its nodes already,
//! and of one rack at a time; that rule is `planner/keep.rs`.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::Cluster;
use crate::event::NodeStatus;
use crate::id::{NodeId, RackId, StripeId};
use crate::random::Random;

/// A link that receives so many times less than the median does is slow. Less would take the older
/// ones of a cluster for slow: one gigabit beside ten is usual.
const SLOWER: u64 = 12;

/// Chooses nodes for new stripes and tracks reservations of puts that have not committed.
#[derive(Clone, Debug, Default)]
pub struct Placer {
    reserved: BTreeMap<NodeId, ReservedSpace>,
}

/// What a node is to get.
#[derive(Clone, Copy, Debug, Default)]
struct ReservedSpace {
    /// Chunks that are not committed.
    chunks: u64,
    /// Bytes that are not stored.
    bytes: u64,
}

/// New stripes that need nodes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// The ids of the stripes to place.
    pub stripes: &'a [StripeId],
    /// How many nodes each needs.
    pub width: usize,
    /// The longest that a chunk may be.
    pub chunk_bytes: u64,
    /// Nodes that are chosen only where there are not enough others.
    pub avoid: &'a [NodeId],
    /// Nodes that have chunks of these stripes already, or could not store one: none is chosen, and
    /// those in racks count there.
    pub beside: &'a [NodeId],
}

impl Placer {
    /// Chooses up to `width` nodes for each stripe, of those that are up, with space for one more
    /// chunk beside those that are reserved there. Fewer when there are no more.
    pub fn place(
        &mut self,
        cluster: &Cluster,
        nodes: &[NodeStatus],
        wanted: &Wanted<'_>,
    ) -> Vec<Vec<NodeId>> {
        let slow = slow_nodes(nodes);
        let place = |id: &StripeId| {
            let mut order = Random::new(id.0);
            let candidates = self.candidates(cluster, nodes, wanted, &slow, &mut order);
            let beside = wanted.beside.iter().filter_map(|node| cluster.node(*node).rack);
            let mut nodes = choose(candidates, wanted.width, beside);
            // Which of them holds parity must not depend on how filled they are.
            order.shuffle(&mut nodes);
            for node in &nodes {
                let reserved = self.reserved.entry(*node).or_default();
                reserved.chunks += 1;
                reserved.bytes = reserved.bytes.saturating_add(wanted.chunk_bytes);
            }
            nodes
        };
        wanted.stripes.iter().map(place).collect()
    }

    /// Chunks of at most so many bytes are stored, one on each of these nodes: the free bytes
    /// that are reported there take them into account by now.
    pub fn stored(&mut self, nodes: &[NodeId], chunk_bytes: u64) {
        for node in nodes {
            if let Some(reserved) = self.reserved.get_mut(node) {
                reserved.bytes = reserved.bytes.saturating_sub(chunk_bytes);
            }
        }
    }

    /// Removes reservations: their chunks are stored (and counted there), or the put has ended.
    /// `chunk_bytes` is what each of the chunks could have had, or nothing for those that are
    /// stored.
    pub fn unplace(&mut self, nodes: &[NodeId], chunk_bytes: u64) {
        self.stored(nodes, chunk_bytes);
        for node in nodes {
            if let Some(reserved) = self.reserved.get_mut(node) {
                reserved.chunks = reserved.chunks.saturating_sub(1);
            }
        }
    }

    /// Chunks of puts under way that have their place on this node: those that are stored there,
    /// too, are recorded nowhere else.
    pub fn uncommitted_on(&self, node: NodeId) -> u64 {
        self.reserved.get(&node).map_or(0, |reserved| reserved.chunks)
    }

    fn candidates(
        &self,
        cluster: &Cluster,
        nodes: &[NodeStatus],
        wanted: &Wanted<'_>,
        slow: &BTreeSet<NodeId>,
        order: &mut Random,
    ) -> Vec<FreeNode> {
        let mut candidates = Vec::new();
        for status in nodes {
            let &NodeStatus { node, free_bytes, chunks, .. } = status;
            let reserved = self.reserved.get(&node).copied().unwrap_or_default();
            let has_space = free_bytes > wanted.chunk_bytes.saturating_add(reserved.bytes);
            if status.serves() && has_space && !wanted.beside.contains(&node) {
                let (fill, order) = (chunks + reserved.chunks, order.next_u64());
                let (is_avoided, is_slow) = (wanted.avoid.contains(&node), slow.contains(&node));
                let rack = cluster.node(node).rack;
                candidates.push(FreeNode { is_avoided, is_slow, fill, order, node, rack });
            }
        }
        candidates
    }
}

/// A node that can take a chunk.
#[derive(Clone, Copy, Debug)]
struct FreeNode {
    is_avoided: bool,
    is_slow: bool,
    /// The chunks that it has, or that are reserved there.
    fill: u64,
    /// Its place among equals.
    order: u64,
    node: NodeId,
    rack: Option<RackId>,
}

/// Up to `width` nodes, the least filled first and of equals those whose rack has the least, beside
/// nodes in these racks.
fn choose(
    mut candidates: Vec<FreeNode>,
    width: usize,
    beside: impl Iterator<Item = RackId>,
) -> Vec<NodeId> {
    let mut given: BTreeMap<RackId, usize> = BTreeMap::new();
    beside.for_each(|rack| *given.entry(rack).or_default() += 1);
    let most = most_per_rack(&candidates, width, &given);
    let mut nodes = Vec::with_capacity(width);
    while nodes.len() < width {
        let has = |rack: Option<RackId>| rack.and_then(|rack| given.get(&rack)).map_or(0, |n| *n);
        let open = candidates.iter().enumerate().filter(|(_, c)| has(c.rack) < most);
        let key = |(_, c): &(usize, &FreeNode)| {
            (c.is_avoided, c.is_slow, c.fill, has(c.rack), c.order, c.node)
        };
        let Some((index, _)) = open.min_by_key(key) else { break };
        let chosen = candidates.swap_remove(index);
        chosen.rack.into_iter().for_each(|rack| *given.entry(rack).or_default() += 1);
        nodes.push(chosen.node);
    }
    nodes
}

/// Nodes that serve and whose links receive far less than is usual among those.
fn slow_nodes(nodes: &[NodeStatus]) -> BTreeSet<NodeId> {
    let serving = || nodes.iter().filter(|status| status.serves());
    let received = |status: &NodeStatus| status.links[1].capacity;
    let mut capacities: Vec<u64> = serving().map(received).collect();
    capacities.sort_unstable();
    let usual = capacities.get(capacities.len() / 2).copied().unwrap_or(0);
    let is_slow = |status: &&NodeStatus| {
        // Where it is not known well, it is taken for what it may be at most.
        let most = received(status).saturating_add(status.links[1].uncertainty.unwrap_or(0));
        most.saturating_mul(SLOWER) < usual
    };
    serving().filter(is_slow).map(|status| status.node).collect()
}

/// The least that each rack must be ready to have, beside what is `given`, for so many more chunks
/// to find space.
fn most_per_rack(candidates: &[FreeNode], width: usize, given: &BTreeMap<RackId, usize>) -> usize {
    let mut sizes: BTreeMap<RackId, usize> = BTreeMap::new();
    let in_racks = candidates.iter().filter_map(|candidate| candidate.rack);
    in_racks.for_each(|rack| *sizes.entry(rack).or_default() += 1);
    let alone = candidates.len() - sizes.values().sum::<usize>();
    let takes = |(rack, size): (&RackId, &usize), most: usize| {
        (*size).min(most.saturating_sub(given.get(rack).copied().unwrap_or(0)))
    };
    let taken = |most: usize| alone + sizes.iter().map(|size| takes(size, most)).sum::<usize>();
    let all = width + given.values().sum::<usize>();
    (1..all).find(|&most| taken(most) >= width).unwrap_or(all)
}

/// Of nodes in ascending order, the one that comes after the last one in turn.
pub fn next_in_turn(nodes: &[NodeId], last: Option<NodeId>) -> Option<NodeId> {
    let next = nodes.iter().find(|node| last.is_none_or(|last| **node > last));
    next.or(nodes.first()).copied()
}

#[cfg(test)]
mod tests {
    use crate::cluster::NodeIntent;
    use crate::cluster::Rate;
    use crate::event::Health;
    use crate::message::DiskState;

    use super::*;

    const CHUNK: u64 = 1000;

    fn cluster(nodes: u32) -> (Cluster, Vec<NodeStatus>) {
        let node = |id| NodeStatus {
            node: NodeId(id),
            disk: DiskState::Good,
            is_cut_off: false,
            health: Health::Up,
            intent: NodeIntent::Serving,
            free_bytes: 1_000_000,
            chunks: 0,
            limits: Default::default(),
            links: Default::default(),
        };
        (Cluster::uniform(nodes as usize, Rate(1e6)), (0..nodes).map(node).collect())
    }

    /// Nodes in racks of these sizes.
    fn racks(sizes: &[u32]) -> (Cluster, Vec<NodeStatus>) {
        let (mut cluster, nodes) = cluster(sizes.iter().sum());
        let racks = (0..).zip(sizes).flat_map(|(rack, size)| vec![RackId(rack); *size as usize]);
        for (node, rack) in cluster.nodes.iter_mut().zip(racks) {
            node.rack = Some(rack);
        }
        (cluster, nodes)
    }

    /// How many of the nodes are in each rack, most first.
    fn per_rack(cluster: &Cluster, nodes: &[NodeId]) -> Vec<usize> {
        let mut counts: BTreeMap<Option<RackId>, usize> = BTreeMap::new();
        nodes.iter().for_each(|node| *counts.entry(cluster.node(*node).rack).or_default() += 1);
        let mut counts: Vec<usize> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    fn place(
        placer: &mut Placer,
        world: &(Cluster, Vec<NodeStatus>),
        count: u64,
    ) -> Vec<Vec<NodeId>> {
        placer.place(
            &world.0,
            &world.1,
            &Wanted { stripes: &ids(count), width: 9, chunk_bytes: CHUNK, ..Wanted::default() },
        )
    }

    fn ids(count: u64) -> Vec<StripeId> {
        (0..count).map(StripeId).collect()
    }

    #[test]
    fn chunks_spread_evenly_over_nodes_and_over_pairs_of_nodes() {
        let placed = place(&mut Placer::default(), &cluster(12), 400);
        let mut count = [0; 12];
        let mut together = [0; 12];
        for nodes in &placed {
            nodes.iter().for_each(|node| count[node.index()] += 1);
            if nodes.contains(&NodeId(0)) {
                nodes.iter().for_each(|node| together[node.index()] += 1);
            }
        }
        assert!(count.iter().all(|c| *c == 300), "{count:?}");
        let others = &together[1..];
        assert!(others.iter().all(|c| (200..=240).contains(c)), "{others:?}");
    }

    #[test]
    fn a_stripe_uses_each_node_once_and_only_nodes_that_can_take_it() {
        let mut world = cluster(12);
        world.1[3].health = Health::Suspect;
        world.1[4].free_bytes = CHUNK;
        for nodes in place(&mut Placer::default(), &world, 50) {
            let mut distinct = nodes.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!((nodes.len(), distinct.len()), (9, 9));
            assert!(!nodes.contains(&NodeId(3)) && !nodes.contains(&NodeId(4)));
        }
    }

    #[test]
    fn an_emptier_node_is_preferred_and_promises_count() {
        let (cluster, mut nodes) = cluster(4);
        nodes[0].chunks = 5;
        let mut placer = Placer::default();
        let place = |placer: &mut Placer, count| {
            let stripes = ids(count);
            placer.place(
                &cluster,
                &nodes,
                &Wanted { stripes: &stripes, width: 3, chunk_bytes: CHUNK, ..Wanted::default() },
            )
        };
        let first = place(&mut placer, 1);
        assert!(!first[0].contains(&NodeId(0)));
        place(&mut placer, 5);
        placer.unplace(&first[0], 0);
        assert_eq!(placer.reserved.values().map(|reserved| reserved.chunks).sum::<u64>(), 15);
    }

    #[test]
    fn what_is_promised_takes_its_own_bytes_until_it_is_stored() {
        let (cluster, mut nodes) = cluster(3);
        nodes.iter_mut().for_each(|node| node.free_bytes = 100 * CHUNK);
        let mut placer = Placer::default();
        let place = |placer: &mut Placer, count, chunk_bytes| {
            let wanted =
                Wanted { stripes: &ids(count), width: 3, chunk_bytes, ..Wanted::default() };
            placer.place(&cluster, &nodes, &wanted).concat()
        };
        // A thousand small ones leave space for large ones.
        place(&mut placer, 1000, CHUNK / 1000);
        let large = place(&mut placer, 98, CHUNK);
        assert_eq!(large.len(), 3 * 98);
        assert_eq!(place(&mut placer, 1, CHUNK).len(), 0, "the bytes of 99 are reserved");
        // Stored, they are among what is not free; here all of that is as before.
        placer.stored(&large, CHUNK);
        assert_eq!(place(&mut placer, 1, CHUNK).len(), 3);
        placer.unplace(&large, 0);
        let reserved = placer.reserved[&NodeId(0)];
        assert_eq!((reserved.chunks, reserved.bytes), (1001, 1000 * (CHUNK / 1000) + CHUNK));
    }

    #[test]
    fn which_chunk_a_node_gets_does_not_depend_on_how_filled_it_is() {
        let mut world = cluster(9);
        world.1[0].chunks = 1000;
        let placed = place(&mut Placer::default(), &world, 900);
        let mut places = [0; 9];
        for nodes in &placed {
            places[nodes.iter().position(|node| *node == NodeId(0)).unwrap()] += 1;
        }
        assert!(places.iter().all(|count| (70..=130).contains(count)), "{places:?}");
    }

    #[test]
    fn too_few_nodes_give_a_shorter_list() {
        assert_eq!(place(&mut Placer::default(), &cluster(5), 1)[0].len(), 5);
        assert_eq!(place(&mut Placer::default(), &racks(&[2, 3]), 1)[0].len(), 5);
    }

    #[test]
    fn no_rack_holds_more_than_it_must() {
        for (sizes, most) in [
            (&[4, 4, 4][..], 3),
            (&[3, 3, 3, 3], 3),
            (&[6, 6, 2, 2, 2], 2),
            (&[1, 5, 5, 5], 3),
            (&[1, 5, 5], 4),
            (&[2; 9], 1),
            (&[12], 9),
        ] {
            let world = racks(sizes);
            for nodes in place(&mut Placer::default(), &world, 200) {
                let counts = per_rack(&world.0, &nodes);
                assert_eq!((nodes.len(), counts[0]), (9, most), "{sizes:?}: {counts:?}");
            }
        }
    }

    #[test]
    fn racks_of_one_size_fill_evenly() {
        let world = racks(&[3, 3, 3, 3]);
        let placed = place(&mut Placer::default(), &world, 400);
        let mut count = [0; 12];
        placed.iter().flatten().for_each(|node| count[node.index()] += 1);
        assert!(count.iter().all(|c| *c == 300), "{count:?}");
        assert_eq!(per_rack(&world.0, &placed[0]), [3, 2, 2, 2]);
    }

    #[test]
    fn a_node_outside_of_racks_counts_for_itself() {
        let mut world = racks(&[3, 3, 3, 3]);
        world.0.nodes.iter_mut().take(6).for_each(|node| node.rack = None);
        for nodes in place(&mut Placer::default(), &world, 50) {
            let inside = nodes.iter().filter(|node| world.0.node(**node).rack.is_some());
            let counts = per_rack(&world.0, &inside.copied().collect::<Vec<_>>());
            assert!(counts[0] <= 2, "{counts:?}");
        }
    }

    #[test]
    fn who_could_not_store_a_chunk_is_asked_again_only_when_nobody_else_can() {
        let world = cluster(12);
        let (avoid, stripes) = ([NodeId(0), NodeId(5), NodeId(7)], ids(20));
        let wanted = |width| Wanted {
            stripes: &stripes,
            width,
            chunk_bytes: CHUNK,
            avoid: &avoid,
            ..Wanted::default()
        };
        for nodes in Placer::default().place(&world.0, &world.1, &wanted(9)) {
            assert!(nodes.len() == 9 && avoid.iter().all(|node| !nodes.contains(node)));
        }
        for nodes in Placer::default().place(&world.0, &world.1, &wanted(11)) {
            let avoided = avoid.iter().filter(|node| nodes.contains(node)).count();
            assert_eq!((nodes.len(), avoided), (11, 2));
        }
    }

    #[test]
    fn a_slow_node_is_chosen_only_where_no_other_can_be() {
        let (cluster, mut nodes) = cluster(10);
        let gigabit = 125_000_000;
        nodes.iter_mut().for_each(|node| node.links[1].capacity = 10 * gigabit);
        nodes[2].links[1].capacity = gigabit;
        nodes[7].links[1].capacity = 1_000_000;
        nodes[7].links[0].capacity = gigabit;
        nodes[8].health = Health::Failed;
        assert_eq!(slow_nodes(&nodes), BTreeSet::from([NodeId(7)]));
        let chosen = |width, nodes: &[NodeStatus]| {
            let stripes = ids(40);
            let wanted =
                Wanted { stripes: &stripes, width, chunk_bytes: CHUNK, ..Wanted::default() };
            Placer::default().place(&cluster, nodes, &wanted)
        };
        for placed in chosen(8, &nodes) {
            assert!(placed.len() == 8 && !placed.contains(&NodeId(7)), "{placed:?}");
        }
        assert!(chosen(9, &nodes).iter().all(|placed| placed.contains(&NodeId(7))));
        // One that could not store a chunk comes after one that is slow.
        let avoid = [NodeId(0)];
        let wanted = Wanted {
            stripes: &ids(9)[8..],
            width: 8,
            chunk_bytes: CHUNK,
            avoid: &avoid,
            ..Wanted::default()
        };
        let placed = Placer::default().place(&cluster, &nodes, &wanted).remove(0);
        assert!(placed.contains(&NodeId(7)) && !placed.contains(&NodeId(0)), "{placed:?}");
        // One that may receive more than is known of it is not.
        nodes[7].links[1].uncertainty = Some(gigabit);
        assert_eq!(slow_nodes(&nodes), BTreeSet::new());
        // Where all are alike none is slow, however slow that is.
        nodes.iter_mut().for_each(|node| node.links[1].capacity = 1_000_000);
        assert_eq!(slow_nodes(&nodes), BTreeSet::new());
    }

    #[test]
    fn the_rest_of_a_stripe_goes_beside_what_it_has() {
        // Racks 0 to 2 have the nodes 0..4, 4..8 and 8..12.
        let world = racks(&[4, 4, 4]);
        let beside = [0, 1, 2, 4, 5, 6, 8].map(NodeId);
        for id in ids(50) {
            let stripes = [id];
            let wanted = Wanted {
                stripes: &stripes,
                width: 2,
                chunk_bytes: CHUNK,
                beside: &beside,
                ..Wanted::default()
            };
            let nodes = Placer::default().place(&world.0, &world.1, &wanted).remove(0);
            assert!(nodes.len() == 2 && nodes.iter().all(|node| node.0 > 8), "{nodes:?}");
            let all = Wanted { width: 9, ..wanted };
            assert_eq!(Placer::default().place(&world.0, &world.1, &all)[0].len(), 5);
        }
    }

    #[test]
    fn turns_go_round_over_whoever_is_there() {
        let nodes = [NodeId(1), NodeId(4), NodeId(7)];
        assert_eq!(next_in_turn(&nodes, None), Some(NodeId(1)));
        assert_eq!(next_in_turn(&nodes, Some(NodeId(1))), Some(NodeId(4)));
        assert_eq!(next_in_turn(&nodes, Some(NodeId(5))), Some(NodeId(7)));
        assert_eq!(next_in_turn(&nodes, Some(NodeId(7))), Some(NodeId(1)));
        assert_eq!(next_in_turn(&[], Some(NodeId(7))), None);
    }
}
