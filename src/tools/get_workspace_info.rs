//! `get_workspace_info`: where the session works: path, branch, what is not committed, files, last commits.

use super::repository::Git;
use super::walk::{Step, Walk, Walked};
use super::{Action, Reach, RunFuture, Tool, schema_of, text};
use crate::agent::event::{Call, EffectClass, Outcome};
use crate::gate::{Approved, Touch};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

const COMMITS: &str = "-5";
const SUBJECTS_CHARS_MAX: usize = 1_000;

pub const TOOL: Tool = Tool {
    name: "get_workspace_info",
    about: include_str!("../../prompts/tools/get_workspace_info.md"),
    class: EffectClass::Pure,
    schema: schema_of::<Args>,
    touches: |_| Ok(vec![Touch::RepositoryRead]),
    action: Action::World { run, expect: None },
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {}

fn run(call: Approved<Call>, reach: Arc<Reach>) -> RunFuture {
    Box::pin(async move {
        let git = Git {
            reach: &reach,
            call: &call.get().id,
        };
        let (files, repository) = (files(&reach).await, repository(&git).await);
        let root = reach.workspace.root().display();
        let repository = repository.unwrap_or_else(|why| format!("No git: {why}."));
        Outcome::done(format!("Path: {root}\nFiles: {files}\n{repository}"))
    })
}

/// Those that list_files would show.
async fn files(reach: &Arc<Reach>) -> String {
    let reach = reach.clone();
    let counted = tokio::task::spawn_blocking(move || {
        let mut files = 0_usize;
        let walked = Walk::new(&reach.workspace, None, None)?.files(&reach.workspace, |_| {
            files += 1;
            Step::On
        })?;
        let more = if walked == Walked::All {
            ""
        } else {
            " and more"
        };
        Ok::<_, String>(format!("{files}{more}"))
    });
    let counted = counted.await.map_err(|error| error.to_string());
    counted.and_then(|files| files).unwrap_or_else(|why| why)
}

async fn repository(git: &Git<'_>) -> Result<String, String> {
    git.require_repository().await?;
    let head = ["symbolic-ref", "--quiet", "--short", "HEAD"];
    let branch = git.ask(&head).await;
    let branch = branch.unwrap_or_else(|_| "none (detached)".into());
    let status = git.status().await?;
    let new = status.iter().filter(|entry| entry.is_untracked()).count();
    let changed = status.len() - new;
    let dirty = match status.len() {
        0 => "no".to_owned(),
        _ => format!("{changed} changed, {new} new"),
    };
    let commits = match git.has_commits().await {
        true => {
            let format = "--format=%h %as %an: %s";
            let words = ["log", COMMITS, "--no-show-signature", format];
            git.ask(&words).await?
        }
        false => "none yet".into(),
    };
    let commits = text::head_lines(commits.trim_end(), SUBJECTS_CHARS_MAX, "");
    Ok(format!(
        "Branch: {}\nDirty: {dirty}\nLast commits:\n{commits}",
        branch.trim()
    ))
}
