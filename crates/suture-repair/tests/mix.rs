//! The mix of traces and trees: as far below the bound of whole chunks as it should be, and near
//! the optimum of its own linear program, which a solver from outside computes.

use crate::common::{LINK, Links, World};
use crate::lp::LinearProgram;
use suture_repair::bound::bound_seconds;
use suture_repair::cluster::Rate;
use suture_repair::id::NodeId;
use suture_repair::plan::Plan;
use suture_repair::plan::load::Load;
use suture_repair::plan::validate::validate;
use suture_repair::planner::plan;

/// The busiest port of `suture`'s plans, in seconds; all of them valid.
fn mix_seconds(world: &World, seed: u64) -> f64 {
    let batch = plan("suture".parse().unwrap(), &world.jobs, &world.view(), seed);
    assert_eq!(batch.refused, []);
    for (job, plan) in batch.planned(&world.jobs) {
        assert_eq!(validate(plan, &job.facts(), world.cluster.nodes.len()), Ok(()));
    }
    let planned = batch.planned(&world.jobs).map(|(job, plan)| (plan, job.facts()));
    Load::of(&world.cluster, planned).max_seconds(&world.cluster)
}

fn world(links: Links, nodes: usize, lost: usize, code: &str, seed: u64) -> World {
    World::failed_node(code, nodes, lost, seed).with_links(links, seed + 1000)
}

#[test]
fn traces_go_below_what_whole_chunks_can_do() {
    for (nodes, lost, code) in
        [(16, 100, "rs(6,3)"), (30, 300, "rs(6,3)"), (16, 100, "rs(10,4)"), (30, 300, "rs(10,4)")]
    {
        for (links, most) in [(Links::Equal, 0.72), (Links::Independent, 0.92), (Links::Same, 0.92)]
        {
            let ratio = |seed: u64| {
                let world = world(links, nodes, lost, code, seed);
                mix_seconds(&world, seed) / bound_seconds(&world.jobs, &world.view())
            };
            let mean = (0..3).map(ratio).sum::<f64>() / 3.0;
            assert!(mean <= most, "{nodes} {lost} {code} {}: {mean}", links.name());
        }
    }
}

#[test]
fn traces_are_not_taken_where_disks_are_scarce() {
    let policy = |name: &str, world: &World| {
        let batch = plan(name.parse().unwrap(), &world.jobs, &world.view(), 1);
        let planned = batch.planned(&world.jobs).map(|(job, plan)| (plan, job.facts()));
        let peak = Load::of(&world.cluster, planned).max_seconds(&world.cluster);
        let mut lanes = batch.plans.iter().flat_map(|plan| &plan.lanes);
        (peak, lanes.any(|lane| lane.scheme.is_some()))
    };
    // Reads of so many times the link, and whether traces, which read a third more, gain.
    for (reads, gains) in [(0.2, false), (0.5, false), (0.9, false), (4.0, true)] {
        for links in [Links::Equal, Links::Independent] {
            let mut world = world(links, 30, 300, "rs(6,3)", 2);
            for node in &mut world.cluster.nodes {
                node.disk_read = Some(Rate(reads * node.uplink.0));
            }
            let ((mixed, is_traced), (whole, _)) =
                (policy("suture", &world), policy("flow", &world));
            assert!(mixed <= whole, "{reads} {}: {mixed} {whole}", links.name());
            assert_eq!(is_traced, gains, "{reads} {}", links.name());
        }
    }
}

/// The least time of any fractional mix: for each stripe shares of trees, of traces decoded at a
/// helper (which then sends finished bytes), and of traces decoded at a destination. Tree shares
/// are those of the flow bound: helpers send at most their share, sums arrive anywhere among
/// helpers and destinations.
fn lp_seconds(w: &World) -> f64 {
    let n = w.cluster.nodes.len();
    let mut p = LinearProgram::default();
    let t = p.variable(1.0);
    let (mut up, mut down) = (vec![Vec::new(); n], vec![Vec::new(); n]);
    for job in &w.jobs {
        let k = job.code.data_chunks() as f64;
        let free: Vec<NodeId> = w
            .cluster
            .ids()
            .filter(|x| w.room[x.index()] > 0 && !job.excluded.contains(x))
            .collect();
        let kept: Vec<usize> = free.iter().map(|_| p.variable(0.0)).collect();
        p.equals(kept.iter().map(|v| (*v, 1.0)).collect(), 1.0);
        for (y, v) in free.iter().zip(&kept) {
            down[y.index()].push((*v, 1.0));
        }
        let tau = p.variable(0.0);
        let mut all = vec![(tau, 1.0)];
        let mut sent = vec![(tau, -k)];
        let mut sums = vec![(tau, 1.0 - k)];
        for (_, node) in &job.survivors {
            let u = p.variable(0.0);
            sent.push((u, 1.0));
            p.at_most(vec![(u, 1.0), (tau, -1.0)], 0.0);
            up[node.index()].push((u, 1.0));
            let r = p.variable(0.0);
            sums.push((r, 1.0));
            down[node.index()].push((r, 1.0));
        }
        let mut direct: Vec<Vec<(usize, f64)>> = kept.iter().map(|v| vec![(*v, -1.0)]).collect();
        for (y, node) in free.iter().enumerate() {
            let r = p.variable(0.0);
            sums.push((r, 1.0));
            down[node.index()].push((r, 1.0));
            direct[y].push((r, 1.0 / (k - 1.0)));
        }
        p.equals(sent, 0.0);
        p.equals(sums, 0.0);
        for scheme in job.code.schemes() {
            if scheme.lost() != job.lost[0] {
                continue;
            }
            let ranks = scheme.ranks(job.code.chunk_count());
            let ranks: Vec<(usize, f64)> = ranks
                .iter()
                .map(|(c, r)| {
                    (job.survivors.iter().find(|(x, _)| x == c).unwrap().1.index(), *r as f64 / 8.0)
                })
                .collect();
            let total: f64 = ranks.iter().map(|r| r.1).sum();
            for &(x, own) in &ranks {
                let v = p.variable(0.0);
                all.push((v, 1.0));
                for &(i, r) in &ranks {
                    up[i].push((v, if i == x { 1.0 } else { r }));
                }
                down[x].push((v, total - own));
            }
            for (y, node) in free.iter().enumerate() {
                let v = p.variable(0.0);
                all.push((v, 1.0));
                for &(i, r) in &ranks {
                    up[i].push((v, r));
                }
                down[node.index()].push((v, total - 1.0));
                direct[y].push((v, 1.0));
            }
        }
        p.equals(all, 1.0);
        for row in direct {
            p.at_most(row, 0.0);
        }
    }
    for (i, node) in w.cluster.nodes.iter().enumerate() {
        up[i].push((t, -node.uplink.0 / LINK.0));
        down[i].push((t, -node.downlink.0 / LINK.0));
        p.at_most(std::mem::take(&mut up[i]), 0.0);
        p.at_most(std::mem::take(&mut down[i]), 0.0);
    }
    p.solve()
}

#[test]
fn the_mix_is_near_the_optimum_of_its_linear_program() {
    for code in ["rs(6,3)", "rs(10,4)"] {
        for links in [Links::Equal, Links::Independent, Links::Same] {
            let world = world(links, 16, 60, code, 5);
            let ratio = mix_seconds(&world, 1) / lp_seconds(&world);
            assert!(ratio <= 1.05, "{code} {}: {ratio}", links.name());
            assert!(ratio >= 1.0 - 1e-6, "{code} {}: {ratio}", links.name());
        }
    }
}

#[test]
fn the_shape_trace_takes_traces_wherever_there_are_schemes_even_where_they_are_slower() {
    let has_traces =
        |plan: &Plan| plan.lanes.iter().all(|lane| lane.scheme.is_some() && lane.decoder.is_some());
    for links in [Links::Equal, Links::Independent] {
        let failed = [NodeId(0), NodeId(1)];
        let world = World::failed_nodes("rs(6,3)", 16, &failed, 40, 3).with_links(links, 3);
        let batch = plan("trace/flow/all".parse().unwrap(), &world.jobs, &world.view(), 1);
        assert_eq!(batch.refused, []);
        for (job, plan) in batch.planned(&world.jobs) {
            assert_eq!(validate(plan, &job.facts(), 16), Ok(()));
            assert_eq!(has_traces(plan), job.lost.len() == 1, "{:?}", job.lost);
        }
    }
    // b f / (8 N) is what traces of all helpers need on equal links: 31.2 of 40.0 for k chunks.
    let world = World::failed_node("rs(6,3)", 16, 100, 1);
    let ratio = |policy: &str| {
        let batch = plan(policy.parse().unwrap(), &world.jobs, &world.view(), 1);
        let plans = batch.planned(&world.jobs).map(|(job, plan)| (plan, job.facts()));
        let peak = Load::of(&world.cluster, plans).max_seconds(&world.cluster);
        peak / bound_seconds(&world.jobs, &world.view())
    };
    assert!((0.66..0.80).contains(&ratio("trace/flow/all")), "{}", ratio("trace/flow/all"));
    let mut world = World::failed_node("rs(6,3)", 16, 3, 1);
    world.jobs[1] = World::failed_node("lrc(6,2,2)", 16, 1, 1).jobs.remove(0);
    let batch = plan("trace/flow/all".parse().unwrap(), &world.jobs, &world.view(), 1);
    assert_eq!(batch.plans.len(), 2);
    let reason = batch.refused[0].1.to_string();
    assert_eq!((batch.refused.len(), batch.refused[0].0), (1, 1));
    assert!(reason.ends_with("no scheme is known for lrc(6,2,2); use split or mix"), "{reason}");
    world.abilities.traces = false;
    let batch = plan("trace/flow/all".parse().unwrap(), &world.jobs, &world.view(), 1);
    assert!(batch.refused.iter().all(|(_, error)| error.to_string().contains("'traces'")));
}

#[test]
fn dead_links_are_a_last_resort_for_every_policy_of_ours() {
    for dead in [1..4, 1..12, 1..16] {
        let mut world = World::failed_node("rs(6,3)", 16, 8, 2);
        for node in &mut world.cluster.nodes[dead] {
            (node.uplink, node.downlink) = (Rate(0.0), Rate(0.0));
        }
        for policy in ["trace/flow/all", "mix/flow/all", "split/flow/all"] {
            let batch = plan(policy.parse().unwrap(), &world.jobs, &world.view(), 1);
            assert_eq!(batch.refused, []);
            for (job, plan) in batch.planned(&world.jobs) {
                assert_eq!(validate(plan, &job.facts(), 16), Ok(()));
            }
        }
    }
}

#[test]
fn the_bound_by_prices_is_near_the_linear_program_and_never_above_it() {
    for code in ["rs(6,3)", "rs(10,4)", "rs(3,2)"] {
        for links in [Links::Equal, Links::Independent, Links::Same] {
            for seed in 0..2 {
                let world = world(links, 16, 60, code, seed);
                let policy = "suture".parse().unwrap();
                let batch = plan(policy, &world.jobs, &world.view(), seed);
                let plans = batch.planned(&world.jobs).map(|(job, plan)| (plan, job.facts()));
                let load = Load::of(&world.cluster, plans);
                let own = world.own_bound(policy, &load).unwrap();
                let ratio = own / lp_seconds(&world);
                assert!(ratio <= 1.0 + 1e-6, "{code} {}: {ratio}", links.name());
                let least = if matches!(links, Links::Equal) { 0.94 } else { 0.98 };
                assert!(ratio >= least, "{code} {}: {ratio}", links.name());
            }
        }
    }
}
