//! CAR, IEEE TDSC: Figures 7 to 16.
//!
//! Place: experiments as data. Racks of a few nodes behind switches of 1 Gbit/s, 100 stripes of
//! which no rack holds more than may be lost, one node fails and is replaced in its rack (section
//! 5.2, Table 2).

use crate::reproduce::claim::Quantity::{Above, Below, LeastBelow, Mean, Minus, Most};
use crate::reproduce::claim::{Claim, Pick, Said, of};
use crate::reproduce::experiment::{PanelPoint, PanelSpec, Paper, PaperExperiment, SUTURE, Series};
use crate::reproduce::metric::Metric;
use crate::reproduce::setting::{Between, FigureSetting, GBIT, Lost, Placing, To};

const CFS1: FigureSetting = FigureSetting {
    code: "rs(4,3)",
    nodes: 10,
    racks: &[4, 3, 3],
    between: Between::Rate(GBIT),
    link: GBIT,
    disk: None,
    chunk_bytes: 4_000_000,
    packet_bytes: None,
    lost: Lost::OfStripes(100),
    failed: 1,
    to: To::Replacement,
    placing: Placing::Random,
    foreground: None,
    trace: None,
    straggler: None,
};

const CFS2: FigureSetting =
    FigureSetting { code: "rs(6,3)", nodes: 13, racks: &[4, 3, 3, 3], ..CFS1 };
const CFS3: FigureSetting =
    FigureSetting { code: "rs(10,4)", nodes: 20, racks: &[6, 4, 5, 3, 2], ..CFS1 };

const fn sized(setting: FigureSetting, megabytes: u64) -> FigureSetting {
    // A multiple of 64 bytes.
    FigureSetting { chunk_bytes: megabytes * 1_000_000, ..setting }
}

/// Racks of three nodes each.
const fn racked(code: &'static str, racks: &'static [usize]) -> FigureSetting {
    FigureSetting { code, racks, nodes: 3 * racks.len(), ..CFS1 }
}

const THREE: &[usize] = &[3, 3, 3];
const FOUR: &[usize] = &[3, 3, 3, 3];
const FIVE: &[usize] = &[3, 3, 3, 3, 3];

/// Racks of so many nodes.
const fn wide(racks: &'static [usize], nodes: usize) -> FigureSetting {
    FigureSetting { racks, nodes, ..CFS1 }
}

const fn between(megabits: f64) -> FigureSetting {
    FigureSetting { between: Between::Rate(megabits / 8.0 * 1e6), ..CFS2 }
}

/// (10, 8) placed so that so many racks may be lost (Theorem 2).
const fn surviving(
    counts: &'static [usize],
    racks: &'static [usize],
    nodes: usize,
) -> FigureSetting {
    FigureSetting { code: "rs(10,8)", racks, nodes, placing: Placing::InRacks(counts), ..CFS1 }
}

const fn series(name: &'static str, policy: &'static str) -> Series {
    Series { name, policy }
}

const fn point(label: &'static str, setting: FigureSetting) -> PanelPoint {
    PanelPoint { label, setting }
}

const RECOVERIES: &[Series] =
    &[series("RR", "star/car:random/window"), series("CAR", "car"), SUTURE];

const RR: Pick = of(&["RR"]);
const CAR: Pick = of(&["CAR"]);

const DID: &str = "Machines in up to five racks, RS codes of Jerasure, random recovery (RR) and \
    CAR; the failed node itself is the replacement (section 5.2).";
const HERE: &str = "A spare node in the failed node's rack takes all rebuilt chunks, for every \
    policy; links of nodes and racks carry 1 Gb/s.";
const TRAFFIC: &str = "Plans alone. A spare node in the failed node's rack takes all rebuilt \
    chunks, for every policy. The bound is the fewest racks that have to help.";

const DOWNLINK: &str = "In the simulator RR's and CAR's limit is the replacement's downlink alone, \
    which both use fully; the paper's hosts also decode, and its switches share.";

pub const EXPERIMENTS: &[PaperExperiment] = &[
    FIGURE7, FIGURE8, FIGURE9, FIGURE10, FIGURE11, FIGURE12, FIGURE13, FIGURE14, FIGURE15, FIGURE16,
];

const FIGURE7: PaperExperiment = PaperExperiment {
    paper: Paper::Car,
    id: "fig7",
    title: "Reconstruction time over the cross-rack bandwidth",
    did: "Analysis: CAR takes r'C/B for r' intact racks, chunks of C and B between racks, which \
        goes from 50 to 400 Mb/s (section 4.5.1).",
    here: "The simulator: CFS2, RS(6,3), links of racks from 50 to 400 Mb/s.",
    panels: &[PanelSpec {
        title: "time",
        metric: Metric::ChunkSeconds,
        points: &[
            point("50 Mb/s", between(50.0)),
            point("100 Mb/s", between(100.0)),
            point("200 Mb/s", between(200.0)),
            point("400 Mb/s", between(400.0)),
        ],
        series: RECOVERIES,
        printed: &[],
    }],
    claims: &[Claim {
        text: "CAR's time goes as 1/B: at 50 Mb/s it is eight times that at 400 Mb/s (700 % more)",
        place: "section 4.5.1, Figure 7",
        quantity: Above(CAR.at(&["50 Mb/s"]), CAR.at(&["400 Mb/s"])),
        said: Said::Between(700.0, 700.0),
        apart: "",
    }],
};

const FIGURE8: PaperExperiment = PaperExperiment {
    paper: Paper::Car,
    id: "fig8",
    title: "Cross-rack traffic over the rack failures that are tolerated",
    did: "Analysis: (k=10, m=8), chunks of 4 MB, placed so that u racks may be lost (section \
        4.5.2).",
    here: TRAFFIC,
    panels: &[PanelSpec {
        title: "traffic",
        metric: Metric::CrossRack,
        points: &[
            point("u=1", surviving(&[8, 8, 2], &[9, 9, 9], 27)),
            point("u=2", surviving(&[4, 4, 4, 4, 2], &[5, 5, 5, 5, 5], 25)),
            point("u=3", surviving(&[4, 2, 2, 2, 2, 2, 2, 2], &[5; 8], 40)),
            point("u=4", surviving(&[2; 9], &[3; 9], 27)),
        ],
        series: &[series("RR", "star/car:random/all"), series("CAR", "rack/car/all"), SUTURE],
        printed: &[],
    }],
    claims: &[Claim {
        text: "the more rack failures are tolerated, the more CAR moves between racks",
        place: "section 4.5.2, Figure 8",
        quantity: Above(CAR.at(&["u=4"]), CAR.at(&["u=1"])),
        said: Said::Positive,
        apart: "",
    }],
};

const fn cfs(title: &'static str, metric: Metric, points: &'static [PanelPoint]) -> PanelSpec {
    PanelSpec { title, metric, points, series: RECOVERIES, printed: &[] }
}

const SIZES1: &[PanelPoint] = &[
    point("4 MB", sized(CFS1, 4)),
    point("8 MB", sized(CFS1, 8)),
    point("16 MB", sized(CFS1, 16)),
];
const SIZES2: &[PanelPoint] = &[
    point("4 MB", sized(CFS2, 4)),
    point("8 MB", sized(CFS2, 8)),
    point("16 MB", sized(CFS2, 16)),
];
const SIZES3: &[PanelPoint] = &[
    point("4 MB", sized(CFS3, 4)),
    point("8 MB", sized(CFS3, 8)),
    point("16 MB", sized(CFS3, 16)),
];

const FIGURE9: PaperExperiment = PaperExperiment {
    paper: Paper::Car,
    id: "fig9",
    title: "Cross-rack traffic in three settings",
    did: DID,
    here: TRAFFIC,
    panels: &[
        cfs("CFS1", Metric::CrossRack, SIZES1),
        cfs("CFS2", Metric::CrossRack, SIZES2),
        cfs("CFS3", Metric::CrossRack, SIZES3),
    ],
    claims: &[
        Claim {
            text: "CAR moves 52.4 % less between racks in CFS1 with chunks of 4 MB",
            place: "section 5.2, Experiment 1",
            quantity: Below(CAR.panel(&["CFS1"]).at(&["4 MB"]), RR),
            said: Said::Between(52.4, 52.4),
            apart: "The saving follows from how many racks a stripe lies in, and placements are \
                drawn anew here: the paper says the rule for them, and not what it drew.",
        },
        Claim {
            text: "CAR moves 66.9 % less between racks in CFS3 with chunks of 16 MB",
            place: "section 5.2, Experiment 1",
            quantity: Below(CAR.panel(&["CFS3"]).at(&["16 MB"]), RR),
            said: Said::Between(66.9, 66.9),
            apart: "",
        },
        Claim {
            text: "the larger k, the more CAR saves",
            place: "section 5.2, Experiment 1",
            quantity: Minus(&Below(CAR.panel(&["CFS3"]), RR), &Below(CAR.panel(&["CFS1"]), RR)),
            said: Said::Positive,
            apart: "",
        },
    ],
};

const FIGURE10: PaperExperiment = PaperExperiment {
    paper: Paper::Car,
    id: "fig10",
    title: "Recovery time in three settings",
    did: DID,
    here: HERE,
    panels: &[
        cfs("CFS1", Metric::ChunkSeconds, SIZES1),
        cfs("CFS2", Metric::ChunkSeconds, SIZES2),
        cfs("CFS3", Metric::ChunkSeconds, SIZES3),
    ],
    claims: &[
        Claim {
            text: "CAR takes 46.2 % less time in CFS2 with chunks of 8 MB",
            place: "section 5.2, Experiment 1",
            quantity: Below(CAR.panel(&["CFS2"]).at(&["8 MB"]), RR),
            said: Said::Between(46.2, 46.2),
            apart: DOWNLINK,
        },
        Claim {
            text: "CAR is faster than RR in every setting",
            place: "section 5.2, Experiment 1",
            quantity: LeastBelow(CAR, RR),
            said: Said::Positive,
            apart: DOWNLINK,
        },
    ],
};

const RACKS: &[PanelPoint] = &[
    point("3 racks", racked("rs(6,3)", THREE)),
    point("4 racks", racked("rs(6,3)", FOUR)),
    point("5 racks", racked("rs(6,3)", FIVE)),
];

const FIGURE11: PaperExperiment = PaperExperiment {
    paper: Paper::Car,
    id: "fig11",
    title: "Impact of the number of racks",
    did: "Experiment 2: RS(6,3), chunks of 4 MB, three to five racks of three nodes each; each \
        node fails in turn.",
    here: HERE,
    panels: &[cfs("traffic", Metric::CrossRack, RACKS), cfs("time", Metric::ChunkSeconds, RACKS)],
    claims: &[
        Claim {
            text: "CAR moves 55.3 % less between three racks",
            place: "section 5.2, Experiment 2",
            quantity: Below(CAR.panel(&["traffic"]).at(&["3 racks"]), RR),
            said: Said::Between(55.3, 55.3),
            apart: "Three racks of three nodes hold three chunks of each stripe each: CAR then \
                needs two sums, RR about 4.5 chunks.",
        },
        Claim {
            text: "CAR moves 54.9 % less between five racks",
            place: "section 5.2, Experiment 2",
            quantity: Below(CAR.panel(&["traffic"]).at(&["5 racks"]), RR),
            said: Said::Between(54.9, 54.9),
            apart: "",
        },
        Claim {
            text: "CAR's traffic grows with the racks",
            place: "section 5.2, Experiment 2",
            quantity: Above(
                CAR.panel(&["traffic"]).at(&["5 racks"]),
                CAR.panel(&["traffic"]).at(&["3 racks"]),
            ),
            said: Said::Positive,
            apart: "",
        },
        Claim {
            text: "CAR's time grows from 0.60 s to 1.04 s a chunk (73 %) from three racks to five",
            place: "section 5.2, Experiment 2",
            quantity: Above(
                CAR.panel(&["time"]).at(&["5 racks"]),
                CAR.panel(&["time"]).at(&["3 racks"]),
            ),
            said: Said::Between(73.0, 73.0),
            apart: DOWNLINK,
        },
        Claim {
            text: "CAR takes 33.7 % less time than RR with five racks",
            place: "section 5.2, Experiment 2",
            quantity: Below(CAR.panel(&["time"]).at(&["5 racks"]), RR),
            said: Said::Between(33.7, 33.7),
            apart: DOWNLINK,
        },
    ],
};

const DATA: &[PanelPoint] = &[
    point("k=4", racked("rs(4,3)", FOUR)),
    point("k=6", racked("rs(6,3)", FOUR)),
    point("k=8", racked("rs(8,3)", FOUR)),
];

const FIGURE12: PaperExperiment = PaperExperiment {
    paper: Paper::Car,
    id: "fig12",
    title: "Impact of the number of data chunks",
    did: "Experiment 3: four racks of three nodes, chunks of 4 MB, m = 3, k varies.",
    here: HERE,
    panels: &[cfs("traffic", Metric::CrossRack, DATA), cfs("time", Metric::ChunkSeconds, DATA)],
    claims: &[
        Claim {
            text: "both move more between racks as k grows",
            place: "section 5.2, Experiment 3",
            quantity: Above(
                of(&["RR", "CAR"]).panel(&["traffic"]).at(&["k=8"]),
                of(&["RR", "CAR"]).panel(&["traffic"]).at(&["k=4"]),
            ),
            said: Said::Positive,
            apart: "",
        },
        Claim {
            text: "CAR changes less with k than RR",
            place: "section 5.2, Experiment 3",
            quantity: Minus(
                &Above(RR.panel(&["traffic"]).at(&["k=8"]), RR.panel(&["traffic"]).at(&["k=4"])),
                &Above(CAR.panel(&["traffic"]).at(&["k=8"]), CAR.panel(&["traffic"]).at(&["k=4"])),
            ),
            said: Said::Positive,
            apart: "In relation to what they are; in chunks CAR changes less.",
        },
        Claim {
            text: "CAR takes 47.9 % less time with k = 4",
            place: "section 5.2, Experiment 3",
            quantity: Below(CAR.panel(&["time"]).at(&["k=4"]), RR),
            said: Said::Between(47.9, 47.9),
            apart: DOWNLINK,
        },
    ],
};

const PARITY: &[PanelPoint] = &[
    point("m=2", racked("rs(6,2)", FOUR)),
    point("m=3", racked("rs(6,3)", FOUR)),
    point("m=4", racked("rs(6,4)", FOUR)),
];

const FIGURE13: PaperExperiment = PaperExperiment {
    paper: Paper::Car,
    id: "fig13",
    title: "Impact of the number of parity chunks",
    did: "Experiment 3: four racks of three nodes, chunks of 4 MB, k = 6, m varies.",
    here: HERE,
    panels: &[cfs("traffic", Metric::CrossRack, PARITY), cfs("time", Metric::ChunkSeconds, PARITY)],
    claims: &[
        Claim {
            text: "m has no significant impact on the traffic of RR",
            place: "section 5.2, Experiment 3",
            quantity: Above(
                RR.panel(&["traffic"]).at(&["m=4"]),
                RR.panel(&["traffic"]).at(&["m=2"]),
            ),
            said: Said::Near(15.0),
            apart: "",
        },
        Claim {
            text: "m has no significant impact on the traffic of CAR",
            place: "section 5.2, Experiment 3",
            quantity: Above(
                CAR.panel(&["traffic"]).at(&["m=4"]),
                CAR.panel(&["traffic"]).at(&["m=2"]),
            ),
            said: Said::Near(15.0),
            apart: "With more parity chunks a rack may hold more of a stripe (single-rack fault \
                tolerance), so that fewer racks have to help.",
        },
        Claim {
            text: "m has limited influence on CAR's time",
            place: "section 5.2, Experiment 3",
            quantity: Above(CAR.panel(&["time"]).at(&["m=4"]), CAR.panel(&["time"]).at(&["m=2"])),
            said: Said::Near(15.0),
            apart: "As for the traffic.",
        },
    ],
};

const WIDTHS: &[PanelPoint] = &[
    point("3 nodes", wide(THREE, 9)),
    point("4 nodes", wide(&[4, 4, 4], 12)),
    point("5 nodes", wide(&[5, 5, 5], 15)),
];

const FIGURE14: PaperExperiment = PaperExperiment {
    paper: Paper::Car,
    id: "fig14",
    title: "Impact of the number of nodes per rack",
    did: "Experiment 4: RS(4,3), chunks of 4 MB, three racks of three to five nodes.",
    here: HERE,
    panels: &[cfs("traffic", Metric::CrossRack, WIDTHS), cfs("time", Metric::ChunkSeconds, WIDTHS)],
    claims: &[
        Claim {
            text: "the traffic of RR and CAR is not affected",
            place: "section 5.2, Experiment 4",
            quantity: Above(
                of(&["RR", "CAR"]).panel(&["traffic"]).at(&["5 nodes"]),
                of(&["RR", "CAR"]).panel(&["traffic"]).at(&["3 nodes"]),
            ),
            said: Said::Near(15.0),
            apart: "",
        },
        Claim {
            text: "the time of RR and CAR is stable",
            place: "section 5.2, Experiment 4",
            quantity: Above(
                of(&["RR", "CAR"]).panel(&["time"]).at(&["5 nodes"]),
                of(&["RR", "CAR"]).panel(&["time"]).at(&["3 nodes"]),
            ),
            said: Said::Near(15.0),
            apart: "",
        },
    ],
};

const FIGURE15: PaperExperiment = PaperExperiment {
    paper: Paper::Car,
    id: "fig15",
    title: "Load balancing rate of racks",
    did: "Experiment 5: what the intact rack sends that sends most, over the mean of all, without \
        Algorithm 2 and after up to 50 of its iterations; 100 stripes.",
    here: "Plans alone: with no iteration, and after all of them, since ours go on until no stripe \
        can be changed. The curve between is not drawn.",
    panels: &[PanelSpec {
        title: "rate",
        metric: Metric::RackBalance,
        points: &[point("CFS1", CFS1), point("CFS2", CFS2), point("CFS3", CFS3)],
        series: &[
            series("RR", "star/car:random/all"),
            series("CAR, no balancing", "rack/car:random/all"),
            series("CAR", "rack/car/all"),
            SUTURE,
        ],
        printed: &[],
    }],
    claims: &[
        Claim {
            text: "without load balancing CFS1 has a rate of 1.22",
            place: "section 5.2, Experiment 5",
            quantity: Mean(of(&["CAR, no balancing"]).at(&["CFS1"])),
            said: Said::Between(1.22, 1.22),
            apart: "",
        },
        Claim {
            text: "with load balancing CFS1 has a rate of 1.02",
            place: "section 5.2, Experiment 5",
            quantity: Mean(CAR.at(&["CFS1"])),
            said: Said::Between(1.02, 1.02),
            apart: "",
        },
        Claim {
            text: "load balancing lowers the rate in all settings",
            place: "section 5.2, Experiment 5",
            quantity: LeastBelow(CAR, of(&["CAR, no balancing"])),
            said: Said::Positive,
            apart: "",
        },
    ],
};

const COMPUTED: &[PanelPoint] =
    &[point("CFS1", sized(CFS1, 8)), point("CFS2", sized(CFS2, 8)), point("CFS3", sized(CFS3, 8))];

const FIGURE16: PaperExperiment = PaperExperiment {
    paper: Paper::Car,
    id: "fig16",
    title: "Computation and transmission time",
    did: "Experiment 6: chunks of 8 MB; the time of decoding by Jerasure 1.2 beside that of \
        transmission.",
    here: "The codes of all plans run on this machine's processor, one core, with the kernels of \
        agents; transmission is what the busiest link needs.",
    panels: &[
        PanelSpec {
            title: "part of computing",
            metric: Metric::ComputePart,
            points: COMPUTED,
            series: &[series("RR", "star/car:random/all"), series("CAR", "rack/car/all"), SUTURE],
            printed: &[],
        },
        PanelSpec {
            title: "computing",
            metric: Metric::Compute,
            points: COMPUTED,
            series: &[series("RR", "star/car:random/all"), series("CAR", "rack/car/all"), SUTURE],
            printed: &[],
        },
    ],
    claims: &[
        Claim {
            text: "transmission dominates: computing takes at most 11.3 % of CAR's time",
            place: "section 5.2, Experiment 6",
            quantity: Most(CAR.panel(&["part of computing"])),
            said: Said::AtMost(11.3),
            apart: "",
        },
        Claim {
            text: "the part of computing falls as k grows",
            place: "section 5.2, Experiment 6",
            quantity: Below(
                CAR.panel(&["part of computing"]).at(&["CFS3"]),
                CAR.panel(&["part of computing"]).at(&["CFS1"]),
            ),
            said: Said::Positive,
            apart: "Kernels here cost so little that both parts are below a few per cent, and both \
                computing and the replacement's downlink grow with k.",
        },
        Claim {
            text: "CAR computes about as long as RR, within 10 %",
            place: "section 5.2, Experiment 6",
            quantity: Above(CAR.panel(&["computing"]), RR),
            said: Said::Near(10.0),
            apart: "The partial sums of racks are written and read once more, which costs more in \
                proportion the faster the kernels are.",
        },
    ],
};
