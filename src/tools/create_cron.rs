//! `create_cron`: a message to the agent on a schedule. The person says yes to each.

use super::{Action, Tool, args, schema_of};
use crate::agent::event::EffectClass;
use crate::gate::Touch;
use crate::schedule::wish::{Order, Wish};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

pub const TOOL: Tool = Tool {
    name: "create_cron",
    about: include_str!("../../prompts/tools/create_cron.md"),
    // The desk keeps one for each call.
    class: EffectClass::Idempotent,
    schema: schema_of::<Args>,
    touches: |json| Ok(vec![Touch::Schedule(wish(json)?)]),
    action: Action::Schedule(wish),
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// 5 cron fields, every 30m, or at 2026-12-01 09:00
    #[schemars(length(min = 1))]
    schedule: String,
    #[schemars(length(min = 1))]
    message: String,
    // An IANA name; the configured zone where there is none.
    timezone: Option<String>,
}

fn wish(json: &Value) -> Result<Wish, String> {
    let Args {
        schedule,
        message,
        timezone,
    } = args(json)?;
    Ok(Wish::Add(Box::new(Order {
        schedule,
        message,
        timezone,
        ..Order::default()
    })))
}
