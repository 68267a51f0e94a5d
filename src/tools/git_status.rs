//! `git_status`: the branch and what changed.

use super::repository::Git;
use super::{Action, Reach, RunFuture, Tool, schema_of, text};
use crate::agent::event::{Call, EffectClass, Outcome};
use crate::gate::{Approved, Touch};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

const RESULT_CHARS_MAX: usize = 4_000;

pub const TOOL: Tool = Tool {
    name: "git_status",
    about: include_str!("../../prompts/tools/git_status.md"),
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
        status(&git)
            .await
            .map_or_else(Outcome::failed, Outcome::done)
    })
}

async fn status(git: &Git<'_>) -> Result<String, String> {
    git.require_repository().await?;
    let text = git.ask(&["status", "--short", "--branch"]).await?;
    let clean = if text.lines().count() <= 1 {
        "Nothing changed since the last commit."
    } else {
        ""
    };
    let text = format!("{text}{clean}");
    Ok(text::head_lines(text.trim_end(), RESULT_CHARS_MAX, ""))
}
