//! Commands within the text, and in boxes that are not run: their words and options are compared
//! with what `--help` knows.

use std::collections::BTreeMap;
use std::process::Command;

use super::{fences, page, pages};
use crate::subcommands;

/// So many at least are found: otherwise nothing was looked at.
const FOUND_MIN: usize = 100;

/// The help of commands that were asked for already.
#[derive(Default)]
pub struct Help(BTreeMap<Vec<String>, String>);

impl Help {
    fn of(&mut self, chain: &[String]) -> &str {
        self.0.entry(chain.to_vec()).or_insert_with(|| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_suture"));
            let output = command.args(chain).arg("--help").output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        })
    }

    /// Which subcommand a line of words is.
    ///
    /// # Errors
    /// When a word stands where a subcommand is expected, and is none.
    pub fn chain(&mut self, words: &[String]) -> Result<Vec<String>, String> {
        let mut chain: Vec<String> = Vec::new();
        for word in words {
            let listed = subcommands::listed(self.of(&chain));
            match listed.contains(word) {
                true => chain.push(word.clone()),
                false if listed.is_empty() || word.starts_with('-') => break,
                false => return Err(format!("suture {} has no '{word}'", chain.join(" "))),
            }
        }
        Ok(chain)
    }

    fn check(&mut self, line: &str) -> Result<(), String> {
        let words = words(line);
        let chain = self.chain(&words)?;
        let help = self.of(&chain);
        for option in words.iter().filter(|word| word.starts_with('-') && word.len() > 1) {
            let name = option.split('=').next().unwrap_or(option);
            let mut known = help.split(|c: char| c.is_whitespace() || ",.=()[]".contains(c));
            if !known.any(|word| word == name) && name != "-vv" {
                return Err(format!("suture {} has no option {name}", chain.join(" ")));
            }
        }
        Ok(())
    }
}

/// The words of a command behind `suture`, up to where a shell would end it.
pub fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in line.chars().chain([' ']) {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '#' | '|' | ';' | '&' | '>' | '<') => break,
            (None, c) if c.is_whitespace() => words.extend(Some(std::mem::take(&mut word))),
            (_, c) => word.push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words.remove(0);
    words
}

/// Commands in the text of a page: what stands between backticks, and lines that are indented as
/// code is.
pub fn inline(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_box = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_box = !is_box;
        } else if !is_box {
            found.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
            found.extend(line.strip_prefix("    ").map(|code| code.trim().to_owned()));
        }
    }
    found.retain(|code| code.starts_with("suture "));
    found
}

#[test]
fn commands_within_the_text_are_those_that_there_are() {
    let (mut help, mut count, mut wrong) = (Help::default(), 0, Vec::new());
    for name in pages() {
        let text = page(&name);
        let boxes = fences::of(&name, &text).into_iter().filter(|fence| fence.kind == "sh,not-run");
        let boxed: Vec<String> = boxes
            .flat_map(|fence| fence.text.lines().map(str::to_owned).collect::<Vec<_>>())
            .filter(|line| line.starts_with("suture "))
            .collect();
        for line in inline(&text).into_iter().chain(boxed) {
            count += 1;
            wrong.extend(help.check(&line).err().map(|why| format!("{name}: `{line}`: {why}")));
        }
    }
    eprintln!("{count} commands within the text were compared with their help");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= FOUND_MIN, "only {count} were found");
}
