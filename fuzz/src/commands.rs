//! What operators want of nodes, repairs and their speed: whatever is read keeps its bounds.
//!
//! Place: [failure detected] -> ..., by an operator's word: between a call or the page, and what
//! the metadata keep and the core does. An input is a byte that chooses the command, and its bytes.

use std::collections::BTreeMap;

use prost::Message;
use suture_drivers::control::convert::intended_repairs;
use suture_drivers::control::node_command::intended;
use suture_drivers::control::proto::{NodeAction, RepairAction};
use suture_drivers::control::{proto, throttle};
use suture_drivers::coordinator::load::PAUSE_MAX;
use suture_drivers::maintenance_window::ThrottleIntent;
use suture_drivers::metadata::store::KeptIntent;
use suture_repair::cluster::{Cluster, Rate};
use suture_repair::event::Command;
use suture_repair::id::NodeId;
use suture_repair::throttle::{Keep, ThrottleConfig};
use suture_repair::time::Span;

/// The kinds of commands.
const THROTTLE: u8 = 0;
const NODE: u8 = 1;
const REPAIRS: u8 = 2;
const KINDS: u8 = 3;

/// Whom commands are for.
const AT: NodeId = NodeId(3);

/// Inputs to begin with: each command, and limits of each kind.
pub fn valid() -> Vec<Vec<u8>> {
    let message = |kind: u8, bytes: Vec<u8>| [&[kind][..], &bytes].concat();
    let caps = |name: &str| BTreeMap::from([(name.to_owned(), 9_000_000)]);
    let all = ThrottleConfig {
        node: Some(25_000_000),
        nodes: caps("n1"),
        racks: caps("r1"),
        total: Some(100_000_000),
        keep: Some(Keep::Percent(30)),
        p99: Some(Span::from_millis(5)),
        floor: Some(1_000_000),
    };
    let rate = ThrottleConfig { keep: Some(Keep::Rate(1 << 30)), ..ThrottleConfig::default() };
    let strange = ThrottleConfig { nodes: caps("nobody"), ..ThrottleConfig::default() };
    let window = "* 22-23,0-5 * * *;Europe/Berlin".parse().ok();
    let intents = [
        ThrottleIntent { config: all, window },
        ThrottleIntent { config: rate, window: "*/5 * * * sat,sun".parse().ok() },
        ThrottleIntent { config: strange, window: None },
        ThrottleIntent::default(),
    ];
    let throttles = intents.iter().map(|intent| Some(throttle::encode(intent))).chain([None]);
    let throttles = throttles.map(|throttle| proto::ThrottleCommand { throttle });
    let mut inputs: Vec<Vec<u8>> =
        throttles.map(|command| message(THROTTLE, command.encode_to_vec())).collect();
    inputs.extend((0..8).map(|action| {
        let (name, others) = ("n1".to_owned(), vec!["n2".to_owned()]);
        let command =
            proto::NodeCommand { name, action, seconds: 60.0, others, force: action % 2 == 0 };
        message(NODE, command.encode_to_vec())
    }));
    inputs.extend((0..6).map(|action| {
        let command = proto::RepairCommand { action, object: Some("photos/2026".into()) };
        message(REPAIRS, command.encode_to_vec())
    }));
    inputs
}

/// Gives whether the command can be carried out.
///
/// # Panics
/// When one that was read is not written and read back as the same, is beyond its bounds, or is
/// another one; when a refusal says nothing.
pub fn check(input: &[u8]) -> bool {
    let Some((&kind, bytes)) = input.split_first() else { return false };
    match kind % KINDS {
        THROTTLE => proto::ThrottleCommand::decode(bytes).is_ok_and(check_throttle),
        NODE => proto::NodeCommand::decode(bytes).is_ok_and(|command| check_node(&command)),
        _ => proto::RepairCommand::decode(bytes).is_ok_and(|command| check_repairs(&command)),
    }
}

fn check_throttle(command: proto::ThrottleCommand) -> bool {
    let again = proto::ThrottleCommand::decode(&command.encode_to_vec()[..]);
    assert_eq!(again.as_ref(), Ok(&command));
    // None: as it is configured.
    let Some(wanted) = command.throttle else { return true };
    let intent = match throttle::decode(wanted) {
        Ok(intent) => intent,
        Err(why) => {
            assert!(!why.message().is_empty());
            return false;
        }
    };
    let ThrottleConfig { node, nodes, racks, total, keep, p99: _, floor } = &intent.config;
    let rates = [node, total, floor].into_iter().flatten();
    let caps = nodes.values().chain(racks.values());
    assert!(rates.chain(caps).all(|rate| *rate > 0), "{intent:?}");
    assert!(!matches!(keep, Some(Keep::Percent(0 | 100..))), "{intent:?}");
    let again = throttle::decode(throttle::encode(&intent)).expect("it was wanted before");
    assert_eq!(again, intent);
    // As the metadata keep it, and how long it is until repairs run.
    let kept: Result<ThrottleConfig, _> = intent.config.to_string().parse();
    assert_eq!(kept.as_ref(), Ok(&intent.config));
    let _ = intent.window.as_ref().map(|window| window.closed_for());
    check_names(&intent.config)
}

/// Caps of whom nobody has are refused.
fn check_names(config: &ThrottleConfig) -> bool {
    let mut cluster = Cluster::uniform(4, Rate(1e6));
    cluster.rack("r1");
    let is_node = |name: &String| cluster.find(name).is_some();
    let is_known = config.nodes.keys().all(is_node)
        && config.racks.keys().all(|name| cluster.racks.contains(name));
    match throttle::check_names(config, &ThrottleConfig::default(), &cluster) {
        Ok(()) => assert!(is_known, "{config:?}"),
        Err(why) => assert!(!is_known && why.message().contains("suture node list"), "{why:?}"),
    }
    is_known
}

fn check_node(command: &proto::NodeCommand) -> bool {
    // Seconds may be no number, which is not even itself.
    let written = command.encode_to_vec();
    let again = proto::NodeCommand::decode(&written[..]).expect("it was written");
    assert_eq!(again.encode_to_vec(), written);
    let action = command.action();
    let is_intent = [NodeAction::Fail, NodeAction::Return, NodeAction::Drain, NodeAction::Pause];
    if !is_intent.contains(&action) {
        return action != NodeAction::Unspecified;
    }
    let (kept, apply) = match intended(command) {
        Ok(intended) => intended,
        Err(why) => {
            let is_named = why.message().contains("pause");
            assert!(action == NodeAction::Pause && is_named, "{action:?}: {why:?}");
            return false;
        }
    };
    let core = apply(AT);
    let is_as_said = match (action, kept, core) {
        (NodeAction::Fail, KeptIntent::Failed, Command::FailNode(AT))
        | (NodeAction::Drain, KeptIntent::Draining, Command::DrainNode(AT))
        | (NodeAction::Return, KeptIntent::Serving, Command::ReturnNode(AT)) => true,
        (NodeAction::Pause, KeptIntent::Paused { .. }, Command::PauseNode { node: AT, span }) => {
            u128::from(span.ns) <= PAUSE_MAX.as_nanos()
        }
        _ => false,
    };
    assert!(is_as_said, "{command:?}: {kept:?}, {core:?}");
    true
}

fn check_repairs(command: &proto::RepairCommand) -> bool {
    let again = proto::RepairCommand::decode(&command.encode_to_vec()[..]);
    assert_eq!(again.as_ref(), Ok(command));
    let action = command.action();
    match intended_repairs(action) {
        Ok((is_paused, core)) => {
            assert_eq!(is_paused, matches!(core, Command::Pause | Command::Cancel));
            true
        }
        Err(why) => {
            assert!(action == RepairAction::Unspecified && !why.message().is_empty());
            false
        }
    }
}
