//! Attacks on a process that runs one story on one folder, and then is gone.
//!
//! Place: thousands of points in a minute, without a network. The process is this test itself,
//! started again under the tracer; what it left is looked at in here.

use std::env;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::acts::{Acts, Said, State};
use super::attack::{Attack, EXIT, Fault, Point};
use super::disk::{Loss, copy, folder};
use super::stories::{STORIES, Story};
use super::table::{Place, Table};
use super::tracer::Tracer;

/// How long a story may take before it counts as one that hangs.
const LIMIT: Duration = Duration::from_secs(90);

const STORY: &str = "SUTURE_CRASH_STORY";
const FOLDER: &str = "SUTURE_CRASH_FOLDER";

/// Runs the story that the environment names; in every other run there is none.
pub fn act() {
    let (Ok(name), Ok(folder)) = (env::var(STORY), env::var(FOLDER)) else { return };
    let story = STORIES.iter().find(|story| story.name == name).expect("a story of this name");
    let folder = PathBuf::from(folder);
    (story.act)(&folder, &mut Acts::said(&folder));
}

/// Hits the chosen points of a story, each in a run of its own.
pub fn attack(tracer: &Tracer, story: &Story, table: &mut Table) {
    if !table.is_wanted(story.name) {
        return;
    }
    let begin = folder();
    (story.prepare)(begin.path());
    let states = dry_run(story, begin.path());
    let (mut points, counted) = run(tracer, story, (begin.path(), &states), None);
    points.push(Point::end());
    counted.unwrap_or_else(|why| panic!("{} without a fault: {why}", story.name));
    for (number, point, fault) in table.chosen(story.name, &points) {
        if fault == Fault::Killed {
            // It ends by itself, and is no other than after an error.
            continue;
        }
        let plan = Some((point.clone(), fault));
        let (_, outcome) = run(tracer, story, (begin.path(), &states), plan);
        let place = Place { story: story.name, process: "alone", number };
        table.add(&place, &point, fault, outcome);
    }
}

fn dry_run(story: &Story, begin: &Path) -> Vec<State> {
    let folder = folder();
    copy(begin, folder.path());
    let mut acts = Acts::dry(folder.path(), story.look);
    (story.act)(folder.path(), &mut acts);
    acts.states()
}

/// One run; gives the calls that were made, and what came of it.
fn run(
    tracer: &Tracer,
    story: &Story,
    (begin, states): (&Path, &[State]),
    plan: Option<(Point, Fault)>,
) -> (Vec<Point>, Result<String, String>) {
    let folder = folder();
    copy(begin, folder.path());
    let attack = Arc::new(Mutex::new(Attack::on(folder.path())));
    let fault = plan.as_ref().map(|(_, fault)| *fault);
    let is_exit = plan.as_ref().is_some_and(|(point, _)| point.call == EXIT);
    attack.lock().unwrap().plan(plan.filter(|(point, _)| point.call != EXIT));
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "crash_points::attacked", "--nocapture", "--test-threads=1"]);
    command.env(STORY, story.name).env(FOLDER, folder.path());
    let piped = |command: &mut Command| {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    };
    let mut traced = tracer.start(&command, &attack, piped).expect("the tracer starts");
    let is_over = traced.wait_within(LIMIT);
    let mut printed = String::new();
    traced.tracer().stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    traced.tracer().stderr.take().unwrap().read_to_string(&mut printed).unwrap();
    let mut attack = attack.lock().unwrap();
    let (points, has_struck) = attack.disarm();
    if !is_over {
        return (points, Err("it hangs".to_string()));
    }
    let loss = fault.and_then(Fault::loss);
    attack.bury(loss.unwrap_or(Loss::Nothing));
    let outcome = if fault.is_some() && !has_struck && !is_exit {
        Err(format!("the point was not reached: {printed}"))
    } else {
        judge(story, (folder.path(), states), loss, &printed)
    };
    (points, outcome)
}

fn judge(
    story: &Story,
    (folder, states): (&Path, &[State]),
    loss: Option<Loss>,
    printed: &str,
) -> Result<String, String> {
    if printed.contains("panicked") {
        return Err(format!("it panics: {printed}"));
    }
    let said = Said::of(printed);
    let found = (story.look)(folder).map_err(|why| format!("{why} ({printed})"))?;
    if let Some(why) = said.contradiction(states, &found, loss.unwrap_or(Loss::Nothing)) {
        let held: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
        return Err(format!("{why} ({printed}) {held:?}"));
    }
    let has_failed = said.steps.iter().any(|step| matches!(step, Some(Err(_))));
    let is_whole = said.steps.len() + 1 == states.len() && !said.steps.contains(&None);
    Ok(match loss {
        Some(_) => "ended, recovered",
        None if has_failed => "refused, whole or absent",
        None if is_whole => "done",
        None if printed.contains("cannot be opened") => "refused at the start",
        None => return Err(format!("it ended early and did not say why: {printed}")),
    }
    .to_string())
}
