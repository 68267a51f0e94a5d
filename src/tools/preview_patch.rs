//! `preview_patch`: what `apply_patch` would do, as a unified diff. Writes nothing.

use super::patch::{Args, Planned, plan};
use super::{Action, Reach, Tool, args, blocking, schema_of, text};
use crate::agent::event::{EffectClass, Outcome};
use crate::gate::{Approved, Touch};
use std::sync::Arc;

const RESULT_CHARS_MAX: usize = 8_000;

pub const TOOL: Tool = Tool {
    name: "preview_patch",
    about: include_str!("../../prompts/tools/preview_patch.md"),
    class: EffectClass::Pure,
    schema: schema_of::<Args>,
    touches: |json| {
        Ok(args::<Args>(json)?
            .edits
            .into_iter()
            .map(|edit| Touch::Read(edit.path))
            .collect())
    },
    action: Action::World {
        run: |call, reach: Arc<Reach>| blocking(call, reach, EffectClass::Pure, run),
        expect: None,
    },
};

fn run(approved: Approved<Args>, reach: &Reach) -> Outcome {
    let diff = |files: Vec<Planned>| {
        let diff = |file: &Planned| text::change(&file.path, Some(&file.before), &file.after).diff;
        let all = files
            .iter()
            .map(|file| diff(file).trim_end().to_owned())
            .collect::<Vec<_>>()
            .join("\n");
        Outcome::done(text::head_lines(
            &all,
            RESULT_CHARS_MAX,
            "; preview fewer edits to see them",
        ))
    };
    plan(&approved.get().edits, &reach.workspace).map_or_else(Outcome::failed, diff)
}
