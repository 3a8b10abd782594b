//! Butterfly codes, USENIX FAST 2016 (as presented in slides): Figures 5 to 7.
//!
//! Place: experiments as data. 12 servers with seven disks each behind 56 Gb/s, of which one fails;
//! Butterfly and Reed-Solomon codes with k = 5 and k = 7 and two parity chunks, in HDFS and Ceph.
//! What HDFS does is measured here; Ceph, in stripes of 4 MB and 64 MB, is not modelled.

use crate::reproduce::claim::Quantity::{Above, Apart, Below, Mean, Minus};
use crate::reproduce::claim::{Claim, Pick, Said, of};
use crate::reproduce::experiment::{
    PanelPoint, PanelSpec, Paper, PaperExperiment, PrintedValue, SUTURE, Series,
};
use crate::reproduce::metric::Metric;
use crate::reproduce::setting::{Between, FigureSetting, GBIT, Lost, Placing, To};

/// The slides do not say what disks do: 100 MB/s each are assumed.
const DISKS: f64 = 7.0 * 100e6;

const fn stored(code: &'static str) -> FigureSetting {
    FigureSetting {
        code,
        nodes: 12,
        racks: &[],
        between: Between::Unlimited,
        link: 56.0 * GBIT,
        disk: Some(DISKS),
        chunk_bytes: 64 << 20,
        packet_bytes: None,
        lost: Lost::Chunks(200),
        failed: 1,
        to: To::Anywhere,
        placing: Placing::Random,
        foreground: None,
        trace: None,
        straggler: None,
    }
}

const fn point(label: &'static str, setting: FigureSetting) -> PanelPoint {
    PanelPoint { label, setting }
}

const CODES: &[PanelPoint] = &[
    point("RS, k=5", stored("rs(5,2)")),
    point("Butterfly, k=5", stored("butterfly(5)")),
    point("RS, k=7", stored("rs(7,2)")),
    point("Butterfly, k=7", stored("butterfly(7)")),
];

const SIMULATED: &[Series] = &[Series { name: "conventional", policy: "cr" }, SUTURE];
const PLANNED: &[Series] = &[Series { name: "conventional", policy: "star/random/all" }, SUTURE];

const fn panel(title: &'static str, metric: Metric, series: &'static [Series]) -> PanelSpec {
    PanelSpec { title, metric, points: CODES, series, printed: &[] }
}

const fn printed(label: &'static str, value: f64) -> PrintedValue {
    PrintedValue { label, series: "conventional", value }
}

const REPAIR: Pick = of(&["conventional"]);

/// The codes of one kind, the smaller first.
const BUTTERFLY: &[&str] = &["Butterfly, k=5", "Butterfly, k=7"];
const RS: &[&str] = &["RS, k=5", "RS, k=7"];

pub const EXPERIMENTS: &[PaperExperiment] = &[THROUGHPUT, CPU, NETWORK, DISK];

const THROUGHPUT: PaperExperiment = PaperExperiment {
    paper: Paper::Butterfly,
    id: "throughput",
    title: "Repair throughput of Butterfly and RS",
    did: "20,000 objects of 64 MB in HDFS and Ceph, one of 12 servers powered off; the repair \
        throughput of all others together (Figure 5).",
    here: "The simulator, for HDFS alone: Ceph, in stripes of 4 MB and 64 MB, is not modelled. 200 \
        lost chunks, where a server of the paper held some 2,000 (150 GB with k = 5, 137 GB with k \
        = 7); links of 56 Gb/s; disks that read 700 MB/s a server and write as much at the same \
        time (seven of 100 MB/s, which is assumed).",
    panels: &[PanelSpec {
        printed: &[printed("Butterfly, k=5", 500.0)],
        ..panel("throughput", Metric::Throughput, SIMULATED)
    }],
    claims: &[
        Claim {
            text: "in HDFS Butterfly is repaired with about 500 MB/s with k = 5",
            place: "slide Repair Throughput in HDFS",
            quantity: Mean(REPAIR.at(&["Butterfly, k=5"])),
            said: Said::Between(500.0, 500.0),
            apart: "The rate of disks is assumed, and HDFS's tasks, buffers and processors are not \
                simulated.",
        },
        Claim {
            text: "in HDFS Butterfly is repaired 1.6 times as fast as RS with k = 5 (60 % faster)",
            place: "slide Repair Throughput in HDFS",
            quantity: Above(REPAIR.at(&["Butterfly, k=5"]), REPAIR.at(&["RS, k=5"])),
            said: Said::Between(60.0, 60.0),
            apart: "The slides lay it to contention of disks and to copies of buffers that it is \
                not twice as fast. Neither is simulated: reads are as fast whatever their size. \
                Nor does conventional repair read one block more than RS needs, as HDFS-RAID does.",
        },
        Claim {
            text: "in HDFS Butterfly is repaired about twice as fast as RS with k = 7 (100 % \
                faster)",
            place: "slide Repair Throughput in HDFS",
            quantity: Above(REPAIR.at(&["Butterfly, k=7"]), REPAIR.at(&["RS, k=7"])),
            said: Said::Between(100.0, 100.0),
            apart: "Reads fall from seven chunks to four here, which is 75 % faster at most. \
                HDFS-RAID reads one block more than RS needs (slide Network Traffic), eight \
                against four.",
        },
    ],
};

const CPU: PaperExperiment = PaperExperiment {
    paper: Paper::Butterfly,
    id: "cpu",
    title: "CPU time of repairing Butterfly and RS",
    did: "Average CPU utilisation per server during the repair, in HDFS (Java) and Ceph (C++) \
        (Figure 6).",
    here: "The codes of all plans run on this machine's processor, one core, with the kernels of \
        agents: CPU time of the code alone for each rebuilt gigabyte, and as a part of the time \
        with what the busiest link or disk needs, which stands for utilisation. Neither HDFS nor \
        Ceph is here: the same kernels are held against both.",
    panels: &[
        panel("computing", Metric::Compute, PLANNED),
        panel("part of computing", Metric::ComputePart, PLANNED),
    ],
    claims: &[
        Claim {
            text: "in HDFS Butterfly spends 2.1 times the CPU cycles of RS with k = 5 (110 % more)",
            place: "slide CPU Utilization in Hadoop",
            quantity: Above(
                REPAIR.panel(&["computing"]).at(&["Butterfly, k=5"]),
                REPAIR.panel(&["computing"]).at(&["RS, k=5"]),
            ),
            said: Said::Between(110.0, 110.0),
            apart: JAVA,
        },
        Claim {
            text: "in HDFS Butterfly spends 1.7 times the CPU cycles of RS with k = 7 (70 % more)",
            place: "slide CPU Utilization in Hadoop",
            quantity: Above(
                REPAIR.panel(&["computing"]).at(&["Butterfly, k=7"]),
                REPAIR.panel(&["computing"]).at(&["RS, k=7"]),
            ),
            said: Said::Between(70.0, 70.0),
            apart: JAVA,
        },
        Claim {
            text: "in HDFS Butterfly's utilisation is 3 to 4 times RS's with k = 5 (200 to 300 % \
                more)",
            place: "slide CPU Utilization in Hadoop",
            quantity: Above(
                REPAIR.panel(&["part of computing"]).at(&["Butterfly, k=5"]),
                REPAIR.panel(&["part of computing"]).at(&["RS, k=5"]),
            ),
            said: Said::Between(200.0, 300.0),
            apart: UTILISED,
        },
        Claim {
            text: "in HDFS Butterfly's utilisation is 3 to 4 times RS's with k = 7 (200 to 300 % \
                more)",
            place: "slide CPU Utilization in Hadoop",
            quantity: Above(
                REPAIR.panel(&["part of computing"]).at(&["Butterfly, k=7"]),
                REPAIR.panel(&["part of computing"]).at(&["RS, k=7"]),
            ),
            said: Said::Between(200.0, 300.0),
            apart: UTILISED,
        },
        Claim {
            text: "in Ceph with stripes of 64 MB, written with caches in mind, Butterfly's \
                utilisation is comparable to RS's: 2 to 3 % for both, at most 50 % apart",
            place: "slide CPU Utilization in Ceph",
            quantity: Apart(
                REPAIR.panel(&["part of computing"]).at(BUTTERFLY),
                REPAIR.panel(&["part of computing"]).at(RS),
            ),
            said: Said::Near(50.0),
            apart: "Ceph's own work is not here, and vector instructions for GF(2^8) have become \
                so cheap that a sum costs what its reads cost, while Butterfly's many small sums \
                cost their steps. The shorter the repair, the larger a part is the same CPU time.",
        },
    ],
};

/// Why utilisation is another here.
const UTILISED: &str = "The slides lay it in part to RS, which waits longer for the network, and \
    in part to Java; here both wait for what their busiest link or disk needs, and nothing is \
    Java.";

/// Why cycles of Java say little here.
const JAVA: &str = "The slides lay it to Java, which copies buffers for every element; nothing of \
    that is here.";

const NETWORK: PaperExperiment = PaperExperiment {
    paper: Paper::Butterfly,
    id: "network",
    title: "Network traffic of repairing Butterfly and RS",
    did: "Aggregate network traffic of the eleven servers in HDFS and Ceph, beside the optimum and \
        the optimum with one block more, which HDFS-RAID reads (Figure 7).",
    here: "Plans alone, for HDFS: Ceph, whose overheads per message the slides show, is not \
        modelled. Bytes that nodes send for each lost byte; the bound is the least that helpers of \
        the code must send. Suture plans for the busiest port and not for the least traffic: a \
        helper may decode a Butterfly chunk and send it on whole, which moves more than \
        conventional repair and loads ports more evenly.",
    panels: &[panel("traffic", Metric::Traffic, PLANNED)],
    claims: &[
        Claim {
            text: "in HDFS Butterfly's traffic is close to the minimum of half of the remaining \
                data: 3 of 6 chunks with k = 5",
            place: "slide Network Traffic",
            quantity: Mean(REPAIR.at(&["Butterfly, k=5"])),
            said: Said::Between(3.0, 3.0),
            apart: "Helpers send what the code asks for, and no metadata.",
        },
        Claim {
            text: "in HDFS Butterfly's traffic is close to the minimum of half of the remaining \
                data: 4 of 8 chunks with k = 7",
            place: "slide Network Traffic",
            quantity: Mean(REPAIR.at(&["Butterfly, k=7"])),
            said: Said::Between(4.0, 4.0),
            apart: "Helpers send what the code asks for, and no metadata.",
        },
        Claim {
            text: "in HDFS RS moves the optimum and one block more: 6 chunks with k = 5",
            place: "slide Network Traffic",
            quantity: Mean(REPAIR.at(&["RS, k=5"])),
            said: Said::AtLeast(6.0),
            apart: ONE_MORE,
        },
        Claim {
            text: "in HDFS RS moves the optimum and one block more: 8 chunks with k = 7",
            place: "slide Network Traffic",
            quantity: Mean(REPAIR.at(&["RS, k=7"])),
            said: Said::AtLeast(8.0),
            apart: ONE_MORE,
        },
        Claim {
            text: "MSR codes reduce repair traffic by 2x against traditional codes (50 % less)",
            place: "slide Summary",
            quantity: Below(REPAIR.at(BUTTERFLY), REPAIR.at(RS)),
            said: Said::Between(50.0, 50.0),
            apart: "Half of k + 1 chunks is 40 % less than k with k = 5, and 43 % less with k = 7; \
                it is half of the k + 1 that HDFS-RAID moves.",
        },
    ],
};

/// What HDFS-RAID moves of RS.
const ONE_MORE: &str = "HDFS-RAID reads one block more than RS needs; conventional repair here \
    reads k, which is the optimum.";

const DISK: PaperExperiment = PaperExperiment {
    paper: Paper::Butterfly,
    id: "disk",
    title: "Disk traffic of repairing Butterfly and RS",
    did: "Aggregate reads and writes of the disks of the eleven servers, in HDFS and Ceph (Figure \
        7).",
    here: "Plans alone, for HDFS: Ceph, its small and misaligned reads and its journal, is not \
        modelled. Bytes that disks read and write for each lost byte. Suture's own second read of \
        a rebuilt chunk, for its proof, is not counted.",
    panels: &[
        panel("reads", Metric::DiskReads, PLANNED),
        PanelSpec {
            printed: &[
                printed("RS, k=5", 2.0),
                printed("Butterfly, k=5", 2.0),
                printed("RS, k=7", 2.0),
                printed("Butterfly, k=7", 2.0),
            ],
            ..panel("writes", Metric::DiskWrites, PLANNED)
        },
    ],
    claims: &[
        Claim {
            text: "in HDFS Butterfly's reads are nearly optimal: 3 chunks with k = 5",
            place: "slide Storage Traffic - Reads",
            quantity: Mean(REPAIR.panel(&["reads"]).at(&["Butterfly, k=5"])),
            said: Said::Between(3.0, 3.0),
            apart: SECOND_PARITY,
        },
        Claim {
            text: "in HDFS Butterfly's reads are nearly optimal: 4 chunks with k = 7",
            place: "slide Storage Traffic - Reads",
            quantity: Mean(REPAIR.panel(&["reads"]).at(&["Butterfly, k=7"])),
            said: Said::Between(4.0, 4.0),
            apart: SECOND_PARITY,
        },
        Claim {
            text: "in HDFS RS reads about the optimum and one block more: 6 chunks with k = 5",
            place: "slide Storage Traffic - Reads",
            quantity: Mean(REPAIR.panel(&["reads"]).at(&["RS, k=5"])),
            said: Said::AtLeast(6.0),
            apart: ONE_MORE,
        },
        Claim {
            text: "in HDFS RS reads about the optimum and one block more: 8 chunks with k = 7",
            place: "slide Storage Traffic - Reads",
            quantity: Mean(REPAIR.panel(&["reads"]).at(&["RS, k=7"])),
            said: Said::AtLeast(8.0),
            apart: ONE_MORE,
        },
        Claim {
            text: "writes exceed the optimum about 2x for both codes",
            place: "slide Storage Traffic - Writes",
            quantity: Mean(REPAIR.panel(&["writes"])),
            said: Said::Between(2.0, 2.0),
            apart: "HDFS wrote an intermediate file and Ceph its journal; Suture writes a chunk \
                once.",
        },
        Claim {
            text: "the codes do not differ in what they write",
            place: "slide Storage Traffic - Writes",
            quantity: Minus(
                &Mean(REPAIR.panel(&["writes"]).at(BUTTERFLY)),
                &Mean(REPAIR.panel(&["writes"]).at(RS)),
            ),
            said: Said::Near(0.05),
            apart: "A rebuilt chunk is written once, whatever its code.",
        },
    ],
};

/// What Butterfly reads beyond what it sends.
const SECOND_PARITY: &str = "For a lost chunk of the Butterfly parity helpers read more than they \
    send (Theorem 2, slide Single Column Regeneration).";
