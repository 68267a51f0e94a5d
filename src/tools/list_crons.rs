//! `list_crons`: the person's schedules.

use super::{Action, Tool, schema_of};
use crate::agent::event::EffectClass;
use crate::gate::Touch;
use crate::schedule::wish::Wish;
use schemars::JsonSchema;
use serde::Deserialize;

pub const TOOL: Tool = Tool {
    name: "list_crons",
    about: include_str!("../../prompts/tools/list_crons.md"),
    class: EffectClass::Pure,
    schema: schema_of::<Args>,
    touches: |_| Ok(vec![Touch::Schedule(Wish::List)]),
    action: Action::Schedule(|_| Ok(Wish::List)),
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {}
