//! Loops: the same calls again and again, and nothing comes of it. Looked at before a call runs, over the last calls of
//! the session (behaviour, section 5).
//!
//! A *run* is what was called since the last progress: a result that the call did not have before, an edit that was not
//! made before, or a tree of the workspace that was not seen before. What is older than the window is forgotten. The
//! tree is only asked for where a call repeats one of the run, so ordinary rounds cost nothing. Nothing here decides what
//! becomes of a loop: that is [`crate::agent::step`].

use crate::agent::event::{Call, EffectClass, Outcome, Status};
use crate::agent::mcp;
use crate::agent::state::{Pending, Stage, State};
use crate::tools;
use regex::Regex;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, LazyLock, OnceLock};

/// Calls that are looked at.
const WINDOW_MAX: usize = 20;
/// Same calls in a run: the model is told with the result of the first number, the second one does not run.
const REPEATS_WARN: usize = 3;
const REPEATS_STOP: usize = 5;
/// Calls in a cycle.
const CYCLE_MAX: usize = 4;
/// Passes through a cycle, back to back: told at the end of the first number, the second one is not completed.
const PASSES_WARN: usize = 2;
const PASSES_STOP: usize = 4;
/// Of a call's arguments, in texts for people.
const SHOWN_CHARS_MAX: usize = 60;

type Hash = [u8; 32];

/// What of a result differs although nothing happened: durations, times of day, addresses, names of temporary files, and
/// our own mark that names the call.
static VOLATILE: LazyLock<Regex> = LazyLock::new(|| {
    let number = r"\d+(?:[.,]\d+)?";
    let unit = r"\s*(?:ns|µs|us|ms|s|sec|secs|second|seconds|m|min|mins|minutes|h)\b";
    let parts = [
        r#"read_output\("[^"]*""#.to_owned(),
        r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?".to_owned(),
        r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?".to_owned(),
        r"\b(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?s\b".to_owned(),
        format!(r"\b{number}{unit}(?:\s+{number}{unit})*"),
        r"\b0x[0-9a-fA-F]{6,}".to_owned(),
        r"/tmp/[\w./-]+".to_owned(),
    ];
    Regex::new(&parts.join("|")).expect("BUG: the parts are a valid expression, a test says so")
});

/// What a session called lately, and what came of it.
#[derive(Debug, Clone, Default)]
pub struct Loops {
    window: VecDeque<Past>,
    /// How many of the window's last calls are the run.
    run: usize,
    /// The model was told of this run.
    warned: bool,
    /// The workspace was seen since the run began.
    seen: bool,
}

/// A call that ended.
#[derive(Debug, Clone)]
struct Past {
    /// For people: `run_command cargo test`.
    name: String,
    key: Hash,
    /// It may have changed anything.
    opaque: bool,
    result: Arc<Said>,
    /// What it changed in files, by our own tools.
    edit: Option<Hash>,
    /// The workspace before it and after it, where somebody looked.
    trees: [Option<String>; 2],
}

/// A result, digested once another one is compared with it: that is rare, and takes longer than all else here.
#[derive(Debug)]
struct Said {
    status: Status,
    exit_code: Option<i32>,
    output: String,
    digest: OnceLock<Hash>,
}

impl Said {
    /// A refusal is a refusal, whatever its words.
    fn of(outcome: &Outcome) -> Arc<Self> {
        let output = match outcome.status {
            Status::Denied => String::new(),
            _ => outcome.output.clone(),
        };
        Arc::new(Self {
            status: outcome.status,
            exit_code: outcome.exit_code,
            output,
            digest: OnceLock::new(),
        })
    }

    /// Without what differs by itself.
    fn digest(&self) -> &Hash {
        self.digest.get_or_init(|| {
            let mut hasher = Sha256::new();
            hasher.update(format!("{:?} {:?} ", self.status, self.exit_code));
            hasher.update(VOLATILE.replace_all(&self.output, "…").as_bytes());
            hasher.finalize().into()
        })
    }

    fn differs(&self, other: &Said) -> bool {
        let same = (self.status, self.exit_code) == (other.status, other.exit_code)
            && self.output == other.output;
        !same && self.digest() != other.digest()
    }
}

/// What was seen of the workspace before a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sight {
    /// Nobody looked.
    Unseen,
    /// `None`: it cannot be told here.
    Seen(Option<String>),
}

/// What a call would be, if it ran now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ahead {
    Clear,
    /// It repeats a call: has the workspace changed since?
    Look,
    /// Told with its result, unless that brings something new.
    Warn(Found),
    /// It must not run.
    Stop(Found),
    /// It repeats a call that still runs.
    Wait,
}

/// What repeats, and the calls in words: `run_command cargo test → read_lines src/lib.rs`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub pattern: Pattern,
    pub calls: String,
}

/// How it repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// The same call, so many times with this one.
    Repeat { times: usize },
    /// The same `length` calls in the same order, so many times with this one.
    Cycle { length: usize, passes: usize },
}

/// What the call at `position` of the round would be.
pub fn ahead(state: &State, position: usize) -> Ahead {
    let calls = state.calls();
    let (Some(pending), Some(before)) = (calls.get(position), calls.get(..position)) else {
        return Ahead::Clear;
    };
    let key = key(&pending.call);
    let runs = |other: &Pending| !matches!(other.stage, Stage::Finished(_));
    if before
        .iter()
        .any(|other| runs(other) && self::key(&other.call) == key)
    {
        return Ahead::Wait;
    }
    let mut loops = Cow::Borrowed(&state.loops);
    for other in before {
        loops.to_mut().close(other);
    }
    match loops.ahead(&pending.call, key, &pending.sight) {
        Ahead::Clear => Ahead::Clear,
        // What ran before it in this round must have ended: its result may be the progress.
        _ if before.iter().any(runs) => Ahead::Wait,
        // Nobody is stopped who could not read the warning: it is in this same round.
        Ahead::Stop(_) if !state.loops.warned && loops.warned => Ahead::Clear,
        Ahead::Stop(found) if !state.loops.warned => Ahead::Warn(found),
        ahead => ahead,
    }
}

impl Loops {
    /// Takes a call that ended; the warning that the model reads with its result, if it is due.
    pub fn close(&mut self, pending: &Pending) -> Option<String> {
        let Stage::Finished(outcome) = &pending.stage else {
            return None;
        };
        let before = match &pending.sight {
            Sight::Seen(tree) => tree.clone(),
            Sight::Unseen => None,
        };
        let past = Past {
            name: shown(&pending.call),
            key: key(&pending.call),
            opaque: is_opaque(&pending.call),
            result: Said::of(outcome),
            edit: edit(outcome),
            trees: [before, outcome.tree.clone()],
        };
        let progressed = self.take(past);
        let due = pending
            .warning
            .clone()
            .filter(|_| !progressed && !self.warned);
        self.warned |= due.is_some();
        due
    }

    /// Whether it was progress.
    fn take(&mut self, past: Past) -> bool {
        let [before, after] = &past.trees;
        let mut same = self
            .window
            .iter()
            .filter(|other| other.key == past.key)
            .peekable();
        let answered =
            same.peek().is_some() && same.all(|other| other.result.differs(&past.result));
        let edited = past.edit.is_some() && self.window.iter().all(|other| other.edit != past.edit);
        let left_new = after != before && self.is_new_tree(after.as_ref());
        if self.has_moved(before.as_ref()) {
            self.begin(true);
        }
        self.seen |= before.is_some();
        let progress = answered || edited || left_new;
        if progress {
            self.begin(after.is_some());
        }
        self.window.push_back(past);
        self.run += usize::from(!left_new);
        if self.window.len() > WINDOW_MAX {
            self.window.pop_front();
            self.run = self.run.min(WINDOW_MAX);
        }
        progress
    }

    fn begin(&mut self, seen: bool) {
        self.run = 0;
        self.warned = false;
        self.seen = seen;
    }

    /// Whether the workspace is in a new state that is not the work of the call which began the run: that was counted.
    fn has_moved(&self, tree: Option<&String>) -> bool {
        let mut since = self.window.iter().rev().take(self.run.saturating_sub(1));
        self.is_new_tree(tree) && (self.seen || since.any(|past| past.opaque))
    }

    /// The first tree that is seen is new to nobody: there is nothing that it differs from.
    fn is_new_tree(&self, tree: Option<&String>) -> bool {
        let mut known = self
            .window
            .iter()
            .flat_map(|past| &past.trees)
            .flatten()
            .peekable();
        match (tree, known.peek()) {
            (Some(tree), Some(_)) => known.all(|other| other != tree),
            (None, _) | (_, None) => false,
        }
    }

    fn ahead(&self, call: &Call, key: Hash, sight: &Sight) -> Ahead {
        let from = self.window.len() - self.run;
        let mut run: Vec<Hash> = self.window.range(from..).map(|past| past.key).collect();
        if !run.contains(&key) {
            return Ahead::Clear;
        }
        match sight {
            Sight::Unseen => return Ahead::Look,
            Sight::Seen(tree) if self.has_moved(tree.as_ref()) => return Ahead::Clear,
            Sight::Seen(_) => run.push(key),
        }
        let times = run.iter().filter(|other| **other == key).count();
        let cycle = (2..=CYCLE_MAX)
            .map(|length| (length, passes(&run, length)))
            .max_by_key(|(_, passes)| *passes);
        let (length, passes) = cycle.unwrap_or((0, 0));
        let (repeat, cycle) = (Pattern::Repeat { times }, Pattern::Cycle { length, passes });
        let found = |pattern, length: usize| {
            let before = self.window.range(self.window.len() + 1 - length..);
            let names = before.map(|past| past.name.clone()).chain([shown(call)]);
            let calls = names.collect::<Vec<_>>().join(" → ");
            Found { pattern, calls }
        };
        match (times, passes) {
            (REPEATS_STOP.., _) => Ahead::Stop(found(repeat, 1)),
            (_, PASSES_STOP..) => Ahead::Stop(found(cycle, length)),
            _ if self.warned => Ahead::Clear,
            (REPEATS_WARN.., _) => Ahead::Warn(found(repeat, 1)),
            (_, PASSES_WARN..) => Ahead::Warn(found(cycle, length)),
            _ => Ahead::Clear,
        }
    }
}

/// How often the last `length` calls stand there, back to back. 0 for what is itself a shorter cycle: `A B A B` is one
/// of two, `A A` is a repeat.
fn passes(run: &[Hash], length: usize) -> usize {
    let Some(at) = run.len().checked_sub(length) else {
        return 0;
    };
    let cycle = &run[at..];
    let is_shorter = |part: usize| {
        length.is_multiple_of(part) && cycle.chunks(part).all(|chunk| chunk == &cycle[..part])
    };
    if (1..length).any(is_shorter) {
        return 0;
    }
    run.rchunks(length)
        .take_while(|chunk| *chunk == cycle)
        .count()
}

fn key(call: &Call) -> Hash {
    Sha256::digest(call.sameness()).into()
}

/// A tool that does not exist changes nothing.
fn is_opaque(call: &Call) -> bool {
    match tools::find(&call.tool) {
        Some(tool) => tool.class == EffectClass::Opaque,
        None => mcp::is_one(&call.tool),
    }
}

fn edit(outcome: &Outcome) -> Option<Hash> {
    let mut hasher = Sha256::new();
    for change in &outcome.changes {
        hasher.update(format!("{}\n{}\n", change.path, change.diff));
    }
    (!outcome.changes.is_empty()).then(|| hasher.finalize().into())
}

/// The tool, and the first words of what it is called with.
fn shown(call: &Call) -> String {
    let json = call.json().unwrap_or_default();
    let first = ["command", "path", "pattern"]
        .iter()
        .find_map(|name| json.get(name)?.as_str());
    let words = first.unwrap_or(call.arguments.trim());
    let line: String = words
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(SHOWN_CHARS_MAX)
        .collect();
    let more = if words.chars().count() > SHOWN_CHARS_MAX {
        "…"
    } else {
        ""
    };
    format!("{} {line}{more}", call.tool).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differ(a: &Outcome, b: &Outcome) -> bool {
        Said::of(a).differs(&Said::of(b))
    }

    fn same(a: &str, b: &str) -> bool {
        !differ(&Outcome::done(a), &Outcome::done(b))
    }

    #[test]
    fn durations_times_addresses_and_names_of_calls_make_no_new_result() {
        for (a, b) in [
            (
                "Exit code: 0 | Duration: 1234ms\nok",
                "Exit code: 0 | Duration: 9ms\nok",
            ),
            ("5 passed in 0.12s", "5 passed in 11.03s"),
            ("finished in 0.5 seconds", "finished in 12 seconds"),
            ("took 1 m 20 s", "took 59 s"),
            ("took 1m20s", "took 59s"),
            ("at 2026-11-22T10:00:00Z", "at 2026-11-23T11:12:13Z"),
            ("[12:00:01] start", "[12:00:02] start"),
            ("<Foo at 0x7f00aa11>", "<Foo at 0x7f00bb22>"),
            (
                "in /tmp/pytest-of-ana/pytest-1/x",
                "in /tmp/pytest-of-ana/pytest-2/x",
            ),
            (
                r#"read_output("3.1", 1, 200)"#,
                r#"read_output("4.1", 1, 200)"#,
            ),
        ] {
            assert!(same(a, b), "{a} | {b}");
        }
    }

    #[test]
    fn what_says_something_new_is_a_new_result() {
        for (a, b) in [
            ("4 passed, 1 failed in 0.12s", "5 passed in 0.12s"),
            ("building 40%", "building 41%"),
            ("L42: x", "L43: x"),
            ("line 1", "line 1\nline 2"),
            (
                "[412 lines in all; read_output(\"3.1\", 1, 200) shows them]",
                "[413 lines in all; read_output(\"3.1\", 1, 200) shows them]",
            ),
        ] {
            assert!(!same(a, b), "{a} | {b}");
        }
        assert!(differ(&Outcome::done("x"), &Outcome::failed("x")));
        assert!(!differ(
            &Outcome::new(Status::Denied, "no"),
            &Outcome::new(Status::Denied, "no, as before")
        ));
    }

    #[test]
    fn a_cycle_is_made_of_calls_that_are_not_one_shorter_cycle() {
        let run = |text: &str| -> Vec<Hash> { text.bytes().map(|byte| [byte; 32]).collect() };
        assert_eq!(passes(&run("abab"), 2), 2);
        assert_eq!(passes(&run("xababab"), 2), 3);
        assert_eq!(passes(&run("abab"), 4), 0);
        assert_eq!(passes(&run("aaaa"), 2), 0);
        assert_eq!(passes(&run("abcabd"), 3), 1);
        assert_eq!(passes(&run("ab"), 3), 0);
    }
}
