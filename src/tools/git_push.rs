//! `git_push`: a branch to its remote, as it was approved. Never runs hooks; never overwrites what was not seen.

use super::{Action, Reach, RunFuture, Tool, args, schema_of};
use crate::agent::event::{Call, EffectClass, Outcome};
use crate::gate::{Approved, PushWish, Touch};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

pub const TOOL: Tool = Tool {
    name: "git_push",
    about: include_str!("../../prompts/tools/git_push.md"),
    class: EffectClass::Probeable,
    schema: schema_of::<Args>,
    touches: |json| {
        let Args { branch, force } = args(json)?;
        let force = force.unwrap_or_default();
        Ok(vec![Touch::Push(PushWish { branch, force })])
    },
    action: Action::World { run, expect: None },
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    branch: Option<String>,
    force: Option<bool>,
}

fn run(call: Approved<Call>, reach: Arc<Reach>) -> RunFuture {
    Box::pin(async move {
        let remote = reach.remote(&call.get().id);
        let done = match call.push() {
            Ok(plan) => remote.push(plan).await,
            Err(why) => Err(format!("Nothing was pushed: {why}.")),
        };
        let mut outcome = done.map_or_else(Outcome::failed, Outcome::done);
        outcome.consequential = true;
        outcome
    })
}
