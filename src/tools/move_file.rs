//! `move_file`: a file gets another name, and keeps content and mode. It never takes the place of another one.

use super::delete_file::{File, file, unread};
use super::{Action, Reach, Tool, args, blocking, schema_of, text};
use crate::agent::event::{EffectClass, Expectation, ExpectedFile, Outcome};
use crate::gate::{Approved, Touch};
use crate::world::workspace::{Open, Standing, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

pub const TOOL: Tool = Tool {
    name: "move_file",
    about: include_str!("../../prompts/tools/move_file.md"),
    class: EffectClass::Probeable,
    schema: schema_of::<Args>,
    touches: |json| {
        let Args { from, to } = args(json)?;
        Ok(vec![Touch::Write(from), Touch::Write(to)])
    },
    action: Action::World {
        run: |call, reach: Arc<Reach>| blocking(call, reach, EffectClass::Probeable, run),
        expect: Some(expect),
    },
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    from: String,
    to: String,
}

/// The old name goes and the new one has its content. A call that will fail changes nothing.
fn expect(json: &Value, workspace: &Workspace) -> Option<Expectation> {
    let Args { from, to } = args(json).ok()?;
    let (from, to) = (workspace.file(&from).ok()?, free(&to, workspace).ok()?);
    let digest = Some(workspace.digest(&from)?);
    let file = |path, before, after| ExpectedFile {
        path,
        before,
        after,
    };
    Some(Expectation {
        files: vec![file(from, digest.clone(), None), file(to, None, digest)],
        ..Expectation::default()
    })
}

fn run(approved: Approved<Args>, reach: &Reach) -> Outcome {
    rename(approved.get(), reach).unwrap_or_else(Outcome::failed)
}

fn rename(args: &Args, reach: &Reach) -> Result<Outcome, String> {
    let workspace = &reach.workspace;
    let File {
        place: from,
        digest,
        content,
    } = file(&args.from, reach)?;
    let to = free(&args.to, workspace)?;
    workspace.rename(&from, &to).map_err(|e| e.to_string())?;
    workspace.notes().wrote(&to, digest);
    let change = match &content {
        Some(content) => text::change(Some((&from, content)), Some((&to, content))),
        None => unread(to.clone()),
    };
    let mut outcome = Outcome::done(format!("Moved {from} to {to}."));
    outcome.changes = vec![change];
    Ok(outcome)
}

/// The one name of a path where nothing is.
fn free(to: &str, workspace: &Workspace) -> Result<String, String> {
    let is_folder = workspace.open(to, Open::Folder).is_ok();
    if is_folder || to.ends_with('/') {
        return Err(format!(
            "{to} names a folder; give the file's whole new path"
        ));
    }
    match workspace.standing(to).map_err(|e| e.to_string())? {
        Standing::Nothing { place } => Ok(place),
        Standing::Something { .. } | Standing::Link { .. } => Err(format!(
            "{to} exists, and nothing is replaced by a move; delete it first, or choose another name"
        )),
    }
}
