//! `delete_cron`: takes a schedule of the person out. They say yes to it.

use super::{Action, Tool, args, schema_of};
use crate::agent::event::EffectClass;
use crate::gate::Touch;
use crate::schedule::wish::Wish;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

pub const TOOL: Tool = Tool {
    name: "delete_cron",
    about: include_str!("../../prompts/tools/delete_cron.md"),
    // Twice is once.
    class: EffectClass::Idempotent,
    schema: schema_of::<Args>,
    touches: |json| Ok(vec![Touch::Schedule(wish(json)?)]),
    action: Action::Schedule(wish),
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    id: i64,
}

fn wish(json: &Value) -> Result<Wish, String> {
    let Args { id } = args(json)?;
    Ok(Wish::Delete { id })
}
