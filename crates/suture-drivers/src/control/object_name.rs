//! Which names objects can have.
//!
//! Place: put begun -> [its name is one] -> stripes placed.

use suture_edge::error::quoted;

/// Longer names would make every listing a burden.
pub const NAME_BYTES_MAX: usize = 1024;

/// Whether an object can have this name.
///
/// # Errors
/// What names are like.
pub fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(format!(
            "{} is not a valid object name: 1 to {NAME_BYTES_MAX} bytes, no control characters",
            quoted(name)
        ));
    }
    Ok(())
}
