//! Runs the binary, and makes encoded directories for it to work on.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// What a command left behind.
#[derive(Debug)]
pub struct Finished {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    /// stdout, which must be exactly one JSON object.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Runs `suture ARGS.. PATH`.
pub fn run(args: &[&str], path: &Path) -> Finished {
    finish(suture().args(args).arg(path))
}

/// Runs `suture ARGS..`.
pub fn run_plain(args: &[&str]) -> Finished {
    finish(suture().args(args))
}

/// Runs `suture ARGS..` in a folder.
pub fn run_in(folder: &Path, args: &[&str]) -> Finished {
    finish(suture().args(args).current_dir(folder))
}

/// Starts `suture ARGS.. PATH`.
pub fn spawn(args: &[&str], path: &Path) -> Child {
    suture().args(args).arg(path).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn suture() -> Command {
    Command::new(env!("CARGO_BIN_EXE_suture"))
}

fn finish(command: &mut Command) -> Finished {
    let output = command.output().unwrap();
    Finished {
        status: output.status.code().expect("not killed by a signal"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Bytes without a pattern, the same every time.
pub fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// An encoded directory in a folder that goes with it.
pub struct Encoded {
    folder: TempDir,
    pub directory: PathBuf,
    pub source: Vec<u8>,
    stripe_count: usize,
}

impl Encoded {
    pub fn new(code: &str, chunk_bytes: usize, source: &[u8]) -> Encoded {
        Encoded::with(&[], code, chunk_bytes, source)
    }

    pub fn with(options: &[&str], code: &str, chunk_bytes: usize, source: &[u8]) -> Encoded {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("source");
        fs::write(&file, source).unwrap();
        let directory = folder.path().join("encoded");
        let size = format!("{chunk_bytes}B");
        let mut args =
            vec!["encode", file.to_str().unwrap(), "--code", code, "--chunk-size", &size];
        args.extend(options);
        args.push("-o");
        let encoded = run(&args, &directory);
        assert_eq!(encoded.status, 0, "{encoded:?}");
        let stripes = fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_dir());
        Encoded { stripe_count: stripes.count().max(1), folder, directory, source: source.to_vec() }
    }

    /// Where the directory and the source lie.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn chunk(&self, stripe: usize, chunk: usize) -> PathBuf {
        let name = format!("chunk.{chunk:02}");
        if self.stripe_count == 1 {
            self.directory.join(name)
        } else {
            self.directory.join(format!("stripe.{stripe:05}/{name}"))
        }
    }

    pub fn checksums(&self, stripe: usize, chunk: usize) -> PathBuf {
        self.chunk(stripe, chunk).with_extension(format!("{chunk:02}.crc"))
    }

    /// Flips a bit of a chunk.
    pub fn flip(&self, stripe: usize, chunk: usize, at: u64) {
        let file =
            fs::OpenOptions::new().read(true).write(true).open(self.chunk(stripe, chunk)).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x20], at).unwrap();
    }

    /// Takes every checksum away, from the manifest and beside the chunks.
    pub fn forget_checksums(&self) {
        self.forget_checksums_of_manifest();
        for name in self.names().filter(|name| name.ends_with(".crc")).collect::<Vec<_>>() {
            let path = self.directory.join(&name);
            let path = if path.exists() { path } else { self.find(&name) };
            fs::remove_file(path).unwrap();
        }
    }

    /// Takes the checksums out of the manifest, its own as well.
    pub fn forget_checksums_of_manifest(&self) {
        let path = self.directory.join("manifest.json");
        let mut manifest: serde_json::Value =
            serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        manifest.as_object_mut().unwrap().retain(|key, _| !key.ends_with("crc32c"));
        fs::write(&path, manifest.to_string()).unwrap();
    }

    pub fn assert_decodes(&self) {
        let output = self.folder().join("decoded");
        let decoded = run(&["decode", "-o", output.to_str().unwrap()], &self.directory);
        assert_eq!(decoded.status, 0, "{decoded:?}");
        assert!(fs::read(&output).unwrap() == self.source, "decoded to other bytes");
        fs::remove_file(output).unwrap();
    }

    /// All files of the directory.
    pub fn content(&self) -> BTreeMap<String, Vec<u8>> {
        self.content_of("")
    }

    /// All files of a folder in the directory.
    pub fn content_of(&self, folder: &str) -> BTreeMap<String, Vec<u8>> {
        let files = walk(&self.directory.join(folder));
        let name = |path: &PathBuf| {
            path.strip_prefix(&self.directory).unwrap().to_str().unwrap().to_string()
        };
        files.iter().map(|path| (name(path), fs::read(path).unwrap())).collect()
    }

    /// The names of all files, without their folders.
    pub fn names(&self) -> impl Iterator<Item = String> {
        walk(&self.directory)
            .into_iter()
            .map(|path| path.file_name().unwrap().to_str().unwrap().to_string())
    }

    fn find(&self, name: &str) -> PathBuf {
        let mut files = walk(&self.directory).into_iter();
        files.find(|path| path.file_name().unwrap().to_str() == Some(name)).unwrap()
    }
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(walk(&path)) } else { files.push(path) }
    }
    files
}
