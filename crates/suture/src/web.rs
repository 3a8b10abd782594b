//! The page that a coordinator shows to browsers: the cluster as it is now, and what operators do
//! most often.
//!
//! Place: beside every step of failure -> ... -> stripe healthy; it shows what `status` says, and
//! its commands are those of the command line: the same roles, the same refusals, the same audit
//! log. What would need `--force` is left to that. All of it is in this binary; nothing comes from
//! elsewhere.

use std::sync::Arc;

use bytes::Bytes;
use hyper::StatusCode;
use serde::Deserialize;
use suture_drivers::config::throttle::{cap, or_off};
use suture_drivers::control::access::{Call, Caller};
use suture_drivers::control::proto::{
    NodeAction, NodeCommand, RepairAction, RepairCommand, StatusReply,
};
use suture_drivers::control::served::Served;
use suture_drivers::control::service::ControlService;
use suture_drivers::http::{Cached, HttpPages, HttpReply, HttpRequest};
use tonic::{Code, Status};

use crate::status::describe;

const INDEX: &str = include_str!("../web/index.html");
const STYLE: &str = include_str!("../web/style.css");
const SCRIPT: &str = include_str!("../web/page.js");
const ICON: &str = include_str!("../web/icon.svg");

/// Entries of a list that grows with what is lost or damaged: the page shows a few of them, and
/// what is written each second has an end.
const ENTRIES_MAX: usize = 1000;

/// The page, and what it asks for each second.
pub struct WebPages {
    service: Arc<ControlService>,
    status: Cached<Bytes>,
}

impl WebPages {
    /// Pages with the status of `service`.
    pub fn new(service: Arc<ControlService>) -> WebPages {
        WebPages { service, status: Cached::default() }
    }

    async fn status(&self) -> HttpReply {
        let make = async {
            let status = self.service.status_soon().await?;
            let text = serde_json::to_string(&describe_bounded(status));
            text.map(Bytes::from).map_err(|why| tonic::Status::internal(why.to_string()))
        };
        match self.status.get(make).await {
            Ok(text) => HttpReply::ok("application/json", text),
            Err(why) => HttpReply::refusal(StatusCode::SERVICE_UNAVAILABLE, why.message()),
        }
    }
}

/// The status as `suture status` has it, with at most [`ENTRIES_MAX`] entries of each list that
/// grows with what is lost or damaged, and how many each has in all.
fn describe_bounded(mut status: StatusReply) -> serde_json::Value {
    let (running, blocked) = (status.running.len(), status.blocked.len());
    let inconsistent = status.scrub.as_ref().map_or(0, |scrub| scrub.inconsistent.len());
    // What is beyond repair decides about the state, and is of most interest.
    status.blocked.sort_by_key(|entry| !entry.unrepairable);
    status.blocked.truncate(ENTRIES_MAX);
    status.running.truncate(ENTRIES_MAX);
    if let Some(scrub) = &mut status.scrub {
        scrub.inconsistent.truncate(ENTRIES_MAX);
    }
    let mut shown = describe(&status);
    shown["running_count"] = running.into();
    shown["blocked_count"] = blocked.into();
    shown["scrub"]["inconsistent_count"] = inconsistent.into();
    shown
}

impl HttpPages for WebPages {
    const COMMANDS: bool = true;

    async fn answer(&self, request: HttpRequest) -> HttpReply {
        let caller = match &request.proven {
            Some(proven) => Caller::proven(proven.clone(), request.from),
            None => Caller::unproven(request.from),
        };
        match (request.path(), &request.command) {
            ("/command", Some(command)) => {
                let command = match serde_json::from_slice::<PageCommand>(command) {
                    Ok(command) => command,
                    Err(why) => {
                        let why = format!("this is not a command: {why}");
                        return HttpReply::refusal(StatusCode::BAD_REQUEST, why);
                    }
                };
                match command.carry_out(&self.service, caller).await {
                    Ok(()) => HttpReply::ok("application/json", "{}"),
                    Err(why) => HttpReply::refusal(http_status(&why), why.message()),
                }
            }
            ("/" | "/index.html", None) => HttpReply::ok("text/html; charset=utf-8", INDEX),
            ("/style.css", None) => HttpReply::ok("text/css; charset=utf-8", STYLE),
            ("/page.js", None) => HttpReply::ok("text/javascript; charset=utf-8", SCRIPT),
            ("/icon.svg", None) => HttpReply::ok("image/svg+xml", ICON),
            ("/status.json", None) => self.status().await,
            ("/viewer.json", None) => viewer(&caller),
            ("/command", None) => {
                let why = "a command is sent by POST, as JSON";
                HttpReply::refusal(StatusCode::METHOD_NOT_ALLOWED, why)
            }
            _ => HttpReply::refusal(StatusCode::NOT_FOUND, "there is nothing here: see /"),
        }
    }
}

/// Who looks at the page, and what that one may do on it.
fn viewer(caller: &Caller) -> HttpReply {
    let name = caller.principal.as_ref().map(ToString::to_string);
    let commands = [Call::CommandRepair, Call::SetThrottle, Call::DrainNode, Call::FailNode];
    let may_command = commands.iter().all(|call| caller.check(*call).is_ok());
    let viewer = serde_json::json!({ "name": name, "may_command": may_command });
    HttpReply::ok("application/json", viewer.to_string())
}

/// What is commanded on the page.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
enum PageCommand {
    /// No repair begins any more.
    Pause {},
    /// Repairs are to go on.
    Resume {},
    /// What repair moves at most at each node in each direction: a rate, or `off`.
    Cap { rate: String },
    /// All chunks of a node move elsewhere.
    Drain { node: String },
    /// All chunks of a node count as lost.
    Fail { node: String },
    /// The node is neither drained nor failed from now on.
    Return { node: String },
}

impl PageCommand {
    /// Carries it out, if its caller has the permission.
    async fn carry_out(self, service: &Arc<ControlService>, caller: Caller) -> Result<(), Status> {
        let admit = async |call: Call, what: &str| {
            Served::admit_caller(service, caller.clone(), call, what).await
        };
        let of_repair = async |action: RepairAction| {
            let command = RepairCommand { action: action.into(), ..Default::default() };
            admit(Call::CommandRepair, "").await?.command_repair(command).await
        };
        let of_node = async |action: NodeAction, name: String| {
            let served = admit(Call::of_node(action), &name).await?;
            let command = NodeCommand { name, action: action.into(), ..Default::default() };
            served.command_node(command).await
        };
        match self {
            PageCommand::Pause {} => of_repair(RepairAction::Pause).await,
            PageCommand::Resume {} => of_repair(RepairAction::Resume).await,
            PageCommand::Cap { rate } => {
                let served = admit(Call::SetThrottle, "").await?;
                let cap = or_off(&rate, cap).map_err(Status::invalid_argument)?;
                served.cap_repair(cap).await
            }
            PageCommand::Drain { node } => of_node(NodeAction::Drain, node).await,
            PageCommand::Fail { node } => of_node(NodeAction::Fail, node).await,
            PageCommand::Return { node } => of_node(NodeAction::Return, node).await,
        }
    }
}

/// The status of HTTP that says what a refusal is.
fn http_status(why: &Status) -> StatusCode {
    match why.code() {
        Code::InvalidArgument => StatusCode::BAD_REQUEST,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::FailedPrecondition | Code::Aborted => StatusCode::CONFLICT,
        Code::Unavailable | Code::ResourceExhausted => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use suture_drivers::control::proto::{BlockedStripe, InconsistentStripe, Running, ScrubStatus};

    use super::*;

    /// A status with so many entries in each list; only the last of those that wait is beyond
    /// repair.
    fn status_of(entries: usize) -> StatusReply {
        let object = "o".repeat(100);
        let mut blocked =
            vec![BlockedStripe { object: object.clone(), ..Default::default() }; entries];
        blocked.last_mut().expect("there are some").unrepairable = true;
        let inconsistent = vec![InconsistentStripe { stripe: 1, object }; entries];
        StatusReply {
            at_risk: vec![entries as u64],
            blocked,
            scrub: Some(ScrubStatus { inconsistent, ..Default::default() }),
            ..Default::default()
        }
    }

    #[test]
    fn however_much_is_lost_the_page_gets_so_much_of_each_list_and_how_much_there_is() {
        let all = 3 * ENTRIES_MAX;
        let shown = describe_bounded(status_of(all));
        let lists = [&shown["blocked"], &shown["scrub"]["inconsistent"]];
        assert!(lists.iter().all(|list| list.as_array().unwrap().len() == ENTRIES_MAX));
        assert_eq!([&shown["blocked_count"], &shown["scrub"]["inconsistent_count"]], [all, all]);
        assert_eq!(shown["state"], describe(&status_of(all))["state"]);
        assert_eq!(shown["state"], "unrepairable");
        assert_eq!(shown["blocked"][0]["unrepairable"], true, "what is worst comes first");
        let running = vec![Running::default(); all];
        let shown = describe_bounded(StatusReply { running, ..status_of(all) });
        assert_eq!(shown["running"].as_array().unwrap().len(), ENTRIES_MAX);
        assert_eq!((&shown["running_count"], &shown["state"]), (&all.into(), &"repairing".into()));
        let bytes = serde_json::to_string(&shown).unwrap().len();
        assert!(bytes < 1 << 20, "{bytes} bytes");
        let far_more = StatusReply { running: vec![Running::default(); 9 * all], ..status_of(all) };
        let of_more = serde_json::to_string(&describe_bounded(far_more)).unwrap().len();
        assert!(of_more < bytes + 10, "{of_more} bytes where there is more, {bytes} otherwise");
    }

    #[test]
    fn what_is_short_is_shown_as_it_is_in_the_status() {
        let mut shown = describe_bounded(status_of(2));
        for count in ["running_count", "blocked_count"] {
            assert!(shown.as_object_mut().unwrap().remove(count).is_some());
        }
        assert!(shown["scrub"].as_object_mut().unwrap().remove("inconsistent_count").is_some());
        let mut whole = status_of(2);
        whole.blocked.reverse();
        assert_eq!(shown, describe(&whole));
    }

    #[test]
    fn a_command_says_what_is_to_be_done_and_nothing_else() {
        let read = |text: &str| serde_json::from_str::<PageCommand>(text);
        assert_eq!(read(r#"{"command":"pause"}"#).unwrap(), PageCommand::Pause {});
        let drain = PageCommand::Drain { node: "n1".into() };
        assert_eq!(read(r#"{"command":"drain","node":"n1"}"#).unwrap(), drain);
        for bad in [
            "",
            "{}",
            "[]",
            "7",
            r#"{"command":"remove","node":"n1"}"#,
            r#"{"command":"drain"}"#,
            r#"{"command":"drain","node":1}"#,
            r#"{"command":"fail","node":"n1","force":true}"#,
            r#"{"command":"pause","node":"n1"}"#,
            r#"{"command":"cap","rate":null}"#,
            r#"{"command":"pause"} {"command":"resume"}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
