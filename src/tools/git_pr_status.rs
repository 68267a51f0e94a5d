//! `git_pr_status`: a pull request's state, checks and reviews.

use super::repository::Git;
use super::{Action, Reach, RunFuture, Tool, schema_of};
use crate::agent::event::{Call, CallId, EffectClass, Outcome};
use crate::gate::{Approved, Project, Touch};
use crate::world::github::{GitHub, Head, number};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

pub const TOOL: Tool = Tool {
    name: "git_pr_status",
    about: include_str!("../../prompts/tools/git_pr_status.md"),
    class: EffectClass::Pure,
    schema: schema_of::<Args>,
    touches: |_| Ok(vec![Touch::GitHubRead]),
    action: Action::World { run, expect: None },
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Number; that of the current branch by default
    pull: Option<u64>,
}

fn run(call: Approved<Call>, reach: Arc<Reach>) -> RunFuture {
    Box::pin(async move {
        let id = call.get().id.clone();
        let done = async {
            let approved = call.typed::<Args>()?;
            let project = approved.project()?;
            let github = GitHub::of(&reach.hosting, project)?;
            let pull = match approved.get().pull {
                Some(pull) => pull,
                None => current(&github, &reach, &id, project).await?,
            };
            github.status(pull).await
        };
        done.await.map_or_else(Outcome::failed, Outcome::done)
    })
}

async fn current(
    github: &GitHub,
    reach: &Reach,
    id: &CallId,
    project: &Project,
) -> Result<u64, String> {
    let git = Git { reach, call: id };
    let branch = git
        .ask(&["symbolic-ref", "--quiet", "--short", "HEAD"])
        .await;
    let branch = branch.map_err(|_| "no branch is checked out; name the pull request")?;
    let branch = branch.trim();
    let head = Head {
        owner: &project.owner,
        branch,
    };
    match github.find(head).await? {
        Some(pull) => number(&pull),
        None => Err(format!(
            "{branch} has no open pull request; name one by its number"
        )),
    }
}
