//! CAR, Figures 7 and 8: what the paper computes (section 4.5).
//!
//! Place: experiments as data.

use super::{CAR, CFS1, CFS2, RECOVERIES, TRAFFIC, point, series};
use crate::reproduce::claim::Quantity::{Above, LeastAbove};
use crate::reproduce::claim::{Claim, Said};
use crate::reproduce::experiment::{PanelSpec, Paper, PaperExperiment, SUTURE};
use crate::reproduce::metric::Metric;
use crate::reproduce::setting::{Between, FigureSetting, Placing};

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

pub const FIGURE7: PaperExperiment = PaperExperiment {
    paper: Paper::Car,
    id: "fig7",
    title: "Reconstruction time over the cross-rack bandwidth",
    did: "Analysis: CAR takes r'C/B for r' intact racks, chunks of C and B between racks, which \
        goes from 50 to 400 Mb/s (section 4.5.1).",
    here: "The simulator: CFS2, RS(6,3), links of racks from 50 to 400 Mb/s; the two points \
        between are ours.",
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
        apart: "The analysis leaves out links within racks, which the simulator has.",
    }],
};

pub const FIGURE8: PaperExperiment = PaperExperiment {
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
        text: "with each rack failure more that is tolerated, CAR moves more between racks",
        place: "section 4.5.2, Figure 8",
        quantity: LeastAbove(CAR.at(&["u=2", "u=3", "u=4"]), CAR.at(&["u=1", "u=2", "u=3"])),
        said: Said::Positive,
        apart: "Which numbers of chunks Theorem 2 gives a rack depends on how m divides by u.",
    }],
};
