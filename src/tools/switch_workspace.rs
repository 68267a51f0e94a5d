//! `switch_workspace`: the session goes to another workspace, with every tool. It is a line of the journal and nothing else.

use super::{Action, Tool, args, schema_of};
use crate::agent::event::EffectClass;
use crate::gate::Touch;
use schemars::JsonSchema;
use serde::Deserialize;

pub const TOOL: Tool = Tool {
    name: "switch_workspace",
    about: include_str!("../../prompts/tools/switch_workspace.md"),
    class: EffectClass::Pure,
    schema: schema_of::<Args>,
    touches: |json| Ok(vec![Touch::Workspace(args::<Args>(json)?.name)]),
    action: Action::Switch,
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    name: String,
}
