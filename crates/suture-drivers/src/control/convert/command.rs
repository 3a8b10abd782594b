//! What an operator commands for all repairs.
//!
//! Place: beside the whole life of a repair: pausing, and going on.

use suture_repair::event::Command;
use tonic::Status;

use super::proto::RepairAction;

/// What a command for all repairs has the metadata keep, which is whether they pause, and the core
/// do.
///
/// # Errors
/// When it names no action.
pub fn intended_repairs(action: RepairAction) -> Result<(bool, Command), Status> {
    match action {
        RepairAction::Start | RepairAction::Resume => Ok((false, Command::Resume)),
        RepairAction::Pause => Ok((true, Command::Pause)),
        RepairAction::Cancel => Ok((true, Command::Cancel)),
        RepairAction::Unspecified => Err(Status::invalid_argument("unknown command for repairs")),
    }
}
