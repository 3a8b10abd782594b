//! What is written of experiments: reports of one whose values are made up, and the page of the
//! documentation, which is the list of claims of a whole run.
//!
//! Place: after the last step of a reproduction.

use std::path::Path;

use super::claim::{Claim, Quantity, Said, of};
use super::experiment::{PanelSpec, Paper, PaperExperiment, PrintedValue, Series};
use super::folder::{Configuration, Emulated, Finished, FinishedEmulation, FinishedTables};
use super::metric::Metric;
use super::papers;
use super::report::{Reproduction, markdown, page};
use super::table::{Cell, Group, PanelTable, Table};
use super::traces::Traces;

const PRINTED: &[PrintedValue] = &[
    PrintedValue { label: "here", series: "CR", value: 1.64 },
    PrintedValue { label: "here", series: "PPT", value: 13100.0 },
];

const SERIES: &[Series] = &[
    Series { name: "CR", policy: "cr" },
    Series { name: "PPT", policy: "ppt" },
    Series { name: "suture", policy: "suture" },
];

const PANELS: [PanelSpec; 2] = [
    PanelSpec {
        title: "a&b",
        metric: Metric::Seconds,
        points: &[],
        series: SERIES,
        printed: PRINTED,
    },
    PanelSpec {
        title: "planning",
        metric: Metric::PlanSeconds,
        points: &[],
        series: SERIES,
        printed: &[],
    },
];

/// A chart of which the paper's text prints two values, one of a policy that refuses here.
pub static SIMULATED: PanelSpec = PANELS[0];

/// A chart of which the paper's text prints nothing, and which has no bound.
pub static TIMED: PanelSpec = PANELS[1];

static EXPERIMENT: PaperExperiment = PaperExperiment {
    paper: Paper::Car,
    id: "fig0",
    title: "Made up",
    did: "Nothing.",
    here: "Nothing.",
    panels: &PANELS,
    claims: &[
        Claim {
            text: "suture is slower than CR",
            place: "nowhere",
            quantity: Quantity::Above(of(&["suture"]).panel(&["a&b"]), of(&["CR"])),
            said: Said::Positive,
            apart: "",
        },
        Claim {
            text: "PPT takes hours",
            place: "nowhere",
            quantity: Quantity::Mean(of(&["PPT"])),
            said: Said::Between(13100.0, 13100.0),
            apart: "",
        },
    ],
};

/// What either chart came to.
pub fn panel() -> PanelTable {
    let cell = |series: &str, values: &[f64], refused: Option<&str>| Cell {
        series: series.into(),
        policy: series.to_lowercase(),
        values: values.to_vec(),
        refused: refused.map(str::to_string),
    };
    let cells = vec![
        cell("CR", &[1.5, 2.0], None),
        cell("PPT", &[], Some("it would try <26 million> trees")),
        cell("suture", &[4.0], None),
    ];
    PanelTable {
        title: "a&b".into(),
        what: "time".into(),
        unit: "s".into(),
        is_logarithmic: false,
        bound_name: Some("bound".into()),
        groups: vec![Group { label: "here".into(), bound: Some(0.5), cells }],
    }
}

fn finished() -> Finished {
    let timed = PanelTable { title: "planning".into(), bound_name: None, ..panel() };
    let outcome = FinishedTables {
        table: Table { panels: vec![panel(), timed] },
        starts: Vec::new(),
        seconds: 75.0,
        machine: "2 x processor".into(),
    };
    Finished { experiment: &EXPERIMENT, outcome, emulation: None }
}

/// The text, the list of claims and the page.
fn reports(finished: Finished) -> [String; 3] {
    let configuration = Configuration {
        format: "suture-reproduce-1".into(),
        version: "9.8.7".into(),
        program: "c0ffee00".into(),
        quick: true,
        seeds: 1,
        traces: "models".into(),
        testbed: false,
    };
    let reproduction = Reproduction {
        configuration: &configuration,
        planned: 3,
        finished: &[finished],
        traces: &Traces::read(None).unwrap(),
    };
    [markdown::report(&reproduction), markdown::claims(&reproduction), page::html(&reproduction)]
}

fn check(text: &str, expected: &[&str]) {
    for part in expected {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn each_chart_says_how_it_came_about_what_the_paper_prints_and_what_is_not_there() {
    let [text, _, page] = reports(finished());
    check(
        &text,
        &[
            "*a&b*: time, s; simulated\n",
            "| | CR | PPT | suture | bound |\n",
            "| here | 1.75 (1.64) | - (13100) | 4.00 | 0.500 |\n",
            "\nIn parentheses: what the paper's text prints.\n",
            "\nNot measured: PPT at here: it would try <26 million> trees.\n",
            "*planning*: time, s; planned, and timed on this machine\n",
            "| here | 1.75 | - | 4.00 |\n",
            "\nNo bound: ",
        ],
    );
    check(
        &page,
        &[
            ">simulated</text>",
            "<td class=\"n\">1.75 (1.64)</td><td class=\"n\">- (13100)</td>",
            "<p class=\"muted\">In parentheses: what the paper's text prints.</p>",
            "Not measured: PPT at here: it would try &lt;26 million&gt; trees.</p>",
            ">planned, and timed on this machine</text>",
            "<p class=\"muted\">No bound: ",
        ],
    );
}

#[test]
fn claims_that_could_not_be_measured_are_counted_and_listed_everywhere() {
    let [text, claims, page] = reports(finished());
    let row = "| car | 2 | 1 | 0 | 0 | 1 |\n";
    check(&text, &["not measured |\n", row, "**not measured**"]);
    check(&claims, &[row, "## Claims that could not be measured\n\n- `car/fig0` PPT takes hours"]);
    let cells = "<td class=\"n\">0</td><td class=\"n\">1</td></tr>";
    check(&page, &["<th>not measured</th></tr>", cells, "Claims that could not be measured (1)"]);
}

#[test]
fn a_report_says_how_long_it_took_and_on_what() {
    let said = "1 of 3 experiments, one seed (--quick); suture 9.8.7. They took 1 min 15 s on 2 x \
                processor.";
    for report in reports(finished()) {
        check(&report, &[said, "With --quick, figures that have many requests of applications"]);
    }
    let emulation = FinishedEmulation {
        program: String::new(),
        emulated: Emulated::default(),
        seconds: 3600.0,
    };
    let [text, claims, _] = reports(Finished { emulation: Some(emulation), ..finished() });
    check(&text, &["on 2 x processor, and emulating took 1 h 00 min more."]);
    check(&claims, &["## Simulated and emulated, side by side\n\n### car/fig0\n"]);
}

#[test]
fn the_page_of_the_documentation_is_of_this_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reproduction.md");
    let page = std::fs::read_to_string(path).unwrap();
    let renew = "docs/reproduction.md is of another program: `suture reproduce all -o DIR` makes it \
                 anew, as DIR/claims.md";
    let all = papers::all().count();
    let head = format!(
        "- {all} of {all} experiments, seeds 1 to 5; suture {}. They took ",
        env!("CARGO_PKG_VERSION")
    );
    assert!(page.contains(&head), "{renew}; it lacks: {head}");
    let mut count = 0;
    for experiment in papers::all() {
        let name = experiment.name();
        assert!(page.contains(&format!("`{name}`")), "{renew}; it lacks {name}");
        for claim in experiment.claims {
            let line = format!("\n- `{name}` {} ({}): ", claim.text, claim.place);
            assert!(page.contains(&line), "{renew}; it lacks:{line}");
            count += 1;
        }
    }
    let listed = page.lines().filter(|line| line.starts_with("- `")).count();
    assert_eq!(listed, count, "{renew}; it has claims that there are no more");
}
