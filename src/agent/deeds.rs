//! What a turn has done, from what happened and not from what the model says of it: the last lines of its answer.

use crate::agent::event::{Call, Outcome, Status};
use crate::agent::money;
use crate::agent::state::{State, Turn};
use crate::agent::wording::one_line;
use std::collections::BTreeMap;

/// Programs that test, and those that do so when they are told to.
const TESTERS: &[&str] = &[
    "pytest", "jest", "vitest", "mocha", "tox", "nox", "ctest", "rspec", "phpunit",
];
const RUNNERS: &[&str] = &[
    "cargo", "npm", "pnpm", "yarn", "bun", "deno", "go", "make", "just", "mvn", "gradle",
    "gradlew", "dotnet", "swift", "mix", "rake", "zig", "bazel", "python", "python3", "uv", "npx",
];
/// What they are told.
const TESTS: &[&str] = &["test", "tests", "check", "nextest", "unittest", "run-tests"];
/// How soon after its name a program is told so.
const TOLD_WORDS_MAX: usize = 4;
/// A command that is longer is cut.
const COMMAND_CHARS_MAX: usize = 60;

/// What happened in a turn.
#[derive(Debug, Clone, Default)]
pub struct Deeds {
    /// Lines that were added and removed, by file.
    files: BTreeMap<String, (usize, usize)>,
    /// The last command that tests, and how it ended.
    tested: Option<(String, i32)>,
    commit: Option<String>,
    /// A pull request.
    link: Option<String>,
}

impl Deeds {
    /// Takes note of what became of a call.
    pub fn note(&mut self, call: &Call, outcome: &Outcome) {
        for change in &outcome.changes {
            let file = self.files.entry(change.path.clone()).or_default();
            file.0 += change.added;
            file.1 += change.removed;
        }
        match call.tool.as_str() {
            "run_command" => {
                if let (Some(command), Some(exit)) = (test(call), outcome.exit_code) {
                    self.tested = Some((command, exit));
                }
            }
            "git_commit" if outcome.status == Status::Done => {
                let made = outcome.output.strip_prefix("Committed ");
                let hash = made.and_then(|made| made.split_whitespace().next());
                self.commit = hash.map(str::to_owned).or_else(|| self.commit.take());
            }
            "git_create_pr" if outcome.status == Status::Done => {
                let mut words = outcome.output.split_whitespace();
                let link = words.find(|word| word.starts_with("http") && word.contains("/pull/"));
                self.link = link.map(str::to_owned).or_else(|| self.link.take());
            }
            _ => {}
        }
    }
}

/// The command of a call, where it runs tests.
fn test(call: &Call) -> Option<String> {
    let arguments = call.json().ok()?;
    let command = arguments.get("command")?.as_str()?;
    let words = shlex::split(command)?;
    let names: Vec<&str> = words
        .iter()
        .filter_map(|word| word.rsplit('/').next())
        .collect();
    let is_told = |name: &&str| TESTS.contains(name) || name.starts_with("test_");
    let tests = |(at, name): (usize, &&str)| {
        let mut told = names.iter().skip(at + 1).take(TOLD_WORDS_MAX);
        TESTERS.contains(name) || RUNNERS.contains(name) && told.any(is_told)
    };
    names
        .iter()
        .enumerate()
        .any(tests)
        .then(|| command.to_owned())
}

/// The text of an answer with what is known of what was done below it.
pub fn told(state: &State, turn: &Turn, answer: &str) -> String {
    let lines = lines(state, turn);
    match lines.is_empty() {
        true => answer.to_owned(),
        false => format!("{}\n\n{lines}", answer.trim_end()),
    }
}

/// What was changed and how it was tested; where it is; what it cost. Nothing that is not known.
fn lines(state: &State, turn: &Turn) -> String {
    let (deeds, texts) = (&turn.deeds, &state.texts);
    let changed = (!deeds.files.is_empty()).then(|| {
        let sum = |all: (usize, usize), one: &(usize, usize)| (all.0 + one.0, all.1 + one.1);
        let (added, removed) = deeds.files.values().fold((0, 0), sum);
        let values = [
            ("files", deeds.files.len().to_string()),
            ("added", added.to_string()),
            ("removed", removed.to_string()),
        ];
        texts.say(
            "done_changed",
            &values
                .each_ref()
                .map(|(name, value)| (*name, value.as_str())),
        )
    });
    let tested = deeds.tested.as_ref().map(|(command, exit)| {
        let command = one_line(command, COMMAND_CHARS_MAX);
        let name = if *exit == 0 {
            "done_passed"
        } else {
            "done_failed"
        };
        texts.say(name, &[("command", &command), ("exit", &exit.to_string())])
    });
    let commit =
        (deeds.commit.as_ref()).map(|commit| texts.say("done_commit", &[("commit", commit)]));
    let link = (deeds.link.as_ref()).map(|link| texts.say("done_link", &[("link", link)]));
    let is_priced = turn.spend.micros > 0 && turn.spend.unpriced == 0;
    let cost =
        is_priced.then(|| texts.say("done_cost", &[("cost", &money::dollars(turn.spend.micros))]));
    let line =
        |parts: Vec<Option<String>>| parts.into_iter().flatten().collect::<Vec<_>>().join(" · ");
    let lines = [line(vec![changed, tested]), line(vec![commit, link, cost])];
    lines
        .into_iter()
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}
