//! ChameleonEC, IEEE HPCA 2025: Figures 2, 4 to 6, and 12 to 15, what repairs and applications do
//! to each other.
//!
//! Place: experiments as data. 20 nodes of which one fails, RS(10,4), 200 chunks of 64 MB in slices
//! of 1 MB, phases of 20 s, YCSB-A from four clients (section V-A). Links have 1 Gb/s, the least of
//! Exp#13, where a repair takes as long as the paper's did at 10 Gb/s: phases and what applications
//! do in them are then in proportion.

use crate::reproduce::claim::Quantity::{Above, Below, LeastAbove, Mean, MostAbove};
use crate::reproduce::claim::{Claim, Pick, Said, of};
use crate::reproduce::experiment::{PanelPoint, PanelSpec, Paper, PaperExperiment, SUTURE, Series};
use crate::reproduce::metric::{LinkPlace, Metric};
use crate::reproduce::setting::{Between, FigureSetting, GBIT, Lost, Placing, To};

/// The default of section V-A, but for the links.
pub const BASE: FigureSetting = FigureSetting {
    code: "rs(10,4)",
    nodes: 20,
    racks: &[],
    between: Between::Unlimited,
    link: GBIT,
    disk: Some(500e6),
    chunk_bytes: 64 << 20,
    packet_bytes: Some(1 << 20),
    lost: Lost::Chunks(200),
    failed: 1,
    to: To::Anywhere,
    placing: Placing::Random,
    foreground: Some(("ycsb-a", 4)),
    trace: None,
    straggler: None,
};

const fn under(workload: &'static str) -> FigureSetting {
    FigureSetting { foreground: Some((workload, 4)), ..BASE }
}

const fn with_clients(count: usize) -> FigureSetting {
    FigureSetting { foreground: Some(("ycsb-a", count)), ..BASE }
}

const ALONE: FigureSetting = FigureSetting { foreground: None, ..BASE };

const fn repairing(throughput: f64) -> FigureSetting {
    FigureSetting { link: throughput * 1e6, ..ALONE }
}

pub const fn series(name: &'static str, policy: &'static str) -> Series {
    Series { name, policy }
}

pub const fn point(label: &'static str, setting: FigureSetting) -> PanelPoint {
    PanelPoint { label, setting }
}

const REPAIRS: &[Series] =
    &[series("CR", "cr"), series("PPR", "ppr"), series("ECPipe", "rp"), SUTURE];

/// The algorithms of Exp#1 on.
pub const ALGORITHMS: &[Series] = &[
    series("CR", "cr"),
    series("PPR", "ppr"),
    series("ECPipe", "rp"),
    series("ChameleonEC", "chameleon"),
    SUTURE,
];

/// ChameleonEC, and those that it is compared with.
pub const CHAMELEON: Pick = of(&["ChameleonEC"]);
pub const OTHERS: Pick = of(&["CR", "PPR", "ECPipe"]);

const LINKS: &[Series] = &[series("applications", "-")];

const WORKLOADS: &[PanelPoint] = &[
    point("YCSB-A", under("ycsb-a")),
    point("IBM", under("ibm")),
    point("Memcached", under("twitter")),
    point("Facebook", under("etc")),
];

pub const EXPERIMENTS: &[PaperExperiment] =
    &[FIGURE2, FIGURE4, FIGURE5, FIGURE6, FIGURE12, FIGURE13, FIGURE14, FIGURE15];

/// Why gains over the published algorithms are others.
pub const LINKED: &str = "Links and disks are all that limits a repair here, and stars and chains come \
    to 50 and 71 % of the bound. The paper's ECPipe alone repairs 199.9 MB/s at 10 Gb/s (Exp#7), 8 % \
    of what its links allow and 21 % of what its disks do: other things limit its prototypes.";

const FIGURE2: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig2",
    title: "Data loss probability over repair throughput",
    did: "Analysis by Equation 2: (10, 4), 96 TB a node, a lifetime of 10 years (section II-B).",
    here: "The same equation, and at the throughput of each policy in a simulated repair of Exp#7 \
        at 1 Gb/s.",
    panels: &[
        PanelSpec {
            title: "at a throughput",
            metric: Metric::LossAtRate,
            points: &[
                point("50 MB/s", repairing(50.0)),
                point("100 MB/s", repairing(100.0)),
                point("200 MB/s", repairing(200.0)),
                point("400 MB/s", repairing(400.0)),
            ],
            series: &[series("Equation 2", "-")],
            printed: &[],
        },
        PanelSpec {
            title: "of a policy",
            metric: Metric::Loss,
            points: &[point("1 Gb/s", ALONE)],
            series: ALGORITHMS,
            printed: &[],
        },
    ],
    claims: &[Claim {
        text: "a higher repair throughput has a lower chance of loss",
        place: "section II-B, Figure 2",
        quantity: Below(
            of(&["Equation 2"]).at(&["400 MB/s"]),
            of(&["Equation 2"]).at(&["50 MB/s"]),
        ),
        said: Said::Positive,
        apart: "",
    }],
};

const CLIENTS: &[PanelPoint] = &[
    point("0 clients", ALONE),
    point("1 client", with_clients(1)),
    point("2 clients", with_clients(2)),
    point("3 clients", with_clients(3)),
    point("4 clients", with_clients(4)),
];

const BUSY: &[PanelPoint] = &[
    point("1 client", with_clients(1)),
    point("2 clients", with_clients(2)),
    point("3 clients", with_clients(3)),
    point("4 clients", with_clients(4)),
];

const BUSY_LABELS: &[&str] = &["1 client", "2 clients", "3 clients", "4 clients"];

const FIGURE4: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig4",
    title: "Repair time and latency with more and more clients",
    did: "20 instances on EC2 recover 200 chunks while up to four clients replay YCSB-A (section \
        II-D).",
    here: "The simulator; clients begin a request when the last one is answered.",
    panels: &[
        PanelSpec {
            title: "repair",
            metric: Metric::Seconds,
            points: CLIENTS,
            series: REPAIRS,
            printed: &[],
        },
        PanelSpec {
            title: "latency",
            metric: Metric::P99,
            points: BUSY,
            series: REPAIRS,
            printed: &[],
        },
    ],
    claims: &[
        Claim {
            text: "applications lengthen repairs by at least 3.6 %",
            place: "section II-D, Figure 4(a)",
            quantity: LeastAbove(
                OTHERS.panel(&["repair"]).at(BUSY_LABELS),
                OTHERS.panel(&["repair"]).at(&["0 clients"]),
            ),
            said: Said::Between(3.6, 91.5),
            apart: "One client begins a request when the last one is answered, and so takes a \
                twentieth of the links of 20 nodes at most.",
        },
        Claim {
            text: "applications lengthen repairs by at most 91.5 %",
            place: "section II-D, Figure 4(a)",
            quantity: MostAbove(
                OTHERS.panel(&["repair"]).at(BUSY_LABELS),
                OTHERS.panel(&["repair"]).at(&["0 clients"]),
            ),
            said: Said::Between(3.6, 91.5),
            apart: "",
        },
        Claim {
            text: "the repair time grows with the clients",
            place: "section II-D, Figure 4(a)",
            quantity: Above(
                OTHERS.panel(&["repair"]).at(&["4 clients"]),
                OTHERS.panel(&["repair"]).at(&["1 client"]),
            ),
            said: Said::Positive,
            apart: "",
        },
        Claim {
            text: "CR is faster than PPR and ECPipe beside applications",
            place: "section II-D",
            quantity: Below(
                of(&["CR"]).panel(&["repair"]).at(&["4 clients"]),
                of(&["PPR", "ECPipe"]),
            ),
            said: Said::Positive,
            apart: "The paper blames it on slices that wait for their predecessors when links \
                fluctuate; in a fluid lane nothing waits, so that better balanced trees win.",
        },
    ],
};

const FIGURE5: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig5",
    title: "Fluctuation of the bandwidth that applications take",
    did: "The most less the least that YCSB-A takes of a link within windows of 15 s, at 10 Gb/s \
        (section II-D).",
    here: "Applications alone in the simulator, for 60 s at 1 Gb/s; there is no repair, so no \
        policy and no bound.",
    panels: &[PanelSpec {
        title: "change",
        metric: Metric::Fluctuation(0.25),
        points: WORKLOADS,
        series: LINKS,
        printed: &[],
    }],
    claims: &[Claim {
        text: "it changes by 1.1 of 10 Gb/s on average, 11 % of a link: 110 of 1000 Mbit/s",
        place: "section II-D, Figure 5",
        quantity: Mean(of(&["applications"]).at(&["YCSB-A"])),
        said: Said::Between(110.0, 110.0),
        apart: "Rates of a quarter of a second are compared here; the paper does not say how long \
            its samples are.",
    }],
};

const DEFAULT: &[PanelPoint] = &[point("YCSB-A", BASE)];

const fn link_panel(title: &'static str, place: LinkPlace) -> PanelSpec {
    PanelSpec { title, metric: Metric::Link(place), points: DEFAULT, series: REPAIRS, printed: &[] }
}

const FIGURE6: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig6",
    title: "Most and least loaded links",
    did: "The bandwidth that repair and YCSB-A take together of the most and of the least loaded \
        uplink and downlink (section II-D).",
    here: "The simulator; mean rates over the repair, without the failed node.",
    panels: &[
        link_panel("most loaded uplink", LinkPlace::MostUp),
        link_panel("least loaded uplink", LinkPlace::LeastUp),
        link_panel("most loaded downlink", LinkPlace::MostDown),
        link_panel("least loaded downlink", LinkPlace::LeastDown),
    ],
    claims: &[
        Claim {
            text: "ECPipe's most loaded uplink carries 110.5 % more than its least loaded one",
            place: "section II-D, Figure 6(a)",
            quantity: Above(
                of(&["ECPipe"]).panel(&["most loaded uplink"]),
                of(&["ECPipe"]).panel(&["least loaded uplink"]),
            ),
            said: Said::Between(110.5, 110.5),
            apart: "A mean over the whole repair: 200 random choices of 10 of 13 helpers make a \
                node send 105 chunks with a deviation of 7, so that the most and the least of 19 \
                nodes cannot be far apart. The paper does not say over what time its rates are.",
        },
        Claim {
            text: "downlinks are uneven, too",
            place: "section II-D, Figure 6(b)",
            quantity: Above(
                of(&["CR", "PPR", "ECPipe"]).panel(&["most loaded downlink"]),
                of(&["CR", "PPR", "ECPipe"]).panel(&["least loaded downlink"]),
            ),
            said: Said::Positive,
            apart: "",
        },
    ],
};

const FIGURE12: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig12",
    title: "Exp#1, interference study: throughput and P99 latency under four workloads",
    did: "20 instances of EC2, 10 Gb/s; YCSB-A, an IBM object store trace, Twitter's Memcached \
        cluster 37 and Facebook's ETC beside a repair.",
    here: "The simulator at 1 Gb/s; the workloads are drawn from published statistics, not \
        replayed.",
    panels: &[
        PanelSpec {
            title: "throughput",
            metric: Metric::Throughput,
            points: WORKLOADS,
            series: ALGORITHMS,
            printed: &[],
        },
        PanelSpec {
            title: "latency",
            metric: Metric::P99,
            points: WORKLOADS,
            series: ALGORITHMS,
            printed: &[],
        },
    ],
    claims: &[
        Claim {
            text: "ChameleonEC improves the throughput by 23.5 % over CR",
            place: "section V-B, Exp#1",
            quantity: Above(CHAMELEON.panel(&["throughput"]), of(&["CR"])),
            said: Said::Between(23.5, 23.5),
            apart: LINKED,
        },
        Claim {
            text: "by 31.4 % over PPR",
            place: "section V-B, Exp#1",
            quantity: Above(CHAMELEON.panel(&["throughput"]), of(&["PPR"])),
            said: Said::Between(31.4, 31.4),
            apart: LINKED,
        },
        Claim {
            text: "by 65.6 % over ECPipe",
            place: "section V-B, Exp#1",
            quantity: Above(CHAMELEON.panel(&["throughput"]), of(&["ECPipe"])),
            said: Said::Between(65.6, 65.6),
            apart: LINKED,
        },
        Claim {
            text: "ChameleonEC shortens P99 latencies by 18.2 % against CR",
            place: "section V-B, Exp#1",
            quantity: Below(CHAMELEON.panel(&["latency"]), of(&["CR"])),
            said: Said::Between(18.2, 18.2),
            apart: LATENCY,
        },
        Claim {
            text: "by 9.1 % against PPR",
            place: "section V-B, Exp#1",
            quantity: Below(CHAMELEON.panel(&["latency"]), of(&["PPR"])),
            said: Said::Between(9.1, 9.1),
            apart: LATENCY,
        },
        Claim {
            text: "by 17.6 % against ECPipe",
            place: "section V-B, Exp#1",
            quantity: Below(CHAMELEON.panel(&["latency"]), of(&["ECPipe"])),
            said: Said::Between(17.6, 17.6),
            apart: LATENCY,
        },
    ],
};

/// Why applications fare otherwise.
const LATENCY: &str = "A request shares each link with every repair that crosses it, and a phase \
    begins all of its repairs at once: beside YCSB-A the P99 is 163 ms with phases, 62 ms when the \
    same plans run 19 at a time, 27 ms when they run 5 at a time, and 9 ms without a repair. The \
    paper does not say how many chunks its agents move at a time.";

const FIGURE13: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig13",
    title: "Exp#2, impact on trace execution time",
    did: "The interference degree: how much longer a trace takes beside a repair, T*/T - 1.",
    here: "The simulator: the operations that clients performed during the repair, and the same \
        without it. The degree is of the time that the repair lasts, not of a trace of a given \
        length.",
    panels: &[PanelSpec {
        title: "degree",
        metric: Metric::Interference,
        points: WORKLOADS,
        series: ALGORITHMS,
        printed: &[],
    }],
    claims: &[
        Claim {
            text: "ChameleonEC reduces the interference degree by 45.9 % against CR",
            place: "section V-B, Exp#2",
            quantity: Below(CHAMELEON.at(&["YCSB-A", "IBM"]), of(&["CR"])),
            said: Said::Between(45.9, 45.9),
            apart: LATENCY,
        },
        Claim {
            text: "by 50.2 % against PPR",
            place: "section V-B, Exp#2",
            quantity: Below(CHAMELEON.at(&["YCSB-A", "IBM"]), of(&["PPR"])),
            said: Said::Between(50.2, 50.2),
            apart: LATENCY,
        },
        Claim {
            text: "by 56.7 % against ECPipe",
            place: "section V-B, Exp#2",
            quantity: Below(CHAMELEON.at(&["YCSB-A", "IBM"]), of(&["ECPipe"])),
            said: Said::Between(56.7, 56.7),
            apart: LATENCY,
        },
    ],
};

const FIGURE14: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig14",
    title: "Exp#3, impact of the length of phases",
    did: "RS(10,4) beside YCSB-A, phases of 10 to 40 s.",
    here: "The simulator at 1 Gb/s.",
    panels: &[PanelSpec {
        title: "throughput",
        metric: Metric::Throughput,
        points: &[point("YCSB-A", BASE)],
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
        Claim {
            text: "with 20 s it drops 5.4 % against 10 s",
            place: "section V-B, Exp#3",
            quantity: Below(of(&["20 s"]), of(&["10 s"])),
            said: Said::Between(5.4, 5.4),
            apart: PHASES,
        },
        Claim {
            text: "the longer the phases, the lower the throughput",
            place: "section V-B, Exp#3",
            quantity: Below(of(&["40 s"]), of(&["10 s"])),
            said: Said::Positive,
            apart: PHASES,
        },
    ],
};

/// Why long phases are better here.
const PHASES: &str = "Each border between phases leaves links idle here, and what four clients take \
    changes too little for a new dispatch to gain as much.";

const SWITCHING: FigureSetting = FigureSetting { lost: Lost::Chunks(300), ..under("switching") };

const FIGURE15: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig15",
    title: "Exp#4, adaptivity: throughput while workloads take turns",
    did: "Each workload for 15 s, one after the other, beside a repair.",
    here: "The simulator at 1 Gb/s; chunks that are finished in each window of 5 s. Phases finish \
        their chunks together, so that ChameleonEC's windows are uneven.",
    panels: &[
        PanelSpec {
            title: "over time",
            metric: Metric::WindowThroughput,
            points: &[
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
            series: ALGORITHMS,
            printed: &[],
        },
        PanelSpec {
            title: "overall",
            metric: Metric::Throughput,
            points: &[point("all workloads", SWITCHING)],
            series: ALGORITHMS,
            printed: &[],
        },
    ],
    claims: &[
        Claim {
            text: "ChameleonEC improves the throughput by 51.5 % over CR",
            place: "section V-B, Exp#4",
            quantity: Above(CHAMELEON.panel(&["overall"]), of(&["CR"])),
            said: Said::Between(51.5, 51.5),
            apart: LINKED,
        },
        Claim {
            text: "by 53.0 % over PPR",
            place: "section V-B, Exp#4",
            quantity: Above(CHAMELEON.panel(&["overall"]), of(&["PPR"])),
            said: Said::Between(53.0, 53.0),
            apart: LINKED,
        },
        Claim {
            text: "by 97.2 % over ECPipe",
            place: "section V-B, Exp#4",
            quantity: Above(CHAMELEON.panel(&["overall"]), of(&["ECPipe"])),
            said: Said::Between(97.2, 97.2),
            apart: LINKED,
        },
    ],
};
