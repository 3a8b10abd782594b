//! What an operator lets repair take, across restarts.
//!
//! Place: beside [slices flow]: kept before it is done, like everything that operators want.

use suture_repair::transcript::line::TextError;
use tracing::warn;

use super::{MetadataError, MetadataStore};
use crate::maintenance_window::ThrottleIntent;

impl MetadataStore {
    pub(super) fn throttle(&self) -> Result<Option<ThrottleIntent>, MetadataError> {
        let query = "SELECT throttle, throttle_window FROM cluster";
        let kept = self.database.query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (Some(config), window): (Option<String>, Option<String>) = kept else {
            return Ok(None);
        };
        let damaged = |why: String| MetadataError::Damaged(format!("throttle: {why}"));
        let config = config.parse().map_err(|why: TextError| damaged(why.to_string()))?;
        // A zone that this machine does not know any more closes no window.
        let window = window.and_then(|window| {
            let read = window.parse();
            if read.is_err() {
                warn!(
                    "the window for repairs that was set, '{window}', cannot be read on this \
                     machine and closes nothing: set it again (suture repair throttle --window)"
                );
            }
            read.ok()
        });
        Ok(Some(ThrottleIntent { config, window }))
    }

    /// What repair may take; none: as configured.
    ///
    /// # Errors
    /// When the database fails.
    pub fn set_throttle(&mut self, wanted: Option<&ThrottleIntent>) -> Result<(), MetadataError> {
        let config = wanted.map(|wanted| wanted.config.to_string());
        let window = wanted.and_then(|wanted| wanted.window.as_ref()).map(ToString::to_string);
        let change = "UPDATE cluster SET throttle = ?1, throttle_window = ?2";
        self.database.execute(change, (config, window))?;
        Ok(())
    }
}
