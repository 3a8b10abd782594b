//! ChameleonEC, IEEE HPCA 2025: Figures 16, 17, 19, 20 and 22, planning, other schedulers, failures
//! and codes, and stragglers.
//!
//! Place: experiments as data; what all of them have in common is in `foreground.rs`. Figures 18,
//! 23 and 24, of other links and disks, are in `bandwidth.rs`, degraded reads in `degraded.rs`.

mod bandwidth;
mod degraded;

use super::foreground::{
    ALGORITHMS, ALONE, BASE, CHAMELEON, FAST, LENGTHENED, LINKED, OTHERS, YCSB, YCSB_FAST, panel,
    percent, percent_from, percent_up_to, point, printed, series,
};
use crate::reproduce::claim::Quantity::{Above, LeastAbove, LeastBelow, Mean, Most, MostAbove};
use crate::reproduce::claim::{Claim, Pick, Said, of};
use crate::reproduce::experiment::{PanelPoint, PanelSpec, Paper, PaperExperiment, SUTURE, Series};
use crate::reproduce::metric::Metric;
use crate::reproduce::setting::{FigureSetting, Lost};

const fn planned(nodes: usize, chunks: usize) -> FigureSetting {
    FigureSetting { nodes, lost: Lost::Chunks(chunks), ..ALONE }
}

/// So many nodes fail, which have lost 200 chunks together.
const fn failing(failed: usize, base: FigureSetting) -> FigureSetting {
    FigureSetting { failed, lost: Lost::Chunks(200 / failed), ..base }
}

const fn coded(code: &'static str) -> FigureSetting {
    FigureSetting { code, ..BASE }
}

/// What eight readers leave of an uplink beside ten lanes, which CR has there: 19 repairs at a time
/// of ten helpers on 19 nodes.
const LEFT: f64 = 10.0 / 18.0;

/// A node from which eight threads read from then on.
const fn straggling(from: f64) -> FigureSetting {
    FigureSetting { straggler: Some((LEFT, from)), ..BASE }
}

pub const EXPERIMENTS: &[PaperExperiment] = &[
    FIGURE16,
    FIGURE17,
    bandwidth::FIGURE18,
    FIGURE19,
    FIGURE20,
    degraded::FIGURE21,
    FIGURE22,
    bandwidth::FIGURE23,
    bandwidth::FIGURE24,
];

/// All published algorithms of most experiments.
const PUBLISHED: Pick = of(&["CR", "PPR", "ECPipe", "ChameleonEC"]);

/// Why times of planning may be others.
const PROCESSOR: &str = "Times of this machine's processor.";

const FIGURE16: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig16",
    title: "Exp#5, computation time",
    did: "Time of the coordinator on one instance for n nodes and so many chunks of a phase.",
    here: "CPU time from jobs to plans, RS(10,4). ChameleonEC's dispatch keeps nodes sorted, where \
        the published program sorts them for each chunk. The text prints n=500 with f=1000; the \
        others were chosen here.",
    panels: &[PanelSpec {
        title: "time",
        metric: Metric::PlanSeconds,
        points: &[
            point("n=20 f=1000", planned(20, 1000)),
            point("n=100 f=200", planned(100, 200)),
            point("n=100 f=1000", planned(100, 1000)),
            point("n=500 f=200", planned(500, 200)),
            point("n=500 f=1000", planned(500, 1000)),
        ],
        series: &[series("ChameleonEC", "chameleon"), SUTURE],
        printed: &[printed("n=500 f=1000", "ChameleonEC", 0.55)],
    }],
    claims: &[
        Claim {
            text: "ChameleonEC needs no more than 0.6 s to plan most of the time",
            place: "section V-B, Exp#5",
            quantity: Most(CHAMELEON),
            said: Said::AtMost(0.6),
            apart: PROCESSOR,
        },
        Claim {
            text: "planning 1,000 chunks on 500 nodes takes no more than 0.55 s",
            place: "section V-B, Exp#5",
            quantity: Mean(CHAMELEON.at(&["n=500 f=1000"])),
            said: Said::AtMost(0.55),
            apart: PROCESSOR,
        },
        Claim {
            text: "the time of planning grows with the chunks",
            place: "section V-B, Exp#5",
            quantity: LeastAbove(
                CHAMELEON.at(&["n=100 f=1000", "n=500 f=1000"]),
                CHAMELEON.at(&["n=100 f=200", "n=500 f=200"]),
            ),
            said: Said::Positive,
            apart: PROCESSOR,
        },
        Claim {
            text: "the time of planning grows with the nodes",
            place: "section V-B, Exp#5",
            quantity: LeastAbove(
                CHAMELEON.at(&["n=100 f=1000", "n=500 f=200", "n=500 f=1000"]),
                CHAMELEON.at(&["n=20 f=1000", "n=100 f=200", "n=100 f=1000"]),
            ),
            said: Said::Positive,
            apart: "Nodes are kept in the order in which they would be done, so that few beside \
                those of the stripe are looked at for a chunk, and the cluster's size hardly \
                matters.",
        },
    ],
};

const SCHEDULED: &[Series] = &[
    series("CR", "cr"),
    series("PPR", "ppr"),
    series("ECPipe", "rp"),
    series("RB+CR", "repairboost+cr"),
    series("RB+PPR", "repairboost+ppr"),
    series("RB+ECPipe", "repairboost+rp"),
    series("ChameleonEC", "chameleon"),
    SUTURE,
];

/// Why RepairBoost gains otherwise.
const SLOTS: &str = "Slots know nothing of applications, and each waits for its slowest transfer; \
    what they gain without applications is in a panel of its own.";

/// Why ChameleonEC gains otherwise over RepairBoost.
const BOOSTED: &str = "As for RepairBoost itself: its slots wait for the links that applications \
    fill, which ChameleonEC is notified of.";

const FIGURE17: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig17",
    title: "Exp#6, performance under RepairBoost",
    did: "CR, PPR and ECPipe under RepairBoost beside YCSB-A, at 10 Gb/s.",
    here: "The simulator at 1 Gb/s with the requests and the monitor of Exp#1, which RepairBoost \
        lacks; the same without applications, and at 10 Gb/s. Claims are judged at 1 Gb/s, as \
        those of the other figures are.",
    panels: &[
        PanelSpec {
            title: "throughput",
            metric: Metric::Throughput,
            points: YCSB,
            series: SCHEDULED,
            printed: &[],
        },
        PanelSpec {
            title: "without applications",
            metric: Metric::Throughput,
            points: &[point("1 Gb/s", ALONE)],
            series: SCHEDULED,
            printed: &[],
        },
        PanelSpec {
            title: "throughput, 10 Gb/s",
            metric: Metric::Throughput,
            points: YCSB_FAST,
            series: SCHEDULED,
            printed: &[printed("YCSB-A", "ECPipe", 110.6), printed("YCSB-A", "RB+ECPipe", 142.7)],
        },
    ],
    claims: &[
        percent(
            "RepairBoost improves ECPipe from 110.6 to 142.7 MB/s, by 29.0 %",
            "section V-B, Exp#6",
            Above(of(&["RB+ECPipe"]).panel(&["throughput"]), of(&["ECPipe"])),
            29.0,
            SLOTS,
        ),
        Claim {
            text: "RepairBoost improves CR and PPR, too",
            place: "section V-B, Exp#6",
            quantity: LeastAbove(
                of(&["RB+CR", "RB+PPR"]).panel(&["throughput"]),
                of(&["CR", "PPR"]),
            ),
            said: Said::Positive,
            apart: SLOTS,
        },
        percent(
            "ChameleonEC is 34.8 % faster than RB+CR",
            "section V-B, Exp#6",
            Above(CHAMELEON.panel(&["throughput"]), of(&["RB+CR"])),
            34.8,
            BOOSTED,
        ),
        percent(
            "ChameleonEC is 16.7 % faster than RB+PPR",
            "section V-B, Exp#6",
            Above(CHAMELEON.panel(&["throughput"]), of(&["RB+PPR"])),
            16.7,
            BOOSTED,
        ),
        percent(
            "ChameleonEC is 46.2 % faster than RB+ECPipe",
            "section V-B, Exp#6",
            Above(CHAMELEON.panel(&["throughput"]), of(&["RB+ECPipe"])),
            46.2,
            BOOSTED,
        ),
    ],
};

const FIGURE19: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig19",
    title: "Exp#8, multi-node repair",
    did: "One to three nodes fail at a time, beside YCSB-A, at 10 Gb/s.",
    here: "The simulator at 1 Gb/s, by which claims are judged as those of the other figures are, \
        and at 10 Gb/s, with the requests and the monitor of Exp#1; about 200 chunks are lost in \
        all.",
    panels: &[
        panel(
            "throughput",
            Metric::Throughput,
            &[
                point("1 node", failing(1, BASE)),
                point("2 nodes", failing(2, BASE)),
                point("3 nodes", failing(3, BASE)),
            ],
        ),
        panel(
            "throughput, 10 Gb/s",
            Metric::Throughput,
            &[point("1 node", failing(1, FAST)), point("3 nodes", failing(3, FAST))],
        ),
    ],
    claims: &[
        percent(
            "ChameleonEC improves the throughput by 43.6 % for one node",
            "section V-B, Exp#8",
            Above(CHAMELEON.panel(&["throughput"]).at(&["1 node"]), OTHERS),
            43.6,
            LINKED,
        ),
        percent(
            "ChameleonEC improves the throughput by 65.7 % for three nodes",
            "section V-B, Exp#8",
            Above(CHAMELEON.panel(&["throughput"]).at(&["3 nodes"]), OTHERS),
            65.7,
            LINKED,
        ),
        Claim {
            text: "the throughput of each algorithm declines with more failed nodes",
            place: "section V-B, Exp#8",
            quantity: LeastBelow(
                PUBLISHED.panel(&["throughput"]).at(&["3 nodes"]),
                PUBLISHED.at(&["1 node"]),
            ),
            said: Said::Positive,
            apart: "Here stripes that lost several chunks are read once for all of them, which \
                saves more than fewer nodes cost.",
        },
    ],
};

/// Why ChameleonEC gains nothing where a chunk has no spare helper.
const NO_SPARE: &str = "All other chunks of its group, or of a stripe of Butterfly(4,2), help to \
    rebuild a chunk, so that a node that applications keep busy cannot be left out, as it can of an \
    RS code. ChameleonEC counts with the 5 % of its links that they leave, and takes two such \
    repairs in a phase; the others share these links with applications.";

const CODES: &[PanelPoint] = &[
    point("RS(8,3)", coded("rs(8,3)")),
    point("RS(10,4)", coded("rs(10,4)")),
    point("LRC(8,2,2)", coded("lrc(8,2,2)")),
    point("LRC(10,2,2)", coded("lrc(10,2,2)")),
];

const SUMS: Pick = CHAMELEON.panel(&["sums"]);

const FIGURE20: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig20",
    title: "Exp#9, generality over erasure codes",
    did: "RS(8,3), RS(10,4), LRC(8,2,2), LRC(10,2,2) and Butterfly(4,2), beside YCSB-A, at \
        10 Gb/s.",
    here: "The simulator at 1 Gb/s, with the requests and the monitor of Exp#1; what RS(10,4) is \
        like at 10 Gb/s, Figure 24 shows. Butterfly(4,2) has four chunks of which two are data in \
        the paper's (n, k): butterfly(2).",
    panels: &[
        panel("sums", Metric::Throughput, CODES),
        PanelSpec {
            title: "sub-chunks",
            metric: Metric::Throughput,
            points: &[point("Butterfly(4,2)", coded("butterfly(2)"))],
            series: &[series("CR", "cr"), series("ChameleonEC", "chameleon"), SUTURE],
            printed: &[],
        },
    ],
    claims: &[
        percent_from(
            "ChameleonEC improves the throughput of RS codes and LRCs by 12.2 % over CR at least",
            "section V-B, Exp#9",
            LeastAbove(SUMS, of(&["CR"])),
            12.2,
            NO_SPARE,
        ),
        percent_up_to(
            "ChameleonEC improves the throughput of RS codes and LRCs by 35.7 % over CR at most",
            "section V-B, Exp#9",
            MostAbove(SUMS, of(&["CR"])),
            35.7,
            LINKED,
        ),
        percent_from(
            "ChameleonEC improves the throughput of RS codes and LRCs by 31.4 % over PPR at least",
            "section V-B, Exp#9",
            LeastAbove(SUMS, of(&["PPR"])),
            31.4,
            NO_SPARE,
        ),
        percent_up_to(
            "ChameleonEC improves the throughput of RS codes and LRCs by 54.2 % over PPR at most",
            "section V-B, Exp#9",
            MostAbove(SUMS, of(&["PPR"])),
            54.2,
            LINKED,
        ),
        percent_from(
            "ChameleonEC improves the throughput of RS codes and LRCs by 65.7 % over ECPipe at \
                least",
            "section V-B, Exp#9",
            LeastAbove(SUMS, of(&["ECPipe"])),
            65.7,
            NO_SPARE,
        ),
        percent_up_to(
            "ChameleonEC improves the throughput of RS codes and LRCs by 97.0 % over ECPipe at \
                most",
            "section V-B, Exp#9",
            MostAbove(SUMS, of(&["ECPipe"])),
            97.0,
            LINKED,
        ),
        percent(
            "ChameleonEC improves the throughput by 4.9 % over CR for Butterfly(4,2)",
            "section V-B, Exp#9",
            Above(CHAMELEON.panel(&["sub-chunks"]), of(&["CR"])),
            4.9,
            NO_SPARE,
        ),
        Claim {
            text: "every algorithm repairs LRCs faster than RS codes of the same k",
            place: "section V-B, Exp#9",
            quantity: LeastAbove(
                PUBLISHED.panel(&["sums"]).at(&["LRC(8,2,2)", "LRC(10,2,2)"]),
                PUBLISHED.at(&["RS(8,3)", "RS(10,4)"]),
            ),
            said: Said::Positive,
            apart: NO_SPARE,
        },
    ],
};

/// Why a straggler costs otherwise.
const STRAGGLER: &str = "Eight readers share the straggler's uplink with the lanes of repairs, and \
    take the less of it the more of these there are: a phase begins all of its repairs at once, \
    the others have 19 at a time. How many the paper's agents move it does not say.";

const STRAGGLERS: &[PanelPoint] = &[
    point("0 s", straggling(0.0)),
    point("5 s", straggling(5.0)),
    point("10 s", straggling(10.0)),
];

const BREAKDOWN: &[Series] = &[
    series("CR", "cr"),
    series("PPR", "ppr"),
    series("ECPipe", "rp"),
    series("ETRP", "tunable/chameleon/window"),
    series("ChameleonEC", "chameleon"),
    SUTURE,
];

const FIRST_PHASE: Pick = CHAMELEON.panel(&["first phase"]);

const FIGURE22: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig22",
    title: "Exp#11, breakdown: a straggler appears in a phase",
    did: "A Redis client of eight threads reads 1 MB objects from a node of the repair, from the \
        start of a phase, after 5 s or after 10 s; the throughput of that phase; at 10 Gb/s.",
    here: "The simulator at 1 Gb/s, where a repair has more than one phase: eight readers of 1 MB \
        objects, which one node has in memory, share its uplink from then on, beside the requests \
        of Exp#1; the monitor of ChameleonEC sees them once they read. ETRP alone is ChameleonEC's \
        dispatch with as many repairs at a time as there are nodes, which no phase reschedules. In \
        the first phase the bytes of chunks under way count, as if each chunk came evenly; its \
        bound is that of the whole repair.",
    panels: &[
        PanelSpec {
            title: "first phase",
            metric: Metric::PhaseThroughput,
            points: STRAGGLERS,
            series: BREAKDOWN,
            printed: &[],
        },
        PanelSpec {
            title: "whole repair",
            metric: Metric::Throughput,
            points: STRAGGLERS,
            series: BREAKDOWN,
            printed: &[],
        },
    ],
    claims: &[
        percent(
            "ChameleonEC is 34.5 % faster than CR in a phase with a straggler",
            "section V-B, Exp#11",
            Above(FIRST_PHASE, of(&["CR"])),
            34.5,
            STRAGGLER,
        ),
        percent(
            "ChameleonEC is 18.8 % faster than PPR in a phase with a straggler",
            "section V-B, Exp#11",
            Above(FIRST_PHASE, of(&["PPR"])),
            18.8,
            STRAGGLER,
        ),
        percent(
            "ChameleonEC is 43.5 % faster than ECPipe in a phase with a straggler",
            "section V-B, Exp#11",
            Above(FIRST_PHASE, of(&["ECPipe"])),
            43.5,
            STRAGGLER,
        ),
        percent(
            "ChameleonEC is 31.4 % faster than ETRP alone in a phase with a straggler",
            "section V-B, Exp#11",
            Above(FIRST_PHASE, of(&["ETRP"])),
            31.4,
            STRAGGLER,
        ),
        Claim {
            text: "the later the straggler appears, the higher the throughput of each algorithm",
            place: "section V-B, Exp#11",
            quantity: LeastAbove(
                of(&["CR", "PPR", "ECPipe", "ETRP", "ChameleonEC"])
                    .panel(&["first phase"])
                    .at(&["5 s", "10 s"]),
                of(&["CR", "PPR", "ECPipe", "ETRP", "ChameleonEC"]).at(&["0 s", "5 s"]),
            ),
            said: Said::Positive,
            apart: STRAGGLER,
        },
    ],
};
