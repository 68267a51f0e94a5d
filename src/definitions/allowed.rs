//! What a command's front matter allows the turn that it starts: fewer tools, never more. Pure.
//!
//! Other programs take `allowed-tools` for what needs no question. Here the gate alone says what needs none, so the list is what is
//! left: read as narrowly as an agent's `tools`, but that `Bash(PATTERN)` leaves the commands that fit it.

use super::agents::{self, RUN};
use super::inline;
use super::loading::listed;
use crate::gate::{fits, is_pattern};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The first that is there counts; `tools` is Copilot's.
const KEYS: [&str; 3] = ["allowed-tools", "allowedTools", "tools"];
/// Tools of ours for what git does, each at least as careful.
const GIT: &[(&[&str], &str)] = &[
    (&["git", "status"], "git_status"),
    (&["git", "diff"], "git_diff"),
    (&["git", "log"], "git_log"),
    (&["git", "commit"], "git_commit"),
    (&["git", "push"], "git_push"),
    (&["git", "stash"], "git_stash"),
    (&["git", "switch"], "git_create_branch"),
];

/// What a turn keeps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowed {
    /// `None`: all tools.
    pub tools: Option<BTreeSet<String>>,
    /// Commands fit one of these; `None`: any command.
    pub runs: Option<Vec<String>>,
}

pub fn allowed(keys: &Map<String, Value>) -> Allowed {
    let Some(entries) = entries(keys) else {
        return Allowed::default();
    };
    let is_all = |entry: &String| entry == "*" || entry == "all";
    if entries.iter().any(is_all) {
        return Allowed::default();
    }
    let (mut tools, mut runs, mut runs_all) = (BTreeSet::new(), Vec::new(), false);
    for entry in &entries {
        match patterns(entry) {
            Some(patterns) => runs.extend(patterns),
            None => {
                let granted = agents::granted(entry).unwrap_or_default();
                runs_all |= granted.iter().any(|name| name == "run_command");
                tools.extend(granted);
            }
        }
    }
    let by_git = GIT.iter().filter(|(words, _)| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let is_open = |pattern: &&String| pattern.ends_with('*');
        let mut open = runs.iter().filter(is_open);
        open.any(|pattern| fits(pattern, &words))
    });
    tools.extend(by_git.map(|(_, tool)| (*tool).to_owned()));
    if !runs.is_empty() {
        tools.extend(RUN.iter().map(|name| (*name).to_owned()));
    }
    Allowed {
        tools: Some(tools),
        runs: (!runs_all && !runs.is_empty()).then_some(runs),
    }
}

/// What is wrong with it, and with what it would run while it is loaded.
pub fn problems(keys: &Map<String, Value>, commands: &[String]) -> Vec<String> {
    let nothing = |entry: &String| match patterns(entry) {
        Some(patterns) => patterns.is_empty(),
        None => entry != "*" && entry != "all" && agents::granted(entry).is_none(),
    };
    let entries = entries(keys).unwrap_or_default().into_iter();
    let tools = entries
        .filter(nothing)
        .map(|entry| format!("allowed-tools: {entry:?} is no tool here and leaves nothing"));
    let refused = commands.iter().filter_map(|command| {
        let why = inline::read(command).err()?;
        let why = why.split("; ").next().unwrap_or(&why).to_owned();
        Some(format!("!`{command}` is not run: {why}"))
    });
    tools.chain(refused).collect()
}

fn entries(keys: &Map<String, Value>) -> Option<Vec<String>> {
    let value = KEYS.iter().find_map(|key| keys.get(*key))?;
    match value {
        Value::String(text) => Some(listed(text)),
        Value::Array(list) => {
            let texts = list.iter().filter_map(Value::as_str);
            Some(texts.map(|text| text.trim().to_owned()).collect())
        }
        Value::Null => None,
        // What it means nobody knows: nothing is left.
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => Some(Vec::new()),
    }
}

/// The readable patterns of `Bash(git add:*, npm test)`; `None` where it is nothing that runs commands, or has none.
fn patterns(entry: &str) -> Option<Vec<String>> {
    let (name, rest) = entry.split_once('(')?;
    if agents::known(name.trim()).as_deref() != Some(RUN) {
        return None;
    }
    let inner = rest.trim_end().strip_suffix(')')?;
    let patterns = inner.split(',').map(|one| one.trim().to_owned());
    Some(patterns.filter(|one| is_pattern(one)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definitions::front_matter::split;

    fn of(front: &str) -> Allowed {
        allowed(&split(&format!("---\n{front}\n---\n")).0.keys)
    }

    fn tools(front: &str) -> Vec<String> {
        of(front).tools.expect("a list").into_iter().collect()
    }

    #[test]
    fn without_a_list_nothing_is_narrowed() {
        for front in ["description: d", "allowed-tools: '*'", "allowed-tools:"] {
            assert_eq!(of(front), Allowed::default(), "{front}");
        }
    }

    #[test]
    fn a_list_leaves_what_it_names_and_a_pattern_the_commands_that_fit_it() {
        assert_eq!(
            tools("allowed-tools: Read, Grep"),
            ["get_file_outline", "list_files", "read_lines", "search"]
        );
        let git = of("allowed-tools: Bash(git add:*, git commit:*) Bash(npm test)");
        let kept = git.tools.expect("a list");
        assert!(kept.contains("run_command") && kept.contains("git_commit"));
        assert!(!kept.contains("git_push") && !kept.contains("write_file"));
        assert_eq!(
            git.runs.expect("patterns"),
            ["git add:*", "git commit:*", "npm test"]
        );
        assert_eq!(of("allowed-tools: [Bash, 'Bash(git:*)']").runs, None);
        assert!(tools("tools: ['Bash(git:*)']").contains(&"git_push".to_owned()));
    }

    #[test]
    fn what_nobody_can_read_leaves_nothing() {
        for front in [
            "allowed-tools: []",
            "allowed-tools: Nonsense",
            "allowed-tools: Bash(*; rm)",
            "allowed-tools: 'Read(src/**)'",
            "allowed-tools: {Read: true}",
        ] {
            assert_eq!(tools(front), Vec::<String>::new(), "{front}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_what_would_not_be_run() {
        let keys = split("---\nallowed-tools: Read, Bosh, Bash(a; b)\n---\n")
            .0
            .keys;
        let commands = ["git status".to_owned(), "rm -rf /".to_owned()];
        assert_eq!(
            problems(&keys, &commands),
            [
                "allowed-tools: \"Bosh\" is no tool here and leaves nothing",
                "allowed-tools: \"Bash(a; b)\" is no tool here and leaves nothing",
                "!`rm -rf /` is not run: not allowed: rm is not on the list",
            ]
        );
    }
}
