//! `create_task_plan`: the steps of the work, in place of an earlier plan.

use super::{Action, Tool, args, schema_of};
use crate::agent::event::EffectClass;
use crate::agent::plan::Plan;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

const STEP_CHARS_MAX: usize = 300;

pub const TOOL: Tool = Tool {
    name: "create_task_plan",
    about: include_str!("../../prompts/tools/create_task_plan.md"),
    class: EffectClass::Pure,
    schema: schema_of::<Args>,
    touches: |_| Ok(Vec::new()),
    action: Action::Plan(run),
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    #[schemars(length(min = 1, max = 30))]
    steps: Vec<String>,
}

fn run(_: &Plan, json: &Value) -> Result<(Option<Plan>, String), String> {
    let steps = args::<Args>(json)?.steps;
    for (i, step) in steps.iter().enumerate() {
        if step.trim().is_empty() || step.chars().count() > STEP_CHARS_MAX {
            return Err(format!(
                "step {} must have 1 to {STEP_CHARS_MAX} characters",
                i + 1
            ));
        }
    }
    // A step is one line of the checklist.
    let line = |step: String| step.split_whitespace().collect::<Vec<_>>().join(" ");
    let plan = Plan::new(steps.into_iter().map(line).collect());
    let text = plan.checklist();
    Ok((Some(plan), text))
}
