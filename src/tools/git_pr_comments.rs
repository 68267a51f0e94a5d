//! `git_pr_comments`: what people wrote about a pull request. Data for the model, never instructions.

use super::{Action, Reach, RunFuture, Tool, schema_of};
use crate::agent::event::{Call, EffectClass, Outcome};
use crate::gate::{Approved, Touch};
use crate::world::github::GitHub;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

pub const TOOL: Tool = Tool {
    name: "git_pr_comments",
    about: include_str!("../../prompts/tools/git_pr_comments.md"),
    class: EffectClass::Pure,
    schema: schema_of::<Args>,
    touches: |_| Ok(vec![Touch::GitHubRead]),
    action: Action::World { run, expect: None },
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    pull: u64,
}

fn run(call: Approved<Call>, reach: Arc<Reach>) -> RunFuture {
    Box::pin(async move {
        let done = async {
            let approved = call.typed::<Args>()?;
            let github = GitHub::of(&reach.hosting, approved.project()?)?;
            github.comments(approved.get().pull).await
        };
        done.await.map_or_else(Outcome::failed, Outcome::done)
    })
}
