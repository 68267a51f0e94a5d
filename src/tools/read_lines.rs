//! `read_lines`: a range of a text file, with line numbers.

use super::encoding::{Encoding, decode};
use super::{Action, Reach, Tool, args, blocking, schema_of, text};
use crate::agent::event::{EffectClass, Outcome};
use crate::gate::{Approved, Touch};
use crate::world::workspace::digest_of;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

pub const TOOL: Tool = Tool {
    name: "read_lines",
    about: include_str!("../../prompts/tools/read_lines.md"),
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
    #[schemars(range(min = 1))]
    start: u64,
    #[schemars(range(min = 1))]
    end: u64,
}

fn run(approved: Approved<Args>, reach: &Reach) -> Outcome {
    let args = approved.get();
    read(args, reach).map_or_else(Outcome::failed, Outcome::done)
}

fn read(args: &Args, reach: &Reach) -> Result<String, String> {
    let Args { path, start, end } = args;
    let place = reach.workspace.locate(path).map_err(|e| e.to_string())?;
    let (bytes, _) = reach
        .workspace
        .read_bytes(&place)
        .map_err(|e| e.to_string())?;
    let (content, encoding) = decode(path, &bytes)?;
    reach.workspace.notes().saw(&place, digest_of(&bytes));
    let content = content.strip_prefix('\u{feff}').unwrap_or(&content);
    let shown = text::numbered("read_lines", path, content, *start, *end)?;
    Ok(match encoding {
        Encoding::Utf8 => shown,
        Encoding::Latin1 => format!("{shown}\n[not UTF-8; read as Latin-1]"),
    })
}
