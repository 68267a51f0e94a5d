//! `list_files`: which files there are.

use super::walk::{Step, Walk, Walked};
use super::{Action, Reach, Tool, args, blocking, schema_of, text};
use crate::agent::event::{EffectClass, Outcome};
use crate::gate::{Approved, Touch};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Paths named in one result; the rest is counted by folder.
const FILES_SHOWN_MAX: usize = 100;
const FOLDERS_SHOWN_MAX: usize = 20;

pub const TOOL: Tool = Tool {
    name: "list_files",
    about: include_str!("../../prompts/tools/list_files.md"),
    class: EffectClass::Pure,
    schema: schema_of::<Args>,
    touches: |json| {
        Ok(vec![Touch::Read(
            args::<Args>(json)?.path.unwrap_or_else(|| ".".into()),
        )])
    },
    action: Action::World {
        run: |call, reach: Arc<Reach>| blocking(call, reach, EffectClass::Pure, run),
        expect: None,
    },
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    path: Option<String>,
    glob: Option<String>,
}

fn run(approved: Approved<Args>, reach: &Reach) -> Outcome {
    let args = approved.get();
    list(args, reach).map_or_else(Outcome::failed, Outcome::done)
}

fn list(args: &Args, reach: &Reach) -> Result<String, String> {
    let walk = Walk::new(&reach.workspace, args.path.as_deref(), args.glob.as_deref())?;
    let mut shown = Vec::new();
    let mut rest: BTreeMap<String, usize> = BTreeMap::new();
    let walked = walk.files(&reach.workspace, |path| {
        if shown.len() < FILES_SHOWN_MAX {
            shown.push(path.to_owned());
        } else {
            let folder = path.rsplit_once('/').map_or(".", |(folder, _)| folder);
            *rest.entry(folder.to_owned()).or_default() += 1;
        }
        Step::On
    })?;
    if shown.is_empty() {
        return Ok("No files (hidden and ignored ones are not listed).".into());
    }
    let more: usize = rest.values().sum();
    if more > 0 {
        let by_folder = rest
            .iter()
            .take(FOLDERS_SHOWN_MAX)
            .map(|(folder, n)| format!("{folder}/ {n}"));
        let by_folder = by_folder.collect::<Vec<_>>().join(", ");
        let dots = if rest.len() > FOLDERS_SHOWN_MAX {
            ", …"
        } else {
            ""
        };
        let at_least = if walked == Walked::TooMany {
            "at least "
        } else {
            ""
        };
        shown.push(format!(
            "[{at_least}{} omitted; narrow it by path or glob: {by_folder}{dots}]",
            text::count(more, "more file")
        ));
    }
    Ok(shown.join("\n"))
}
