//! `preview_patch`: what `apply_patch` would do, as a unified diff. Writes nothing.

use super::apply_patch::{change, remarks};
use super::patch::{Args, Plan, Script, plan};
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
        let paths = Script::read(&args(json)?)?.into_paths();
        Ok(paths.into_iter().map(Touch::Read).collect())
    },
    action: Action::World {
        run: |call, reach: Arc<Reach>| blocking(call, reach, EffectClass::Pure, run),
        expect: None,
    },
};

fn run(approved: Approved<Args>, reach: &Reach) -> Outcome {
    plan(approved.get(), &reach.workspace).map_or_else(Outcome::failed, |plan| show(&plan))
}

fn show(plan: &Plan) -> Outcome {
    let changes = plan.files.iter().filter_map(|file| change(file, plan));
    let diffs: Vec<String> = changes.map(|c| c.diff.trim_end().to_owned()).collect();
    let hint = "; preview fewer edits to see them";
    let shown = text::head_lines(&diffs.join("\n"), RESULT_CHARS_MAX, hint);
    Outcome::done(format!("{shown}{}", remarks(plan)))
}
