//! What an experiment came to on the emulated network: each value beside the simulated one, with
//! what explains the difference.
//!
//! Place: between emulating an experiment and its report. It is kept as JSON, so that a report can
//! be written of what was finished before and points that failed are tried again; its values as
//! CSV, with all numbers that an explanation was made of; and each point as the scenario that
//! `suture testbed run` reads.

use serde::{Deserialize, Serialize};

use super::table::shown;

/// What was measured of an experiment on the emulated network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Emulated {
    /// How links and chunks were scaled down, and what is left out, in words.
    pub scale: String,
    /// Emulated and simulated beside each other.
    pub rows: Vec<EmulatedRow>,
    /// Points of which nothing was measured, which may be tried again.
    #[serde(default)]
    pub failed: Vec<FailedPoint>,
    /// What was run, point by point.
    #[serde(default)]
    pub scenarios: Vec<KeptScenario>,
}

/// One value of one policy at one point: simulated with the numbers of the testbed, and measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EmulatedRow {
    /// The title of the panel that has the point.
    pub panel: String,
    /// The point's name in its panel.
    pub label: String,
    /// The policy under the paper's name.
    pub series: String,
    /// The policy as it was run.
    pub policy: String,
    /// What is compared between policies.
    pub what: EmulatedWhat,
    /// What the simulator comes to, the draw in the middle.
    pub simulated: Option<Spread>,
    /// What the testbed came to, the repetition in the middle.
    pub emulated: Option<Spread>,
    /// What no policy can be better than, or what there is without a repair.
    pub bound: Option<f64>,
    /// Repetitions that came to their end.
    pub runs: usize,
    /// What held it back: links, processor, both or neither.
    pub limit: String,
    /// The numbers that explain a difference.
    pub facts: Option<EmulatedFacts>,
    /// Why both differ, where they do by more than a tenth.
    pub why: String,
    /// Why there is no value, where there is none.
    pub refused: Option<String>,
}

/// What is compared between both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EmulatedWhat {
    /// From the declaration of the failure to the last commit.
    #[default]
    Seconds,
    /// Rebuilt bytes in a second of that time.
    Throughput,
    /// Bytes that nodes send for each lost byte.
    Traffic,
    /// Processor time of the coordinator, from the failure on.
    CoordinatorSeconds,
    /// What applications wait beside the repair, at the 99th percentile.
    P99,
    /// How much longer applications take for the same requests.
    Degree,
}

/// One value of several, and the ends of all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Of the run whose time is in the middle.
    pub value: f64,
    /// The least of all.
    pub least: f64,
    /// The most of all.
    pub most: f64,
}

/// Within what a value lies with 95 %, by chance alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Within {
    /// Not less than this.
    pub least: f64,
    /// Not more than this, if enough was measured to exclude more.
    pub most: Option<f64>,
    /// So many requests, or clients, it was measured of.
    pub of: u64,
}

impl Within {
    /// Whether both may be the same value.
    pub fn overlaps(&self, other: &Within) -> bool {
        let reaches = |one: &Within, to: &Within| one.most.is_none_or(|most| most >= to.least);
        reaches(self, other) && reaches(other, self)
    }
}

/// A point that came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedPoint {
    /// The title of its panel.
    pub panel: String,
    /// The point's name in its panel.
    pub label: String,
    /// The error that ended it.
    pub why: String,
}

/// A point as `suture testbed run` reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptScenario {
    /// The title of its panel.
    pub panel: String,
    /// The point's name in its panel.
    pub label: String,
    /// The scenario, as TOML.
    pub toml: String,
    /// What uplinks follow, where they follow something: a row a second, Mbit/s.
    pub uplinks: Option<String>,
    /// The file that downlinks follow, where they change.
    pub downlinks: Option<String>,
}

/// What was measured of a repair and of its simulation beside what is compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EmulatedFacts {
    /// From the declaration of the failure to the last commit.
    pub seconds: f64,
    /// The same in the simulator: planning, and from the first dispatch to the last chunk.
    pub simulated_seconds: f64,
    /// Processor seconds of planning in the simulator.
    pub planning_seconds: f64,
    /// From the declaration to the dispatch of the first repair.
    pub start_seconds: Option<f64>,
    /// From the last bytes on links to the last commit.
    pub end_seconds: Option<f64>,
    /// From the failure to its declaration, which counts in neither time.
    pub noticed_seconds: f64,
    /// The link that was used most.
    pub busiest_link: String,
    /// What part of what it could that link carried.
    pub busiest_part: f64,
    /// The same of the link that is used most in the simulator.
    pub simulated_busiest_part: f64,
    /// In what part of the time some link was full.
    pub full_part: f64,
    /// The same in the simulator.
    pub simulated_full_part: f64,
    /// What part of all cores was busy.
    pub processor_part: f64,
    /// Chunks that were lost, and their bytes.
    pub lost_chunks: u64,
    /// What these chunks have in all.
    pub lost_bytes: u64,
    /// All that nodes sent, from the failure on.
    pub sent_bytes: f64,
    /// The same in the simulator.
    pub simulated_sent_bytes: f64,
    /// What nodes send in as much time without a failure, where that was watched.
    pub idle_sent_bytes: Option<f64>,
    /// Processor seconds of the coordinator, from the failure on.
    pub coordinator_seconds: f64,
    /// What it takes in as much time without a failure, where that was watched.
    pub idle_coordinator_seconds: Option<f64>,
    /// What daemons counted of what nodes sent.
    pub traffic: Option<TrafficFacts>,
    /// What the coordinator's process did, where it was watched without a failure.
    pub coordinator: Option<CoordinatorFacts>,
    /// Requests of applications, where there were any.
    pub requests: Option<RequestFacts>,
}

/// What daemons counted of what nodes sent for a repair, beside what the simulator has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrafficFacts {
    /// Payload that agents sent for repairs.
    pub payload_bytes: f64,
    /// What the plans that repairs began with move, as a whole.
    pub begun_bytes: f64,
    /// How many repairs began.
    pub begun: f64,
    /// Repairs that went on by another plan.
    pub replaced: f64,
    /// How many attempts failed.
    pub failed: f64,
    /// What plans that repairs began with move in the simulator.
    pub simulated_begun_bytes: f64,
    /// Repairs that went on by another plan in the simulator.
    pub simulated_replaced: f64,
}

/// What the coordinator's process did, and what it takes of the processor for that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CoordinatorFacts {
    /// How often the testbed asked for its status.
    pub status_asks: f64,
    /// Processor seconds of such a question, measured without a failure.
    pub status_seconds: f64,
    /// Messages of repairs to agents and from them, as many as in the simulator.
    pub messages: f64,
    /// Processor seconds of a heartbeat, measured without a failure.
    pub heartbeat_seconds: f64,
    /// Processor seconds of the thread that commits locations.
    pub metadata_seconds: f64,
}

/// What requests took in milliseconds, on the testbed and in the simulator. Means are of what each
/// client came to with a repair and without one, in both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestFacts {
    /// On average beside the repair.
    pub mean_ms: f64,
    /// What of that passed without a byte of the request.
    pub waited_ms: f64,
    /// On average without a repair.
    pub alone_ms: f64,
    /// What of that passed without a byte of the request.
    pub alone_waited_ms: f64,
    /// On average beside the repair, simulated.
    pub simulated_ms: f64,
    /// On average without a repair, simulated.
    pub simulated_alone_ms: f64,
    /// Of the request at the 99th percentile, what passed without a byte of it.
    pub p99_waited_ms: f64,
    /// At the 99th percentile without a repair.
    pub alone_p99_ms: f64,
    /// Of that request, what passed without a byte of it.
    pub alone_p99_waited_ms: f64,
    /// At the 99th percentile without a repair, simulated.
    pub simulated_alone_p99_ms: f64,
    /// How long a link takes for what an idle one lets pass at once.
    pub bucket_ms: f64,
    /// How many requests means are of.
    pub common: u64,
    /// On average beside the simulated repair, of what clients come to beside that in which lanes
    /// share connections too.
    pub lanes_ms: Option<f64>,
    /// The same of those beside that one.
    pub connection_ms: Option<f64>,
    /// At the 99th percentile of the same, as it was.
    pub lanes_p99_ms: Option<f64>,
    /// At the 99th percentile of the same, beside that one.
    pub connection_p99_ms: Option<f64>,
    /// What requests have of full links, in place of connections, where that was measured.
    pub share: Option<ShareFacts>,
    /// At the 99th percentile beside the repair, of the requests that means are of.
    pub common_p99_ms: Option<f64>,
    /// The same in the simulator.
    pub simulated_common_p99_ms: Option<f64>,
    /// What part of their links the slowest of these have while their bytes move.
    pub slowest_part: Option<f64>,
    /// The same of the slowest in the simulator.
    pub simulated_slowest_part: Option<f64>,
    /// Within what the 99th percentile beside the repair lies.
    pub p99_within: Option<Within>,
    /// The same in the simulator.
    pub simulated_p99_within: Option<Within>,
    /// Within what the interference degree lies, in percent.
    pub degree_within: Option<Within>,
    /// The same in the simulator.
    pub simulated_degree_within: Option<Within>,
}

/// What requests have of full links beside the repair, on the testbed and in the simulator, and
/// what comes of it if they have as much in the simulator as on the testbed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShareFacts {
    /// What part of its full link a request has while its bytes move, on the testbed.
    pub measured: f64,
    /// Of so many requests.
    pub requests: u64,
    /// The same part in the simulator.
    pub simulated: f64,
    /// In what part of the time in which bytes of requests move their links are full and shared.
    pub full_time: f64,
    /// The same in the simulator.
    pub simulated_full_time: f64,
    /// What part of the bytes of requests moves on such links.
    pub full_bytes: f64,
    /// The same in the simulator where it is simulated again.
    pub reached_full_bytes: f64,
    /// In what part of the time they do so there.
    pub reached_full_time: f64,
    /// So many times the share of a lane requests have where it is simulated again.
    pub factor: f64,
    /// What part of its full link a request has there, which is the nearest to the testbed's.
    pub reached: f64,
    /// On average beside the simulated repair as it was, of what clients come to in both.
    pub lanes_ms: f64,
    /// The same where it is simulated again.
    pub mean_ms: f64,
    /// At the 99th percentile of the same, as it was.
    pub lanes_p99_ms: f64,
    /// At the 99th percentile of the same, where it is simulated again.
    pub p99_ms: f64,
    /// How long the repair takes there.
    pub seconds: f64,
}

impl Emulated {
    /// Whether nothing of it is to be tried again.
    pub fn is_whole(&self) -> bool {
        self.failed.is_empty()
    }

    /// Whether a point, or a policy at it, came to nothing.
    pub fn has_failed(&self, panel: &str, label: &str) -> bool {
        self.failed.iter().any(|failed| failed.panel == panel && failed.label == label)
    }

    /// Its rows of a point.
    pub fn rows_at(&self, panel: &str, label: &str) -> impl Iterator<Item = &EmulatedRow> {
        self.rows.iter().filter(move |row| row.panel == panel && row.label == label)
    }

    /// What was run at a point.
    pub fn scenario_at(&self, panel: &str, label: &str) -> Option<&KeptScenario> {
        self.scenarios.iter().find(|kept| kept.panel == panel && kept.label == label)
    }

    /// The files that are kept of it beside its JSON, by what stands behind the experiment's name:
    /// its values, and the scenarios with what they read.
    pub fn files(&self) -> Vec<(String, String)> {
        let mut files = vec![("-emulated.csv".to_string(), csv(&self.rows))];
        for kept in &self.scenarios {
            let place = |ending: &str| format!("-emulated/{}{ending}", kept.file_stem());
            files.push((place(".toml"), kept.toml.clone()));
            let traces = [(UPLINKS, &kept.uplinks), (DOWNLINKS, &kept.downlinks)];
            let traces = traces.into_iter().filter_map(|(end, csv)| Some((end, csv.as_ref()?)));
            files.extend(traces.map(|(end, csv)| (place(end), csv.clone())));
        }
        files
    }
}

/// Behind the name of a scenario in that of the file with what uplinks follow.
pub const UPLINKS: &str = "-uplinks.csv";
/// The same of downlinks.
pub const DOWNLINKS: &str = "-downlinks.csv";

impl KeptScenario {
    /// The name of its file without ending: letters and digits of its panel and label.
    pub fn file_stem(&self) -> String {
        file_stem(&self.panel, &self.label)
    }
}

/// The name of a point's files without ending.
pub fn file_stem(panel: &str, label: &str) -> String {
    let text = format!("{panel} {label}").to_lowercase();
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

impl EmulatedWhat {
    /// In words, for tables.
    pub fn name(self) -> &'static str {
        match self {
            EmulatedWhat::Seconds => "repair time",
            EmulatedWhat::Throughput => "repair throughput",
            EmulatedWhat::Traffic => "network traffic per lost byte",
            EmulatedWhat::CoordinatorSeconds => "coordinator time (CPU)",
            EmulatedWhat::P99 => "P99 latency of applications",
            EmulatedWhat::Degree => "interference degree",
        }
    }

    /// Whether it is of requests of applications.
    pub fn is_of_requests(self) -> bool {
        matches!(self, EmulatedWhat::P99 | EmulatedWhat::Degree)
    }

    /// The unit that stands behind each number.
    pub fn unit(self) -> &'static str {
        match self {
            EmulatedWhat::Seconds | EmulatedWhat::CoordinatorSeconds => "s",
            EmulatedWhat::Throughput => "MB/s",
            EmulatedWhat::Traffic => "",
            EmulatedWhat::P99 => "ms",
            EmulatedWhat::Degree => "%",
        }
    }

    /// How much the testbed came to more than the simulator, as a part. Degrees are compared by how
    /// long applications take, since those near zero are many times each other.
    pub fn apart(self, simulated: f64, emulated: f64) -> f64 {
        match self {
            EmulatedWhat::Degree => (100.0 + emulated) / (100.0 + simulated) - 1.0,
            _ => emulated / simulated - 1.0,
        }
    }
}

impl EmulatedRow {
    /// What is to be said of it beside its numbers.
    pub fn words(&self) -> &str {
        self.refused.as_deref().unwrap_or(&self.why)
    }

    /// A value with its unit, for tables; a dash where there is none.
    pub fn text(&self, value: Option<f64>) -> String {
        let text = value.map_or("-".to_string(), shown);
        let unit = if value.is_some() { self.what.unit() } else { "" };
        format!("{text} {unit}").trim_end().to_string()
    }
}

/// Every row, a line each, with all that its explanation was made of.
fn csv(rows: &[EmulatedRow]) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    let heads = "panel,place,series,policy,what,unit,simulated,simulated_least,simulated_most,\
                 emulated,emulated_least,emulated_most,bound,runs,limit";
    let facts_heads: Vec<&str> = facts(&EmulatedFacts::default()).iter().map(|f| f.0).collect();
    let mut out = format!("{heads},{},why,refused\n", facts_heads.join(","));
    for row in rows {
        let spread = |spread: Option<Spread>| {
            [spread.map(|s| s.value), spread.map(|s| s.least), spread.map(|s| s.most)].map(number)
        };
        let mut cells: Vec<String> = [&row.panel, &row.label, &row.series, &row.policy]
            .map(|text| quoted(text))
            .into_iter()
            .chain([row.what.name(), row.what.unit()].map(quoted))
            .chain(spread(row.simulated))
            .chain(spread(row.emulated))
            .chain([number(row.bound), row.runs.to_string(), quoted(&row.limit)])
            .collect();
        match &row.facts {
            Some(found) => cells.extend(facts(found).into_iter().map(|(_, value)| number(value))),
            None => cells.extend(facts_heads.iter().map(|_| String::new())),
        }
        cells.extend([quoted(&row.why), quoted(row.refused.as_deref().unwrap_or(""))]);
        out += &cells.join(",");
        out.push('\n');
    }
    out
}

/// The numbers that explain a difference, by name.
fn facts(of: &EmulatedFacts) -> Vec<(&'static str, Option<f64>)> {
    let traffic = |value: fn(&TrafficFacts) -> f64| of.traffic.as_ref().map(value);
    let coordinator = |value: fn(&CoordinatorFacts) -> f64| of.coordinator.as_ref().map(value);
    let mut facts = vec![
        ("seconds", Some(of.seconds)),
        ("simulated_seconds", Some(of.simulated_seconds)),
        ("planning_seconds", Some(of.planning_seconds)),
        ("start_seconds", of.start_seconds),
        ("end_seconds", of.end_seconds),
        ("noticed_seconds", Some(of.noticed_seconds)),
        ("busiest_part", Some(of.busiest_part)),
        ("simulated_busiest_part", Some(of.simulated_busiest_part)),
        ("full_part", Some(of.full_part)),
        ("simulated_full_part", Some(of.simulated_full_part)),
        ("processor_part", Some(of.processor_part)),
        ("lost_chunks", Some(of.lost_chunks as f64)),
        ("lost_bytes", Some(of.lost_bytes as f64)),
        ("sent_bytes", Some(of.sent_bytes)),
        ("simulated_sent_bytes", Some(of.simulated_sent_bytes)),
        ("idle_sent_bytes", of.idle_sent_bytes),
        ("coordinator_seconds", Some(of.coordinator_seconds)),
        ("idle_coordinator_seconds", of.idle_coordinator_seconds),
        ("payload_bytes", traffic(|t| t.payload_bytes)),
        ("begun_bytes", traffic(|t| t.begun_bytes)),
        ("begun", traffic(|t| t.begun)),
        ("replaced", traffic(|t| t.replaced)),
        ("failed", traffic(|t| t.failed)),
        ("simulated_begun_bytes", traffic(|t| t.simulated_begun_bytes)),
        ("simulated_replaced", traffic(|t| t.simulated_replaced)),
        ("status_asks", coordinator(|c| c.status_asks)),
        ("status_seconds", coordinator(|c| c.status_seconds)),
        ("messages", coordinator(|c| c.messages)),
        ("heartbeat_seconds", coordinator(|c| c.heartbeat_seconds)),
        ("metadata_seconds", coordinator(|c| c.metadata_seconds)),
    ];
    facts.extend(request_facts(of.requests.as_ref()));
    facts
}

/// Those of requests, by name.
fn request_facts(of: Option<&RequestFacts>) -> Vec<(&'static str, Option<f64>)> {
    let requests = |value: fn(&RequestFacts) -> f64| of.map(value);
    let known = |value: fn(&RequestFacts) -> Option<f64>| of.and_then(value);
    let share = |value: fn(&ShareFacts) -> f64| Some(value(of?.share.as_ref()?));
    vec![
        ("mean_ms", requests(|r| r.mean_ms)),
        ("waited_ms", requests(|r| r.waited_ms)),
        ("alone_ms", requests(|r| r.alone_ms)),
        ("alone_waited_ms", requests(|r| r.alone_waited_ms)),
        ("simulated_ms", requests(|r| r.simulated_ms)),
        ("simulated_alone_ms", requests(|r| r.simulated_alone_ms)),
        ("p99_waited_ms", requests(|r| r.p99_waited_ms)),
        ("alone_p99_ms", requests(|r| r.alone_p99_ms)),
        ("alone_p99_waited_ms", requests(|r| r.alone_p99_waited_ms)),
        ("simulated_alone_p99_ms", requests(|r| r.simulated_alone_p99_ms)),
        ("bucket_ms", requests(|r| r.bucket_ms)),
        ("common", requests(|r| r.common as f64)),
        ("lanes_ms", known(|r| r.lanes_ms)),
        ("connection_ms", known(|r| r.connection_ms)),
        ("lanes_p99_ms", known(|r| r.lanes_p99_ms)),
        ("connection_p99_ms", known(|r| r.connection_p99_ms)),
        ("full_share", share(|s| s.measured)),
        ("full_share_requests", share(|s| s.requests as f64)),
        ("simulated_full_share", share(|s| s.simulated)),
        ("full_time", share(|s| s.full_time)),
        ("simulated_full_time", share(|s| s.simulated_full_time)),
        ("full_bytes", share(|s| s.full_bytes)),
        ("reached_full_bytes", share(|s| s.reached_full_bytes)),
        ("reached_full_time", share(|s| s.reached_full_time)),
        ("share_factor", share(|s| s.factor)),
        ("reached_full_share", share(|s| s.reached)),
        ("share_lanes_ms", share(|s| s.lanes_ms)),
        ("share_ms", share(|s| s.mean_ms)),
        ("share_lanes_p99_ms", share(|s| s.lanes_p99_ms)),
        ("share_p99_ms", share(|s| s.p99_ms)),
        ("share_seconds", share(|s| s.seconds)),
        ("common_p99_ms", known(|r| r.common_p99_ms)),
        ("simulated_common_p99_ms", known(|r| r.simulated_common_p99_ms)),
        ("slowest_part", known(|r| r.slowest_part)),
        ("simulated_slowest_part", known(|r| r.simulated_slowest_part)),
        ("p99_least", known(|r| Some(r.p99_within?.least))),
        ("p99_most", known(|r| r.p99_within?.most)),
        ("p99_of", known(|r| Some(r.p99_within?.of as f64))),
        ("simulated_p99_least", known(|r| Some(r.simulated_p99_within?.least))),
        ("simulated_p99_most", known(|r| r.simulated_p99_within?.most)),
        ("simulated_p99_of", known(|r| Some(r.simulated_p99_within?.of as f64))),
        ("degree_least", known(|r| Some(r.degree_within?.least))),
        ("degree_most", known(|r| r.degree_within?.most)),
        ("simulated_degree_least", known(|r| Some(r.simulated_degree_within?.least))),
        ("simulated_degree_most", known(|r| r.simulated_degree_within?.most)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> EmulatedRow {
        EmulatedRow {
            panel: "TPC-H, congested".into(),
            label: "(6,4)".into(),
            series: "RP".into(),
            policy: "rp".into(),
            simulated: Some(Spread { value: 2.0, least: 1.5, most: 2.5 }),
            emulated: Some(Spread { value: 3.0, least: 3.0, most: 3.25 }),
            runs: 3,
            limit: "links".into(),
            facts: Some(EmulatedFacts { start_seconds: Some(0.25), ..EmulatedFacts::default() }),
            why: "50.0 % more: \"so\"".into(),
            ..EmulatedRow::default()
        }
    }

    #[test]
    fn every_row_is_a_line_with_the_numbers_of_its_explanation() {
        let refused =
            EmulatedRow { refused: Some("no, not this".into()), ..EmulatedRow::default() };
        let text = csv(&[row(), refused]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        let first = "\"TPC-H, congested\",\"(6,4)\",\"RP\",\"rp\",\"repair time\",\"s\",2,1.5,2.5,3,3,3.25,";
        assert!(lines[1].starts_with(first), "{}", lines[1]);
        assert!(lines[1].ends_with("\"50.0 % more: \"\"so\"\"\",\"\""), "{}", lines[1]);
        assert!(lines[2].ends_with(",\"\",\"no, not this\""), "{}", lines[2]);
        // The first two cells of the first row have a comma each, the reason of the second has one.
        let counts: Vec<usize> = lines.iter().map(|line| line.matches(',').count()).collect();
        assert_eq!(counts, [counts[0], counts[0] + 2, counts[0] + 1]);
        let at = lines[0].split(',').position(|head| head == "start_seconds").unwrap();
        assert_eq!(lines[1].split(',').nth(at + 2), Some("0.25"));
    }

    #[test]
    fn a_scenario_is_kept_beside_what_its_links_follow() {
        let kept = KeptScenario {
            panel: "traffic".into(),
            label: "RS, k=5".into(),
            toml: "x = 1".into(),
            uplinks: Some("8\n".into()),
            downlinks: None,
        };
        let emulated = Emulated { scenarios: vec![kept], ..Emulated::default() };
        let files = emulated.files();
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        let stem = "-emulated/traffic-rs-k-5";
        let expected =
            ["-emulated.csv".into(), format!("{stem}.toml"), format!("{stem}-uplinks.csv")];
        assert_eq!(names, expected);
    }

    #[test]
    fn degrees_are_apart_by_how_long_applications_take() {
        // 5 % and 15 % longer: not three times, but 105 against 115.
        let apart = EmulatedWhat::Degree.apart(5.0, 15.0);
        assert!((apart - 10.0 / 105.0).abs() < 1e-12, "{apart}");
        assert!((EmulatedWhat::Seconds.apart(2.0, 3.0) - 0.5).abs() < 1e-12);
        assert_eq!(row().text(Some(3.0)), "3.00 s");
        assert_eq!(row().text(None), "-");
    }

    #[test]
    fn intervals_overlap_where_both_may_be_the_same_value() {
        let within = |least, most| Within { least, most, of: 100 };
        let few = within(90.0, None);
        assert!(few.overlaps(&within(100.0, Some(120.0))) && few.overlaps(&within(500.0, None)));
        assert!(within(50.0, Some(90.0)).overlaps(&few));
        assert!(!within(50.0, Some(89.0)).overlaps(&few) && !few.overlaps(&within(1.0, Some(2.0))));
    }

    #[test]
    fn facts_of_an_earlier_version_are_read() {
        let facts = r#"{"seconds":2.5,"requests":{"mean_ms":3.0,"bucket_ms":110.0}}"#;
        let facts: EmulatedFacts = serde_json::from_str(facts).unwrap();
        assert_eq!((facts.seconds, facts.traffic, facts.coordinator), (2.5, None, None));
        let requests = facts.requests.unwrap();
        assert_eq!((requests.mean_ms, requests.common, requests.p99_within), (3.0, 0, None));
        assert_eq!(requests.share, None);
    }

    #[test]
    fn what_is_kept_is_read_again() {
        let emulated = Emulated { rows: vec![row()], ..Emulated::default() };
        let text = serde_json::to_string(&emulated).unwrap();
        assert_eq!(serde_json::from_str::<Emulated>(&text).unwrap(), emulated);
        assert!(text.contains("\"what\":\"seconds\""), "{text}");
    }
}
