//! `git_commit`: the session's work as one commit on the current branch.
//!
//! Takes the changes of tracked files and the new files that the session wrote. Never a secret, never an ignored file,
//! never somebody else's new file; what it leaves it names. The trailer lets a probe find the commit after a crash.

use super::repository::{Entry, Git};
use super::{Action, Reach, RunFuture, Tool, schema_of, text};
use crate::agent::event::{Call, CallId, EffectClass, Expectation, Outcome};
use crate::gate::{Approved, Touch};
use crate::world::trust::HookRule;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

const TYPES: [&str; 11] = [
    "build", "chore", "ci", "docs", "feat", "fix", "perf", "refactor", "revert", "style", "test",
];
const MESSAGE_CHARS_MAX: usize = 10_000;
const LEFT_SHOWN_MAX: usize = 20;
/// Names the call that made the commit, as `SESSION/CALL`.
pub const TRAILER: &str = "Journeyman-Effect";

pub const TOOL: Tool = Tool {
    name: "git_commit",
    about: include_str!("../../prompts/tools/git_commit.md"),
    class: EffectClass::Probeable,
    schema: schema_of::<Args>,
    touches: |_| Ok(vec![Touch::RepositoryWrite]),
    action: Action::World {
        run,
        expect: Some(|_, _| {
            Some(Expectation {
                commit: true,
                ..Expectation::default()
            })
        }),
    },
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    #[schemars(length(min = 1))]
    message: String,
}

fn run(call: Approved<Call>, reach: Arc<Reach>) -> RunFuture {
    Box::pin(async move {
        let id = call.get().id.clone();
        let git = Git {
            reach: &reach,
            call: &id,
        };
        let done = match call.typed::<Args>() {
            Ok(approved) => commit(&git, &approved.get().message).await,
            Err(error) => Err(error),
        };
        let mut outcome = done.map_or_else(Outcome::failed, Outcome::done);
        outcome.consequential = true;
        outcome
    })
}

async fn commit(git: &Git<'_>, message: &str) -> Result<String, String> {
    check_message(message)?;
    git.require_repository().await?;
    require_identity(git).await?;
    let (taken, left): (Vec<Entry>, Vec<Entry>) = git
        .status()
        .await?
        .into_iter()
        .partition(|entry| takes(git, entry));
    refuse(&taken, &left)?;
    if taken.is_empty() {
        return Err(format!(
            "there is nothing to commit: no tracked file changed.{}",
            tell_left(&left)
        ));
    }
    // What is staged whole already may name a file that is gone, which `add` would not find.
    let to_stage: Vec<&str> = taken
        .iter()
        .filter(|e| e.folder != ' ')
        .map(|e| e.path.as_str())
        .collect();
    if !to_stage.is_empty() {
        let add = [
            "--literal-pathspecs",
            "add",
            "--all",
            "--pathspec-from-file=-",
            "--pathspec-file-nul",
        ];
        git.run(&add, Some(to_stage.join("\0").into_bytes()))
            .await?;
    }
    let effect = format!("{}/{}", git.reach.session, git.call);
    let text = with_trailer(message, &effect).into_bytes();
    let hooks = record(git, text).await?;
    // The commit stands, whatever happens to the words about it.
    let told = git
        .ask(&[
            "log",
            "-1",
            "--format=%h %s",
            "--shortstat",
            "--no-show-signature",
        ])
        .await;
    let told = told.unwrap_or_else(|error| format!("(done, but it could not be shown: {error})"));
    let told = told
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("\n");
    Ok(format!("Committed {told}.{hooks}{}", tell_left(&left)))
}

/// Makes the commit; what is to be said of its hooks.
async fn record(git: &Git<'_>, text: Vec<u8>) -> Result<String, String> {
    let plain = [
        "commit",
        "--quiet",
        "--no-gpg-sign",
        "--cleanup=whitespace",
        "--file=-",
    ];
    let rule = git.reach.trust.hooks(&git.reach.workspace);
    let HookRule::Run(hooks) = rule else {
        git.run(&[&plain[..], &["--no-verify"]].concat(), Some(text))
            .await?;
        return Ok(match rule {
            HookRule::Off(Some(why)) => format!("\nThe repository's hooks did not run: {why}."),
            HookRule::Off(None) | HookRule::Run(_) => String::new(),
        });
    };
    let names = hooks.with_commit().join(", ");
    let made = git.run_with_hooks(&plain, Some(text), &hooks.folder).await;
    let refused = |error| match names.as_str() {
        "" => error,
        names => format!(
            "{error}\nThe repository's own hooks ran ({names}), as the person wants. If one of them refused: do what it says, then \
             commit again. They have no network and write only in the workspace."
        ),
    };
    let finished = made.map_err(refused)?;
    let remark = finished.remark.map(|remark| format!("\n{remark}"));
    Ok(match names.as_str() {
        "" => String::new(),
        names => format!("\nHooks ran: {names}.{}", remark.unwrap_or_default()),
    })
}

/// The commit that a call made, whatever branch it is on by now, as the model reads about it.
///
/// # Errors
/// Where git cannot tell.
pub async fn find_commit(call: &CallId, reach: &Reach) -> Result<Option<String>, String> {
    let git = Git { reach, call };
    git.require_repository().await?;
    if !git.has_commits().await {
        return Ok(None);
    }
    let effect = format!("{}/{call}", reach.session);
    let grep = format!("--grep={TRAILER}: {effect}");
    let format = format!("--format=%h %s%x1f%(trailers:key={TRAILER},valueonly,separator=%x1f)");
    let log = [
        "log",
        "--all",
        "--reflog",
        "--fixed-strings",
        &grep,
        &format,
        "--no-show-signature",
    ];
    let found = git.ask(&log).await?;
    // The last trailer is ours; a message may name other calls, and 1.1 is found in 1.10.
    let made = found.lines().find_map(|line| {
        let (told, trailers) = line.split_once('\x1f')?;
        (trailers.rsplit('\x1f').next() == Some(effect.as_str())).then_some(told)
    });
    Ok(made.map(|told| format!("Committed {told} (found after an interruption).")))
}

/// Whether the commit takes this change.
fn takes(git: &Git<'_>, entry: &Entry) -> bool {
    !entry.is_secret()
        && (!entry.is_untracked() || git.reach.workspace.notes().has_written(&entry.path))
}

fn refuse(taken: &[Entry], left: &[Entry]) -> Result<(), String> {
    let names = |found: Vec<&Entry>| {
        found
            .iter()
            .map(|e| e.path.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let unmerged: Vec<&Entry> = taken
        .iter()
        .chain(left)
        .filter(|entry| entry.is_unmerged())
        .collect();
    if !unmerged.is_empty() {
        return Err(format!(
            "a merge is not finished; resolve these files first: {}",
            names(unmerged)
        ));
    }
    let secret: Vec<&Entry> = left.iter().filter(|entry| entry.is_staged()).collect();
    if !secret.is_empty() {
        let names = names(secret);
        return Err(format!(
            "secrets are never committed, but staged: {names}; unstage: git restore --staged {names}"
        ));
    }
    Ok(())
}

/// git would otherwise invent an address from the machine's name.
async fn require_identity(git: &Git<'_>) -> Result<(), String> {
    for (key, example) in [
        ("user.name", "Ada Lovelace"),
        ("user.email", "ada@example.org"),
    ] {
        let value = git.ask(&["config", "--get", key]).await.unwrap_or_default();
        if value.trim().is_empty() {
            return Err(format!(
                "git's {key} is not set, so nobody can be named as author. The person can set it: git config {key} {example:?}"
            ));
        }
    }
    Ok(())
}

/// `type(scope)!: description`.
fn check_message(message: &str) -> Result<(), String> {
    let subject = message.lines().next().unwrap_or_default();
    let fits = subject.split_once(": ").is_some_and(|(head, description)| {
        let head = head.strip_suffix('!').unwrap_or(head);
        let kind = match head.split_once('(') {
            Some((kind, scope)) => scope
                .strip_suffix(')')
                .filter(|scope| !scope.is_empty())
                .map(|_| kind),
            None => Some(head),
        };
        kind.is_some_and(|kind| TYPES.contains(&kind)) && !description.trim().is_empty()
    });
    if message.chars().count() > MESSAGE_CHARS_MAX || message.contains('\0') {
        return Err(format!(
            "the message must have at most {MESSAGE_CHARS_MAX} characters, and no NUL"
        ));
    }
    match fits {
        true => Ok(()),
        false => Err(format!(
            "the first line {subject:?} is no conventional commit; write `type(scope): what it does`, with one of the types {}",
            TYPES.join(", ")
        )),
    }
}

/// Trailers stand in one last paragraph.
fn with_trailer(message: &str, effect: &str) -> String {
    let message = message.trim_end();
    let is_trailer = |line: &str| {
        line.split_once(": ")
            .is_some_and(|(key, _)| key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'))
    };
    let last = message.rsplit_once("\n\n").map(|(_, paragraph)| paragraph);
    let gap = if last.is_some_and(|paragraph| paragraph.lines().all(is_trailer)) {
        "\n"
    } else {
        "\n\n"
    };
    format!("{message}{gap}{TRAILER}: {effect}\n")
}

fn tell_left(left: &[Entry]) -> String {
    let tell = |entry: &Entry| match entry.is_secret() {
        true => format!("{} (secret)", entry.path),
        false => format!("{} (not written by this session)", entry.path),
    };
    let shown = left
        .iter()
        .take(LEFT_SHOWN_MAX)
        .map(tell)
        .collect::<Vec<_>>()
        .join(", ");
    let dots = if left.len() > LEFT_SHOWN_MAX {
        ", …"
    } else {
        ""
    };
    match left.len() {
        0 => String::new(),
        n => format!("\nLeft out, {}: {shown}{dots}", text::count(n, "file")),
    }
}
