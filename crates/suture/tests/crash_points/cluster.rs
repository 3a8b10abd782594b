//! Attacks on one process of a running cluster: an agent, the coordinator, or a command.
//!
//! Place: the same points as in the stories of one process, seen from outside: what commands say,
//! what can be read afterwards, and whether the cluster becomes whole again by itself.
//!
//! The cluster goes on from one point to the next. After each, what has ended is started again
//! without a fault, and all of this must come about: every object that was acknowledged is there
//! byte for byte, every other name is absent or whole, the state is `healthy`, agents hold the
//! chunks of visible objects and nothing else, and nothing is left in the making.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::attack::{Attack, Fault, Point};
use super::disk::{Loss, folder};
use super::metadata::{look_at_metadata, metadata_in};
use super::stories::files_in;
use super::table::{Place, Table};
use super::tracer::{Traced, Tracer};
use crate::daemons::{Cluster, Process, count, noise, start_coordinator, suture};

/// How long a command may take, and the cluster to be whole again.
const LIMIT: Duration = Duration::from_secs(40);

/// How long chunks of no stripe may stay, at agents that list it three times a second.
const SETTLED_WITHIN: Duration = Duration::from_secs(1);

/// Each of the agents has had its turn to keep a copy by then.
const ALL_KEPT_WITHIN: Duration = Duration::from_secs(5);

/// How long a point may be waited for when the command has ended.
const STRIKE_LIMIT: Duration = Duration::from_secs(2);

const AGENTS: usize = 3;

/// The agent that is attacked.
const VICTIM: usize = 2;

const BASE_BYTES: usize = 100_000;

const HOW: [&str; 4] = ["--code", "rs(2,1)", "--chunk-size", "64KiB"];

/// Which process is attacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    Agent,
    Coordinator,
    /// The command that the story runs.
    Command,
}

/// What is done meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    Put,
    /// In the place of an object that is there.
    Overwrite,
    Remove,
    /// The victim's chunk is gone, and is rebuilt onto it.
    Rebuild,
    /// Another's chunk is gone, and the victim helps.
    Help,
    /// The victim's chunk has a wrong byte, and a scrub is asked for.
    Scrub,
    Backup,
    /// The victim keeps a backup of the metadata.
    Keep,
    /// A copy becomes the metadata of another coordinator.
    Restore,
    /// The daemon is asked to end, and started again.
    Restart,
}

/// All that is attacked.
pub const DEEDS: [(Deed, Victim); 18] = [
    (Deed::Put, Victim::Agent),
    (Deed::Put, Victim::Coordinator),
    (Deed::Put, Victim::Command),
    (Deed::Overwrite, Victim::Agent),
    (Deed::Overwrite, Victim::Coordinator),
    (Deed::Overwrite, Victim::Command),
    (Deed::Remove, Victim::Agent),
    (Deed::Remove, Victim::Coordinator),
    (Deed::Rebuild, Victim::Agent),
    (Deed::Rebuild, Victim::Coordinator),
    (Deed::Help, Victim::Agent),
    (Deed::Scrub, Victim::Agent),
    (Deed::Scrub, Victim::Coordinator),
    (Deed::Backup, Victim::Coordinator),
    (Deed::Backup, Victim::Command),
    (Deed::Keep, Victim::Agent),
    (Deed::Restore, Victim::Command),
    (Deed::Restart, Victim::Coordinator),
];

/// Attacks all that there is to attack.
pub fn attack(tracer: &Tracer, victim: Victim, table: &mut Table) {
    let deeds = DEEDS.into_iter().filter(|(_, whom)| *whom == victim);
    let mut field = Field::new(tracer, victim);
    for (deed, _) in deeds {
        let story = format!("cluster: {deed:?}").to_lowercase();
        if !table.is_wanted(&story) {
            continue;
        }
        let counted = field.perform(deed, None);
        counted.outcome.unwrap_or_else(|why| panic!("{story} without a fault: {why}"));
        let points: Vec<Point> =
            counted.points.into_iter().filter(|point| !point.is_repeated()).collect();
        for (number, point, fault) in table.chosen(&story, &points) {
            // Daemons do not end by themselves, and commands do.
            let is_daemon = victim != Victim::Command;
            if fault == if is_daemon { Fault::Unsynced } else { Fault::Killed } {
                continue;
            }
            let Performed { outcome, .. } = field.perform(deed, Some((point.clone(), fault)));
            let process = format!("{victim:?}").to_lowercase();
            let is_over = outcome.is_err();
            table.add(&Place { story: &story, process: &process, number }, &point, fault, outcome);
            if is_over {
                // What it left is no ground for the next one.
                field = Field::new(tracer, victim);
            }
        }
    }
}

/// A cluster of which one process is attacked.
struct Field<'a> {
    tracer: &'a Tracer,
    victim: Victim,
    cluster: Cluster,
    attack: Arc<Mutex<Attack>>,
    /// The attacked daemon.
    traced: Option<Traced>,
    /// What was acknowledged and not removed.
    objects: Vec<(String, Vec<u8>)>,
    /// What the object to be overwritten is.
    former: Vec<u8>,
    /// Whether the victim kept a backup of the metadata before.
    had_copy: bool,
    /// How often something was done.
    turn: u32,
}

/// One deed, and what came of it.
struct Performed {
    points: Vec<Point>,
    outcome: Result<String, String>,
}

/// How a command ended.
#[derive(Debug)]
struct Ended {
    status: Option<i32>,
    said: String,
}

impl<'a> Field<'a> {
    fn new(tracer: &'a Tracer, victim: Victim) -> Field<'a> {
        let folder = folder();
        let (coordinator, address) = start_coordinator(folder.path(), "127.0.0.1:0");
        let cluster = Cluster { agents: Vec::new(), coordinator, address, folder };
        let commands = cluster.path("commands");
        fs::create_dir(&commands).unwrap();
        let attack = Arc::new(Mutex::new(Attack::on(&commands)));
        let (objects, traced) = (Vec::new(), None);
        let (former, had_copy, turn) = (Vec::new(), false, 0);
        let mut field =
            Field { tracer, victim, cluster, attack, traced, objects, former, had_copy, turn };
        for index in 0..AGENTS {
            field.configure(index);
            if victim == Victim::Agent && index == VICTIM {
                fs::create_dir(field.cluster.path("n2")).unwrap();
                field.attack = Arc::new(Mutex::new(Attack::on(&field.cluster.path("n2"))));
                field.start();
            } else {
                let config = field.cluster.path(&format!("n{index}.toml"));
                field.cluster.agents.push(Process::start("agent", &config).0);
            }
        }
        if victim == Victim::Coordinator {
            field.cluster.coordinator.stop();
            let data = field.cluster.path("coordinator");
            field.attack = Arc::new(Mutex::new(Attack::on(&data)));
            field.configure_coordinator();
            field.start();
        }
        field.cluster.wait("all agents are up", |status| count(status, "up") == AGENTS);
        let content = field.cluster.put("base", BASE_BYTES, &HOW);
        field.objects.push(("base".to_string(), content));
        field.settle().unwrap();
        field
    }

    fn configure(&self, index: usize) {
        let (address, data) = (&self.cluster.address, self.cluster.path(&format!("n{index}")));
        let text = format!(
            "name = 'n{index}'\ncoordinator = '{address}'\nlisten = '127.0.0.1:0'\ndata_dir = '{}'\nmemory = '32MiB'\n[timers]\nheartbeat = '100ms'\ninventory = '300ms'\n",
            data.display()
        );
        fs::write(self.cluster.path(&format!("n{index}.toml")), text).unwrap();
    }

    /// The same address again, and the timers as they were.
    fn configure_coordinator(&self) {
        let path = self.cluster.path("coordinator.toml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("127.0.0.1:0", &self.cluster.address)).unwrap();
    }

    /// Starts the attacked daemon; whether it listens.
    fn start(&mut self) -> bool {
        let (role, name) = match self.victim {
            Victim::Agent => ("agent", "n2"),
            _ => ("coordinator", "coordinator"),
        };
        let mut command = suture();
        command.args([role, "--config"]).arg(self.cluster.path(&format!("{name}.toml")));
        let log = self.log();
        let log = OpenOptions::new().append(true).create(true).open(log).unwrap();
        let prepare = |command: &mut Command| {
            command.stdout(Stdio::piped()).stderr(log);
        };
        let mut traced = self.tracer.start(&command, &self.attack, prepare).unwrap();
        let mut line = String::new();
        let stdout = traced.tracer().stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        self.traced = Some(traced);
        line.starts_with("listening")
    }

    fn log(&self) -> PathBuf {
        self.cluster.path("attacked.log")
    }

    /// Does it, with a fault at a point of it or only counting, and sees what came of it.
    fn perform(&mut self, deed: Deed, plan: Option<(Point, Fault)>) -> Performed {
        self.turn += 1;
        fs::write(self.log(), "").unwrap();
        let name = format!("object {}", self.turn);
        let content = noise(BASE_BYTES + self.turn as usize);
        self.prepare(deed, &name, &content);
        let fault = plan.as_ref().map(|(_, fault)| *fault);
        let plan_call = plan.as_ref().map(|(point, _)| point.call);
        self.attack.lock().unwrap().arm(plan);
        let is_unlink = plan_call == Some("unlink") && matches!(fault, Some(Fault::Error(_)));
        let mut ended = self.run(deed, &name, fault);
        if is_unlink && self.victim == Victim::Coordinator && ended.is_ok() {
            // What a disk does not let go is removed by the next start.
            ended = self.restart().and(ended);
        }
        let (points, has_struck) = self.attack.lock().unwrap().disarm();
        let outcome = ended.and_then(|ended| self.judge(deed, (&name, content), &ended));
        let outcome = outcome.map(|outcome| {
            if fault.is_some() && !has_struck { "not reached".to_string() } else { outcome }
        });
        let said = || fs::read_to_string(self.log()).unwrap_or_default();
        Performed { points, outcome: outcome.map_err(|why| format!("{why}\n{}", said())) }
    }

    /// What must be there before.
    fn prepare(&mut self, deed: Deed, name: &str, content: &[u8]) {
        let source = self.cluster.path("commands/source");
        match deed {
            Deed::Put => fs::write(source, content).unwrap(),
            Deed::Overwrite => {
                self.former = noise(BASE_BYTES - self.turn as usize);
                fs::write(&source, &self.former).unwrap();
                let file = source.display().to_string();
                self.cluster.ok(&[&["put", &file, "--name", name], &HOW[..]].concat());
                fs::write(source, content).unwrap();
            }
            Deed::Remove => {
                fs::write(&source, content).unwrap();
                let source = source.display().to_string();
                self.cluster.ok(&[&["put", &source, "--name", name], &HOW[..]].concat());
            }
            Deed::Scrub => {
                let path = &self.cluster.chunks(VICTIM)[0];
                let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
                let mut byte = [0];
                file.read_exact_at(&mut byte, 1000).unwrap();
                file.write_all_at(&[byte[0] ^ 1], 1000).unwrap();
            }
            Deed::Backup => self.clear(),
            Deed::Restore => {
                self.clear();
                let copy = self.cluster.path("commands/copy.db").display().to_string();
                self.cluster.ok(&["metadata", "backup", "-o", &copy]);
            }
            Deed::Keep => self.had_copy = self.kept().exists(),
            Deed::Rebuild | Deed::Help | Deed::Restart => {}
        }
        // What was done to files by hand is durable.
        self.attack.lock().unwrap().bury(Loss::Nothing);
    }

    /// Removes what commands wrote.
    fn clear(&self) {
        let _ = fs::remove_file(self.cluster.path("commands/copy.db"));
        let _ = fs::remove_dir_all(self.cluster.path("commands/coordinator"));
    }

    /// The configuration of a coordinator whose metadata are among what commands write.
    fn elsewhere(&self) -> String {
        let (config, data) = (self.cluster.path("elsewhere.toml"), "commands/coordinator");
        let data = self.cluster.path(data);
        fs::write(&config, format!("data_dir = '{}'\n", data.display())).unwrap();
        config.display().to_string()
    }

    /// Does it; gives how the command ended, if there is one. A daemon that ends is started again.
    fn run(
        &mut self,
        deed: Deed,
        name: &str,
        fault: Option<Fault>,
    ) -> Result<Option<Ended>, String> {
        let source = self.cluster.path("commands/source").display().to_string();
        let copy = self.cluster.path("commands/copy.db").display().to_string();
        let elsewhere = self.elsewhere();
        let lose = |agent: usize| fs::remove_file(&self.cluster.chunks(agent)[0]).unwrap();
        let arguments: Vec<&str> = match deed {
            Deed::Put => [&["put", &source, "--name", name], &HOW[..]].concat(),
            Deed::Overwrite => {
                [&["put", &source, "--name", name, "--overwrite"], &HOW[..]].concat()
            }
            Deed::Remove => vec!["rm", name],
            Deed::Scrub => vec!["scrub", "--wait"],
            Deed::Backup => vec!["metadata", "backup", "-o", &copy],
            Deed::Restore => vec!["metadata", "restore", &copy, "--config", &elsewhere],
            Deed::Rebuild => {
                lose(VICTIM);
                vec![]
            }
            Deed::Help => {
                lose(0);
                vec![]
            }
            Deed::Keep => {
                self.spread_copies(true);
                vec![]
            }
            Deed::Restart => {
                self.traced.as_ref().unwrap().terminate();
                vec![]
            }
        };
        if self.victim == Victim::Command {
            return self.run_attacked(&arguments, fault).map(Some);
        }
        let mut command = (!arguments.is_empty()).then(|| self.spawn(&arguments));
        let mut watched = self.watch(deed, command.as_mut(), fault);
        if deed == Deed::Keep {
            self.spread_copies(false);
        }
        if watched.is_ok() && fault == Some(Fault::Killed) {
            // What it takes for chunks of no stripe by then is deleted.
            thread::sleep(SETTLED_WITHIN);
            self.traced.as_mut().unwrap().end();
            watched = self.revive(fault);
        }
        if let (Err(_), Some(command)) = (&watched, &mut command) {
            let _ = command.kill();
        }
        watched.map(|()| command.map(Ended::of))
    }

    /// Waits until the command has ended and the point was reached; a daemon that ends meanwhile is
    /// started again.
    fn watch(
        &mut self,
        deed: Deed,
        mut command: Option<&mut Child>,
        fault: Option<Fault>,
    ) -> Result<(), String> {
        let since = Instant::now();
        let (mut ended_at, mut is_revived) = (None, false);
        loop {
            if self.traced.as_mut().unwrap().is_over() {
                self.revive(fault)?;
                is_revived = true;
            }
            let ended = command.as_mut().is_none_or(|child| child.try_wait().unwrap().is_some());
            if ended && (is_revived || deed != Deed::Restart) {
                let ended_at: Instant = *ended_at.get_or_insert_with(Instant::now);
                let (has_struck, is_dying) = {
                    let attack = self.attack.lock().unwrap();
                    (attack.has_struck(), attack.is_dying())
                };
                // Without a fault, all that follows from the deed is to be counted.
                let limit = if deed == Deed::Keep { ALL_KEPT_WITHIN } else { STRIKE_LIMIT };
                if !is_dying && (has_struck || ended_at.elapsed() > limit) {
                    return Ok(());
                }
            }
            if since.elapsed() > LIMIT {
                return Err(format!("{deed:?} hangs"));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn restart(&mut self) -> Result<(), String> {
        self.traced.as_ref().unwrap().terminate();
        if self.traced.as_mut().unwrap().wait_within(LIMIT) {
            self.revive(None)
        } else {
            Err("it does not stop".to_string())
        }
    }

    /// Starts the attacked daemon again; if it is hit once more while it starts, once more.
    fn revive(&mut self, fault: Option<Fault>) -> Result<(), String> {
        for _ in 0..3 {
            self.traced.as_mut().unwrap().wait_within(LIMIT);
            let mut attack = self.attack.lock().unwrap();
            let loss = fault.and_then(Fault::loss).filter(|_| attack.has_struck());
            attack.bury(loss.unwrap_or(Loss::Nothing));
            drop(attack);
            if self.start() {
                return Ok(());
            }
        }
        Err("it does not start any more".to_string())
    }

    fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = suture();
        command.args(arguments).env("SUTURE_COORDINATOR", &self.cluster.address);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs a command that is itself attacked.
    fn run_attacked(&mut self, arguments: &[&str], fault: Option<Fault>) -> Result<Ended, String> {
        let mut command = suture();
        command.args(arguments).env("SUTURE_COORDINATOR", &self.cluster.address);
        let said = self.cluster.path("said");
        let into = fs::File::create(&said).unwrap();
        let prepare = |command: &mut Command| {
            command.stdout(Stdio::null()).stderr(into);
        };
        let mut traced = self.tracer.start(&command, &self.attack, prepare).unwrap();
        if !traced.wait_within(LIMIT) {
            return Err(format!("{arguments:?} hangs"));
        }
        let (status, has_struck) = {
            let attack = self.attack.lock().unwrap();
            (attack.exit_status(), attack.has_struck())
        };
        let loss = fault.and_then(Fault::loss).filter(|_| has_struck);
        self.attack.lock().unwrap().bury(loss.unwrap_or(Loss::Nothing));
        Ok(Ended { status, said: fs::read_to_string(said).unwrap() })
    }

    /// Whether everything is as it may be.
    fn judge(
        &mut self,
        deed: Deed,
        (name, content): (&str, Vec<u8>),
        ended: &Option<Ended>,
    ) -> Result<String, String> {
        if fs::read_to_string(self.log()).unwrap_or_default().contains("panicked") {
            return Err("it panics".to_string());
        }
        let status = match ended {
            None => Some(0),
            Some(ended) => ended.check(deed)?,
        };
        let mut names = self.names()?;
        let is_there = names.iter().any(|found| found == name);
        match (deed, status) {
            (Deed::Overwrite, status) => {
                let said = ended.as_ref().map_or("", |ended| &ended.said);
                let now = self.overwritten(name, content, (status, said))?;
                self.objects.push((name.to_string(), now));
            }
            (Deed::Put, Some(0)) => self.objects.push((name.to_string(), content)),
            (Deed::Put | Deed::Remove, _) if is_there => {
                if (deed, status) == (Deed::Remove, Some(0)) {
                    return Err("what was removed is there".to_string());
                }
                self.objects.push((name.to_string(), content));
            }
            (Deed::Backup, status) => self.check_copy(status)?,
            (Deed::Restore, status) => self.check_restored(status)?,
            (Deed::Keep, _) => self.check_kept()?,
            _ => {}
        }
        self.settle()?;
        names = self.names()?;
        let mut expected: Vec<&String> = self.objects.iter().map(|(name, _)| name).collect();
        expected.sort();
        if names.iter().collect::<Vec<_>>() != expected {
            return Err(format!("{names:?} are there, not {expected:?}"));
        }
        for (name, content) in &self.objects {
            let back = self.cluster.path("back");
            self.cluster.ok(&["get", name, "-o", back.to_str().unwrap()]);
            if fs::read(&back).unwrap() != *content {
                return Err(format!("'{name}' came back with other bytes"));
            }
        }
        for (name, _) in self.objects.split_off(1) {
            self.cluster.ok(&["rm", &name]);
        }
        self.settle().map_err(|why| format!("after all was removed: {why}"))?;
        Ok(match status {
            Some(0) => "done, whole",
            Some(_) => "refused, whole or absent",
            None => "ended, whole or absent",
        }
        .to_string())
    }

    fn names(&self) -> Result<Vec<String>, String> {
        let since = Instant::now();
        // The coordinator may have been started a moment ago.
        loop {
            let listed = self.cluster.run(&["ls", "--format", "json"]);
            if listed.status == 0 {
                let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
                let objects = listed["objects"].as_array().unwrap();
                let name = |object: &Value| object["name"].as_str().unwrap().to_string();
                return Ok(objects.iter().map(name).collect());
            }
            if since.elapsed() > LIMIT {
                return Err(format!("objects cannot be listed: {}", listed.stderr));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// A copy is whole, or there is none; nothing else is left beside it.
    fn check_copy(&self, status: Option<i32>) -> Result<(), String> {
        let copy = self.cluster.path("commands/copy.db");
        for path in files_in(&self.cluster.path("commands")) {
            if path != copy && path != self.cluster.path("commands/source") {
                return Err(format!("'{}' was left behind", path.display()));
            }
        }
        match (copy.exists(), status) {
            (false, Some(0)) => Err("the copy was acknowledged and is not there".to_string()),
            (false, _) => Ok(()),
            // It is whole if it can be restored.
            (true, _) => self.check_restored(None),
        }
    }

    /// What an object is that was to become `new`: that, or still what it was; the one of both that
    /// was said, where one was.
    fn overwritten(
        &self,
        name: &str,
        new: Vec<u8>,
        (status, said): (Option<i32>, &str),
    ) -> Result<Vec<u8>, String> {
        let back = self.cluster.path("back");
        let got = self.cluster.run(&["get", name, "-o", back.to_str().unwrap()]);
        if got.status != 0 {
            return Err(format!("'{name}' cannot be read: {}", got.stderr));
        }
        let now = fs::read(&back).unwrap();
        let may_be_new = status != Some(1) || !said.contains("cannot store");
        let may_be_old = status != Some(0);
        if (may_be_new && now == new) || (may_be_old && now == self.former) {
            return Ok(now);
        }
        let is = if now == new { "new" } else { "old or something else" };
        Err(format!("'{name}' is {is} after status {status:?}: {said}"))
    }

    /// The backup of the metadata that the victim keeps.
    fn kept(&self) -> PathBuf {
        self.cluster.path(&format!("n{VICTIM}/metadata-backup.db"))
    }

    /// The copy that the victim keeps is whole, or there is none and was none.
    fn check_kept(&self) -> Result<(), String> {
        let kept = self.kept();
        self.clear();
        if !kept.exists() {
            let lost = Err("the copy from before is gone".to_string());
            return if self.had_copy { lost } else { Ok(()) };
        }
        fs::copy(kept, self.cluster.path("commands/copy.db")).unwrap();
        self.check_restored(None)
    }

    /// Agents keep copies, one each second, or no more.
    fn spread_copies(&self, is_on: bool) {
        let path = self.cluster.path("coordinator.toml");
        let text = fs::read_to_string(&path).unwrap();
        let text = text.split("[backup]").next().unwrap().to_string();
        let every = if is_on { "1s" } else { "off" };
        fs::write(&path, format!("{text}[backup]\nevery = '{every}'\n")).unwrap();
        let coordinator = Pid::from_child(&self.cluster.coordinator.0);
        kill_process(coordinator, Signal::HUP).unwrap();
    }

    /// A copy is in place as a whole, or nothing is, and the next try succeeds.
    fn check_restored(&self, status: Option<i32>) -> Result<(), String> {
        let commands = self.cluster.path("commands");
        let is_there = metadata_in(&commands).join("metadata.db").exists();
        if !is_there && status == Some(0) {
            return Err("it was restored and is not there".to_string());
        }
        if !is_there {
            let copy = commands.join("copy.db").display().to_string();
            let again = ["metadata", "restore", &copy, "--config", &self.elsewhere()];
            let again = self.cluster.run(&again);
            if again.status != 0 {
                return Err(format!("it cannot be restored: {}", again.stderr));
            }
        }
        let found = look_at_metadata(&commands)?;
        if found.things.keys().any(|name| name == "object base") {
            Ok(())
        } else {
            Err(format!("what was restored is not all: {found:?}"))
        }
    }

    /// Waits until the cluster is as it should be, or says what is not.
    fn settle(&self) -> Result<(), String> {
        let since = Instant::now();
        loop {
            let fault = match self.unsettled() {
                None => return Ok(()),
                Some(fault) => fault,
            };
            if since.elapsed() > LIMIT {
                return Err(format!("not within {LIMIT:?}: {fault}"));
            }
            thread::sleep(Duration::from_millis(25));
        }
    }

    fn unsettled(&self) -> Option<String> {
        let status = self.cluster.run(&["status", "--format", "json"]);
        if status.status != 0 {
            return Some(format!("status: {} {}{}", status.status, status.stderr, status.stdout));
        }
        let status: Value = serde_json::from_str(&status.stdout).unwrap();
        if status["state"] != "healthy" || count(&status, "up") != AGENTS {
            return Some(status.to_string());
        }
        let stripes: usize =
            self.objects.iter().map(|(_, content)| content.len().div_ceil(2 * 64 * 1024)).sum();
        for agent in 0..AGENTS {
            let held = self.cluster.chunks(agent).len();
            if held != stripes {
                return Some(format!("n{agent} holds {held} chunks of {stripes} stripes"));
            }
            if let Some(left) = files_in(&self.cluster.path(&format!("n{agent}/tmp"))).first() {
                return Some(format!("'{}' is left", left.display()));
            }
        }
        let parts = files_in(&self.cluster.path("coordinator"));
        let mut parts = parts.iter().filter(|path| path.display().to_string().contains(".backup-"));
        parts.next().map(|left| format!("'{}' is left", left.display()))
    }
}

impl Ended {
    fn of(child: Child) -> Ended {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Ended { status: output.status.code(), said }
    }

    /// The exit status, if it and what was said go together; none if it was killed.
    fn check(&self, deed: Deed) -> Result<Option<i32>, String> {
        let Ended { status, said } = self;
        let says = said.lines().any(|line| line.starts_with("suture: "));
        match status {
            _ if said.contains("panicked") => Err(format!("it panics: {said}")),
            Some(0) | None => Ok(*status),
            Some(1 | 2) if says => Ok(*status),
            // A scrub that found damage, as it was to.
            Some(1) => Ok(*status),
            // While the metadata cannot be changed nothing can be repaired.
            Some(3) if deed == Deed::Scrub => Ok(*status),
            Some(status) => Err(format!("exit status {status}: {said}")),
        }
    }
}
