//! The coordinator's configuration, inputs and outputs as lines.
//!
//! Place: beside the whole life of a repair: failure -> ... -> stripe healthy.
//! An input's line begins with its time. Outputs are written and never read: a replay makes them
//! anew and compares lines. What is sent to several agents in one go is one line with all of them.

use crate::cluster::{Cluster, Core, Node};
use crate::coordinator::{Config, Coordinator, IN_FLIGHT_MAX, ScrubConfig};
use crate::event::{
    Blocked, Claim, Command, Commit, Input, KnownFault, Liveness, NodeState, Output, RefusedNode,
    Report, ScrubStep, Timers,
};
use crate::id::{ChunkCopy, NodeId};
use crate::message::ToAgent;
use crate::stripe::{Stripe, StripeMap};
use crate::time::{Span, Time};
use crate::transcript::line::{LineReader, LineWriter, TextError, Textual};
use crate::transcript::plan::Destination;
use crate::transcript::value::YesNo;

/// What a coordinator begins with.
#[derive(Clone, Debug, Default)]
pub(super) struct CoordinatorHeader {
    config: Option<Config>,
    cluster: Cluster,
    stripes: Vec<Stripe>,
}

/// The lines before the first input: all that a coordinator is made from.
pub fn header(now: Time, config: &Config, cluster: &Cluster, stripes: &StripeMap) -> String {
    let mut text = super::first_line(super::Kind::Coordinator) + "\n";
    let mut add = |line: &mut LineWriter| {
        text += &std::mem::take(line).finish();
        text.push('\n');
    };
    let line = &mut LineWriter::default();
    line.word("coordinator").field("epoch", &config.epoch).field("policy", &config.policy);
    line.field("seed", &config.seed).field("paused", &YesNo(config.paused));
    add(line.word("failed").list(&config.failed).value(&config.timers));
    if !config.draining.is_empty() {
        add(line.word("draining").list(&config.draining));
    }
    for (node, span) in &config.paused_nodes {
        add(line.field("rests", node).field("for", span));
    }
    if config.claims {
        add(line.word("claims"));
    }
    if config.liveness == Liveness::Keeper {
        add(line.word("keeper-decides-who-lives"));
    }
    if !config.deletes {
        add(line.word("keeper-removes-excess"));
    }
    if config.in_flight_max != IN_FLIGHT_MAX {
        add(line.field("in-flight", &(config.in_flight_max as u64)));
    }
    if config.scrub != ScrubConfig::OFF {
        add(line.field("scrub", &config.scrub));
    }
    if let Some(after) = &config.rebalance_after {
        add(line.field("rebalance-after", after));
    }
    if config.gather != Span::ZERO {
        add(line.field("gather", &config.gather));
    }
    if !cluster.racks.is_empty() {
        add(line.word("racks").list(&cluster.racks));
    }
    if let Some(core) = &cluster.core {
        add(line.word("core").field("up", &core.rack_uplink).field("down", &core.rack_downlink));
    }
    for (id, node) in cluster.ids().zip(&cluster.nodes) {
        add(line.field("node", &id).value(node));
    }
    for stripe in stripes.iter() {
        add(line.field("stripe", stripe));
    }
    add(line.field("start", &now));
    text
}

impl CoordinatorHeader {
    /// Takes one line of the header.
    ///
    /// # Errors
    /// When the line is none of a coordinator's header; what was expected where.
    pub fn read(&mut self, line: &mut LineReader<'_>) -> Result<(), TextError> {
        let error = line.error("a line of a coordinator's header");
        match line.word()? {
            "coordinator" => self.config = Some(config(line)?),
            "draining" => self.config.as_mut().ok_or(error)?.draining = line.list()?,
            "rests" => {
                let pause = (line.value()?, line.field("for")?);
                self.config.as_mut().ok_or(error)?.paused_nodes.push(pause);
            }
            "claims" => self.config.as_mut().ok_or(error)?.claims = true,
            "keeper-decides-who-lives" => {
                self.config.as_mut().ok_or(error)?.liveness = Liveness::Keeper;
            }
            "keeper-removes-excess" => self.config.as_mut().ok_or(error)?.deletes = false,
            "in-flight" => {
                self.config.as_mut().ok_or(error)?.in_flight_max =
                    line.value::<u64>()?.max(1) as usize;
            }
            "scrub" => self.config.as_mut().ok_or(error)?.scrub = line.value()?,
            "rebalance-after" => {
                self.config.as_mut().ok_or(error)?.rebalance_after = Some(line.value()?);
            }
            "gather" => self.config.as_mut().ok_or(error)?.gather = line.value()?,
            "racks" => self.cluster.racks = line.list()?,
            "core" => {
                let (rack_uplink, rack_downlink) = (line.field("up")?, line.field("down")?);
                self.cluster.core = Some(Core { rack_uplink, rack_downlink });
            }
            "node" => {
                let next = self.cluster.nodes.len();
                line.leaf(&format!("n{next}"), |word| (word == format!("n{next}")).then_some(()))?;
                self.cluster.nodes.push(line.value()?);
            }
            "stripe" => self.stripes.push(line.value()?),
            _ => return Err(error),
        }
        Ok(())
    }

    /// The coordinator; nothing while its configuration is not known.
    pub fn start(self, now: Time) -> Option<Coordinator> {
        let stripes = StripeMap::new(self.stripes);
        Some(Coordinator::new(now, self.config?, self.cluster, stripes))
    }
}

fn config(line: &mut LineReader<'_>) -> Result<Config, TextError> {
    let (epoch, policy) = (line.field("epoch")?, line.field("policy")?);
    let (seed, YesNo(paused)) = (line.field("seed")?, line.field("paused")?);
    line.expect("failed")?;
    let failed = line.list()?;
    let (claims, liveness, timers) = (false, Liveness::Own, line.value()?);
    let (in_flight_max, scrub) = (IN_FLIGHT_MAX, ScrubConfig::OFF);
    Ok(Config {
        epoch,
        policy,
        seed,
        paused,
        failed,
        draining: Vec::new(),
        paused_nodes: Vec::new(),
        claims,
        liveness,
        deletes: true,
        in_flight_max,
        scrub,
        rebalance_after: None,
        gather: Span::ZERO,
        timers,
    })
}

impl Textual for ScrubConfig {
    fn write(&self, line: &mut LineWriter) {
        line.option("period", self.period.as_ref()).option("rate", self.rate.as_ref());
        line.option("begun-before", self.begun_before.as_ref()).option("next", self.next.as_ref());
    }

    fn read(line: &mut LineReader<'_>) -> Result<ScrubConfig, TextError> {
        Ok(ScrubConfig {
            period: line.option("period")?,
            rate: line.option("rate")?,
            begun_before: line.option("begun-before")?,
            next: line.option("next")?,
        })
    }
}

impl Textual for RefusedNode {
    fn write(&self, line: &mut LineWriter) {
        line.value(&self.node).value(&self.why);
    }

    fn read(line: &mut LineReader<'_>) -> Result<RefusedNode, TextError> {
        Ok(RefusedNode { node: line.value()?, why: line.value()? })
    }
}

/// What transcripts say that were recorded before it was one of the timers.
const PROLONG_UNRECORDED: Span = Span::from_secs(100);

impl Textual for Timers {
    fn write(&self, line: &mut LineWriter) {
        line.field("suspect", &self.suspect_after).field("dead", &self.dead_after);
        line.field("grace", &self.start_grace).field("stall", &self.stall_after);
        line.field("commit", &self.commit_retry).field("prolong", &self.claim_prolong);
        line.field("retry", &self.retry_first).field("to", &self.retry_max);
    }

    fn read(line: &mut LineReader<'_>) -> Result<Timers, TextError> {
        Ok(Timers {
            suspect_after: line.field("suspect")?,
            dead_after: line.field("dead")?,
            start_grace: line.field("grace")?,
            stall_after: line.field("stall")?,
            commit_retry: line.field("commit")?,
            claim_prolong: line.option("prolong")?.unwrap_or(PROLONG_UNRECORDED),
            retry_first: line.field("retry")?,
            retry_max: line.field("to")?,
        })
    }
}

impl Textual for Input {
    fn write(&self, line: &mut LineWriter) {
        match self {
            Input::NodeAdded { id, node, rack } => {
                line.word("added").field("node", id).value(node).option("in", rack.as_ref())
            }
            Input::Agent { node, message } => line.field("agent", node).value(message),
            Input::AgentLost(node) => line.field("lost", node),
            Input::StripesReserved { below, writing } => {
                line.word("reserved").field("below", below).word("writing").list(writing)
            }
            Input::StripesUnknown { from, below } => {
                line.word("unknown").field("from", from).field("below", below)
            }
            Input::EpochRaised(epoch) => line.field("epoch", epoch),
            Input::StripeAdded(stripe) => line.word("added").field("stripe", stripe),
            Input::StripesAdded(stripes) => line.word("added").word("stripes").list(stripes),
            Input::StripeRemoved(stripe) => line.word("removed").field("stripe", stripe),
            Input::Inconsistent(stripe) => line.word("inconsistent").field("stripe", stripe),
            Input::Faulty { node, copy, fault } => {
                line.word("faulty").value(copy).field("on", node).word(fault.name())
            }
            Input::NodeState { node, state } => {
                line.word("keeper-says").field("node", node).word(state_word(*state))
            }
            Input::ChunkSuspected { node, copy } => {
                line.word("suspected").field("chunk", copy).field("on", node)
            }
            Input::Committed { repair, stripe } => {
                line.word("committed").field("repair", repair).field("stripe", stripe)
            }
            Input::CommitRefused { repair, stripe } => line
                .word("commit-refused")
                .field("repair", repair)
                .option("stripe", stripe.as_ref()),
            Input::Claimed { repair, label } => {
                line.word("claimed").field("repair", repair);
                line.option("label", Some(label).filter(|label| !label.is_empty()))
            }
            Input::ClaimRefused { repair, stripe, because_of } => {
                line.word("claim-refused").field("repair", repair);
                line.option("stripe", stripe.as_ref()).option("because-of", because_of.as_ref())
            }
            Input::ClaimLost(repair) => line.field("claim-lost", repair),
            Input::Operator(command) => line.field("operator", command),
            Input::Throttle(config) => line.field("throttle", &**config),
            Input::WindowClosed(until) => {
                line.word("window-closed").option("until", until.as_ref())
            }
            Input::Tick => line.word("tick"),
        };
    }

    fn read(line: &mut LineReader<'_>) -> Result<Input, TextError> {
        let error = line.error("an input of a coordinator");
        Ok(match line.word()? {
            "added" if line.take("stripes") => Input::StripesAdded(line.list()?),
            "added" if line.take("stripe") => Input::StripeAdded(line.value()?),
            "added" => {
                let (id, node): (NodeId, Node) = (line.field("node")?, line.value()?);
                Input::NodeAdded { id, node, rack: line.option("in")? }
            }
            "agent" => Input::Agent { node: line.value()?, message: line.value()? },
            "lost" => Input::AgentLost(line.value()?),
            "reserved" => {
                let below = line.field("below")?;
                line.expect("writing")?;
                Input::StripesReserved { below, writing: line.list()? }
            }
            "unknown" => {
                Input::StripesUnknown { from: line.field("from")?, below: line.field("below")? }
            }
            "epoch" => Input::EpochRaised(line.value()?),
            "removed" => Input::StripeRemoved(line.field("stripe")?),
            "inconsistent" => Input::Inconsistent(line.field("stripe")?),
            "faulty" => {
                let (copy, node) = (line.value()?, line.field("on")?);
                let fault = line.leaf("corrupt, unreadable or inconsistent", |word| {
                    KnownFault::ALL.into_iter().find(|fault| fault.name() == word)
                })?;
                Input::Faulty { node, copy, fault }
            }
            "keeper-says" => {
                let node = line.field("node")?;
                let state = line.leaf("up, dead or decommissioning", |word| {
                    STATES.into_iter().find(|state| state_word(*state) == word)
                })?;
                Input::NodeState { node, state }
            }
            "suspected" => {
                let copy: ChunkCopy = line.field("chunk")?;
                Input::ChunkSuspected { copy, node: line.field("on")? }
            }
            "committed" => {
                Input::Committed { repair: line.field("repair")?, stripe: line.field("stripe")? }
            }
            "commit-refused" => Input::CommitRefused {
                repair: line.field("repair")?,
                stripe: line.option("stripe")?,
            },
            "claimed" => {
                let repair = line.field("repair")?;
                Input::Claimed { repair, label: line.option("label")?.unwrap_or_default() }
            }
            "claim-refused" => Input::ClaimRefused {
                repair: line.field("repair")?,
                stripe: line.option("stripe")?,
                because_of: line.option("because-of")?,
            },
            "claim-lost" => Input::ClaimLost(line.value()?),
            "operator" => Input::Operator(line.value()?),
            "throttle" => Input::Throttle(Box::new(line.value()?)),
            "window-closed" => Input::WindowClosed(line.option("until")?),
            "tick" => Input::Tick,
            _ => return Err(error),
        })
    }
}

const STATES: [NodeState; 3] = [NodeState::Up, NodeState::Dead, NodeState::Decommissioning];

fn state_word(state: NodeState) -> &'static str {
    match state {
        NodeState::Up => "up",
        NodeState::Dead => "dead",
        NodeState::Decommissioning => "decommissioning",
    }
}

impl Textual for Command {
    fn write(&self, line: &mut LineWriter) {
        match self {
            Command::FailNode(node) => line.word("fails").value(node),
            Command::DrainNode(node) => line.word("drains").value(node),
            Command::PauseNode { node, span } => line.field("lets rest", node).field("for", span),
            Command::ReturnNode(node) => line.word("returns").value(node),
            Command::FailSilent => line.word("gives-silent-up"),
            Command::RepairNow(stripe) => line.word("wants").value(stripe),
            Command::Scrub => line.word("scrubs"),
            Command::Pause => line.word("pauses"),
            Command::Resume => line.word("resumes"),
            Command::Cancel => line.word("cancels"),
        };
    }

    fn read(line: &mut LineReader<'_>) -> Result<Command, TextError> {
        let error = line.error("a command");
        Ok(match line.word()? {
            "fails" => Command::FailNode(line.value()?),
            "drains" => Command::DrainNode(line.value()?),
            "lets" => {
                let node = line.field("rest")?;
                Command::PauseNode { node, span: line.field("for")? }
            }
            "returns" => Command::ReturnNode(line.value()?),
            "gives-silent-up" => Command::FailSilent,
            "wants" => Command::RepairNow(line.value()?),
            "scrubs" => Command::Scrub,
            "pauses" => Command::Pause,
            "resumes" => Command::Resume,
            "cancels" => Command::Cancel,
            _ => return Err(error),
        })
    }
}

/// The lines of what one input gave.
pub fn output_lines(outputs: &[Output]) -> Vec<String> {
    let message = |output: &Output| match output {
        Output::Send { message, .. } => Some(message.clone()),
        _ => None,
    };
    let same = |a: &Output, b: &Output| message(a).is_some() && message(a) == message(b);
    outputs.chunk_by(same).map(output_line).collect()
}

/// One output, or what is sent alike to several agents.
fn output_line(outputs: &[Output]) -> String {
    let mut line = LineWriter::default();
    match &outputs[0] {
        Output::Send { message, .. } => send(&mut line, outputs, message),
        Output::Commit(Commit { repair, copy, node, generation, clears }) => {
            line.word("commit").field("chunk", copy).field("on", node);
            line.option("in place of", clears.as_ref());
            line.field("at generation", generation).field("repair", repair);
        }
        Output::Claim(Claim { repair, stripe, generation, destinations }) => {
            line.field("claim stripe", stripe).field("at generation", generation);
            let kept = destinations.iter().map(|(chunk, node)| Destination(*chunk, *node));
            line.word("to").list(&kept.collect::<Vec<_>>()).field("repair", repair);
        }
        Output::ReleaseClaim(repair) => {
            line.field("release repair", repair);
        }
        Output::Protect(below) => {
            line.field("protect below", below);
        }
        Output::Scrub(step) => {
            match step {
                ScrubStep::Begun => line.word("scrub begun"),
                ScrubStep::Reached(below) => line.field("scrub reached", below),
                ScrubStep::Ended => line.word("scrub ended"),
                ScrubStep::Inconsistent(id) => line.field("scrub found inconsistent", id),
                ScrubStep::Consistent(id) => line.field("scrub found consistent", id),
            };
        }
        Output::Faulty { node, copy, fault } => {
            line.word("record").value(copy).field("on", node);
            line.word(fault.map_or("good", KnownFault::name));
        }
        Output::Report(report) => self::report(line.word("report"), report),
    }
    line.finish()
}

fn send(line: &mut LineWriter, outputs: &[Output], message: &ToAgent) {
    let to = |output: &Output| match output {
        Output::Send { to, .. } => Some(format!("n{}", to.0)),
        _ => None,
    };
    let everyone: Vec<String> = outputs.iter().filter_map(to).collect();
    line.word("->").word(everyone.join(", ")).value(message);
}

fn report(line: &mut LineWriter, report: &Report) {
    match report {
        Report::Node { node, health, chunks } => {
            line.field("node", node).word("is").word(health);
            if *chunks > 0 {
                line.field("chunks lost", chunks);
            }
        }
        Report::Drained(node) => {
            line.field("drained node", node);
        }
        Report::ChunkLost { node, copy, fault } => {
            line.field("chunk", copy).field("on", node).word("is").word(fault);
        }
        Report::Planned { repairs, max_load_seconds } => {
            line.field("planned repairs", repairs)
                .word(format!("in {max_load_seconds:.6}s at least"));
        }
        Report::PlannerPanicked { message } => {
            line.field("planner panicked", message);
        }
        Report::Started { repair, plan } => {
            // The rest of the plan stands in the dispatch.
            line.field("started repair", repair).field("of stripe", &plan.stripe);
        }
        Report::Replaced { repair, by, without } => {
            line.field("replaced repair", repair).field("by", by).word("without").list(without);
        }
        Report::Committed { repair, copy, node, bytes } => {
            line.field("committed repair", repair).field("chunk", copy);
            line.field("on", node).field("bytes", bytes);
        }
        Report::Failed { repair, node, why } => {
            line.field("failed repair", repair).option("by", node.as_ref()).value(why);
        }
        Report::Blocked { stripe, why } => blocked(line.field("blocked stripe", stripe), why),
        Report::Healthy(stripe) => {
            line.field("healthy stripe", stripe);
        }
        Report::PassBegun => {
            line.word("pass begun");
        }
        Report::PassEnded { stripes, bytes } => {
            line.field("pass ended stripes", stripes).field("bytes", bytes);
        }
        Report::Inconsistent { stripe, odd } => {
            let odd = odd.map(|chunk| u64::from(chunk.0));
            line.field("inconsistent stripe", stripe).option("odd", odd.as_ref());
        }
        Report::OtherBytes { node, copy } => {
            line.field("other bytes in chunk", copy).field("on", node);
        }
        Report::CutOff { node, is_cut_off } => {
            line.field(if *is_cut_off { "cut off" } else { "reached again" }, node);
        }
        Report::Excess { node, copy } => {
            line.field("excess chunk", copy).field("on", node);
        }
    }
}

fn blocked(line: &mut LineWriter, why: &Blocked) {
    match why {
        Blocked::Plan(error) => line.word(format!("no plan: {error}").replace('\n', " ")),
        Blocked::Silent { needed, up } => {
            line.word("silent").field("needed", needed).field("up", up)
        }
        Blocked::Pool { node, needed, pool } => {
            line.field("pool of", node).field("needed", needed).field("pool", pool)
        }
        Blocked::Claimed => line.word("claimed by others"),
        Blocked::Disputed { node } => line.field("disputed copy at", node),
        Blocked::Failing { attempts, node, why } => {
            let line = line.field("failing attempts", attempts).word("last");
            line.option("by", node.as_ref()).value(why)
        }
    };
}
