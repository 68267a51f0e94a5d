//! `get_task_plan`: the plan as it stands.

use super::{Action, Tool, schema_of};
use crate::agent::event::EffectClass;
use crate::agent::plan::Plan;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

pub const TOOL: Tool = Tool {
    name: "get_task_plan",
    about: include_str!("../../prompts/tools/get_task_plan.md"),
    class: EffectClass::Pure,
    schema: schema_of::<Args>,
    touches: |_| Ok(Vec::new()),
    action: Action::Plan(run),
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {}

fn run(plan: &Plan, _: &Value) -> Result<(Option<Plan>, String), String> {
    match plan.is_empty() {
        true => Ok((
            None,
            "There is no plan yet; create_task_plan makes one.".into(),
        )),
        false => Ok((None, plan.checklist())),
    }
}
