//! `read_output`: lines of a result that was too long, or that was left out of the conversation since.

use super::{Action, Reach, Tool, blocking, schema_of, text};
use crate::agent::event::{EffectClass, Outcome};
use crate::gate::Approved;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

pub const TOOL: Tool = Tool {
    name: "read_output",
    about: include_str!("../../prompts/tools/read_output.md"),
    class: EffectClass::Pure,
    schema: schema_of::<Args>,
    // The session's own outputs: nothing of the workspace, no path that somebody names.
    touches: |_| Ok(Vec::new()),
    action: Action::World {
        run: |call, reach: Arc<Reach>| blocking(call, reach, EffectClass::Pure, run),
        expect: None,
    },
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    call: String,
    #[schemars(range(min = 1))]
    start: u64,
    #[schemars(range(min = 1))]
    end: u64,
}

fn run(approved: Approved<Args>, reach: &Reach) -> Outcome {
    let Args { call, start, end } = approved.get();
    let shown = reach
        .outputs
        .read(call)
        .and_then(|content| text::numbered("read_output", call, &content, *start, *end));
    shown.map_or_else(Outcome::failed, Outcome::done)
}
