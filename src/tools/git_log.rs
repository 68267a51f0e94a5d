//! `git_log`: history: commits, one commit with its diff, who wrote which line, branches. Secrets are left out.

use super::repository::Git;
use super::walk::is_secret;
use super::{Action, Reach, RunFuture, Tool, args, schema_of, text};
use crate::agent::event::{Call, EffectClass, Outcome};
use crate::gate::{Approved, Touch};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

const RESULT_CHARS_MAX: usize = 8_000;
const COMMITS: &str = "-30";
const PRINT: [&str; 4] = [
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-show-signature",
];

pub const TOOL: Tool = Tool {
    name: "git_log",
    about: include_str!("../../prompts/tools/git_log.md"),
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
    what: Option<What>,
    rev: Option<String>,
    path: Option<String>,
}

#[derive(Deserialize, JsonSchema, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum What {
    Log,
    Show,
    Blame,
    Branches,
}

fn run(call: Approved<Call>, reach: Arc<Reach>) -> RunFuture {
    Box::pin(async move {
        let id = call.get().id.clone();
        let git = Git {
            reach: &reach,
            call: &id,
        };
        match call.typed::<Args>() {
            Ok(approved) => look(&git, approved.get())
                .await
                .map_or_else(Outcome::failed, Outcome::done),
            Err(error) => Outcome::failed(error),
        }
    })
}

async fn look(git: &Git<'_>, args: &Args) -> Result<String, String> {
    git.require_repository().await?;
    let rev = args.rev.as_deref().unwrap_or("HEAD");
    if rev.starts_with('-') || rev.contains(':') {
        return Err(format!(
            "{rev:?} is no commit, branch or range; a file is named by path"
        ));
    }
    let path = match &args.path {
        Some(path) => Some(
            git.reach
                .workspace
                .relative(path)
                .map_err(|e| e.to_string())?,
        ),
        None => None,
    };
    if path.as_deref().is_some_and(is_secret) {
        return Err("that file holds secrets, which are never shown".into());
    }
    let what = args.what.unwrap_or(What::Log);
    let found = match (what, path) {
        (What::Branches, _) => {
            let format = "--format=%(if)%(HEAD)%(then)* %(end)%(refname:short) %(objectname:short) %(contents:subject)";
            git.ask(&["branch", "--all", "--sort=-committerdate", format])
                .await?
        }
        (What::Blame, Some(path)) => {
            let args = ["blame", "--date=short", "--abbrev=8", rev, "--", &path];
            git.ask(&args).await?
        }
        (What::Blame, None) => return Err("/path: missing, but blame needs it".into()),
        (What::Log, path) => history(git, rev, path.as_deref(), "log").await?,
        (What::Show, path) => history(git, rev, path.as_deref(), "show").await?,
    };
    let hint = "; a path or an older rev shows less";
    match found.trim_end() {
        "" => Ok("Nothing found.".into()),
        found => Ok(text::head_lines(found, RESULT_CHARS_MAX, hint)),
    }
}

async fn history(
    git: &Git<'_>,
    rev: &str,
    path: Option<&str>,
    command: &str,
) -> Result<String, String> {
    let mut words = vec![command];
    words.extend(PRINT);
    match command {
        "show" => words.push("--format=%h %an, %as%n%n%B"),
        _ => words.extend([COMMITS, "--format=%h %as %an: %s"]),
    }
    let secret;
    let spec = format!(":(literal){}", path.unwrap_or("."));
    words.extend([rev, "--", spec.as_str()]);
    if command == "show" {
        secret = secrets(git, rev).await?;
        words.extend(secret.iter().map(String::as_str));
    }
    git.ask(&words).await
}

/// What to leave out of a diff: the secret files that the commit touches.
async fn secrets(git: &Git<'_>, rev: &str) -> Result<Vec<String>, String> {
    let args = [
        "show",
        "--name-only",
        "--format=",
        "--no-renames",
        "-z",
        rev,
        "--",
    ];
    let names = git.ask(&args).await?;
    let secret = names.split(['\0', '\n']).filter(|name| is_secret(name));
    Ok(secret
        .map(|name| format!(":(exclude,literal){name}"))
        .collect())
}
