//! Agents: what their front matter says about tools, model and skills, in our own words. Pure.
//!
//! Names of other programs' tools stand for ours. What a definition gives is read narrowly, what it takes away widely.

use super::Definition;
use crate::tools;
use serde_json::Value;
use std::collections::BTreeSet;

/// Names of models that mean one of this program's settings.
pub const MODELS: [&str; 3] = ["sonnet", "opus", "haiku"];

const READ: &[&str] = &["read_lines", "get_file_outline", "list_files"];
const FIND: &[&str] = &["list_files", "search"];
const EDIT: &[&str] = &["write_file", "apply_patch", "preview_patch"];
pub(super) const RUN: &[&str] = &["run_command", "manage_process", "read_output"];
const PLAN: &[&str] = &["create_task_plan", "update_task_status", "get_task_plan"];
/// What somebody who takes `Bash` away means as well: it changes the repository or reaches outside.
const BESIDES_RUN: &[&str] = &[
    "git_create_branch",
    "git_stash",
    "git_commit",
    "git_push",
    "git_create_pr",
    "git_pr_reply",
    "clone_workspace",
];
const BESIDES_EDIT: &[&str] = &["delete_file", "move_file"];
const NONE: &[&str] = &[];

/// Other programs' names, in lower case, and ours for them.
const NAMES: &[(&[&str], &[&str])] = &[
    (&["read", "notebookread", "view", "codebase"], READ),
    (&["ls", "list"], &["list_files"]),
    (&["glob", "grep", "search", "usages"], FIND),
    (
        &[
            "write",
            "edit",
            "multiedit",
            "notebookedit",
            "patch",
            "editfiles",
            "create",
        ],
        EDIT,
    ),
    (
        &[
            "bash",
            "execute",
            "shell",
            "powershell",
            "runcommands",
            "terminal",
            "runtests",
        ],
        RUN,
    ),
    (
        &["bashoutput", "killshell", "killbash"],
        &["manage_process"],
    ),
    (&["task", "agent", "custom-agent"], &["delegate"]),
    (&["todowrite", "todoread", "todo", "todos"], PLAN),
    (
        &["askuserquestion", "question", "ask"],
        &["request_user_approval"],
    ),
    (&["skill"], &["load_skill"]),
    (&["slashcommand"], &["load_command"]),
    // Known, and nothing here does it.
    (
        &[
            "webfetch",
            "websearch",
            "fetch",
            "web",
            "exitplanmode",
            "lsp",
            "think",
        ],
        NONE,
    ),
];

/// What an agent may use, in our names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Powers {
    /// `None`: all that is not taken away.
    pub tools: Option<BTreeSet<String>>,
    pub without: BTreeSet<String>,
    pub model: Option<String>,
    pub skills: Vec<String>,
}

/// What the definition says.
///
/// # Errors
/// It takes a tool away that nobody knows: what is meant stays forbidden only where it is known what that is.
pub fn powers(agent: &Definition) -> Result<Powers, String> {
    let keys = &agent.front.keys;
    let mut without = BTreeSet::new();
    for name in denied(agent) {
        without.extend(
            taken(&name).ok_or_else(|| format!("disallowedTools: there is no tool {name:?}"))?,
        );
    }
    let given = keys
        .get("tools")
        .filter(|value| !value.is_object() && !value.is_null());
    let tools = given
        .map(names)
        .filter(|names| !names.iter().any(|name| name == "*" || name == "all"));
    let tools = tools.map(|names| {
        names
            .iter()
            .flat_map(|name| granted(name).unwrap_or_default())
            .collect()
    });
    let model = agent
        .front
        .text(&["model"])
        .filter(|model| !model.eq_ignore_ascii_case("inherit"));
    Ok(Powers {
        tools,
        without,
        model,
        skills: keys
            .get("useSkills")
            .or_else(|| keys.get("skills"))
            .map(names)
            .unwrap_or_default(),
    })
}

/// What is wrong with it.
pub fn problems(agent: &Definition) -> Vec<String> {
    let mut problems: Vec<String> = powers(agent).err().into_iter().collect();
    let given = agent
        .front
        .keys
        .get("tools")
        .filter(|value| !value.is_object());
    for name in given.map(names).unwrap_or_default() {
        if name != "*" && name != "all" && granted(&name).is_none() {
            problems.push(format!(
                "tools: {name:?} is no tool here and grants nothing"
            ));
        }
    }
    if agent.description().is_none_or(|text| text.is_empty()) {
        problems.push("it has no description".to_owned());
    }
    problems
}

/// Taken away by name, or by a `false` or `deny`.
fn denied(agent: &Definition) -> Vec<String> {
    let keys = &agent.front.keys;
    let mut denied = ["disallowedTools", "disallowed-tools"]
        .iter()
        .find_map(|key| keys.get(*key))
        .map(names)
        .unwrap_or_default();
    for key in ["tools", "permission"] {
        let Some(Value::Object(rules)) = keys.get(key) else {
            continue;
        };
        let is_off =
            |value: &Value| *value == Value::Bool(false) || *value == Value::String("deny".into());
        denied.extend(
            rules
                .iter()
                .filter(|(_, value)| is_off(value))
                .map(|(name, _)| name.clone()),
        );
    }
    denied
}

/// A list, or a text with commas, or with blanks; commas in parentheses part nothing.
fn names(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items
            .iter()
            .filter_map(Value::as_str)
            .map(|name| name.trim().to_owned())
            .collect(),
        Value::String(text) => {
            let mut depth = 0_i32;
            let is_comma = |c: char| {
                depth += i32::from(c == '(') - i32::from(c == ')');
                c == ',' && depth <= 0
            };
            let names = text.split(is_comma).map(|name| name.trim().to_owned());
            names.filter(|name| !name.is_empty()).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

/// Our names for what is given; `None` where nobody knows it. A tool with a pattern is more than its pattern: it grants nothing.
pub(super) fn granted(name: &str) -> Option<Vec<String>> {
    let known = known(name)?;
    Some(known.iter().map(|name| (*name).to_owned()).collect())
}

/// The same for what is taken away, with what does the same in another way. Where only some uses are, all are.
fn taken(name: &str) -> Option<Vec<String>> {
    let plain = name.split_once('(').map_or(name, |(plain, _)| plain).trim();
    let known = known(plain)?;
    let besides = match () {
        () if known == RUN => BESIDES_RUN,
        () if known == EDIT => BESIDES_EDIT,
        () => NONE,
    };
    Some(
        known
            .iter()
            .chain(besides)
            .map(|name| (*name).to_owned())
            .collect(),
    )
}

pub(super) fn known(name: &str) -> Option<Vec<&str>> {
    if let Some(own) = tools::find(name) {
        return Some(vec![own.name]);
    }
    if name.starts_with("mcp__") {
        return Some(vec![name]);
    }
    let lower = name.to_ascii_lowercase();
    let (_, ours) = NAMES
        .iter()
        .find(|(names, _)| names.contains(&lower.as_str()))?;
    Some(ours.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definitions::{Kind, Origin, front_matter::split};

    fn agent(front: &str) -> Definition {
        Definition {
            kind: Kind::Agent,
            id: "x".into(),
            origin: Origin::Workspace,
            path: ".claude/agents/x.md".into(),
            rank: 0,
            trusted: true,
            front: split(&format!("---\ndescription: d\n{front}\n---\n")).0,
            warnings: Vec::new(),
            digest: String::new(),
            bytes: 0,
        }
    }

    fn given(front: &str) -> Vec<String> {
        let tools = powers(&agent(front)).expect(front).tools.expect("a list");
        tools.into_iter().collect()
    }

    #[test]
    fn other_programs_names_stand_for_our_tools() {
        assert_eq!(
            given("tools: ['Read', 'Glob', 'Grep', 'WebFetch', 'Task']"),
            [
                "delegate",
                "get_file_outline",
                "list_files",
                "read_lines",
                "search"
            ]
        );
        assert_eq!(
            given("tools: Write, Bash"),
            [
                "apply_patch",
                "manage_process",
                "preview_patch",
                "read_output",
                "run_command",
                "write_file"
            ]
        );
        assert_eq!(
            given("tools: [git_status, mcp__jira__read, Nonsense]"),
            ["git_status", "mcp__jira__read"]
        );
        assert_eq!(
            given("tools: 'Bash(git diff:*, git log:*)'"),
            Vec::<String>::new(),
            "more than the pattern"
        );
        assert_eq!(given("tools: []"), Vec::<String>::new());
        assert_eq!(powers(&agent("model: sonnet")).expect("all").tools, None);
        assert_eq!(powers(&agent("tools: '*'")).expect("all").tools, None);
        for (_, ours) in NAMES {
            for name in ours
                .iter()
                .filter(|name| !["delegate", "load_command"].contains(name))
            {
                assert!(tools::find(name).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn what_is_taken_away_is_taken_with_what_does_the_same() {
        let without = |front: &str| powers(&agent(front)).expect(front).without;
        let none = without("disallowedTools: ['Bash', 'Write', 'Edit']");
        for name in [
            "run_command",
            "git_push",
            "write_file",
            "apply_patch",
            "delete_file",
            "move_file",
        ] {
            assert!(none.contains(name), "{name}");
        }
        assert!(!none.contains("read_lines"));
        assert!(without("disallowedTools: Bash(rm:*)").contains("run_command"));
        assert!(without("tools: {bash: false, read: true}").contains("run_command"));
        assert!(without("permission: {edit: deny}").contains("apply_patch"));
    }

    #[test]
    fn an_unknown_tool_is_an_error_where_it_is_forbidden_and_nothing_where_it_is_given() {
        let error = powers(&agent("disallowedTools: [Bosh]")).expect_err("unknown");
        assert_eq!(error, "disallowedTools: there is no tool \"Bosh\"");
        assert_eq!(problems(&agent("disallowedTools: [Bosh]")), [error]);
        assert_eq!(
            problems(&agent("tools: [Bosh]")),
            ["tools: \"Bosh\" is no tool here and grants nothing"]
        );
    }

    #[test]
    fn model_and_skills_are_read_as_well() {
        let powers = powers(&agent("model: Sonnet\nuseSkills: ['a', 'b']")).expect("fine");
        assert_eq!(
            (powers.model.as_deref(), powers.skills),
            (Some("Sonnet"), vec!["a".to_owned(), "b".to_owned()])
        );
        assert_eq!(
            super::powers(&agent("model: inherit")).expect("fine").model,
            None
        );
    }
}
