//! ChameleonEC, IEEE HPCA 2025: Figures 16 to 24, planning, codes, stragglers and other links.
//!
//! Place: experiments as data; what all of them have in common is in `foreground.rs`.

use super::foreground::{ALGORITHMS, BASE, CHAMELEON, LINKED, OTHERS, point, series};
use crate::reproduce::claim::Quantity::{Above, Below, LeastAbove, Minus, Most, MostAbove};
use crate::reproduce::claim::{Claim, Said, of};
use crate::reproduce::experiment::{PanelPoint, PanelSpec, Paper, PaperExperiment, SUTURE};
use crate::reproduce::metric::Metric;
use crate::reproduce::setting::{FigureSetting, GBIT, Lost, To};

const fn planned(nodes: usize, chunks: usize) -> FigureSetting {
    FigureSetting { nodes, lost: Lost::Chunks(chunks), foreground: None, ..BASE }
}

const fn alone(gbit: f64) -> FigureSetting {
    FigureSetting { foreground: None, link: gbit * GBIT, ..BASE }
}

const fn linked(gbit: f64) -> FigureSetting {
    FigureSetting { link: gbit * GBIT, ..BASE }
}

const fn failing(failed: usize) -> FigureSetting {
    FigureSetting { failed, ..BASE }
}

const fn coded(code: &'static str) -> FigureSetting {
    FigureSetting { code, ..BASE }
}

/// A client that is no node of the cluster wants one chunk.
const fn degraded(code: &'static str) -> FigureSetting {
    FigureSetting { code, lost: Lost::Chunks(1), to: To::Replacement, ..BASE }
}

/// A node that keeps a fifth of its link from then on: eight threads read from it besides.
const fn straggling(from: f64) -> FigureSetting {
    FigureSetting { straggler: Some((0.2, from)), ..BASE }
}

/// Disks as slow as these beside links of 10 Gb/s.
const fn stored(megabytes: f64) -> FigureSetting {
    FigureSetting { disk: Some(megabytes * 1e6), link: 10.0 * GBIT, ..BASE }
}

pub const EXPERIMENTS: &[PaperExperiment] =
    &[FIGURE16, FIGURE17, FIGURE18, FIGURE19, FIGURE20, FIGURE21, FIGURE22, FIGURE23, FIGURE24];

const FIGURE16: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig16",
    title: "Exp#5, computation time",
    did: "Time of the coordinator on one instance for n nodes and so many chunks of a phase.",
    here: "CPU time from jobs to plans, RS(10,4). ChameleonEC's dispatch keeps nodes sorted, where \
        the published program sorts them for each chunk.",
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
        printed: &[],
    }],
    claims: &[
        Claim {
            text: "most of the time it needs no more than 0.6 s",
            place: "section V-B, Exp#5",
            quantity: Most(CHAMELEON),
            said: Said::AtMost(0.6),
            apart: "",
        },
        Claim {
            text: "it grows with the chunks",
            place: "section V-B, Exp#5",
            quantity: Above(CHAMELEON.at(&["n=500 f=1000"]), CHAMELEON.at(&["n=500 f=200"])),
            said: Said::Positive,
            apart: "",
        },
        Claim {
            text: "it grows with the nodes",
            place: "section V-B, Exp#5",
            quantity: Above(CHAMELEON.at(&["n=500 f=1000"]), CHAMELEON.at(&["n=20 f=1000"])),
            said: Said::Positive,
            apart: "Only the nodes of a stripe are looked at for it, so that the cluster's size \
                hardly matters.",
        },
    ],
};

const FIGURE17: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig17",
    title: "Exp#6, performance under RepairBoost",
    did: "CR, PPR and ECPipe under RepairBoost beside YCSB-A.",
    here: "The simulator at 1 Gb/s.",
    panels: &[PanelSpec {
        title: "throughput",
        metric: Metric::Throughput,
        points: &[point("YCSB-A", BASE)],
        series: &[
            series("ECPipe", "rp"),
            series("RB+CR", "repairboost+cr"),
            series("RB+PPR", "repairboost+ppr"),
            series("RB+ECPipe", "repairboost+rp"),
            series("ChameleonEC", "chameleon"),
            SUTURE,
        ],
        printed: &[],
    }],
    claims: &[
        Claim {
            text: "RepairBoost improves ECPipe from 110.6 to 142.7 MB/s, by 29.0 %",
            place: "section V-B, Exp#6",
            quantity: Above(of(&["RB+ECPipe"]), of(&["ECPipe"])),
            said: Said::Between(29.0, 29.0),
            apart: "Slots know nothing of applications, and each waits for its slowest transfer: \
                without applications the gain is 21 % here (77.6 to 63.9 s), beside YCSB-A \
                nothing is left of it.",
        },
        Claim {
            text: "ChameleonEC is 34.8 % faster than RB+CR",
            place: "section V-B, Exp#6",
            quantity: Above(CHAMELEON, of(&["RB+CR"])),
            said: Said::Between(34.8, 34.8),
            apart: "As for RepairBoost itself: its slots lose more to applications here, and \
                ChameleonEC loses less.",
        },
        Claim {
            text: "16.7 % faster than RB+PPR",
            place: "section V-B, Exp#6",
            quantity: Above(CHAMELEON, of(&["RB+PPR"])),
            said: Said::Between(16.7, 16.7),
            apart: "As for RepairBoost itself: its slots lose more to applications here, and \
                ChameleonEC loses less.",
        },
        Claim {
            text: "46.2 % faster than RB+ECPipe",
            place: "section V-B, Exp#6",
            quantity: Above(CHAMELEON, of(&["RB+ECPipe"])),
            said: Said::Between(46.2, 46.2),
            apart: "As for RepairBoost itself: its slots lose more to applications here, and \
                ChameleonEC loses less.",
        },
    ],
};

const FIGURE18: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig18",
    title: "Exp#7, no foreground traffic",
    did: "Links of 1 to 10 Gb/s, throttled by wondershaper, and no applications.",
    here: "The simulator; disks have 500 MB/s, so that from 4 Gb/s on these are the limit.",
    panels: &[PanelSpec {
        title: "throughput",
        metric: Metric::Throughput,
        points: &[
            point("1 Gb/s", alone(1.0)),
            point("2 Gb/s", alone(2.0)),
            point("5 Gb/s", alone(5.0)),
            point("10 Gb/s", alone(10.0)),
        ],
        series: ALGORITHMS,
        printed: &[],
    }],
    claims: &[
        Claim {
            text: "ChameleonEC improves the throughput by 35.1 % on average",
            place: "section V-B, Exp#7",
            quantity: Above(CHAMELEON, OTHERS),
            said: Said::Between(35.1, 35.1),
            apart: "At 1 and 2 Gb/s, where links are the limit, gains are larger than in the \
                paper, and at 5 and 10 Gb/s, where disks are, smaller: nothing but links and \
                disks limits a repair here.",
        },
        Claim {
            text: "the improvement lies between 25.0 and 41.3 %",
            place: "section V, findings",
            quantity: MostAbove(CHAMELEON, OTHERS),
            said: Said::Between(25.0, 41.3),
            apart: "The largest gain is that over the algorithm and link where it is largest, the \
                paper's are means over algorithms.",
        },
    ],
};

const FIGURE19: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig19",
    title: "Exp#8, multi-node repair",
    did: "One to three nodes fail at a time, beside YCSB-A.",
    here: "The simulator at 1 Gb/s; 200 chunks are lost of each failed node.",
    panels: &[PanelSpec {
        title: "throughput",
        metric: Metric::Throughput,
        points: &[
            point("1 node", failing(1)),
            point("2 nodes", failing(2)),
            point("3 nodes", failing(3)),
        ],
        series: ALGORITHMS,
        printed: &[],
    }],
    claims: &[
        Claim {
            text: "ChameleonEC improves the throughput by 43.6 % for one node",
            place: "section V-B, Exp#8",
            quantity: Above(CHAMELEON.at(&["1 node"]), OTHERS),
            said: Said::Between(43.6, 43.6),
            apart: LINKED,
        },
        Claim {
            text: "by 65.7 % for three nodes",
            place: "section V-B, Exp#8",
            quantity: Above(CHAMELEON.at(&["3 nodes"]), OTHERS),
            said: Said::Between(65.7, 65.7),
            apart: LINKED,
        },
        Claim {
            text: "throughput declines slightly with more failed nodes",
            place: "section V-B, Exp#8",
            quantity: Below(
                of(&["CR", "PPR", "ECPipe", "ChameleonEC"]).at(&["3 nodes"]),
                of(&["CR", "PPR", "ECPipe", "ChameleonEC"]).at(&["1 node"]),
            ),
            said: Said::Positive,
            apart: "Here stripes that lost several chunks are read once for all of them, which \
                saves more than fewer nodes cost.",
        },
    ],
};

const CODES: &[PanelPoint] = &[
    point("RS(8,3)", coded("rs(8,3)")),
    point("RS(10,4)", coded("rs(10,4)")),
    point("LRC(8,2,2)", coded("lrc(8,2,2)")),
    point("LRC(10,2,2)", coded("lrc(10,2,2)")),
];

const FIGURE20: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig20",
    title: "Exp#9, generality over erasure codes",
    did: "RS(8,3), RS(10,4), LRC(8,2,2), LRC(10,2,2) and Butterfly(4,2), beside YCSB-A.",
    here: "The simulator at 1 Gb/s. Butterfly(4,2) has four chunks of which two are data in the \
        paper's (n, k): butterfly(2).",
    panels: &[
        PanelSpec {
            title: "sums",
            metric: Metric::Throughput,
            points: CODES,
            series: ALGORITHMS,
            printed: &[],
        },
        PanelSpec {
            title: "sub-chunks",
            metric: Metric::Throughput,
            points: &[point("Butterfly(4,2)", coded("butterfly(2)"))],
            series: &[series("CR", "cr"), series("ChameleonEC", "chameleon"), SUTURE],
            printed: &[],
        },
    ],
    claims: &[
        Claim {
            text: "ChameleonEC improves the throughput by 12.2 to 35.7 % over CR",
            place: "section V-B, Exp#9",
            quantity: Above(CHAMELEON.panel(&["sums"]), of(&["CR"])),
            said: Said::Between(12.2, 35.7),
            apart: LINKED,
        },
        Claim {
            text: "by 31.4 to 54.2 % over PPR",
            place: "section V-B, Exp#9",
            quantity: Above(CHAMELEON.panel(&["sums"]), of(&["PPR"])),
            said: Said::Between(31.4, 54.2),
            apart: "",
        },
        Claim {
            text: "by 65.7 to 97.0 % over ECPipe",
            place: "section V-B, Exp#9",
            quantity: Above(CHAMELEON.panel(&["sums"]), of(&["ECPipe"])),
            said: Said::Between(65.7, 97.0),
            apart: LINKED,
        },
        Claim {
            text: "by 4.9 % for Butterfly(4,2)",
            place: "section V-B, Exp#9",
            quantity: Above(CHAMELEON.panel(&["sub-chunks"]), of(&["CR"])),
            said: Said::Between(4.9, 4.9),
            apart: "Balance helps stars of any code: destinations and helpers are still chosen.",
        },
        Claim {
            text: "LRCs are repaired significantly faster than RS codes of the same k",
            place: "section V-B, Exp#9",
            quantity: LeastAbove(
                of(&["CR", "PPR", "ECPipe", "ChameleonEC"]).panel(&["sums"]).at(&["LRC(8,2,2)"]),
                of(&["CR", "PPR", "ECPipe", "ChameleonEC"]).panel(&["sums"]).at(&["RS(8,3)"]),
            ),
            said: Said::AtLeast(20.0),
            apart: "",
        },
    ],
};

const FIGURE21: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig21",
    title: "Exp#10, degraded read",
    did: "A client requests a chunk of a failed node, which is repaired for it, beside YCSB-A.",
    here: "The simulator at 1 Gb/s: one chunk, rebuilt at a node with a link of its own. A node \
        with one link receives no faster than it; all pipelined schemes reach that.",
    panels: &[PanelSpec {
        title: "throughput",
        metric: Metric::Throughput,
        points: &[
            point("RS(6,3)", degraded("rs(6,3)")),
            point("RS(8,3)", degraded("rs(8,3)")),
            point("RS(10,4)", degraded("rs(10,4)")),
        ],
        series: ALGORITHMS,
        printed: &[],
    }],
    claims: &[
        Claim {
            text: "ChameleonEC improves degraded reads by up to 152.0 %",
            place: "section V-B, Exp#10",
            quantity: MostAbove(CHAMELEON, OTHERS),
            said: Said::Between(152.0, 152.0),
            apart: DEGRADED,
        },
        Claim {
            text: "by 59.1 % on average for RS(6,3)",
            place: "section V-B, Exp#10",
            quantity: Above(CHAMELEON.at(&["RS(6,3)"]), OTHERS),
            said: Said::Between(59.1, 59.1),
            apart: DEGRADED,
        },
        Claim {
            text: "by 35.7 % on average for RS(10,4)",
            place: "section V-B, Exp#10",
            quantity: Above(CHAMELEON.at(&["RS(10,4)"]), OTHERS),
            said: Said::Between(35.7, 35.7),
            apart: DEGRADED,
        },
        Claim {
            text: "the improvement drops as k grows",
            place: "section V-B, Exp#10",
            quantity: Minus(
                &Above(CHAMELEON.at(&["RS(6,3)"]), OTHERS),
                &Above(CHAMELEON.at(&["RS(10,4)"]), OTHERS),
            ),
            said: Said::Positive,
            apart: DEGRADED,
        },
    ],
};

/// Why single chunks compare otherwise.
const DEGRADED: &str = "For one chunk on idle links CR takes k times as long as a chain, and a chain \
    cannot be beaten by one tree: the means are of very different gains.";

/// Why a straggler costs the others more.
const STRAGGLER: &str = "A fifth of its links is left to the straggler here; the paper does not say \
    what its eight threads left. With a half, and no applications, ChameleonEC is 40 % faster than \
    CR, 30 % than PPR and 23 % than ECPipe.";

const FIGURE22: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig22",
    title: "Exp#11, breakdown: a straggler appears in a phase",
    did: "A Redis client of eight threads reads 1 MB objects from a node of the repair, from the \
        start of a phase, after 5 s or after 10 s; the throughput of that phase.",
    here: "The simulator at 1 Gb/s: a node keeps a fifth of its rates from then on. ETRP alone is \
        ChameleonEC's dispatch with as many repairs at a time as there are nodes, which no phase \
        reschedules. Chunks that are finished within 20 s count.",
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
        Claim {
            text: "with a straggler ChameleonEC is 34.5 % faster than CR",
            place: "section V-B, Exp#11",
            quantity: Above(CHAMELEON.panel(&["whole repair"]), of(&["CR"])),
            said: Said::Between(34.5, 34.5),
            apart: STRAGGLER,
        },
        Claim {
            text: "18.8 % faster than PPR",
            place: "section V-B, Exp#11",
            quantity: Above(CHAMELEON.panel(&["whole repair"]), of(&["PPR"])),
            said: Said::Between(18.8, 18.8),
            apart: STRAGGLER,
        },
        Claim {
            text: "43.5 % faster than ECPipe",
            place: "section V-B, Exp#11",
            quantity: Above(CHAMELEON.panel(&["whole repair"]), of(&["ECPipe"])),
            said: Said::Between(43.5, 43.5),
            apart: STRAGGLER,
        },
        Claim {
            text: "31.4 % faster than ETRP alone",
            place: "section V-B, Exp#11",
            quantity: Above(CHAMELEON.panel(&["whole repair"]), of(&["ETRP"])),
            said: Said::Between(31.4, 31.4),
            apart: STRAGGLER,
        },
        Claim {
            text: "the later the straggler appears, the higher the throughput of that phase",
            place: "section V-B, Exp#11",
            quantity: Above(
                of(&["CR", "PPR", "ECPipe", "ETRP"]).panel(&["first phase"]).at(&["10 s"]),
                of(&["CR", "PPR", "ECPipe", "ETRP"]).panel(&["first phase"]).at(&["0 s"]),
            ),
            said: Said::Positive,
            apart: "",
        },
    ],
};

const STRAGGLERS: &[PanelPoint] = &[
    point("0 s", straggling(0.0)),
    point("5 s", straggling(5.0)),
    point("10 s", straggling(10.0)),
];

const BREAKDOWN: &[crate::reproduce::experiment::Series] = &[
    series("CR", "cr"),
    series("PPR", "ppr"),
    series("ECPipe", "rp"),
    series("ETRP", "tunable/chameleon/window"),
    series("ChameleonEC", "chameleon"),
    SUTURE,
];

/// Why links matter less to slow disks.
const DISKS: &str = "Disks of 500 MB/s are slower than links of 10 Gb/s and nothing else limits a \
    repair here, so that both settings wait for disks, which ChameleonEC does not balance.";

const FIGURE23: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig23",
    title: "Exp#12, storage-bottlenecked scenarios",
    did: "Disks of 250 to 500 MB/s beside links of 10 Gb/s, and YCSB-A; ChameleonEC-IO dispatches \
        by disks.",
    here: "The simulator at 10 Gb/s. Disks are equal and applications do not use them here, so \
        that there is little for a monitor of disks to see.",
    panels: &[PanelSpec {
        title: "throughput",
        metric: Metric::Throughput,
        points: &[
            point("250 MB/s", stored(250.0)),
            point("375 MB/s", stored(375.0)),
            point("500 MB/s", stored(500.0)),
        ],
        series: &[
            series("CR", "cr"),
            series("PPR", "ppr"),
            series("ECPipe", "rp"),
            series("ChameleonEC", "chameleon"),
            series("ChameleonEC-IO", "tunable/chameleon:io/phases:20"),
            SUTURE,
        ],
        printed: &[],
    }],
    claims: &[
        Claim {
            text: "ChameleonEC improves the throughput by 43.8 % with 500 MB/s",
            place: "section V-B, Exp#12",
            quantity: Above(CHAMELEON.at(&["500 MB/s"]), OTHERS),
            said: Said::Between(43.8, 43.8),
            apart: DISKS,
        },
        Claim {
            text: "by 15.5 % with 250 MB/s",
            place: "section V-B, Exp#12",
            quantity: Above(CHAMELEON.at(&["250 MB/s"]), OTHERS),
            said: Said::Between(15.5, 15.5),
            apart: DISKS,
        },
        Claim {
            text: "ChameleonEC-IO is 35.7 % faster than ChameleonEC when disks are slow",
            place: "section V-B, Exp#12",
            quantity: Above(of(&["ChameleonEC-IO"]).at(&["250 MB/s"]), CHAMELEON),
            said: Said::Between(35.7, 35.7),
            apart: "Applications take nothing of the simulator's disks, so that these are equal and \
                a balance by links balances them, too.",
        },
    ],
};

const FIGURE24: PaperExperiment = PaperExperiment {
    paper: Paper::ChameleonEc,
    id: "fig24",
    title: "Exp#13, impact of network bandwidth",
    did: "Links of 1 to 10 Gb/s beside YCSB-A.",
    here: "The simulator; disks have 500 MB/s.",
    panels: &[PanelSpec {
        title: "throughput",
        metric: Metric::Throughput,
        points: &[
            point("1 Gb/s", linked(1.0)),
            point("2 Gb/s", linked(2.0)),
            point("5 Gb/s", linked(5.0)),
            point("10 Gb/s", linked(10.0)),
        ],
        series: ALGORITHMS,
        printed: &[],
    }],
    claims: &[
        Claim {
            text: "ChameleonEC improves the throughput by 64.4 % at 1 Gb/s",
            place: "section V-B, Exp#13",
            quantity: Above(CHAMELEON.at(&["1 Gb/s"]), OTHERS),
            said: Said::Between(64.4, 64.4),
            apart: LINKED,
        },
        Claim {
            text: "by 40.1 % at 10 Gb/s",
            place: "section V-B, Exp#13",
            quantity: Above(CHAMELEON.at(&["10 Gb/s"]), OTHERS),
            said: Said::Between(40.1, 40.1),
            apart: DISKS,
        },
        Claim {
            text: "the throughput grows with the bandwidth",
            place: "section V-B, Exp#13",
            quantity: LeastAbove(
                of(&["CR", "PPR", "ECPipe", "ChameleonEC"]).at(&["10 Gb/s"]),
                of(&["CR", "PPR", "ECPipe", "ChameleonEC"]).at(&["1 Gb/s"]),
            ),
            said: Said::Positive,
            apart: "",
        },
        Claim {
            text: "the improvement decreases as the bandwidth grows",
            place: "section V-B, Exp#13",
            quantity: Minus(
                &Above(CHAMELEON.at(&["1 Gb/s"]), OTHERS),
                &Above(CHAMELEON.at(&["10 Gb/s"]), OTHERS),
            ),
            said: Said::Positive,
            apart: "",
        },
    ],
};
