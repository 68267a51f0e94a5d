//! `plan_tasks`: a graph of tasks for an objective, which a person can look at and run.

use super::{Action, Tool, args, schema_of};
use crate::agent::event::EffectClass;
use schemars::JsonSchema;
use serde::Deserialize;

pub const TOOL: Tool = Tool {
    name: "plan_tasks",
    about: include_str!("../../prompts/tools/plan_tasks.md"),
    class: EffectClass::Pure,
    schema: schema_of::<Args>,
    touches: |_| Ok(Vec::new()),
    action: Action::Draft(|json| {
        let args = args::<Args>(json).map(|args| args.objective);
        args.unwrap_or_default()
    }),
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    #[schemars(length(min = 1, max = 4000))]
    objective: String,
}
