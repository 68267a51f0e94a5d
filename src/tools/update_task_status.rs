//! `update_task_status`: where one step of the plan stands.

use super::{Action, Tool, args, schema_of};
use crate::agent::event::EffectClass;
use crate::agent::plan::{Plan, StepStatus};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

pub const TOOL: Tool = Tool {
    name: "update_task_status",
    about: include_str!("../../prompts/tools/update_task_status.md"),
    class: EffectClass::Pure,
    schema: schema_of::<Args>,
    touches: |_| Ok(Vec::new()),
    action: Action::Plan(run),
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    // Counted from 1, as the plan is shown.
    #[schemars(range(min = 1))]
    step: usize,
    status: StepStatus,
}

fn run(plan: &Plan, json: &Value) -> Result<(Option<Plan>, String), String> {
    let args = args::<Args>(json)?;
    if plan.is_empty() {
        return Err("there is no plan yet; create_task_plan makes one".into());
    }
    let next = plan.with_status(args.step, args.status)?;
    let text = next.checklist();
    Ok((Some(next), text))
}
