//! What operators command, carried out between the two lines of the audit log.
//!
//! Place: a call or the page brings a command -> its caller may give it -> [it is written down and
//! carried out]. Both ways lead here, so that neither can do what the other may not.

use tonic::Status;

use super::proto;
use super::proto::{NodeAction, RepairAction};
use super::served::Served;
use crate::maintenance_window::ThrottleIntent;

impl Served {
    /// Does with nodes what a command says.
    ///
    /// # Errors
    /// When it names no action, one of the nodes is none, or data would suffer and it is not
    /// forced.
    pub async fn command_node(&self, command: proto::NodeCommand) -> Result<(), Status> {
        if command.action() == NodeAction::Unspecified {
            return Err(Status::invalid_argument("unknown command for a node"));
        }
        let names = [&command.name].into_iter().chain(&command.others);
        let mut what = names.map(String::as_str).collect::<Vec<_>>().join(" ");
        if command.action() == NodeAction::Pause {
            what += &format!(" --for {}s", command.seconds);
        }
        if command.force {
            what += " --force";
        }
        let service = self.service.clone();
        self.change(what, async move { service.command_nodes(command).await }).await
    }

    /// Begins, pauses, resumes or cancels repairs.
    ///
    /// # Errors
    /// When the command names no action, or there is no such object.
    pub async fn command_repair(&self, command: proto::RepairCommand) -> Result<(), Status> {
        let action = command.action();
        if action == RepairAction::Unspecified {
            return Err(Status::invalid_argument("unknown command for repairs"));
        }
        let object = command.object.as_deref().unwrap_or_default();
        let what = [action.as_str_name(), object].join(" ").trim_end().to_owned();
        let service = self.service.clone();
        self.change(what, async move { service.command_repair(command).await }).await
    }

    /// Changes what repair may take; none: as configured.
    ///
    /// # Errors
    /// When there is no such node or rack.
    pub async fn set_throttle(&self, wanted: Option<ThrottleIntent>) -> Result<(), Status> {
        let what = match &wanted {
            None => "as configured".to_owned(),
            Some(ThrottleIntent { config, window: None }) => config.to_string(),
            Some(ThrottleIntent { config, window: Some(window) }) => {
                format!("{config} window {window}")
            }
        };
        let service = self.service.clone();
        self.change(what, async move { service.set_throttle(wanted).await }).await
    }

    /// Caps what repair moves at each node in each direction, in bytes a second, and leaves the
    /// other limits as they are; none: no such cap.
    ///
    /// # Errors
    /// When the coordinator shuts down.
    pub async fn cap_repair(&self, cap: Option<u64>) -> Result<(), Status> {
        let mut wanted = self.service.query(|driver| driver.throttle().clone()).await?;
        wanted.config.node = cap;
        self.set_throttle(Some(wanted)).await
    }
}
