//! The machines of the simulated cluster: they are started, given inputs, and their outputs are
//! performed.
//!
//! Place: beside the whole life of a repair, as the drivers of production are.
//! The outputs of an agent are performed by `effect.rs`; the coordinator's become messages and
//! questions to the metadata, which the network may lose like any other. After each input the
//! checkers look at the machine, and its next deadline becomes an event.

use suture_repair::agent::{self, Agent};
use suture_repair::coordinator::{self, Coordinator, ScrubConfig};
use suture_repair::event::{self, Claim, Liveness, NodeState, ScrubStep};
use suture_repair::id::{CopyAt, NodeId, StripeId, StripeRange};
use suture_repair::keeper::{Keeper, KeeperError};
use suture_repair::message::{DiskState, LinkReport, Moved, ToAgent};
#[cfg(feature = "mutants")]
use suture_repair::mutant::Mutant;
use suture_repair::planner::Abilities;
use suture_repair::random::Random;
use suture_repair::stripe::StripeMap;
use suture_repair::throttle::ThrottleConfig;
use suture_repair::time::{Span, Time};
use suture_repair::transcript;

use super::{
    Asked, Event, IN_FLIGHT_MAX, Pause, Question, REBALANCE_AFTER, SCRUB_PERIOD, SCRUB_RATE,
    TIMERS, World,
};
use crate::fault::{Kind, NetworkFaults};
use crate::party::Party;

/// Where a clock begins: anywhere, since no machine can know another one's.
fn clock_of(start: u64) -> Span {
    Span { ns: Random::new(start).below(1_000_000_000_000) }
}

impl World {
    /// From now on all machines make this mistake.
    #[cfg(feature = "mutants")]
    pub(crate) fn mutate(&mut self, mutant: Mutant) {
        self.mutant = Some(mutant);
        self.make_mistakes();
    }

    /// A machine that was just started makes the mistake of this world, if it has one.
    fn make_mistakes(&mut self) {
        #[cfg(feature = "mutants")]
        if let Some(mutant) = self.mutant {
            let agents = self.hosts.iter_mut().filter_map(|host| host.agent.as_mut());
            agents.for_each(|agent| agent.mutate(mutant));
            self.hosts.iter_mut().for_each(|host| host.grants.mutate(mutant));
            self.coordinator.iter_mut().for_each(|coordinator| coordinator.mutate(mutant));
        }
    }

    pub(crate) fn start_agent(&mut self, node: NodeId) {
        let incarnation = self.random.next_u64();
        self.disturb(node, Span::ZERO);
        let config = agent::AgentConfig {
            me: node,
            incarnation,
            abilities: Abilities::ALL,
            pool_bytes: self.options.pool_bytes,
            heartbeat_every: Span::from_millis(100),
            stall_after: Span::from_millis(4000),
            inventory_every: Span::from_millis(2500),
        };
        if let Some(records) = &mut self.records {
            records.start(Party::Agent(node), transcript::agent::header(&config));
        }
        let host = &mut self.hosts[node.index()];
        host.ahead = clock_of(incarnation);
        host.incarnation = incarnation;
        host.agent = Some(Agent::new(config));
        host.has_vanished = false;
        host.crash();
        host.armed = None;
        self.make_mistakes();
        // As in production: before its first message, so that the coordinator does not take a fresh
        // agent for a full one.
        let free_bytes = self.host(node).disk.capacity_left();
        self.agent_input(node, agent::AgentInput::Listed { copies: Vec::new(), free_bytes });
        if self.host(node).hangs_until.is_some() {
            self.agent_input(node, agent::AgentInput::Disk(DiskState::Hanging));
        }
        self.keeper_sees(node, NodeState::Up);
        self.connect_soon(node);
    }

    /// The keeper is notified how a node is, where it decides that, and the coordinator by it. A
    /// keeper waits for no answer to it and cannot repeat it, so this is not lost.
    pub(crate) fn keeper_sees(&mut self, node: NodeId, state: NodeState) {
        if self.options.liveness == Liveness::Own || self.metadata.node_state(node) == state {
            return;
        }
        self.metadata.set_node(node, state);
        for input in self.metadata.changes() {
            self.note(|| format!("keeper {input:?}"));
            self.coordinator_input(input);
        }
    }

    pub(crate) fn connect_soon(&mut self, node: NodeId) {
        let after = Span { ns: self.random.between(1_000_000, 60_000_000) };
        self.later(after, Event::Connect(node));
    }

    pub(super) fn connect(&mut self, node: NodeId) {
        if self.host(node).agent.is_none() {
            return;
        }
        let reachable = self.can_receive(Party::Agent(node), Party::Coordinator);
        if reachable && !self.is_link_dead(node) {
            self.join(node);
        } else {
            // It goes on trying, as the driver does.
            self.connect_soon(node);
        }
    }

    /// The node's agent joins, unless it is refused.
    fn join(&mut self, node: NodeId) {
        if self.admit_own(node).is_err() {
            return;
        }
        // Until now no peer could send it anything.
        self.disturb(node, Span::ZERO);
        let joined = self.racks.join(node);
        joined.into_iter().for_each(|input| self.coordinator_input(input));
        if let Some(epoch) = self.metadata.outrank(node, self.host(node).followed) {
            self.coordinator_input(event::Input::EpochRaised(epoch));
        }
        let (epoch, host) = (self.metadata.epoch, &mut self.hosts[node.index()]);
        (host.followed, host.is_new) = (epoch, false);
        self.agent_input(node, agent::AgentInput::Connected { epoch });
    }

    /// Starts a coordinator on the metadata as it is.
    pub fn start_coordinator(&mut self) {
        if self.backup.is_none() {
            self.back_up();
        }
        self.starts += 1;
        self.disturb_all(Span::ZERO);
        self.ahead = clock_of(self.options.seed ^ u64::from(self.starts));
        let now = self.clock();
        let config = coordinator::Config {
            epoch: self.metadata.begin_epoch(self.starts.into()),
            timers: TIMERS,
            policy: self.options.policy,
            seed: self.options.seed,
            paused: self.paused,
            failed: self.declared.iter().copied().collect(),
            draining: self.draining.iter().copied().collect(),
            paused_nodes: self.pauses_left(),
            claims: self.options.claims,
            liveness: self.options.liveness,
            deletes: true,
            in_flight_max: IN_FLIGHT_MAX,
            scrub: self.scrub_config(),
            rebalance_after: self.rebalance_after(),
            gather: Span::ZERO,
        };
        self.racks.begin();
        let cluster = self.racks.cluster(self.hosts.len());
        let stripes = StripeMap::new(self.metadata.stripes.values().cloned());
        if let Some(records) = &mut self.records {
            let header = transcript::coordinator::header(now, &config, &cluster, &stripes);
            records.start(Party::Coordinator, header);
        }
        // A put that was under way dies with its coordinator.
        self.writing.clear();
        self.asked = Asked::default();
        self.throttle = ThrottleConfig::default();
        self.coordinator = Some(Coordinator::new(now, config, cluster, stripes));
        self.make_mistakes();
        self.armed = None;
        self.announce_reserved();
        for id in self.inconsistent.clone() {
            self.coordinator_input(event::Input::Inconsistent(id));
        }
        for (CopyAt { node, copy }, fault) in self.faulty.clone() {
            self.coordinator_input(event::Input::Faulty { node, copy, fault });
        }
        self.check_recalled();
        for node in self.nodes() {
            let state = self.metadata.node_state(node);
            if state != NodeState::Up {
                self.coordinator_input(event::Input::NodeState { node, state });
            }
        }
        for node in self.nodes() {
            self.connect_soon(node);
        }
    }

    /// Nodes that may be silent, and for how much longer.
    fn pauses_left(&mut self) -> Vec<(NodeId, Span)> {
        let (now, today) = (self.now, self.today());
        let left = |(node, pause): (&NodeId, &mut Pause)| {
            let left = pause.day.since(today);
            pause.until = now + left;
            (*node, left)
        };
        let pauses_left = self.paused_nodes.iter_mut().map(left);
        pauses_left.filter(|(_, left)| *left > Span::ZERO).collect()
    }

    /// What a coordinator goes on with that begins now.
    fn scrub_config(&self) -> ScrubConfig {
        let (begun, next) = self.pass;
        let is_on = self.options.scrubs;
        ScrubConfig {
            period: is_on.then_some(SCRUB_PERIOD),
            rate: Some(SCRUB_RATE),
            begun_before: begun.and_then(|begun| self.age(begun)),
            next,
        }
    }

    /// Where a keeper decides which nodes live, chunks lie where it wants them.
    fn rebalance_after(&self) -> Option<Span> {
        let is_on = self.options.rebalances && self.options.liveness == Liveness::Own;
        is_on.then_some(REBALANCE_AFTER)
    }

    pub(crate) fn announce_reserved(&mut self) {
        for StripeRange { from, below } in self.metadata.unknown() {
            self.coordinator_input(event::Input::StripesUnknown { from, below });
        }
        let below = StripeId(self.metadata.next_stripe);
        let writing = self.writing.iter().copied().collect();
        self.coordinator_input(event::Input::StripesReserved { below, writing });
    }

    /// The time by the coordinator's clock.
    pub(crate) fn clock(&self) -> Time {
        self.ahead_by(self.ahead)
    }

    /// The time by a clock that is ahead.
    fn ahead_by(&self, ahead: Span) -> Time {
        #[cfg(feature = "mutants")]
        if self.mutant == Some(Mutant::TimeBack) && self.sequence.is_multiple_of(100) {
            return Time { ns: (self.now + ahead).ns.saturating_sub(1_000_000) };
        }
        self.now + ahead
    }

    /// The time by the clock of the day.
    pub(crate) fn today(&self) -> Time {
        self.now + self.day
    }

    /// How long ago that was by the clock of the day; `None` for what is yet to come.
    fn age(&self, day: Time) -> Option<Span> {
        let today = self.today();
        (day <= today).then(|| today.since(day))
    }

    /// An alarm that was set by another clock is not waited for.
    pub(crate) fn forget_alarm(&mut self) {
        self.armed = None;
    }

    pub(crate) fn coordinator_input(&mut self, input: event::Input) {
        if self.coordinator.is_none() {
            return;
        }
        match &mut self.asleep {
            Some(asleep) => asleep.waiting.push_back(input),
            None => self.take_in(input),
        }
    }

    /// The coordinator takes in the next word.
    pub(crate) fn take_in(&mut self, input: event::Input) {
        let now = self.clock();
        let Some(coordinator) = &mut self.coordinator else { return };
        self.racks.before_input(&input);
        self.asked.received(&input);
        if let event::Input::Throttle(config) = &input {
            self.throttle = (**config).clone();
        }
        if let Some(records) = &mut self.records {
            records.input(now, Party::Coordinator, &input);
        }
        coordinator.handle(now, input);
        let outputs: Vec<event::Output> = std::iter::from_fn(|| coordinator.poll()).collect();
        let replacing = outputs.iter().filter_map(|output| match output {
            event::Output::Report(event::Report::Replaced { by, .. }) => Some(*by),
            _ => None,
        });
        self.replacing = replacing.collect();
        if let Some(records) = &mut self.records {
            records.coordinator_outputs(&outputs);
        }
        outputs.into_iter().for_each(|output| self.coordinator_output(output));
        self.check_coordinator();
        let deadline = self.coordinator.as_ref().and_then(Coordinator::next_deadline);
        if let Some(deadline) = deadline
            && self.armed.is_none_or(|armed| armed > deadline)
        {
            self.armed = Some(deadline);
            self.later(deadline.since(now).max(Span { ns: 1 }), Event::CoordinatorTick);
        }
    }

    fn coordinator_output(&mut self, output: event::Output) {
        let start = self.starts;
        self.check_begun(&output);
        self.check_limit(&output);
        self.check_intents(&output);
        self.check_asked(&output);
        self.watch_attempts(&output);
        match output {
            event::Output::Send { to, message } => {
                if let ToAgent::Dispatch(task) = &message
                    && !self.options.safeguards.requeue
                    && self.dispatched.contains(&task.stripe.id)
                {
                    // It is not sent: that is why it will stand still.
                    return self.disturb_all(Span::ZERO);
                }
                self.note(|| format!("coordinator -> {to}: {message:?}"));
                self.transmit(|| Event::ToAgent { to, start, message: message.clone() });
            }
            event::Output::Commit(commit) => {
                self.note(|| format!("commit {commit:?}"));
                self.transmit(|| Event::Ask { start, question: Question::Commit(commit) });
            }
            event::Output::Claim(claim) => {
                self.note(|| format!("claim {claim:?}"));
                self.transmit(|| Event::Ask { start, question: Question::Claim(claim.clone()) });
            }
            event::Output::ReleaseClaim(repair) => {
                self.note(|| format!("release {repair}"));
                self.transmit(|| Event::Ask { start, question: Question::Release(repair) });
            }
            event::Output::Scrub(step) => match step {
                ScrubStep::Begun => self.pass = (Some(self.today()), Some(StripeId(0))),
                ScrubStep::Reached(below) => self.pass.1 = Some(below),
                ScrubStep::Ended => self.pass.1 = None,
                ScrubStep::Inconsistent(id) => drop(self.inconsistent.insert(id)),
                ScrubStep::Consistent(id) => drop(self.inconsistent.remove(&id)),
            },
            event::Output::Faulty { node, copy, fault: Some(fault) } => {
                self.faulty.insert(CopyAt { node, copy }, fault);
            }
            event::Output::Faulty { node, copy, fault: None } => {
                self.faulty.remove(&CopyAt { node, copy });
            }
            event::Output::Protect(below) => self.protect(below),
            event::Output::Report(report) => {
                if let event::Report::Started { plan, .. } = &report {
                    self.dispatched.insert(plan.stripe);
                }
                match report {
                    event::Report::CutOff { is_cut_off: true, .. } => {
                        self.coverage.count(Kind::CutOff);
                    }
                    event::Report::Replaced { .. } => self.coverage.count(Kind::GoneOn),
                    _ => {}
                }
                self.check_report(&report);
                self.note(|| format!("report {report:?}"));
            }
        }
    }

    pub(super) fn ask(&mut self, start: u32, question: Question) {
        if start < self.asked_since {
            return;
        }
        let answered = match &question {
            Question::Commit(commit) => {
                self.check_commit(commit);
                self.metadata.commit(commit)
            }
            Question::Claim(claim) => self.claim(claim),
            Question::Release(repair) => self.metadata.release(*repair),
        };
        answered.expect("the metadata is in memory");
        for input in self.metadata.changes() {
            self.note(|| format!("metadata {input:?}"));
            self.transmit(|| Event::Answer { start, input: input.clone() });
        }
    }

    /// Now and then another repair is at work on the stripe.
    fn claim(&mut self, claim: &Claim) -> Result<(), KeeperError> {
        let ended = self.metadata.claims.expire(self.now);
        (0..ended).for_each(|_| self.coverage.count(Kind::ClaimExpired));
        if self.network_faults != NetworkFaults::NONE && self.random.per_mille(100) {
            self.coverage.count(Kind::ClaimRefused);
            self.metadata.refuse(claim);
            return Ok(());
        }
        self.metadata.claim(self.now, claim)
    }

    /// The agent measures its links. What it finds is another thing at each beat, and always the
    /// same in the same trial.
    pub(crate) fn measure(&mut self, node: NodeId) {
        let beat = self.now.ns / 1_000_000;
        let moved = |repair, others| Moved { repair, others };
        let report = LinkReport {
            span: Span::from_millis(100),
            sent: moved(beat % 1000, beat % 7 * 1_000_000),
            received: moved(beat % 777, beat % 5 * 1_000_000),
            probed: vec![(NodeId((node.0 + 1) % self.hosts.len() as u32), beat * 1000)],
            has_uplink: node.0.is_multiple_of(2),
            ..LinkReport::default()
        };
        self.agent_input(node, agent::AgentInput::Measured(Box::new(report)));
    }

    pub(crate) fn agent_input(&mut self, node: NodeId, input: agent::AgentInput) {
        let now = self.ahead_by(self.host(node).ahead);
        let host = &mut self.hosts[node.index()];
        let Some(agent) = &mut host.agent else { return };
        if let Some(records) = &mut self.records {
            records.input(now, Party::Agent(node), &input);
        }
        agent.handle(now, input);
        let outputs: Vec<agent::AgentOutput> = std::iter::from_fn(|| agent.poll()).collect();
        if let Some(records) = &mut self.records {
            records.agent_outputs(&outputs);
        }
        outputs.into_iter().for_each(|output| self.agent_output(node, output));
        self.check_agent(node);
        let host = &mut self.hosts[node.index()];
        let deadline = host.agent.as_ref().and_then(Agent::next_deadline);
        if let Some(deadline) = deadline
            && host.armed.is_none_or(|armed| armed > deadline)
        {
            host.armed = Some(deadline);
            self.later(deadline.since(now).max(Span { ns: 1 }), Event::AgentTick(node));
        }
    }
}
