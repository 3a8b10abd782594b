//! A trial: one simulated cluster and what happens to it, as a value.
//!
//! Place: beside the whole life of a repair; `swarm.rs` makes one of each seed and runs it,
//! `shrink.rs` makes a failing one smaller. Its text is a transcript of the kind `cluster`: the
//! cluster in the header, faults as inputs, the end of all faults as the last one, and the broken
//! rule as output.
//! What a fault hits is drawn from the seed when it strikes, so a trial says what happens and its
//! seed to which node.

use std::fmt;

use suture_code::Code;
use suture_repair::event::Liveness;
use suture_repair::id::NodeId;
use suture_repair::policy::Policy;
use suture_repair::random::Random;
use suture_repair::slice::SLICE_BYTES_MIN;
use suture_repair::time::{Span, Time};
use suture_repair::transcript::line::{LineReader, LineWriter, TextError, Textual};
use suture_repair::transcript::value::YesNo;
use suture_repair::transcript::{Kind, first_line};

use crate::disk::Safeguards;
use crate::fault::{self, Fault, NetworkFaults};
use crate::violation::Violation;
use crate::world::{Options, World};

/// How long faults strike in a trial of the swarm, in simulated time.
const SAFETY: Span = Span::from_secs(8);

/// Sizes that are quick to run and still have several slices.
const CODES: [&str; 9] = [
    "rs(2,1)",
    "rs(2,2)",
    "rs(3,2)",
    "rs(4,2)",
    "rs(6,3)",
    "rs(1,2)",
    "lrc(4,2,2)",
    "butterfly(3)",
    "clay(3,2,4)",
];

/// Those that serve every code first.
const POLICIES: [&str; 12] = [
    "suture",
    "cr",
    "mix/flow/slots",
    "star/random/slots:2",
    "star/random/adaptive",
    "mix/flow/phases:1:by-time",
    "ppr",
    "rp",
    "chain/greedy/window:2",
    "ppr/greedy/slots:by-node",
    "chain/greedy/waves",
    "tunable/chameleon/phases:1",
];

/// How many of the policies serve codes whose repair is not a sum of whole chunks.
const POLICIES_FOR_SUB_CHUNKS: usize = 6;

/// One cluster and what happens to it.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The simulated cluster that it runs on.
    pub options: Options,
    /// Stripes that it begins with.
    pub stripes: u64,
    /// How unreliable messages are.
    pub network_faults: NetworkFaults,
    /// What goes wrong, in order of time.
    pub faults: Vec<(Time, Fault)>,
    /// When all faults end.
    pub lasts: Span,
}

/// A trial that was written down, with the rule that it broke.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The trial, without its end.
    pub trial: Trial,
    /// The rule's words, if one was broken.
    pub broken: Option<String>,
}

/// Why a text is no trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub error: TextError,
}

impl Trial {
    /// The trial that a seed stands for.
    pub fn of(seed: u64, safeguards: Safeguards) -> Trial {
        let mut random = Random::new(seed ^ 0xfa17);
        let mut faults = fault::schedule(&mut random, SAFETY);
        let options = options(seed, safeguards);
        if options.racks > 0 {
            faults.extend(fault::moves(&mut Random::new(seed ^ 0x303e), SAFETY));
        }
        if options.unrecorded || options.odd {
            faults.extend(fault::bad_memory(&mut Random::new(seed ^ 0xbadbadd), SAFETY));
        }
        faults.extend(fault::sleeps(&mut Random::new(seed ^ 0x0051_eeb5), SAFETY));
        faults.extend(fault::clocks(&mut Random::new(seed ^ 0x0c_10c5), SAFETY));
        faults.extend(fault::bursts(&mut Random::new(seed ^ 0x00b0_4575), SAFETY));
        faults.extend(fault::scrubs(&mut Random::new(seed ^ 0x05c2_ab00), SAFETY));
        faults.extend(fault::unreadable_disks(&mut Random::new(seed ^ 0xe10), SAFETY));
        faults.extend(fault::failing_disks(&mut Random::new(seed ^ 0xd15c_e110), SAFETY));
        faults.extend(fault::hanging_disks(&mut Random::new(seed ^ 0x04a_9175), SAFETY));
        faults.extend(fault::cut_off_nodes(&mut Random::new(seed ^ 0xc07_0ff), SAFETY));
        faults.extend(fault::vanished(&mut Random::new(seed ^ 0x0a11_517e), SAFETY));
        faults.extend(fault::impostors(&mut Random::new(seed ^ 0x1_3905), SAFETY));
        if options.liveness == Liveness::Own {
            faults.extend(fault::intents(&mut Random::new(seed ^ 0x0d_4a15), SAFETY));
        }
        // Only native metadata can be set back: they record checksums and decide which nodes live.
        if !options.unrecorded && options.liveness == Liveness::Own {
            faults.extend(fault::old_metadata(&mut Random::new(seed ^ 0x01d_3e7a), SAFETY));
        }
        // Without a recorded checksum nothing distinguishes one whole chunk from another.
        if !options.unrecorded {
            faults.extend(fault::replacements(&mut Random::new(seed ^ 0x5e7_face), SAFETY));
        }
        faults.sort_by_key(|(time, _)| *time);
        Trial {
            options,
            stripes: stripe_source(seed).0,
            network_faults: NetworkFaults::random(&mut random),
            faults,
            lasts: SAFETY,
        }
    }

    /// Fills the cluster with stripes.
    pub(crate) fn populate(&self, world: &mut World) {
        let code = world.options.code;
        let mut random = stripe_source(self.options.seed).1;
        for _ in 0..self.stripes {
            let mut on: Vec<NodeId> = world.nodes().collect();
            random.shuffle(&mut on);
            on.truncate(code.chunk_count());
            let bytes = 64 * random.between(1, 400);
            let bytes = bytes.next_multiple_of(code.alignment() as u64);
            if world.options.racks > 0 {
                on = world.place_at_first(bytes);
            }
            let stripe = world.metadata.write(&mut random, code, bytes, &on);
            world.store(&stripe);
            world.metadata.publish(stripe);
        }
    }

    /// What there is in it: nodes, stripes, faults and kinds of unreliability.
    pub fn size(&self) -> u64 {
        let NetworkFaults { drop, duplicate, delay, delay_max: _ } = self.network_faults;
        let kinds = [drop, duplicate, delay].iter().filter(|per_mille| **per_mille > 0).count();
        self.options.nodes as u64 + self.stripes + (self.faults.len() + kinds) as u64
    }

    /// The trial as a transcript, with the rule that it breaks. Each line of `story` becomes a
    /// comment.
    pub fn text(&self, broken: Option<&Violation>, story: &[String]) -> String {
        let mut text = first_line(Kind::Cluster) + "\n";
        let comments = story.iter().flat_map(|lines| lines.lines());
        comments.for_each(|line| text += &format!("# {line}\n"));
        let mut add = |line: &mut LineWriter| {
            text += &std::mem::take(line).finish();
            text.push('\n');
        };
        let (line, options) = (&mut LineWriter::default(), &self.options);
        line.word("cluster").field("seed", &options.seed).field("nodes", &options.nodes);
        line.field("code", &options.code).field("policy", &options.policy);
        line.field("pool", &options.pool_bytes).field("disk", &options.disk_bytes);
        line.field("losses", &YesNo(options.losses)).field("claims", &YesNo(options.claims));
        line.option("racks", Some(&options.racks).filter(|racks| **racks > 0));
        line.field("stripes", &self.stripes).flag("odd", options.odd);
        line.flag("without-recorded-checksums", options.unrecorded);
        line.flag("keeper-decides-who-lives", options.liveness == Liveness::Keeper);
        line.flag("scrubs", options.scrubs).flag("rebalances", options.rebalances);
        add(line.value(&options.safeguards));
        add(line.value(&self.network_faults));
        add(line.field("start", &Time::ZERO));
        for (at, fault) in &self.faults {
            add(line.value(at).value(fault));
        }
        add(line.value(&(Time::ZERO + self.lasts)).word("all trouble ends"));
        broken.into_iter().for_each(|broken| text += &format!("  broken: {}\n", one_line(broken)));
        text
    }
}

/// A broken rule in words that stand in one line.
pub fn one_line(broken: &Violation) -> String {
    broken.to_string().replace('\n', " ")
}

impl Recorded {
    /// Reads what [`Trial::text`] wrote.
    ///
    /// # Errors
    /// When the text is no transcript of a cluster.
    pub fn read(text: &str) -> Result<Recorded, TrialError> {
        let is_content = |line: &str| !line.trim().is_empty() && !line.starts_with('#');
        let mut lines = text.lines().enumerate().filter(|(_, line)| is_content(line));
        let mut last = 0;
        let mut next = || {
            let (index, line) = lines.next()?;
            last = index + 1;
            Some((index + 1, line))
        };
        let mut reader = Reading::default();
        let mut is_done = false;
        while let Some((line, text)) = next() {
            let taken = reader.take(text);
            is_done = taken.map_err(|error| TrialError { line, error })?;
        }
        let short = || LineReader::new("").error("'all trouble ends'");
        match reader.recorded.filter(|_| is_done) {
            Some(recorded) => Ok(recorded),
            None => Err(TrialError { line: last, error: short() }),
        }
    }
}

/// A trial that is being read.
#[derive(Default)]
struct Reading {
    is_named: bool,
    recorded: Option<Recorded>,
    has_begun: bool,
    has_ended: bool,
}

impl Reading {
    /// Takes a line; whether the trial is complete.
    fn take(&mut self, text: &str) -> Result<bool, TextError> {
        let mut line = LineReader::new(text);
        let Some(Recorded { trial, broken }) = &mut self.recorded else {
            match self.is_named {
                false if Kind::of(text)? == Kind::Cluster => self.is_named = true,
                false => return Err(line.error("the transcript of a cluster")),
                true => self.recorded = Some(cluster(&mut line)?),
            }
            return Ok(false);
        };
        if text.starts_with(' ') {
            line.expect("broken:")?;
            *broken = Some(text.trim().trim_start_matches("broken:").trim().to_string());
            return Ok(self.has_ended);
        }
        if !self.has_begun {
            if line.take("start") {
                line.value::<Time>()?;
                self.has_begun = true;
            } else {
                trial.network_faults = line.value()?;
            }
        } else {
            let at: Time = line.value()?;
            if line.take("all") {
                line.expect("trouble").and_then(|()| line.expect("ends"))?;
                trial.lasts = at.since(Time::ZERO);
                self.has_ended = true;
            } else {
                trial.faults.push((at, line.value()?));
            }
        }
        line.end()?;
        Ok(self.has_ended)
    }
}

/// The cluster, with nothing that happens to it.
fn cluster(line: &mut LineReader<'_>) -> Result<Recorded, TextError> {
    line.expect("cluster")?;
    let (seed, nodes) = (line.field("seed")?, line.field("nodes")?);
    let (code, policy) = (line.field("code")?, line.field("policy")?);
    let (pool_bytes, disk_bytes) = (line.field("pool")?, line.field("disk")?);
    let YesNo(losses) = line.field("losses")?;
    let YesNo(claims) = line.field("claims")?;
    let racks = line.option("racks")?.unwrap_or(0);
    let (stripes, odd) = (line.field("stripes")?, line.take("odd"));
    let unrecorded = line.take("without-recorded-checksums");
    let liveness =
        if line.take("keeper-decides-who-lives") { Liveness::Keeper } else { Liveness::Own };
    let (scrubs, rebalances) = (line.take("scrubs"), line.take("rebalances"));
    let safeguards = line.value()?;
    line.end()?;
    let options = Options {
        seed,
        nodes,
        code,
        policy,
        pool_bytes,
        disk_bytes,
        losses,
        claims,
        racks,
        odd,
        unrecorded,
        liveness,
        scrubs,
        rebalances,
        safeguards,
    };
    let (network_faults, faults, lasts) = (NetworkFaults::NONE, Vec::new(), Span::ZERO);
    let trial = Trial { options, stripes, network_faults, faults, lasts };
    Ok(Recorded { trial, broken: None })
}

/// How many stripes a seed begins with, and where their sizes and places come from.
fn stripe_source(seed: u64) -> (u64, Random) {
    let mut random = Random::new(seed ^ 0xda7a);
    (random.between(2, 10), random)
}

/// The cluster that a seed stands for.
pub(crate) fn options(seed: u64, safeguards: Safeguards) -> Options {
    let random = &mut Random::new(seed ^ 0x5077_a413);
    let code: Code = random.choose(&CODES).parse().expect("a known code");
    let serving = if code.sub_chunk_count() > 1 { POLICIES_FOR_SUB_CHUNKS } else { POLICIES.len() };
    let policy: Policy = random.choose(&POLICIES[..serving]).parse().expect("a known policy");
    let nodes = code.chunk_count() + random.between(0, 4) as usize;
    let smallest = smallest_pool(code);
    let pool_bytes = match random.below(3) {
        0 => smallest,
        1 => smallest * random.between(2, 5),
        _ => 4 << 20,
    };
    let losses = random.per_mille(100);
    // Of streams of their own: what a seed says beside these is as it was before there were any.
    let claims = Random::new(seed ^ 0xc1a1_35ed).below(3) == 0;
    let racks = &mut Random::new(seed ^ 0x2ac5);
    let racks = if racks.below(3) == 0 { racks.between(2, 5) } else { 0 };
    let odd = Random::new(seed ^ 0x0dd_51ab5).below(3) == 0;
    let unrecorded = Random::new(seed ^ 0xf1_6e25).below(4) == 0;
    let liveness = match Random::new(seed ^ 0x11fe_70fd).below(4) {
        0 => Liveness::Keeper,
        _ => Liveness::Own,
    };
    let scrubs = Random::new(seed ^ 0x5c_2ab5).below(2) == 0;
    let rebalances = Random::new(seed ^ 0xba1_a2ce).below(2) == 0;
    Options {
        seed,
        nodes,
        code,
        policy,
        pool_bytes,
        disk_bytes: 8 << 20,
        losses,
        claims,
        racks,
        odd,
        unrecorded,
        liveness,
        scrubs,
        rebalances,
        safeguards,
    }
}

/// The smallest slice memory with which any one repair of `code` can run.
fn smallest_pool(code: Code) -> u64 {
    // A decoder takes k slices from its helpers at most, and has one of its own and a result for
    // each lost chunk.
    let slices = code.data_chunks() + 1 + code.parity_chunks();
    slices as u64 * u64::from(SLICE_BYTES_MIN).max(code.alignment() as u64)
}

impl Textual for Safeguards {
    fn write(&self, line: &mut LineWriter) {
        let Safeguards { checksums, compare_and_set, requeue } = *self;
        line.flag("without-checksums", !checksums);
        line.flag("without-compare-and-set", !compare_and_set).flag("without-requeue", !requeue);
    }

    fn read(line: &mut LineReader<'_>) -> Result<Safeguards, TextError> {
        Ok(Safeguards {
            checksums: !line.take("without-checksums"),
            compare_and_set: !line.take("without-compare-and-set"),
            requeue: !line.take("without-requeue"),
        })
    }
}

impl Textual for NetworkFaults {
    fn write(&self, line: &mut LineWriter) {
        line.word("messages-per-mille").field("dropped", &self.drop);
        line.field("doubled", &self.duplicate).field("delayed", &self.delay);
        line.field("by", &self.delay_max);
    }

    fn read(line: &mut LineReader<'_>) -> Result<NetworkFaults, TextError> {
        line.expect("messages-per-mille")?;
        Ok(NetworkFaults {
            drop: line.field("dropped")?,
            duplicate: line.field("doubled")?,
            delay: line.field("delayed")?,
            delay_max: line.field("by")?,
        })
    }
}

impl Textual for Fault {
    fn write(&self, line: &mut LineWriter) {
        match self {
            Fault::Crash { back_after, wipe } => {
                line.word("agent-crashes").field("for", back_after).flag("wiped", *wipe)
            }
            Fault::Burst(span) => line.word("copies-left-over").field("for", span),
            Fault::Gone => line.word("agent-gone"),
            Fault::CoordinatorCrash(span) => line.word("coordinator-crashes").field("for", span),
            Fault::CoordinatorSleep(span) => line.word("coordinator-sleeps").field("for", span),
            Fault::ClockLeap(span) => line.word("clock-leaps").field("by", span),
            Fault::ClockSet { by, back } => {
                line.word("clock-set").field("by", by).flag("back", *back)
            }
            Fault::Partition(span) => line.word("partition").field("for", span),
            Fault::CutOff(span) => line.word("node-cut-off").field("for", span),
            Fault::Vanish(span) => line.word("machine-vanishes").field("for", span),
            Fault::DeadLink(span) => line.word("link-at-zero").field("for", span),
            Fault::SessionBreak => line.word("session-breaks"),
            Fault::Flip => line.word("bit-flips"),
            Fault::Tear => line.word("chunk-torn"),
            Fault::Replace => line.word("chunk-replaced"),
            Fault::Full(span) => line.word("disk-full").field("for", span),
            Fault::OperatorFail(span) => line.word("operator-fails-node").field("for", span),
            Fault::OperatorPause(span) => line.word("operator-pauses").field("for", span),
            Fault::BadMemory(span) => line.word("bad-memory").field("for", span),
            Fault::Move(span) => line.word("node-moves").field("for", span),
            Fault::Unreadable(span) => line.word("disk-unreadable").field("for", span),
            Fault::DiskErrors(span) => line.word("disk-errors").field("for", span),
            Fault::Hang(span) => line.word("disk-hangs").field("for", span),
            Fault::NoDescriptors(span) => line.word("no-descriptors").field("for", span),
            Fault::Scrub => line.word("operator-scrubs"),
            Fault::Drain(span) => line.word("operator-drains-node").field("for", span),
            Fault::Rest(span) => line.word("operator-pauses-node").field("for", span),
            Fault::Backup => line.word("backup"),
            Fault::Restore(span) => line.word("metadata-restored").field("for", span),
            Fault::LoseMetadata(span) => line.word("metadata-lost").field("for", span),
            Fault::Impostor(span) => line.word("impostor").field("for", span),
            Fault::Put => line.word("put"),
            Fault::Remove => line.word("remove"),
        };
    }

    fn read(line: &mut LineReader<'_>) -> Result<Fault, TextError> {
        let error = line.error("a fault");
        Ok(match line.word()? {
            "agent-crashes" => {
                Fault::Crash { back_after: line.field("for")?, wipe: line.take("wiped") }
            }
            "copies-left-over" => Fault::Burst(line.field("for")?),
            "agent-gone" => Fault::Gone,
            "coordinator-crashes" => Fault::CoordinatorCrash(line.field("for")?),
            "coordinator-sleeps" => Fault::CoordinatorSleep(line.field("for")?),
            "clock-leaps" => Fault::ClockLeap(line.field("by")?),
            "clock-set" => Fault::ClockSet { by: line.field("by")?, back: line.take("back") },
            "partition" => Fault::Partition(line.field("for")?),
            "node-cut-off" => Fault::CutOff(line.field("for")?),
            "machine-vanishes" => Fault::Vanish(line.field("for")?),
            "link-at-zero" => Fault::DeadLink(line.field("for")?),
            "session-breaks" => Fault::SessionBreak,
            "bit-flips" => Fault::Flip,
            "chunk-torn" => Fault::Tear,
            "chunk-replaced" => Fault::Replace,
            "disk-full" => Fault::Full(line.field("for")?),
            "operator-fails-node" => Fault::OperatorFail(line.field("for")?),
            "operator-pauses" => Fault::OperatorPause(line.field("for")?),
            "bad-memory" => Fault::BadMemory(line.field("for")?),
            "node-moves" => Fault::Move(line.field("for")?),
            "disk-unreadable" => Fault::Unreadable(line.field("for")?),
            "disk-errors" => Fault::DiskErrors(line.field("for")?),
            "disk-hangs" => Fault::Hang(line.field("for")?),
            "no-descriptors" => Fault::NoDescriptors(line.field("for")?),
            "operator-scrubs" => Fault::Scrub,
            "operator-drains-node" => Fault::Drain(line.field("for")?),
            "operator-pauses-node" => Fault::Rest(line.field("for")?),
            "backup" => Fault::Backup,
            "metadata-restored" => Fault::Restore(line.field("for")?),
            "metadata-lost" => Fault::LoseMetadata(line.field("for")?),
            "impostor" => Fault::Impostor(line.field("for")?),
            "put" => Fault::Put,
            "remove" => Fault::Remove,
            _ => return Err(error),
        })
    }
}

impl fmt::Display for TrialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.error)
    }
}

impl std::error::Error for TrialError {}
