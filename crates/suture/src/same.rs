//! Whether files have the bytes of objects, for commands that leave out what is there.
//!
//! Place: names -> [what is there already] -> put or get of the rest. A file that was edited can
//! have the length that it had, so files of the right length are read and summed up, which costs
//! their disk's time, and no other machine's.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use suture_drivers::metadata::Object;
use suture_drivers::object::layout::object_digest;
use suture_terminal::output::Format;
use suture_terminal::progress::Progress;
use tokio::task::spawn_blocking;

const BUFFER_BYTES: usize = 1 << 20;

/// What the bytes of an object are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    pub bytes: u64,
    /// Their CRC-64/NVME, as the metadata have it.
    pub checksum: u64,
}

impl Content {
    /// That of this object.
    pub fn of(object: &Object) -> Content {
        Content { bytes: object.bytes, checksum: object.checksum }
    }
}

/// Which of these files have the bytes that stand beside them. One that cannot be read has not:
/// whoever reads or writes it next says why.
pub async fn have(format: Format, files: Vec<(PathBuf, Content)>) -> Vec<bool> {
    let count = files.len();
    let compared = spawn_blocking(move || {
        let total = files.iter().map(|(_, content)| content.bytes).sum();
        let progress = Progress::bytes(format, "comparing", total);
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut has = |(path, content): (PathBuf, Content)| {
            let has =
                sum(&path, content.bytes, &mut buffer).is_ok_and(|sum| sum == content.checksum);
            progress.add(content.bytes);
            has
        };
        files.into_iter().map(&mut has).collect()
    });
    compared.await.unwrap_or_else(|_| vec![false; count])
}

/// The checksum of a file that has so many bytes.
fn sum(path: &Path, bytes: u64, buffer: &mut [u8]) -> io::Result<u64> {
    let found = fs::metadata(path)?;
    if !found.is_file() || found.len() != bytes {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let (mut file, mut digest) = (File::open(path)?, object_digest());
    loop {
        match file.read(buffer)? {
            0 => return Ok(digest.finalize()),
            read => digest.update(&buffer[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use suture_drivers::object::layout::object_checksum;

    use super::*;

    #[tokio::test]
    async fn files_are_the_same_by_length_and_checksum() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let bytes: Vec<u8> = (0..3 * BUFFER_BYTES + 5).map(|at| at as u8).collect();
        fs::write(&path, &bytes).unwrap();
        let content = Content { bytes: bytes.len() as u64, checksum: object_checksum(&bytes) };
        let other = Content { checksum: content.checksum ^ 1, ..content };
        let longer = Content { bytes: content.bytes + 1, ..content };
        let files = [
            (path.clone(), content),
            (path.clone(), other),
            (path.clone(), longer),
            (folder.path().join("none"), content),
            (folder.path().to_path_buf(), content),
        ];
        let same = have(Format::Json, files.to_vec()).await;
        assert_eq!(same, [true, false, false, false, false]);
        let empty = folder.path().join("empty");
        fs::write(&empty, "").unwrap();
        let nothing = Content { bytes: 0, checksum: object_checksum(&[]) };
        assert_eq!(have(Format::Json, vec![(empty, nothing)]).await, [true]);
    }
}
