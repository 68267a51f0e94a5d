//! `request_user_approval`: a free question to the person, whose next plain message is the result.

use super::{Action, Tool, args, schema_of};
use crate::agent::event::EffectClass;
use schemars::JsonSchema;
use serde::Deserialize;

pub const TOOL: Tool = Tool {
    name: "request_user_approval",
    about: include_str!("../../prompts/tools/request_user_approval.md"),
    class: EffectClass::Pure,
    schema: schema_of::<Args>,
    touches: |_| Ok(Vec::new()),
    // The arguments fit the schema by then; an empty question would be refused there.
    action: Action::Question(|json| {
        args::<Args>(json)
            .map(|args| args.question)
            .unwrap_or_default()
    }),
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    #[schemars(length(min = 1))]
    question: String,
}
