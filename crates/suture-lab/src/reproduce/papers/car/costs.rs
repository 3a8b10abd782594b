//! CAR, Figures 15 and 16: balance over racks, computation (section 5.2, Experiments 5 and 6).
//!
//! Place: experiments as data.

use super::{CAR, CFS1, CFS2, CFS3, point, series, sized};
use crate::reproduce::claim::Quantity::{Apart, LeastBelow, Mean, Minus, Most, MostBelow};
use crate::reproduce::claim::{Claim, Said, of};
use crate::reproduce::experiment::{
    PanelPoint, PanelSpec, Paper, PaperExperiment, PrintedValue, SUTURE, Series,
};
use crate::reproduce::metric::Metric;

pub const FIGURE15: PaperExperiment = PaperExperiment {
    paper: Paper::Car,
    id: "fig15",
    title: "Load balancing rate of racks",
    did: "Experiment 5: what the intact rack sends that sends most, over the mean of all, without \
        Algorithm 2 and after up to 50 of its iterations; 100 stripes.",
    here: "Plans alone: without Algorithm 2, where racks are those of Theorem 1 and equal ones are \
        drawn at random, and after 5, 10, 25 and 50 of its iterations, which were chosen here. The \
        preset car has as many as change something.",
    panels: &[PanelSpec {
        title: "rate",
        metric: Metric::RackBalance,
        points: &[point("CFS1", CFS1), point("CFS2", CFS2), point("CFS3", CFS3)],
        series: &[
            series("RR", "star/car:random/all"),
            series("0 iterations", "rack/car:0/all"),
            series("5 iterations", "rack/car:5/all"),
            series("10 iterations", "rack/car:10/all"),
            series("25 iterations", "rack/car:25/all"),
            series("50 iterations", "rack/car:50/all"),
            series("CAR", "rack/car/all"),
            SUTURE,
        ],
        printed: &[
            PrintedValue { label: "CFS1", series: "0 iterations", value: 1.22 },
            PrintedValue { label: "CFS1", series: "50 iterations", value: 1.02 },
        ],
    }],
    claims: &[
        Claim {
            text: "without load balancing CFS1 has a rate of 1.22",
            place: "section 5.2, Experiment 5",
            quantity: Mean(of(&["0 iterations"]).at(&["CFS1"])),
            said: Said::Degree(1.22, 1.22),
            apart: "Where racks hold equally much of a stripe, one of them is drawn at random \
                here, which is balanced in part already; the paper does not say which it begins \
                with.",
        },
        Claim {
            text: "with load balancing CFS1 has a rate of 1.02",
            place: "section 5.2, Experiment 5",
            quantity: Mean(of(&["50 iterations"]).at(&["CFS1"])),
            said: Said::Degree(1.02, 1.02),
            apart: "How far racks can be evened out depends on where chunks lie, which is drawn \
                anew here: where no stripe needs one rack in particular all of them come out even, \
                and what such stripes there are leave above one.",
        },
        Claim {
            text: "load balancing lowers the rate in all settings",
            place: "section 5.2, Experiment 5",
            quantity: LeastBelow(of(&["50 iterations"]), of(&["0 iterations"])),
            said: Said::Positive,
            apart: EVEN,
        },
        Claim {
            text: "the rate first falls significantly: in each setting by more in the first 25 \
                iterations than in the next 25",
            place: "section 5.2, Experiment 5",
            quantity: Minus(
                &LeastBelow(of(&["25 iterations"]), of(&["0 iterations"])),
                &MostBelow(of(&["50 iterations"]), of(&["25 iterations"])),
            ),
            said: Said::Positive,
            apart: EVEN,
        },
        Claim {
            text: "then the rate is stable: from 25 to 50 iterations it stays within 1 %",
            place: "section 5.2, Experiment 5",
            quantity: Apart(of(&["50 iterations"]), of(&["25 iterations"])),
            said: Said::Near(1.0),
            apart: "How many iterations it takes until no stripe can be changed depends on where \
                chunks lie, which is drawn anew here.",
        },
    ],
};

/// Why little may be left to even out.
const EVEN: &str = "Racks that are drawn at random can be even by chance.";

const COMPUTED: &[PanelPoint] =
    &[point("CFS1", sized(CFS1, 8)), point("CFS2", sized(CFS2, 8)), point("CFS3", sized(CFS3, 8))];

const PLANNED: &[Series] =
    &[series("RR", "star/car:random/all"), series("CAR", "rack/car/all"), SUTURE];

/// What computes here, and on the paper's machines.
const KERNELS: &str = "Kernels with vector instructions compute here, Jerasure 1.2 on the paper's \
    processors there, beside links of the same rate.";

pub const FIGURE16: PaperExperiment = PaperExperiment {
    paper: Paper::Car,
    id: "fig16",
    title: "Computation and transmission time",
    did: "Experiment 6: chunks of 8 MB; the time of decoding by Jerasure 1.2 beside that of \
        transmission.",
    here: "The codes of all plans run on this machine's processor, one core, with the kernels of \
        agents; transmission is not simulated: it is what the busiest link needs.",
    panels: &[
        PanelSpec {
            title: "part of computing",
            metric: Metric::ComputePart,
            points: COMPUTED,
            series: PLANNED,
            printed: &[
                PrintedValue { label: "CFS1", series: "CAR", value: 11.3 },
                PrintedValue { label: "CFS3", series: "CAR", value: 7.1 },
            ],
        },
        PanelSpec {
            title: "computing",
            metric: Metric::Compute,
            points: COMPUTED,
            series: PLANNED,
            printed: &[],
        },
    ],
    claims: &[
        Claim {
            text: "transmission dominates the time of RR and CAR: computing takes less than half",
            place: "section 5.2, Experiment 6",
            quantity: Most(of(&["RR", "CAR"]).panel(&["part of computing"])),
            said: Said::AtMost(50.0),
            apart: KERNELS,
        },
        Claim {
            text: "computing takes 11.3 % of CAR's time in CFS1, with k = 4",
            place: "section 5.2, Experiment 6",
            quantity: Mean(CAR.panel(&["part of computing"]).at(&["CFS1"])),
            said: Said::Between(11.3, 11.3),
            apart: KERNELS,
        },
        Claim {
            text: "computing takes 7.1 % of CAR's time in CFS3, with k = 10",
            place: "section 5.2, Experiment 6",
            quantity: Mean(CAR.panel(&["part of computing"]).at(&["CFS3"])),
            said: Said::Between(7.1, 7.1),
            apart: KERNELS,
        },
        Claim {
            text: "the part of computing falls as k grows, in RR and in CAR",
            place: "section 5.2, Experiment 6",
            quantity: LeastBelow(
                of(&["RR", "CAR"]).panel(&["part of computing"]).at(&["CFS2", "CFS3"]),
                of(&["RR", "CAR"]).panel(&["part of computing"]).at(&["CFS1", "CFS2"]),
            ),
            said: Said::Positive,
            apart: "Both computing and what comes to the replacement's downlink grow with k here, \
                and no other time is counted.",
        },
        Claim {
            text: "CAR computes about as long as RR: they differ by up to around 10 %",
            place: "section 5.2, Experiment 6",
            quantity: Apart(CAR.panel(&["computing"]), of(&["RR"])),
            said: Said::Near(10.0),
            apart: "The partial sums of racks are written and read once more, which costs more in \
                proportion the faster the kernels are.",
        },
    ],
};
