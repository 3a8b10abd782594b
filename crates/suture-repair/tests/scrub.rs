//! Passes over all stripes: each copy is read once, as fast as may be, and wrong ones are found.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::story::{Story, bad, copy, stripe};
use suture_repair::coordinator::ScrubConfig;
use suture_repair::event::{Command, Input, Liveness, Output, Report, ScrubStep};
use suture_repair::id::{ChunkCopy, ChunkIndex, CopyAt, NodeId, StripeId};
use suture_repair::message::{CopyFault, FingerprintRequest, FromAgent, ToAgent};
use suture_repair::stripe::Stripe;
use suture_repair::time::Span;

/// What the right chunks sum to is all zeros; what a wrong one does has nothing to do with others.
fn sums(chunk: ChunkIndex, is_wrong: bool) -> Arc<[u8]> {
    let wrong = |at: usize| (at * 31 + usize::from(chunk.0) * at * 7 + 1) as u8;
    (0..16 << 10).map(|at| if is_wrong { wrong(at) } else { 0 }).collect()
}

/// A coordinator with agents that answer, and how often each copy was read.
struct Pass {
    story: Story,
    asked: Vec<(NodeId, FingerprintRequest)>,
    reads: BTreeMap<CopyAt, u64>,
    /// Copies that are wrong though they have their checksums.
    wrong: Vec<ChunkCopy>,
    /// Copies whose checksums say that they are corrupt.
    corrupt: Vec<ChunkCopy>,
    steps: Vec<ScrubStep>,
    reports: Vec<Report>,
}

impl Pass {
    fn new(scrub: ScrubConfig, nodes: u32, stripes: impl IntoIterator<Item = Stripe>) -> Pass {
        let story = Story::that_scrubs(scrub, ("suture", Liveness::Own), nodes, stripes);
        Pass {
            story,
            asked: Vec::new(),
            reads: BTreeMap::new(),
            wrong: Vec::new(),
            corrupt: Vec::new(),
            steps: Vec::new(),
            reports: Vec::new(),
        }
    }

    /// Takes what was sent: never more than two reads are in flight at a node.
    fn take(&mut self) {
        for output in self.story.take() {
            match output {
                Output::Send { to, message: ToAgent::Fingerprint(request) } => {
                    *self.reads.entry(request.copy.at(to)).or_default() += 1;
                    self.asked.push((to, request));
                }
                Output::Scrub(step) => self.steps.push(step),
                Output::Report(report) => self.reports.push(report),
                _ => {}
            }
        }
        for (node, _) in &self.asked {
            let count = self.asked.iter().filter(|(of, _)| of == node).count();
            assert!(count <= 2, "{count} reads in flight at {node}");
        }
    }

    /// Answers what is asked until nothing is. Returns how many were answered.
    fn answer(&mut self) -> usize {
        let mut answered = 0;
        loop {
            self.take();
            if self.asked.is_empty() {
                return answered;
            }
            let (node, request) = self.asked.remove(0);
            answered += 1;
            if self.corrupt.contains(&request.copy) {
                self.story.hear(node.0, bad(request.copy, CopyFault::Corrupt));
                continue;
            }
            let sums = sums(request.copy.chunk, self.wrong.contains(&request.copy));
            let (repair, copy) = (request.repair, request.copy);
            self.story.hear(node.0, FromAgent::Fingerprint { repair, copy, sums });
        }
    }

    fn scrub(&mut self) {
        self.story.give(Input::Operator(Command::Scrub));
        self.answer();
    }

    fn has_ended(&self) -> bool {
        self.steps.last() == Some(&ScrubStep::Ended)
    }
}

fn stripes(count: u64) -> Vec<Stripe> {
    (0..count).map(|id| stripe(id, [0, 1, 2, 3].map(|n| (n + id as u32) % 6))).collect()
}

#[test]
fn a_pass_reads_every_copy_once_and_in_the_order_of_age() {
    let mut pass = Pass::new(ScrubConfig::OFF, 6, stripes(300));
    pass.answer();
    assert!(pass.reads.is_empty(), "nobody asked for one");
    pass.scrub();
    assert!(pass.has_ended());
    assert_eq!(pass.reads.len(), 300 * 4);
    assert!(pass.reads.values().all(|count| *count == 1));
    assert_eq!(pass.story.core.status().scrub.pass, None);
    let ended = Report::PassEnded { stripes: 300, bytes: 300 * 4 * 4096 };
    assert!(pass.reports.contains(&ended), "{:?}", pass.reports);
}

#[test]
fn a_node_reads_no_faster_than_it_may() {
    // A chunk has 4096 bytes, so a node reads one in a second.
    let scrub = ScrubConfig { rate: Some(4096), ..ScrubConfig::OFF };
    let mut pass = Pass::new(scrub, 4, (0..8).map(|id| stripe(id, [0, 1, 2, 3])));
    pass.scrub();
    let mut began = vec![(pass.story.now, pass.reads.len())];
    while !pass.has_ended() {
        let deadline = pass.story.core.next_deadline().expect("the next stripe is due");
        assert!(deadline > pass.story.now);
        let half_a_second = pass.story.now + Span::from_millis(500);
        pass.story.now = deadline.min(half_a_second);
        (0..4).for_each(|node| pass.story.beat(node));
        pass.answer();
        if pass.reads.len() > began.last().unwrap().1 {
            began.push((pass.story.now, pass.reads.len()));
        }
        assert!(began.len() < 99);
    }
    assert_eq!(began.len(), 8, "one stripe after the other: {began:?}");
    for pair in began.windows(2) {
        assert_eq!(pair[1].0.since(pair[0].0), Span::from_secs(1), "{began:?}");
    }
}

#[test]
fn passes_begin_a_period_after_each_other_and_go_on_after_a_restart() {
    let period = Some(Span::from_secs(100));
    let scrub = ScrubConfig { period, ..ScrubConfig::OFF };
    let mut pass = Pass::new(scrub, 6, stripes(10));
    pass.answer();
    assert!(pass.has_ended(), "the first one begins at once");
    pass.story.wait(98, 0..6);
    pass.answer();
    assert!(pass.reads.values().all(|count| *count == 1));
    pass.story.wait(3, 0..6);
    pass.answer();
    assert!(pass.reads.values().all(|count| *count == 2));
    // Another coordinator begins where the one before has come, and a period after its pass began.
    let (begun_before, next) = (Some(Span::from_secs(70)), Some(StripeId(7)));
    let mut pass = Pass::new(ScrubConfig { begun_before, next, ..scrub }, 6, stripes(10));
    pass.answer();
    let stripes_read: Vec<u64> = pass.reads.keys().map(|at| at.copy.stripe.0).collect();
    assert!(stripes_read.iter().all(|id| *id >= 7) && stripes_read.len() == 3 * 4);
    pass.story.wait(28, 0..6);
    pass.answer();
    assert_eq!(pass.reads.len(), 3 * 4);
    pass.story.wait(3, 0..6);
    pass.answer();
    assert_eq!(pass.reads.len(), 10 * 4);
}

#[test]
fn how_far_a_pass_has_come_is_written_down() {
    let scrub = ScrubConfig { rate: Some(1000), ..ScrubConfig::OFF };
    let mut pass = Pass::new(scrub, 4, (0..60).map(|id| stripe(id, [0, 1, 2, 3])));
    pass.scrub();
    for _ in 0..150 {
        pass.story.wait(1, 0..4);
        pass.answer();
    }
    let read = pass.reads.keys().map(|at| at.copy.stripe).max().expect("something was read");
    let reached = pass.steps.iter().filter_map(|step| match step {
        ScrubStep::Reached(below) => Some(*below),
        _ => None,
    });
    let reached: Vec<StripeId> = reached.collect();
    assert!(reached.len() == 2 && reached.is_sorted(), "{reached:?}");
    assert!(reached[1].0 > 10 && reached[1] <= read, "{reached:?}, {read} was read");
}

#[test]
fn stripes_on_silent_nodes_are_put_off_and_read_when_they_are_back() {
    let mut pass = Pass::new(ScrubConfig::OFF, 6, stripes(12));
    pass.story.give(Input::AgentLost(NodeId(0)));
    pass.scrub();
    assert!(!pass.has_ended());
    let is_read = |pass: &Pass, id: u64| pass.reads.keys().any(|at| at.copy.stripe.0 == id);
    for id in 0..12 {
        let is_silent = stripe(id, [0, 1, 2, 3].map(|n| (n + id as u32) % 6));
        let is_silent = is_silent.chunk_on(NodeId(0)).is_some();
        assert_eq!(is_read(&pass, id), !is_silent, "{id}");
    }
    assert_eq!(pass.story.core.status().scrub.pass.map(|pass| pass.put_off), Some(8));
    pass.story.join(0);
    pass.answer();
    assert!(pass.has_ended());
    assert!(pass.reads.values().all(|count| *count == 1));
    // One that falls silent while it reads has the whole stripe read again, when it is back.
    pass.story.give(Input::Operator(Command::Scrub));
    pass.take();
    let (unread, asked) =
        std::mem::take(&mut pass.asked).into_iter().partition(|(node, _)| *node == NodeId(1));
    let unread: Vec<(NodeId, FingerprintRequest)> = unread;
    pass.asked = asked;
    pass.story.give(Input::AgentLost(NodeId(1)));
    pass.answer();
    assert!(!pass.has_ended());
    pass.story.join(1);
    pass.answer();
    assert!(pass.has_ended() && !unread.is_empty());
    for (node, request) in unread {
        assert_eq!(pass.reads[&request.copy.at(node)], 3, "{}: once more", request.copy);
    }
}

#[test]
fn no_pass_waits_for_a_node_that_is_paused() {
    for pause_first in [true, false] {
        let mut pass = Pass::new(ScrubConfig::OFF, 6, stripes(3000));
        let span = Span::from_secs(30 * 86_400);
        let pause = Input::Operator(Command::PauseNode { node: NodeId(0), span });
        let events = [pause, Input::AgentLost(NodeId(0))];
        let [first, then] = events;
        let [first, then] = if pause_first { [first, then] } else { [then, first] };
        pass.story.give(first);
        pass.scrub();
        pass.story.give(then);
        while !pass.has_ended() {
            pass.story.wait(1, 1..6);
            assert!(pass.answer() > 0, "nothing is read, and the pass has not ended");
        }
        for id in 0..3000 {
            let stripe = stripe(id, [0, 1, 2, 3].map(|n| (n + id as u32) % 6));
            for at in stripe.indices().filter_map(|chunk| stripe.copy(chunk)) {
                let is_read = pass.reads.contains_key(&at);
                assert!(is_read || at.node == NodeId(0), "{} on {}", at.copy, at.node);
            }
        }
        // The next one reads what is there again.
        pass.story.join(0);
        pass.scrub();
        while !pass.has_ended() {
            pass.story.wait(1, 0..6);
            pass.answer();
        }
        assert!(pass.reads.keys().any(|at| at.node == NodeId(0)));
    }
}

#[test]
fn what_a_pass_does_not_wait_for_is_counted() {
    let mut pass = Pass::new(ScrubConfig::OFF, 6, stripes(12));
    let pause = |node| {
        let span = Span::from_secs(3600);
        Input::Operator(Command::PauseNode { node: NodeId(node), span })
    };
    let left_out = |pass: &mut Pass| {
        pass.scrub();
        assert!(pass.has_ended());
        pass.story.core.status().scrub.left_out
    };
    assert_eq!(left_out(&mut pass), 0);
    pass.story.give(pause(0));
    assert_eq!(left_out(&mut pass), 0, "it is up still");
    pass.story.give(Input::AgentLost(NodeId(0)));
    assert_eq!(left_out(&mut pass), 8, "what it holds");
    pass.story.join(0);
    assert_eq!(left_out(&mut pass), 0);
    pass.story.give(Input::Operator(Command::FailNode(NodeId(1))));
    assert_eq!(left_out(&mut pass), 8);
    // Another one goes while it is asked.
    pass.story.give(pause(2));
    pass.story.give(Input::Operator(Command::Scrub));
    pass.take();
    pass.story.give(Input::AgentLost(NodeId(2)));
    pass.asked.retain(|(node, _)| *node != NodeId(2));
    pass.answer();
    assert!(pass.has_ended());
    assert_eq!(pass.story.core.status().scrub.left_out, 16);
}

#[test]
fn what_cannot_be_read_at_all_holds_no_pass_up() {
    let mut pass = Pass::new(ScrubConfig::OFF, 6, stripes(3000));
    (0..6).for_each(|node| pass.story.give(Input::Operator(Command::FailNode(NodeId(node)))));
    pass.scrub();
    for _ in 0..5 {
        pass.story.now = pass.story.now + Span::from_millis(1);
        pass.story.give(Input::Tick);
    }
    pass.take();
    assert!(pass.has_ended() && pass.reads.is_empty());
}

#[test]
fn what_was_not_answered_is_asked_again() {
    let mut pass = Pass::new(ScrubConfig::OFF, 4, [stripe(0, [0, 1, 2, 3])]);
    pass.story.give(Input::Operator(Command::Scrub));
    pass.take();
    let first = std::mem::take(&mut pass.asked);
    pass.story.wait(15, 0..4);
    pass.take();
    assert!(pass.asked.is_empty(), "it may take its time");
    pass.story.wait(10, 0..4);
    pass.take();
    assert_eq!(pass.asked, first, "the same question, which agents ignore that are at it");
    pass.answer();
    assert!(pass.has_ended());
}

#[test]
fn copies_that_are_corrupt_are_found_and_rebuilt() {
    let mut pass = Pass::new(ScrubConfig::OFF, 6, stripes(20));
    pass.corrupt = vec![copy(3, 2, 0), copy(3, 3, 0), copy(11, 0, 0)];
    pass.scrub();
    assert!(pass.has_ended());
    assert_eq!(pass.story.core.status().lost_chunks, 3);
    assert_eq!(pass.story.core.status().scrub.found, 3);
    let started = |report: &&Report| matches!(report, Report::Started { .. });
    assert_eq!(pass.reports.iter().filter(started).count(), 2);
}

/// Stripes without a recorded checksum.
fn unrecorded(code: &str, count: u64) -> Vec<Stripe> {
    let one = |id| {
        let mut stripe = stripe(id, [0, 1, 2, 3]);
        stripe.code = code.parse().expect("a code");
        let width = stripe.code.chunk_count();
        let record = stripe.chunks[0];
        stripe.chunks = (0..width as u32)
            .map(|n| suture_repair::stripe::ChunkRecord {
                node: Some(NodeId(n)),
                crc: None,
                ..record
            })
            .collect();
        stripe
    };
    (0..count).map(one).collect()
}

#[test]
fn a_copy_that_does_not_fit_the_others_is_rebuilt_though_it_has_its_checksums() {
    for code in ["rs(3,2)", "lrc(4,2,2)", "rs(1,2)"] {
        let width = code.parse::<suture_code::Code>().unwrap().chunk_count() as u32;
        let mut pass = Pass::new(ScrubConfig::OFF, width + 2, unrecorded(code, 3));
        pass.wrong = vec![copy(1, 0, 0)];
        pass.scrub();
        let is_lost = |pass: &Pass| pass.story.core.is_lost(StripeId(1), ChunkIndex(0));
        assert!(pass.has_ended() && is_lost(&pass), "{code}");
        assert_eq!(pass.story.core.status().lost_chunks, 1, "{code}");
        assert_eq!(pass.story.core.status().scrub.inconsistent, []);
        // It has its own checksums, and is wrong all the same.
        let digest = pass.story.digest(copy(1, 0, 0));
        let check = suture_repair::message::Check { copy: copy(1, 0, 0), digest, excess: None };
        pass.story.hear(0, FromAgent::Verified(check));
        let held = (0..3).map(|id| copy(id, 0, 0).into()).collect();
        pass.story.hear(0, FromAgent::Inventory(held));
        assert!(is_lost(&pass), "{code}");
    }
}

#[test]
fn where_it_cannot_be_told_which_copy_is_wrong_the_stripe_is_reported() {
    // With one parity any of them may be wrong; with two wrong ones any three.
    for (code, wrong) in [("rs(3,1)", vec![0]), ("rs(3,2)", vec![0, 1])] {
        let mut pass = Pass::new(ScrubConfig::OFF, 6, unrecorded(code, 2));
        pass.wrong = wrong.into_iter().map(|chunk| copy(1, chunk, 0)).collect();
        pass.scrub();
        assert_eq!(pass.story.core.status().lost_chunks, 0, "{code}");
        assert_eq!(pass.story.core.status().scrub.inconsistent, [StripeId(1)]);
        let report = Report::Inconsistent { stripe: StripeId(1), odd: None };
        assert!(pass.reports.contains(&report), "{:?}", pass.reports);
        assert!(pass.steps.contains(&ScrubStep::Inconsistent(StripeId(1))), "{:?}", pass.steps);
        // The next pass finds that it is well again.
        pass.wrong.clear();
        pass.scrub();
        assert_eq!(pass.story.core.status().scrub.inconsistent, []);
        assert!(pass.steps.contains(&ScrubStep::Consistent(StripeId(1))), "{:?}", pass.steps);
    }
}

#[test]
fn what_was_written_wrong_is_reported_since_no_repair_can_mend_it() {
    let mut pass = Pass::new(ScrubConfig::OFF, 6, stripes(2));
    pass.wrong = vec![copy(1, 2, 0)];
    pass.scrub();
    assert_eq!(pass.story.core.status().lost_chunks, 0, "it is what was recorded of it");
    let report = Report::Inconsistent { stripe: StripeId(1), odd: Some(ChunkIndex(2)) };
    assert!(pass.reports.contains(&report), "{:?}", pass.reports);
}

#[test]
fn a_node_that_falls_silent_while_stripes_wait_to_be_read_puts_them_off() {
    let scrub = ScrubConfig { rate: Some(4096), ..ScrubConfig::OFF };
    let mut pass = Pass::new(scrub, 4, (0..8).map(|id| stripe(id, [0, 1, 2, 3])));
    pass.scrub();
    pass.story.wait(2, 0..4);
    pass.answer();
    pass.story.give(Input::AgentLost(NodeId(3)));
    pass.answer();
    let before = pass.reads.len();
    pass.story.wait(2, 0..3);
    pass.answer();
    assert_eq!(pass.reads.len(), before, "none of them can be compared");
    pass.story.join(3);
    for _ in 0..20 {
        pass.story.wait(1, 0..4);
        pass.answer();
    }
    assert!(pass.has_ended());
    assert_eq!(pass.reads.len(), 8 * 4, "and all of them are read in the end");
    let ended = Report::PassEnded { stripes: 8, bytes: 8 * 4 * 4096 };
    assert!(pass.reports.contains(&ended), "{:?}", pass.reports);
}

#[test]
fn a_node_that_falls_silent_while_it_is_asked_puts_off_its_own_stripes_and_no_others() {
    let stripes = [stripe(0, [0, 1, 2, 3]), stripe(1, [4, 5, 6, 7])];
    let mut pass = Pass::new(ScrubConfig::OFF, 8, stripes);
    pass.story.give(Input::Operator(Command::Scrub));
    pass.take();
    assert_eq!(pass.asked.len(), 8);
    pass.asked.retain(|(node, _)| *node != NodeId(3));
    pass.story.give(Input::AgentLost(NodeId(3)));
    pass.answer();
    let status = pass.story.core.status().scrub.pass.expect("stripe 0 is left");
    assert_eq!((status.stripes_done, status.put_off), (1, 1));
    pass.story.join(3);
    pass.answer();
    assert!(pass.has_ended());
    let reads =
        (4..8).zip(0..).map(|(node, chunk)| pass.reads[&copy(1, chunk, 0).at(NodeId(node))]);
    assert!(reads.eq([1; 4]), "stripe 1 was done");
}

#[test]
fn a_node_is_asked_again_in_its_next_session_and_no_other_is() {
    let mut pass = Pass::new(ScrubConfig::OFF, 4, [stripe(0, [0, 1, 2, 3])]);
    pass.story.give(Input::Operator(Command::Scrub));
    pass.take();
    let first = std::mem::take(&mut pass.asked);
    pass.story.join(2);
    pass.take();
    let again: Vec<_> = first.into_iter().filter(|(node, _)| *node == NodeId(2)).collect();
    assert_eq!(pass.asked, again);
}

#[test]
fn stripes_that_are_removed_while_they_are_read_hold_up_no_others() {
    let mut pass = Pass::new(ScrubConfig::OFF, 4, (0..6).map(|id| stripe(id, [0, 1, 2, 3])));
    pass.story.give(Input::Operator(Command::Scrub));
    pass.take();
    pass.asked.clear();
    (0..2).for_each(|id| pass.story.give(Input::StripeRemoved(StripeId(id))));
    pass.answer();
    assert!(!pass.has_ended(), "agents may be at them yet");
    pass.story.wait(22, 0..4);
    pass.answer();
    assert!(pass.has_ended());
    let is_read = |id: u64| pass.reads.keys().filter(|at| at.copy.stripe.0 == id).count() == 4;
    assert!((2..6).all(is_read));
}

#[test]
fn what_a_pass_found_is_known_after_a_restart_until_a_pass_finds_otherwise() {
    let mut pass = Pass::new(ScrubConfig::OFF, 6, stripes(2));
    [1, 7].into_iter().for_each(|id| pass.story.give(Input::Inconsistent(StripeId(id))));
    assert_eq!(pass.story.core.status().scrub.inconsistent, [StripeId(1)], "7 is not there");
    let is_consistent = |pass: &Pass, id: u64| {
        let core = &pass.story.core;
        core.stripe_state(core.stripes().get(StripeId(id)).unwrap()).is_consistent
    };
    assert!(is_consistent(&pass, 0) && !is_consistent(&pass, 1));
    pass.scrub();
    assert!(is_consistent(&pass, 1));
    assert!(pass.steps.contains(&ScrubStep::Consistent(StripeId(1))), "{:?}", pass.steps);
}

#[test]
fn a_stripe_that_is_gone_is_inconsistent_no_more() {
    let mut pass = Pass::new(ScrubConfig::OFF, 6, unrecorded("rs(3,1)", 2));
    pass.wrong = vec![copy(1, 0, 0)];
    pass.scrub();
    assert_eq!(pass.story.core.status().scrub.inconsistent, [StripeId(1)]);
    pass.story.give(Input::StripeRemoved(StripeId(1)));
    assert_eq!(pass.story.core.status().scrub.inconsistent, []);
}
