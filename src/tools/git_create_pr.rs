//! `git_create_pr`: pushes the branch and opens its pull request on GitHub, or brings the open one up to date.

use super::{Action, Reach, RunFuture, Tool, schema_of};
use crate::agent::event::{Call, EffectClass, Outcome};
use crate::gate::{Approved, Project, PushPlan, PushWish, Touch};
use crate::world::github::{GitHub, Head, Proposal, mark};
use crate::world::remote::Remote;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

pub const TOOL: Tool = Tool {
    name: "git_create_pr",
    about: include_str!("../../prompts/tools/git_create_pr.md"),
    class: EffectClass::Probeable,
    schema: schema_of::<Args>,
    touches: |_| Ok(vec![Touch::Push(PushWish::default()), Touch::GitHubWrite]),
    action: Action::World { run, expect: None },
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    #[schemars(length(min = 1))]
    title: String,
    /// What changed and why, in Markdown
    #[schemars(length(min = 1))]
    summary: String,
    /// Which tests ran, and how they ended
    tests: Option<String>,
    draft: Option<bool>,
    /// The default branch if left out
    base: Option<String>,
    reviewers: Option<Vec<String>>,
    labels: Option<Vec<String>>,
}

fn run(call: Approved<Call>, reach: Arc<Reach>) -> RunFuture {
    Box::pin(async move {
        let id = call.get().id.clone();
        let done = async {
            let approved = call.typed::<Args>()?;
            let (plan, project) = (approved.push()?.clone(), approved.project()?.clone());
            let mark = mark(&reach.session, &id.0);
            let proposal = proposal(approved.into_inner(), &reach, &mark);
            propose(&reach.remote(&id), &plan, &project, proposal).await
        };
        let done = done
            .await
            .map_err(|why| format!("No pull request was opened or changed: {why}"));
        let mut outcome = done.map_or_else(Outcome::failed, Outcome::done);
        outcome.consequential = true;
        outcome
    })
}

/// Everything that can fail without consequences comes first.
async fn propose(
    remote: &Remote<'_>,
    plan: &PushPlan,
    project: &Project,
    wanted: Proposal,
) -> Result<String, String> {
    let github = GitHub::of(remote.hosting, project)?;
    let base = match &wanted.base {
        Some(base) => base.clone(),
        None => github.default_branch().await?,
    };
    if base == plan.branch {
        return Err(format!(
            "the current branch is {base} itself; make one with git_create_branch and commit there"
        ));
    }
    let pushed = remote.push(plan).await?;
    let owner = Remote::owner(plan).unwrap_or_else(|| project.owner.clone());
    let head = Head {
        owner: &owner,
        branch: &plan.branch,
    };
    let told = github.propose(head, &base, &wanted).await;
    told.map(|told| format!("{told}\n{pushed}"))
        .map_err(|why| format!("{why}\n{pushed}"))
}

fn proposal(args: Args, reach: &Reach, mark: &str) -> Proposal {
    let mut body = args.summary.trim().to_owned();
    // Nothing but what the question shows: the session's own plan was not written for others.
    if let Some(tests) = args.tests.filter(|tests| !tests.trim().is_empty()) {
        body.push_str(&format!("\n\n## Tests\n\n{}", tests.trim()));
    }
    body.push_str(&format!(
        "\n\n---\nBy Journeyman, session {}.\n{mark}",
        reach.session
    ));
    Proposal {
        title: args.title,
        body,
        base: args.base,
        draft: args.draft.unwrap_or_default(),
        reviewers: args.reviewers.unwrap_or_default(),
        labels: args.labels.unwrap_or_default(),
    }
}
