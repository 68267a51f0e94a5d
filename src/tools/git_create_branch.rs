//! `git_create_branch`: to a branch. One that is not there is made from the current commit, with the folder as it is.

use super::repository::Git;
use super::{Action, Reach, RunFuture, Tool, schema_of};
use crate::agent::event::{Call, EffectClass, Outcome};
use crate::gate::{Approved, Touch};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

pub const TOOL: Tool = Tool {
    name: "git_create_branch",
    about: include_str!("../../prompts/tools/git_create_branch.md"),
    // Who is on the branch already is where they wanted to be.
    class: EffectClass::Idempotent,
    schema: schema_of::<Args>,
    touches: |_| Ok(vec![Touch::RepositoryWrite]),
    action: Action::World { run, expect: None },
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    #[schemars(length(min = 1))]
    name: String,
}

fn run(call: Approved<Call>, reach: Arc<Reach>) -> RunFuture {
    Box::pin(async move {
        let id = call.get().id.clone();
        let git = Git {
            reach: &reach,
            call: &id,
        };
        let done = match call.typed::<Args>() {
            Ok(approved) => create(&git, &approved.get().name).await,
            Err(error) => Err(error),
        };
        let mut outcome = done.map_or_else(Outcome::failed, Outcome::done);
        outcome.consequential = true;
        outcome
    })
}

async fn create(git: &Git<'_>, name: &str) -> Result<String, String> {
    git.require_repository().await?;
    let valid = git.ask(&["check-ref-format", "--branch", name]).await;
    if name.starts_with('-') || valid.is_err() {
        return Err(format!(
            "{name:?} is no name of a branch; write one like fix/discount"
        ));
    }
    if !git.has_commits().await {
        return Err("the repository has no commit yet; git_commit makes one".into());
    }
    let full = format!("refs/heads/{name}");
    let there = git
        .ask(&["rev-parse", "--verify", "--quiet", &full])
        .await
        .ok();
    let here = git.ask(&["rev-parse", "HEAD"]).await?;
    let Some(there) = there else {
        git.ask(&["switch", "--quiet", "--no-track", "--create", name])
            .await?;
        return Ok(format!("On the new branch {name}, at {:.10}.", here.trim()));
    };
    git.ask(&["switch", "--quiet", "--no-guess", name])
        .await
        .map_err(|why| {
            format!("{why}\ngit_commit or git_stash takes the changes out of the way.")
        })?;
    let files = match there == here {
        true => "",
        false => " The files are those of its commit: read them again before you rely on them.",
    };
    Ok(format!(
        "On the branch {name}, which was there, at {:.10}.{files}",
        there.trim()
    ))
}
