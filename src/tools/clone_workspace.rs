//! `clone_workspace`: a repository becomes one more workspace, as it was approved. Nothing of it runs: no hooks, no
//! submodules.

use super::{Action, Reach, RunFuture, Tool, args, schema_of};
use crate::agent::event::{Call, EffectClass, Outcome};
use crate::gate::{Approved, Touch};
use crate::world::projects::unset;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

pub const TOOL: Tool = Tool {
    name: "clone_workspace",
    about: include_str!("../../prompts/tools/clone_workspace.md"),
    // It becomes one in a single step; what an interrupted clone left is made again.
    class: EffectClass::Idempotent,
    schema: schema_of::<Args>,
    touches: |json| Ok(vec![Touch::Clone(args::<Args>(json)?.url)]),
    action: Action::World { run, expect: None },
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    #[schemars(length(min = 1))]
    url: String,
}

fn run(call: Approved<Call>, reach: Arc<Reach>) -> RunFuture {
    Box::pin(async move {
        let id = &call.get().id;
        let done = async {
            let projects = reach.projects.as_ref().ok_or_else(unset)?;
            let plan = call.clone_plan()?;
            reach.remote(id).clone_into(projects, plan).await
        };
        let done = done
            .await
            .map_err(|why| format!("Nothing was cloned: {why}."));
        let mut outcome = done.map_or_else(Outcome::failed, Outcome::done);
        outcome.consequential = true;
        outcome
    })
}
