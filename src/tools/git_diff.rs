//! `git_diff`: what changed since the last commit, staged or not. Secrets are left out.

use super::repository::{Entry, Git};
use super::{Action, Reach, RunFuture, Tool, args, schema_of, text};
use crate::agent::event::{Call, EffectClass, Outcome};
use crate::gate::{Approved, Touch};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::Path;
use std::sync::Arc;

const RESULT_CHARS_MAX: usize = 8_000;
const NAMES_SHOWN_MAX: usize = 20;
/// Against what a repository without a commit is compared: git's name of the empty tree.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

pub const TOOL: Tool = Tool {
    name: "git_diff",
    about: include_str!("../../prompts/tools/git_diff.md"),
    class: EffectClass::Pure,
    schema: schema_of::<Args>,
    touches: |json| {
        let path = args::<Args>(json)?.path.map(Touch::Read);
        Ok([Touch::RepositoryRead].into_iter().chain(path).collect())
    },
    action: Action::World { run, expect: None },
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    path: Option<String>,
}

fn run(call: Approved<Call>, reach: Arc<Reach>) -> RunFuture {
    Box::pin(async move {
        let id = call.get().id.clone();
        let git = Git {
            reach: &reach,
            call: &id,
        };
        match call.typed::<Args>() {
            Ok(approved) => diff(&git, approved.get())
                .await
                .map_or_else(Outcome::failed, Outcome::done),
            Err(error) => Outcome::failed(error),
        }
    })
}

async fn diff(git: &Git<'_>, args: &Args) -> Result<String, String> {
    git.require_repository().await?;
    let path = args.path.as_deref().unwrap_or(".");
    let path = git
        .reach
        .workspace
        .relative(path)
        .map_err(|e| e.to_string())?;
    let base = if git.has_commits().await {
        "HEAD"
    } else {
        EMPTY_TREE
    };
    let inside = |entry: &Entry| path == "." || Path::new(&entry.path).starts_with(&path);
    let entries: Vec<Entry> = git.status().await?.into_iter().filter(inside).collect();
    let mut specs = vec![format!(":(literal){path}")];
    let secrets: Vec<&Entry> = entries.iter().filter(|entry| entry.is_secret()).collect();
    specs.extend(
        secrets
            .iter()
            .map(|entry| format!(":(exclude,literal){}", entry.path)),
    );
    let mut words = vec![
        "diff",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        base,
        "--",
    ];
    words.extend(specs.iter().map(String::as_str));
    let text = git.ask(&words).await?;
    let new: Vec<&Entry> = entries
        .iter()
        .filter(|entry| entry.is_untracked() && !entry.is_secret())
        .collect();
    let mut parts = Vec::new();
    if text.is_empty() {
        parts.push("No tracked file changed since the last commit.".to_owned());
    } else {
        parts.push(text::head_lines(
            text.trim_end(),
            RESULT_CHARS_MAX,
            "; git_diff of one path shows less",
        ));
    }
    for (found, what) in [(new, "untracked file"), (secrets, "secret file")] {
        let shown = found
            .iter()
            .take(NAMES_SHOWN_MAX)
            .map(|entry| entry.path.as_str())
            .collect::<Vec<_>>()
            .join(", ");
        let dots = if found.len() > NAMES_SHOWN_MAX {
            ", …"
        } else {
            ""
        };
        if !found.is_empty() {
            parts.push(format!(
                "{} not in the diff: {shown}{dots}",
                text::count(found.len(), what)
            ));
        }
    }
    Ok(parts.join("\n"))
}
