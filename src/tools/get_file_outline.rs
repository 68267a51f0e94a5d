//! `get_file_outline`: what stands in a file, by name and lines.

use super::encoding::decode;
use super::{Action, Reach, Tool, args, blocking, schema_of};
use crate::agent::event::{EffectClass, Outcome};
use crate::gate::{Approved, Touch};
use crate::outline::{outline, render};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use std::time::{Duration, Instant};

const RESULT_CHARS_MAX: usize = 4_000;

pub const TOOL: Tool = Tool {
    name: "get_file_outline",
    about: include_str!("../../prompts/tools/get_file_outline.md"),
    class: EffectClass::Pure,
    schema: schema_of::<Args>,
    touches: |json| Ok(vec![Touch::Read(args::<Args>(json)?.path)]),
    action: Action::World {
        run: |call, reach: Arc<Reach>| blocking(call, reach, EffectClass::Pure, run),
        expect: None,
    },
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    path: String,
}

fn run(approved: Approved<Args>, reach: &Reach) -> Outcome {
    show(&approved.get().path, reach).map_or_else(Outcome::failed, Outcome::done)
}

fn show(path: &str, reach: &Reach) -> Result<String, String> {
    let place = reach.workspace.locate(path).map_err(|e| e.to_string())?;
    let (bytes, _) = reach
        .workspace
        .read_bytes(&place)
        .map_err(|e| e.to_string())?;
    let (text, _) = decode(path, &bytes)?;
    let limits = reach.outline;
    let started = Instant::now();
    let is_over = || started.elapsed() > Duration::from_millis(limits.ms_max);
    let found = outline(&place, &text, limits.bytes_max, &is_over);
    Ok(render(&found, RESULT_CHARS_MAX))
}
