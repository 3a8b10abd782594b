//! What a story says while it runs, and what must hold of what it leaves behind.
//!
//! Place: between a story and the judgement of it. The attacked process prints a line before and
//! after each of its steps; a reader of them knows what was promised. A step that said `done` is
//! durable; one that began and did not say so is there in full or not at all; nothing else is
//! different.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::attack::BEGIN;
use super::disk::{Loss, copy, folder};

/// What a folder holds, by name, as the process that opens it next sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Each thing and what it is.
    pub things: BTreeMap<String, String>,
    /// Numbers that may never be less than was said of them.
    pub floors: BTreeMap<String, u64>,
}

/// Opens a folder as the next process does, and says what it holds; an error is what it says.
pub type Look = fn(&Path) -> Result<State, String>;

/// A story as it runs: step by step.
pub struct Acts {
    folder: PathBuf,
    /// In a dry run: how to look, and what was there after each step.
    dry: Option<(Look, Vec<State>)>,
    /// Whether its steps are printed.
    is_told: bool,
}

impl Acts {
    /// In the attacked process.
    pub fn said(folder: &Path) -> Acts {
        Acts { folder: folder.to_path_buf(), dry: None, is_told: true }
    }

    /// Before the story.
    pub fn untold(folder: &Path) -> Acts {
        Acts { folder: folder.to_path_buf(), dry: None, is_told: false }
    }

    /// Before any attack: what each step changes.
    pub fn dry(folder: &Path, look: Look) -> Acts {
        let dry = Some((look, Vec::new()));
        let mut acts = Acts { folder: folder.to_path_buf(), dry, is_told: false };
        acts.keep();
        acts
    }

    /// The states before the first and after each step.
    pub fn states(self) -> Vec<State> {
        self.dry.expect("a dry run").1
    }

    /// To promise something within a step.
    pub fn promises(&self) -> Acts {
        Acts { folder: self.folder.clone(), dry: None, is_told: self.is_told }
    }

    /// From here on calls are counted.
    pub fn begin(&self) {
        let _ = self.folder.join(BEGIN).try_exists();
    }

    /// One step.
    pub fn step<T, E: fmt::Display>(&mut self, act: impl FnOnce() -> Result<T, E>) -> Option<T> {
        self.say("begin");
        let result = act();
        match &result {
            Ok(_) => self.say("done"),
            Err(error) => self.say(&format!("failed {error:#}").replace('\n', " ")),
        }
        self.keep();
        result.ok()
    }

    /// Prints that something will never again be less than this.
    pub fn promise(&self, what: &str, value: u64) {
        self.say(&format!("promise {what} {value}"));
    }

    fn say(&self, line: &str) {
        if self.is_told {
            println!("@{line}");
        }
    }

    /// Looks at a copy: the story has the folder open.
    fn keep(&mut self) {
        let Some((look, states)) = &mut self.dry else { return };
        let again = folder();
        copy(&self.folder, again.path());
        states.push(look(again.path()).unwrap_or_default());
    }
}

/// What an attacked story said.
#[derive(Debug, Default)]
pub struct Said {
    /// How each step that began ended, if it did.
    pub steps: Vec<Option<Result<(), String>>>,
    promises: Vec<(String, u64)>,
}

impl Said {
    /// Reads it from what was printed.
    pub fn of(printed: &str) -> Said {
        let mut said = Said::default();
        for line in printed.lines().filter_map(|line| line.split_once('@')).map(|(_, line)| line) {
            match line.split_once(' ').unwrap_or((line, "")) {
                ("begin", _) => said.steps.push(None),
                ("done", _) => *said.steps.last_mut().unwrap() = Some(Ok(())),
                ("failed", why) => *said.steps.last_mut().unwrap() = Some(Err(why.to_string())),
                ("promise", what) => {
                    let (what, value) = what.rsplit_once(' ').unwrap();
                    said.promises.push((what.to_string(), value.parse().unwrap()));
                }
                _ => {}
            }
        }
        said
    }

    /// Why what was found cannot be, after a story with these states; nothing if it can.
    pub fn contradiction(&self, states: &[State], found: &State, loss: Loss) -> Option<String> {
        let steps = states.windows(2).map(|pair| (&pair[0].things, &pair[1].things)).enumerate();
        // Deletions are no promise of a disk: the caller sees it again, and asks again.
        let may_return = loss != Loss::Nothing;
        let mut allowed: BTreeMap<&String, Vec<Option<&String>>> = BTreeMap::new();
        for (name, thing) in &states[0].things {
            allowed.insert(name, vec![Some(thing)]);
        }
        for (number, (before, after)) in steps {
            let end = self.steps.get(number);
            for name in before.keys().chain(after.keys()) {
                let (old, new) = (before.get(name), after.get(name));
                if old == new {
                    continue;
                }
                let entry = allowed.entry(name).or_insert_with(|| vec![None]);
                let is_kept = new.is_some() || !may_return || !name.starts_with("chunk ");
                match end {
                    None => {}
                    Some(Some(Ok(()))) if is_kept => *entry = vec![new],
                    Some(_) => entry.push(new),
                }
            }
        }
        for name in allowed.keys().copied().chain(found.things.keys()) {
            let thing = found.things.get(name);
            let may_be = allowed.get(name).cloned().unwrap_or(vec![None]);
            if !may_be.contains(&thing) {
                return Some(format!("{name} is {thing:?}, not one of {may_be:?}"));
            }
        }
        self.promises.iter().find_map(|(what, least)| {
            let value = found.floors.get(what).copied();
            (value < Some(*least)).then(|| format!("{what} is {value:?}, {least} was promised"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_kept_and_what_was_not_is_whole_or_absent() {
        let state = |things: &[(&str, &str)]| State {
            things: things.iter().map(|(n, t)| (n.to_string(), t.to_string())).collect(),
            floors: BTreeMap::from([("epoch".to_string(), 2)]),
        };
        let states = [state(&[("a", "1")]), state(&[("a", "1"), ("b", "2")]), state(&[("b", "2")])];
        let fits = |printed: &str, things: &[(&str, &str)]| {
            let said = Said::of(printed);
            said.contradiction(&states, &state(things), Loss::All).is_none()
        };
        assert!(fits("", &[("a", "1")]));
        assert!(!fits("", &[("a", "1"), ("b", "2")]), "nothing had begun");
        assert!(!fits("", &[]) && !fits("", &[("a", "2")]), "it is lost, or another");
        assert!(fits("@begin", &[("a", "1")]) && fits("@begin", &[("a", "1"), ("b", "2")]));
        assert!(!fits("@begin", &[("a", "1"), ("b", "half")]));
        assert!(!fits("@begin\n@done", &[("a", "1")]), "it was promised");
        assert!(fits("@begin\n@failed x", &[("a", "1")]));
        assert!(fits("@begin\n@done\n@begin\n@done", &[("b", "2")]));
        assert!(!fits("@begin\n@done\n@begin\n@done", &[("a", "1"), ("b", "2")]), "it is back");
        assert!(!fits("@begin\n@done", &[("a", "1"), ("b", "2"), ("c", "3")]));
        assert!(fits("@promise epoch 2", &[("a", "1")]));
        assert!(!fits("@promise epoch 3", &[("a", "1")]));
    }
}
