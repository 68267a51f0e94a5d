//! `read_lines`: a range of a text file, with line numbers.

use super::{Action, Reach, Tool, args, blocking, schema_of, text};
use crate::agent::event::{EffectClass, Outcome};
use crate::gate::{Approved, Touch};
use crate::world::workspace::digest_of;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

const LINES_MAX: u64 = 200;
const LINE_CHARS_MAX: usize = 1_000;
/// Of the whole result; a file of long lines ends earlier, visibly.
const RESULT_CHARS_MAX: usize = 40_000;

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
    if *start < 1 {
        return Err("start is 0, but lines count from 1".into());
    }
    if end < start {
        return Err(format!("end ({end}) is before start ({start})"));
    }
    if end - start >= LINES_MAX {
        let last = start.saturating_add(LINES_MAX - 1);
        return Err(format!(
            "more than {LINES_MAX} lines; read {start} to {last} first"
        ));
    }
    let place = reach.workspace.locate(path).map_err(|e| e.to_string())?;
    let content = reach
        .workspace
        .read_text(&place)
        .map_err(|e| e.to_string())?;
    reach
        .workspace
        .notes()
        .saw(&place, digest_of(content.as_bytes()));
    let lines: Vec<&str> = content
        .strip_prefix('\u{feff}')
        .unwrap_or(&content)
        .lines()
        .collect();
    let total = lines.len() as u64;
    if total == 0 {
        return Ok(format!("{path} is empty."));
    }
    if *start > total {
        return Err(format!(
            "start ({start}) is past the end: {path} has {}",
            text::count(lines.len(), "line")
        ));
    }
    let mut shown = Vec::new();
    let mut chars = 0;
    for number in *start..=(*end).min(total) {
        let line = format!(
            "L{number}: {}",
            text::line(lines[number as usize - 1], LINE_CHARS_MAX)
        );
        chars += line.chars().count();
        if chars > RESULT_CHARS_MAX {
            shown.push(format!(
                "[the result is full; read_lines({path:?}, {number}, {end}) shows the rest]"
            ));
            return Ok(shown.join("\n"));
        }
        shown.push(line);
    }
    if *end >= total {
        shown.push(format!(
            "[end of file: {}]",
            text::count(lines.len(), "line")
        ));
    }
    Ok(shown.join("\n"))
}
