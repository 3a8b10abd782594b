//! Plans against their definition: random valid plans rebuild the lost bytes, survive JSON, and
//! every way of spoiling one is found by name.

use proptest::prelude::*;
use suture_code::{Code, Program};
use suture_repair::cluster::{Cluster, Rate};
use suture_repair::id::{ChunkIndex, NodeId, StripeId};
use suture_repair::oracle::{self, Chunks};
use suture_repair::plan::arbitrary::arbitrary_plan;
use suture_repair::plan::json::{read_plan, write_plan};
use suture_repair::plan::load::Load;
use suture_repair::plan::validate::{validate, validate_starts};
use suture_repair::plan::{
    Carries, Edge, LaneFault, Plan, PlanFault, Range, SchemeId, Start, StripeFacts,
};
use suture_repair::random::Random;

const NODE_COUNT: usize = 20;

/// A stripe with all its bytes, of which some chunks are lost.
struct World {
    code: Code,
    chunk_bytes: u64,
    survivors: Vec<(ChunkIndex, NodeId)>,
    chunks: Chunks,
}

impl World {
    fn new(random: &mut Random) -> World {
        let names = ["rs(6,3)", "rs(4,2)", "rs(10,4)", "rs(2,1)", "rs(1,2)", "rs(3,3)"];
        let code: Code = random.choose(&names).parse().unwrap();
        // Not always a multiple of the alignment: the last window may be short.
        let chunk_bytes = random.between(1, 1500);
        let mut stripe: Vec<Vec<u8>> = vec![vec![0; chunk_bytes as usize]; code.chunk_count()];
        let (data, parity) = stripe.split_at_mut(code.data_chunks());
        data.iter_mut().for_each(|chunk| random.fill(chunk));
        let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let mut parity: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
        Program::compile(&code.encode_dag()).unwrap().run(&data, &mut parity).unwrap();

        let mut nodes: Vec<NodeId> = (0..NODE_COUNT as u32).map(NodeId).collect();
        random.shuffle(&mut nodes);
        let mut lost: Vec<ChunkIndex> = code.chunks().collect();
        random.shuffle(&mut lost);
        lost.truncate(random.between(1, code.parity_chunks() as u64) as usize);
        World {
            code,
            chunk_bytes,
            survivors: code
                .chunks()
                .zip(nodes)
                .filter(|(chunk, _)| !lost.contains(chunk))
                .collect(),
            chunks: code.chunks().zip(stripe).collect(),
        }
    }

    fn facts(&self) -> StripeFacts<'_> {
        StripeFacts {
            stripe: StripeId(7),
            code: self.code.into(),
            chunk_bytes: self.chunk_bytes,
            survivors: &self.survivors,
            source: None,
        }
    }

    /// What helpers can read: nothing of the lost chunks.
    fn readable(&self) -> Chunks {
        let mut readable = self.chunks.clone();
        readable.retain(|&chunk, _| self.facts().survives(chunk));
        readable
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_valid_plan_rebuilds_the_lost_bytes(seed: u64) {
        let mut random = Random::new(seed);
        let world = World::new(&mut random);
        let plan = arbitrary_plan(&mut random, &world.facts(), NODE_COUNT);
        prop_assert_eq!(validate(&plan, &world.facts(), NODE_COUNT), Ok(()));
        let rebuilt = oracle::execute(&plan, &world.facts(), &world.readable());
        prop_assert_eq!(rebuilt.keys().copied().collect::<Vec<_>>(), plan.lost.clone());
        for (lost, bytes) in rebuilt {
            let wanted = oracle::expected(&world.chunks[&lost], &world.facts(), plan.range);
            prop_assert_eq!(bytes, wanted, "chunk {}", lost);
        }
    }

    #[test]
    fn any_valid_plan_survives_json(seed: u64) {
        let mut random = Random::new(seed);
        let world = World::new(&mut random);
        let mut plan = arbitrary_plan(&mut random, &world.facts(), NODE_COUNT);
        let starts = [Start::Now, Start::After(vec![2, 5]), Start::Slot(3), Start::Wave(4)];
        plan.start = random.choose(&starts).clone();
        let cluster = Cluster::uniform(NODE_COUNT, Rate(1.0));
        prop_assert_eq!(read_plan(&write_plan(&plan, &cluster), &cluster), Ok(plan));
    }

    #[test]
    fn what_is_sent_is_received_and_subtracting_undoes_adding(seed: u64) {
        let mut random = Random::new(seed);
        let world = World::new(&mut random);
        let plan = arbitrary_plan(&mut random, &world.facts(), NODE_COUNT);
        let cluster = Cluster::uniform(NODE_COUNT, Rate(1e6));
        let mut load = Load::of(&cluster, [(&plan, world.facts())]);
        let edges = plan.lanes.iter().flat_map(|lane| &lane.edges);
        let moved: u64 = edges.map(|edge| edge.bytes).sum();
        prop_assert_eq!(load.moved_bytes(), moved);
        prop_assert_eq!(load.nodes().iter().map(|node| node.down_bytes).sum::<u64>(), moved);
        let written = load.nodes().iter().map(|node| node.disk_write_bytes).sum::<u64>();
        prop_assert_eq!(written, plan.lost.len() as u64 * plan.range.bytes());
        load.subtract(&cluster, &plan, &world.facts());
        prop_assert_eq!(load, Load::new(&cluster));
    }

    #[test]
    fn a_plan_with_a_change_in_one_edge_is_refused(seed: u64) {
        let mut random = Random::new(seed);
        let world = World::new(&mut random);
        let mut plan = arbitrary_plan(&mut random, &world.facts(), NODE_COUNT);
        let lane = random.index(plan.lanes.len());
        let edge = random.index(plan.lanes[lane].edges.len());
        let edges = &mut plan.lanes[lane].edges;
        match random.below(4) {
            0 => edges[edge].bytes += 1,
            1 => edges.push(edges[edge].clone()),
            2 => edges[edge].carries = match edges[edge].carries {
                Carries::Partial => Carries::Combined,
                _ => Carries::Partial,
            },
            _ => edges[edge].child = edges[edge].parent,
        }
        prop_assert!(validate(&plan, &world.facts(), NODE_COUNT).is_err());
    }
}

/// rs(3,2) with chunk i on node i, chunk 0 lost, rebuilt on node 5 from 1 -> 2 -> 3 -> 5.
fn chain() -> (Vec<(ChunkIndex, NodeId)>, Plan) {
    let survivors = (1..5).map(|i| (ChunkIndex(i), NodeId(u32::from(i)))).collect();
    let text = r#"{"stripe":0,"lost":[0],"destinations":{"0":"n5"},"range":[0,128],"lanes":[
        {"from":0,"to":128,"mode":"streamed","decoders":[],"edges":[
        ["n1","n2",128,"partial"],["n2","n3",128,"partial"],["n3","n5",128,"partial"]]}]}"#;
    (survivors, read_plan(text, &Cluster::uniform(7, Rate(1.0))).unwrap())
}

fn check(spoil: impl FnOnce(&mut Plan), fault: PlanFault) {
    let (survivors, mut plan) = chain();
    let code: Code = "rs(3,2)".parse().unwrap();
    let facts = StripeFacts {
        stripe: StripeId(0),
        code: code.into(),
        chunk_bytes: 128,
        survivors: &survivors,
        source: None,
    };
    assert_eq!(validate(&plan, &facts, 7), Ok(()));
    spoil(&mut plan);
    assert_eq!(validate(&plan, &facts, 7), Err(fault));
}

fn check_lane(spoil: impl FnOnce(&mut Plan), fault: LaneFault) {
    check(spoil, PlanFault::Lane { lane: 0, fault });
}

#[test]
fn each_rule_of_a_plan_has_its_own_refusal() {
    let (zero, five) = (ChunkIndex(0), NodeId(5));
    check(|p| p.lost.clear(), PlanFault::NothingLost);
    check(|p| p.lost = vec![zero, zero], PlanFault::LostOrder { first: zero, second: zero });
    check(
        |p| p.lost = vec![ChunkIndex(5)],
        PlanFault::NoSuchChunk { chunk: ChunkIndex(5), chunk_count: 5 },
    );
    check(|p| p.lost = vec![ChunkIndex(1)], PlanFault::LostSurvives { chunk: ChunkIndex(1) });
    check(|p| p.destinations.clear(), PlanFault::DestinationMissing { chunk: zero });
    check(
        |p| _ = p.destinations.insert(ChunkIndex(1), five),
        PlanFault::DestinationOfNothing { chunk: ChunkIndex(1), node: five },
    );
    check(
        |p| _ = p.destinations.insert(zero, NodeId(9)),
        PlanFault::NoSuchNode { node: NodeId(9), node_count: 7 },
    );
    check(
        |p| _ = p.destinations.insert(zero, NodeId(4)),
        PlanFault::DestinationHoldsChunk { chunk: zero, node: NodeId(4), held: ChunkIndex(4) },
    );
    let range = Range { from: 0, to: 129 };
    check(|p| p.range = range, PlanFault::BadRange { range, chunk_bytes: 128 });
    check(|p| p.range.from = 3, PlanFault::Misaligned { at: 3, alignment: 64 });
    check(|p| p.period = Some(0), PlanFault::ZeroPeriod);
    check(|p| p.period = Some(70), PlanFault::Misaligned { at: 70, alignment: 64 });
    let (front, back) = (Range { from: 0, to: 64 }, Range { from: 64, to: 128 });
    check(|p| p.lanes[0].range = back, PlanFault::Gap { chunk: zero, range: front });
    check(|p| p.lanes[0].range = front, PlanFault::Gap { chunk: zero, range: back });
    check(
        |p| p.lanes.push(p.lanes[0].clone()),
        PlanFault::Overlap { chunk: zero, range: Range { from: 0, to: 128 } },
    );
}

#[test]
fn each_rule_of_a_lane_has_its_own_refusal() {
    let (one, two, three, five, six) = (NodeId(1), NodeId(2), NodeId(3), NodeId(5), NodeId(6));
    let within = Range { from: 0, to: 128 };
    let range = Range { from: 0, to: 129 };
    check_lane(|p| p.lanes[0].range = range, LaneFault::BadRange { range, within });
    check_lane(|p| p.lanes[0].range.to = 60, LaneFault::Misaligned { at: 60, alignment: 64 });
    check_lane(|p| p.lanes[0].lost.clear(), LaneFault::LostOrder);
    let foreign = ChunkIndex(2);
    let lost = vec![ChunkIndex(0), foreign];
    check_lane(|p| p.lanes[0].lost = lost, LaneFault::LostForeign { chunk: foreign });
    check_lane(
        |p| p.lanes[0].edges[0].child = NodeId(7),
        LaneFault::NoSuchNode { node: NodeId(7), node_count: 7 },
    );
    let code: Code = "rs(3,2)".parse().unwrap();
    let scheme = SchemeId(4);
    check_lane(|p| p.lanes[0].scheme = Some(scheme), LaneFault::NoScheme { scheme, code });
    check_lane(
        |p| p.lanes[0].edges[0].carries = Carries::Traces,
        LaneFault::NoTraces { child: one, code },
    );
    check_lane(
        |p| p.lanes[0].edges[0].carries = Carries::Combined,
        LaneFault::NeedsDecoder { child: one, carries: Carries::Combined },
    );
    check_lane(
        |p| p.lanes[0].edges[2].child = five,
        LaneFault::RootSends { root: five, parent: five },
    );
    check_lane(
        |p| p.lanes[0].edges[1].child = one,
        LaneFault::TwoParents { child: one, first: two, second: three },
    );
    check_lane(|p| p.lanes[0].edges[0].child = six, LaneFault::NothingToSend { node: six });
    check_lane(|p| p.lanes[0].edges[2].parent = six, LaneFault::DeadEnd { node: six, root: five });
    check_lane(|p| p.lanes[0].edges[2].parent = one, LaneFault::Cycle { node: one });
    check_lane(|p| p.lanes[0].decoder = Some(five), LaneFault::SumIntoDecoder { child: one });
    check_lane(
        |p| p.lanes[0].edges[1].bytes = 64,
        LaneFault::Bytes { child: two, parent: three, expected: 128, found: 64 },
    );
    check_lane(
        |p| _ = p.lanes[0].edges.remove(0),
        LaneFault::Helpers(suture_code::CodeError::NotEnoughChunks { needed: 3, available: 2 }),
    );
}

#[test]
fn what_is_wrong_with_an_edge_is_said_with_its_lane_its_nodes_and_both_lengths() {
    let (child, parent) = (NodeId(1), NodeId(2));
    let fault = LaneFault::Bytes { child, parent, expected: 128, found: 64 };
    let text = PlanFault::Lane { lane: 3, fault }.to_string();
    assert_eq!(text, "lane 3: the edge node 1 -> node 2 says 64 bytes but moves 128");
}

#[test]
fn a_gather_has_rules_of_its_own() {
    let gather = |p: &mut Plan| {
        p.lanes[0].decoder = Some(NodeId(6));
        for edge in &mut p.lanes[0].edges {
            edge.parent = NodeId(6);
            edge.carries = Carries::Combined;
        }
        let mut finished = p.lanes[0].edges[0].clone();
        (finished.child, finished.parent) = (NodeId(6), NodeId(5));
        finished.carries = Carries::Finished;
        p.lanes[0].edges.push(finished);
    };
    let (six, five) = (NodeId(6), NodeId(5));
    let spoiled = |spoil: fn(&mut Plan)| {
        move |p: &mut Plan| {
            gather(p);
            spoil(p)
        }
    };
    check_lane(
        spoiled(|p| p.lanes[0].edges[0].parent = NodeId(2)),
        LaneFault::CombinedDetour { child: NodeId(1), parent: NodeId(2), decoder: six },
    );
    check_lane(
        spoiled(|p| p.lanes[0].edges[3].parent = NodeId(0)),
        LaneFault::FinishedDetour { child: six, parent: NodeId(0), decoder: six },
    );
    check_lane(
        spoiled(|p| _ = p.lanes[0].edges.pop()),
        LaneFault::NotDelivered { chunk: ChunkIndex(0), destination: five },
    );
    check_lane(
        spoiled(|p| p.lanes[0].edges[3].bytes = 1),
        LaneFault::Bytes { child: six, parent: five, expected: 128, found: 1 },
    );
}

#[test]
fn traces_have_rules_of_their_own() {
    let code: Code = "rs(3,2)".parse().unwrap();
    let scheme = code.trace_scheme(ChunkIndex(0), &[]).unwrap();
    let bits = scheme.ranks(5);
    assert!(bits.iter().all(|(_, bits)| *bits > 0));
    let six = NodeId(6);
    let id = SchemeId::of(scheme);
    // Helpers 1 to 4 send to node 6, which sends the finished chunk to node 5.
    let traces = |p: &mut Plan| {
        let edge = |&(chunk, bits): &(ChunkIndex, usize)| Edge {
            child: NodeId(chunk.0.into()),
            parent: six,
            bytes: bits as u64 * 16,
            carries: Carries::Traces,
        };
        let finished =
            Edge { child: six, parent: NodeId(5), bytes: 128, carries: Carries::Finished };
        let lane = &mut p.lanes[0];
        (lane.decoder, lane.scheme) = (Some(six), Some(id));
        lane.edges = bits.iter().map(edge).chain([finished]).collect();
    };
    let spoiled = |spoil: fn(&mut Plan)| {
        move |p: &mut Plan| {
            traces(p);
            spoil(p)
        }
    };
    let other = code.trace_scheme(ChunkIndex(1), &[]).unwrap();
    let other_id = SchemeId::of(other);
    check_lane(
        |p| {
            traces(p);
            p.lanes[0].scheme = Some(other_id);
        },
        LaneFault::SchemeForOther { scheme: other_id, chunk: ChunkIndex(1) },
    );
    check_lane(spoiled(|p| p.lanes[0].decoder = None), LaneFault::TracesWithoutDecoder);
    let one = NodeId(1);
    check_lane(spoiled(|p| p.lanes[0].scheme = None), LaneFault::NoTraces { child: one, code });
    check_lane(
        spoiled(|p| p.lanes[0].edges[0].carries = Carries::Combined),
        LaneFault::GatheredOther {
            child: one,
            carries: Carries::Combined,
            gathered: Carries::Traces,
        },
    );
    check_lane(
        spoiled(|p| _ = p.lanes[0].edges.remove(0)),
        LaneFault::TracesMissing { chunk: ChunkIndex(1), scheme: id },
    );
    check_lane(
        spoiled(|p| p.lanes[0].edges[0].parent = NodeId(2)),
        LaneFault::CombinedDetour { child: one, parent: NodeId(2), decoder: six },
    );
    let expected = bits[0].1 as u64 * 16;
    check_lane(
        spoiled(|p| p.lanes[0].edges[0].bytes = 1),
        LaneFault::Bytes { child: one, parent: six, expected, found: 1 },
    );
    // What the destination itself decodes is not sent on.
    let (survivors, mut plan) = chain();
    traces(&mut plan);
    plan.lanes[0].decoder = Some(NodeId(5));
    plan.lanes[0].edges.pop();
    plan.lanes[0].edges.iter_mut().for_each(|edge| edge.parent = NodeId(5));
    let facts = StripeFacts {
        stripe: StripeId(0),
        code: code.into(),
        chunk_bytes: 128,
        survivors: &survivors,
        source: None,
    };
    assert_eq!(validate(&plan, &facts, 7), Ok(()));
}

#[test]
fn plans_of_a_batch_wait_for_each_other_without_a_circle() {
    let batch = |starts: &[&[usize]]| -> Vec<Plan> {
        let start = |after: &[usize]| Start::After(after.to_vec());
        starts.iter().map(|after| Plan { start: start(after), ..chain().1 }).collect()
    };
    assert_eq!(validate_starts(&batch(&[&[], &[0], &[0, 1]])), Ok(()));
    assert_eq!(
        validate_starts(&batch(&[&[], &[3]])),
        Err(PlanFault::StartUnknown { plan: 1, after: 3, plan_count: 2 })
    );
    assert_eq!(validate_starts(&batch(&[&[1], &[0]])), Err(PlanFault::StartCycle { plan: 0 }));
    assert_eq!(validate_starts(&batch(&[&[0]])), Err(PlanFault::StartCycle { plan: 0 }));
}

#[test]
fn the_json_of_a_plan_is_the_contract() {
    let (_, plan) = chain();
    let cluster = Cluster::uniform(7, Rate(1.0));
    assert_eq!(
        write_plan(&plan, &cluster),
        concat!(
            r#"{"stripe":0,"lost":[0],"destinations":{"0":"n5"},"start":null,"range":[0,128],"#,
            r#""period":null,"lanes":[{"from":0,"to":128,"lost":[0],"mode":"streamed","#,
            r#""decoders":[],"scheme":null,"edges":[["n1","n2",128,"partial"],"#,
            r#"["n2","n3",128,"partial"],["n3","n5",128,"partial"]]}]}"#
        )
    );
}

#[test]
fn an_error_in_json_names_the_field() {
    let cluster = Cluster::uniform(7, Rate(1.0));
    let good = write_plan(&chain().1, &cluster);
    for (from, to, message) in [
        ("\"stripe\":0,", "", "stripe is missing"),
        ("\"period\"", "\"perod\"", "perod is no field of suture-plan-1"),
        ("\"n3\",128", "\"n3\",\"128\"", "lanes[0].edges[1][2]: expected a whole number"),
        ("[\"n1\",\"n2\",128,", "[\"n1\",\"n2\",", "lanes[0].edges[0]: expected [child, parent"),
        ("\"n3\",\"n5\"", "\"n3\",\"n9\"", "lanes[0].edges[2][1]: the cluster has no node \"n9\""),
        ("{\"0\":\"n5\"}", "{\"x\":\"n5\"}", "destinations.x: expected a chunk index"),
        (
            "\"lost\":[0],\"dest",
            "\"lost\":[256],\"dest",
            "lost[0]: expected a whole number up to 255",
        ),
        (
            "streamed",
            "steamed",
            "lanes[0].mode: expected one of streamed, stored, found \"steamed\"",
        ),
        (
            "\"decoders\":[]",
            "\"decoders\":[\"n1\",\"n2\"]",
            "lanes[0].decoders: expected at most one",
        ),
        ("\"start\":null", "\"start\":{}", "start: expected null, or exactly one of"),
        ("\"start\":null", "\"start\":{\"slot\":1,\"wave\":2}", "start: expected null, or exactly"),
        ("[0,128]", "[0]", "range: expected [from, to], found [0]"),
        ("]}", "", "not JSON"),
    ] {
        assert!(good.contains(from), "{from}");
        let error = read_plan(&good.replace(from, to), &cluster).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn periods_without_end_are_counted_not_walked_through() {
    let (_, mut plan) = chain();
    (plan.range, plan.period) = (Range { from: 64, to: 1 << 40 }, Some(64));
    let mut lane = plan.lanes[0].clone();
    lane.range = Range { from: 0, to: 64 };
    assert_eq!(plan.lane_bytes(&lane), (1 << 40) - 64);
    assert_eq!(plan.slice_count(&lane, 4096), (1 << 34) - 1);
    assert_eq!(plan.trace_bytes(&lane, 3), 3 * 8 * ((1 << 34) - 1));
    // Longer than any chunk: the only one there is.
    plan.period = Some(u64::MAX - 63);
    lane.range = Range { from: 64, to: u64::MAX - 63 };
    assert_eq!(plan.lane_bytes(&lane), (1 << 40) - 128);
    assert_eq!(plan.pieces(&lane).collect::<Vec<_>>(), [Range { from: 128, to: 1 << 40 }]);
    assert_eq!(plan.slice_ranges(&lane, 1 << 20).count(), 1 << 20);
}
