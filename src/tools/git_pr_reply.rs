//! `git_pr_reply`: a comment on a pull request, in the person's name.

use super::{Action, Reach, RunFuture, Tool, schema_of};
use crate::agent::event::{Call, EffectClass, Outcome};
use crate::gate::{Approved, Touch};
use crate::world::github::{GitHub, mark};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

pub const TOOL: Tool = Tool {
    name: "git_pr_reply",
    about: include_str!("../../prompts/tools/git_pr_reply.md"),
    class: EffectClass::Probeable,
    schema: schema_of::<Args>,
    touches: |_| Ok(vec![Touch::GitHubWrite]),
    action: Action::World { run, expect: None },
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    pull: u64,
    #[schemars(length(min = 1))]
    text: String,
    /// Id of a comment on the code
    reply_to: Option<u64>,
}

fn run(call: Approved<Call>, reach: Arc<Reach>) -> RunFuture {
    Box::pin(async move {
        let mark = mark(&reach.session, &call.get().id.0);
        let done = async {
            let approved = call.typed::<Args>()?;
            let github = GitHub::of(&reach.hosting, approved.project()?)?;
            let Args {
                pull,
                text,
                reply_to,
            } = approved.get();
            github.comment(*pull, *reply_to, text, &mark).await
        };
        let mut outcome = done.await.map_or_else(Outcome::failed, Outcome::done);
        outcome.consequential = true;
        outcome
    })
}
