//! ChameleonEC's Exp#1 to Exp#4: Figures 12 to 15, repairs beside different workloads.
//!
//! Place: experiments as data.

use super::{
    BASE, CHAMELEON, INTENSITY, LATENCY, LINKED, OTHERS, WORKLOADS, YCSB, YCSB_FAST, panel,
    percent, percent_from, percent_up_to, point, printed, series, under,
};
use crate::reproduce::claim::Quantity::{
    Above, Below, LeastAbove, LeastBelow, MostAbove, MostBelow,
};
use crate::reproduce::claim::{Claim, Said, of};
use crate::reproduce::experiment::{PanelPoint, PanelSpec, Paper, PaperExperiment, SUTURE};
use crate::reproduce::metric::Metric;
use crate::reproduce::setting::{FigureSetting, Lost};

/// All workloads, and the default with the paper's links.
const INTENSITIES: &[PanelPoint] = &[
    point("YCSB-A", BASE),
    point("YCSB-A, 10 Gb/s", super::FAST),
    point("IBM", under("ibm")),
    point("Memcached", under("twitter")),
    point("Facebook", under("etc")),
];

pub const FIGURE12: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig12",
    title: "Exp#1, interference study: throughput and P99 latency under four workloads",
    did: "20 instances of EC2, 10 Gb/s; YCSB-A, an IBM object store trace, Twitter's Memcached \
        cluster 37 and Facebook's ETC beside a repair.",
    here: "The simulator at 1 Gb/s, and beside YCSB-A at 10 Gb/s too, of which the text \
        has ECPipe's 110.6 MB/s alone; workloads are drawn from published statistics, not \
        replayed. YCSB-A has 64 requests under way, 16 of each client, \
        the others four. ChameleonEC is notified once a second of what applications take of each \
        link and disk, as by the paper's monitor; the other algorithms and suture are not. The \
        paper's 1.56 bytes for each byte of a repair are a quotient of what applications and a \
        repair move in all (195.3 GB and 125 GB, section V-A). The mark of no repair is of the \
        requests that there are in the least time of a repair: one that lasts longer is beside \
        others, too, which may wait less.",
    panels: &[
        panel("throughput", Metric::Throughput, WORKLOADS),
        PanelSpec {
            printed: &[printed("YCSB-A", "ECPipe", 110.6)],
            ..panel("throughput, 10 Gb/s", Metric::Throughput, YCSB_FAST)
        },
        panel("latency", Metric::P99, WORKLOADS),
        PanelSpec {
            title: "latency, repairs at a time",
            metric: Metric::P99,
            points: YCSB,
            series: &[
                series("phases of 20 s", "chameleon"),
                series("19 at a time", "tunable/chameleon/window"),
                series("5 at a time", "tunable/chameleon/window:5"),
                SUTURE,
            ],
            printed: &[],
        },
        PanelSpec {
            printed: &[
                printed("YCSB-A, 10 Gb/s", "CR", INTENSITY),
                printed("YCSB-A, 10 Gb/s", "PPR", INTENSITY),
                printed("YCSB-A, 10 Gb/s", "ECPipe", INTENSITY),
                printed("YCSB-A, 10 Gb/s", "ChameleonEC", INTENSITY),
            ],
            ..panel("bytes", Metric::Intensity, INTENSITIES)
        },
    ],
    claims: &[
        percent(
            "ChameleonEC improves the throughput by 23.5 % over CR, over all workloads",
            "section V-B, Exp#1",
            Above(CHAMELEON.panel(&["throughput"]), of(&["CR"])),
            23.5,
            LINKED,
        ),
        percent(
            "ChameleonEC improves the throughput by 31.4 % over PPR, over all workloads",
            "section V-B, Exp#1",
            Above(CHAMELEON.panel(&["throughput"]), of(&["PPR"])),
            31.4,
            LINKED,
        ),
        percent(
            "ChameleonEC improves the throughput by 65.6 % over ECPipe, over all workloads",
            "section V-B, Exp#1",
            Above(CHAMELEON.panel(&["throughput"]), of(&["ECPipe"])),
            65.6,
            LINKED,
        ),
        percent_up_to(
            "ChameleonEC improves the throughput by 498.2 % at most, over all codes, workloads and \
                experiments (of which these workloads are looked at)",
            "abstract",
            MostAbove(CHAMELEON.panel(&["throughput"]), OTHERS),
            498.2,
            LINKED,
        ),
        Claim {
            text: "ECPipe has the lowest throughput under all workloads",
            place: "section V-B, Exp#1",
            quantity: LeastAbove(
                of(&["CR", "PPR", "ChameleonEC"]).panel(&["throughput"]),
                of(&["ECPipe"]),
            ),
            said: Said::Positive,
            apart: "The paper blames it on slices that wait for their predecessors; in a fluid \
                lane none does, and a chain puts no more on a link than one chunk.",
        },
        percent(
            "ChameleonEC shortens P99 latencies by 18.2 % against CR, over all workloads",
            "section V-B, Exp#1",
            Below(CHAMELEON.panel(&["latency"]), of(&["CR"])),
            18.2,
            LATENCY,
        ),
        percent(
            "ChameleonEC shortens P99 latencies by 9.1 % against PPR, over all workloads",
            "section V-B, Exp#1",
            Below(CHAMELEON.panel(&["latency"]), of(&["PPR"])),
            9.1,
            LATENCY,
        ),
        percent(
            "ChameleonEC shortens P99 latencies by 17.6 % against ECPipe, over all workloads",
            "section V-B, Exp#1",
            Below(CHAMELEON.panel(&["latency"]), of(&["ECPipe"])),
            17.6,
            LATENCY,
        ),
        Claim {
            text: "ChameleonEC shortens P99 latencies (by 8.4 % over all experiments, whose \
                latencies the text has of Exp#1 alone, with 15.0 % on average: that it does is \
                asked for)",
            place: "section V, findings",
            quantity: Below(CHAMELEON.panel(&["latency"]), OTHERS),
            said: Said::Positive,
            apart: LATENCY,
        },
    ],
};

pub const FIGURE13: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig13",
    title: "Exp#2, impact on trace execution time",
    did: "The interference degree: how much longer a trace takes beside a repair, T*/T - 1.",
    here: "The simulator at 1 Gb/s, with the requests and the monitor of Exp#1: the operations \
        that clients performed during the repair, and the same without it. The degree is of the \
        time that the repair lasts, not of a trace of a given length.",
    panels: &[panel("degree", Metric::Interference, WORKLOADS)],
    claims: &[
        percent(
            "ChameleonEC reduces the interference degree by 45.9 % against CR, over all workloads",
            "section V-B, Exp#2",
            Below(CHAMELEON, of(&["CR"])),
            45.9,
            LATENCY,
        ),
        percent(
            "ChameleonEC reduces the interference degree by 50.2 % against PPR, over all workloads",
            "section V-B, Exp#2",
            Below(CHAMELEON, of(&["PPR"])),
            50.2,
            LATENCY,
        ),
        percent(
            "ChameleonEC reduces the interference degree by 56.7 % against ECPipe, over all \
                workloads",
            "section V-B, Exp#2",
            Below(CHAMELEON, of(&["ECPipe"])),
            56.7,
            LATENCY,
        ),
        percent_from(
            "ChameleonEC reduces the interference degree by 6.2 % at least",
            "section V, findings",
            LeastBelow(CHAMELEON, OTHERS),
            6.2,
            LATENCY,
        ),
        percent_up_to(
            "ChameleonEC reduces the interference degree by 81.4 % at most",
            "section V, findings",
            MostBelow(CHAMELEON, OTHERS),
            81.4,
            LATENCY,
        ),
        Claim {
            text: "of all algorithms ChameleonEC interferes least with traces of very different \
                values (IBM) and of high heterogeneity (Facebook)",
            place: "section V-B, Exp#2",
            quantity: LeastBelow(CHAMELEON.at(&["IBM", "Facebook"]), OTHERS),
            said: Said::Positive,
            apart: LATENCY,
        },
    ],
};

/// Why the length of phases matters otherwise.
const PHASES: &str = "Each border between phases leaves links idle here, and popular values stay \
    where they are, so that a new dispatch finds much the same links as the last one.";

pub const FIGURE14: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig14",
    title: "Exp#3, impact of the length of phases",
    did: "RS(10,4) beside YCSB-A, phases of 10 to 40 s.",
    here: "The simulator at 1 Gb/s, with the requests and the monitor of Exp#1: each phase is \
        planned by what applications took in the second before it.",
    panels: &[PanelSpec {
        title: "throughput",
        metric: Metric::Throughput,
        points: YCSB,
        series: &[
            series("10 s", "tunable/chameleon/phases:10"),
            series("20 s", "chameleon"),
            series("30 s", "tunable/chameleon/phases:30"),
            series("40 s", "tunable/chameleon/phases:40"),
            SUTURE,
        ],
        printed: &[],
    }],
    claims: &[
        percent(
            "ChameleonEC's throughput drops by 5.4 % with phases of 20 s against 10 s",
            "section V-B, Exp#3",
            Below(of(&["20 s"]), of(&["10 s"])),
            5.4,
            PHASES,
        ),
        Claim {
            text: "the longer the phases, the lower the throughput",
            place: "section V-B, Exp#3",
            quantity: LeastBelow(of(&["20 s", "30 s", "40 s"]), of(&["10 s", "20 s", "30 s"])),
            said: Said::Positive,
            apart: PHASES,
        },
    ],
};

const SWITCHING: FigureSetting = FigureSetting { lost: Lost::Chunks(300), ..under("switching") };

/// Why a new workload is felt otherwise.
const SWITCHED: &str = "Four requests at a time take little of links, so that it hardly matters \
    which workload they are of; windows are of bytes, as if each chunk came evenly.";

pub const FIGURE15: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig15",
    title: "Exp#4, adaptivity: throughput while workloads take turns",
    did: "Each workload for 15 s, one after the other, beside a repair.",
    here: "The simulator at 1 Gb/s with the monitor of Exp#1. 300 chunks are lost, where the paper \
        has 200, so that most repairs last for the minute that is shown. All workloads have four \
        requests under way, YCSB-A too: more of the small values take too long to simulate. \
        Bytes that came in each window of 5 s; none where a repair had ended before; the bound of \
        each window is that of the whole repair. The order of the workloads was chosen here.",
    panels: &[
        panel(
            "over time",
            Metric::IntervalThroughput,
            &[
                point("0-5 s, YCSB-A", SWITCHING),
                point("5-10 s, YCSB-A", SWITCHING),
                point("10-15 s, YCSB-A", SWITCHING),
                point("15-20 s, Facebook", SWITCHING),
                point("20-25 s, Facebook", SWITCHING),
                point("25-30 s, Facebook", SWITCHING),
                point("30-35 s, Memcached", SWITCHING),
                point("35-40 s, Memcached", SWITCHING),
                point("40-45 s, Memcached", SWITCHING),
                point("45-50 s, IBM", SWITCHING),
                point("50-55 s, IBM", SWITCHING),
                point("55-60 s, IBM", SWITCHING),
            ],
        ),
        panel("overall", Metric::Throughput, &[point("all workloads", SWITCHING)]),
    ],
    claims: &[
        percent(
            "ChameleonEC improves the throughput by 51.5 % over CR while workloads take turns",
            "section V-B, Exp#4",
            Above(CHAMELEON.panel(&["overall"]), of(&["CR"])),
            51.5,
            LINKED,
        ),
        percent(
            "ChameleonEC improves the throughput by 53.0 % over PPR while workloads take turns",
            "section V-B, Exp#4",
            Above(CHAMELEON.panel(&["overall"]), of(&["PPR"])),
            53.0,
            LINKED,
        ),
        percent(
            "ChameleonEC improves the throughput by 97.2 % over ECPipe while workloads take turns",
            "section V-B, Exp#4",
            Above(CHAMELEON.panel(&["overall"]), of(&["ECPipe"])),
            97.2,
            LINKED,
        ),
        percent(
            "ChameleonEC's throughput drops by 18.9 % when the second workload begins",
            "section V-B, Exp#4",
            Below(
                CHAMELEON.panel(&["over time"]).at(&["15-20 s, Facebook"]),
                CHAMELEON.panel(&["over time"]).at(&["10-15 s, YCSB-A"]),
            ),
            18.9,
            SWITCHED,
        ),
        Claim {
            text: "ChameleonEC's throughput is back in the window after that",
            place: "section V-B, Exp#4",
            quantity: Above(
                CHAMELEON.panel(&["over time"]).at(&["20-25 s, Facebook"]),
                CHAMELEON.panel(&["over time"]).at(&["15-20 s, Facebook"]),
            ),
            said: Said::Positive,
            apart: SWITCHED,
        },
    ],
};
