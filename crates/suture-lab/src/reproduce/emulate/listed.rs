//! Which figures are measured on the emulated network, at which points, and in how much time.
//!
//! Place: before everything else of an emulation: the closed list.
//!
//! What it takes on two cores. A repair takes as long as its policy does: 8 s at the bound of 24
//! chunks of RS(6,3) at 1 Gb/s, twice that for the slowest policies. Around it are some 10 s:
//! processes start, the failure is noticed after 4 s, processes start again, every byte is read
//! back. What is repaired is stored once for all policies. So one repetition of all policies takes
//!
//! | figure | points x policies x seconds | minutes |
//! |---|---|--:|
//! | RepairBoost 9 | 2 x 7 x 28 (seen) | 6.5 |
//! | RepairBoost 10 | 1 x 4 x 35 | 2.5 |
//! | RepairBoost 11 | 1 x 7 x 20 | 2 |
//! | PivotRepair 5 | 8 x 4 x 8 | 4.5 |
//! | PivotRepair 6 | 2 x 4 x 10 | 1.5 |
//! | ChameleonEC 12, and 13 with it | 4 x 5 x 62 | 21 |
//! | ChameleonEC 18 | 1 x 5 x 30 | 2.5 |
//! | ChameleonEC 22 | 2 x 6 x 150, where a slow node is waited for | 30 |
//! | Butterfly | 4 x 2 x 12 | 1.5 |
//!
//! or some 70 minutes. Other repetitions are made while the time lasts that figures have below.

use std::time::Duration;

use crate::reproduce::emulated::EmulatedWhat::{
    self, CoordinatorSeconds, Degree, P99, Seconds, Throughput, Traffic,
};
use crate::reproduce::experiment::{Extent, PanelPoint, PanelSpec, Paper, PaperExperiment};

/// With --quick, so many points of a figure are measured.
pub const QUICK_POINTS: usize = 2;

/// With --quick, so many times fewer chunks are lost, but not fewer than these.
const QUICK_PART: usize = 3;
const QUICK_LOST: usize = 8;

/// A figure that is measured on the emulated network.
#[derive(Clone, Copy, Debug)]
pub struct EmulatedFigure {
    /// The paper that it is of.
    pub paper: Paper,
    /// Its name behind the paper's.
    pub id: &'static str,
    /// Its panels, and the points of each that are measured.
    pub panels: &'static [EmulatedPanel],
    /// What is compared between policies.
    pub shows: &'static [EmulatedWhat],
    /// About how many chunks are lost: as many as stripes give.
    pub lost: LostChunks,
    /// Bytes of a chunk where they have nothing to do with the paper's.
    pub chunk_bytes: Option<u64>,
    /// How long links are at rest before the failure, for what goes on without one.
    pub rest: Duration,
    /// After so many minutes no other repetition is begun.
    pub minutes: u32,
    /// Why the rest of the figure is not measured.
    pub left_out: &'static str,
}

/// Points of a panel.
#[derive(Clone, Copy, Debug)]
pub struct EmulatedPanel {
    /// Its title as the figure has it.
    pub title: &'static str,
    /// The labels of the points.
    pub labels: &'static [&'static str],
}

/// What is lost at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostChunks {
    /// The chunk that one node has of a single stripe.
    One,
    /// About so many chunks of one node.
    About(usize),
}

/// A point that is measured, and the panel that it is of.
#[derive(Clone, Copy, Debug)]
pub struct EmulatedPoint {
    /// The panel that it is of.
    pub panel: &'static PanelSpec,
    /// The point of that panel.
    pub point: &'static PanelPoint,
}

const fn panel(title: &'static str, labels: &'static [&'static str]) -> EmulatedPanel {
    EmulatedPanel { title, labels }
}

/// What most figures have in common.
const BASE: EmulatedFigure = EmulatedFigure {
    paper: Paper::RepairBoost,
    id: "",
    panels: &[],
    shows: &[Throughput],
    lost: LostChunks::About(24),
    chunk_bytes: None,
    rest: Duration::ZERO,
    minutes: 0,
    left_out: "",
};

/// What is lost beside clients, where a repair takes several times as long as without them: so the
/// slowest policy takes about a minute.
const BESIDE_CLIENTS: LostChunks = LostChunks::About(12);

/// As many lost chunks as make a repair take a fifth of the time of the paper's 200, where links
/// have a 50th of their rate and chunks a 32nd of their bytes.
const FIFTH: LostChunks = LostChunks::About(26);

const TRACES: &[&str] = &["YCSB-A", "IBM", "Memcached", "Facebook"];

/// Why links have no higher rates here.
const FAST: &str = "faster links fill the processor before they are full";

/// All of them, in the order in which they are measured.
pub const FIGURES: &[EmulatedFigure] = &[
    EmulatedFigure {
        paper: Paper::RepairBoost,
        id: "fig9",
        panels: &[panel("bandwidth", &["0.5 Gb/s", "1 Gb/s"])],
        minutes: 8,
        left_out: "faster links fill the processor before they are full, and agents choose their \
            packets and how many repairs they take part in themselves",
        ..BASE
    },
    EmulatedFigure {
        paper: Paper::RepairBoost,
        id: "fig10",
        panels: &[panel("time", &["n=100 f=100"])],
        shows: &[CoordinatorSeconds],
        lost: LostChunks::About(100),
        chunk_bytes: Some(16 << 10),
        rest: Duration::from_secs(5),
        minutes: 3,
        left_out: "one machine carries no more agents and chunks",
    },
    EmulatedFigure {
        paper: Paper::RepairBoost,
        id: "fig11",
        panels: &[panel("sums", &["RS(6,3)", "LRC(6,2,2)"])],
        minutes: 4,
        left_out: "two codes are enough to see whether both networks agree",
        ..BASE
    },
    EmulatedFigure {
        paper: Paper::PivotRepair,
        id: "fig5",
        panels: &[
            panel("TPC-H, congested", &["(6,4)", "(9,6)", "(12,8)", "(14,10)"]),
            panel("TPC-H, random", &["(6,4)", "(9,6)", "(12,8)", "(14,10)"]),
        ],
        shows: &[Seconds],
        lost: LostChunks::One,
        minutes: 5,
        left_out: "one workload has both kinds of starts",
        ..BASE
    },
    EmulatedFigure {
        paper: Paper::PivotRepair,
        id: "fig6",
        panels: &[panel("chunk size", &["32 MiB", "64 MiB", "128 MiB"])],
        shows: &[Seconds],
        lost: LostChunks::One,
        minutes: 3,
        left_out: "agents choose their slices themselves, and shorter chunks are over at once",
        ..BASE
    },
    EmulatedFigure {
        paper: Paper::ChameleonEc,
        id: "fig12",
        panels: &[panel("throughput", TRACES)],
        shows: &[Throughput, P99, Degree],
        lost: BESIDE_CLIENTS,
        minutes: 12,
        left_out: "the latencies are of the same runs",
        ..BASE
    },
    EmulatedFigure {
        paper: Paper::ChameleonEc,
        id: "fig13",
        panels: &[panel("degree", TRACES)],
        shows: &[Degree],
        lost: BESIDE_CLIENTS,
        // Measured with Figure 12; by itself it takes as long, once.
        minutes: 0,
        ..BASE
    },
    EmulatedFigure {
        paper: Paper::ChameleonEc,
        id: "fig18",
        panels: &[panel("throughput", &["1 Gb/s"])],
        lost: FIFTH,
        minutes: 3,
        left_out: FAST,
        ..BASE
    },
    EmulatedFigure {
        paper: Paper::ChameleonEc,
        id: "fig22",
        panels: &[panel("whole repair", &["0 s", "10 s"])],
        lost: FIFTH,
        minutes: 6,
        left_out: "the ends show the trend, and the whole repair has all bytes of its first phase",
        ..BASE
    },
    EmulatedFigure {
        paper: Paper::Butterfly,
        id: "network",
        panels: &[panel("traffic", &["RS, k=5", "Butterfly, k=5", "RS, k=7", "Butterfly, k=7"])],
        shows: &[Traffic, Seconds],
        lost: LostChunks::About(8),
        rest: Duration::from_secs(2),
        minutes: 4,
        ..BASE
    },
];

/// What is measured of an experiment, if anything is.
pub fn of(experiment: &PaperExperiment) -> Option<&'static EmulatedFigure> {
    FIGURES.iter().find(|figure| (figure.paper, figure.id) == (experiment.paper, experiment.id))
}

impl EmulatedFigure {
    /// Its points, in order.
    pub fn points(&self, experiment: &PaperExperiment) -> Vec<EmulatedPoint> {
        let mut points = Vec::new();
        for listed in self.panels {
            let panels = experiment.panels.iter().filter(|panel| panel.title == listed.title);
            for panel in panels {
                let is_listed = |point: &&PanelPoint| listed.labels.contains(&point.label);
                let listed = panel.points.iter().filter(is_listed);
                points.extend(listed.map(|point| EmulatedPoint { panel, point }));
            }
        }
        points
    }

    /// Those of them that are measured.
    pub fn measured(&self, experiment: &PaperExperiment, extent: Extent) -> Vec<EmulatedPoint> {
        let mut points = self.points(experiment);
        if extent.is_quick {
            points.truncate(QUICK_POINTS);
        }
        points
    }

    /// What is lost at a point that is measured.
    pub fn lost_chunks(&self, extent: Extent) -> LostChunks {
        match self.lost {
            LostChunks::About(lost) if extent.is_quick => {
                LostChunks::About((lost / QUICK_PART).max(lost.min(QUICK_LOST)))
            }
            lost => lost,
        }
    }

    /// What of the experiment is not measured, and why; nothing where all of it is.
    pub fn omissions(&self, experiment: &PaperExperiment) -> Option<String> {
        let mut omitted = Vec::new();
        for panel in experiment.panels {
            let Some(listed) = self.panels.iter().find(|listed| listed.title == panel.title) else {
                omitted.push(format!("'{}'", panel.title));
                continue;
            };
            let labels = panel.points.iter().map(|point| point.label);
            let labels: Vec<&str> = labels.filter(|label| !listed.labels.contains(label)).collect();
            if !labels.is_empty() {
                omitted.push(format!("{} of '{}'", labels.join(", "), panel.title));
            }
        }
        let why = if self.left_out.is_empty() { "" } else { ": " };
        (!omitted.is_empty())
            .then(|| format!("left out are {}{why}{}", omitted.join("; "), self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::papers;
    use crate::reproduce::setting::Lost;

    fn experiment(figure: &EmulatedFigure) -> &'static PaperExperiment {
        let is_it = |experiment: &&PaperExperiment| {
            (experiment.paper, experiment.id) == (figure.paper, figure.id)
        };
        papers::all().find(is_it).unwrap_or_else(|| panic!("there is no {}", figure.id))
    }

    #[test]
    fn every_listed_point_is_in_its_panel() {
        for figure in FIGURES {
            let experiment = experiment(figure);
            let listed: usize = figure.panels.iter().map(|panel| panel.labels.len()).sum();
            assert_eq!(figure.points(experiment).len(), listed, "{}", experiment.name());
            assert!(of(experiment).is_some());
        }
    }

    #[test]
    fn what_is_left_out_is_named_with_a_reason() {
        for figure in FIGURES {
            let experiment = experiment(figure);
            if let Some(omitted) = figure.omissions(experiment) {
                assert!(!figure.left_out.is_empty(), "{}: {omitted}", experiment.name());
            }
        }
        let fig9 = FIGURES[0].omissions(experiment(&FIGURES[0])).unwrap();
        assert!(fig9.starts_with("left out are 2 Gb/s, 5 Gb/s of 'bandwidth'; "), "{fig9}");
        assert!(fig9.contains("'packet size'") && fig9.contains(": faster links"), "{fig9}");
    }

    #[test]
    fn single_chunks_are_emulated_as_single_chunks() {
        for figure in FIGURES {
            for EmulatedPoint { point, .. } in figure.points(experiment(figure)) {
                let is_one = point.setting.lost == Lost::Chunks(1);
                assert_eq!(figure.lost == LostChunks::One, is_one, "{} {}", figure.id, point.label);
            }
        }
    }

    #[test]
    fn a_quick_measurement_has_fewer_points_and_chunks() {
        let whole = Extent { repetitions: 1, is_quick: false };
        let quick = Extent { is_quick: true, ..whole };
        for figure in FIGURES {
            let experiment = experiment(figure);
            let count = |extent| figure.measured(experiment, extent).len();
            assert_eq!(count(whole), figure.points(experiment).len());
            assert_eq!(count(quick), count(whole).min(QUICK_POINTS));
            assert_eq!(figure.lost_chunks(whole), figure.lost);
            let is_less = figure.lost_chunks(quick) != figure.lost;
            let lost = match figure.lost {
                LostChunks::One => 1,
                LostChunks::About(lost) => lost,
            };
            assert_eq!(is_less, lost > QUICK_LOST, "{}", experiment.name());
        }
        let chunks = FIGURES.iter().map(|figure| figure.lost_chunks(quick));
        assert!(chunks.clone().any(|lost| lost == LostChunks::About(33)), "a third of a hundred");
        assert!(chunks.clone().any(|lost| lost == LostChunks::About(QUICK_LOST)));
    }

    #[test]
    fn a_fifth_of_the_time_is_what_so_many_chunks_take() {
        let LostChunks::About(lost) = FIFTH else { panic!("it is a whole node") };
        let bytes = lost as f64 / 200.0 / super::super::bed::CHUNKS as f64;
        let part = bytes * super::super::bed::LINKS * f64::from(super::super::bed::TIMES);
        assert!((part - 1.0).abs() < 0.05, "{part}");
    }

    #[test]
    fn all_of_them_leave_time_for_what_is_simulated() {
        let minutes: u32 = FIGURES.iter().map(|figure| figure.minutes).sum();
        assert!(minutes <= 50, "{minutes} minutes");
    }
}
