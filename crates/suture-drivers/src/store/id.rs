//! Which store a directory holds, among all that there are.
//!
//! Place: [an agent starts] -> ... : before it joins under a name, which is easily copied. The
//! file `store` is written once, when a directory becomes a store.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use super::{OpenError, StoreId, sync_dir};
use crate::data_dir;

impl StoreId {
    /// That of the directory, if it has one.
    ///
    /// # Errors
    /// When its file cannot be read, or is none.
    pub(super) fn read(dir: &Path) -> Result<Option<StoreId>, OpenError> {
        let path = dir.join("store");
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text,
        };
        let id = text.and_then(|text| {
            let id = text.strip_prefix("suture-store-id ").map(str::trim_end);
            let id = id.and_then(|hex| u64::from_str_radix(hex, 16).ok());
            id.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not readable"))
        });
        id.map(|id| Some(StoreId(id))).map_err(|source| OpenError::Io { path, source })
    }

    /// A new one, durable.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn create(dir: &Path) -> io::Result<StoreId> {
        let mut bits = [0; 8];
        // So few bytes come all at once.
        rustix::rand::getrandom(&mut bits, rustix::rand::GetRandomFlags::empty())?;
        let id = u64::from_le_bytes(bits);
        let part = dir.join("store.part");
        let mut file = data_dir::create_file(&part)?;
        writeln!(file, "suture-store-id {id:016x}")?;
        file.sync_all()?;
        fs::rename(&part, dir.join("store"))?;
        sync_dir(dir)?;
        Ok(StoreId(id))
    }
}
