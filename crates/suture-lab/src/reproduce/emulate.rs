//! The same experiments as processes on an emulated network, where that can be done.
//!
//! Place: the whole life of a repair, on real sockets, beside what the simulator says of the very
//! same stripes, links and applications. Rates and chunks are scaled down, so that one machine
//! carries all nodes; what it costs the machine is measured too, since a full processor measures
//! nothing of links. `emulate/listed.rs` says what is measured, `bed.rs` makes scenarios of it,
//! `predict.rs` asks the simulator, and `share.rs` once more with what requests have of full links;
//! `both.rs` and `chance.rs` bring requests of both together, and `why.rs` explains what differs.
//!
//! Invariant: a point that fails, or is interrupted, ends no other and is noted with its reason.

mod bed;
mod both;
mod cause;
mod chance;
mod held_up;
mod listed;
mod predict;
mod share;
mod why;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use suture_repair::policy::Policy;
use suture_repair::stripe::Stripe;

use self::bed::{BedRules, CHUNKS, LINK_MAX, LINKS, PointBed, TIMES, scaled};
use self::both::BothSides;
use self::cause::UNEXPLAINED;
use self::chance::SLOWEST;
use self::listed::{EmulatedFigure, EmulatedPoint, LostChunks, QUICK_POINTS};
use self::predict::{Draw, Predictor, draw_count, nodes_of};
use self::share::Again;
use super::emulated::{
    CoordinatorFacts, Emulated, EmulatedFacts, EmulatedRow, EmulatedWhat, FailedPoint,
    KeptScenario, RequestFacts, Spread, TrafficFacts,
};
use super::experiment::{Extent, Paper, PaperExperiment, Series};
use super::runner::IS_STOPPED;
use super::traces::Traces;
use crate::testbed::campaign::{self, Campaign};
use crate::testbed::exported::RepairCounts;
use crate::testbed::figures::{IdleRates, RepairFigures, RunDetails};
use crate::testbed::scenario::Experiment as Bed;
use crate::testbed::shaping::{BURST_BYTES, GOODPUT};

/// What is emulated of experiments by now: each with what it came to.
pub type Known<'a> = [(&'a PaperExperiment, &'a Emulated)];

/// So many repetitions more are made where a difference is not explained: then the one in the
/// middle of three counts.
const AGAIN: usize = 2;

/// One policy at a point, as it is run.
struct RunSeries {
    series: &'static Series,
    policy: Policy,
    /// Why agents cannot execute it, if so.
    refused: Option<String>,
}

/// Whether all that can be emulated of an experiment is among what it came to.
pub fn is_whole(experiment: &PaperExperiment, emulated: Option<&Emulated>) -> bool {
    listed::of(experiment).is_none() || emulated.is_some_and(Emulated::is_whole)
}

/// What is measured of an experiment on the emulated network; `None` where nothing is. What is
/// `known` of it or of an equal point of another experiment is not measured again. After an
/// interruption points are missing, and named.
///
/// # Errors
/// When an experiment names a policy that there is not.
pub fn perform(
    experiment: &PaperExperiment,
    extent: Extent,
    traces: &Traces,
    known: &Known<'_>,
) -> Result<Option<Emulated>> {
    let Some(figure) = listed::of(experiment) else { return Ok(None) };
    let mut emulated = Emulated { scale: scale(experiment, figure, extent), ..Emulated::default() };
    let mut missing = Vec::new();
    for at in figure.measured(experiment, extent) {
        let series = series(&at)?;
        match reused(figure, &at, &series, known) {
            Some((rows, kept)) => {
                emulated.rows.extend(rows);
                emulated.scenarios.push(kept);
            }
            None => missing.push((at, series)),
        }
    }
    let rules = BedRules { figure, experiment, extent, traces };
    let minutes = Duration::from_secs(60 * u64::from(figure.minutes));
    let each = minutes.checked_div(missing.len() as u32).unwrap_or_default();
    for (at, series) in missing {
        let why = match measure(&rules, &at, &series, Instant::now() + each) {
            Ok((rows, kept, failed)) => {
                emulated.rows.extend(rows);
                emulated.scenarios.push(kept);
                failed
            }
            Err(error) => Some(format!("{error:#}")),
        };
        if let Some(why) = why {
            let (panel, label) = (at.panel.title.to_string(), at.point.label.to_string());
            errln!("{} at {label}: not measured: {why}", experiment.name());
            emulated.failed.push(FailedPoint { panel, label, why });
        }
    }
    in_order(&mut emulated, &figure.points(experiment));
    Ok(Some(emulated))
}

/// Points in the order of their figure, whichever were measured first.
fn in_order(emulated: &mut Emulated, points: &[EmulatedPoint]) {
    let place = |panel: &str, label: &str| {
        points.iter().position(|at| at.panel.title == panel && at.point.label == label)
    };
    emulated.rows.sort_by_key(|row| place(&row.panel, &row.label));
    emulated.scenarios.sort_by_key(|kept| place(&kept.panel, &kept.label));
}

/// The policies of a point, as they are run.
fn series(at: &EmulatedPoint) -> Result<Vec<RunSeries>> {
    let code = at.point.setting.code()?;
    let one = |series: &'static Series| {
        let policy = scaled(series.policy.parse::<Policy>()?);
        let unfit = policy.runnable().err().map(|why| why.to_string());
        let refusal = || crate::executable::refusal(policy, &code).map(|why| why.to_string());
        anyhow::Ok(RunSeries { series, policy, refused: unfit.or_else(refusal) })
    };
    at.panel.series.iter().map(one).collect()
}

/// What is known of a point, if all of it is: of this experiment, or of another one that has the
/// same setting under the same policies.
fn reused(
    figure: &EmulatedFigure,
    at: &EmulatedPoint,
    series: &[RunSeries],
    known: &Known<'_>,
) -> Option<(Vec<EmulatedRow>, KeptScenario)> {
    known.iter().find_map(|(other, emulated)| {
        let of = listed::of(other)?;
        let is_alike = (of.lost, of.chunk_bytes) == (figure.lost, figure.chunk_bytes);
        let is_same = |there: &EmulatedPoint| is_alike && there.point.setting == at.point.setting;
        of.points(other).iter().filter(|there| is_same(there)).find_map(|there| {
            let kept = emulated.scenario_at(there.panel.title, there.point.label)?;
            if emulated.has_failed(there.panel.title, there.point.label) {
                return None;
            }
            let (panel, label) = (at.panel.title.to_string(), at.point.label.to_string());
            let wanted = series.iter().flat_map(|run| figure.shows.iter().map(move |w| (run, *w)));
            let row = |(run, what): (&RunSeries, EmulatedWhat)| {
                let policy = run.policy.to_string();
                let mut rows = emulated.rows_at(there.panel.title, there.point.label);
                let found = rows.find(|row| row.policy == policy && row.what == what)?;
                let (panel, label) = (panel.clone(), label.clone());
                let series = run.series.name.to_string();
                Some(EmulatedRow { panel, label, series, ..found.clone() })
            };
            let rows = wanted.map(row).collect::<Option<Vec<EmulatedRow>>>()?;
            let (panel, label) = (panel.clone(), label.clone());
            Some((rows, KeptScenario { panel, label, ..kept.clone() }))
        })
    })
}

/// One point under every policy that agents can execute, with the failure of one that came to
/// nothing; no second repetition is begun that would last longer than `until`.
fn measure(
    rules: &BedRules<'_>,
    at: &EmulatedPoint,
    series: &[RunSeries],
    until: Instant,
) -> Result<(Vec<EmulatedRow>, KeptScenario, Option<String>)> {
    if IS_STOPPED.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    let served = series.iter().filter(|run| run.refused.is_none());
    let policies: Vec<Policy> = served.map(|run| run.policy).collect();
    let bed = PointBed::new(rules, at, &policies)?;
    let mut campaign = Campaign::new(bed.read()?);
    campaign.until = Some(until);
    campaign.stop = Some(&IS_STOPPED);
    campaign::measure(&mut campaign, |campaign, network| {
        errln!("{}: testbed {}", campaign.experiment.title, network.run());
    })?;
    if campaign.runs.iter().all(|run| run.result.is_err()) {
        let why = campaign.runs.first().and_then(|run| run.result.as_ref().err());
        bail!("{}", why.map_or("no repair was made", String::as_str));
    }
    let rows = |campaign: &Campaign| -> Vec<EmulatedRow> {
        series.iter().flat_map(|run| rows_of(rules.figure, campaign, &bed, run)).collect()
    };
    let mut found = rows(&campaign);
    if measure_again(&mut campaign, &found) {
        found = rows(&campaign);
    }
    for row in &mut found {
        (row.panel, row.label) = (at.panel.title.to_string(), at.point.label.to_string());
    }
    Ok((found, bed.kept, failure(&campaign)))
}

/// Measures the policies again of which a row has a difference that nothing explains: it may be of
/// one repetition alone. Returns whether there are more repetitions now.
fn measure_again(campaign: &mut Campaign, rows: &[EmulatedRow]) -> bool {
    let is_puzzling = |policy: &Policy| {
        let name = policy.to_string();
        rows.iter().any(|row| row.policy == name && row.why.contains(UNEXPLAINED))
    };
    let policies = campaign.experiment.policies.iter().copied().filter(is_puzzling);
    let policies: Vec<Policy> = policies.collect();
    if policies.is_empty() || IS_STOPPED.load(Ordering::Relaxed) {
        return false;
    }
    let experiment = Bed { policies, repetitions: AGAIN, ..campaign.experiment.clone() };
    let mut again = Campaign { stop: campaign.stop, ..Campaign::new(experiment) };
    let made = campaign::measure(&mut again, |again, network| {
        let title = &again.experiment.title;
        errln!("{title}, what is not explained, again: testbed {}", network.run());
    });
    if let Err(why) = made {
        errln!("{}: it was not measured again: {why:#}", campaign.experiment.title);
    }
    let before = campaign.runs.len();
    campaign.runs.extend(again.runs.into_iter().filter(|run| run.result.is_ok()));
    campaign.runs.len() > before
}

/// The first policy of which no repair was made, and why.
fn failure(campaign: &Campaign) -> Option<String> {
    let of = |policy: &Policy| {
        let mut runs = campaign.runs.iter().filter(|run| run.policy == *policy);
        let failed = runs.clone().find_map(|run| run.result.as_ref().err());
        runs.all(|run| run.result.is_err()).then(|| {
            let why = failed.map_or("it was not begun", String::as_str);
            format!("{policy}: {why}")
        })
    };
    campaign.experiment.policies.iter().find_map(of)
}

/// The rows of one policy, whatever became of it.
fn rows_of(
    figure: &EmulatedFigure,
    campaign: &Campaign,
    bed: &PointBed,
    run: &RunSeries,
) -> Vec<EmulatedRow> {
    let row = |what: &EmulatedWhat| EmulatedRow {
        series: run.series.name.to_string(),
        policy: run.policy.to_string(),
        what: *what,
        ..EmulatedRow::default()
    };
    let refused = |why: String| -> Vec<EmulatedRow> {
        let refused = |what| EmulatedRow { refused: Some(why.clone()), ..row(what) };
        figure.shows.iter().map(refused).collect()
    };
    if let Some(why) = &run.refused {
        return refused(why.clone());
    }
    let mut results = campaign.runs.iter().filter(|made| made.policy == run.policy);
    let made = results.clone().filter_map(|made| made.result.as_ref().ok());
    let made: Vec<&RepairFigures> = made.collect();
    let Some(typical) = campaign.typical(run.policy) else {
        let why = results.find_map(|made| made.result.as_ref().err());
        return refused(why.cloned().unwrap_or_else(|| "no repair was made".to_string()));
    };
    let (slow, stripes, policy) = (bed.slow, &typical.stripes[..], run.policy);
    let predictor = Predictor { bed: &campaign.experiment, slow, stripes, policy };
    let drawn = predictor.draws();
    let are_requests_shown = figure.shows.iter().any(|what| what.is_of_requests());
    let again = match &drawn {
        Ok(draws) if are_requests_shown => {
            let logs = typical.details.requests.as_ref();
            middle(draws).and_then(|draw| Again::of(&predictor, draw, logs))
        }
        _ => None,
    };
    let (made, drawn) = (&made[..], &drawn);
    let compared = Compare { bed: predictor.bed, made, typical, drawn, again };
    let mut rows: Vec<EmulatedRow> =
        figure.shows.iter().map(|what| compared.row(row(what))).collect();
    let lies = typical.stripes.first().map(nodes_of);
    if bed.first.is_some() && lies != bed.first {
        let careful = "careful: the stripe lay on other nodes than its links were chosen for";
        for row in &mut rows {
            let words = [row.why.as_str(), careful].into_iter().filter(|words| !words.is_empty());
            row.why = words.collect::<Vec<_>>().join("; ");
        }
    }
    rows
}

/// What the repetitions of a policy came to, and the simulator for the one in the middle.
struct Compare<'a> {
    bed: &'a Bed,
    made: &'a [&'a RepairFigures],
    typical: &'a RepairFigures,
    drawn: &'a Result<Vec<Draw>>,
    /// The draw in the middle again, with other shares of requests.
    again: Option<Again>,
}

/// The draw that counts.
fn middle(draws: &[Draw]) -> Option<&Draw> {
    draws.get(draws.len() / 2)
}

impl Compare<'_> {
    /// The row with its values, and why they differ.
    fn row(&self, row: EmulatedRow) -> EmulatedRow {
        let (what, typical) = (row.what, self.typical);
        let row = EmulatedRow {
            emulated: spread(self.made.iter().map(|run| of_run(what, run)), of_run(what, typical)),
            bound: self.bound(what),
            runs: self.made.len(),
            limit: typical.limit.name().to_string(),
            ..row
        };
        let draws = match self.drawn {
            Ok(draws) => draws,
            Err(why) => {
                return EmulatedRow { refused: Some(format!("the simulator: {why:#}")), ..row };
            }
        };
        let Some(draw) = middle(draws) else { return row };
        let of_draw = |draw: &Draw| of_draw(what, draw, typical.lost_bytes as f64);
        let simulated = spread(draws.iter().map(of_draw), of_draw(draw));
        let facts = self.facts(draw);
        let (Some(emulated), Some(drawn)) = (row.emulated, simulated) else {
            let refused = Some("no request of applications was answered meanwhile".to_string());
            return EmulatedRow { simulated, refused, ..row };
        };
        let why = why::why(what, drawn, emulated.value, &facts);
        EmulatedRow { simulated, facts: Some(facts), why, ..row }
    }

    /// What no policy can be better than, or what applications have without a repair.
    fn bound(&self, what: EmulatedWhat) -> Option<f64> {
        let RepairFigures { bound_seconds, lost_bytes, stripes, details, .. } = self.typical;
        match what {
            EmulatedWhat::Seconds => Some(*bound_seconds),
            EmulatedWhat::Throughput => Some(*lost_bytes as f64 / bound_seconds / 1e6),
            EmulatedWhat::Traffic => Some(self.least_traffic(stripes)),
            EmulatedWhat::CoordinatorSeconds => None,
            EmulatedWhat::P99 => {
                details.requests.as_ref()?.alone.at(SLOWEST).map(|time| 1e3 * time.seconds)
            }
            EmulatedWhat::Degree => Some(0.0),
        }
    }

    /// What helpers of the code must send for each lost byte, at least.
    fn least_traffic(&self, stripes: &[Stripe]) -> f64 {
        let (mut sent, mut lost) = (0.0, 0u32);
        for stripe in stripes {
            for (chunk, record) in stripe.code.chunks().zip(&stripe.chunks) {
                if record.node.is_some_and(|node| self.bed.failed.contains(&node)) {
                    let sub_chunks = f64::from(stripe.code.least_helper_sub_chunks(chunk));
                    sent += sub_chunks / f64::from(stripe.code.sub_chunk_count());
                    lost += 1;
                }
            }
        }
        sent / f64::from(lost)
    }

    /// The numbers that explain a difference.
    fn facts(&self, draw: &Draw) -> EmulatedFacts {
        let RepairFigures { details, seconds, detection_seconds, .. } = self.typical;
        // What is counted from the failure on is so much longer.
        let counted = seconds + detection_seconds;
        EmulatedFacts {
            seconds: *seconds,
            simulated_seconds: draw.seconds,
            planning_seconds: draw.planning_seconds,
            start_seconds: details.start_seconds,
            end_seconds: details.end_seconds,
            noticed_seconds: *detection_seconds,
            busiest_link: self.typical.busiest_link.port.clone(),
            busiest_part: self.typical.busiest_link.part,
            simulated_busiest_part: draw.busiest_part,
            full_part: self.typical.timeline.full_part().unwrap_or(0.0),
            simulated_full_part: draw.full_part,
            processor_part: self.typical.processor_part,
            lost_chunks: self.typical.lost_chunks,
            lost_bytes: self.typical.lost_bytes,
            sent_bytes: details.sent_bytes as f64,
            simulated_sent_bytes: draw.sent_bytes,
            idle_sent_bytes: details.idle.map(|idle| idle.sent_bytes * counted),
            coordinator_seconds: details.coordinator_processor_seconds,
            idle_coordinator_seconds: details.idle.map(|idle| idle.coordinator_processor * counted),
            traffic: details.counts.map(|counts| traffic(&counts, draw)),
            coordinator: details.idle.map(|idle| coordinator(details, idle, draw)),
            requests: self.requests(details, draw),
        }
    }

    fn requests(&self, details: &RunDetails, draw: &Draw) -> Option<RequestFacts> {
        let (logs, drawn) = (details.requests.as_ref()?, draw.requests.as_ref()?);
        let rate = self.bed.cluster.nodes.first()?.uplink.0 * GOODPUT;
        let bucket_ms = 1e3 * BURST_BYTES as f64 / rate;
        let again = self.again.as_ref();
        BothSides { logs, drawn, again, bucket_ms }.facts()
    }
}

/// What daemons counted of what nodes sent, beside a draw.
fn traffic(counts: &RepairCounts, draw: &Draw) -> TrafficFacts {
    TrafficFacts {
        payload_bytes: counts.payload_bytes,
        begun_bytes: counts.dispatched_bytes - counts.replacing_bytes,
        begun: counts.started - counts.replaced,
        replaced: counts.replaced,
        failed: counts.failed,
        simulated_begun_bytes: draw.dispatched.begun_bytes as f64,
        simulated_replaced: draw.dispatched.replaced as f64,
    }
}

/// What the coordinator's process did, by what it takes at rest and beside a draw.
fn coordinator(details: &RunDetails, idle: IdleRates, draw: &Draw) -> CoordinatorFacts {
    CoordinatorFacts {
        status_asks: details.status_asks as f64,
        status_seconds: idle.status_processor,
        messages: draw.dispatched.messages as f64,
        heartbeat_seconds: idle.coordinator_processor / idle.heartbeats.max(1.0),
        metadata_seconds: details.metadata_seconds,
    }
}

/// A value among all of its kind; `None` where the value is none.
fn spread(all: impl Iterator<Item = Option<f64>>, value: Option<f64>) -> Option<Spread> {
    let value = value?;
    let ends = |(least, most): (f64, f64), value: f64| (least.min(value), most.max(value));
    let (least, most) = all.flatten().fold((value, value), ends);
    Some(Spread { value, least, most })
}

/// What one repetition came to.
fn of_run(what: EmulatedWhat, run: &RepairFigures) -> Option<f64> {
    let (seconds, bytes) = (run.seconds, run.lost_bytes as f64);
    match what {
        EmulatedWhat::Seconds => Some(seconds),
        EmulatedWhat::Throughput => Some(bytes / seconds / 1e6),
        EmulatedWhat::Traffic => Some(run.details.sent_bytes as f64 / bytes),
        EmulatedWhat::CoordinatorSeconds => Some(run.details.coordinator_processor_seconds),
        EmulatedWhat::P99 => {
            let slowest = run.details.requests.as_ref()?.beside.at(SLOWEST)?;
            Some(1e3 * slowest.seconds)
        }
        EmulatedWhat::Degree => Some(100.0 * run.details.requests.as_ref()?.interference()?),
    }
}

/// What one draw of the simulator came to, where so many bytes were lost.
fn of_draw(what: EmulatedWhat, draw: &Draw, lost_bytes: f64) -> Option<f64> {
    match what {
        EmulatedWhat::Seconds => Some(draw.seconds),
        EmulatedWhat::Throughput => Some(lost_bytes / draw.seconds / 1e6),
        EmulatedWhat::Traffic => Some(draw.sent_bytes / lost_bytes),
        EmulatedWhat::CoordinatorSeconds => Some(draw.planning_seconds),
        EmulatedWhat::P99 => draw.requests.as_ref().map(|requests| requests.p99_ms),
        EmulatedWhat::Degree => draw.requests.as_ref().map(|requests| 100.0 * requests.degree),
    }
}

/// How an experiment is scaled down, and what is left out of it.
fn scale(experiment: &PaperExperiment, figure: &EmulatedFigure, extent: Extent) -> String {
    let points = figure.measured(experiment, extent);
    let has = |of: fn(&EmulatedPoint) -> bool| points.iter().any(of);
    let mbit = LINK_MAX * 8.0 / 1e6;
    let mut parts = vec![
        format!("links carry a {LINKS:.0}th of the paper's rate, at most {mbit:.0} Mbit/s"),
        match figure.chunk_bytes {
            Some(bytes) => format!("chunks have {} KiB", bytes >> 10),
            None => format!("chunks have a {CHUNKS}nd of the paper's bytes"),
        },
        match figure.lost_chunks(extent) {
            LostChunks::One => "the lost chunk is that of a single stripe".to_string(),
            LostChunks::About(lost) => format!("about {lost} chunks are lost"),
        },
        "disks are memory, and rebuilt chunks go to any node".to_string(),
    ];
    if experiment.paper == Paper::ChameleonEc && extent.is_quick {
        parts.push(format!(
            "phases and what comes before a node turns slow take a {TIMES}th of the paper's time, \
             a repair less"
        ));
    } else if experiment.paper == Paper::ChameleonEc {
        parts.push(format!(
            "a repair takes a {TIMES}th of the paper's time, and so do phases and what comes before \
             a node turns slow"
        ));
    }
    if has(|at| at.point.setting.straggler.is_some()) {
        parts.push(
            "a node that turns slow keeps a part of its rates in both directions, and nobody is \
             told of it"
                .to_string(),
        );
    }
    if has(|at| at.point.setting.trace.is_some()) {
        parts.push(
            "links follow one start of their trace, by the rule that the simulated figures have, \
             and agents are told what they had at its beginning, and send no faster"
                .to_string(),
        );
    }
    if has(|at| at.point.setting.foreground.is_some()) {
        parts.push(
            "applications are clients that wait for each answer, of values as long as the paper's, \
             answered by the nodes and not by the store; coordinators are not told what they take"
                .to_string(),
        );
    }
    parts.extend(figure.omissions(experiment));
    if extent.is_quick {
        parts.push(format!(
            "with --quick there are fewer chunks and requests, and no more than {QUICK_POINTS} \
             points"
        ));
    }
    let repetitions = extent.repetitions;
    parts.push(format!(
        "up to {repetitions} repetitions on {}, and {AGAIN} more where a difference is not \
         explained, of which the one in the middle is shown, from the declaration of the failure to \
         the last commit, planning included; the simulator has the very stripes{} and the goodput \
         of links, and shows the one in the middle of {} draws",
        crate::testbed::usage::machine_name(),
        if has(|at| at.point.setting.foreground.is_some()) { ", requests" } else { "" },
        draw_count(figure.lost == LostChunks::One),
    ));
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::papers;

    fn found(name: &str) -> (&'static PaperExperiment, &'static EmulatedFigure) {
        let experiment = papers::find(name).unwrap()[0];
        (experiment, listed::of(experiment).unwrap())
    }

    fn point(name: &str, label: &str) -> EmulatedPoint {
        let (experiment, figure) = found(name);
        let points = figure.points(experiment);
        *points.iter().find(|at| at.point.label == label).unwrap()
    }

    /// What a figure came to at a point, all policies alike.
    fn measured(name: &str, label: &str) -> Emulated {
        let (at, (_, figure)) = (point(name, label), found(name));
        let (panel, label) = (at.panel.title.to_string(), label.to_string());
        let mut rows = Vec::new();
        for run in series(&at).unwrap() {
            rows.extend(figure.shows.iter().map(|what| EmulatedRow {
                panel: panel.clone(),
                label: label.clone(),
                series: "of another figure".into(),
                policy: run.policy.to_string(),
                what: *what,
                runs: 3,
                ..EmulatedRow::default()
            }));
        }
        let kept = KeptScenario { panel, label, toml: "x = 1".into(), ..KeptScenario::default() };
        Emulated { rows, scenarios: vec![kept], ..Emulated::default() }
    }

    #[test]
    fn a_point_that_an_equal_one_has_measured_is_not_measured_again() {
        for (from, at, to, label) in [
            ("repairboost/fig9", "1 Gb/s", "repairboost/fig11", "RS(6,3)"),
            ("pivotrepair/fig5", "(6,4)", "pivotrepair/fig6", "64 MiB"),
            ("chameleonec/fig12", "IBM", "chameleonec/fig13", "IBM"),
        ] {
            let mut emulated = measured(from, at);
            let (other, _) = found(from);
            let (_, figure) = found(to);
            let there = point(to, label);
            let runs = series(&there).unwrap();
            let (rows, kept) = reused(figure, &there, &runs, &[(other, &emulated)]).unwrap();
            assert_eq!(rows.len(), runs.len() * figure.shows.len(), "{to}");
            assert_eq!((kept.label.as_str(), kept.toml.as_str()), (label, "x = 1"));
            for row in &rows {
                assert_eq!((row.panel.as_str(), row.label.as_str()), (there.panel.title, label));
                assert!(runs.iter().any(|run| run.series.name == row.series), "{}", row.series);
            }
            // Another point is another thing, and so is one that misses a policy.
            let elsewhere = point("repairboost/fig9", "0.5 Gb/s");
            let runs_elsewhere = series(&elsewhere).unwrap();
            let (_, fig9) = found("repairboost/fig9");
            assert!(reused(fig9, &elsewhere, &runs_elsewhere, &[(other, &emulated)]).is_none());
            emulated.rows.retain(|row| row.policy != runs[0].policy.to_string());
            assert!(reused(figure, &there, &runs, &[(other, &emulated)]).is_none());
        }
    }

    #[test]
    fn an_experiment_is_whole_when_no_point_of_it_failed() {
        let (fig9, _) = found("repairboost/fig9");
        let mut emulated = measured("repairboost/fig9", "1 Gb/s");
        assert!(is_whole(fig9, Some(&emulated)) && !is_whole(fig9, None));
        assert!(is_whole(papers::find("car/fig8").unwrap()[0], None), "nothing of it is emulated");
        let why = "interrupted".to_string();
        emulated.failed.push(FailedPoint { panel: "bandwidth".into(), label: "x".into(), why });
        assert!(!is_whole(fig9, Some(&emulated)));
    }

    #[test]
    fn how_it_is_scaled_says_what_differs_and_what_is_left_out() {
        for (name, words) in [
            (
                "repairboost/fig9",
                &["a 50th of the paper's rate", "left out are 2 Gb/s, 5 Gb/s"][..],
            ),
            ("repairboost/fig10", &["chunks have 16 KiB", "about 100 chunks"]),
            ("pivotrepair/fig5", &["that of a single stripe", "one start of their trace"]),
            ("chameleonec/fig12", &["a 5th of the paper's time", "very stripes, requests"]),
            ("chameleonec/fig22", &["keeps a part of its rates", "5 s of 'whole repair'"]),
        ] {
            let (experiment, figure) = found(name);
            let text = scale(experiment, figure, Extent { repetitions: 3, is_quick: false });
            assert!(!text.contains("--quick") && text.contains("up to 3 repetitions"), "{text}");
            assert!(words.iter().all(|word| text.contains(word)), "{name}: {text}");
        }
    }

    #[test]
    fn a_value_stands_among_all_of_its_kind() {
        let all = [Some(3.0), None, Some(1.0), Some(2.0)];
        let expected = Spread { value: 2.0, least: 1.0, most: 3.0 };
        assert_eq!(spread(all.into_iter(), Some(2.0)), Some(expected));
        assert_eq!(spread(all.into_iter(), None), None);
    }
}
