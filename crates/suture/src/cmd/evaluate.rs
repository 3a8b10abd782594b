//! What `plan`, `simulate` and `durability` share: policies that answer one input or refuse it.
//!
//! Place: `failure -> stripes -> queue -> plan -> ...`, under one policy or side by side under
//! several. What an answer holds is each command's own.

pub mod text;

use serde::Serialize;
use suture_edge::error::bad_input;
use suture_repair::id::StripeId;
use suture_repair::planner::PlanError;
use suture_repair::policy::Policy;

use crate::outcome::Outcome;

/// The `format` of a comparison of plans or of runs.
pub const COMPARE_FORMAT: &str = "suture-compare-1";

/// Why a policy cannot serve the input at all.
pub struct Refusal(pub String);

/// What one of several policies made of the input.
pub struct Answer<E> {
    pub policy: Policy,
    pub result: Result<E, Refusal>,
}

/// The output of `--compare`.
#[derive(Serialize)]
pub struct Comparison<D> {
    format: &'static str,
    results: Vec<Compared<D>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Compared<D> {
    Served(Box<D>),
    Refused { policy: String, refused: String },
}

impl Refusal {
    /// As the error of a command that was asked for this policy alone.
    pub fn of_asked(self, policy: Policy) -> anyhow::Error {
        let reason = self.0;
        bad_input(format!(
            "--policy {policy}: {reason}; --compare shows which policies serve this input"
        ))
    }
}

impl<D> Comparison<D> {
    /// All answers, each as its document.
    pub fn new<E>(
        format: &'static str,
        answers: &[Answer<E>],
        document: impl Fn(&E) -> D,
    ) -> Comparison<D> {
        let compared = |answer: &Answer<E>| match &answer.result {
            Ok(evaluation) => Compared::Served(Box::new(document(evaluation))),
            Err(Refusal(reason)) => {
                Compared::Refused { policy: answer.policy.to_string(), refused: reason.clone() }
            }
        };
        Comparison { format, results: answers.iter().map(compared).collect() }
    }
}

/// Every preset, and the policies that were asked for beside them, each once.
pub fn policies(asked: impl IntoIterator<Item = Policy>) -> Vec<Policy> {
    let mut policies: Vec<Policy> = Vec::new();
    for policy in Policy::presets().map(|(_, policy)| policy).chain(asked) {
        if !policies.contains(&policy) {
            policies.push(policy);
        }
    }
    policies
}

/// The answers of the policies that serve the input.
pub fn served<E>(answers: &[Answer<E>]) -> impl Iterator<Item = &E> {
    answers.iter().filter_map(|answer| answer.result.as_ref().ok())
}

/// How a command ends that found these stripes beyond repair.
pub fn outcome(unrepairable: &[(StripeId, String)]) -> Outcome {
    if unrepairable.is_empty() { Outcome::Done } else { Outcome::Unrepairable }
}

/// How a comparison ends: if any policy left something unrepaired, that; refused, if no policy
/// serves the input.
pub fn compared<E>(
    answers: &[Answer<E>],
    unrepairable: impl Fn(&E) -> &[(StripeId, String)],
) -> Outcome {
    let outcomes = served(answers).map(|evaluation| outcome(unrepairable(evaluation)));
    let worst = outcomes.max_by_key(|outcome| matches!(outcome, Outcome::Unrepairable));
    worst.unwrap_or_else(|| {
        errln!("suture: no policy serves this input; the reasons stand beside their names");
        Outcome::Refused
    })
}

/// Whether another policy could do better than refuse.
pub fn is_of_the_policy(error: &PlanError) -> bool {
    !error.is_beyond_repair() && *error != PlanError::NoDestination
}
