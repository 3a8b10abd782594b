//! `ip` and `tc`, the programs that make networks: run, and held to what they say.
//!
//! Place: under the testbed's network. Many changes are one process: a batch of lines on standard
//! input. A feed is a batch that stays open, for changes that come every second.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Output, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use suture_edge::error::bad_input;

/// Lines of complaint that are passed on.
const COMPLAINTS_MAX: usize = 3;

/// Whether networks can be made here at all.
///
/// # Errors
/// Bad input: what is missing, and what to do.
pub fn check() -> Result<()> {
    // First: others than root may not have the programs in their path.
    if !rustix::process::geteuid().is_root() {
        return Err(bad_input(
            "a testbed makes network namespaces, and only root may: run it with sudo",
        ));
    }
    check_programs()
}

/// Whether the programs are there that make networks.
///
/// # Errors
/// Bad input: what is missing, and what to do.
pub fn check_programs() -> Result<()> {
    for (program, what) in [("ip", "makes the networks"), ("tc", "limits their links")] {
        if find(program).is_none() {
            return Err(bad_input(format!(
                "there is no program '{program}', which {what} of a testbed: install iproute2"
            )));
        }
    }
    Ok(())
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Runs `ip`; gives what it prints.
///
/// # Errors
/// When it cannot be run, or fails; with what it says.
pub fn ip(args: &[&str]) -> Result<String> {
    let output = Command::new("ip").args(args).output().context("cannot run ip")?;
    checked(output, &format!("ip {}", args.join(" ")))
}

/// Has `program` carry out `lines` in a network namespace.
///
/// # Errors
/// When one of them fails; with what the program says.
pub fn batch(program: &str, namespace: &str, lines: &str) -> Result<()> {
    let mut child = Command::new(program)
        .args(["-n", namespace, "-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {program}"))?;
    let mut stdin = child.stdin.take().expect("it is piped");
    // It may have ended at a line that it refused, and says so below.
    let _ = stdin.write_all(lines.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().with_context(|| format!("cannot run {program}"))?;
    checked(output, &format!("{program} in {namespace}")).map(drop)
}

fn checked(output: Output, what: &str) -> Result<String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.lines().map(str::trim).take(COMPLAINTS_MAX).collect();
    bail!("{what}: {}", lines.join("; "))
}

/// A `tc` that stays in its namespace and carries out what it is sent.
pub struct Feed {
    namespace: String,
    child: Child,
    stdin: ChildStdin,
}

impl Feed {
    /// A feed to a namespace.
    ///
    /// # Errors
    /// When the program cannot be run.
    pub fn open(namespace: &str) -> Result<Feed> {
        let mut child = Command::new("tc")
            .args(["-n", namespace, "-batch", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Ctrl-C is for the process that holds it.
            .process_group(0)
            .spawn()
            .context("cannot run tc")?;
        let stdin = child.stdin.take().expect("it is piped");
        Ok(Feed { namespace: namespace.to_string(), child, stdin })
    }

    /// The number of the process, whose view of the network is the namespace's.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Has it carry out some lines.
    ///
    /// # Errors
    /// When it has ended at a line before these.
    pub fn send(&mut self, lines: &str) -> Result<()> {
        let namespace = &self.namespace;
        let ended = |_| anyhow!("tc has refused a change of a link in {namespace}");
        self.stdin.write_all(lines.as_bytes()).map_err(ended)
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
